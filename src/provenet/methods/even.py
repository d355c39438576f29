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

Then everything that the units found explain of the labels (their even terms up to order 4, by
regression) is taken off the labels before the moments are estimated again: only the variance falls,
as with any control variate, but by far.

Signs of the w_i cannot be told: u is even. Cost: T_4 inside the span of the units, from T_2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from math import comb, sqrt
from typing import Any

import numpy as np
from scipy.linalg import expm

from provenet.activations import Activation, get_activation
from provenet.exceptions import InvalidInput, NoAnswer
from provenet.hermite import he
from provenet.moments import MomentRequest, Standardisation
from provenet.networks import row_blocks
from provenet.parallel import sum_over
from provenet.sources import Source
from provenet.subspace import span_of_units
from provenet.typing import Array, Seed

_STARTS = 20
_RANDOM_BASES = 5
_ASCENT = 500
_SETTLED = 1e-9
_TURNS = 200
_LARGEST_TURN = 0.3
_TURN_GAIN = 20.0
"""By how much a turn of 45 degrees must lessen what is left, in squared standard errors."""
_SHARPENINGS = 2
_GROUPS = 16
_VANISHES = 1e-9
_RANK_GAP = 1.3
_MISFIT = 2.0
"""Odd entries may be larger than their errors say by this factor: errors depend on the inputs."""
_RATIO_SLACK = 0.3
"""Finite samples have no tails, so fits of order 4 are biased by up to this (cos, 3000 samples)."""
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
    """T_2 and T_4 in an orthonormal basis of the span of the units.

    An entry has the error `sigma sqrt(m!)`, m! the product over how often each index occurs.
    """

    T2: Array
    T4: Array
    sigma2: float
    sigma4: float
    basis: Array
    """(dimensions of the span, features), orthonormal rows."""

    @classmethod
    def exact(cls, T2: Array, T4: Array) -> EvenMoments:
        """Moments of a population of as many units as features: errors of rounding."""
        rounding = _EXACT * float(np.abs(T4).max(initial=1e-300))
        return cls(T2, T4, rounding, rounding, np.eye(len(T2)))


# ------------------------------------------------- moments


def even_moments(source: Source, units: int | None, second_vanishes: bool) -> EvenMoments:
    """Moments of samples inside the span of the units."""
    d, n = source.features, source.size
    mean = source.total(lambda X, y: float(y.sum())) / n
    linear = source.total(lambda X, y: X.T @ (y - mean)) / n
    plain = Standardisation(np.zeros(d), np.eye(d), np.asarray(mean), 0.0, linear, n)
    full = source.moments(MomentRequest(plain, order=2))
    _refuse_odd(linear, full.errors[1])
    if second_vanishes and units != d:
        raise NoAnswer(
            "The activation's second Hermite coefficient vanishes, so the span of the units does "
            f"not show: only as many units as features can be found (units={d})."
        )
    span = span_of_units(full.tensors[2], full.errors[2], units)
    if span.rank == 0:
        raise NoAnswer(
            "No unit stands above the sampling error of the second moments: take more samples."
        )
    if units is None and span.gap < _RANK_GAP:
        raise NoAnswer(
            f"How many units there are is unclear: {span.rank} eigenvalues of the second moments "
            f"stand above their sampling error, but by a factor of {span.gap:.2f} only; take more "
            "samples, or say how many (units=)."
        )
    basis = span.basis
    T2 = basis @ full.tensors[2] @ basis.T
    fourth = source.moments(MomentRequest(plain, 4, basis, T2))
    return _moments(T2, fourth.tensors[4], full.errors[2], fourth.errors[4], basis)


def _moments(T2: Array, T4: Array, error2: float, error4: float, basis: Array) -> EvenMoments:
    """With sigma from the root mean square errors of all entries (T_2's of all features)."""
    k, d = basis.shape
    sigma4 = error4 * sqrt(k**4 / (24 * comb(k + 3, 4)))
    return EvenMoments(T2, T4, error2 * sqrt(d / (d + 1)), sigma4, basis)


def _refuse_odd(T1: Array, error: float) -> None:
    d, size = len(T1), float(np.linalg.norm(T1))
    if size > error * (sqrt(d) + 4):
        raise NoAnswer(
            f"E[f x] is not zero (norm {size:.2g}, sampling error {error * sqrt(d):.2g}): the "
            "labels are not an even function of the inputs."
        )


