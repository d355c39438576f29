"""What a lowest layer says of labels: all of them, some, or only whether they fire.

A layer whose top is known predicts every label. One whose top is open still says what the label is
where no unit fires, and for ReLU units where one fires alone; or, whatever the units and the top,
where labels fire at all. About the other labels it says nothing (nan), and they prove nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.data.standardisation import Standardisation
from provenet.networks.layered import LayeredNetwork, intersection, unit_values
from provenet.networks.network import Network

_AT_THE_THRESHOLD = 1e-9
"""Over the size of the terms of `w.x - t`: a convention, far above their rounding (eps) and below
any distance that samples show. So near to its threshold a unit may be taken to fire or not."""


@dataclass(frozen=True)
class FaceErrors:
    """How near to a face labels may be taken either way.

    Errors of angles and thresholds are independent where they were estimated: on standardised
    inputs, or on the user's if there is no standardisation.
    """

    weights: Array
    """Rows of norm 1."""
    thresholds: Array
    angle_errors: Array
    threshold_errors: Array
    standardisation: Standardisation | None = None

    def unsure(self, X: Array, sigmas: float = 1.0) -> AnyArray:
        """Which of the user's inputs are within so many standard errors of a face."""
        Z = X if self.standardisation is None else self.standardisation.apply(X)
        across = Z @ self.weights.T
        along = np.sqrt(np.maximum(np.sum(Z**2, axis=1)[:, None] - across**2, 0.0))
        errors = np.hypot(self.threshold_errors, self.angle_errors * along)
        return np.asarray(np.any(np.abs(across - self.thresholds) < sigmas * errors, axis=1))


class Statement(ABC):
    """What is said of the labels of the user's inputs."""

    numbers: ClassVar[bool] = True
    """Whether labels are read as numbers; else only whether they fire."""
    complete: ClassVar[bool] = True
    """Whether it is about all labels, so that what it leaves of them may be noise."""
    fewest_unseen: ClassVar[int] = 0
    """Different inputs that no fit saw, at least, to confirm it; 0 where every sample is asked."""

    @abstractmethod
    def values(self, X: Array) -> Array:
        """What labels should be, as `read` reads them; nan where nothing is said."""

    @abstractmethod
    def sides(self, X: Array) -> AnyArray:
        """(2, units): how many samples show each unit, on either side of its face."""

    def read(self, y: Array) -> Array:
        """Labels as they are."""
        return y


@dataclass(frozen=True)
class Predicts(Statement):
    """Every label, but for inputs so near to the face of a step that its side is not sure."""

    network: LayeredNetwork
    faces: FaceErrors | None = None
    sigmas: float = 0.0
    """Standard errors within which a side is not sure."""

    fewest_unseen: ClassVar[int] = 5
    """As networks are asked for."""

    def values(self, X: Array) -> Array:
        """The network's labels."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.network(X)
        if self.faces is not None:
            values = np.where(self.faces.unsure(X, self.sigmas), np.nan, values)
        return np.asarray(values)

    def sides(self, X: Array) -> AnyArray:
        """Samples on either side of each kink; all of them for units without one."""
        layer = self.network.layer
        if not layer.activation.kinked:
            return np.full((2, layer.units), len(X))
        fires = np.sum(X @ layer.weights.T + layer.biases > 0, axis=0)
        return np.array([fires, len(X) - fires])


@dataclass(frozen=True)
class FiresAlone(Statement):
    """Of ReLU units under any top: the label where none fires, and where one fires alone."""

    units: Network
    """Output weights are the slopes of labels where a unit fires alone, the bias the silent
    label."""

    complete: ClassVar[bool] = False

    def values(self, X: Array) -> Array:
        """Silent, or linear in the one unit."""
        margins, fires, clear = self._margins(X)
        label = self.units.output_bias + np.maximum(margins, 0.0) @ self.units.output_weights
        return np.asarray(np.where(clear & (fires.sum(axis=1) <= 1), label, np.nan))

    def sides(self, X: Array) -> AnyArray:
        """Samples on which each fires alone, and on which none does."""
        _, fires, clear = self._margins(X)
        count = np.where(clear, fires.sum(axis=1), -1)
        silent = np.full(self.units.units, np.sum(count == 0))
        return np.array([fires[count == 1].sum(axis=0), silent])

    def _margins(self, X: Array) -> tuple[Array, AnyArray, AnyArray]:
        """Margins, which units fire, and which samples are clear of all thresholds."""
        W, b = self.units.weights, self.units.biases
        margins = X @ W.T + b
        size = np.abs(X) @ np.abs(W).T + np.abs(b)
        clear = np.all(np.abs(margins) > _AT_THE_THRESHOLD * size, axis=1)
        return margins, margins > 0, clear


@dataclass(frozen=True)
class Fires(Statement):
    """Where labels fire: in a union of halfspaces, or in an intersection."""

    network: LayeredNetwork
    """Steps under OR or AND."""
    faces: FaceErrors
    level: float
    """Labels fire above it."""
    either_side: bool = False
    """Whether they fire below it as well, wherever they are not the level itself."""

    numbers: ClassVar[bool] = False
    fewest_unseen: ClassVar[int] = 20
    """That 20 labels come out by tossing a coin is one in a million."""

    def values(self, X: Array) -> Array:
        """1 where labels should fire, else 0."""
        return np.asarray(self.network(X) > 0.5, dtype=float)

    def read(self, y: Array) -> Array:
        """1 where labels fire, else 0."""
        return np.asarray(y != self.level if self.either_side else y > self.level, dtype=float)

    def sides(self, X: Array) -> AnyArray:
        """Samples that each halfspace alone accounts for, and those on the side of all others."""
        inside = unit_values(self.network.layer, X) > 0.5
        own = ~inside if self.network.top is intersection else inside
        count = own.sum(axis=1)
        rest = np.full(own.shape[1], np.sum(count == 0))
        return np.array([own[count == 1].sum(axis=0), rest])
