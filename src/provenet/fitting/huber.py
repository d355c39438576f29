"""Fitting by least squares where least squares fails: Huber's estimate through pseudo-labels.

Labels `y = f(x) + e` whose noise e is independent of x but has heavy tails, structure or no
variance at all. Huber's M-estimate (1964; regression: 1973) minimises `sum rho_c(r / s)` over the
residuals r = y - f(x), with rho_c quadratic up to c and linear beyond; s is their scale. It is the
fixed point of

    y* = f(x) + s psi_c((y - f(x)) / s),   psi_c(t) = min(c, max(-c, t))
    f <- least squares on (x, y*)

(the winsorised residuals of Huber and Dutter, 1974): each round lowers the objective, the error
shrinks by the share of clipped residuals, and whoever can fit by least squares can fit robustly.
With a free output bias no symmetry of e is needed: the bias settles where `E psi(e - bias) = 0`,
and then `E[psi | x] = 0` for every x, because e does not depend on x. The bias itself is therefore
that of the network plus a location of the noise, which cannot be distinguished.

Several outputs with structured noise (the same huge offset on all outputs of a sample, say) are
whitened first, by Tyler's scatter matrix (1987), the fixed point of

    S = (m / n) sum_n  r_n r_n^T / (r_n^T S^-1 r_n)       (m outputs),

which exists whatever the tails. In whitened coordinates the noisy directions count little. Outliers
that hit single labels, not whole samples, are better left unmixed: the data decide.

Arrays are in memory: Y (n, outputs); cost n outputs^2 a round of the scatter, and the fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import EPS, TINY, Array
from provenet.data.sources import ArraySource
from provenet.fitting.covariance import StandardErrors
from provenet.fitting.least_squares import Ended, refine
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.activations import RELU, Activation
from provenet.networks.network import Network

HUBER = 1.345
"""c, in standard deviations: 95% of the efficiency of least squares when the noise is Gaussian."""

# ---------------------------------------------------------------- scales


def robust_scale(R: Array) -> Array:
    """Median absolute residual of each output, scaled to the standard deviation of a Gaussian.

    If half of the residuals or more are zero: their largest rounding error; or 1.
    """
    size = np.abs(R)
    rounding = EPS * np.quantile(size, 0.9, axis=0)
    scale = np.maximum(1.4826 * np.median(size, axis=0), rounding)
    return np.where(scale > 0, scale, 1.0)


def usual_size(R: Array) -> Array:
    """The same of labels, of which half may be equal, as those of a single unit without noise."""
    return np.maximum(robust_scale(R), 0.5 * np.quantile(np.abs(R), 0.6, axis=0))


def corrected_residuals(R: Array, scale: Array) -> Array:
    """`s psi(r / s) / E[psi']`, output by output: winsorised, then enlarged by what that lost.

    Labels `f(x)` plus these have the least-squares fit f where Huber's estimate is f, and give it
    the right standard errors: its variance is that of least squares with noise of the variance
    `s^2 E[psi^2] / E[psi']^2` (Huber 1973).
    """
    reach = HUBER * scale
    slope = np.mean(np.abs(R) <= reach, axis=0)
    return np.asarray(np.clip(R, -reach, reach) / np.maximum(slope, 0.05))


# ---------------------------------------------------------------- whitening


@dataclass(frozen=True)
class Whitening:
    """`Z = (Y - centre) forward`: labels whose noise has scale one and no preferred direction."""

    centre: Array
    forward: Array
    backward: Array
    """The inverse of `forward`."""

    def apply(self, Y: Array) -> Array:
        """Whitened labels."""
        return np.asarray((Y - self.centre) @ self.forward)

    def whitened(self, network: Network) -> Network:
        """A network for the labels as one for whitened labels."""
        return _mapped(network, self.forward.T, -self.forward.T @ self.centre)

    def restored(self, network: Network) -> Network:
        """The inverse of `whitened`."""
        return _mapped(network, self.backward.T, self.centre)

    def restored_errors(
        self, found: Network, errors: StandardErrors
    ) -> tuple[Network, StandardErrors]:
        """A network of whitened labels and its errors as those of the labels, units in their order.

        Errors of a unit's different outputs count as uncorrelated, as whitened noise is.
        """
        squares = self.backward.T**2
        moved = replace(
            errors,
            output_weights=np.sqrt(squares @ errors.output_weights**2),
            output_bias=np.sqrt(squares @ np.asarray(errors.output_bias) ** 2),
            linear=None if errors.linear is None else np.sqrt(squares @ errors.linear**2),
        )
        return self.restored(found).normalised(), moved


def _mapped(network: Network, matrix: Array, shift: Array) -> Network:
    """The network whose outputs are `matrix f(x) + shift`."""
    constant = np.broadcast_to(network.output_bias, shift.shape)
    return network.replace(
        output_weights=matrix @ network.output_weights,
        output_bias=matrix @ constant + shift,
        linear=None if network.linear is None else matrix @ network.linear,
    )


def scatter(R: Array, rounds: int = 40) -> Array:
    """Tyler's scatter matrix of the rows of R, of trace `outputs`; positive definite always.

    The iteration converges linearly, and every round is a valid weighting.
    """
    m = R.shape[1]
    norms = np.linalg.norm(R, axis=1)
    R = R[norms > 0] / norms[norms > 0, None]
    S = np.eye(m)
    for _ in range(rounds if len(R) else 0):
        weights = 1 / np.einsum("ni,ni->n", R @ np.linalg.inv(S), R)
        new = (R * weights[:, None]).T @ R + 1e-10 * np.sum(weights) * np.eye(m) / m
        new *= m / np.trace(new)
        if np.abs(new - S).max() < 1e-6:
            return np.asarray(new)
        S = new
    return S


def whitening(R: Array) -> Whitening:
    """The whitening of residuals or labels R about their medians.

    By the symmetric root of the scatter, then each coordinate to scale one; or by the scales of the
    outputs alone, unless the scatter encloses the middle of the data more tightly (by the volume
    1/det). It does if outputs share noise. Outliers of single labels would be spread by any mixture
    of outputs.
    """
    middle = np.median(R, axis=0)
    centred = R - middle
    values, vectors = np.linalg.eigh(scatter(centred))
    root = (vectors / np.sqrt(values)) @ vectors.T
    mixed, alone = root / usual_size(centred @ root), np.diag(1 / usual_size(centred))
    tighter = np.linalg.slogdet(mixed)[1] - np.linalg.slogdet(alone)[1]
    forward = mixed if tighter > 0.05 * R.shape[1] else alone
    return Whitening(middle, forward, np.linalg.inv(forward))


def evened(
    predicted: Array, R: Array, uneven: float = 2.0
) -> tuple[Array, Whitening | None, float]:
    """Labels `predicted + R` whose noise is about the same in all directions of the outputs.

    Returned as they are if it is so already; otherwise whitened by the covariance of R, the noise
    keeping its typical size. Also returned: the whitening, and by how much the noise was uneven.
    """
    values, vectors = np.linalg.eigh(R.T @ R / len(R))
    levels = np.sqrt(np.maximum(values, 1e-10 * values[-1] + TINY))
    unevenness = float(levels[-1] / levels[0])
    if unevenness <= uneven:
        return predicted + R, None, unevenness
    relative = levels / np.exp(np.mean(np.log(levels)))
    centre = np.median(predicted, axis=0)
    white = Whitening(centre, (vectors / relative) @ vectors.T, (vectors * relative) @ vectors.T)
    return white.apply(predicted + R), white, unevenness


# ---------------------------------------------------------------- fits


@dataclass(frozen=True)
class RobustFit:
    """Where the iteration on pseudo-labels ended."""

    model: Parameters
    predicted: Array
    """The model's values."""
    scale: Array
    """Scale of the residuals, one an output."""
    clipped: float
    """Share of winsorised labels."""
    loss: float
    """Huber's objective."""
    ended: Ended


