"""The signs of the units: `relu(w.x + b)` or `relu(-w.x - b)`?

Orders 2 and up of the moments, and the kinks of a function, determine a unit up to its sign. The
linear part determines the signs. With `relu(z) = |z|/2 + z/2`,

    sum_i a_i relu(xi_i z_i) = sum_i a_i |z_i| / 2 + sum_i xi_i a_i z_i / 2,

so the linear part v of a sum of absolute values must equal `M xi` with columns `M_i = a_i w_i / 2`
(for several outputs the matrices, flattened). Independent columns fix every sign; ATV21 Algorithm 3
(FixSigns) is the same argument on T_1. Otherwise it is a subset-sum problem, solved exactly

- by trying all values of k signs that fix the others, k being the dimension of M's null space;
- by reducing a lattice, where units are many and equations precise (`_lattice_signs`).

*Ambiguous signs* (ATV21, Theorem 3.4 and Claim 4.8). Flipping the units of a set F changes the
function by `s sum_{i in F} a_i (w_i.x + b_i)` if `sigma(z) - sigma(-z) = s z`: by nothing but the
output bias if and only if `sum_{i in F} a_i w_i = 0`. So these sets are the other solutions of
`M xi = M 1`. If no two units are parallel, no other network of as many units has the same function
(Theorem 3.4), and every such F is a union of disjoint minimal ones, which `flip_sets` lists.

*One slope below zero*, s, that all units share: `v = rho M xi` with `rho = (1 + s)/(1 - s)`, if M
has the output weights of the absolute values. The factor does not matter perpendicular to v: with
`P = I - v v^T / |v|^2`, `sum_i xi_i P M_i = 0`, so with the first sign set the others solve the
same problem, and then `rho = v . M xi / |M xi|^2`. Reversing all signs reverses rho, which is taken
to be positive: -1 <= s < 1. No linear part at all is rho = 0, the absolute value.

BJW19 Algorithm 6 decides each sign by regression instead (`fitting.noisy_signs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import lgamma, log, pi
from typing import Any

import numpy as np
from flint import fmpz_mat
from scipy.linalg import qr

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import EPS, AnyArray, Array
from provenet.networks.activations import ABS, Activation, leaky_relu
from provenet.networks.canonical import parameter_error
from provenet.networks.network import Network


def unit_terms(a: Array, W: Array) -> Array:
    """`a_i w_i` (for several outputs the matrix, flat) as columns."""
    A = np.atleast_2d(a)
    return np.asarray(np.einsum("om,md->odm", A, W).reshape(A.shape[0] * W.shape[1], len(W)))


def fix_signs(T1: Array, a: Array, W: Array) -> Array:
    """ATV21, Algorithm 3: signs of the solution z of `sum_i z_i a_i w_i = T_1`."""
    return _signs_of(np.linalg.lstsq(unit_terms(a, W), T1.ravel(), rcond=None)[0])


@dataclass(frozen=True)
class Signs:
    """Signs of the units and the part of the linear part that they do not explain."""

    signs: Array
    remainder: Array
    """`v - M xi`; zero when the network has no linear term."""
    alternatives: tuple[Array, ...] = ()
    """Other signs that explain the linear part as well."""
    untried: str = ""
    """Why some signs were left untried, as a clause; empty if none were."""


def signs_from_linear_part(
    a: Array,
    W: Array,
    v: Array,
    error: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Signs:
    """The signs xi that bring `sum_i xi_i a_i w_i / 2` closest to v (see `_best_signs`)."""
    return _best_signs(unit_terms(a, W) / 2, v.ravel(), error, stopped)


def _best_signs(M: Array, v: Array, error: float | None, stopped: Callable[[], bool]) -> Signs:
    """The signs xi that bring `M xi` closest to v.

    Signs count as exact if they leave less than 1e-7 of M's norm, which is what the rounding of a
    fit may leave. Where units are too many for an exact search, a lattice is reduced; for more than
    100 units, in more than a second, only if `error`, of v and M in norm, is given. The last resort
    is the signs of least squares.
    """
    m, size, untried = M.shape[1], float(np.linalg.norm(M)), ""
    xi = _signs_of(np.linalg.lstsq(M, v, rcond=None)[0])
    if m <= M.shape[0] and np.linalg.matrix_rank(M, tol=1e-8 * size) == m:
        return Signs(xi, v - M @ xi)
    if m <= 16:  # the best of all, and those as good up to rounding
        patterns, misfits = _ranked_patterns(M, v)
        patterns = patterns[misfits <= misfits[0] + 1e-9 * size]
    else:
        patterns, complete = sign_solutions(M, v, 1e-7 * size, most=64)
        untried = "" if complete else f"{m} units are too many to try their signs."
        if len(patterns) == 0 and untried and (error is not None or m <= 100):
            patterns, untried = _lattice_signs(M, v, error or 1e-7 * size, stopped)
    if len(patterns) == 0:
        return Signs(xi, v - M @ xi, untried=untried)
    best, *others = patterns
    return Signs(best, v - M @ best, tuple(others))


def nearest_signs(a: Array, W: Array, v: Array, most: int) -> list[Array]:
    """At most `most` signs that explain a linear part best; none for more than 16 units."""
    if len(W) > 16:
        return []
    return list(_ranked_patterns(unit_terms(a, W) / 2, v.ravel())[0][:most])


def _signs_of(z: AnyArray) -> Array:
    return np.where(z < 0, -1.0, 1.0)


def _ranked_patterns(M: Array, v: Array) -> tuple[Array, Array]:
    """All sign patterns by their misfits `|M xi - v|`, and these."""
    m = M.shape[1]
    return _ranked(np.array(list(product((1.0, -1.0), repeat=m))).reshape(-1, m), M, v)


def _ranked(patterns: Array, M: Array, v: Array) -> tuple[Array, Array]:
    misfits = np.linalg.norm(patterns @ M.T - v, axis=1)
    order = np.argsort(misfits, kind="stable")
    return patterns[order], misfits[order]


def sign_solutions(M: Array, v: Array, allowed: float, most: int = 100_000) -> tuple[Array, bool]:
    """Sign patterns (rows) with `|M xi - v| <= allowed`, best first, and whether these are all.

    At most `most` are listed. A solution lies near the affine space of M's null vectors. So all
    values of k signs are tried that determine the other coordinates there, and those whose other
    coordinates are near signs, too, are checked. Singular values of M below 1000 times what is
    allowed count as zero. The list may be incomplete if the matrix from the k signs to the others
    is so large that a solution may be off by half a sign. k may be 20: a million patterns.
    """
    m = M.shape[1]
    # All right vectors are needed, the left ones never: of a tall M they would fill memory.
    U, s, rows = np.linalg.svd(M, full_matrices=M.shape[0] < m)
    target = U.T @ v
    outside = float(np.linalg.norm(v - U @ target))
    if outside > allowed:
        return np.empty((0, m)), True
    allowed = float(np.sqrt(allowed**2 - outside**2))
    rank = int(np.sum(s > 1000 * max(allowed, EPS * s[0])))
    k = m - rank
    if k > 20:
        return np.empty((0, m)), False
    null, centre = rows[rank:].T, rows[:rank].T @ (target[:rank] / s[:rank])
    free = qr(null.T, mode="r", pivoting=True)[1][:k]
    others = np.linalg.solve(null[free].T, null.T).T
    off = (1 + np.linalg.norm(others, 2)) * allowed / s[rank - 1] if rank else 0.0
    reduced = s[:, None] * rows[: len(s)]  # the same norms |M xi|, in as few rows as there can be
    found = np.empty((0, m))
    for start in range(0, 1 << k, 1 << 14):
        numbers = np.arange(start, min(start + (1 << 14), 1 << k))
        tried = 1.0 - 2.0 * ((numbers[:, None] >> np.arange(k)) & 1)
        X = centre + (tried - centre[free]) @ others.T
        near = _signs_of(X[np.abs(np.abs(X) - 1).max(axis=1) < 0.5])
        misfits = np.linalg.norm(near @ reduced.T - target, axis=1)
        found = np.concatenate([found, near[misfits <= allowed]])
        if len(found) > most:
            break
    patterns = _ranked(found, reduced, target)[0]
    return patterns[:most], bool(off < 0.5) and len(patterns) <= most


# ---- Many signs from precise equations, by reducing a lattice


def _lattice_signs(
    M: Array, v: Array, error: float, stopped: Callable[[], bool]
) -> tuple[Array, str]:
    """The only signs (a row) with `M xi = v` up to an error of the norm, or why they are open.

    Each equation has some 36 bits where v and M are known to 1e-11: hundreds of bits fix a hundred
    signs, although far too many patterns could be tried, a subset sum of low density. Integer
    vectors h whose m + 1 entries are all even or all odd, with the coordinates

        h_1, ..., h_m, h_0, (sum_i h_i M_i - h_0 v) / step,

    are a lattice (Lagarias and Odlyzko 1985; Coster et al. 1992). The signs are a vector of length
    about `sqrt(m + 1)` in it. All others are longer, by the bits that the equations have to spare.
    The reduction of Lenstra, Lenstra and Lovasz finds a vector that is shorter than the others by
    about `1.022^m`; where it just misses, it starts again with the units in another order. So
    m^2/32 bits are needed, and with twice as many one try is enough.

    Signs are accepted if they leave no more than the errors of v and M, if so many equations hold
    by chance once in 1e12 (40 bits beyond one per sign), and if the reduced basis has no second
    vector as short as the difference of two patterns that both solve them.
    """
    m, bits, none = M.shape[1], equation_bits(M, error), np.empty((0, M.shape[1]))
    step = max(1e-11 * float(np.linalg.norm(M)), error / 100)
    spare = equation_bits(M, step) / (m**2 / 32)
    if bits < m + 40:
        return none, f"the equations for {m} signs have {max(bits, 0):.0f} bits, too few."
    if m > 220 or spare < 1:  # 200 units take most of a minute, growing with the fifth power
        return none, f"{bits:.0f} bits determine {m} signs, but no search finds so many."
    rng = np.random.default_rng(0)
    tries = 1 if spare > 2 else int(np.clip(30 * (100 / m) ** 5, 1, 30))
    for _ in range(tries):
        order = rng.permutation(m)
        for basis in _reduced_bases(M[:, order], v, step, stopped):
            head = basis[:, : m + 1]
            for row in np.flatnonzero((np.abs(head) == 1).all(axis=1)):
                signs = (head[row, :m] * head[row, m])[np.argsort(order)]
                others = np.linalg.norm(np.delete(head, row, axis=0), axis=1)
                if np.linalg.norm(v - M @ signs) <= error and others.min() > 2 * np.sqrt(m):
                    return signs[None], ""
        if stopped():
            return none, "the time was over before a lattice was reduced: give more time."
    return none, f"{tries} reductions of a lattice found none that explain it."


def equation_bits(M: Array, error: float) -> float:
    """How many bits of the signs `M xi = v` determines: `-log2` of the chance that random signs do.

    Random signs are about normal with covariance `M M^T`, whose density at its centre times the
    volume of the ball of radius `error` is that chance at most.
    """
    s = np.linalg.svd(M, compute_uv=False)
    s = s[s > error]
    k = len(s)
    log_ball = k / 2 * log(pi) - lgamma(k / 2 + 1)
    log_density = -k / 2 * log(2 * pi) - float(np.sum(np.log(s / error)))
    return -(log_ball + log_density) / log(2)


def _reduced_bases(M: Array, v: Array, step: float, stopped: Callable[[], bool]) -> Iterator[Array]:
    """Reduced with ten equations at a time, those of most bits first, up to twice the bits needed.

    So 200 units in 100 features take 40 s; all equations at once take 110 s.
    """
    m = M.shape[1]
    U, s, _ = np.linalg.svd(M, full_matrices=False)
    bits = np.cumsum(np.log2(np.maximum(s / step, 1.0)))
    number = 1 + int(np.searchsorted(bits, max(2 * m**2 / 32, m + 40)))
    equations = np.column_stack([U.T @ M, -U.T @ v])[:number] / step
    basis: list[list[Any]] = [*(2 * np.eye(m, m + 1, dtype=int)).tolist(), [1] * (m + 1)]
    for start in range(0, len(equations), 10):
        if stopped():
            return
        more = fmpz_mat([[round(x) for x in column] for column in equations[start : start + 10].T])
        values = (fmpz_mat([row[: m + 1] for row in basis]) * more).tolist()
        both = [row + value for row, value in zip(basis, values, strict=True)]
        basis = fmpz_mat(both).lll().tolist()
        yield np.array(basis, dtype=float)


# ---- One slope of all units


@dataclass(frozen=True)
class OneSlope:
    """Units of one slope that explain a linear part."""

    activation: Activation
    signs: Signs
    spare_bits: float
    """The bits of the equations beyond one per sign. ReLU units with a linear term would have to
    obey them by chance. One unit, or units whose hyperplanes are all parallel, leave none: any
    linear term along these is some slope."""


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
    if units == 0:
        return None
    if size <= allowed:
        return OneSlope(ABS, Signs(np.ones(units), v), equation_bits(M, error))
    across = M - np.outer(v, v @ M) / size**2
    error *= 1 + float(np.linalg.norm(M)) / size
    found = _best_signs(across[:, 1:], -across[:, 0], error, stopped)
    fits = [_scaled(M, v, np.append(1.0, xi)) for xi in (found.signs, *found.alternatives)]
    good = [fit for fit in fits if np.linalg.norm(fit[2]) <= allowed]
    if not good:
        return None
    (rho, xi, left), *others = good
    signs = Signs(xi, left, tuple(other for _, other, _ in others))
    return OneSlope(leaky_relu(_slope(rho)), signs, equation_bits(across, error) - units)


def slope_from_linear_part(alpha: Array, W: Array, v: Array) -> float:
    """The slope below zero of independent units that share one, from noisy estimates."""
    return _slope(_scaled(unit_terms(alpha, W), v.ravel())[0])


def is_one_slope(alpha: Array, W: Array, v: Array) -> bool:
    """Whether one slope of all units explains the linear part, as units of ReLU would not.

    Then it leaves less than 1e-6 of the terms: far above the rounding of a fit, far below what a
    second slope would leave.
    """
    M = unit_terms(alpha, W)
    return bool(np.linalg.norm(_scaled(M, v.ravel())[2]) < 1e-6 * np.linalg.norm(M))


def _slope(rho: float) -> float:
    return (rho - 1) / (rho + 1)


def _scaled(M: Array, v: Array, xi: Array | None = None) -> tuple[float, Array, Array]:
    """The rho >= 0 that brings `rho M xi` nearest to v, signs that go with it, and the remainder.

    Without signs, those of least squares.
    """
    xi = _signs_of(np.linalg.lstsq(M, v, rcond=None)[0]) if xi is None else xi
    explained = M @ xi
    rho = float(explained @ v) / max(float(explained @ explained), np.finfo(float).tiny)
    return abs(rho), xi if rho > 0 else -xi, v - rho * explained


# ---- Units that may be flipped


@dataclass(frozen=True)
class FlipSets:
    """Minimal sets of units (indices) whose joint flip changes nothing but the output bias."""

    sets: tuple[tuple[int, ...], ...]
    """By size. Disjoint ones may be flipped together."""
    complete: bool
    """Whether there are no others."""


def flip_sets(network: Network, tolerance: float = 1e-9) -> FlipSets:
    """All inclusion-minimal sets of units that may be flipped together.

    With independent `a_i w_i` there is none, and an even activation has no signs. `complete` is
    false if the `a_i w_i` have a null space of more than 20 dimensions, too many for the search.
    Units without effect (`a_i w_i = 0`) are in no set, and sets whose flip only exchanges units are
    left out. A sum counts as zero up to a fraction `tolerance` of `sum_i |a_i w_i|`.
    """
    if not tolerance >= 0:
        raise InvalidInput(f"The tolerance must be at least 0, not {tolerance}.")
    network = network.as_one_layer("flip_sets")
    M = unit_terms(network.output_weights, network.weights)
    size = np.linalg.norm(M, axis=0)
    members = np.flatnonzero(size > tolerance * size.sum())
    if not odd_slope(network.activation) or len(members) == 0:
        return FlipSets((), True)
    M = M[:, members]
    allowed = 2 * tolerance * float(size.sum())  # xi = 1 - 2 x for the indicator x of a set
    solutions, complete = sign_solutions(M, M.sum(axis=1), allowed)
    plain = network.replace(linear=None)  # a linear term would absorb any sign
    sets = [tuple(int(i) for i in members[x]) for x in _minimal(solutions < 0)]
    others = [units for units in sets if parameter_error(flipped(plain, units), plain) > 1e-6]
    return FlipSets(tuple(sorted(others, key=lambda units: (len(units), units))), complete)


def flipped(network: Network, units: Iterable[int]) -> Network:
    """The network with some units flipped; only the constant of the change is compensated."""
    slope = odd_slope(network.activation)
    if slope is None:
        raise InvalidInput(
            f"Units of {network.activation.name!r} cannot be flipped: sigma(z) - sigma(-z) is not "
            "linear."
        )
    chosen = list(units)
    signs = np.ones(network.units)
    signs[chosen] = -1.0
    constant = slope * network.output_weights[..., chosen] @ network.biases[chosen]
    return network.replace(
        weights=network.weights * signs[:, None],
        biases=network.biases * signs,
        output_bias=network.output_bias + constant,
    )


def odd_slope(activation: Activation) -> float | None:
    """The s of `sigma(z) - sigma(-z) = s z`, or None if that is not linear."""
    z = np.array([1.0, 0.1, 0.3, 0.7, 1.9, 3.3])
    ratio = (activation(z) - activation(-z)) / z
    # Equal but for the rounding of an activation's own evaluation.
    linear = np.allclose(ratio, ratio[0], rtol=0, atol=1e-12 * (1 + np.abs(ratio[0])))
    return float(ratio[0]) if linear else None


def _minimal(X: AnyArray) -> AnyArray:
    """The rows, not empty, that contain no other."""
    X = X[np.argsort(X.sum(axis=1), kind="stable")]
    X = X[X.any(axis=1)]
    kept = []
    while len(X):
        kept.append(X[0])
        X = X[~X[:, X[0]].all(axis=1)]
    return np.array(kept, dtype=bool).reshape(len(kept), X.shape[1])
