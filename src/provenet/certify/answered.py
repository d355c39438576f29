"""Points that a model was asked: which a network predicts, and what that says of all inputs.

If a part p of all inputs is predicted wrongly, n random points are all predicted with probability
`(1 - p)^n`. So where they are, p is at most `1 - (1 - CONFIDENCE)^(1/n)` with that confidence: 1%
after 300 points, 14% after 20.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.certify.tolerances import CONFIDENCE, FEWEST_TO_PLACE
from provenet.common.typing import AnyArray, Array
from provenet.networks.network import Network

AGREES = 1e-9
"""Of an output's size: points off by more are not explained. A convention: as far as the weights
are to be known (`traced.KNOWN`), so far are the values."""
_ROUNDINGS = 1000.0 * float(np.finfo(float).eps)
"""Of the largest answer, where it is far larger than the size: what tangents and sums over many
units make of the rounding of one answer. A convention."""
_SHOWN = 4
"""Numbers of a point that a message shows. A convention: part of a line."""


@dataclass(frozen=True)
class Answered:
    """Points, and the model's answers to them."""

    X: Array
    y: Array
    """(n,) or (n, outputs)."""
    doubt: Array | None = None
    """(n, 1): how far each answer may be off by its own rounding, where that differs among them:
    log-odds of probabilities next to 0 or 1 are. None: no further than the others."""

    def __len__(self) -> int:
        """Number of points."""
        return len(self.X)

    @property
    def values(self) -> Array:
        """The answers, (n, outputs) also for one output."""
        return self.y[:, None] if self.y.ndim == 1 else self.y

    @property
    def spread(self) -> float:
        """Standard deviation of the answers."""
        return float(np.std(self.y)) + 1e-300

    def allowed(self, relative: float) -> Array:
        """The error that each output may have: relative to its size, or rounding."""
        return np.asarray(np.maximum(relative * self.size, self._rounding))

    @property
    def size(self) -> Array:
        """How far the answers of each output range about their mean."""
        y = self.values
        return np.abs(y - y.mean(axis=0)).max(axis=0) if len(y) else np.zeros(y.shape[1])

    @property
    def _rounding(self) -> Array:
        """What rounding may make of the answers of each output."""
        return np.asarray(_ROUNDINGS * np.abs(self.values).max(axis=0, initial=0.0))

    def part_left_by(self, network: Network) -> float:
        """How far a network is off at most, as a part of the output's size.

        An output that is constant but for rounding has none, and nothing is told of its weights.
        """
        ranges = self.size > self._rounding
        left = self.left_by(network).max(axis=0, initial=0.0)
        return float((left[ranges] / self.size[ranges]).max(initial=0.0))

    def explained_by(self, network: Network, allowed: Array) -> AnyArray:
        """Which points a network predicts up to the error allowed."""
        more = 0.0 if self.doubt is None else self.doubt
        return np.asarray((self.left_by(network) <= allowed + more).all(axis=1))

    def left_by(self, network: Network) -> Array:
        """How far a network is off at every point: (n, outputs)."""
        return np.abs(network(self.X).reshape(self.values.shape) - self.values)

    def __getitem__(self, rows: AnyArray) -> Answered:
        """Some of the points."""
        return Answered(
            self.X[rows], self.y[rows], None if self.doubt is None else self.doubt[rows]
        )

    def __add__(self, other: Answered) -> Answered:
        """The points of both."""
        doubts = [
            np.zeros((len(part), 1)) if part.doubt is None else part.doubt for part in (self, other)
        ]
        none = self.doubt is None and other.doubt is None
        X, y = np.vstack([self.X, other.X]), np.vstack([self.values, other.values])
        return Answered(X, y, None if none else np.vstack(doubts))


def most_off(points: int, looks: int = 1) -> float:
    """The part of all inputs that may be off although so many random points are predicted.

    Each look after the first, at another network that the last ones led to, is allowed half the
    doubt of the one before.
    """
    doubt = (1 - CONFIDENCE) / 2 ** (looks - 1)
    return float(1 - doubt ** (1 / points)) if points else 1.0


def where_off(points: Answered, agree: AnyArray) -> str:
    """Where points are off, in a sentence: as far as that can be seen, or one of them."""
    if agree.all():
        return ""
    place = _at_a_limit(points, agree) or _beyond_a_feature(points, agree)
    if place:
        return place
    x = points.X[int(np.argmin(agree))]
    shown = ", ".join(f"{value:.4g}" for value in x[:_SHOWN]) + (", ..." if len(x) > _SHOWN else "")
    return f"One that is off is ({shown})."


def _at_a_limit(points: Answered, agree: AnyArray) -> str:
    """Whether answers that are off stop at the largest or the smallest of all."""
    for y, allowed in zip(points.values.T, points.allowed(AGREES), strict=True):
        if np.sum(y[~agree] >= y.max() - allowed) >= FEWEST_TO_PLACE:
            return f"Answers never exceed {y.max():.6g}, where some of these would."
        if np.sum(y[~agree] <= y.min() + allowed) >= FEWEST_TO_PLACE:
            return f"Answers never fall below {y.min():.6g}, where some of these would."
    return ""


def _beyond_a_feature(points: Answered, agree: AnyArray) -> str:
    """Whether all that are off lie beyond all others in one feature."""
    if not agree.any() or np.sum(~agree) < FEWEST_TO_PLACE:
        return ""
    for j, x in enumerate(points.X.T):
        if x[~agree].min() > x[agree].max():
            return f"They are those where feature {j} is {x[~agree].min():.4g} or more."
        if x[~agree].max() < x[agree].min():
            return f"They are those where feature {j} is {x[~agree].max():.4g} or less."
    return ""