class Rest(Source):
    """Samples whose labels are less what some units explain: their even terms up to order 4."""

    def __init__(self, source: Source, W: Array) -> None:
        """Regress the labels on the terms of units W."""
        self.source, self.W, self.k = source, W, len(W)
        self.size, self.features = source.size, source.features
        self.pairs = np.triu_indices(self.k, 1)

        edges = np.linspace(0, self.size, _GROUPS + 1).astype(int)
        self.sums = [self._sums(first, last) for first, last in pairwise(edges.tolist())]
        self.coefficients = _solution(sum(self.sums))

    def _sums(self, first: int, last: int) -> Array:
        """Normal equations of some of the samples."""

        def term(block: slice) -> Array:
            X, y = self.source.rows(first + block.start, first + block.stop)
            terms = self.terms(X)
            return np.column_stack([terms.T @ terms, terms.T @ y])

        return sum_over(list(row_blocks(last - first)), term)

    def errors_of(self, combinations: Array) -> Array:
        """Standard errors of linear combinations of the coefficients, leaving groups out in turn.

        The usual formula is far too small: the fit follows the few samples of most influence.
        """
        total = sum(self.sums)
        without = np.array([combinations @ _solution(total - group) for group in self.sums])
        return np.asarray(np.sqrt((_GROUPS - 1) * np.var(without, axis=0)))

    def terms(self, X: Array) -> Array:
        """`1`, `He_2(a_i)`, `He_4(a_i)` and `He_2(a_i) He_2(a_j)` in the columns, a = W x."""
        two, four = he(2, X @ self.W.T), he(4, X @ self.W.T)
        products = two[:, self.pairs[0]] * two[:, self.pairs[1]]
        return np.column_stack([np.ones(len(X)), two, four, products])

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """What is left of the labels."""
        X, y = self.source.rows(start, stop)
        return X, y - self.terms(X) @ self.coefficients

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """What is left of the labels of a draw."""
        X, y = self.source.draw(n, rng)
        return X, y - self.terms(X) @ self.coefficients

    def explained(self) -> tuple[Array, Array]:
        """T_2 and T_4 of what was taken off, in the coordinates of the units."""
        two, four, products = np.split(self.coefficients[1:], [self.k, 2 * self.k])
        t4 = np.zeros((self.k,) * 4)
        diagonal = np.arange(self.k)
        t4[diagonal, diagonal, diagonal, diagonal] = 24 * four
        for places in set(permutations((0, 0, 1, 1))):
            t4[tuple(self.pairs[place] for place in places)] = 4 * products
        return np.diag(2 * two), t4


def _solution(sums: Any) -> Array:
    return np.asarray(np.linalg.lstsq(sums[:, :-1], sums[:, -1], rcond=None)[0])


def sharper_moments(rest: Rest) -> EvenMoments:
    """The moments with what approximate units explain as a control variate."""
    d, W = rest.features, rest.W
    nothing = Standardisation(np.zeros(d), np.eye(d), np.asarray(0.0), 0.0, np.zeros(d), rest.size)
    t2, t4 = rest.explained()
    second = rest.moments(MomentRequest(nothing, order=2))
    T2 = W.T @ t2 @ W + second.tensors[2]
    basis = span_of_units(T2, second.errors[2], len(W)).basis
    fourth = rest.moments(MomentRequest(nothing, 4, basis))
    T4 = _rotated4(t4, basis @ W.T) + fourth.tensors[4]
    return _moments(basis @ T2 @ basis.T, T4, second.errors[2], fourth.errors[4], basis)


# ------------------------------------------------- maxima of E[f h_4(z.x)], one by one


def maxima(T4: Array, rng: np.random.Generator) -> Array:
    """Unit vectors (rows): local maxima of `T_4(z, z, z, z)`, each orthogonal to those before."""
    k = len(T4)
    found = np.empty((0, k))
    while len(found) < k:  # with none found yet all directions are outside
        outside = np.linalg.svd(found, full_matrices=True)[2][len(found) :]
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
        return np.asarray(np.einsum("iiii->i", self.t4))

    @property
    def iijj(self) -> Array:
        """`T_4(q_i, q_i, q_j, q_j)`, (units, units)."""
        return np.asarray(np.einsum("iijj->ij", self.t4))


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
        largest = max(float(np.abs(angle).max()), 1e-300)
        Q = expm(angle * min(1.0, _LARGEST_TURN / largest)) @ Q
        if largest < _SETTLED:
            return Rotated.of(moments, Q)
    return None


