"""Samples whose labels are probabilities, as samples of the outputs before the link."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from provenet.common.exceptions import InvalidInput, NoAnswer
from provenet.common.words import counted
from provenet.data.label_precision import LabelPrecision
from provenet.data.probabilities import before_link, check_probabilities
from provenet.data.sources.arrays import ArraySource
from provenet.data.sources.base import Draw, Source
from provenet.data.tolerances import MOST_BYTES_IN_MEMORY


class LinkedSource(ArraySource):
    """The samples that tell their outputs before the link, with the precision that is left."""

    def __init__(self, source: Source, link: str) -> None:
        """Reads all samples; raises unless their labels are probabilities."""
        X, y = all_samples(source)
        check_probabilities(y, link)
        known = before_link(y, link)
        super().__init__(X[known.kept], known.u)
        self.precision: LabelPrecision = known.precision
        self.saturated = source.size - self.size
        if self.size < self.features + 2:
            raise NoAnswer(
                f"{self.saturated:,} of {counted(source.size, 'label')} are probabilities so near "
                "0 or 1 that they tell next to nothing of the outputs behind them: take inputs "
                "nearer to the boundary between the classes, or probabilities of more digits."
            )

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """With the precision of what is drawn."""
        drawn = super().draw(n, rng)
        assert drawn.rows is not None
        return replace(drawn, precision=self.precision.of(drawn.rows))


def all_samples(source: Source) -> tuple[np.ndarray, np.ndarray]:
    """All samples in memory."""
    if not source.fixed:
        raise InvalidInput(
            "link= serves samples that are given, and this source makes its own: use "
            "provenet.extract, or link='identity'."
        )
    if source.bytes > MOST_BYTES_IN_MEMORY:
        raise InvalidInput(
            f"link= holds all samples in memory, and {source.size:,} are "
            f"{source.bytes / 1e9:.3g} GB: take fewer, or turn probabilities into log-odds "
            "beforehand and give link='identity'."
        )
    return source.rows(0, source.size)
