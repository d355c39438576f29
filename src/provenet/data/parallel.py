"""All cores for sums over blocks of samples, one BLAS thread each.

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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache, reduce
from operator import add
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from provenet.data.tolerances import (
    MALLOC_KEEPS,
    MALLOC_LEARNS,
    MALLOC_MAPS_FROM,
    NO_MEMORY_LIMIT,
)

Sum = TypeVar("Sum")

_MEMINFO, _OWN_GROUPS = Path("/proc/meminfo"), Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Of malloc.h."""


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS uses one thread; the caller's setting comes back at its end."""
    libraries = _libraries(len(sys.modules))
    limits: AbstractContextManager[Any] = libraries.limit(limits=1, user_api="blas")
    return limits


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Those that are loaded; they come with modules, so they are looked for when these are more.

    That reads the process's map of memory, some milliseconds.
    """
    return ThreadpoolController()


# ---------------------------------------------------------------- memory of blocks


@cache
def reuse_freed_memory() -> None:
    """Let arrays of a block lie where those of the block before lay, from now on.

    glibc maps large arrays by themselves and returns them at once, until it has seen one freed:
    from then on it keeps as much. Without that every block is mapped afresh, page by page, and a
    pass of the last fit takes 2.4 times as long. Other allocators take no notice.
    """
    np.empty(MALLOC_LEARNS, np.uint8)  # freed unused


@contextmanager
def memory_kept() -> Iterator[None]:
    """A context in which memory that was freed is used again, where malloc was told to return it.

    Dask starts workers with MALLOC_TRIM_THRESHOLD_ in their environment. glibc then maps every
    array of more than 128 kB afresh, page by page, and a pass takes 2.4 times as long. At the end
    of the context (of the last, if threads overlap) the setting and the memory are given back.
    """
    malloc, asked = _malloc(), os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    if malloc is None or not asked.isdecimal():
        yield
        return
    _keepers.enter(malloc)
    try:
        yield
    finally:
        _keepers.leave(malloc, int(asked))


class _Keepers:
    """How many threads are inside `memory_kept`."""

    def __init__(self) -> None:
        self.inside, self.lock = 0, Lock()

    def enter(self, malloc: Any) -> None:
        with self.lock:
            self.inside += 1
            _set_thresholds(malloc, *MALLOC_KEEPS)

    def leave(self, malloc: Any, trim: int) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                _set_thresholds(malloc, trim, MALLOC_MAPS_FROM)
                malloc.malloc_trim(0)


_keepers = _Keepers()


def _set_thresholds(malloc: Any, trim: int, mapped: int) -> None:
    """From how many free bytes on memory is returned, and of how many on it is mapped by itself."""
    malloc.mallopt(_M_TRIM_THRESHOLD, trim)
    malloc.mallopt(_M_MMAP_THRESHOLD, mapped)


@cache
def _malloc() -> Any:
    """glibc, or None where another library gives memory."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "gnu_get_libc_version") else None


# ---------------------------------------------------------------- cores and memory at hand


@cache
def workers() -> int:
    """How many threads to use: the cores that this process may run on, by affinity and quota."""
    from joblib import cpu_count  # comes with scikit-learn; not needed to import provenet

    return int(cpu_count())


def memory_at_hand() -> int:
    """Bytes of memory to be had: what is free, or what this process's group is allowed if less."""
    return min(_free_memory(), *_group_limits())


def _free_memory() -> int:
    """Free or easily freed memory; all there is, or no limit, where the system does not tell."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(_MEMINFO), re.MULTILINE)
    if found:
        return 1024 * int(found[1])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return NO_MEMORY_LIMIT


def _group_limits() -> list[int]:
    """Limits of the control groups (version 1 or 2) of this process and of those above them."""
    limits = [NO_MEMORY_LIMIT]
    for line in _text(_OWN_GROUPS).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers == "":
            limits += _limits_above(_GROUPS, group, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_above(_GROUPS / "memory", group, "memory.limit_in_bytes")
    return limits


def _limits_above(root: Path, group: str, name: str) -> list[int]:
    own = root / group.strip("/")
    folders = (own, *own.parents)
    texts = (_text(folder / name).strip() for folder in folders if folder.is_relative_to(root))
    return [int(text) for text in texts if text.isdecimal()]


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
    """`sum(term(block) for block in blocks)`; each thread adds up every so-manieth block itself.

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