def odd_energy(moments: EvenMoments, r: Rotated) -> tuple[float, int]:
    """Sum of squares of the odd entries in units of their errors, and how many they are."""
    k = len(r.Q)
    off2 = (np.sum(r.t2**2) - np.sum(np.diag(r.t2) ** 2)) / 2
    even4 = 3 * np.sum(r.iijj**2) - 2 * np.sum(r.iiii**2)
    off4 = max(np.sum(r.t4**2) - even4, 0.0) / 24
    count = comb(k, 2) + comb(k + 3, 4) - comb(k + 1, 2)
    return float(off2 / moments.sigma2**2 + off4 / moments.sigma4**2), count


def ratio_misfits(
    moments: EvenMoments, r: Rotated, kappa: float | None, errors: Array | None = None
) -> Array:
    """How far every row's orders 4 and 2 are from the activation's ratio, in standard errors."""
    if kappa is None:
        return np.zeros(len(r.Q))
    if errors is None:
        errors = np.sqrt(24 * moments.sigma4**2 + 2 * kappa**2 * moments.sigma2**2)
    return np.asarray(np.abs(r.iiii - kappa * np.diag(r.t2)) / errors)


def best_rotation(
    moments: EvenMoments, kappa: float | None, sign: float, rng: np.random.Generator
) -> Rotated | None:
    """The rotation that leaves least, from the maxima, and from random ones if need be."""

    def left(r: Rotated) -> float:
        ratios = ratio_misfits(moments, r, kappa) / _MISFIT
        return odd_energy(moments, r)[0] + float(np.sum(ratios**2))

    best: Rotated | None = None
    for start in _starts(moments, sign, rng):
        found = fit_rotation(moments, start)
        if found is None:
            continue
        found = _unmixed(moments, found, left)
        if best is None or left(found) < left(best):
            best = found
        if _fits(moments, best) and ratio_misfits(moments, best, kappa).max() < _MISFIT * _CLEAR:
            return best
    return best


def followed(moments: EvenMoments, W: Array, sign: float, rng: np.random.Generator) -> Rotated:
    """The rotation near approximate units W, unless the maxima lead to one that is clearly better.

    Mixtures were undone before, by moments without bias; that is not to be lost here.
    """
    near, _, far = np.linalg.svd(W @ moments.basis.T)
    start = near @ far
    found = fit_rotation(moments, start) or Rotated.of(moments, start)
    with suppress(NoAnswer):
        other = fit_rotation(moments, maxima(sign * moments.T4, rng))
        gain = odd_energy(moments, found)[0] - (odd_energy(moments, other)[0] if other else np.inf)
        if other is not None and gain > _TURN_GAIN:
            return other
    return found


def _starts(moments: EvenMoments, sign: float, rng: np.random.Generator) -> Iterator[Array]:
    with suppress(NoAnswer):
        yield maxima(sign * moments.T4, rng)
    for _ in range(_RANDOM_BASES):
        yield np.linalg.qr(rng.standard_normal(moments.T2.shape))[0]


def _unmixed(moments: EvenMoments, r: Rotated, left: Callable[[Rotated], float]) -> Rotated:
    """Pairs turned by 45 degrees as long as that leaves less."""
    improved = True
    while improved:
        improved = False
        for i, j in combinations(range(len(r.Q)), 2):
            Q = r.Q.copy()
            Q[[i, j]] = np.array([[1, 1], [1, -1]]) @ r.Q[[i, j]] / sqrt(2)
            if left(Rotated.of(moments, Q)) >= left(r) - _TURN_GAIN:
                continue
            fitted = fit_rotation(moments, Q)
            if fitted is not None and left(fitted) < left(r) - _TURN_GAIN:
                r, improved = fitted, True
    return r


def _fits(moments: EvenMoments, r: Rotated) -> bool:
    """Whether odd entries are what sampling error leaves."""
    energy, count = odd_energy(moments, r)
    return energy <= _MISFIT * (count + 4 * sqrt(2 * count) + 8)


