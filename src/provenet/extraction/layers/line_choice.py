"""Lines worth tracing: through cells of the known layers, and across them.

A kink tells most where most units below are on, so that most lines go between far corners of such
cells. But no cell sees all units of the next layer switch: others are visited in turn, and lines
across all cells go from where random sums of the units below are least to where they are largest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.layers.cells import CleanCell, descended, rich_places
from provenet.extraction.layers.known import Frame, KnownLayers
from provenet.extraction.layers.tolerances import (
    CELL_LINES,
    DESCENT_STEPS,
    RICH_CELLS,
    SCALES,
    SHORTEST_LINE,
)
from provenet.extraction.segments import Segment
from provenet.extraction.tolerances import KINK_SCALE, KINKS_IN_BOX, REACH, REACH_OF_REST


@dataclass
class LineChoice:
    """Where lines are sent."""

    frame: Frame
    known: KnownLayers
    rng: np.random.Generator

    def segments(self) -> Iterator[Segment]:
        """Lines worth tracing, without end."""
        return self._in_cells() if self.known.layers else self._anywhere()

    def _anywhere(self) -> Iterator[Segment]:
        """Random lines through random inputs, from end to end."""
        d, far = self.frame.coordinates, REACH if not self.known.layers else REACH_OF_REST
        while True:
            start, towards = self.frame.sample(2, self.rng)
            direction = (towards - start) / np.linalg.norm(towards - start)
            reach = self.frame.reach(start, direction, 0.1 * far * np.sqrt(d))
            scale = min(3 * KINK_SCALE * np.sqrt(d), (reach[1] - reach[0]) / KINKS_IN_BOX)
            yield Segment(start, direction, reach, scale)

    def _in_cells(self) -> Iterator[Segment]:
        """Lines in each of some cells and across them in turn: no cell sees all units switch."""
        places = rich_places(self.known, RICH_CELLS, self.rng, self.frame.inside)
        cells = [self._within_cell(u) for u in places]
        turns, turn = [*cells[:1], self._across_cells(), *cells[1:]], 0
        while len(turns) > 1:
            turn += 1
            often = (turn & -turn).bit_length() - 1  # each half as often as the one before
            lines = turns[min(often, len(turns) - 1)]
            segment = next(lines, None)
            if segment is None:
                turns.remove(lines)
            else:
                yield segment
        yield from self._anywhere()

    def _within_cell(self, u: Array) -> Iterator[Segment]:
        """Lines between far corners of the cell of a point."""
        cell = CleanCell.of(self.known, u)
        if cell is None:
            return
        found = np.array(cell.corners(u, CELL_LINES, self.rng)).reshape(-1, len(u))
        corners = self.frame.inside(found, u)
        for i, j in pairwise(self.rng.permutation(len(corners))):
            segment = self.between(corners[i], corners[j])
            if segment is not None:
                yield segment

    def _across_cells(self) -> Iterator[Segment]:
        """Lines from where random sums of h are least to where they are largest, near and far.

        A unit above is such a sum: one that is nearly always on, or off, switches there.
        """
        d, units = self.known.coordinates, self.known.units
        while True:
            start = self.rng.choice(SCALES) * self.rng.standard_normal((1, d))
            R = self.rng.standard_normal((1, units))
            steps = int(self.rng.integers(DESCENT_STEPS // 2, DESCENT_STEPS))
            ends = [descended(self.known, start, sign * R, steps)[0] for sign in (1.0, -1.0)]
            segment = self.between(*self.frame.inside(np.array(ends)))
            if segment is not None:
                yield segment

    def between(self, p: Array, q: Array) -> Segment | None:
        """The segment between two points, as far as it lies in the box; None if it is short."""
        if not self.frame.contains((p + q)[None] / 2)[0]:
            p, q = self.frame.inside(np.array([p, q]))
        length = float(np.linalg.norm(q - p))
        if length < SHORTEST_LINE:
            return None
        middle, direction = (p + q) / 2, (q - p) / length
        reach = self.frame.reach(middle, direction, length / 2)
        return Segment(middle, direction, reach, length / 10)
