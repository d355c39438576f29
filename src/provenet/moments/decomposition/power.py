"""Tensor power iteration with indefinite whitening.

Write `s_i = <w_i, u>` for independent units w_i. The map `u <- T_2^-1 T_4(u, u, u, .)` acts on
these coordinates as `s_i <- (b_i^2 - 1) s_i^3`, and `u <- T_2^-1 T_3(u, u, .)` as
`s_i <- -b_i s_i^2` (ATV21, Lemma 3.5, with the factor `a_i phi(b_i)` divided out by `T_2`): a
power method that converges cubically or quadratically to a u that sees one unit alone, for any
signs of the a_i. Then `T_2 u` is parallel to that unit. Units already found are kept out by
`<w_j, u> = 0`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from provenet.common.typing import Array
from provenet.moments.decomposition.contraction import Contractions
from provenet.moments.tolerances import ACROSS, AT_REST, POWER_STARTS, POWER_STEPS, TINY

Contract = Callable[[Array], Array]


def power_directions(
    T2: Array, T3: Array, T4: Array, rng: np.random.Generator, weights: tuple[float, float]
) -> Array:
    """As many unit directions (rows, up to sign) as `T_2` has rank (it must be regular).

    `weights` say how far `T_3` and `T_4` are to be trusted (one over their errors): of the points
    found from many starts the one that is most nearly a fixed point of both maps is kept.
    """
    d = len(T2)
    inverse = np.asarray(np.linalg.inv(T2), dtype=float)
    higher = Contractions(T3, T4)
    found = np.empty((0, d))
    for _ in range(d):
        outside = _complement(found)
        U = rng.standard_normal((POWER_STARTS, len(outside))) @ outside
        half = POWER_STARTS // 2
        U = np.concatenate(
            [
                _iterate(part, inverse, outside, contract)
                for part, contract in ((U[:half], higher.third), (U[half:], higher.fourth))
            ]
        )
        best = _best(U, inverse, outside, higher, weights)
        found = np.vstack([found, _normalised(best @ T2)])
    return found


def _best(
    U: Array,
    inverse: Array,
    outside: Array,
    higher: Contractions,
    weights: tuple[float, float],
) -> Array:
    """The u that is most nearly a fixed point of both maps at once, as a unit's is.

    An iterate that has not settled is a fixed point of neither, and one that settled on the error
    of a vanishing tensor is one of that map alone.
    """
    along, across = np.zeros(len(U)), np.zeros(len(U))
    for weight, T in zip(weights, (higher.third(U), higher.fourth(U)), strict=True):
        image = weight * T @ inverse @ outside.T @ outside
        size = np.einsum("sd,sd->s", image, U)
        along = np.hypot(along, size)
        across = np.hypot(across, np.linalg.norm(image - size[:, None] * U, axis=1))
    return np.asarray(U[np.argmax(along / (across + ACROSS * max(weights)))])


def _complement(found: Array) -> Array:
    """Orthonormal rows of the space orthogonal to the directions found so far."""
    d = found.shape[1]
    if len(found) == 0:
        return np.eye(d)
    return np.linalg.svd(found, full_matrices=True)[2][len(found) :]


def _iterate(U: Array, inverse: Array, outside: Array, contract: Contract) -> Array:
    """Where the power iteration of one order leads from each start; those at rest are left."""
    step = inverse @ outside.T @ outside
    U = _normalised(U)
    moving = np.arange(len(U))
    for _ in range(POWER_STEPS):
        before = U[moving]
        U[moving] = _normalised(contract(before) @ step)
        moving = moving[np.abs(np.einsum("sd,sd->s", U[moving], before)) < AT_REST]
        if len(moving) == 0:
            break
    return U


def _normalised(U: Array) -> Array:
    return np.asarray(U / (np.linalg.norm(U, axis=-1, keepdims=True) + TINY))
