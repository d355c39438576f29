"""Which rows are believed: f is asked for kinks where they predict them (`looks`).

Any row predicts kinks about the one it comes from. A unit of the layer does so everywhere; a row of
a deeper unit fails where other units of the layer have switched, and far from where it was met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from provenet.extraction.layers.known import Frame, KnownLayers
from provenet.extraction.layers.looks import look
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.tolerances import (
    MANY_OTHERS,
    MOST_LOOKS,
    MOST_MISSES,
    SEEN,
    SEEN_ANYWHERE,
)


def accepted(rows: Sequence[Row]) -> list[Row]:
    """Rows that predicted enough."""
    return [row for row in rows if row.accepted]


def confirmed(rows: Sequence[Row]) -> list[Row]:
    """Those that did so where other units had switched, or far away."""
    return [row for row in accepted(rows) if row.confirmed]


@dataclass(frozen=True)
class Believing:
    """Looks at the rows of the layer above the known ones."""

    frame: Frame
    known: KnownLayers
    rng: np.random.Generator

    def candidates(self, rows: Sequence[Row]) -> None:
        """Ask where rows predict kinks, until each is accepted or refuted.

        First where rows that are sure have switched: those of deeper units predict none there.
        """
        sure = confirmed(rows)
        for row in rows:
            for _ in range(MOST_LOOKS):
                if row.accepted or row.refuted or row.misses > MOST_MISSES:
                    break
                beside = self._look(row, sure, 1) if sure else None
                seen = self._look(row) if beside is None else beside
                if seen is None:
                    break
                if beside is not None:
                    row.beside = row.beside.with_look(beside)
                row.hits, row.misses = row.hits + seen, row.misses + (not seen)

    def confirm(self, rows: Sequence[Row]) -> None:
        """Look at accepted rows where many others are in other states: deeper units' rows fail.

        Where there are more than units below, most are those of deeper ones: far away, too.
        """
        if len(accepted(rows)) > self.known.units:
            for row in accepted(rows):
                self._anywhere(row)
        for row in sorted(accepted(rows), key=lambda row: -row.hits):
            for _ in range(MOST_LOOKS):
                others = [one for one in accepted(rows) if one is not row and one.cols.all()]
                if row.confirmed or row.refuted or not others:
                    break
                seen = self._look(row, others, max(1, round(MANY_OTHERS * len(others))))
                if seen is None:
                    break
                row.away = row.away.with_look(seen)

    def doubt(self, rows: Sequence[Row]) -> None:
        """Look again at rows where as many others have switched as can be."""
        for row in rows:
            others = [other for other in rows if other is not row]
            while row.away.seen + row.away.unseen < MOST_LOOKS:
                seen = self._look(row, others, 1)
                if seen is None:
                    break
                row.away = row.away.with_look(seen)

    def predicts(self, row: Row) -> bool:
        """Whether kinks are at all places that a row says, `SEEN` of them."""
        return all(self._look(row) for _ in range(SEEN))

    def beside(self, row: Row, rows: Sequence[Row]) -> None:
        """Look at a row where some other is in another state."""
        for _ in range(MOST_LOOKS):
            if row.beside.believed or row.refuted:
                break
            others = [other for other in confirmed(rows) or accepted(rows) if other is not row]
            seen = self._look(row, others, 1)
            if seen is None:
                break
            row.beside = row.beside.with_look(seen)

    def _anywhere(self, row: Row) -> None:
        """Look at a row far from where it was met, as long as such places are found."""
        for _ in range(SEEN_ANYWHERE):
            if row.confirmed or row.refuted:
                break
            seen = look(self.frame, self.known, row, self.rng, anywhere=True)
            if seen is None:
                break
            row.anywhere = row.anywhere.with_look(seen)

    def _look(self, row: Row, others: Sequence[Row] = (), least: int = 0) -> bool | None:
        return look(self.frame, self.known, row, self.rng, others, least)
