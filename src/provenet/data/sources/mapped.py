"""Another source, every sample of it changed on the way: block by block, never all at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from provenet.common.typing import Array
from provenet.data.passes import Term
from provenet.data.sources.base import Draw, Job, Result, Source
from provenet.data.standardisation import Standardisation, centred
from provenet.data.tolerances import ROWS_AT_ONCE

Sum = TypeVar("Sum")
Change = Callable[[Array, Array], tuple[Array, Array]]


class MappedSource(Source):
    """The samples `change(X, y)` of a source; sums are added up where that source's samples are."""

    def __init__(self, source: Source, change: Change, features: int | None = None) -> None:
        """`features` only if `change` gives another number of them; nothing is read."""
        self.source, self.change = source, change
        self.size, self.outputs, self.fixed = source.size, source.outputs, source.fixed
        self.features = source.features if features is None else features

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Rows of the source, changed."""
        return self.change(*self.source.rows(start, stop))

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """A draw of the source, changed."""
        drawn = self.source.draw(n, rng)
        return Draw(*self.change(drawn.X, drawn.y), drawn.rows)

    def total(self, term: Term[Sum], rows: int = ROWS_AT_ONCE) -> Sum:
        """The sum over the source's samples of the changed term."""
        return self.source.total(partial(_changed, term, self.change), rows)

    def partial_total(self, term: Term[Sum], start: int, stop: int, rows: int) -> Sum:
        """The same over some samples."""
        return self.source.partial_total(partial(_changed, term, self.change), start, stop, rows)

    @property
    def jobs_at_once(self) -> int:
        """As many as where the samples are."""
        return self.source.jobs_at_once

    def side_by_side(self, jobs: Sequence[Job[Result]]) -> Generator[Result]:
        """Where the samples are."""
        return self.source.side_by_side(jobs)


def _changed(term: Term[Sum], change: Change, X: Array, y: Array) -> Sum:
    return term(*change(X, y))


@dataclass(frozen=True)
class Standardising:
    """A change: inputs standardised, labels divided by `label_scale`."""

    standardisation: Standardisation
    label_scale: Array | float

    @property
    def whiten(self) -> Array:
        """What makes centred inputs standardised ones."""
        return self.standardisation.whiten

    def __call__(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Samples as the model sees them."""
        return self.standardisation.apply(X), y / self.label_scale

    def centred(self, X: Array, y: Array) -> tuple[Array, Array]:
        """The same but for the whitening."""
        return centred(X, self.standardisation.mean), y / self.label_scale


class StandardisedSource(MappedSource):
    """Inputs standardised, labels divided by `label_scale`, a number or one an output."""

    change: Standardising

    def __init__(
        self,
        source: Source,
        standardisation: Standardisation,
        label_scale: Array | float = 1.0,
    ) -> None:
        """Wrap a source; nothing is read."""
        super().__init__(source, Standardising(standardisation, label_scale))
