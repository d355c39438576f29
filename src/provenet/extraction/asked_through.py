"""A model that is asked through something: what it counts and keeps is the model's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from provenet.extraction.deadline import Deadline
from provenet.extraction.oracle import Oracle


class AskedThrough(Oracle):
    """Another oracle, its questions or answers changed; who inherits says how (`ask`, `doubt`)."""

    def __init__(self, oracle: Oracle, low: Any, high: Any) -> None:
        """Nothing is asked yet; inputs are kept to the box from `low` to `high`."""
        self._inner = oracle
        self.features, self.input_dtype = oracle.features, oracle.input_dtype
        self.budget = oracle.budget
        self.low, self.high = low, high

    def __getattr__(self, name: str) -> Any:
        """What is not said here the model says itself."""
        if name == "_inner":  # of an object that is only being made
            raise AttributeError(name)
        return getattr(self._inner, name)

    @property
    def name(self) -> str:
        """Who is asked."""
        return self._inner.name

    @property
    def queries(self) -> int:  # type: ignore[override]
        """Answers that the model gave."""
        return self._inner.queries

    @property
    def cached(self) -> int:  # type: ignore[override]
        """Answers that came from the file."""
        return self._inner.cached

    @property
    def deadline(self) -> Deadline:  # type: ignore[override]
        """After which nothing is answered."""
        return self._inner.deadline

    @property
    def outputs(self) -> int | None:
        """As many as the model has."""
        return self._inner.outputs

    @property
    def answer_dtype(self) -> np.dtype[Any]:
        """Precision of the answers."""
        return self._inner.answer_dtype
