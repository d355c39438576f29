"""The signs of the units: `relu(w.x + b)` or `relu(-w.x - b)`?

Orders 2 and up of the moments, and the kinks of a function, know a unit only up to its sign. The
linear part knows the rest. With `relu(z) = |z|/2 + z/2`,

    sum_i a_i relu(xi_i z_i) = sum_i a_i |z_i| / 2 + sum_i xi_i a_i z_i / 2,

so the linear part v of a sum of absolute values must equal `sum_i xi_i a_i w_i / 2`. With
independent weights that fixes every xi_i; ATV21 Algorithm 3 (FixSigns) is the same argument on T_1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from provenet.typing import Array

_EXHAUSTIVE_UNITS = 16


def fix_signs(T1: Array, a: Array, W: Array) -> Array:
    """ATV21, Algorithm 3: signs of the solution z of `sum_i z_i a_i w_i = T_1`."""
    z = np.linalg.lstsq((a[:, None] * W).T, T1, rcond=None)[0]
    return np.where(z < 0, -1.0, 1.0)


@dataclass(frozen=True)
class Signs:
    """Signs of the units and what of the linear part they do not explain."""

    signs: Array
    remainder: Array
    """`v - sum_i xi_i a_i w_i / 2`; zero when the network has no linear term."""
    alternatives: tuple[Array, ...] = ()
    """Other signs that explain the linear part as well."""


def signs_from_linear_part(a: Array, W: Array, v: Array) -> Signs:
    """The signs xi that bring `sum_i xi_i a_i w_i / 2` closest to v."""
    M = (a[:, None] * W).T / 2
    if M.shape[1] <= M.shape[0] and np.linalg.matrix_rank(M, tol=1e-8 * np.linalg.norm(M)) == len(
        a
    ):
        xi = np.where(np.linalg.lstsq(M, v, rcond=None)[0] < 0, -1.0, 1.0)
        return Signs(xi, v - M @ xi)
    if len(a) <= _EXHAUSTIVE_UNITS:
        return _exhaustive(M, v)
    xi = _local_search(M, v)
    return Signs(xi, v - M @ xi)


def _exhaustive(M: Array, v: Array) -> Signs:
    patterns = np.array(list(product((1.0, -1.0), repeat=M.shape[1])))
    misfit = np.linalg.norm(patterns @ M.T - v, axis=1)
    order = np.argsort(misfit, kind="stable")
    best = patterns[order[0]]
    same = misfit[order[1:]] <= misfit[order[0]] + 1e-9 * np.linalg.norm(M)
    return Signs(best, v - M @ best, tuple(patterns[order[1:][same]]))


def _local_search(M: Array, v: Array) -> Array:
    """Flip the one sign, or the two, that help most, until none does."""
    xi = np.where(np.linalg.lstsq(M, v, rcond=None)[0] < 0, -1.0, 1.0)
    while True:
        r = v - M @ xi
        step = 2 * M * xi  # flipping sign i adds step_i to the remainder
        gram = step.T @ step
        single = 2 * step.T @ r + np.diag(gram)
        pairs = single[:, None] + single + 2 * gram
        np.fill_diagonal(pairs, single)
        i, j = np.unravel_index(np.argmin(pairs), pairs.shape)
        if pairs[i, j] >= -1e-12 * (v @ v + np.sum(M**2)):  # rounding is no gain
            return xi
        xi = xi.copy()
        xi[[i, j]] *= -1
