"""`"even"`: even activations without thresholds, orthonormal weights (GP19, Theorem 10).

    f(x) = sum_S c_S prod_{i in S} u(w_i.x),   u(-a) = u(a),   w_i orthonormal (appendix D.3)

Letters: `u_k = E[u h_k]`, `C_i` the sum of `c_S u_0^(|S|-1)` over the S that hold i, `C_ij` that of
`c_S u_0^(|S|-2)` over those that hold i and j. For a unit vector z with coordinates `z_i = w_i.z`

    E[f h_4(z.x)] = sum_i alpha_i z_i^4 + sum_{i<j} gamma_ij z_i^2 z_j^2,
    alpha_i = u_4 C_i,   gamma_ij = sqrt(6) u_2^2 C_ij                       (ERRATA, GP19 19)

has its maxima among the w_i if `alpha_i + alpha_j > gamma_ij` for every pair (its minima, with both
sides negated, where the alpha are negative, as for abs). With Hermite moments,
`alpha_i = T_4(w_i, w_i, w_i, w_i) / sqrt(24)` and `gamma_ij = sqrt(3/2) T_4(w_i, w_i, w_j, w_j)`.

*The paper's way* (`faithful=True`): maxima one by one, each orthogonal to those found.

*The default* goes on from there. In the coordinates of the w_i every entry of T_2 and T_4 with an
odd index vanishes, so the rotation that makes them vanish is fitted by least squares, weighted as
their errors ask: at the answer the normal equations have one angle a pair each, and T_2, whose
error is far smaller, counts where the C_i differ. When `alpha_i = alpha_j` and the condition fails
for a pair, the maxima are `(w_i +- w_j) / sqrt(2)`, in whose coordinates all odd entries vanish too
and the condition seems to hold. But `T_2(w_i, w_i) = sqrt(2) u_2 C_i`, so a unit's orders 4 and 2
have the ratio `kappa = sqrt(12) u_4 / u_2`, and such a mixture has not: pairs are turned by 45
degrees where that fits better. So the condition is not needed, and it is checked and reported.
Without `u_2` there is no kappa and no T_2, and no gamma either.

Signs of the w_i cannot be told: u is even. Cost: T_4 inside the span of the units, from T_2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb, sqrt

import numpy as np
from scipy.linalg import expm

from provenet.activations import Activation, get_activation
from provenet.exceptions import InvalidInput, NoAnswer
from provenet.hermite import h
from provenet.moments import MomentRequest, Standardisation, Sums
from provenet.sources import Source
from provenet.subspace import span_of_units
from provenet.typing import AnyArray, Array

_STARTS = 20
_RANDOM_BASES = 10
_ASCENT = 500
_SETTLED = 1e-9
_TURNS = 200
_LARGEST_TURN = 0.3
_VANISHES = 1e-9
_MISFIT = 2.0
"""Odd entries may be larger than their errors say by this factor: errors depend on the inputs."""
_CLEAR = 4.0
_LARGEST_ANGLE_ERROR = 0.2
_EXACT = 1e-8


@dataclass(frozen=True)
class PairCondition:
    """Theorem 10's condition for two units: `alpha_i + alpha_j - gamma_ij > 0`.

    All negated where the alpha are negative, so that maxima are minima.
    """

    units: tuple[int, int]
    value: float
    error: float

    @property
    def holds(self) -> bool:
        """Whether the estimate says so."""
        return self.value > 0

    @property
    def clear(self) -> bool:
        """Whether it does beyond the sampling error."""
        return abs(self.value) > _CLEAR * self.error


@dataclass(frozen=True)
class EvenUnits:
    """Orthonormal weights of even units, each up to its sign."""

    weights: Array
    strengths: Array
    """`C_i`, by falling size."""
    angle_errors: Array
    """(units, units): standard error of the angle by which two units are turned into each other."""
    conditions: tuple[PairCondition, ...]
    """One a pair of units."""
    evidence: str


@dataclass(frozen=True)
class EvenMoments:
    """T_2 and T_4 in the span of the units, and the errors of their normalised entries.

    An entry has the error `sigma sqrt(m!)`, m how often each index occurs.
    """

    T2: Array
    T4: Array
    sigma2: float
    sigma4: float
    samples: int | None


# ------------------------------------------------- moments


def even_moments(source: Source, units: int | None, second: float) -> tuple[EvenMoments, Array]:
    """Moments of samples inside the span of the units, and its basis.

    `second` is the activation's u_2: where it vanishes the span is all of the space.
    """
    d, n = source.features, source.size
    plain = _plain(source)
    full = source.moments(MomentRequest(plain, order=2))
    _refuse_odd(full.tensors[1], full.errors[1])
    sigma2 = full.errors[2] * sqrt(d / (d + 1))
    if second == 0:
        basis = np.eye(d)
        if units != d:
            raise NoAnswer(
                "The activation's second Hermite coefficient vanishes, so the span of the units "
                f"does not show: as many units as features, {d}, can be found (units={d})."
            )
    else:
        basis = span_of_units(full.tensors[2], full.errors[2], units).basis
    if len(basis) == 0:
        raise NoAnswer(
            "No unit stands above the sampling error of the second moments: take more samples."
        )
    T2 = basis @ full.tensors[2] @ basis.T
    fourth = source.moments(MomentRequest(plain, 4, basis, T2))
    k = len(basis)
    sigma4 = fourth.errors[4] * sqrt(k**4 / (24 * comb(k + 3, 4)))
    return EvenMoments(T2, fourth.tensors[4], sigma2, sigma4, n), basis


def _plain(source: Source) -> Standardisation:
    """Inputs as they are; mean and linear part of the labels."""
    d, n = source.features, source.size
    sums = source.total(lambda X, y: np.concatenate([[y.sum(), y @ y], X.T @ y])) / n
    spread = sqrt(max(sums[1] - sums[0] ** 2, 0.0))
    return Standardisation(np.zeros(d), np.eye(d), sums[0], spread, sums[2:], n)


def _refuse_odd(T1: Array, error: float) -> None:
    d = len(T1)
    if T1 @ T1 > error**2 * (d + 8 * sqrt(d) + 16):
        raise NoAnswer(
            f"E[f x] is not zero (norm {np.linalg.norm(T1):.2g}, sampling error "
            f"{error * sqrt(d):.2g}): the labels are not an even function of the inputs."
        )


# ------------------------------------------------- maxima of E[f h_4(z.x)], one by one


def maxima(T4: Array, rng: np.random.Generator) -> Array:
    """Unit vectors (rows): local maxima of `T_4(z, z, z, z)`, each orthogonal to those before."""
    k = len(T4)
    found = np.empty((0, k))
    while len(found) < k:
        outside = np.linalg.svd(found, full_matrices=True)[2][len(found) :] if len(found) else np.eye(k)
        inside = _rotated4(T4, outside)
        Z = _ascent(inside, rng.standard_normal((_STARTS, len(outside))))
        values = np.einsum("abcd,sa,sb,sc,sd->s", inside, Z, Z, Z, Z, optimize=True)
        found = np.vstack([found, Z[np.argmax(values)] @ outside])
    return found


def _ascent(T4: Array, Z: Array) -> Array:
    """Where the shifted power method leads from the rows of Z (Kolda and Mayo, 2014)."""
    Z = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    for _ in range(_ASCENT):
        H = np.einsum("abcd,sc,sd->sab", T4, Z, Z, optimize=True)
        shift = np.maximum(-3 * np.linalg.eigvalsh(H)[:, :1], 0.0)
        moved = np.einsum("sab,sb->sa", H, Z) + (shift + 1e-300) * Z
        moved = moved / np.linalg.norm(moved, axis=1, keepdims=True)
        settled = np.abs(moved - Z).max(axis=1) < _SETTLED
        Z = moved
        if settled.all():
            break
    if not settled.any():
        raise NoAnswer(
            f"No ascent of E[f h_4(z.x)] settled in {_ASCENT} steps: its maxima do not show, take "
            "more samples."
        )
    return np.asarray(Z[settled])


def _rotated4(T4: Array, Q: Array) -> Array:
    """T_4 in the coordinates of the rows of Q."""
    return np.asarray(np.einsum("abcd,ia,jb,kc,ld->ijkl", T4, Q, Q, Q, Q, optimize=True))


# ------------------------------------------------- the rotation that fits all moments


@dataclass(frozen=True)
class Rotated:
    """The moments in the coordinates of the rows of Q, by name of their indices."""

    Q: Array
    t2: Array
    t4: Array

    @classmethod
    def of(cls, moments: EvenMoments, Q: Array) -> Rotated:
        """T_2 and T_4 seen from Q."""
        return cls(Q, Q @ moments.T2 @ Q.T, _rotated4(moments.T4, Q))

    @property
    def iiii(self) -> Array:
        """`T_4(q_i, q_i, q_i, q_i)`."""
        return np.einsum("iiii->i", self.t4)

    @property
    def iijj(self) -> Array:
        """`T_4(q_i, q_i, q_j, q_j)`, (units, units)."""
        return np.einsum("iijj->ij", self.t4)


def turns(r: Rotated, sigma2: float, sigma4: float) -> tuple[Array, Array]:
    """The angle by which every pair is to be turned so that odd entries vanish, and its precision.

    Gauss-Newton: turning `q_i` towards `q_j` by theta adds theta times a slope to odd entries.
    """
    four, pairs = r.iiii, r.iijj
    others = ~np.eye(len(r.Q), dtype=bool)
    k_is_other = others[:, :, None] & others[:, None, :]
    towards = np.diag(r.t2) - np.diag(r.t2)[:, None]
    once = 3 * pairs - four[:, None]
    twice = (pairs[:, None, :] - pairs[:, :, None]) * k_is_other
    precision = towards**2 / sigma2**2
    precision += (once**2 + once.T**2 + 3 * np.sum(twice**2, axis=0)) / (6 * sigma4**2)
    iiij, kkij = np.einsum("iiij->ij", r.t4), np.einsum("kkij->kij", r.t4)
    pull = towards * r.t2 / sigma2**2
    pull += (once * iiij - (once * iiij).T + 3 * np.sum(twice * kkij, axis=0)) / (6 * sigma4**2)
    angle = -pull / np.where(precision > 0, precision, 1.0)
    return angle * others, precision


def fit_rotation(moments: EvenMoments, Q: Array) -> Rotated | None:
    """The nearest orthonormal rows in whose coordinates odd entries vanish as well as they can."""
    for _ in range(_TURNS):
        r = Rotated.of(moments, Q)
        angle, _ = turns(r, moments.sigma2, moments.sigma4)
        largest = np.abs(angle).max(initial=0.0)
        if largest < _SETTLED:
            return r
        Q = expm(angle * min(1.0, _LARGEST_TURN / largest)) @ Q
    return None


def odd_energy(moments: EvenMoments, r: Rotated) -> tuple[float, int]:
    """Sum of squares of the odd entries in units of their errors, and how many they are."""
    k = len(r.Q)
    off2 = (np.sum(r.t2**2) - np.sum(np.diag(r.t2) ** 2)) / 2
    even4 = 3 * np.sum(r.iijj**2) - 2 * np.sum(r.iiii**2)
    off4 = max(np.sum(r.t4**2) - even4, 0.0) / 24
    count = comb(k, 2) + comb(k + 3, 4) - comb(k + 1, 2)
    return float(off2 / moments.sigma2**2 + off4 / moments.sigma4**2), count


def ratio_misfits(moments: EvenMoments, r: Rotated, kappa: float | None) -> Array:
    """How far every row's orders 4 and 2 are from the activation's ratio, in standard errors."""
    if kappa is None:
        return np.zeros(len(r.Q))
    error = np.sqrt(24 * moments.sigma4**2 + 2 * kappa**2 * moments.sigma2**2)
    return np.asarray((r.iiii - kappa * np.diag(r.t2)) / error)


def best_rotation(
    moments: EvenMoments, kappa: float | None, rng: np.random.Generator
) -> Rotated | None:
    """The rotation that leaves least, from the maxima, the minima, and random ones if need be."""

    def left(r: Rotated) -> float:
        return odd_energy(moments, r)[0] + float(np.sum(ratio_misfits(moments, r, kappa) ** 2))

    best: Rotated | None = None
    for start in _starts(moments, rng):
        found = fit_rotation(moments, start)
        if found is None:
            continue
        found = _unmixed(moments, found, left)
        if best is None or left(found) < left(best):
            best = found
        if _fits(moments, best) and np.abs(ratio_misfits(moments, best, kappa)).max() < _CLEAR:
            return best
    return best


def _starts(moments: EvenMoments, rng: np.random.Generator) -> Iterator[Array]:
    k = len(moments.T2)
    for sign in (1.0, -1.0):
        yield maxima(sign * moments.T4, rng)
    for _ in range(_RANDOM_BASES):
        yield np.linalg.qr(rng.standard_normal((k, k)))[0]


def _unmixed(moments: EvenMoments, r: Rotated, left: Callable[[Rotated], float]) -> Rotated:
    """Pairs turned by 45 degrees as long as that leaves less."""
    improved = True
    while improved:
        improved = False
        for i, j in combinations(range(len(r.Q)), 2):
            Q = r.Q.copy()
            Q[[i, j]] = np.array([[1, 1], [1, -1]]) @ r.Q[[i, j]] / sqrt(2)
            turned = Rotated.of(moments, Q)
            if left(turned) >= left(r) - _TURN_GAIN:
                continue
            turned = fit_rotation(moments, Q)
            if turned is not None and left(turned) < left(r) - _TURN_GAIN:
                r, improved = turned, True
    return r


def _fits(moments: EvenMoments, r: Rotated) -> bool:
    """Whether odd entries are what sampling error leaves."""
    energy, count = odd_energy(moments, r)
    return energy <= _MISFIT * (count + 4 * sqrt(2 * count) + 8)
