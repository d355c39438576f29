"""Directions of the units under an unknown top, from moments of the labels (GP19, step 1).

High thresholds make products of units rare, so the labels' moments are nearly those of the linear
part of the top: `T_k ~ sum_i c_i u_k w_i^(x)k` (Lemma 2). Three ways to the w_i from there:

- *one by one* (section 2.1): minimise `-E[f H_4(z.x)] + lambda (E[f H_2(z.x)] - u_2)^2` over
  vectors z; its minima are the columns of `(T W)^{-1}`, so the units are read off the inverse when
  all are found (ERRATA, GP19 18). Each is kept orthogonal, in the norm of `T_2`, to those before;
- *simultaneous* (appendix B.4): the objective F of `landscape` on the same moments;
- *decomposition*: power iteration and the fit in moment space of the main job, thresholds free.
  It uses `T_3` too and estimates each unit's own threshold: the strongest, and the default.

Signs: units fire for large `w.x`, so `u_3 / u_2` is positive for thresholds above 1 (step) or 0
(ReLU), whatever the sign of `c_i`; orders 2 and 3 are free of the overlaps that mislead `T_1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.fitting.context import Context
from provenet.landscape.constants import Constants, constants_for_F
from provenet.landscape.designed import Design
from provenet.landscape.fourth_order import DenseFourth
from provenet.landscape.newton import minimise
from provenet.landscape.statistics import Statistics, largest_error
from provenet.lowest_layer.direction_errors import Sensitivity
from provenet.lowest_layer.tolerances import (
    FIRST_THRESHOLD,
    FOURTH_ROUNDS,
    PENALTY,
    SETTLED_CURVATURE,
    SETTLED_SLOPE,
)
from provenet.moments.decomposition import fit_moments, power_directions
from provenet.moments.hermite import MomentRequest, Moments, estimate_moments
from provenet.moments.subspace import Span, span_of_units
from provenet.networks.activations import Activation

WAYS = ("decomposition", "simultaneous", "one-by-one")


@dataclass(frozen=True)
class Directions:
    """Units up to what the top hides: unit rows, and their thresholds where they were estimated."""

    weights: Array
    thresholds: Array


def directions(
    moments: Moments,
    activation: Activation,
    threshold: float | None,
    rng: np.random.Generator,
    way: str = WAYS[0],
) -> Directions:
    """As many unit directions as the moments (inside the span of the units) have dimensions."""
    t = FIRST_THRESHOLD if threshold is None else threshold
    if way == "decomposition":
        W, b = _by_decomposition(moments, activation, t, rng)
    else:
        W, b = _by_objective(moments, activation, t, rng, way), None
        if threshold is None and not _consistent(moments, activation, W):
            other = _by_objective(moments, activation, t, rng, way, -1.0)
            W = other if _consistent(moments, activation, other, -1.0) else W
    W = _signed(moments, W)
    if b is None or threshold is not None:
        return Directions(W, np.full(len(W), t))
    return Directions(W, np.abs(b))


def _by_objective(
    moments: Moments,
    activation: Activation,
    threshold: float,
    rng: np.random.Generator,
    way: str,
    turn: float = 1.0,
) -> Array:
    """Units from the minima of the paper's objective; `turn` -1 takes u_4 for its opposite."""
    statistics, (_, c_4) = _statistics(moments, activation, threshold, turn)
    solve = _simultaneous if way == "simultaneous" else _one_by_one
    Z = solve(statistics, _weights(statistics, c_4, way), rng)
    return unit_rows(np.asarray(np.linalg.pinv(Z).T, float))


def _consistent(moments: Moments, activation: Activation, W: Array, turn: float = 1.0) -> bool:
    """Whether order 4 has the units with coefficients of the sign that was assumed of u_4.

    The objectives need no more of a threshold than this sign; for steps it turns at sqrt(3).
    """
    c_4 = turn * float(activation.hermite(4, -FIRST_THRESHOLD))
    return bool(np.all(moments.symmetric[4].coefficients(W) * c_4 > 0))


def _signed(moments: Moments, W: Array) -> Array:
    """Rows turned to where units fire."""
    second, third = (moments.symmetric[k].coefficients(W) for k in (2, 3))
    return np.asarray(W * np.where(second * third < 0, -1.0, 1.0)[:, None])


