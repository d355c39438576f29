"""Sums over samples: on all cores, and in passes that can be watched and resumed.

All that data contribute to a recovery is a sum of `term(X, y)` over samples, so blocks, threads,
machines and restarts are one operation: `+`. Threads add up blocks, with one BLAS thread each:
numpy and scipy each bring their own BLAS, and the idle threads of one spin against the other (on
two cores a search of small solves took seven times as long as on one thread).

A pass is cut into *stretches*: at the end of each, progress is reported and the sum so far may go
into a checkpoint. Stretches are added in order, so an interrupted and resumed pass gives the same
digits as an uninterrupted one.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import cache, lru_cache, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

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
    """Rows of a block of about 16 MB, given the bytes of a row and of what is computed from it: a
    power of two from 1024 to 16384, so that stretches are whole blocks of every pass."""
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
    """A clock that stops during long passes over the watched source: budgets limit attempts, and
    one attempt is made however long it takes to read the data."""
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


# ---------------------------------------------------------------- threads and memory


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread; the caller's setting is restored at its end."""
    # Imports load libraries, so search again when there are more modules: it takes milliseconds.
    return _libraries(len(sys.modules)).limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    return ThreadpoolController()


@cache
def reuse_freed_memory() -> None:
    """Let glibc give the memory of one block to the next; other allocators are not affected.

    glibc maps every large array afresh until it has seen one freed; until then a pass takes up to
    2.4 times as long. Dask starts workers with MALLOC_TRIM_THRESHOLD_ set, which disables this, so
    it is set by hand there (M_TRIM_THRESHOLD is -1, M_MMAP_THRESHOLD -3).
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        with suppress(OSError, AttributeError, TypeError):
            malloc = ctypes.CDLL(None)
            malloc.mallopt(-1, 2**26), malloc.mallopt(-3, 2**25)  # the largest that glibc takes
    np.empty(2**25 - 2**16, np.uint8)  # freed unused


@cache
def workers() -> int:
    """Number of threads to use: the cores that this process may run on, by affinity and quota."""
    from joblib import cpu_count  # comes with scikit-learn; not needed to import provenet

    return int(cpu_count())


def available_memory(system: Path = Path("/")) -> int:
    """Bytes that are free, or that this process's control groups (version 1 or 2) allow if less."""
    limits = [2**63]
    with suppress(AttributeError, ValueError, OSError):
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    free = re.search(r"^MemAvailable:\s+(\d+) kB", _text(system / "proc/meminfo"), re.MULTILINE)
    limits += [1024 * int(free[1])] if free else []
    for line in _text(system / "proc/self/cgroup").splitlines():
        controllers, _, group = line.partition(":")[2].partition(":")
        first = "memory" in controllers.split(",")
        own = system / "sys/fs/cgroup" / ("memory" if first else "") / group.strip("/")
        name = "memory.limit_in_bytes" if first else "memory.max"
        texts = [_text(folder / name).strip() for folder in (own, *own.parents)]
        limits += [int(text) for text in texts if text.isdecimal()]
    return min(limits)


def _text(file: Path) -> str:
    with suppress(OSError):
        return file.read_text()
    return ""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers(), thread_name_prefix="provenet")


if hasattr(os, "register_at_fork"):
    # A forked child inherits the pool, but none of its threads: it makes its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def sum_over(blocks: Sequence[slice], term: Callable[[slice], Sum]) -> Sum:
    """`sum(term(block) for block in blocks)`; of k threads each adds up every k-th block and holds
    one running sum and one term. The same number of threads gives the same digits."""

    def share(first: int, step: int) -> Sum:
        return reduce(add, (term(block) for block in blocks[first::step]))

    reuse_freed_memory()
    threads = min(workers(), len(blocks))
    if threads <= 1:
        return share(0, 1)
    return reduce(add, _pool().map(lambda first: share(first, threads), range(threads)))
