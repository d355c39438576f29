"""Residuals: their rounding level, tests of the noise, and robust standard errors.

The covariance of least squares supposes noise of one size, independent from sample to sample, and a
network that is linear in its parameters as far as these are uncertain. Each is tested:

- *Heteroscedasticity* (White 1980): squared residuals are regressed on the squares and sizes of
  every unit's argument, on the inputs, their length and the network's values. If they depend on
  these, the covariance is White's (`covariance`).
- *Autocorrelation* (Newey and West 1987): noise correlated with that of earlier samples moves the
  mean, and with it the output bias, by `sqrt(1 + 2 sum_k rho_k)` times as much as independent
  noise, rho_k being the correlation at lag k. All errors are widened by that.
- *Curvature*: a critical point of uncertain place, or two units that are nearly one, are not
  linear. If a unit's direction is uncertain, new labels are drawn from the answer, `f(x) + r v`
  with residuals r and random signs v (the wild bootstrap: it keeps heteroscedasticity), and refits
  to them scatter as far as the estimate does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import f as f_distribution

from provenet.common.typing import EPS, TINY, Array
from provenet.data.sources import ArraySource, Source
from provenet.data.standardisation import Standardisation
from provenet.fitting.context import Context
from provenet.fitting.covariance import StandardErrors, covariance
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.networks.canonical import align_in_place
from provenet.networks.network import Network


def residual_on(samples: ArraySource, network: Network) -> float:
    """Root mean square residual of a network on samples."""
    return float(np.sqrt(np.mean((network(samples.X) - samples.y) ** 2)))


def outlier_ratio(residual: Array) -> float:
    """The largest residual over the median, of the output for which it is largest.

    Some 5 for Gaussian noise, and 40 for 10,000 samples of Student's t with three degrees of
    freedom. Far more, and most samples are explained far better than a few: labels are wrong, or
    units that act on a few samples are missing.
    """
    columns = np.abs(residual.reshape(len(residual), -1))
    return float(np.max(columns.max(axis=0) / np.maximum(np.median(columns, axis=0), TINY)))


def rounding_level(network: Network, X: Array) -> Array:
    """Root mean square rounding error of each output of the network, evaluated at the rows of X.

    A layer rounds the terms of its sums and its values; the weights above propagate that.
    """
    h, error = np.asarray(X, float), np.zeros(np.shape(X))
    *hidden, (A, c) = network.affine_maps
    for W, b in hidden:
        z = h @ W.T + b
        moved = error @ np.abs(W).T + EPS * (np.abs(h) @ np.abs(W).T + np.abs(b))
        h = network.activation(z)
        error = np.abs(network.activation.derivative(z)) * moved + EPS * np.abs(h)
    total = error @ np.abs(A).T + EPS * (np.abs(h) @ np.abs(A).T + np.abs(c))
    if network.linear is not None:
        total += EPS * np.abs(X) @ np.abs(np.atleast_2d(network.linear)).T
    level = np.sqrt(np.mean(total**2, axis=0))
    return np.asarray(level[0] if network.outputs is None else level)


def scale_outputs(network: Network, scale: Array) -> Network:
    """The network with each output multiplied by a number."""
    return network.replace(
        output_weights=(network.output_weights.T * scale).T,
        output_bias=network.output_bias * scale,
        linear=None if network.linear is None else (network.linear.T * scale).T,
    )


@dataclass(frozen=True)
class RobustErrors:
    """Standard errors of outputs over their scale, and why they were widened."""

    errors: StandardErrors
    warnings: tuple[str, ...] = ()
    uneven: bool = False
    """Whether the size of the noise depends on the inputs."""


def robust_errors(
    context: Context, network: Network, scale: Array, linearised: StandardErrors
) -> RobustErrors:
    """Of a least-squares network on standardised inputs, its outputs divided by `scale`."""
    standardisation, source = context.standardisation, context.source
    samples = ArraySource(context.drawn.X, context.drawn.y / scale)
    scaled = scale_outputs(network, 1 / scale)
    user = standardisation.network_to_user(network)
    errors, warnings, p = linearised, list[str](), scaled.weights.size + scaled.output_weights.size
    uneven = p <= 1000 and samples.labels > 2 * p and is_heteroscedastic(samples, scaled)
    if uneven:
        found = covariance(samples, scaled, standardisation, heteroscedastic=True)
        errors = found.standard_errors(np.sqrt(samples.size / max(source.size, samples.size)))
        warnings.append(
            "The noise is not of the same size everywhere; standard errors take that into account "
            "(White 1980)."
        )
    factor = autocorrelation_factor(source, user)
    if factor > 1:
        errors = errors.scaled(factor, factor)
        warnings.append(
            "The noise of a sample is like that of the one before; standard errors are widened by "
            f"{factor:.1f}, which the output bias needs most."
        )
    everything = samples.size == source.size  # else the last fit had more, and errors are smaller
    if everything and directions_are_uncertain(user.normalised(), errors):
        wider = wild_bootstrap(samples, scaled, standardisation, errors, context.rng)
        if wider is not None:
            errors, factors = wider
            units = np.flatnonzero(factors > 1.25).tolist()
            if units:
                warnings.append(
                    f"Linearised errors of units {units} are too small: refits of labels made anew "
                    f"from the answer scatter up to {factors.max():.1f} times as far. Standard "
                    "errors are widened by that."
                )
    return RobustErrors(errors, tuple(warnings), uneven)


def is_heteroscedastic(samples: ArraySource, network: Network, level: float = 1e-3) -> bool:
    """Whether the size of the residuals depends on the inputs (F-test)."""
    X, y = samples.rows(0, min(5000, samples.size))
    value = network(X).reshape(len(X), -1)
    squares = (y.reshape(len(y), -1) - value) ** 2
    z = np.abs(X @ network.weights.T + network.biases)
    A = np.column_stack([np.ones(len(X)), z, z**2, X, np.sum(X**2, axis=1), value, value**2])
    spare, more = len(X) - A.shape[1], A.shape[1] - 1
    if spare <= more + 1:
        return False
    q = np.linalg.qr(A)[0]
    total = np.sum((squares - squares.mean(axis=0)) ** 2, axis=0)
    unexplained = np.sum((squares - q @ (q.T @ squares)) ** 2, axis=0)
    F = (total - unexplained) / more / np.maximum(unexplained / spare, TINY)
    return bool(np.min(f_distribution.sf(F, more, spare)) < level / len(F))


def autocorrelation_factor(source: Source, user: Network, sigmas: float = 4.0) -> float:
    """The factor by which errors exceed those of independent noise; 1 if none is significant."""
    if not source.fixed:
        return 1.0
    X, y = source.rows(0, min(source.size, 20_000))
    largest, lags = 1.0, int(2 * np.cbrt(len(X)))
    for r in (y - user(X)).reshape(len(X), -1).T:
        r = r - r.mean()
        power = float(r @ r)
        if len(r) <= 2 * lags or power == 0:
            continue
        rho = np.array([float(r[k:] @ r[:-k]) / power for k in range(1, lags + 1)])
        if rho[0] * np.sqrt(len(r)) >= sigmas:
            triangle = 1 - np.arange(1, lags + 1) / (lags + 1)
            largest = max(largest, float(np.sqrt(max(1 + 2 * float(triangle @ rho), 1.0))))
    return largest


def directions_are_uncertain(user: Network, errors: StandardErrors, angle: float = 0.03) -> bool:
    """Whether a unit's direction is, in radians or relative to the distance of the nearest unit."""
    w = user.weights / np.maximum(np.linalg.norm(user.weights, axis=1, keepdims=True), TINY)
    apart = np.linalg.norm(w[:, None] - w, axis=2) + np.abs(user.biases[:, None] - user.biases)
    np.fill_diagonal(apart, 1.0)
    nearest = np.minimum(apart.min(axis=1), 1.0)
    return bool(np.any(np.linalg.norm(errors.weights, axis=1) > angle * nearest))


