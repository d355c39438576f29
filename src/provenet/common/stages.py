"""Seconds that the stages of some work take, and word of them to the user."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from provenet.common.typing import Progress

_LOG = logging.getLogger("provenet")


@dataclass(frozen=True)
class Stages:
    """A clock; `progress`, if any, hears when a stage begins."""

    progress: Progress | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @contextmanager
    def stage(self, name: str, message: str = "") -> Iterator[None]:
        """Time a stage; one that comes again is added up."""
        if self.progress is not None:
            self.progress(name, -1.0, message)
        begin = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - begin
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            _LOG.debug("%s: %.2f s", ", ".join(filter(None, (name, message))), seconds)

    @property
    def total(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.started
