"""The rows of the layer above the known ones.

Lines are traced (`cells`), and kinks that nothing explains are measured (`pieces`); a jump is a row
(`rows`). A row that predicts the kinks of other lines is a unit of the next layer. While fewer rows
are known than columns, the slope perpendicular to all of them shows a unit that is missing: two
questions a piece tell where it switches, and only there gradients are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.apart import with_weights_apart
from provenet.extraction.layers.believing import Believing, accepted, confirmed
from provenet.extraction.layers.cells import rich_places
from provenet.extraction.layers.filling import completed
from provenet.extraction.layers.known import Frame, KnownLayers, OutsideTheBox
from provenet.extraction.layers.line_choice import LineChoice
from provenet.extraction.layers.lines import Line, traced
from provenet.extraction.layers.missing import missing_at
from provenet.extraction.layers.pieces import Measuring, Piece
from provenet.extraction.layers.refining import refined
from provenet.extraction.layers.rows import (
    LooksAtRow,
    Row,
    joined,
    match,
    may_overlap,
    overlap,
    predicted,
    row_between,
)
from provenet.extraction.layers.silence import Silence, asked_for_silence
from provenet.extraction.layers.tolerances import (
    CLOSE_ROWS,
    FILL_ROUNDS,
    FILLED_UNSURE,
    FULL_LINES,
    LEAST_LINES,
    OPEN_A_LINE,
    SCALES,
    SILENT_DEEP,
    SILENT_PLACES,
    SILENT_RICH,
    WALKS_A_LINE,
    WELL_APART,
)
from provenet.extraction.layers.walks import kink_in_cell, walked_row
from provenet.extraction.lines import FollowedLine
from provenet.extraction.segments import Segment
from provenet.extraction.tolerances import FAR_OUT

NO_LINE = -1
"""In place of the number of a line. A convention."""


@dataclass
class Stage:
    """What is known of one layer while lines are traced."""

    frame: Frame
    known: KnownLayers
    rng: np.random.Generator
    lines: list[Line] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    unsure_below: float = 0.0
    """Largest error of a row of the known layers."""
    before: dict[tuple[int, int], Piece | None] = field(default_factory=dict)
    """Pieces of the lines that were measured for the layer below."""
    given: FollowedLine | None = None
    """A line that was followed before."""
    measuring: Measuring = field(init=False)
    choice: LineChoice = field(init=False)
    traced: int = 0
    """Lines of this layer's own."""

    def __post_init__(self) -> None:
        """Nothing is measured."""
        self.measuring = Measuring(self.frame, self.known, self.rng, self.before)
        self.choice = LineChoice(self.frame, self.known, self.rng)
        for number, line in enumerate(self.lines):
            self.measure(line, np.array([i for i in line.open_kinks if self._known(number, i)]))

    def moved(self, frame: Frame, known: KnownLayers) -> None:
        """The layers below are known better."""
        self.frame, self.known = frame, known
        self.measuring.frame, self.measuring.known = frame, known
        self.choice.frame, self.choice.known = frame, known

    @property
    def pieces(self) -> list[Piece]:
        """All that could be measured."""
        every = [*self.measuring.pieces.values(), *self.measuring.unclean.values()]
        return [piece for piece in every if piece is not None]

    @property
    def accepted(self) -> list[Row]:
        """Rows that predicted enough."""
        return accepted(self.rows)

    @property
    def confirmed(self) -> list[Row]:
        """Those that did so where other units had switched, or far away."""
        return confirmed(self.rows)

    def span_of_slopes(self, R: Array) -> Array | None:
        """Orthonormal rows that span these and all gradients by the inputs; None for all inputs.

        What is linear in f is a part of every gradient: outside of it nothing is to be fitted.
        """
        slopes = self.measuring.span.rows
        if self.known.layers or len(slopes) == 0 or len(slopes) + len(R) >= R.shape[1]:
            return None
        return np.asarray(np.linalg.qr(np.vstack([slopes, R]).T)[0].T)

    @property
    def open_kinks(self) -> int:
        """Kinks that no accepted row explains."""
        accepted = {i for i, row in enumerate(self.rows) if row.accepted}
        return sum(
            1
            for line in self.lines
            for owner, old in zip(line.owner, line.old, strict=True)
            if not old and owner not in accepted
        )

    def kinks_beside(self, rows: Sequence[Row]) -> Array:
        """Where kinks are that neither the known layers nor these rows explain."""
        own = [number for number, row in enumerate(self.rows) if row in rows]
        places = [line.at(line.kinks[~line.old & ~np.isin(line.owner, own)]) for line in self.lines]
        return np.vstack([np.empty((0, self.known.coordinates)), *places])

    @property
    def open_share(self) -> float:
        """Of all kinks that are not those of known units."""
        new = sum(int(np.sum(~line.old)) for line in self.lines)
        return self.open_kinks / max(1, new)

    # ------------------------------------------------------------ rows

    def follow(self, segment: Segment, *, few: bool = False) -> None:
        """Trace a line, match what is known, measure what is new, or a few of it."""
        self.frame.check_time()
        self.traced += 1
        try:
            line = traced(self.frame, self.known, segment, self.given, self._expected)
        except OutsideTheBox:
            return
        self.given = None
        self.lines.append(line)
        for number, row in enumerate(self.rows):
            match(row, number, self.known, line)
        wanted = line.open_kinks
        if FULL_LINES < self.traced < LEAST_LINES and not self.known.layers:
            return
        if self.traced > FULL_LINES:
            only = missing_at(self.frame, self.known, self.accepted, line, self.rng)
            if only is not None:
                wanted = np.intersect1d(wanted, only)
            elif few or not self.known.layers:
                wanted = self.rng.permutation(wanted)[:OPEN_A_LINE]
        self.measure(line, wanted)

    def _expected(self, line: Line) -> Array:
        """Where rows that were not refuted predict kinks."""
        rows = [row for row in self.rows if row.accepted or not row.misses]
        return np.concatenate([np.empty(0), *(predicted(row, self.known, line)[0] for row in rows)])

    def measure_open(self, most: int) -> None:
        """Rows from kinks of any line that nothing explains, those with the most room first."""
        found = []
        for number, line in enumerate(self.lines):
            _, distance = line.places()
            for i in line.open_kinks:
                if self._known(number, i):
                    continue
                room = min(distance[i], distance[i + 1]) / (1 + abs(line.kinks[i]))
                found.append((-float(room), number, int(i)))
        for _, number, i in sorted(found)[:most]:
            self.measure(self.lines[number], np.array([i]))

    def walk_from_open(self) -> None:
        """Rows from walks along surfaces of kinks that nothing explains and no cell told alone."""
        found = []
        for number, line in enumerate(self.lines):
            _, distance = line.places()
            for i in map(int, line.open_kinks):
                keys = {(number, i), (number, i + 1)}
                measured = keys <= self.measuring.unclean.keys()
                if not measured and all(self.measuring.pieces.get(key, 0) is None for key in keys):
                    room = min(distance[i], distance[i + 1]) / (1 + abs(line.kinks[i]))
                    found.append((-float(room), number, i))
        for _, number, i in sorted(found)[:WALKS_A_LINE]:
            line = self.lines[number]
            before, after = (self.measuring.piece_in_any_cell(number, line, k) for k in (i, i + 1))
            if before is None or after is None:
                continue
            start = kink_in_cell(self.known, before, after, line.at(line.kinks[i]))
            row = None if start is None else walked_row(self.measuring, start, self.rng)
            if row is not None:
                self.propose(row)

    def measure_at(self, u: Array, room: float) -> None:
        """A gradient at a point of no line."""
        count = len(self.measuring.unclean)
        self.measuring.unclean[NO_LINE, count] = self.measuring.in_any_cell(u, room)

    def _known(self, number: int, kink: int) -> bool:
        """Whether the pieces on both sides of a kink were measured, or could not be."""
        return {(number, kink), (number, kink + 1)} <= self.measuring.pieces.keys()

    def measure(self, line: Line, kinks: AnyArray) -> None:
        """Rows from kinks of a line."""
        number = self.lines.index(line)
        if not self.known.layers:
            open_ = kinks[line.owner[kinks] < 0]
            self.measuring.roomiest_first(number, line, np.union1d(open_, open_ + 1))
        for i in kinks:
            if line.owner[i] >= 0:
                continue
            before = self.measuring.piece(number, line, i)
            after = self.measuring.piece(number, line, i + 1)
            if before is None or after is None:
                continue
            row = row_between(before, after, line.at(line.kinks[i]), self.known.units)
            if row is not None:
                line.owner[i] = self._added(row, line)

    def _added(self, row: Row, line: Line | None) -> int:
        """The number of a row, joined with one that it is a part of."""
        for number in map(int, may_overlap(self.rows, row)):
            own = self.rows[number]
            factor = overlap(own, row)
            if factor is None:
                continue
            grown = bool((row.cols & ~own.cols).any())
            self.rows[number] = joined(own, row, factor)
            if grown:
                self._rematch(number, line)
            return number
        self.rows.append(row)
        self._rematch(len(self.rows) - 1, line)
        return len(self.rows) - 1

    def propose(self, row: Row) -> Row:
        """A row that no kink told, or the one that it is a part of: looks must know it."""
        return self.rows[self._added(row, None)]

    @property
    def believing(self) -> Believing:
        """Looks at rows."""
        return Believing(self.frame, self.known, self.rng)

    def look_at_candidates(self) -> None:
        """Ask where rows predict kinks, until each is accepted or refuted."""
        self.believing.candidates(self.rows)

    def confirm(self) -> None:
        """Look at accepted rows where those of deeper units fail."""
        self.believing.confirm(self.rows)

    def merge(self) -> None:
        """Join accepted rows, which grow, with rows that have become parts of them."""
        i = 0
        while i < len(self.rows):
            own = self.rows[i]
            for j in map(int, may_overlap(self.rows, own)) if own.accepted else ():
                low, high = min(i, j), max(i, j)
                factor = overlap(self.rows[low], self.rows[high]) if low < high else None
                if factor is not None:
                    self._merge(low, high, factor)
                    i = low
                    break
            else:
                i += 1

    def tell_apart(self) -> None:
        """Whole rows close to each other, each from where its kinks are: then one may be left."""
        whole = [i for i, row in enumerate(self.rows) if row.confirmed and row.cols.all()]
        v = np.array([self.rows[i].v / np.linalg.norm(self.rows[i].v) for i in whole])
        for number, own in zip(whole, v, strict=True):
            apart = np.minimum(np.linalg.norm(v - own, axis=1), np.linalg.norm(v + own, axis=1))
            if (apart < CLOSE_ROWS).sum() < 2:
                continue
            better = refined(self.frame, self.known, self.rows[number], self.rng)
            if better is not None:
                self.rows[number] = better
                self._rematch(number)
        self.merge()

    def _merge(self, i: int, j: int, factor: float) -> None:
        self.rows[i] = joined(self.rows[i], self.rows[j], factor)
        del self.rows[j]
        for line in self.lines:
            line.owner[line.owner == j] = i
            line.owner[line.owner > j] -= 1
        for line in self.lines:
            if not (line.owner == i).any():
                match(self.rows[i], i, self.known, line)

    def widened(self, rows: Sequence[Row]) -> list[Row]:
        """The accepted rows in place of which others, wider ones, are known now."""
        numbers = [number for number, row in enumerate(self.rows) if row.accepted]
        for number, row in zip(numbers, rows, strict=True):
            self.rows[number] = row
        self.merge()
        return self.accepted

    def with_weights_apart(self, rows: Sequence[Row], signs: Array) -> list[Row]:
        """The rows with weights for units that they never switch with."""
        every = self.frame, self.known, rows, signs, self.pieces, self.rng
        return with_weights_apart(*every)

    def fill(self, *, every: bool) -> None:
        """Ask for the columns that are missing of accepted rows; also where looks were in vain."""
        for row in self.accepted:
            if not row.cols.all():
                self.believing.beside(row, self.rows)
        for number in self._to_fill(every=every):
            row = self.rows[number]
            asked = self.frame, self.known, row, self.rng, FILL_ROUNDS
            wider = completed(*asked, seldom=every)
            if (wider.cols & ~row.cols).any():  # it predicts elsewhere, too, now
                self.rows[number] = replace(wider, anywhere=LooksAtRow())
                self._rematch(number)
        self.merge()
        self.tell_apart()

    def _to_fill(self, *, every: bool) -> list[int]:
        """Numbers of accepted rows that lack columns: all that are believed, some of the others."""
        open_ = [i for i, row in enumerate(self.rows) if row.accepted and not row.cols.all()]
        ready = [i for i in open_ if self.rows[i].believed]
        unsure = [i for i in open_ if not self.rows[i].believed] if every else []
        unsure.sort(key=lambda i: -self.rows[i].hits)
        return [*ready, *unsure[:FILLED_UNSURE]]

    def _rematch(self, number: int, but: Line | None = None) -> None:
        """Match a row with the lines there are; what was counted before is not counted again."""
        for line in self.lines:
            if line is not but:
                counts = not (line.owner == number).any()
                match(self.rows[number], number, self.known, line, counts=counts)

    def silence(self, rows: Sequence[Row], signs: Array, others: Array) -> Silence:
        """Whether f depends on nothing but these rows, at random points and others."""
        d, parts = self.known.coordinates, [others]
        parts += [s * self.rng.standard_normal((SILENT_PLACES, d)) for s in SCALES]
        if self.known.layers:
            scales = (*SCALES, *FAR_OUT)
            parts += [s * self.rng.standard_normal((SILENT_DEEP, d)) for s in scales]
            parts.append(rich_places(self.known, SILENT_RICH, self.rng, self.frame.inside))
        U = self.frame.inside(np.vstack(parts))
        return asked_for_silence(self.frame, self.known, rows, signs, U, self.rng)

    def sharpened(self, rows: Sequence[Row]) -> list[Row]:
        """Rows of a layer that is left behind, poorly known ones measured again."""
        numbers = [self.rows.index(row) if row in self.rows else None for row in rows]
        self._sharpen([number for number in numbers if number is not None])
        return [
            row if number is None else self.rows[number]
            for row, number in zip(rows, numbers, strict=True)
        ]

    def _sharpen(self, numbers: Sequence[int], most: float = WELL_APART) -> None:
        """Measure poorly known rows again at the kink with the most room."""
        for number in numbers:
            if self.rows[number].error <= most:
                continue
            best, place = 0.0, None
            for n, line in enumerate(self.lines):
                _, distance = line.places()
                for i in np.flatnonzero(line.owner == number).tolist():
                    room = min(distance[i], distance[i + 1]) / (1 + abs(line.kinks[i]))
                    if not self._known(n, i) and room > best:
                        best, place = room, (line, i)
            if place is not None:
                line, i = place
                line.owner[i] = -1
                self.measure(line, np.array([i]))
                line.owner[i] = number
