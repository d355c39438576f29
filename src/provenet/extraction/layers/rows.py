"""Rows of the next layer: where they come from, what they predict, which are the same.

At a kink the gradient of f in h jumps by a multiple of the row r of the unit that switches there,
in the columns of the units that are on; the two linear pieces agree where `r.h + b = 0`. Kinks of
the same unit in other cells tell other columns: two rows are one where what both know is
proportional, bias included. A row of the next layer predicts kinks wherever its columns are known;
one of a deeper layer does so only where the units between keep their states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import KnownLayers
from provenet.extraction.layers.lines import Line
from provenet.extraction.layers.pieces import Piece
from provenet.extraction.layers.tolerances import (
    CHANCE,
    HITS,
    HITS_A_MISS,
    JUMP,
    OFF_ERRORS,
    OTHER_JUMP,
    SAME_PLACE,
    SAME_ROW,
    SEEN,
    SEEN_AN_UNSEEN,
    SEEN_ANYWHERE,
    SHARED,
    SHARED_PART,
    UNSEEN,
    UNSURE_PLACE,
)
from provenet.extraction.tolerances import (
    TINIEST,
)


@dataclass(frozen=True)
class LooksAtRow:
    """Looks at a row where other units of its layer are in other states."""

    seen: int = 0
    unseen: int = 0

    @property
    def refuted(self) -> bool:
        """Whether it does not predict there."""
        return self.unseen >= UNSEEN and self.seen < SEEN_AN_UNSEEN * self.unseen

    @property
    def believed(self) -> bool:
        """Whether it does: no unit of a deeper layer would."""
        return self.seen >= SEEN and self.seen >= SEEN_AN_UNSEEN * self.unseen

    def with_look(self, seen: bool) -> LooksAtRow:
        """One more."""
        return LooksAtRow(self.seen + seen, self.unseen + (not seen))

    def __add__(self, other: LooksAtRow) -> LooksAtRow:
        """Of two rows that are one."""
        return LooksAtRow(self.seen + other.seen, self.unseen + other.unseen)


class Always(Enum):
    """Whether a unit is on everywhere."""

    NOT = "it switches"
    SEEMS = "no kink of it was met, but there are some: far out it is as low as it is high"
    IS = "it is hardly ever low"


@dataclass(eq=False)
class Row:
    """A unit's weights and bias (last), up to a common factor, in the columns that are known."""

    v: Array
    cols: AnyArray
    """Of the units below; the bias is always known."""
    errors: Array
    """Of the entries of v, as far as these are known."""
    place: Array
    """Coordinates of a kink of it."""
    hits: int = 1
    misses: int = 0
    beside: LooksAtRow = LooksAtRow()
    """Looks where some other row is in another state."""
    away: LooksAtRow = LooksAtRow()
    """Where many are: some of these are no units of the layer, most may be."""
    anywhere: LooksAtRow = LooksAtRow()
    """Far from where it was met."""
    apart: frozenset[int] = frozenset()
    """Columns of units that it never switches with: no kink tells their weights (`apart`)."""
    free: frozenset[int] = frozenset()
    """Those of them whose weights were chosen: nothing tells them."""
    always: Always = Always.NOT
    """Whether it is a unit that never switches (`always_on`)."""

    @property
    def error(self) -> float:
        """The largest of a weight, beside the norm of the weights."""
        return float(self.errors[:-1][self.cols].max()) / float(np.linalg.norm(self.v[:-1]))

    @property
    def told(self) -> AnyArray:
        """Which entries of v are known: the columns, and the bias."""
        return np.append(self.cols, True)

    @property
    def accepted(self) -> bool:
        """Whether it predicted enough."""
        enough = self.hits >= HITS and self.hits > HITS_A_MISS * self.misses
        return enough and not self.refuted

    @property
    def refuted(self) -> bool:
        """Whether it does not predict where other units are in other states."""
        return self.beside.refuted or self.away.refuted or self.anywhere.refuted

    @property
    def confirmed(self) -> bool:
        """Whether it does where many are."""
        return self.away.believed or self.anywhere.seen >= SEEN_ANYWHERE

    @property
    def believed(self) -> bool:
        """Whether it is filled before others: it predicted elsewhere."""
        return self.beside.believed or self.confirmed

    def values(self, h: Array) -> Array:
        """`r.h + b` at the rows of h."""
        return np.asarray(h @ self.v[:-1] + self.v[-1])

    def unsure(self, h: Array) -> Array:
        """How far the errors let these values be off."""
        return np.asarray(np.sqrt(h**2 @ self.errors[:-1] ** 2 + self.errors[-1] ** 2))

    def knows(self, h: Array) -> AnyArray:
        """Where all units that are on are known."""
        return np.asarray(~((h > 0) & ~self.cols).any(axis=-1))


@dataclass(frozen=True)
class Jump:
    """Of a gradient in h, between two pieces of one cell: a factor for each output, and a row."""

    direction: Array
    """In the units that are on, of length 1."""
    outputs: Array
    size: float
    error: float
    """Of an entry of the direction."""


def jump_of(before: Piece, after: Piece) -> Jump | None:
    """The jump between two pieces; None if it is lost in rounding, or one of two units."""
    left, size, right = np.linalg.svd(after.g - before.g, full_matrices=False)
    error = (before.error + after.error) * np.sqrt(right.shape[1])
    if size[0] <= JUMP * error or (len(size) > 1 and size[1] > JUMP * error + OTHER_JUMP * size[0]):
        return None
    return Jump(right[0], left[:, 0], float(size[0]), float(error / size[0]))


