"""Samples on a Dask cluster: sums are added up where the chunks are, and only sums travel.

Every chunk of rows is a task that adds up its own samples; sums are merged eight at a time, as a
tree. So only the terms' parameters and sums travel, and the digits do not depend on the cluster or
on which worker finishes first. If a worker dies, Dask computes its chunks again. The only module
that imports dask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple

import numpy as np

from provenet.common.exceptions import ClusterLost, InvalidInput
from provenet.common.files import package
from provenet.common.typing import AnyArray, Array, row_blocks
from provenet.data.passes import Sum, Term, one_blas_thread, reuse_freed_memory, rows_per_block
from provenet.data.sources import ArraySource, Draw, Job, Result, Source, draw_rows

dask, da = (package(n, "A Dask source", '"provenet[dask]"') for n in ("dask", "dask.array"))


class _Chunk(NamedTuple):
    """Samples `start` to `stop`: tasks for inputs and labels, or for a source, from `first` on."""

    start: int
    stop: int
    samples: tuple[Any, ...]
    first: int


class DaskSource(Source):
    """Samples in chunks that stay where they are; a subclass gives single rows."""

    _chunks: list[_Chunk]
    chunks_per_stretch = 64
    """Workers wait for each other at the end of a stretch."""

    def stretches(self, rows: int) -> list[slice]:
        """Whole chunks, many at a time."""
        groups = row_blocks(len(self._chunks), self.chunks_per_stretch)
        return [slice(self._chunks[g.start].start, self._chunks[g.stop - 1].stop) for g in groups]

    def partial_total(self, term: Term[Sum], start: int, stop: int, rows: int) -> Sum:
        """A task for each chunk, and a tree of tasks that merge their sums."""
        node = dask.delayed(_Shipped(term, rows), traverse=False, pure=False)
        task, merge = (dask.delayed(f, pure=False) for f in (_sum_of_chunk, reduce))
        sums = [
            task(node, c.samples, max(start, c.start) - c.first, min(stop, c.stop) - c.first)
            for c in self._chunks
            if start < c.stop and c.start < stop
        ]
        while len(sums) > 1:
            sums = [merge(add, sums[g]) for g in row_blocks(len(sums), 8)]
        with _loss_reported():
            return sums[0].compute()  # type: ignore[no-any-return]

    @property
    def jobs_at_once(self) -> int:
        """One for each thread of the workers; without a cluster Dask's own threads are for sums."""
        client = _client()
        return 1 if client is None else max(1, sum(client.nthreads().values()))

    def side_by_side(self, jobs: Sequence[Job[Result]]) -> Generator[Result]:
        """A task each on the cluster; tasks are told when no further results are wanted."""
        client = _client()
        if client is None or len(jobs) == 1:
            yield from super().side_by_side(jobs)
            return
        from distributed import Event

        ended = Event()
        tasks = [client.submit(_done, job, ended.name, pure=False) for job in jobs]
        try:
            for task in tasks:
                with _loss_reported():
                    result = task.result()
                yield result
        finally:
            with suppress(Exception):  # of a cluster that is lost
                ended.set()
                client.cancel(tasks)


