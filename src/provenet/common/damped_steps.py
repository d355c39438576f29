"""Levenberg-Marquardt as a loop: damped steps from point to point while a value falls.

A step s from a point of residuals r and Jacobian J solves `(J^T J + damping D) s = J^T r`, D the
size of `J^T J` along each parameter: Gauss and Newton's where the damping is small, a short one
downhill where it is large. Damping falls after a step that lowers the value and rises until one
does (Marquardt 1963).

What a step costs and how it is found is the points' own affair: a point gives the point that a
damped step leads to, with a value that may be a forecast, and knows its value once it has arrived.
So the forecast may be cheap, and only steps that are taken are prepared for the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from provenet.common.ended import Ended


class Point(Protocol):
    """Where an iteration is."""

    @property
    def value(self) -> float:
        """What is to fall: exact after `arrived`, until then perhaps a forecast."""

    def attempt(self, damping: float) -> Self | Ended | None:
        """Where a damped step leads; None if there is no such step, or why none is worth taking."""

    def arrived(self) -> Self:
        """The same point, its value exact, ready for steps."""


P = TypeVar("P", bound=Point)


@dataclass(frozen=True)
class Damping:
    """How the damping of steps begins and follows their success."""

    first: float = 1e-2
    """Convention: a hundredth of the curvature, for a start that is near."""
    easier: float = 5.0
    """Divides it after a step that lowered the value."""
    harder: float = 4.0
    """Multiplies it after one that did not."""
    again: float = 1e-3
    """What it is at least after one that did not: from next to nothing it would take many to be
    felt."""
    least: float = 1e-13
    """Below it damping is rounding: some hundred times the machine's."""
    attempts: int = 10
    """How often it may rise before no step is found: to a hundred times the curvature at least."""


@dataclass(frozen=True)
class Walk(Generic[P]):
    """Where the steps ended."""

    point: P
    steps: int
    """How many were taken."""
    ended: Ended


def damped_steps(
    start: P,
    settled: Callable[[float, P], Ended | None],
    steps: int,
    damping: Damping = Damping(),
) -> Walk[P]:
    """At most so many damped steps from a start, each to a lower value.

    After each, and at the start, `settled` is given the value before (at the start infinity) and
    the point, and says whether and how it ends there.
    """
    point, before, strength = start.arrived(), np.inf, damping.first
    for taken in range(steps + 1):
        ended = settled(before, point)
        if ended is not None:
            return Walk(point, taken, ended)
        if taken == steps:
            break
        trial, strength = _first_that_helps(point, strength, damping)
        if isinstance(trial, Ended):
            return Walk(point, taken, trial)
        new = trial.arrived()
        if not new.value < point.value:
            return Walk(point, taken, Ended.STUCK)
        point, before = new, point.value
    return Walk(point, steps, Ended.OUT_OF_STEPS)


def _first_that_helps(point: P, strength: float, damping: Damping) -> tuple[P | Ended, float]:
    """The first attempt of a lower value, or why there is none, and the next step's damping."""
    for _ in range(damping.attempts):
        trial = point.attempt(strength)
        if isinstance(trial, Ended):
            return trial, strength
        if trial is not None and trial.value < point.value:
            return trial, max(strength / damping.easier, damping.least)
        strength = max(strength * damping.harder, damping.again)
    return Ended.STUCK, strength
