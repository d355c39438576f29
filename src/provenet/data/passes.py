"""A pass over all samples, stretch by stretch: told to whoever watches, and taken up again.

A pass adds up `term(X, y)` over samples. It is cut into stretches; what was added up after each of
them, and where, is all that a restart needs. Stretches are added in their order, so a pass that was
interrupted gives the same digits as one that was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from provenet.common.typing import Array
from provenet.common.words import duration, short_number
from provenet.data.checkpoint import Checkpoint, pass_key
from provenet.data.checksum import WithChecksum
from provenet.data.tolerances import SHORTEST

Sum = TypeVar("Sum")
Term = Callable[[Array, Array], Sum]
Report = Callable[[float, str], None]
"""Called with the fraction of a pass that is done, and its rate and time left in words."""


class Summable(Protocol):
    """What a pass runs over."""

    size: int

    def stretches(self, rows: int) -> list[slice]:
        """All samples, cut where anyone may be told how far the pass has come."""

    def partial_total(self, term: Term[Sum], start: int, stop: int, rows: int) -> Sum:
        """The sum over samples `start` to `stop`."""


@dataclass
class Watch:
    """Whoever wants to know how the passes over a source go on."""

    source: Summable
    report: Report
    checkpoint: Checkpoint | None = None
    seconds: float = 0.0
    """Spent in long passes so far."""


@dataclass
class _Pace:
    """How fast a pass goes."""

    size: int
    first: int
    began: float = field(default_factory=time.monotonic)

    def tell(self, done: int, report: Report) -> None:
        seconds = max(time.monotonic() - self.began, SHORTEST)
        rate = max(done - self.first, 1) / seconds
        left = duration((self.size - done) / rate)
        report(done / self.size, f"{short_number(rate)} samples a second, {left} left")


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """A context in which passes over the watch's source are told and checkpointed."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def working_time() -> float:
    """A clock that stands still during long passes over the watched source.

    Budgets are for attempts: however long the data take to read, one attempt is made.
    """
    watch = _WATCH.get()
    return time.monotonic() - (0.0 if watch is None else watch.seconds)


def add_up(source: Summable, term: Term[Sum], rows: int) -> Sum:
    """The sum of `term(X, y)` over all samples of a source, `rows` at a time."""
    stretches = source.stretches(rows)
    if len(stretches) == 1:
        return source.partial_total(term, 0, source.size, rows)
    watch = _WATCH.get()
    if watch is None or watch.source is not source:
        watch = Watch(source, lambda fraction, message: None)
    return _long_pass(watch, term, rows, stretches)


def _long_pass(watch: Watch, term: Term[Sum], rows: int, stretches: list[slice]) -> Sum:
    source, checkpoint = watch.source, watch.checkpoint
    key = None if checkpoint is None else pass_key(term, rows, stretches)
    total: Any = None
    first = 0
    if checkpoint is not None and key is not None:
        first, total = checkpoint.resume(key)
    pace = _Pace(source.size, first)
    began = time.monotonic()
    for stretch in stretches:
        if stretch.stop <= first:
            continue
        part = _part(source, term, stretch, rows, checkpoint)
        total = part if total is None else total + part
        if checkpoint is not None and key is not None:
            checkpoint.keep(key, stretch.stop, total, finished=stretch.stop == source.size)
        pace.tell(stretch.stop, watch.report)
    watch.seconds += time.monotonic() - began
    return total  # type: ignore[no-any-return]


def _part(
    source: Summable, term: Term[Any], stretch: slice, rows: int, checkpoint: Checkpoint | None
) -> Any:
    """The sum over a stretch; the first pass that reads it also takes its checksum."""
    if checkpoint is None or stretch.start != checkpoint.checked:
        return source.partial_total(term, stretch.start, stretch.stop, rows)
    part = source.partial_total(WithChecksum(term), stretch.start, stretch.stop, rows)
    checkpoint.add_checksum(stretch.stop, int(part.checksum[0]))
    return part.total