def huber_network(
    X: Array,
    Y: Array,
    start: Parameters,
    activation: Activation,
    *,
    tolerance: float,
    scale: Array | None = None,
    iterations: int = 40,
    out_of_time: Callable[[], bool] = lambda: False,
) -> RobustFit:
    """Huber's estimate of a network: rounds of two Levenberg-Marquardt steps on pseudo-labels.

    It ends when predictions move by less than `tolerance` of the residuals' scale (root mean
    square), which is at least a millionth of the labels'. A given `scale` is kept; otherwise it
    follows the residuals.
    """
    floor = 1e-6 * usual_size(Y - np.median(Y, axis=0))

    def evaluated(model: Parameters) -> RobustFit:
        predicted = Linearisation.of(model, activation, X).values.reshape(Y.shape)
        s = np.maximum(robust_scale(Y - predicted), floor) if scale is None else scale
        t = np.abs(Y - predicted) / s
        inside = np.minimum(t, HUBER)
        clipped, loss = float(np.mean(t > HUBER)), float(np.mean(inside * (t - inside / 2)))
        return RobustFit(model, predicted, s, clipped, loss, Ended.OUT_OF_STEPS)

    fit = evaluated(start)
    for _ in range(iterations):
        if out_of_time():
            return replace(fit, ended=Ended.OUT_OF_TIME)
        reach = HUBER * fit.scale
        labels = fit.predicted + np.clip(Y - fit.predicted, -reach, reach)
        samples, before = ArraySource(X, labels), fit
        steps = refine(samples, fit.model, activation, spread=1.0, iterations=3, tolerance=0.0)
        fit = evaluated(steps.parameters)
        move = np.sqrt(np.mean(((fit.predicted - before.predicted) / before.scale) ** 2))
        if move < tolerance:
            return replace(fit, ended=Ended.CONVERGED)
    return fit


