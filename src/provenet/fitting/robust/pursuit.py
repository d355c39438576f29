"""Principal component pursuit: a matrix as one of low rank and a sparse one (BJW19, section 8).

    min |L|_* + weight |S|_1   subject to   L + S = Y,   weight = 1 / sqrt(max(Y.shape)),

(the weight is missing in the paper: erratum 12), by the inexact augmented Lagrangian method: L is a
shrinkage of singular values, through the small Gram matrix of a tall Y, S a shrinkage of entries.
A product of Y with a small matrix and a few passes over Y a step; four copies of Y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import TINY, AnyArray, Array
from provenet.fitting.least_squares import Ended
from provenet.fitting.robust.tolerances import (
    FIRST_PENALTY,
    MOST_PURSUIT_STEPS,
    PENALTY_GROWTH,
    PURSUIT_NOISE,
    PURSUIT_TOLERANCE,
)


@dataclass(frozen=True)
class Pursuit:
    """What principal component pursuit gave."""

    low_rank: Array
    sparse: Array
    ended: Ended
    iterations: int

    @property
    def rank(self) -> int:
        """Where the singular values fall most steeply, below the number of columns."""
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(self.low_rank.T @ self.low_rank)[::-1], 0.0))
        values = np.maximum(values, PURSUIT_NOISE * values[0] + TINY)
        return int(np.argmax(values[:-1] / values[1:])) + 1


def principal_component_pursuit(
    Y: Array,
    usable: AnyArray | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    tolerance: float = PURSUIT_TOLERANCE,
) -> Pursuit:
    """`min |L|_* + |S|_1 / sqrt(max(Y.shape))`; entries that are not `usable` cost nothing in S.

    It ends when `L + S` is `Y` up to `tolerance` of its norm.
    """
    weight = np.full(Y.shape, 1 / np.sqrt(max(Y.shape)))
    if usable is not None:
        weight, Y = weight * usable, np.where(usable, Y, 0.0)
    size = float(np.linalg.norm(Y))
    largest = np.sqrt(max(np.linalg.eigvalsh(Y.T @ Y)[-1], TINY))
    S, penalty = np.zeros_like(Y), FIRST_PENALTY / largest
    multiplier = Y / max(largest, np.abs(Y).max() * np.sqrt(max(Y.shape)))  # dual feasible
    for iteration in range(1, MOST_PURSUIT_STEPS + 1):
        L = _shrink_singular_values(Y - S + multiplier / penalty, 1 / penalty)
        T = Y - L + multiplier / penalty
        S = T - np.clip(T, -weight / penalty, weight / penalty)
        left = Y - L - S
        multiplier += penalty * left
        penalty *= PENALTY_GROWTH
        if np.linalg.norm(left) <= tolerance * size:
            return Pursuit(L, S, Ended.CONVERGED, iteration)
        if out_of_time():
            return Pursuit(L, S, Ended.OUT_OF_TIME, iteration)
    return Pursuit(L, S, Ended.OUT_OF_STEPS, MOST_PURSUIT_STEPS)


def _shrink_singular_values(M: Array, threshold: float) -> Array:
    squares, V = np.linalg.eigh(M.T @ M)
    values = np.sqrt(np.maximum(squares, 0.0))
    kept = values > threshold
    V, values = V[:, kept], values[kept]
    return np.asarray((M @ (V * (1 - threshold / values))) @ V.T)
