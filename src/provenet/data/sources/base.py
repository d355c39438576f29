"""What every source of samples can answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.data.label_precision import LabelPrecision
from provenet.data.parallel import sum_over, workers
from provenet.data.passes import Term, add_up
from provenet.data.standardisation import LinearSums, Standardisation, standardisation_from
from provenet.data.tolerances import ROWS_AT_ONCE, STRETCH_BYTES
from provenet.networks.network import Network

Sum = TypeVar("Sum")
Result = TypeVar("Result")
Job = Callable[[Callable[[], bool]], Result]
"""Some work that is given a function which says whether its result is still wanted."""

LARGEST_BLOCK = 4 * ROWS_AT_ONCE
"""Samples of a block of a moment pass: the room for its factors is taken once for all of them."""
_BLOCKS_A_THREAD = 8
"""The fewest blocks of a stretch for every thread: threads wait for each other at its end."""


@dataclass(frozen=True)
class Draw:
    """Samples drawn at random from a source."""

    X: Array
    y: Array
    rows: AnyArray | None = None
    """Their numbers in the source; None where they were made afresh."""
    precision: LabelPrecision | None = None
    """How finely labels are written, where the source knows it; else the labels tell."""


class Source(ABC):
    """Samples (x, y), reached only through sums over all of them and draws of some of them.

    A subclass gives `rows(start, stop)`; the sums follow. A source whose samples lie elsewhere adds
    them up there (`partial_total`). What else a source can do it says in its capabilities.
    """

    features: int
    size: int
    feature_names: tuple[str, ...] = ()
    """Names of the inputs, where they have any."""
    fixed: bool = True
    """Whether the samples are given; a source that is not fixed makes as many as are asked for."""
    outputs: int | None = None
    """Number of outputs; None when labels are plain numbers."""
    population: Network | None = None
    """The network whose population this is: its moments are known without sampling error."""
    biased: bool = False
    """Whether inputs were kept with probability proportional to their labels (GP19, B.6)."""
    kept_by_labels: bool = False
    """Whether this is all that is known of the labels, which then read 1."""
    may_be_asked: bool = False
    """Whether `ask` answers inputs of one's own choice."""
    in_memory: bool = False
    """Whether all rows are arrays of this process, in its memory or mapped into it: at hand, and
    cheap to read again in any order."""

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of one sample's label: () or (outputs,)."""
        return () if self.outputs is None else (self.outputs,)

    @property
    def labels(self) -> int:
        """How many numbers the labels are: samples times outputs."""
        return self.size * (self.outputs or 1)

    @property
    def bytes(self) -> int:
        """Bytes of all samples as float64."""
        return 8 * self.size * (self.features + (self.outputs or 1))

    @property
    def seen(self) -> int:
        """How many samples the first and second moments are of: more than `size` where only some
        were kept as rows."""
        return self.size

    def ask(self, X: Array) -> Array:
        """Labels of inputs of one's own choice, (n,) or (n, outputs); see `may_be_asked`."""
        raise InvalidInput(
            "These samples are given, and no others can be asked for: give a QuerySource."
        )

    @abstractmethod
    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Samples `start` to `stop` as float64 arrays (n, features) and (n,) or (n, outputs)."""

    def total(self, term: Term[Sum], rows: int = ROWS_AT_ONCE) -> Sum:
        """The sum of `term(X, y)` over all samples, `rows` at a time, on all cores.

        `term` returns anything that can be added; a bounded number of terms is held at once. A term
        that is a function with a name, or a `functools.partial` of one, can be checkpointed, and
        travels to other machines.
        """
        return add_up(self, term, rows)

    def partial_total(self, term: Term[Sum], start: int, stop: int, rows: int) -> Sum:
        """The sum over samples `start` to `stop`."""
        blocks = [slice(start + b.start, start + b.stop) for b in row_blocks(stop - start, rows)]
        return sum_over(blocks, lambda block: term(*self.rows(block.start, block.stop)))

    @property
    def jobs_at_once(self) -> int:
        """How many jobs of minutes are best given at once to `side_by_side`."""
        return 1

    def side_by_side(self, jobs: Sequence[Job[Result]]) -> Generator[Result]:
        """Results of jobs that need none of the samples, in their order: where the samples are.

        Those that nobody waits for any more are told so.
        """
        return (job(lambda: True) for job in jobs)

    def stretches(self, rows: int) -> list[slice]:
        """All samples, cut where a pass may be told and checkpointed: some 32 MB each."""
        wanted = STRETCH_BYTES // (8 * (self.features + (self.outputs or 1)))
        length = max(rows * workers() * _BLOCKS_A_THREAD, wanted)
        whole = max(rows, LARGEST_BLOCK)  # so that blocks of all passes end where stretches do
        return list(row_blocks(self.size, -(-length // whole) * whole))

    def linear_sums(self) -> tuple[LinearSums, Array, Array]:
        """First and second moments of (x, y) about an origin near the mean, and that origin."""
        X, y = self.rows(0, min(self.size, ROWS_AT_ONCE))
        origin, label_origin = X.mean(axis=0), y.mean(axis=0)
        term = partial(LinearSums.of, origin=origin, label_origin=label_origin)
        sums = self.total(term)
        return sums, origin, label_origin

    def standardisation(self) -> Standardisation:
        """Mean and covariance of the inputs, linear regression of the labels, in one pass."""
        return standardisation_from(*self.linear_sums())

    @abstractmethod
    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """`n` samples at random, no one twice (fresh ones if the source can make them)."""
