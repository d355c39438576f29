"""Which of two classes a point has, in coordinates in which inputs are about as wide everywhere."""

from __future__ import annotations

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.classes.tolerances import (
    FARTHEST,
    FEWEST_TIES,
    MOST_TIES,
    RESOLUTION,
)
from provenet.extraction.oracle import Oracle
from provenet.extraction.tolerances import HAIR


class OtherAnswer(Exception):
    """The model answered with something that is neither of its two classes."""


class Sides:
    """+1 for the one class, -1 for the other, 0 for points that may not be asked."""

    def __init__(self, oracle: Oracle, box: Box, classes: Array) -> None:
        """`classes` are the two answers, rows of numbers: the first is -1."""
        self.oracle, self.box, self.classes = oracle, box, classes
        self.features = oracle.features
        self._ties = 0
        self._centre, self._width = box.centre, box.width
        far = np.full(self.features, FARTHEST)
        with np.errstate(invalid="ignore"):
            self.low = np.maximum(self.places(box.low) + HAIR, -far)
            self.high = np.minimum(self.places(box.high) - HAIR, far)

    @property
    def eps(self) -> float:
        """Rounding of the points that are asked."""
        coarser = min(self.oracle.input_dtype, np.dtype(float), key=lambda dtype: dtype.itemsize)
        return float(np.finfo(coarser).eps)

    def resolution(self, X: Array) -> float:
        """How finely the boundary can be located about these points."""
        return RESOLUTION * self.eps * max(1.0, float(np.abs(X).max(initial=0.0)))

    def inputs(self, X: Array) -> Array:
        """The model's own inputs at these places."""
        return np.asarray(self._centre + self._width * X)

    def places(self, inputs: Array) -> Array:
        """Where the model's inputs lie in these coordinates."""
        return np.asarray((inputs - self._centre) / self._width)

    def __call__(self, X: Array, *, fresh: bool = False) -> AnyArray:
        """The side of every row; with `fresh` every row is a question of its own."""
        found = np.zeros(len(X), dtype=int)
        inside = ((self.low <= X) & (self.high >= X)).all(axis=1)
        found[inside] = self._asked(self.inputs(X[inside] if not inside.all() else X), fresh)
        return found

    def _asked(self, inputs: Array, fresh: bool) -> AnyArray:
        if len(inputs) == 0:
            return np.zeros(0, dtype=int)
        inputs = np.clip(inputs, self.box.low, self.box.high)
        y = self.oracle.ask(inputs, fresh=fresh).reshape(len(inputs), -1)
        negative, positive = (np.asarray((y == own).all(axis=1)) for own in self.classes)
        other = ~(negative | positive)
        if other.any():
            self._check_ties(y[other])
        return np.where(negative, -1, 1)

    def _check_ties(self, y: Array) -> None:
        """On the boundary itself an answer may lie halfway, as the sign of 0 does: seldom."""
        self._ties += len(y)
        halfway = bool((y == self.classes.mean(axis=0)).all())
        if not halfway or self._ties > FEWEST_TIES + MOST_TIES * self.oracle.used:
            raise OtherAnswer

    def reach(self, x: Array, t: Array) -> float:
        """How far points x + s t may be asked."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.where(t > 0, (self.high - x) / t, np.where(t < 0, (self.low - x) / t, np.inf))
        return float(max(ends.min(), 0.0))
