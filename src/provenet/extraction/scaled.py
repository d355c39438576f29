"""A box whose sides differ by orders of magnitude, as the ranges of unscaled data do.

Steps that suit one feature would be far too long or too short for another, and units be missed. So
such a model is asked in units of its box, u from -1 to 1 in every feature, `x = centre + half u`;
what is found there is a network of x as well: `w.u + b = (w / half).x + b - (w / half).centre`.
Figures of its certificate, and points that messages name, are those of u.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.result import Recovery
from provenet.common.typing import Array
from provenet.data.standardisation import Standardisation
from provenet.extraction.asked_through import AskedThrough
from provenet.extraction.box import Box
from provenet.extraction.oracle import Oracle
from provenet.extraction.tolerances import UNEVEN


class ScaledOracle(AskedThrough):
    """The same model, asked in units of a box."""

    def __init__(self, oracle: Oracle, units: BoxUnits) -> None:
        """Nothing is asked yet."""
        super().__init__(oracle, -np.ones(oracle.features), np.ones(oracle.features))
        self._units = units

    def ask(self, X: Any, *, fresh: bool = False) -> Array:
        """Answers to points in units of the box."""
        return self._inner.ask(self._units.points(np.asarray(X)), fresh=fresh)

    def doubt(self, X: Array) -> Array | None:
        """As the model's."""
        return self._inner.doubt(self._units.points(np.asarray(X)))


@dataclass(frozen=True)
class BoxUnits:
    """From units of a box to the model's own, and back."""

    box: Box

    @classmethod
    def wanted(cls, oracle: Oracle, box: Box) -> BoxUnits | None:
        """Where all sides have limits that differ much, and inputs are of double precision."""
        sides = box.high - box.low
        if not np.isfinite(sides).all() or oracle.input_dtype != np.float64:
            return None
        return cls(box) if sides.max() > UNEVEN * sides.min() else None

    def points(self, U: Array) -> Array:
        """The model's inputs; rounding does not leave the box."""
        X = self.box.centre + self.box.half_widths * U
        return np.asarray(np.clip(X, self.box.low, self.box.high))

    def inside(self) -> Box:
        """The box in its own units."""
        ones = np.ones(len(self.box.low))
        return Box(-ones, ones)

    def undone(self, result: Recovery) -> Recovery:
        """What was found, as a network of the model's own inputs."""
        scaling = self._scaling()
        network, asked = result.network, result.asked
        if network is not None:
            network = scaling.network_to_user(network).canonical()
        if asked is not None:
            asked = Answered(self.points(asked.X), asked.y)
        own = None if hasattr(result.details, "layers") else result.details  # of layers in part
        return replace(
            result,
            network=network,
            asked=asked,
            details=own,
            standard_errors=None,
            message=f"{result.message} {_IN_UNITS}",
        )

    def _scaling(self) -> Standardisation:
        """Of inputs alone."""
        zero = np.zeros(len(self.box.low))
        whiten = np.diag(1 / self.box.half_widths)
        return Standardisation(self.box.centre, whiten, np.zeros(()), 1.0, zero, None)


_IN_UNITS = (
    "Sides of the box differ much, so it was asked in units of it, -1 to 1 in every feature: that "
    "is what figures are in."
)
