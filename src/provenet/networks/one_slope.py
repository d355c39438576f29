"""One slope below zero that all units share, from the linear part of a function.

With absolute values the function is `sum_i alpha_i |z_i| + v.x + c`. Units of slope s below zero
(`signs`) have, with `M_i = alpha_i w_i` and signs xi,

    v = rho sum_i xi_i M_i,    rho = (1 + s)/(1 - s).

The factor does not matter perpendicular to v: with `P = I - v v^T / |v|^2`

    sum_i xi_i P M_i = 0,

so with the first sign set the others are those of the linear part `-P M_1`, found as those of ReLU
are. Then `rho = v . M xi / |M xi|^2`. Reversing all signs reverses rho: it is taken to be positive,
so that s lies between -1 and 1 (a slope beyond is that of the opposite unit). No linear part at all
is rho = 0, the absolute value.

*What that is worth.* ReLU units beside a linear term would have to obey the same equations by
chance. Those of P M tell so many bits (`equation_bits`), of which every sign takes one. One unit,
or units whose hyperplanes are all parallel, leave none: any linear term along these is some slope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import Array
from provenet.networks.activations import ABS, Activation, leaky_relu
from provenet.networks.lattice_signs import equation_bits, lattice_signs
from provenet.networks.signs import Signs, signs_of_terms, unit_terms


@dataclass(frozen=True)
class OneSlope:
    """Units of one slope that explain a linear part."""

    activation: Activation
    signs: Signs
    spare_bits: float
    """What the equations tell beyond a bit a sign."""


def one_slope(
    alpha: Array,
    W: Array,
    v: Array,
    error: float,
    allowed: float,
    stopped: Callable[[], bool] = lambda: False,
) -> OneSlope | None:
    """The slope and the signs that leave at most `allowed` of v; None if there are none.

    `alpha` are the output weights of the absolute values, `error` is how well v is known.
    """
    M, v = unit_terms(alpha, W), v.ravel()
    units, size = M.shape[1], float(np.linalg.norm(v))
    if units == 0 or size <= allowed:
        found = Signs(np.ones(units), v)
        return OneSlope(ABS, found, equation_bits(M, error)) if units else None
    across = M - np.outer(v, v @ M) / size**2
    error *= 1 + float(np.linalg.norm(M)) / size
    first = _patterns(across, error, stopped)
    explained = [_with_factor(M, v, xi) for xi in first]
    good = [(rho, xi) for rho, xi in explained if np.linalg.norm(v - rho * M @ xi) <= allowed]
    if not good:
        return None
    rho, xi = good[0]
    others = tuple(other for _, other in good[1:])
    slope = (rho - 1) / (rho + 1)
    spare = equation_bits(across, error) - units
    return OneSlope(leaky_relu(slope), Signs(xi, v - rho * M @ xi, others), spare)


def _patterns(across: Array, error: float, stopped: Callable[[], bool]) -> list[Array]:
    """Signs, the first one positive, for which the terms across v sum to nothing."""
    rest, target = across[:, 1:], -across[:, 0]
    found = signs_of_terms(rest, target)
    if not found.complete:
        signs = lattice_signs(rest, target, error, stopped).signs
        found = found if signs is None else replace(found, signs=signs)
    return [np.append(1.0, xi) for xi in (found.signs, *found.alternatives)]


def _with_factor(M: Array, v: Array, xi: Array) -> tuple[float, Array]:
    """The positive rho that brings `rho M xi` nearest to v, with the signs that go with it."""
    explained = M @ xi
    rho = float(explained @ v) / max(float(explained @ explained), np.finfo(float).tiny)
    return (rho, xi) if rho > 0 else (-rho, -xi)