def wild_bootstrap(
    samples: ArraySource,
    network: Network,
    standardisation: Standardisation,
    errors: StandardErrors,
    rng: np.random.Generator,
    *,
    refits: int = 30,
    steps: int = 12,
    work: float = 2e10,
) -> tuple[StandardErrors, Array] | None:
    """Errors at least as large as the scatter of refits, and the largest factor of each unit.

    The factor is a ratio of root mean squares, of a parameter or of its kind over all units. None
    if the refits would take more than `work` multiplications.
    """
    start = Parameters.of(network)
    if refits * steps * samples.size * start.ravel().size ** 2 > work:
        return None
    fitted, user = network(samples.X), standardisation.network_to_user(network).normalised()
    r = samples.y - fitted
    r *= np.sqrt(samples.labels / max(samples.labels - network.free_parameters, 1))
    by_unit, constants = [], []
    for _ in range(refits):
        y = fitted + (r.T * rng.choice([-1.0, 1.0], size=samples.size)).T
        fit = refine(
            ArraySource(samples.X, y),
            start,
            network.activation,
            spread=float(np.std(y)),
            iterations=steps,
            tolerance=1e-5,
            damping=1e-6,
        )
        found = standardisation.network_to_user(fit.parameters.network(network.activation))
        other = align_in_place(found.normalised(), user)
        own, mine, sizes = (_by_unit(n) for n in (other, user, errors))
        with np.errstate(over="ignore"):  # of an error of zero
            by_unit.append(np.minimum(((own - mine) / np.maximum(sizes, TINY)) ** 2, 1e12))
        change = (other.output_bias - user.output_bias) / np.maximum(errors.output_bias, TINY)
        constants.append(np.mean(np.minimum(change**2, 1e12)))
    mean = np.mean(by_unit, axis=0)
    factor = np.sqrt(np.maximum(np.maximum(mean, mean.mean(axis=0)), 1.0))
    d = network.features
    wider = replace(
        errors,
        weights=errors.weights * factor[:d].T,
        biases=errors.biases * factor[d],
        output_weights=errors.output_weights * factor[d + 1 :].reshape(errors.output_weights.shape),
        output_bias=errors.output_bias * np.sqrt(max(np.mean(constants), 1.0)),
    )
    return wider, factor.max(axis=0)


def _by_unit(of: Network | StandardErrors) -> Array:
    """Weights, bias and output weights, a column a unit."""
    return np.vstack([of.weights.T, of.biases, np.atleast_2d(of.output_weights)])