def row_between(before: Piece, after: Piece, place: Array, units: int) -> Row | None:
    """The row of the unit that switches between two pieces of one cell; None if unclear."""
    if not np.array_equal(before.on, after.on):
        return None
    jump = jump_of(before, after)
    if jump is None:
        return None
    v, errors = np.zeros(units + 1), np.zeros(units + 1)
    v[:-1][before.on] = jump.direction
    v[-1] = float(jump.outputs @ (after.k - before.k) / jump.size)
    errors[:-1][before.on] = jump.error
    errors[-1] = jump.error * (1 + float(np.linalg.norm(before.h)))
    return Row(v, before.on.copy(), errors, place)


def predicted(row: Row, known: KnownLayers, line: Line) -> tuple[Array, Array]:
    """Where a row's zeros lie on a line, as far as its columns tell, and how unsure each is."""
    ends = np.concatenate([[line.low], line.switches, [line.high]])
    h = known.h(line.at(ends))
    middle = known.h(line.at((ends[1:] + ends[:-1]) / 2))
    told = row.knows(middle) if known.layers else np.ones(len(middle), dtype=bool)
    F = row.values(h)
    before, after = F[:-1], F[1:]
    crossed = told & (before * after < 0)
    length = np.diff(ends)
    part = np.divide(before, before - after, out=np.zeros_like(before), where=crossed)
    t = (ends[:-1] + part * length)[crossed]
    speed = np.abs(after - before)[crossed] / length[crossed]
    at = h[:-1][crossed] + part[crossed, None] * (h[1:] - h[:-1])[crossed]
    return t, (row.unsure(at) + TINIEST) / speed


def match(row: Row, number: int, known: KnownLayers, line: Line, *, counts: bool = True) -> None:
    """Note the kinks of a line that a row predicts; they count, and those it predicts in vain."""
    for t, unsure in zip(*predicted(row, known, line), strict=True):
        near = abs(t) + line.scale
        if UNSURE_PLACE * unsure > 10 * SAME_PLACE * near or _at_an_end(line, t):
            continue
        apart = np.abs(line.kinks - t)
        best = int(np.argmin(apart)) if len(apart) else -1
        tolerance = UNSURE_PLACE * unsure + SAME_PLACE * near
        if best >= 0 and apart[best] <= tolerance:
            if not line.old[best] and line.owner[best] in (-1, number):
                line.owner[best] = number
                row.hits += counts
        elif counts and line.complete and not line.is_flat(t) and not line.is_crowded(t):
            row.misses += 1


def _at_an_end(line: Line, t: float) -> bool:
    return min(t - line.low, line.high - t) < 0.01 * line.scale


def may_overlap(rows: Sequence[Row], row: Row) -> AnyArray:
    """Numbers of the rows that a row may be one with: what `overlap` says is asked of few then."""
    if not rows:
        return np.empty(0, dtype=int)
    both = np.array([own.told for own in rows]) & row.told
    U, V = np.array([own.v for own in rows]) * both, row.v * both
    errors = np.array([own.errors for own in rows])
    sizes = np.linalg.norm(U, axis=1), np.linalg.norm(V, axis=1) + TINIEST
    ratio = sizes[0] / sizes[1]
    allowed = errors + ratio[:, None] * row.errors + SAME_ROW * sizes[0][:, None] + TINIEST
    U, V = U / allowed, V / allowed
    factor = np.sum(U * V, axis=1) / (np.sum(V * V, axis=1) + TINIEST)
    return np.flatnonzero((np.abs(U - factor[:, None] * V) <= OFF_ERRORS).all(axis=1))


def overlap(first: Row, second: Row) -> float | None:
    """The factor that turns the second row into the first where both are known; None if none."""
    both = first.told & second.told
    if both.sum() < SHARED + 1:
        return None
    u, v = first.v[both], second.v[both]
    sizes = float(np.linalg.norm(u)), float(np.linalg.norm(v))
    if sizes[0] < SHARED_PART * np.linalg.norm(first.v) or (
        sizes[1] < SHARED_PART * np.linalg.norm(second.v)
    ):
        return None
    ratio = sizes[0] / sizes[1]
    errors = first.errors[both] + ratio * second.errors[both] + SAME_ROW * sizes[0]
    factor = float((u / errors) @ (v / errors)) / float((v / errors) @ (v / errors))
    if (np.abs(u - factor * v) > OFF_ERRORS * errors).any():
        return None
    apart = float(np.linalg.norm(u - factor * v)) / sizes[0]
    return factor if apart ** (both.sum() - 1) < CHANCE else None


def joined(first: Row, second: Row, factor: float) -> Row:
    """One row from two; what both know from the one that knows it better."""
    both = first.told & second.told
    unsure = 1 / np.linalg.norm(first.v[both] / _scaled(first, second, factor, both))
    other = factor * second.v
    errors = abs(factor) * second.errors
    if np.median(first.errors[both]) <= np.median(errors[both]):
        v, e, w, f = first.v, first.errors, other, errors + unsure * np.abs(other)
        own, its = first.told, second.told
    else:
        v, e, w, f = other, errors, first.v, first.errors + unsure * np.abs(first.v)
        own, its = second.told, first.told
    better = its & (~own | (f < e))
    cols = first.cols | second.cols
    place = first.place if first.cols.sum() >= second.cols.sum() else second.place
    return Row(
        np.where(better, w, v),
        cols,
        np.where(better, f, e),
        place,
        first.hits + second.hits,
        first.misses + second.misses,
        first.beside + second.beside,
        first.away + second.away,
        first.anywhere + second.anywhere,
    )


def _scaled(first: Row, second: Row, factor: float, both: AnyArray) -> Array:
    """What both errors make of each entry that both know."""
    return np.asarray(first.errors[both] + abs(factor) * second.errors[both] + TINIEST)
