"""Random points that a model was asked, more and more of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from provenet.certify.answered import Answered
from provenet.common.typing import Array
from provenet.extraction.box import Box
from provenet.extraction.oracle import Oracle


@dataclass
class RandomPoints:
    """Points, and the model's answers to them."""

    oracle: Oracle
    box: Box
    rng: np.random.Generator
    X: Array = field(init=False)
    y: Array | None = None

    def __post_init__(self) -> None:
        """None so far."""
        self.X = np.empty((0, self.oracle.features))

    def __len__(self) -> int:
        """How many there are."""
        return len(self.X)

    def grown(self, size: int) -> Answered:
        """So many, or those that there are already; single precision stays what it is."""
        more = self.box.sample(max(0, size - len(self.X)), self.rng)
        more = self.oracle.as_asked(more)
        if len(more) or self.y is None:
            answers = self.oracle.ask(more)
            self.y = answers if self.y is None else np.concatenate([self.y, answers])
            self.X = np.vstack([self.X, more])
        return Answered(self.X, self.y)
