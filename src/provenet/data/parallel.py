"""All cores for sums over blocks of samples, one BLAS thread each; cores and memory available.

numpy and scipy bring a BLAS of their own each, and the idle threads of one spin against the other:
on two cores a search of small solves took seven times as long as on one thread. So BLAS is held to
a single thread for the length of a recovery, and the cores are used by threads over blocks of
samples instead.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import cache, lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

Sum = TypeVar("Sum")


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread; the caller's setting comes back at its end."""
    # Libraries come with modules, so they are searched again when there are more modules: that
    # reads the process's memory map, some milliseconds.
    limits: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(
        limits=1, user_api="blas"
    )
    return limits


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    return ThreadpoolController()


@cache
def reuse_freed_memory() -> None:
    """Let glibc give the memory of one block to the next; other allocators take no notice.

    glibc maps large arrays one by one, and afresh every time, until it has seen one freed: from
    then on it keeps as much. Without that a pass takes up to 2.4 times as long. Dask starts workers
    with MALLOC_TRIM_THRESHOLD_ set, which turns this off: there it is set by hand (M_TRIM_THRESHOLD
    is -1, M_MMAP_THRESHOLD -3; the largest that glibc takes are 64 and 32 MB).
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        with suppress(OSError, AttributeError, TypeError):
            malloc = ctypes.CDLL(None)
            malloc.mallopt(-1, 2**26), malloc.mallopt(-3, 2**25)
    np.empty(2**25 - 2**16, np.uint8)  # freed unused


@cache
def workers() -> int:
    """How many threads to use: the cores that this process may run on, by affinity and quota."""
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
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        root, name = system / "sys/fs/cgroup", "memory.max"
        if "memory" in controllers.split(","):
            root, name = root / "memory", "memory.limit_in_bytes"
        own = root / group.strip("/")
        texts = [_text(f / name).strip() for f in (own, *own.parents) if f.is_relative_to(root)]
        limits += [int(text) for text in texts if text.isdecimal()]
    return min(limits)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers(), thread_name_prefix="provenet")


if hasattr(os, "register_at_fork"):
    # A forked child inherits the pool, but none of its threads: it makes its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def sum_over(blocks: Sequence[slice], term: Callable[[slice], Sum]) -> Sum:
    """`sum(term(block) for block in blocks)`, one thread adding up every so-manieth block.

    At most one running sum and one term are held a thread, and the order of additions depends only
    on the number of threads, so the same machine gives the same digits.
    """

    def share(first: int, step: int) -> Sum:
        return reduce(add, (term(block) for block in blocks[first::step]))

    reuse_freed_memory()
    threads = min(workers(), len(blocks))
    if threads <= 1:
        return share(0, 1)
    return reduce(add, _pool().map(lambda first: share(first, threads), range(threads)))
