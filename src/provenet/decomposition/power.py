"""Tensor power iteration with indefinite whitening.

Write `s_i = <w_i, u>` for independent units w_i. The map `u <- T_2^-1 T_4(u, u, u, .)` acts on
these coordinates as `s_i <- (b_i^2 - 1) s_i^3`, and `u <- T_2^-1 T_3(u, u, .)` as
`s_i <- -b_i s_i^2` (ATV21, Lemma 3.5, with the factor `a_i phi(b_i)` divided out by `T_2`): a
power method that converges cubically or quadratically to a u that sees one unit alone, for any
signs of the a_i. Then `T_2 u` is parallel to that unit. Units already found are kept out by
`<w_j, u> = 0`.
"""

from __future__ import annotations

import numpy as np

from provenet.typing import AnyArray, Array

_STARTS = 50
_ITERATIONS = 60
_SETTLED = 1e-10


def power_directions(
    T2: Array, T3: Array, T4: Array, rng: np.random.Generator, weights: tuple[float, float]
) -> Array:
    """As many unit directions (rows, up to sign) as `T_2` has rank (it must be regular).

    `weights` say how far `T_3` and `T_4` are to be trusted (one over their errors): of the fixed
    points found from many starts the one that stands out most from the error is kept.
    """
    d = len(T2)
    inverse = np.asarray(np.linalg.inv(T2), dtype=float)
    flat3, flat4 = T3.reshape(d, d * d), T4.reshape(d * d, d * d)
    found = np.empty((0, d))
    for _ in range(d):
        outside = _complement(found)
        U = rng.standard_normal((_STARTS, len(outside))) @ outside
        half = _STARTS // 2
        parts = [
            _iterate(part, inverse, outside, flat3, flat4, order)
            for part, order in ((U[:half], 3), (U[half:], 4))
        ]
        U, settled = (np.concatenate(both) for both in zip(*parts, strict=True))
        third, fourth = _contract(U, flat3, flat4)
        # For a unit vector u these are single entries of the tensors: signal over error as it is.
        strength = np.hypot(
            weights[0] * np.einsum("sd,sd->s", third, U),
            weights[1] * np.einsum("sd,sd->s", fourth, U),
        )
        best = np.argmax(np.where(settled, strength, 1e-12 * strength))
        found = np.vstack([found, _normalised(U[best] @ T2)])
    return found


def _complement(found: Array) -> Array:
    """Orthonormal rows of the space orthogonal to the directions found so far."""
    d = found.shape[1]
    if len(found) == 0:
        return np.eye(d)
    return np.linalg.svd(found, full_matrices=True)[2][len(found) :]


def _contract(U: Array, flat3: Array, flat4: Array) -> tuple[Array, Array]:
    """`T_3(u, u, .)` and `T_4(u, u, u, .)` for every row u."""
    s, d = U.shape
    pairs = np.einsum("si,sj->sij", U, U).reshape(s, d * d)
    return pairs @ flat3.T, np.einsum("sij,sj->si", (pairs @ flat4).reshape(s, d, d), U)


def _iterate(
    U: Array, inverse: Array, outside: Array, flat3: Array, flat4: Array, order: int
) -> tuple[Array, AnyArray]:
    """Where the power iteration of one order leads from each start, and whether it has settled."""
    project = outside.T @ outside
    U = _normalised(U)
    for _ in range(_ITERATIONS):
        before = U
        U = _normalised(_contract(U, flat3, flat4)[order - 3] @ inverse @ project)
    return U, np.abs(np.einsum("sd,sd->s", U, before)) > 1 - _SETTLED


def _normalised(U: Array) -> Array:
    return np.asarray(U / (np.linalg.norm(U, axis=-1, keepdims=True) + 1e-300))