# ------------------------------------------------- the condition


def conditions(r: Rotated, sign: float, errors: Array) -> tuple[PairCondition, ...]:
    """Theorem 10's condition for every pair; `sign` is -1 where the units are minima."""
    alpha, gamma = r.iiii / sqrt(24), sqrt(1.5) * r.iijj
    return tuple(
        PairCondition((i, j), sign * float(alpha[i] + alpha[j] - gamma[i, j]), float(errors[i, j]))
        for i, j in combinations(range(len(alpha)), 2)
    )


def sample_errors(rest: Rest, kappa: float) -> tuple[Array, Array]:
    """Standard errors of `alpha_i + alpha_j - gamma_ij` and of `T_4(w_i, ..) - kappa T_2(w_i, ..)`.

    The coefficients of He_2(a_i), He_4(a_i) and their products are 1/2 of T_2, 1/24 and 1/4 of T_4.
    """
    k, one = rest.k, np.eye(len(rest.coefficients))
    two, four, products = np.split(one[1:], [k, 2 * k])
    i, j = rest.pairs
    errors = np.zeros((k, k))
    if k > 1:
        errors[i, j] = rest.errors_of(sqrt(24) * (four[i] + four[j] - products))
    return errors, rest.errors_of(24 * four - 2 * kappa * two)


# ------------------------------------------------- the recipe


@dataclass(frozen=True)
class Coefficients:
    """`E[u He_2]` and `E[u He_4]` of an even activation."""

    two: float
    four: float

    @classmethod
    def of(cls, activation: str | Activation) -> Coefficients:
        """Those of an activation, if it is even and has the fourth."""
        u = get_activation(activation)
        if not u.even:
            raise InvalidInput(
                f"The activation {u.name} is not even: use another method, or an Activation with "
                "even=True."
            )
        zero, two, four = (float(u.hermite(k, 0.0)) for k in (0, 2, 4))
        size = max(abs(zero), abs(two), abs(four))
        if abs(four) <= _VANISHES * size:
            raise NoAnswer(
                f"The fourth Hermite coefficient of {u.name} vanishes: E[f h_4(z.x)] does not show "
                "its units."
            )
        return cls(0.0 if abs(two) <= _VANISHES * size else two, four)

    @property
    def kappa(self) -> float | None:
        """A unit's order 4 over its order 2."""
        return None if self.two == 0 else self.four / self.two

    def sign(self, moments: EvenMoments) -> float:
        """+1 if most alpha are positive, so that units are maxima, else -1."""
        total = np.einsum("iijj->", moments.T4)
        if self.kappa is not None:
            total = self.kappa * np.trace(moments.T2)
        return 1.0 if total >= 0 else -1.0

    def strengths(self, r: Rotated) -> Array:
        """`C_i`."""
        return np.asarray(r.iiii / self.four if self.two == 0 else np.diag(r.t2) / self.two)


def find_units(
    moments: EvenMoments, u: Coefficients, rng: np.random.Generator, *, faithful: bool = False
) -> Rotated:
    """The units by falling strength, as far as the moments show them."""
    sign = u.sign(moments)
    if faithful:
        found: Rotated | None = Rotated.of(moments, maxima(sign * moments.T4, rng))
    else:
        found = best_rotation(moments, u.kappa, sign, rng)
    if found is None:
        raise NoAnswer(
            "No rotation makes the odd entries of the moments vanish: take more samples; if that "
            "does not help, the weights are not orthonormal."
        )
    return by_strength(found, moments, u)


def by_strength(r: Rotated, moments: EvenMoments, u: Coefficients) -> Rotated:
    """The units by falling strength."""
    return Rotated.of(moments, r.Q[np.argsort(-np.abs(u.strengths(r)))])


