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
that of the network plus a location of the noise, which nothing can tell apart.

Several outputs with structured noise (the same huge offset on all outputs of a sample, say) are
whitened first, by Tyler's scatter matrix (1987), the fixed point of

    S = (m / n) sum_n  r_n r_n^T / (r_n^T S^-1 r_n)       (m outputs),

which exists whatever the tails. In whitened coordinates the noisy directions count little. Labels
that are far off one by one, not sample by sample, are better left unmixed: the data decide.

All functions work on arrays in memory: Y (n, outputs); cost n outputs^2 a round of the scatter, and
what `fit` and `predict` take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from provenet.common.typing import EPS, TINY, Array
from provenet.data.sources import ArraySource
from provenet.fitting.covariance import StandardErrors
from provenet.fitting.least_squares import Ended, refine
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.activations import RELU, Activation
from provenet.networks.network import Network

Model = TypeVar("Model")

HUBER = 1.345
"""Threshold in standard deviations that keeps 95% of the efficiency when the noise is Gaussian."""


def robust_scale(R: Array) -> Array:
    """Median absolute residual of each output, scaled to the standard deviation of a Gaussian.

    Where half of the residuals or more are zero: what rounding could make of them; or 1.
    """
    size = np.abs(R)
    rounding = EPS * np.quantile(size, 0.9, axis=0)
    scale = np.maximum(1.4826 * np.median(size, axis=0), rounding)
    return np.where(scale > 0, scale, 1.0)


def usual_size(R: Array) -> Array:
    """The same, but not small because half of the residuals lie close to zero.

    So do the labels of a single unit with hardly any noise: half of them are equal.
    """
    return np.maximum(robust_scale(R), 0.5 * np.quantile(np.abs(R), 0.6, axis=0))


def corrected_residuals(R: Array, scale: Array, threshold: float = HUBER) -> Array:
    """`s psi(r / s) / E[psi']`, output by output: winsorised, then enlarged by what that lost.

    Labels `f(x)` plus these have the least-squares fit f where Huber's estimate is f, and give it
    the right standard errors: its variance is that of least squares with noise of the variance
    `s^2 E[psi^2] / E[psi']^2` (Huber 1973).
    """
    reach = threshold * scale
    slope = np.mean(np.abs(R) <= reach, axis=0)
    return np.asarray(np.clip(R, -reach, reach) / np.maximum(slope, 0.05))


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

        Errors of different outputs of a unit are taken for unrelated, as whitened noise is.
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

    A direction that hardly any row has a share in gets a small but positive value. The iteration
    converges linearly, and where it is stopped is no matter: every round is a valid weighting.
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
    1/det). It does where noise is shared by outputs. Where single labels are far off by themselves
    every mixture of outputs would only spread them.
    """
    middle = np.median(R, axis=0)
    centred = R - middle
    values, vectors = np.linalg.eigh(scatter(centred))
    root = (vectors / np.sqrt(values)) @ vectors.T
    mixed, alone = root / usual_size(centred @ root), np.diag(1 / usual_size(centred))
    tighter = np.linalg.slogdet(mixed)[1] - np.linalg.slogdet(alone)[1]
    forward = mixed if tighter > 0.05 * R.shape[1] else alone
    return Whitening(middle, forward, np.linalg.inv(forward))


@dataclass(frozen=True)
class RobustFit(Generic[Model]):
    """Where the iteration on pseudo-labels ended."""

    model: Model
    predicted: Array
    """The model's values."""
    labels: Array
    """The last pseudo-labels."""
    scale: Array
    """Scale of the residuals, one an output."""
    clipped: float
    """Share of labels that were drawn in."""
    loss: float
    """Huber's objective."""
    iterations: int
    ended: Ended


