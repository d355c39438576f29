"""Sums over samples: what a term is, how sums merge, and passes that can be watched and resumed.

All that data contribute to a recovery is a sum of `term(X, y)` over samples, so blocks, threads,
machines and restarts are one operation: `+`. A pass is cut into *stretches*: at the end of each,
progress is reported and the sum so far may go into a checkpoint. Stretches are added in order, so
an interrupted and resumed pass gives the same digits as an uninterrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from operator import add
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from provenet.common.typing import Array
from provenet.common.words import duration, short_number

if TYPE_CHECKING:
    from provenet.data.checkpoint import Checkpoint
    from provenet.data.sources import Source

Sum = TypeVar("Sum")
Term = Callable[[Array, Array], Sum]
Report = Callable[[float, str], None]
"""Called with the fraction of a pass that is done, and its rate and time left as text."""


class Sums:
    """A dataclass of arrays, numbers and tuples of arrays that adds field by field."""

    def __add__(self, other: Self) -> Self:
        """Field-wise sum."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]
        return type(self)(*(tuple(map(add, *p)) if type(p[0]) is tuple else add(*p) for p in pairs))


def rows_per_block(bytes_per_row: float) -> int:
    """Rows of a block of about 16 MB, given the bytes of a row and of what is computed from it.

    A power of two from 1024 to 16384, so that stretches are whole blocks of every pass.
    """
    return int(2 ** np.clip(np.floor(np.log2(2**24 / max(bytes_per_row, 1))), 10, 14))


@dataclass
class Watch:
    """Follows the passes over a source."""

    source: Source
    report: Report = lambda fraction, message: None
    checkpoint: Checkpoint | None = None
    seconds: float = 0.0
    """Duration of all long passes so far."""


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """A context in which passes over the watch's source are reported and checkpointed."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def working_time() -> float:
    """A clock that stops during long passes over the watched source.

    Budgets limit attempts: however long it takes to read the data, one attempt is made.
    """
    watch = _WATCH.get()
    return time.monotonic() - (0.0 if watch is None else watch.seconds)


def add_up(source: Source, term: Term[Sum], rows: int) -> Sum:
    """The sum of `term(X, y)` over all samples of a source, `rows` at a time."""
    stretches = source.stretches(rows)
    if len(stretches) == 1:
        return source.partial_total(term, 0, source.size, rows)
    watch = _WATCH.get()
    if watch is None or watch.source is not source:
        watch = Watch(source)
    kept, began = watch.checkpoint, time.monotonic()
    key, first, total = ("", 0, None) if kept is None else kept.resume(term, rows, stretches)
    for start, stop in ((s.start, s.stop) for s in stretches if s.stop > first):
        if kept is None:
            part: Any = source.partial_total(term, start, stop, rows)
        else:
            part = kept.partial_total(source, term, start, stop, rows)
        total = part if total is None else total + part
        if kept is not None:
            kept.keep(key, stop, total, finished=stop == source.size)
        rate = (stop - first) / max(time.monotonic() - began, 1e-9)  # the clock's resolution
        left = duration((source.size - stop) / rate)
        watch.report(stop / source.size, f"{short_number(rate)} samples a second, {left} left")
    watch.seconds += time.monotonic() - began
    return total  # type: ignore[return-value]
