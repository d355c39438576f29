"""Samples in arrays: in memory, or memory-mapped files of any size."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import AnyArray, Array
from provenet.data.passes import Term
from provenet.data.sources.base import Draw, Source
from provenet.data.tolerances import MOST_PERMUTED, PICKED_AT_ONCE

Sum = TypeVar("Sum")


class ArraySource(Source):
    """Rows of `X` with their labels `y`; only the rows in use are ever copied."""

    in_memory = True

    def __init__(self, X: AnyArray, y: AnyArray) -> None:
        """Hold references to the arrays; nothing is read yet (lists become arrays)."""
        X, y = np.asanyarray(X), np.asanyarray(y)
        self.X, self.y = X, y
        self.size, self.features = len(X), int(X.shape[-1])
        self.outputs = None if y.ndim == 1 else int(y.shape[1])

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """The rows as float64, without a copy where they are that already."""
        return np.asarray(self.X[start:stop], float), np.asarray(self.y[start:stop], float)

    def columns(self, which: AnyArray) -> ArraySource:
        """The same samples with some of their inputs."""
        source = ArraySource(self.X[:, which], self.y)
        if self.feature_names:
            source.feature_names = tuple(np.array(self.feature_names, dtype=object)[which])
        return source

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """A random subset, or all rows in random order when `n` is as many as there are."""
        return draw_rows(self._pick, self.size, n, rng)

    def _pick(self, rows: AnyArray) -> tuple[Array, Array]:
        X, y = np.empty((len(rows), self.features)), np.empty((len(rows), *self.label_shape))
        for block in row_blocks(len(rows), PICKED_AT_ONCE):
            X[block], y[block] = self.X[rows[block]], self.y[rows[block]]
            self._give_back(int(rows[block][0]), int(rows[block][-1]) + 1)
        return X, y

    def partial_total(self, term: Term[Sum], start: int, stop: int, rows: int) -> Sum:
        """The sum over samples `start` to `stop`; of a memory map nothing of them stays behind."""
        total = super().partial_total(term, start, stop, rows)
        self._give_back(start, stop)
        return total

    def _give_back(self, start: int, stop: int) -> None:
        give_back(self.X, start, stop)
        give_back(self.y, start, stop)


def give_back(array: AnyArray, start: int, stop: int) -> None:
    """Let go of the memory in which rows of a mapped file lie; they are read again if needed.

    Without that, pages that were read count as memory of the process until it runs short.
    """
    if not isinstance(array, np.memmap) or not isinstance(array.base, mmap.mmap):
        return  # in memory, or part of a map
    if array.mode != "r" or not hasattr(array.base, "madvise"):
        return
    origin = array.offset % mmap.ALLOCATIONGRANULARITY
    first = origin + start * array.strides[0]
    first -= first % mmap.PAGESIZE
    last = min(origin + stop * array.strides[0], len(array.base))
    array.base.madvise(mmap.MADV_DONTNEED, first, last - first)


def draw_rows(
    pick: Callable[[AnyArray], tuple[Array, Array]], size: int, n: int, rng: np.random.Generator
) -> Draw:
    """`n` of `size` rows at random, in random order; `pick` reads rows of rising number."""
    chosen = _choose(size, n, rng)
    order = np.argsort(chosen)  # sequential reads for files
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    X, y = pick(chosen[order])
    return Draw(X[back], y[back], chosen)


def _choose(size: int, n: int, rng: np.random.Generator) -> AnyArray:
    """Numbers of rows, none twice; of a great many rows without a list of them all."""
    if size <= MOST_PERMUTED or n >= size:
        return rng.permutation(size)[:n]
    return rng.choice(size, n, replace=False)