def robust_fit(
    Y: Array,
    start: Model,
    predict: Callable[[Model], Array],
    fit: Callable[[Array, Model], Model],
    *,
    threshold: float = HUBER,
    tolerance: float = 1e-3,
    iterations: int = 40,
    scale: Array | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> RobustFit[Model]:
    """Huber's estimate: refit by `fit(pseudo_labels, model)` until the predictions rest.

    They rest when they move by less than `tolerance` of the residuals' scale (root mean square),
    which is taken to be at least a millionth of the labels'.
    `fit` need not converge: one step that lowers the sum of squares is enough. A `scale` given is
    kept; otherwise it follows the residuals.
    """
    floor = 1e-6 * usual_size(Y - np.median(Y, axis=0))
    predicted = predict(start)
    state = _state(start, Y, predicted, floor, scale, threshold, 0, Ended.OUT_OF_STEPS)
    for iteration in range(1, iterations + 1):
        if out_of_time():
            return replace(state, ended=Ended.OUT_OF_TIME)
        model = fit(state.labels, state.model)
        new = predict(model)
        move = float(np.sqrt(np.mean(((new - predicted) / state.scale) ** 2)))
        predicted = new
        ended = Ended.CONVERGED if move < tolerance else Ended.OUT_OF_STEPS
        state = _state(model, Y, predicted, floor, scale, threshold, iteration, ended)
        if ended is Ended.CONVERGED:
            break
    return state


@dataclass(frozen=True)
class WeightedFit:
    """Huber's estimate of a network, and labels on which plain least squares would find it."""

    network: Network
    fit: RobustFit[Parameters]
    """In labels whitened by the scatter."""
    whitened: Array
    """These labels."""
    labels: Array
    """The network's values plus winsorised, corrected residuals, evened."""
    white: Whitening | None
    """What `labels` are whitened by, if they are."""
    unevenness: float
    """How much larger their noise was along its worst direction of the outputs than its best."""
    ended: Ended
    """How the last of its iterations ended."""


def evened(
    predicted: Array, R: Array, uneven: float = 2.0
) -> tuple[Array, Whitening | None, float]:
    """Labels `predicted + R` whose noise is about the same in all directions of the outputs.

    Left alone where it is so already; otherwise whitened by the covariance of R, the noise keeping
    its typical size. Also returned: the whitening, and by how much the noise was uneven.
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


def huber_network(
    X: Array,
    Y: Array,
    start: Parameters,
    activation: Activation,
    *,
    tolerance: float,
    scale: Array | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> RobustFit[Parameters]:
    """Huber's estimate of a network: rounds of two Levenberg-Marquardt steps on pseudo-labels."""

    def predict(p: Parameters) -> Array:
        return Linearisation.of(p, activation, X).values.reshape(len(X), *p.beta.shape[1:])

    def fit(labels: Array, p: Parameters) -> Parameters:
        samples = ArraySource(X, labels)
        return refine(samples, p, activation, spread=1.0, iterations=3, tolerance=0.0).parameters

    return robust_fit(
        Y, start, predict, fit, tolerance=tolerance, scale=scale, out_of_time=out_of_time
    )


def huber_weighted(
    X: Array, Y: Array, network: Network, out_of_time: Callable[[], bool] = lambda: False
) -> WeightedFit:
    """Huber's estimate of a network of ReLU units, weighted by the scatter of its residuals.

    In two rounds: the second has the weights of a fit that was weighted. Then least squares on
    labels evened by the covariance of winsorised residuals; unlike raw labels these can be mixed
    without spreading what is far off.
    """
    for _ in range(2):
        white = whitening(Y - network(X))
        Z = white.apply(Y)
        start = Parameters.of(white.whitened(network))
        tolerance = 0.1 / np.sqrt(len(X))  # a tenth of the predictions' standard error
        fit = huber_network(X, Z, start, RELU, tolerance=tolerance, out_of_time=out_of_time)
        network = white.restored(fit.model.network(RELU))

    def repaired() -> tuple[Array, Whitening | None, float]:
        predicted = network(X)
        residual = corrected_residuals(Z - white.apply(predicted), fit.scale)
        return evened(predicted, residual @ white.backward)

    ended, (labels, even, unevenness) = fit.ended, repaired()
    for _ in range(2):
        if even is None or out_of_time():
            break
        start = Parameters.of(even.whitened(network))
        samples = ArraySource(X, labels)
        again = refine(samples, start, RELU, spread=1.0, iterations=10, tolerance=1e-9)
        network, ended = even.restored(again.parameters.network(RELU)), again.ended
        labels, even, unevenness = repaired()
    return WeightedFit(network, fit, Z, labels, even, unevenness, ended)


def _state(
    model: Model,
    Y: Array,
    predicted: Array,
    floor: Array,
    scale: Array | None,
    threshold: float,
    iteration: int,
    ended: Ended,
) -> RobustFit[Model]:
    """Pseudo-labels, scale and loss at a model."""
    R = Y - predicted
    s = np.maximum(robust_scale(R), floor) if scale is None else scale
    t = np.abs(R) / s
    inside = np.minimum(t, threshold)
    return RobustFit(
        model,
        predicted,
        predicted + np.clip(R, -threshold * s, threshold * s),
        s,
        clipped=float(np.mean(t > threshold)),
        loss=float(np.mean(inside * (t - inside / 2))),
        iterations=iteration,
        ended=ended,
    )
