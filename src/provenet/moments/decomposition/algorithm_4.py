"""ATV21, Algorithm 4, steps 1 to 4: directions of the units from `T_2l+1` and `T_2l+2`.

Flattened to (l, l, 1) and (l, l, 2) places, a tensor `sum_i zeta_i w_i^(x)k` has terms with the
factors `w_i^(x)l`, independent for far more units than features; Jennrich finds them. A unit is
missing from one of the two where `He_k-2(b_i)` vanishes, but not from both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.moments.decomposition.jennrich import jennrich
from provenet.moments.symmetric import SymmetricTensor, direction_of
from provenet.moments.tolerances import FLATTENING_ROUNDING, SAME_DIRECTION


@dataclass(frozen=True)
class Terms:
    """Rank-one terms of a tensor: their directions, and how far each may be off (radians)."""

    rank: int
    directions: Array
    doubt: Array


def unit_directions(
    tensors: Sequence[SymmetricTensor],
    errors: Sequence[float],
    order: int,
    units: int | None,
    rng: np.random.Generator,
) -> tuple[Array, str]:
    """The directions in both tensors, weak terms and duplicates removed; what was seen, in words.

    `tensors` are `T_k` for k = 2 order + 1 and 2 order + 2, `errors` those of their entries.
    """
    found = [_terms(T, e, order, units, rng) for T, e in zip(tensors, errors, strict=True)]
    W = np.vstack([terms.directions for terms in found])
    doubt = np.concatenate([terms.doubt for terms in found])
    W = _without_duplicates(W, doubt)[:units]
    (low, high), (third, fourth) = (T.order for T in tensors), (terms.rank for terms in found)
    return W, (
        f"T_{low} has rank {third} and T_{high} rank {fourth} above the noise; {len(W)} directions "
        "are distinct."
    )


def _terms(
    T: SymmetricTensor, error: float, order: int, units: int | None, rng: np.random.Generator
) -> Terms:
    """Jennrich on one tensor.

    The singular values that pure sampling error gives a flattening are the scale for everything:
    eta_1 (rank) and eta_2 (weak terms) equal it, and over a term's coefficient it is that term's
    angular error, from which eta_3 (duplicates) follows.
    """
    flat = T.flattened(order, order)
    rows = len(flat)
    values = np.linalg.svd(flat.reshape(rows, -1), compute_uv=False)
    # Isometric entries are as many as the full tensor's, in effect: their squares sum to the same.
    entry = error * np.sqrt(T.d**T.order / flat.size)
    edge = 1.5 * entry * (np.sqrt(rows) + np.sqrt(flat.size / rows))
    threshold = max(edge, FLATTENING_ROUNDING * values[0])
    rank = int(np.sum(values > threshold))
    factors = jennrich(flat, min(rank, units or rank), rng)
    W = np.array([direction_of(u, T.d, order) for u in factors]).reshape(len(factors), T.d)
    alpha = np.abs(T.coefficients(W)) if len(W) else np.empty(0)
    strong = alpha > threshold
    return Terms(rank, W[strong], threshold / alpha[strong])


def _without_duplicates(W: Array, doubt: Array) -> Array:
    """Keep a direction unless, up to sign, a surer one lies within the doubts of the two."""
    kept: list[int] = []
    for i in np.argsort(doubt):
        apart = [1 - abs(W[i] @ W[j]) for j in kept]
        within = [max(doubt[i] + doubt[j], SAME_DIRECTION) ** 2 / 2 for j in kept]
        if all(a > w for a, w in zip(apart, within, strict=True)):
            kept.append(int(i))
    return W[kept]
