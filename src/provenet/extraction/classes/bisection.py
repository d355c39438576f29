"""Points of the boundary by bisection, one a row, all rows at once: a question a row and bit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.classes.sides import Sides
from provenet.extraction.classes.tolerances import GALLOP, GALLOPS, LAST_BITS


def between(sides: Sides, A: Array, B: Array) -> Array:
    """Points of the boundary on segments from A, on the negative side, to B, on the positive."""
    low, high = np.zeros(len(A)), np.ones(len(A))
    way = B - A
    lengths = np.linalg.norm(way, axis=1)
    tolerance = sides.resolution(np.vstack([A, B])) / np.maximum(lengths, 1.0)
    low, high = _halved(sides, A, way, low, high, tolerance)
    return np.asarray(A + ((low + high) / 2)[:, None] * way)


def heights(sides: Sides, X: Array, v: Array, width: Array) -> Array:
    """For each row the h at which `x + h v` is on the boundary, negative below and positive above.

    Looked for within `width` of zero, then further; nan where it is not found.
    """
    found = Brackets.about(sides, X, v, width)
    return found.narrowed(np.full(len(X), sides.resolution(X))).heights


@dataclass(frozen=True)
class Brackets:
    """Rows between whose ends, on `x + h v`, the boundary passes."""

    sides: Sides
    X: Array
    v: Array
    low: Array
    high: Array
    found: AnyArray
    """Which rows have one."""

    @classmethod
    def about(cls, sides: Sides, X: Array, v: Array, width: Array) -> Brackets:
        """Brackets of so much to either side, or further."""
        return cls(sides, X, v, *_bracketed(sides, X, v, -width, width.copy()))

    @property
    def heights(self) -> Array:
        """The middle of each; nan where there is none."""
        return np.where(self.found, (self.low + self.high) / 2, np.nan)

    def narrowed(self, tolerance: Array) -> Brackets:
        """The same to within a tolerance, a row."""
        rows = np.flatnonzero(self.found)
        low, high = self.low.copy(), self.high.copy()
        if len(rows):
            ends = _halved(
                self.sides,
                self.X[rows],
                _rows_of(self.v, rows),
                low[rows],
                high[rows],
                tolerance[rows],
            )
            low[rows], high[rows] = ends
        return replace(self, low=low, high=high)

    def without(self, rows: AnyArray) -> Brackets:
        """Rows given up."""
        found = self.found.copy()
        found[rows] = False
        return replace(self, found=found)


def _rows_of(v: Array, rows: AnyArray) -> Array:
    return v if v.ndim == 1 else v[rows]


def _bracketed(
    sides: Sides, X: Array, v: Array, low: Array, high: Array
) -> tuple[Array, Array, AnyArray]:
    """Brackets with the boundary inside, and which rows have one."""
    at_low = sides(X + low[:, None] * v)
    at_high = sides(X + high[:, None] * v)
    for _ in range(GALLOPS):
        down = np.flatnonzero((at_low == 1) & (at_high == 1))
        up = np.flatnonzero((at_low == -1) & (at_high == -1))
        if len(down) + len(up) == 0:
            break
        wider = GALLOP * (high - low)
        high[down], low[down] = low[down], low[down] - wider[down]
        low[up], high[up] = high[up], high[up] + wider[up]
        at_low[down] = sides(X[down] + low[down, None] * _rows_of(v, down))
        at_high[up] = sides(X[up] + high[up, None] * _rows_of(v, up))
    return low, high, np.asarray((at_low == -1) & (at_high == 1))


def _halved(
    sides: Sides, X: Array, v: Array, low: Array, high: Array, tolerance: Array
) -> tuple[Array, Array]:
    """Brackets as narrow as wanted; -1 at their lower ends, +1 at their upper."""
    low, high = low.copy(), high.copy()
    tolerance = np.maximum(tolerance, LAST_BITS * np.maximum(np.abs(low), np.abs(high)))
    rows = np.flatnonzero(high - low > tolerance)
    while len(rows):
        middle = (low[rows] + high[rows]) / 2
        above = sides(X[rows] + middle[:, None] * _rows_of(v, rows)) > 0
        high[rows[above]], low[rows[~above]] = middle[above], middle[~above]
        rows = rows[(high - low)[rows] > tolerance[rows]]
    return low, high
