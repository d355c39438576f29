"""The hyperplane of one piece of the boundary, from points of it about one.

At x, with a direction v across the boundary, the point above `x + s e` lies at the height h with
`s n.e + h n.v = 0`: one bisection tells one component of the normal n. That all lie on one piece is
seen from the opposite steps: the boundary passes `x - s e - h v` too. Cells are convex, so nothing
bends between.

All normals are sums of the units' weights. Once some of them span these, a normal is measured
along their span alone, and a step in a direction outside of it shows whether that is all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.classes.bisection import Brackets
from provenet.extraction.classes.sides import Sides
from provenet.extraction.classes.tolerances import (
    BENT,
    COARSELY,
    OF_A_STEP,
    OUTSIDE_SPAN,
    SHORTENINGS,
    SHORTER,
    STRAIGHT,
)
from provenet.extraction.tolerances import NUMBERS_AT_ONCE


@dataclass(frozen=True)
class BoundaryPiece:
    """Near x the boundary is where `normal.(. - x) = 0`; the positive class is where n points."""

    x: Array
    normal: Array
    step: float
    """How far it goes on at least in every direction that was asked."""
    error: float
    """How far rounding lets the normal be off."""

    @property
    def offset(self) -> float:
        """The hyperplane is `normal.x + offset = 0`."""
        return -float(self.normal @ self.x)


class NormalSpan:
    """Orthonormal rows that span the normals met so far."""

    def __init__(self, features: int) -> None:
        """Nothing is spanned."""
        self.rows = np.zeros((0, features))
        self.error = 0.0
        """How far rounding lets a direction of it be off."""

    @property
    def full(self) -> bool:
        """Whether every direction is in it."""
        return len(self.rows) == self.rows.shape[1]

    def add(self, n: Array, error: float) -> None:
        """A further normal, known so well."""
        left = self.outside(self.outside(n))
        size = np.linalg.norm(left)
        if size > OUTSIDE_SPAN and not self.full:
            self.rows = np.vstack([self.rows, left / size])
            self.error = max(self.error, error / float(size))

    def outside(self, v: Array) -> Array:
        """What of a direction is not in the span."""
        return np.asarray(v - (v @ self.rows.T) @ self.rows)

    def across(self, v: Array) -> Array:
        """Orthonormal rows that span what of the span is perpendicular to v, which is in it."""
        inside = self.rows @ v
        turned = np.linalg.qr(np.column_stack([inside, np.eye(len(inside))]))[0]
        return np.asarray(turned[:, 1:].T @ self.rows)


def on_boundary(sides: Sides, X: Array, n: Array, distance: Array | float) -> AnyArray:
    """Whether the boundary passes within a distance of each point, n pointing across it."""
    d = np.broadcast_to(distance, len(X))[:, None]
    answers = sides(np.vstack([X - d * n, X + d * n]))
    return np.asarray((answers[: len(X)] == -1) & (answers[len(X) :] == 1))


def measured(
    sides: Sides, x: Array, v: Array, step: float, span: NormalSpan, rng: np.random.Generator
) -> BoundaryPiece | None:
    """The piece through x, which v crosses; None where the boundary is not straight there."""
    inside = v - span.outside(v)
    size = np.linalg.norm(inside)
    if not span.full and len(span.rows) > 1 and size > OUTSIDE_SPAN:
        piece = _along_span(sides, x, inside / size, step, span)
        if piece is None or _is_all(sides, piece, span, rng):
            return piece
    return _along_axes(sides, x, v, step)


def _along_span(
    sides: Sides, x: Array, v: Array, step: float, span: NormalSpan
) -> BoundaryPiece | None:
    frame = span.across(v)
    slopes, steps = _slopes(sides, x, v, frame, step, 0.0)
    if np.isnan(slopes).any():
        return None
    return _piece(sides, x, v - slopes @ frame, steps, 0.0)


def _along_axes(sides: Sides, x: Array, v: Array, step: float) -> BoundaryPiece | None:
    """One step along every axis."""
    features = len(x)
    rows = max(1, NUMBERS_AT_ONCE // features)
    parts = []
    for first in range(0, features, rows):
        axes = np.eye(min(rows, features - first), features, first)
        parts.append(_slopes(sides, x, v, axes, step, OF_A_STEP))
        if np.isnan(parts[-1][0]).any():
            return None
    slopes, steps = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _piece(sides, x, -slopes, steps, OF_A_STEP)


def _piece(sides: Sides, x: Array, normal: Array, steps: Array, precision: float) -> BoundaryPiece:
    size, step = float(np.linalg.norm(normal)), float(steps.min(initial=np.inf))
    off = np.maximum(sides.resolution(x) / steps, precision)
    return BoundaryPiece(x, normal / size, step, float(np.linalg.norm(off)) / size)


def _slopes(
    sides: Sides, x: Array, v: Array, directions: Array, step: float, precision: float
) -> tuple[Array, Array]:
    """By how much the boundary rises along v for a step in each direction, and how long it was.

    To a part of the step, or as finely as can be; whether it is straight is seen on the way, since
    steps that leave the piece need not be measured well.
    """
    slopes = np.full(len(directions), np.nan)
    steps = np.full(len(directions), step)
    left = np.arange(len(directions))
    for _ in range(SHORTENINGS):
        own = steps[left]
        brackets = Brackets.about(sides, x + own[:, None] * directions[left], v, own)
        for part, allowed in ((COARSELY, BENT), (precision, STRAIGHT)):
            tolerance = np.maximum(part * own, sides.resolution(x))
            brackets = brackets.narrowed(tolerance)
            off = _rows_off(x, brackets, allowed * own + 4 * tolerance)
            brackets = brackets.without(off)
        straight = brackets.found
        slopes[left[straight]] = (brackets.heights / own)[straight]
        left = left[~straight]
        if len(left) == 0:
            break
        steps[left] *= SHORTER
    return slopes, steps


def _rows_off(x: Array, brackets: Brackets, allowed: Array) -> AnyArray:
    """Rows whose opposite, through x, is not on the boundary."""
    rows = np.flatnonzero(brackets.found)
    across = brackets.v
    above = brackets.X[rows] + brackets.heights[rows, None] * across
    passes = on_boundary(brackets.sides, 2 * x - above, across, allowed[rows])
    return np.asarray(rows[~passes])


def _is_all(sides: Sides, piece: BoundaryPiece, span: NormalSpan, rng: np.random.Generator) -> bool:
    """Whether the boundary does not move along a direction outside of the span."""
    e = span.outside(rng.standard_normal(len(piece.x)))
    e = span.outside(e / np.linalg.norm(e))
    moved = piece.x + piece.step * np.array([e, -e]) / np.linalg.norm(e)
    allowed = OUTSIDE_SPAN * piece.step + 4 * sides.resolution(piece.x)
    return bool(on_boundary(sides, moved, piece.normal, allowed).all())