def refuse_misfit(
    moments: EvenMoments, r: Rotated, kappa: float | None, errors: Array | None = None
) -> None:
    """Raise if the moments are not those of orthonormal units of this activation."""
    energy, count = odd_energy(moments, r)
    if not _fits(moments, r):
        raise NoAnswer(
            "The second and fourth moments are not those of orthonormal even units: entries that "
            f"should vanish are {sqrt(energy / count):.1f} times their sampling error; the weights "
            "are not orthonormal, units have thresholds, or there are more units than were asked "
            "for."
        )
    misfit = ratio_misfits(moments, r, kappa, errors)
    i = int(np.argmax(misfit))
    slack, limit = (0.0, _MISFIT * _CLEAR) if errors is None else (_RATIO_SLACK, _CLEAR)
    off = kappa is not None and abs(r.iiii[i] / (kappa * r.t2[i, i]) - 1) > slack
    if off and misfit[i] > limit:
        raise NoAnswer(
            f"Orders 4 and 2 of unit {i} have the ratio {r.iiii[i] / r.t2[i, i]:.3g}, "
            f"{misfit[i]:.1f} standard errors from the activation's {kappa:.3g}: it is a mixture "
            "of units (Theorem 10's condition fails), weights are not orthonormal, P has powers of "
            "a unit, or the activation is another."
        )


def even(
    source: Source,
    activation: str | Activation = "abs",
    *,
    units: int | None = None,
    faithful: bool = False,
    rng: Seed = None,
) -> EvenUnits:
    """Orthonormal weights of even units from samples with standard normal inputs."""
    u, generator = Coefficients.of(activation), np.random.default_rng(rng)
    moments = even_moments(source, units, u.two == 0)
    r = find_units(moments, u, generator, faithful=faithful)
    rest = Rest(source, r.Q @ moments.basis)
    for _ in range(0 if faithful else _SHARPENINGS):
        moments = sharper_moments(rest)
        r = by_strength(followed(moments, rest.W, u.sign(moments), generator), moments, u)
        rest = Rest(source, r.Q @ moments.basis)
    pair_errors, ratio_errors = sample_errors(rest, u.kappa or 0.0)
    refuse_misfit(moments, r, u.kappa, ratio_errors)
    errors = angle_errors(moments, r)
    _refuse_inseparable(errors, source.size)
    checked = conditions(r, u.sign(moments), pair_errors)
    if faithful:
        _refuse_violated(checked)
    evidence = _evidence(moments, r, checked)
    return EvenUnits(rest.W, u.strengths(r), errors, checked, evidence)


def angle_errors(moments: EvenMoments, r: Rotated) -> Array:
    """Standard errors of the angles between pairs, (units, units)."""
    _, precision = turns(r, moments.sigma2, moments.sigma4)
    errors = 1 / np.sqrt(np.maximum(precision, 1e-300))
    np.fill_diagonal(errors, 0.0)
    return np.asarray(errors)


def _refuse_inseparable(errors: Array, samples: int) -> None:
    i, j = np.unravel_index(np.argmax(errors), errors.shape)
    if errors[i, j] > _LARGEST_ANGLE_ERROR:
        more = samples * (errors[i, j] / _LARGEST_ANGLE_ERROR) ** 2
        raise NoAnswer(
            f"Units {i} and {j} cannot be told from their mixtures: the angle between them and "
            f"these has a standard error of {errors[i, j]:.2g}; some {1.2 * more:.1e} samples may "
            "do."
        )


def _refuse_violated(conditions: tuple[PairCondition, ...]) -> None:
    for c in conditions:
        if not c.holds and c.clear:
            raise NoAnswer(
                f"Theorem 10's condition fails for units {c.units[0]} and {c.units[1]}: alpha_i + "
                f"alpha_j - gamma_ij = {c.value:.2g} (standard error {c.error:.1g}); leave "
                "faithful out."
            )


def _evidence(moments: EvenMoments, r: Rotated, conditions: tuple[PairCondition, ...]) -> str:
    energy, count = odd_energy(moments, r)
    text = (
        f"{len(r.Q)} orthonormal units; entries of the moments that should vanish are "
        f"{sqrt(energy / max(count, 1)):.2f} times their sampling error."
    )
    failed = [c for c in conditions if not c.holds]
    unclear = [c for c in conditions if c.holds and not c.clear]
    for c in failed:
        text += (
            f" Theorem 10's condition fails for units {c.units[0]} and {c.units[1]} "
            f"({c.value:.2g}, standard error {c.error:.1g})."
        )
    if not failed:
        text += " Theorem 10's condition holds for every pair"
        text += f", within sampling error for {len(unclear)} of them." if unclear else "."
    return text