def _by_decomposition(
    moments: Moments, activation: Activation, threshold: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    W = _signed(moments, power_directions(moments.symmetric, moments.errors, rng))
    fit = fit_moments(moments.symmetric, activation, W, np.full(len(W), -threshold))
    return fit.W, fit.b


def _statistics(
    moments: Moments, activation: Activation, threshold: float, turn: float = 1.0
) -> tuple[Statistics, tuple[float, float]]:
    """`sum c w w^T` and `sum c w^(x)4`, as the objectives of GLM17 want them, with u_2 and u_4."""
    c_2, c_4 = (float(activation.hermite(k, -threshold)) for k in (2, 4))
    c_4 *= turn
    if min(abs(c_2), abs(c_4)) < 1e-12:
        raise NoAnswer(
            f"Orders 2 and 4 do not see {activation.name} units of threshold {threshold:g}: use "
            'the way "decomposition", which has order 3 too (leave faithful out).'
        )
    N = moments.tensors[2] / c_2
    if np.linalg.eigvalsh(N)[0] <= 0:
        raise NoAnswer(
            "Some unit's linear coefficient in the top is not positive, which these objectives "
            'need: leave faithful out (the way "decomposition" does not need it).'
        )
    error = largest_error(moments.errors[4] / abs(c_4), len(N))
    return Statistics((N, N), DenseFourth(moments.tensors[4] / c_4), error), (c_2, c_4)


def _largest_fourth(statistics: Statistics) -> float:
    """The largest value of `sum c w^(x)4` on vectors of norm 1 in N: `1 / c_i` of some unit."""
    inside = statistics.transformed(_inverse_root(statistics.norms[0]))
    S = np.eye(inside.features)
    for _ in range(FOURTH_ROUNDS):
        S = inside.fourth.matrix(S)
        size = float(np.linalg.norm(S))
        if size == 0:
            break
        S = S / size
    return size


def sensitivity(
    moments: Moments, activation: Activation, threshold: float | None, W: Array, way: str
) -> Sensitivity:
    """How the minima of an objective, the units W, answer to errors of the moments."""
    t, turn = FIRST_THRESHOLD if threshold is None else threshold, 1.0
    if threshold is None and not _consistent(moments, activation, W):
        turn = -1.0 if _consistent(moments, activation, W, -1.0) else 1.0
    statistics, u = _statistics(moments, activation, t, turn)
    return Sensitivity.of(moments, W, u, _weights(statistics, u[1], way))


def hermite_coefficients(activation: Activation, threshold: float | None) -> Array:
    """`E[u He_k]`, k = 0 .. 4, of a unit of that threshold, or of the one that is assumed."""
    t = FIRST_THRESHOLD if threshold is None else threshold
    return np.array([float(activation.hermite(k, -t)) for k in range(5)])


def _weights(statistics: Statistics, c_4: float, way: str) -> Constants:
    """Those of the terms of either objective."""
    if way == "one-by-one":
        # Below this the objective falls without end along a unit of small c.
        penalty = PENALTY * max(1.0, _largest_fourth(statistics))
        return Constants(0.0, attraction=abs(c_4), penalty=penalty * abs(c_4))
    return constants_for_F(statistics.spectrum, c_4, statistics.features, statistics.error)


def _simultaneous(statistics: Statistics, constants: Constants, rng: np.random.Generator) -> Array:
    m = statistics.features
    start = rng.standard_normal((m, m)) / np.sqrt(m) @ _inverse_root(statistics.norms[0])
    objective = Design(statistics, constants, m)
    return _minimum(objective, start)


def _minimum(objective: Design, start: Array) -> Array:
    return minimise(objective, start, slope=SETTLED_SLOPE, curvature=SETTLED_CURVATURE).B


def _one_by_one(statistics: Statistics, constants: Constants, rng: np.random.Generator) -> Array:
    """Rows z, each a minimum of the one-vector objective outside the span of those before."""
    N, m = statistics.norms[0], statistics.features
    whole = Design(statistics, constants, 1)
    found = np.empty((0, m))
    for _ in range(m):
        outside = np.linalg.svd(found @ N, full_matrices=True)[2][len(found) :]
        inside = Design(statistics.transformed(outside), constants, 1)
        start = rng.standard_normal((1, len(outside)))
        z = _minimum(inside, _scaled(inside, start)) @ outside
        # Deflation errs as the moments do: a last descent is free of the rows before.
        z = _minimum(whole, z)
        found = np.vstack([found, z])
    return found


def _scaled(objective: Design, z: Array) -> Array:
    """z with `z^T N z = 1`."""
    return np.asarray(z / np.sqrt(float(z[0] @ objective.norms[0] @ z[0])))


def _inverse_root(N: Array) -> Array:
    values, vectors = np.linalg.eigh(N)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def unit_rows(W: Array) -> Array:
    """Rows of norm 1."""
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


def layer_span(context: Context) -> Span:
    """The span of the units, from `T_2`, if they all stand above its sampling error."""
    with context.stage("moments", "order 2"):
        full = estimate_moments(context.source, MomentRequest(context.standardisation, order=2))
    span = span_of_units(full.tensors[2], full.errors[2], context.units)
    strongest, level = float(np.abs(span.eigenvalues[0])), span.noise_level
    if span.rank and np.abs(span.eigenvalues[span.rank - 1]) > level:
        return span
    asked = 1 if context.units is None else context.units
    weakest = strongest if context.units is None else np.abs(span.eigenvalues[asked - 1])
    needed = context.source.size * (2 * level / max(float(weakest), 1e-300)) ** 2
    raise NoAnswer(
        f"{int(np.sum(np.abs(span.eigenvalues) > level))} of {asked} units stand above the "
        "sampling error of the second moment: thresholds are too high for this many samples. About "
        f"{needed:.0e} samples would be needed."
    )


def angle_errors(moments: Moments, W: Array) -> Array:
    """Radians by which sampling alone turns each direction, from the order that sees it best.

    `T_k(w, .., w, .)` is off by `sqrt((k - 1)!)` times what an entry is in each direction.
    """
    per_order = []
    for k in (3, 4):
        size = np.maximum(np.abs(moments.symmetric[k].coefficients(W)), 1e-300)
        error = moments.errors[k] * np.sqrt(factorial(k - 1) * W.shape[1])
        per_order.append(error / size)
    return np.asarray(np.min(per_order, axis=0))
