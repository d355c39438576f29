"""Threads over blocks of samples, each with one BLAS thread; the cores and memory available.

numpy and scipy each bring their own BLAS, and the idle threads of one spin against the other: on
two cores a search of small solves took seven times as long as on one thread. So BLAS is held to
one thread during a recovery, and threads over blocks of samples use the cores instead.
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
    """`sum(term(block) for block in blocks)`; of `k` threads each adds up every k-th block.

    Each thread holds at most one running sum and one term. The order of additions depends only on
    the number of threads, so the same machine gives the same digits.
    """

    def share(first: int, step: int) -> Sum:
        return reduce(add, (term(block) for block in blocks[first::step]))

    reuse_freed_memory()
    threads = min(workers(), len(blocks))
    if threads <= 1:
        return share(0, 1)
    return reduce(add, _pool().map(lambda first: share(first, threads), range(threads)))