class DaskArrays(DaskSource):
    """Dask arrays X (n, features) and y, (n,) or (n, outputs)."""

    def __init__(self, X: Any, y: Any, block: int | None = None) -> None:
        """Nothing is computed. Chunks are cut again to end where blocks of `block` rows do, by
        default the largest of any pass: sums are of the same blocks as in memory, rounded alike."""
        block, lengths, size = block or rows_per_block(0), X.chunks[0], len(X)
        cuts = block * np.round(np.cumsum(lengths[:-1]) / block).astype(int)
        edges = np.unique([0, *cuts[cuts < size], size]).tolist()
        rows = tuple(b - a for a, b in pairwise(edges))
        X = X.rechunk({0: rows, 1: -1})
        y = y.rechunk({0: rows, 1: -1} if y.ndim == 2 else {0: rows})
        self.size, self.features = X.shape
        self.outputs = None if y.ndim == 1 else y.shape[1]
        tasks = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True)
        self._chunks = [
            _Chunk(a, b, t, a) for (a, b), t in zip(pairwise(edges), tasks, strict=True)
        ]

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Only these rows travel."""
        return self._pick(np.arange(start, stop))

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """A random subset, the same as that of arrays in memory with the same seed."""
        return draw_rows(self._pick, self.size, n, rng)

    def _pick(self, rows: AnyArray) -> tuple[Array, Array]:
        """Rows of increasing number."""
        take = dask.delayed(_take, pure=False)
        edges = np.searchsorted(rows, [*(c.start for c in self._chunks), self.size])
        pieces = zip(self._chunks, pairwise(edges), strict=True)
        tasks = [take(*c.samples, rows[a:b] - c.start) for c, (a, b) in pieces if a < b]
        with _loss_reported():
            X, y = zip(*dask.compute(*tasks), strict=True)
        return np.concatenate(X), np.concatenate(y)


class DaskFiles(DaskSource):
    """A source of files that all workers can read: each reads the rows that it adds up."""

    def __init__(self, source: Source) -> None:
        """`source` travels as the names of its files."""
        self.source = source
        self.size, self.features, self.outputs = source.size, source.features, source.outputs
        self.feature_names = source.feature_names
        node = dask.delayed(source, traverse=False, pure=False)
        stretches = source.stretches(source.block_rows)
        self._chunks = [_Chunk(s.start, s.stop, (node,), 0) for s in stretches]

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Read here: the files are here too."""
        return self.source.rows(start, stop)

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """Read here."""
        return self.source.draw(n, rng)


# ---------------------------------------------------------------- tasks


@dataclass(frozen=True)
class _Shipped:
    """A term as plain data (Dask would take a callable for a task), and rows per block."""

    term: Callable[[Array, Array], Any]
    rows: int


def _sum_of_chunk(shipped: _Shipped, samples: tuple[Any, ...], first: int, last: int) -> Any:
    """Block by block on one thread: the workers' threads have chunks of their own."""
    source = ArraySource(*samples) if len(samples) == 2 else samples[0]
    blocks = (
        slice(first + b.start, first + b.stop) for b in row_blocks(last - first, shipped.rows)
    )
    reuse_freed_memory()
    with one_blas_thread():
        return reduce(add, (shipped.term(*source.rows(b.start, b.stop)) for b in blocks))


def _done(job: Job[Result], ended: str) -> Result:
    """A client's job, on a worker's thread."""
    from distributed import Event

    reuse_freed_memory()
    with one_blas_thread():
        return job(lambda: not Event(ended).is_set())


def _take(X: AnyArray, y: AnyArray, rows: AnyArray) -> tuple[Array, Array]:
    return np.asarray(X[rows], float), np.asarray(y[rows], float)


# ---------------------------------------------------------------- clusters and collections


def as_dask_array(data: Any, name: str) -> Any:
    """A Dask array of known shape."""
    array = getattr(data, "to_dask_array", lambda **_: data)(lengths=False)
    if not isinstance(array, da.Array):
        array = da.from_array(np.asarray(array), chunks="auto")
    if np.isnan(array.shape).any():
        call = f"call {name}.compute_chunk_sizes()"
        raise InvalidInput(f"The Dask array {name} has chunks of unknown size: {call}.")
    return array


@contextmanager
def cluster(address: str, timeout: str = "10s") -> Iterator[None]:
    """A context in which Dask computes on the cluster of a scheduler."""
    client = package("distributed", "A scheduler", '"provenet[dask]"').Client
    try:
        connected = client(address, timeout=timeout)
    except (OSError, TimeoutError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InvalidInput(
            f"No Dask scheduler answers at {address} ({reason}): check the address."
        ) from None
    logger = logging.getLogger("distributed")
    level, logger.level = logger.level, logging.CRITICAL  # an error is reported once, here
    try:
        with connected:
            yield
    finally:
        logger.level = level


def _client() -> Any | None:
    """The client of the cluster on which tasks are computed, if there is one."""
    return getattr(dask.base.get_scheduler(), "__self__", None)


@contextmanager
def _loss_reported() -> Iterator[None]:
    """A context in which the loss of the cluster becomes one clear sentence."""
    lost = {"CommClosedError", "CancelledError", "KilledWorker", "TimeoutError", "ConnectionError"}
    try:
        yield
    except Exception as error:
        if not lost & {kind.__name__ for kind in type(error).__mro__}:
            raise
        raise ClusterLost(
            f"The Dask cluster was lost ({type(error).__name__}): start it again and run the same "
            "command once more; with a checkpoint it continues where it was."
        ) from error
