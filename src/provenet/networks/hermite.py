"""Hermite polynomials of the standard normal distribution, and coefficients of functions in them.

`He_k` is the probabilists' Hermite polynomial (ATV21, appendix A), `h_k = He_k / sqrt(k!)` the
orthonormal one (GLM17).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy import special

from provenet.common.typing import Array


def he(k: int, x: Array | float) -> Array:
    """Probabilists' Hermite polynomial `He_k(x)`."""
    return np.asarray(special.eval_hermitenorm(k, np.asarray(x, dtype=float)))


def h(k: int, x: Array | float) -> Array:
    """Orthonormal Hermite polynomial `h_k(x) = He_k(x) / sqrt(k!)`."""
    return he(k, x) / math.sqrt(math.factorial(k))


def hermite_rows(X: Array, degree: int) -> Array:
    """Products of orthonormal Hermite polynomials of the columns of X, one product a row.

    Of total degree up to `degree`, the constant first: `binomial(degree + d, d)` rows of n values.
    """
    n, d = X.shape
    rows = np.empty((math.comb(degree + d, d), n))
    rows[0] = 1
    powers, count = [degree], 1
    for x in X.T:
        table = [np.ones(n), x]
        for k in range(2, degree + 1):
            table.append((x * table[-1] - np.sqrt(k - 1) * table[-2]) / np.sqrt(k))
        for j, left in enumerate(list(powers)):
            for k in range(1, left + 1):
                np.multiply(rows[j], table[k], out=rows[count])
                powers.append(left - k)
                count += 1
    return rows


def normal_density(x: Array | float) -> Array:
    """Density `phi` of the standard normal distribution."""
    return np.exp(-0.5 * np.square(x)) / math.sqrt(2 * math.pi)


def normal_cdf(x: Array | float) -> Array:
    """Distribution function `Phi` of the standard normal distribution."""
    return np.asarray(special.ndtr(x))


def quadrature_coefficient(
    function: Callable[[Array], Array],
    k: int,
    breakpoints: Sequence[float] = (),
    *,
    reach: float = 12.0,
    nodes: int = 200,
) -> float:
    """`E[function(g) He_k(g)]`, g standard normal, by Gauss-Legendre between the break points.

    `reach` standard deviations hold all but 1e-32 of the mass; a kink or jump of `function` must be
    named in `breakpoints`, because only then does the quadrature converge geometrically.
    """
    inner = sorted(p for p in breakpoints if -reach < p < reach)
    edges = np.array([-reach, *inner, reach])
    x, weight = _legendre(nodes)
    half = np.diff(edges)[:, None] / 2
    points = (edges[:-1, None] + half) + half * x
    values = function(points) * he(k, points) * normal_density(points)
    return float(np.sum(half * weight * values))


_legendre = cache(leggauss)  # an eigenvalue problem, so solved once
