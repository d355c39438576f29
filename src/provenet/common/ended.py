"""How an iteration ended: one word for all of them, and callers look at it."""

from __future__ import annotations

from enum import StrEnum


class Ended(StrEnum):
    """Why a loop stopped. One that stopped for want of steps or time has found no solution."""

    ZERO = "zero"
    """Nothing is left to explain."""
    CONVERGED = "converged"
    """The last step changed less than the tolerance."""
    STUCK = "stuck"
    """No step improves it: rounding is all that is left, or kinks are in the way."""
    OUT_OF_STEPS = "out of steps"
    """The most steps that were allowed are done: more may lead further."""
    OUT_OF_TIME = "out of time"
    """The time is over: more may lead further."""

    @property
    def at_rest(self) -> bool:
        """Whether more steps and more time would change nothing."""
        return self in (Ended.ZERO, Ended.CONVERGED, Ended.STUCK)
