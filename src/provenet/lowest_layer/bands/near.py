"""Bands of the samples that lie near one unit's face, in memory (GP19, Theorem 5 from samples).

A search for one unit looks at thousands of directions, all near the first, and only at samples near
the unit's face: these are read once. They are dealt out alternately: one half is searched on, the
other tells how far off the direction is that the search chose. The angle that the first half shows
is too small, since the direction was chosen by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import AnyArray, Array, Seed, row_blocks
from provenet.data.sources import Source
from provenet.lowest_layer.bands.queries import Band, BandOracle
from provenet.lowest_layer.bands.tolerances import FEWEST_BEYOND, MOST_NEAR, NEAR_WIDTHS


class NearBands(BandOracle):
    """Bands of some samples of many, standard normal as long as directions stay near.

    An integer seed takes one half of them at random, the same one for the same seed: two directions
    are compared on the same samples, and the next two on others, so that no direction is kept only
    because it suits some of them. Any other seed takes all. A direction is not changed in place.
    """

    makes_inputs = False

    def __init__(self, X: Array, fired: AnyArray, size: int, *, halved: bool = True) -> None:
        """Of `size` samples in all, far ones included; `halved`: an integer seed takes a half."""
        self.X, self.fired, self.features, self.size = X, fired, X.shape[1], size
        self.halved = halved
        self.reach = float(-special.ndtri(min(0.5, FEWEST_BEYOND / size)))
        self._drawn: tuple[int, AnyArray] | None = None
        none = np.zeros(0, int)
        self._along = _Along(np.zeros(self.features), -1, np.zeros(0), none, np.zeros(1, int))

    def band(self, z: Array, low: float, high: float, n: int, rng: Seed) -> Band:
        """All samples of the band."""
        along = self._sorted(z, rng)
        rows = along.order[along.place(low, high)]
        return Band(self.X[rows], self.fired[rows])

    def offsets(self, z: Array, low: float, high: float, n: int, rng: Seed) -> tuple[Array, Array]:
        """The offsets of all samples of the band, and where the label fires."""
        along = self._sorted(z, rng)
        place = along.place(low, high)
        return along.offsets[place], self.fired[along.order[place]].astype(float)

    def share(self, z: Array, low: float, high: float, n: int, rng: Seed) -> tuple[float, int]:
        """The share of the band on which the label fires, by sums that are kept."""
        along = self._sorted(z, rng)
        place = along.place(low, high)
        count = place.stop - place.start
        fired = along.fired_before[place.stop] - along.fired_before[place.start]
        return float(fired) / max(count, 1), count

    @property
    def all(self) -> NearBands:
        """The same, without draws."""
        return NearBands(self.X, self.fired, self.size, halved=False)

    def about(self, z: Array, offset: float, width: float) -> NearBands:
        """Only those that are still near, once the angle is small."""
        near = np.abs(self.X @ z - offset) < NEAR_WIDTHS * width
        return NearBands(self.X[near], self.fired[near], self.size)

    def _sorted(self, z: Array, rng: Seed) -> _Along:
        seed = rng if isinstance(rng, int) and self.halved else None
        kept = self._along.direction
        if seed != self._along.seed or not (z is kept or np.array_equal(z, kept)):
            rows = self._rows(seed)
            offsets = self.X[rows] @ z
            order = np.argsort(offsets)
            before = np.concatenate([[0], np.cumsum(self.fired[rows][order])])
            self._along = _Along(z, seed, offsets[order], rows[order], before)
        return self._along

    def _rows(self, seed: int | None) -> AnyArray:
        if seed is None:
            return np.arange(len(self.X))
        if self._drawn is None or self._drawn[0] != seed:
            half = np.random.default_rng(seed).random(len(self.X)) < 0.5
            self._drawn = seed, np.flatnonzero(half)
        return self._drawn[1]


@dataclass(frozen=True)
class _Along:
    """Samples sorted along a direction."""

    direction: Array
    seed: int | None
    offsets: Array
    order: AnyArray
    fired_before: AnyArray
    """How many of the first 0, 1, ... of them fire."""

    def place(self, low: float, high: float) -> slice:
        start, stop = self.offsets.searchsorted((low, high)).tolist()
        return slice(start, max(start, stop))


@dataclass(frozen=True)
class Halves:
    """Samples near one face: to search on, and to judge by."""

    search: NearBands
    judge: NearBands


def near_samples(
    source: Source, level: float, z: Array, offset: float, width: float, hidden: AnyArray
) -> Halves:
    """The samples of a source with standard normal inputs that the search about z may need.

    The label fires above `level`; it rises at `offset` within `width`. Rows `hidden` are kept from
    any fit.
    """
    low = offset - NEAR_WIDTHS * width
    inputs, fired, seen, kept = [], [], 0, 0
    for rows in row_blocks(source.size):
        X, y = source.rows(rows.start, rows.stop)
        near = X @ z > low
        near[hidden[(hidden >= rows.start) & (hidden < rows.stop)] - rows.start] = False
        inputs.append(X[near])
        fired.append(y[near] > level)
        seen, kept = rows.stop, kept + int(near.sum())
        if kept > MOST_NEAR:
            break
    X, fires = np.concatenate(inputs), np.concatenate(fired)
    if len(X) < 2:
        raise NoAnswer("No samples lie near this unit's threshold: take more samples.")
    search, judge = (NearBands(X[i::2], fires[i::2], max(seen // 2, 1)) for i in (0, 1))
    return Halves(search, judge)
