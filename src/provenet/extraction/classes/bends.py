"""The units that make a boundary bend, from the hyperplanes of the pieces on both sides.

Write N = (n, offset) for a piece's hyperplane, in coordinates of the span of all normals, and
V_i = a_i (w_i, b_i) for a unit. Pieces that meet where unit i switches have `s' N' = s N +- V_i`
with positive s, s' that are not known: the bend tells a plane in which V_i lies. Bends of the same
unit between other pieces tell other planes, and V_i is what they share. In two dimensions planes
always share a line, so there three of them must.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.classes.tolerances import ENOUGH_BENDS, ENOUGH_IN_PLANE, SHARED


@dataclass(frozen=True)
class Bends:
    """Pairs of pieces that meet at a bend."""

    hyperplanes: Array
    """(pieces, dimensions + 1), rows of norm 1."""
    pairs: AnyArray
    """(bends, 2): the pieces on both sides."""

    @property
    def planes(self) -> Array:
        """Orthonormal rows of every bend's plane: (bends, 2, dimensions + 1)."""
        first, second = self.hyperplanes[self.pairs[:, 0]], self.hyperplanes[self.pairs[:, 1]]
        left = second - np.sum(first * second, axis=1)[:, None] * first
        left /= np.linalg.norm(left, axis=1)[:, None]
        return np.stack([first, left], axis=1)


@dataclass(frozen=True)
class UnitsMet:
    """Units whose hyperplanes several bends tell, and the bends of others."""

    V: Array
    """(units, dimensions + 1), rows of norm 1."""
    unit_of: AnyArray
    """The unit of each bend; -1 where no other bend is of the same."""


def units_met(bends: Bends) -> UnitsMet:
    """The hyperplanes that most bends have in common, one after the other."""
    dimensions = bends.hyperplanes.shape[1] - 1
    enough = ENOUGH_IN_PLANE if dimensions <= 2 else ENOUGH_BENDS
    planes, unit_of = bends.planes, np.full(len(bends.pairs), -1)
    candidates = _shared(bends, planes)
    found: list[Array] = []
    while len(candidates):
        open_bends = np.flatnonzero(unit_of < 0)
        off = _distances(candidates, planes[open_bends])
        supported = off < SHARED
        best = int(np.argmax(supported.sum(axis=1)))
        own = open_bends[supported[best]]
        if len(own) < enough:
            break
        unit_of[own] = len(found)
        found.append(_common(planes[own]))
        candidates = candidates[np.abs(candidates @ found[-1]) < 1 - SHARED]
    dims = bends.hyperplanes.shape[1]
    return UnitsMet(np.array(found).reshape(len(found), dims), unit_of)


def _shared(bends: Bends, planes: Array) -> Array:
    """What every two planes without a common piece share, if they do."""
    first, second = np.triu_indices(len(planes), 1)
    pairs = bends.pairs
    apart = (pairs[first][:, :, None] != pairs[second][:, None, :]).all(axis=(1, 2))
    first, second = first[apart], second[apart]
    overlap = np.einsum("pid,pjd->pij", planes[first], planes[second])
    left, _, _ = np.linalg.svd(overlap)
    V = np.einsum("pi,pid->pd", left[:, :, 0], planes[first])
    off = V - np.einsum("pjd,pj->pd", planes[second], np.einsum("pjd,pd->pj", planes[second], V))
    return np.asarray(V[np.linalg.norm(off, axis=1) < SHARED])


def _distances(V: Array, planes: Array) -> Array:
    """How far each vector is from each plane: (vectors, planes)."""
    inside = np.einsum("pjd,vd->vpj", planes, V)
    return np.asarray(np.sqrt(np.maximum(1 - np.sum(inside**2, axis=2), 0.0)))


def _common(planes: Array) -> Array:
    """The direction nearest to all planes."""
    rows = planes.reshape(-1, planes.shape[2])
    return np.asarray(np.linalg.svd(rows, full_matrices=False)[2][0])
