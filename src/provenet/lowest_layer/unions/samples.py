"""Samples whose labels are read as fired or not, in passes over blocks of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from provenet.common.typing import AnyArray, Array, row_blocks
from provenet.data.passes import sum_over
from provenet.data.sources import Source
from provenet.lowest_layer.unions.faces import Flags
from provenet.lowest_layer.unions.tolerances import BLOCK_ROWS, PROBED_BLOCKS

Sum = TypeVar("Sum")


@dataclass(frozen=True)
class SampleRows:
    """Some samples: every so-manieth of those that were asked for."""

    X: Array
    fired: Flags
    stride: int

    @property
    def count(self) -> int:
        """How many samples these stand for."""
        return self.stride * len(self.X)

    def keep(self, which: Flags) -> SampleRows:
        """Some of them."""
        return SampleRows(self.X[which], self.fired[which], self.stride)


@dataclass(frozen=True)
class Samples:
    """A source whose labels fire above a level, or below it for a complement."""

    source: Source
    above: float = 0.5
    complement: bool = False
    hidden: AnyArray = field(default_factory=lambda: np.empty(0, int))
    """Numbers, rising, of the samples that are not to be seen."""

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.source.size - len(self.hidden)

    @property
    def features(self) -> int:
        """Number of inputs."""
        return self.source.features

    @property
    def price(self) -> float:
        """The log likelihood that one face more gains by chance."""
        return float((self.features + 1) * np.log(self.size))

    def over(self, term: Callable[[Array, Flags], Sum], stride: int = 1) -> Sum:
        """The sum of `term(X, fired)` over every `stride`-th block of samples."""
        blocks = list(row_blocks(self.source.size, BLOCK_ROWS))[::stride]

        def of(block: slice) -> Sum:
            X, y = self.source.rows(block.start, block.stop)
            first, last = np.searchsorted(self.hidden, [block.start, block.stop])
            if first < last:
                unseen = self.hidden[first:last] - block.start
                X, y = np.delete(X, unseen, axis=0), np.delete(y, unseen)
            return term(X, (y > self.above) != self.complement)

        return sum_over(blocks, of)

    def gather(self, choose: Callable[[Array, Flags], Flags], most: int) -> SampleRows:
        """The samples that `choose` marks, or about `most` of them, from blocks evenly spread."""
        probe = max(1, -(-self.size // BLOCK_ROWS) // PROBED_BLOCKS)
        seen, marked = self.over(lambda X, f: np.array([len(f), choose(X, f).sum()]), probe)
        stride = min(probe, max(1, int(np.ceil(self.size * marked / max(seen, 1) / most))))

        def chosen(X: Array, fired: Flags) -> list[tuple[Array, Flags]]:
            which = choose(X, fired)
            return [(X[which], fired[which])]

        parts = self.over(chosen, stride)
        X, fired = (np.concatenate([part[i] for part in parts]) for i in range(2))
        return SampleRows(X, fired, stride)
