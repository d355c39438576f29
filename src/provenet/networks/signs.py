"""The signs of the units: `relu(w.x + b)` or `relu(-w.x - b)`?

Orders 2 and up of the moments, and the kinks of a function, know a unit only up to its sign. The
linear part knows the rest. With `relu(z) = |z|/2 + z/2`,

    sum_i a_i relu(xi_i z_i) = sum_i a_i |z_i| / 2 + sum_i xi_i a_i z_i / 2,

so the linear part v of a sum of absolute values must equal `sum_i xi_i a_i w_i / 2`. With
independent weights that fixes every xi_i; ATV21 Algorithm 3 (FixSigns) is the same argument on T_1.
With several outputs v and a_i w_i are matrices, which are independent far more often. An activation
of slope s below zero has `rho = (1 + s)/(1 - s)` in place of 1 before the linear sum.

BJW19 Algorithm 6 decides each sign by regression instead (`fitting.signs_by_projection`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import qr, solve_triangular

from provenet.common.typing import AnyArray, Array
from provenet.networks.subset_sums import subsets_with_sum
from provenet.networks.tolerances import (
    DEPENDENT,
    EQUALLY_GOOD,
    EXACT_SIGNS,
    EXHAUSTIVE_UNITS,
    MOST_FREE_SIGNS,
    MOST_PATTERNS,
    MOST_SIGN_NUMBERS,
    MOST_VECTORS,
    NO_GAIN,
    ONE_SLOPE,
    TINY,
)


def fix_signs(T1: Array, a: Array, W: Array) -> Array:
    """ATV21, Algorithm 3: signs of the solution z of `sum_i z_i a_i w_i = T_1`."""
    return _signs_of(np.linalg.lstsq(unit_terms(a, W), T1.ravel(), rcond=None)[0])


@dataclass(frozen=True)
class Signs:
    """Signs of the units and what of the linear part they do not explain."""

    signs: Array
    remainder: Array
    """`v - sum_i xi_i a_i w_i / 2`; zero when the network has no linear term."""
    alternatives: tuple[Array, ...] = ()
    """Other signs that explain the linear part as well."""
    complete: bool = True
    """Whether no signs were left untried."""


def signs_from_linear_part(a: Array, W: Array, v: Array) -> Signs:
    """The signs xi that bring `sum_i xi_i a_i w_i / 2` closest to v."""
    return signs_of_terms(unit_terms(a, W) / 2, v.ravel())


def signs_of_terms(M: Array, v: Array) -> Signs:
    """The signs xi that bring `M xi` closest to v."""
    units = M.shape[1]
    if _independent(M):
        xi = _signs_of(np.linalg.lstsq(M, v, rcond=None)[0])
        return Signs(xi, v - M @ xi)
    if units <= EXHAUSTIVE_UNITS:
        return _exhaustive(M, v)
    exact = _exact(M, v) if units <= MOST_VECTORS else _exact_with_few_free(M, v)
    if exact is not None:
        return exact
    xi = _local_search(M, v)
    return Signs(xi, v - M @ xi, complete=units <= MOST_VECTORS)


def nearest_signs(a: Array, W: Array, v: Array, most: int) -> list[Array]:
    """Signs that explain a linear part best, at most so many; none of more units than are tried.

    Reversing units whose `a_i w_i` sum to nothing changes nothing, however many these are.
    """
    if len(W) > EXHAUSTIVE_UNITS:
        return []
    patterns = np.array(list(product((1.0, -1.0), repeat=len(W))))
    misfit = np.linalg.norm(patterns @ (unit_terms(a, W) / 2).T - v.ravel(), axis=1)
    return list(patterns[np.argsort(misfit, kind="stable")[:most]])


def slope_from_linear_part(alpha: Array, W: Array, v: Array) -> float:
    """The slope below zero that all units share, from `v = rho sum_i xi_i alpha_i w_i`.

    `alpha` are the output weights of the absolute values. Needs independent units; of others signs
    may come out all reversed, so that rho is negative.
    """
    rho = abs(_shared_factor(unit_terms(alpha, W), v.ravel())[0])
    return (rho - 1) / (rho + 1)


def is_one_slope(alpha: Array, W: Array, v: Array) -> bool:
    """Whether one slope of all units explains the linear part, as units of ReLU would not."""
    M = unit_terms(alpha, W)
    _, left = _shared_factor(M, v.ravel())
    return bool(left < ONE_SLOPE * np.linalg.norm(M))


def _shared_factor(M: Array, v: Array) -> tuple[float, float]:
    """The rho for which `rho sum_i xi_i M_i` is nearest to v, and how far it is."""
    explained = M @ _signs_of(np.linalg.lstsq(M, v, rcond=None)[0])
    rho = float(explained @ v) / max(float(explained @ explained), TINY)
    return rho, float(np.linalg.norm(v - rho * explained))


def unit_terms(a: Array, W: Array) -> Array:
    """`a_i w_i` (for several outputs the matrix, flat) as columns."""
    A = np.atleast_2d(a)
    return np.asarray(np.einsum("om,md->odm", A, W).reshape(A.shape[0] * W.shape[1], len(W)))


def _independent(M: Array) -> bool:
    if M.shape[1] > M.shape[0]:
        return False
    return bool(np.linalg.matrix_rank(M, tol=DEPENDENT * np.linalg.norm(M)) == M.shape[1])


def _signs_of(z: AnyArray) -> Array:
    return np.where(z < 0, -1.0, 1.0)


def _exhaustive(M: Array, v: Array) -> Signs:
    patterns = np.array(list(product((1.0, -1.0), repeat=M.shape[1])))
    misfit = np.linalg.norm(patterns @ M.T - v, axis=1)
    order = np.argsort(misfit, kind="stable")
    best = patterns[order[0]]
    same = misfit[order[1:]] <= misfit[order[0]] + EQUALLY_GOOD * np.linalg.norm(M)
    return Signs(best, v - M @ best, tuple(patterns[order[1:][same]]))


def _exact(M: Array, v: Array) -> Signs | None:
    """Signs with `sum_i xi_i M_i = v`, the units with -1 being those of a subset of known sum."""
    target = (M.sum(axis=1) - v) / 2
    found = subsets_with_sum(M.T, target, EXACT_SIGNS * float(np.linalg.norm(M)), MOST_PATTERNS)
    if len(found.masks) == 0:
        return None
    patterns = np.where(found.masks, -1.0, 1.0)
    misfit = np.linalg.norm(patterns @ M.T - v, axis=1)
    order = np.argsort(misfit, kind="stable")
    best = patterns[order[0]]
    return Signs(best, v - M @ best, tuple(patterns[order[1:]]))


def _exact_with_few_free(M: Array, v: Array) -> Signs | None:
    """Signs with `sum_i xi_i M_i = v` where few units depend on the others.

    Every pattern of these is tried; the others are independent, so each leaves them one.
    """
    Q, R, order = qr(M, mode="economic", pivoting=True)
    rank = int(np.sum(np.abs(np.diag(R)) > DEPENDENT * np.linalg.norm(M)))
    free = M.shape[1] - rank
    if free > MOST_FREE_SIGNS or rank * 2**free > MOST_SIGN_NUMBERS:
        return None
    patterns = np.array(list(product((1.0, -1.0), repeat=free))).reshape(-1, free)
    rest = (Q[:, :rank].T @ v)[:, None] - R[:rank, rank:] @ patterns.T
    own = _signs_of(solve_triangular(R[:rank, :rank], rest))
    misfit = np.linalg.norm(R[:rank, :rank] @ own - rest, axis=0)
    best = np.argsort(misfit, kind="stable")[:MOST_PATTERNS]
    best = best[misfit[best] <= EXACT_SIGNS * np.linalg.norm(M)]
    found = np.empty((len(best), M.shape[1]))
    found[:, order] = np.hstack([own[:, best].T, patterns[best]])
    return Signs(found[0], v - M @ found[0], tuple(found[1:])) if len(found) else None


def _local_search(M: Array, v: Array) -> Array:
    """Flip the one sign, or the two, that help most, until none does."""
    xi = _signs_of(np.linalg.lstsq(M, v, rcond=None)[0])
    while True:
        r = v - M @ xi
        step = 2 * M * xi  # flipping sign i adds step_i to the remainder
        gram = step.T @ step
        single = 2 * step.T @ r + np.diag(gram)
        pairs = single[:, None] + single + 2 * gram
        np.fill_diagonal(pairs, single)
        i, j = np.unravel_index(np.argmin(pairs), pairs.shape)
        if pairs[i, j] >= -NO_GAIN * (v @ v + np.sum(M**2)):  # rounding is no gain
            return xi
        xi = xi.copy()
        xi[[i, j]] *= -1
