"""Samples in arrays: in memory, or memory-mapped files of any size."""

from __future__ import annotations

import numpy as np

from provenet.sources.base import Source
from provenet.typing import AnyArray, Array


class ArraySource(Source):
    """Rows of `X` with their labels `y`; only the rows in use are ever copied."""

    def __init__(self, X: AnyArray, y: AnyArray) -> None:
        """Hold references to the arrays; nothing is read yet (lists become arrays)."""
        X, y = np.asanyarray(X), np.asanyarray(y)
        self.X, self.y = X, y
        self.size, self.features = len(X), int(X.shape[-1])
        self.outputs = None if y.ndim == 1 else int(y.shape[1])

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """The rows as float64, without a copy where they are that already."""
        return np.asarray(self.X[start:stop], float), np.asarray(self.y[start:stop], float)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """A random subset, or all rows in random order when `n` is as many as there are."""
        chosen = rng.permutation(self.size)[:n]
        order = np.sort(chosen)  # sequential reads for files
        back = np.empty(len(order), dtype=np.intp)
        back[np.argsort(chosen)] = np.arange(len(order))
        X, y = np.asarray(self.X[order], float), np.asarray(self.y[order], float)
        return X[back], y[back]
