"""What a descent on an objective found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from provenet.landscape.constants import Constants
from provenet.landscape.newton import Descent
from provenet.landscape.second_order import SecondOrder


@dataclass(frozen=True)
class LandscapeDetails:
    """The method's own evidence: what a descent found."""

    landscape: Outcome

    def facts(self) -> Iterator[tuple[str, str]]:
        """What there is to tell, as name and text."""
        yield "landscape", self.landscape.message


@dataclass(frozen=True)
class Outcome:
    """The objective that was minimised, the way to its minimum, and the certificate of that."""

    objective: str
    constants: Constants | None
    """Of P', G and F."""
    descent: Descent
    """Its B is in the coordinates of the descent: an orthonormal basis of the units' span."""
    second_order: SecondOrder
    """Of the objective from the samples at hand: their own error is not in it."""
    planned: int = 0
    """Steps that a stochastic descent was to make; 0 where there is no such number."""

    @property
    def unfinished(self) -> bool:
        """Whether a stochastic descent was stopped before its last step, which only measures."""
        return self.descent.steps < self.planned - 1

    @property
    def message(self) -> str:
        """The same in a sentence or two."""
        saddles, samples = self.descent.saddles, self.descent.path[-1].samples
        led = f", {saddles} of them away from saddles" if saddles else ""
        fresh = f", {samples:,} fresh samples" if samples else ""
        of = f" of {self.planned - 1:,}, stopped by the budget" if self.unfinished else ""
        steps = f"{self.descent.steps:,} steps{of}{led}{fresh}"
        return f'Objective "{self.objective}", {steps}. {self.second_order.message}'

    def summary(self) -> dict[str, Any]:
        """What there is to tell in plain types: all but the matrix, which the network has."""
        return {
            "objective": self.objective,
            "message": self.message,
            "constants": self.constants,
            "converged": self.descent.converged,
            "saddles": self.descent.saddles,
            "path": self.descent.path,
            "second_order": self.second_order,
        }
