"""Another source seen in standardised coordinates."""

from __future__ import annotations

import numpy as np

from provenet.moments import Standardisation
from provenet.sources.base import Source
from provenet.typing import Array


class StandardisedSource(Source):
    """The samples of `source` with their inputs standardised block by block, never all at once.

    Labels are divided by `label_scale`, a number or one an output.
    """

    def __init__(
        self,
        source: Source,
        standardisation: Standardisation,
        label_scale: Array | float = 1.0,
    ) -> None:
        """Wrap a source; nothing is read."""
        self.source, self.transform = source, standardisation
        self.label_scale = label_scale
        self.features, self.size, self.outputs = source.features, source.size, source.outputs

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Standardised inputs and scaled labels."""
        X, y = self.source.rows(start, stop)
        return self.transform.apply(X), y / self.label_scale

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """A draw of the source, standardised."""
        X, y = self.source.draw(n, rng)
        return self.transform.apply(X), y / self.label_scale
