"""Samples that come in batches: all of them as sums, and some of them as rows.

First and second moments of (x, y) are sums about an origin that the first batch fixes, so batches
merge by `+` and any number of them gives what one pass gives. Everything that needs samples
themselves runs on a reservoir: a uniform draw, kept by random keys (of all the rows seen, those of
the smallest keys), of at most `capacity` rows.

Memory: `capacity` rows and `features^2` sums, however many samples have come.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.data.sources import ArraySource
from provenet.data.standardisation import LinearSums


class ReservoirSource(ArraySource):
    """The reservoir as rows; mean, covariance and linear regression of all samples seen."""

    def __init__(
        self,
        X: Array,
        y: Array,
        keys: Array,
        sums: LinearSums,
        origin: Array,
        label_origin: Array,
        capacity: int,
    ) -> None:
        """Use `of` for the first batch, then `merged`."""
        super().__init__(X, y)
        self.keys, self.capacity = keys, capacity
        self.sums, self.origin, self.label_origin = sums, origin, label_origin

    @classmethod
    def of(
        cls, X: AnyArray, y: AnyArray, capacity: int, rng: np.random.Generator
    ) -> ReservoirSource:
        """The first batch."""
        X, y = np.asarray(X, float), np.asarray(y, float)
        origin, label_origin = X.mean(axis=0), y.mean(axis=0)
        sums = LinearSums.of(X, y, origin, label_origin)
        keys = rng.random(len(X))
        kept = _smallest(keys, capacity)
        return cls(X[kept], y[kept], keys[kept], sums, origin, label_origin, capacity)

    def merged(self, X: AnyArray, y: AnyArray, rng: np.random.Generator) -> ReservoirSource:
        """With one batch more."""
        X, y = np.asarray(X, float), np.asarray(y, float)
        sums = self.sums + LinearSums.of(X, y, self.origin, self.label_origin)
        keys = np.concatenate([self.keys, rng.random(len(X))])
        kept = _smallest(keys, self.capacity)
        rows, labels = np.concatenate([self.X, X])[kept], np.concatenate([self.y, y])[kept]
        return ReservoirSource(
            rows, labels, keys[kept], sums, self.origin, self.label_origin, self.capacity
        )

    @property
    def seen(self) -> int:
        """How many samples have come."""
        return self.sums.n

    def linear_sums(self) -> tuple[LinearSums, Array, Array]:
        """Of all samples seen, not of the reservoir alone."""
        return self.sums, self.origin, self.label_origin

    def columns(self, which: AnyArray) -> ReservoirSource:
        """The same samples with some of their inputs."""
        s = self.sums
        sums = LinearSums(s.n, s.x[which], s.xx[np.ix_(which, which)], s.y, s.yy, s.xy[..., which])
        return ReservoirSource(
            self.X[:, which],
            self.y,
            self.keys,
            sums,
            self.origin[which],
            self.label_origin,
            self.capacity,
        )


def _smallest(keys: Array, capacity: int) -> AnyArray:
    """Numbers, rising, of the smallest keys."""
    if len(keys) <= capacity:
        return np.arange(len(keys))
    return np.sort(np.argpartition(keys, capacity)[:capacity])
