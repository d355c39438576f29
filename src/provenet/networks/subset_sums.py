"""Which subsets of some vectors add up to a target? Exactly, by meeting in the middle.

All sums of one half of the vectors are sorted along a random direction, and each sum of the other
half looks for its partner there: `2^(m/2)` of each instead of `2^m`. A chance meeting along two
random directions is checked in all coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.networks.tolerances import MOST_VECTORS, SUM_ROUNDING


@dataclass(frozen=True)
class Subsets:
    """Subsets with the right sum."""

    masks: AnyArray
    """(subsets, vectors), true for members."""
    complete: bool
    """Whether these are all."""


def subsets_with_sum(V: Array, target: Array, tolerance: float, most: int = 1000) -> Subsets:
    """Subsets of the rows of V whose sum is within `tolerance` of the target, up to `most`."""
    m = len(V)
    if m > MOST_VECTORS:
        raise ValueError(
            f"{m} vectors are too many for an exact search, which ends at {MOST_VECTORS}"
        )
    rng = np.random.default_rng(0)
    G = rng.standard_normal((V.shape[1], 2))
    G /= np.linalg.norm(G, axis=0)
    half = m // 2
    first = _sums(V[:half] @ G)
    wanted = target @ G - _sums(V[half:] @ G)
    order = np.argsort(first[:, 0])
    line = first[order, 0]
    near_enough = tolerance + SUM_ROUNDING * float(np.abs(V @ G).sum())
    low = np.searchsorted(line, wanted[:, 0] - near_enough, "left")
    high = np.searchsorted(line, wanted[:, 0] + near_enough, "right")
    found: list[AnyArray] = []
    for j in np.flatnonzero(high > low):
        near = order[low[j] : high[j]]
        near = near[np.abs(first[near, 1] - wanted[j, 1]) <= near_enough]
        for i in near:
            mask = np.concatenate([_members(int(i), half), _members(int(j), m - half)])
            if np.linalg.norm(V[mask].sum(axis=0) - target) <= tolerance:
                found.append(mask)
                if len(found) == most:
                    return Subsets(np.array(found), complete=False)
    return Subsets(np.array(found, dtype=bool).reshape(len(found), m), complete=True)


def _sums(V: Array) -> Array:
    """The sums of all subsets of the rows; bit i of a subset's number stands for row i."""
    sums = np.zeros((1, V.shape[1]))
    for row in V:
        sums = np.concatenate([sums, sums + row])
    return sums


def _members(number: int, size: int) -> AnyArray:
    return np.asarray((number >> np.arange(size)) & 1 == 1)
