"""The signs of many units in few features, by reducing a lattice.

The linear part of a function is `v = sum_i xi_i M_i` with signs xi (`signs`): one equation a
feature and output, each of some 36 bits where v and M are known to 1e-11. Hundreds of bits fix a
hundred signs, although far too many patterns could be tried: a subset sum of low density. Integer
vectors h whose m + 1 entries are all even or all odd, with the coordinates

    h_1, ..., h_m, h_0, (sum_i h_i M_i - h_0 v) / step,

are a lattice (Lagarias and Odlyzko 1985; Coster et al. 1992). The signs are a vector of length
about `sqrt(m + 1)` in it. All others are longer, by the bits that the equations have to spare. The
reduction of Lenstra, Lenstra and Lovasz finds a vector that is shorter than the others by about
`1.022^m`; where it just misses, it starts again with the units in another order.

Signs are believed if they leave no more than the errors of v and M, if so many equations do not
hold by chance, and if the reduced basis has no second vector as short as the difference of two
patterns that both solve them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from math import lgamma, log, pi
from typing import Any

import numpy as np

from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.networks.signs import unit_terms
from provenet.networks.tolerances import (
    BITS_A_UNIT,
    EQUATION_STEP,
    EQUATIONS_AT_ONCE,
    LATTICE_TRIES,
    MOST_LATTICE_UNITS,
    SPARE_BITS,
)


@dataclass(frozen=True)
class LatticeSigns:
    """The signs that the equations determine, or why they are open."""

    signs: Array | None
    reason: str
    """Where there are none: why, and what would decide, in a sentence."""


def signs_by_lattice(
    a: Array, W: Array, v: Array, error: float, stopped: Callable[[], bool] = lambda: False
) -> LatticeSigns:
    """The only signs xi with `sum_i xi_i a_i w_i / 2 = v` up to an error (of the norm)."""
    return lattice_signs(unit_terms(a, W) / 2, v.ravel(), error, stopped)


def lattice_signs(
    M: Array, v: Array, error: float, stopped: Callable[[], bool] = lambda: False
) -> LatticeSigns:
    """The only signs xi with `M xi = v` up to an error (of the norm)."""
    units = M.shape[1]
    bits = equation_bits(M, error)
    if bits < units + SPARE_BITS:
        return _open(f"the equations for {units} signs have {max(bits, 0):.0f} bits, too few.")
    if units > MOST_LATTICE_UNITS or equation_bits(M, _step(M)) < _least_bits(units):
        return _open(f"{bits:.0f} bits determine {units} signs, but no search finds so many.")
    if find_spec("flint") is None:
        return _open("python-flint may decide them: install provenet[lattice].")
    return _searched(M, v, error, stopped)


def equation_bits(M: Array, error: float) -> float:
    """How many bits of the signs `M xi = v` tells: `-log2` of the chance that random signs do.

    Random signs are about normal with covariance `M M^T`, whose density at its centre times the
    volume of the ball of radius `error` is that chance at most.
    """
    s = np.linalg.svd(M, compute_uv=False)
    s = s[s > error]
    k = len(s)
    log_ball = k / 2 * log(pi) - lgamma(k / 2 + 1)
    log_density = -k / 2 * log(2 * pi) - float(np.sum(np.log(s / error)))
    return -(log_ball + log_density) / log(2)


def _step(M: Array) -> float:
    return EQUATION_STEP * float(np.linalg.norm(M))


def _least_bits(units: int) -> float:
    return BITS_A_UNIT * units**2


def _tries(M: Array) -> int:
    """One where bits abound, else as many as the time of one allows."""
    units = M.shape[1]
    if equation_bits(M, _step(M)) > 2 * _least_bits(units):
        return 1
    return int(np.clip(LATTICE_TRIES * (100 / units) ** 5, 1, LATTICE_TRIES))


def _open(reason: str) -> LatticeSigns:
    return LatticeSigns(None, reason)


def _searched(M: Array, v: Array, error: float, stopped: Callable[[], bool]) -> LatticeSigns:
    rng = np.random.default_rng(0)
    for _ in range(tries := _tries(M)):
        order = rng.permutation(M.shape[1])
        found = _one_try(M[:, order], v, error, stopped)
        if found is not None:
            signs = np.empty(len(order))
            signs[order] = found
            return LatticeSigns(signs, "")
        if stopped():
            return _open("the time was over before a lattice was reduced: give more time.")
    return _open(f"{counted(tries, 'reduction')} of a lattice found none that explain it.")


def _one_try(M: Array, v: Array, error: float, stopped: Callable[[], bool]) -> Array | None:
    """Equations are added some at a time, those that tell most first, until they are enough."""
    from flint import fmpz_mat

    m = M.shape[1]
    equations = _equations(M, v)
    basis: list[list[Any]] = [*(2 * np.eye(m, m + 1, dtype=int)).tolist(), [1] * (m + 1)]
    for start in range(0, len(equations), EQUATIONS_AT_ONCE):
        if stopped():
            return None
        some = equations[start : start + EQUATIONS_AT_ONCE]
        more = fmpz_mat([[round(x) for x in column] for column in some.T])
        values = (fmpz_mat([row[: m + 1] for row in basis]) * more).tolist()
        both = [row + value for row, value in zip(basis, values, strict=True)]
        basis = fmpz_mat(both).lll().tolist()
        signs = _signs_in(np.array(basis, dtype=float), M, v, error)
        if signs is not None:
            return signs
    return None


def _equations(M: Array, v: Array) -> Array:
    """Rows of coefficients of `h_1, ..., h_m, h_0`, in steps: as many as twice the bits needed."""
    U, s, _ = np.linalg.svd(M, full_matrices=False)
    bits = np.cumsum(np.log2(np.maximum(s / _step(M), 1.0)))
    number = 1 + int(np.searchsorted(bits, 2 * _least_bits(M.shape[1])))
    return np.asarray(np.column_stack([U.T @ M, -U.T @ v])[:number] / _step(M))


def _signs_in(basis: Array, M: Array, v: Array, error: float) -> Array | None:
    """Signs among the rows of a reduced basis that solve all equations, if no others can."""
    m = M.shape[1]
    head = basis[:, : m + 1]
    for row in np.flatnonzero((np.abs(head) == 1).all(axis=1)):
        signs = head[row, :m] * head[row, m]
        others = np.linalg.norm(np.delete(head, row, axis=0), axis=1)
        if np.linalg.norm(v - M @ signs) <= error and others.min() > 2 * np.sqrt(m):
            return np.asarray(signs)
    return None
