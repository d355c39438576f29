"""When an extraction must end. The clock only stops the work: it never judges it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np


def now() -> float:
    """Seconds, from whenever; tests put a clock of their own in its place."""
    return time.monotonic()


@dataclass(frozen=True)
class Deadline:
    """A moment at which every loop ends with what it has."""

    end: float = np.inf
    seconds: float = np.inf
    """What was given, for messages."""

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """So many seconds from now; None for never."""
        return NEVER if seconds is None else cls(now() + seconds, seconds)

    def or_after(self, seconds: float) -> Deadline:
        """This one, or so many seconds from now where it is never."""
        return Deadline.after(seconds) if self.end == np.inf else self

    @property
    def left(self) -> float:
        """Seconds until then."""
        return self.end - now()

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.left <= 0


NEVER = Deadline()
OVER = Deadline(-np.inf, 0.0)