@dataclass(frozen=True)
class WeightedFit:
    """Huber's estimate of a network, and labels on which plain least squares would find it."""

    network: Network
    fit: RobustFit
    """In labels whitened by the scatter."""
    whitened: Array
    """These labels."""
    labels: Array
    """The network's values plus winsorised, corrected residuals, evened."""
    white: Whitening | None
    """The whitening of `labels`, if their noise was uneven."""
    unevenness: float
    """Noise along its worst direction of the outputs, over that along its best."""
    ended: Ended
    """How the last of its iterations ended."""


def huber_weighted(
    X: Array, Y: Array, network: Network, out_of_time: Callable[[], bool] = lambda: False
) -> WeightedFit:
    """Huber's estimate of a network of ReLU units, weighted by the scatter of its residuals.

    In two rounds: the second has the weights of a fit that was weighted. Then least squares on
    labels evened by the covariance of winsorised residuals; unlike raw labels these can be mixed
    without spreading outliers.
    """
    for _ in range(2):
        white = whitening(Y - network(X))
        Z = white.apply(Y)
        start = Parameters.of(white.whitened(network))
        tolerance = 0.1 / np.sqrt(len(X))  # a tenth of the predictions' standard error
        fit = huber_network(X, Z, start, RELU, tolerance=tolerance, out_of_time=out_of_time)
        network = white.restored(fit.model.network(RELU))
    ended, refits = fit.ended, 0
    while True:
        predicted = network(X)
        residual = corrected_residuals(Z - white.apply(predicted), fit.scale)
        labels, even, unevenness = evened(predicted, residual @ white.backward)
        if even is None or refits == 2 or out_of_time():
            return WeightedFit(network, fit, Z, labels, even, unevenness, ended)
        start = Parameters.of(even.whitened(network))
        samples, refits = ArraySource(X, labels), refits + 1
        again = refine(samples, start, RELU, spread=1.0, iterations=10, tolerance=1e-9)
        network, ended = even.restored(again.parameters.network(RELU)), again.ended
