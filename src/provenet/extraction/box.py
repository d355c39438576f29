"""Where a model may be asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.tolerances import HAIR, TYPICAL


@dataclass(frozen=True)
class Box:
    """Where inputs may lie: a box, or anywhere."""

    low: Array
    high: Array

    @classmethod
    def of(cls, low: Array | None, high: Array | None, features: int) -> Box:
        """Limits that may be left out."""
        everywhere = np.full(features, np.inf)
        return cls(-everywhere if low is None else low, everywhere if high is None else high)

    @property
    def _ends(self) -> tuple[Array, Array]:
        """Where typical inputs lie: a side without a limit ends 6 (or the width) from the other."""
        low = np.where(np.isinf(self.low), np.minimum(-TYPICAL, self.high - 2 * TYPICAL), self.low)
        high = np.where(np.isinf(self.high), np.maximum(TYPICAL, low + 2 * TYPICAL), self.high)
        return low, high

    @property
    def centre(self) -> Array:
        """The middle."""
        low, high = self._ends
        return np.asarray((low + high) / 2)

    @property
    def width(self) -> Array:
        """A sixth of the box in every feature; 1 where there is no limit."""
        low, high = self._ends
        return np.asarray((high - low) / (2 * TYPICAL))

    @property
    def half_widths(self) -> Array:
        """From the middle to where typical inputs end."""
        low, high = self._ends
        return np.asarray((high - low) / 2)

    @property
    def unlimited(self) -> bool:
        """Whether inputs may lie anywhere."""
        return bool(np.isinf(self.low).all() and np.isinf(self.high).all())

    @property
    def inputs(self) -> str:
        """What inputs `sample` draws, in words."""
        if self.unlimited:
            return "standard normal inputs"
        if np.isfinite(self.low).all() and np.isfinite(self.high).all():
            return "inputs uniform in the box"
        return "inputs (uniform in features with a limit, else standard normal)"

    def contains(self, X: Array) -> AnyArray:
        """Which points lie inside."""
        return np.asarray(((self.low <= X) & (self.high >= X)).all(axis=1))

    def nearest(self, X: Array) -> Array:
        """The points of the box that are nearest, a hair inside, since points are rounded."""
        hair = HAIR * self.width
        return np.asarray(np.clip(X, self.low + hair, self.high - hair))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Standard normal points, uniform in a feature with a limit."""
        low, high = self._ends
        X = rng.standard_normal((n, len(low)))
        limited = np.isfinite(self.low) | np.isfinite(self.high)
        if limited.any():
            X[:, limited] = rng.uniform(low[limited], high[limited], (n, int(limited.sum())))
        return X

    def corners(self, n: int, rng: np.random.Generator) -> Array:
        """Random corners, of which every halfspace that cuts the box has one; none without.

        In a quarter of them any number of features is low: images are dark or bright.
        """
        X = self.sample(0 if self.unlimited else n, rng)
        low = np.where(np.arange(len(X)) % 4 == 3, rng.random(len(X)), 0.5)
        ends = np.where(rng.random(X.shape) < low[:, None], self.low, self.high)
        return self.nearest(np.where(np.isfinite(ends), ends, X))

    def reach(self, origin: Array, direction: Array, far: float) -> tuple[float, float]:
        """How far a line stays inside, `far` at most; a hair less, since points are rounded."""
        hair = HAIR / 2 * self.width
        low, high = self.low + hair, self.high - hair
        with np.errstate(divide="ignore"):
            ends = np.sort([(low - origin) / direction, (high - origin) / direction], 0)
        return float(np.clip(ends[0].max(), -far, 0.0)), float(np.clip(ends[1].min(), 0.0, far))

    def part_inside(self, origin: Array, X: Array) -> Array:
        """Of the ways from an origin in the box to points: how far they stay inside, 1 at most."""
        hair, way = HAIR * self.width, X - origin
        end = np.where(way > 0, self.high - hair, self.low + hair)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(way == 0, np.inf, (end - origin) / way)
        return np.asarray(np.clip(part.min(axis=1, initial=np.inf), 0.0, 1.0))

    def room(self, X: Array) -> Array:
        """Distance of points to the nearest side."""
        return np.asarray(np.minimum(self.high - X, X - self.low).min(axis=1, initial=np.inf))

    def moved(self, X: Array, w: Array, change: Array) -> Array:
        """Points at which w.x, w of norm 1, has grown by so much for each row: those in the box.

        Straight along w where that stays inside, else towards the corner at which w.x is extreme:
        whatever w.x can be in the box is met so.
        """
        moved = X + change[:, None] * w
        uphill = change[:, None] * w
        corner = np.where(uphill > 0, self.high, np.where(uphill < 0, self.low, X))
        way = np.where(np.isfinite(corner), corner, moved) - X
        part = change / np.where(change == 0, 1.0, way @ w)
        inside = self.contains(moved)
        moved[~inside] = (X + part[:, None] * way)[~inside]
        return np.asarray(moved[inside | (part < 1)])

    def steps(self, X: Array, sizes: Array) -> Array:
        """Steps along the axes of given sizes, turned round where they would leave the box.

        In a feature so narrow that they leave it on both sides they go half way to the farther one.
        """
        up, down = self.high - X, X - self.low
        inward = np.where(sizes <= up, sizes, np.where(sizes <= down, -sizes, 0.0))
        farther = np.where(up >= down, up, -down) / 2
        return np.where((sizes <= up) | (sizes <= down), inward, farther)
