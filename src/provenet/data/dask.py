"""Samples on a Dask cluster: sums are added up where the chunks are, and only sums travel.

Every chunk of rows is a task that adds up its own samples; sums are merged eight at a time, as a
tree, until one is left. So what moves are the terms' parameters out and sums back, whatever the
number of samples. The order of additions is that of the tree, not that in which workers finish:
the digits do not depend on the cluster. A worker that dies costs the chunks it worked on: Dask
computes them again. The only module that imports dask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.exceptions import ClusterLost, InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.data.parallel import one_blas_thread, reuse_freed_memory
from provenet.data.passes import Sum, Term, rows_per_block
from provenet.data.sources import ArraySource, Draw, Job, Result, Source, draw_rows

try:
    import dask
    import dask.array as da
except ImportError:
    raise InvalidInput(
        'Dask is not installed: run pip install "provenet[dask]", or give arrays.'
    ) from None


@dataclass(frozen=True)
class _Chunk:
    """Samples `start` to `stop`, which are the rows from `first` on of what a task is given."""

    start: int
    stop: int
    samples: tuple[Any, ...]
    """Tasks that give inputs and labels, or a source."""
    first: int = 0


class DaskSource(Source):
    """Samples in chunks that stay where they are; a subclass gives single rows."""

    _chunks: list[_Chunk]
    chunks_per_stretch = 64
    """Workers wait for each other once in so many chunks."""

    def stretches(self, rows: int) -> list[slice]:
        """Whole chunks, many at a time."""
        groups = row_blocks(len(self._chunks), self.chunks_per_stretch)
        return [slice(self._chunks[g.start].start, self._chunks[g.stop - 1].stop) for g in groups]

    def partial_total(self, term: Term[Sum], start: int, stop: int, rows: int) -> Sum:
        """A task a chunk, and a tree of tasks that merge their sums."""
        node = dask.delayed(_Shipped(term), traverse=False, pure=False)
        task = dask.delayed(partial(_sum_of_chunk, rows=rows), pure=False)
        sums = [task(node, c.samples, a, b) for c, a, b in self._overlaps(start, stop)]
        merge = dask.delayed(_merged, pure=False)
        while len(sums) > 1:
            sums = [merge(sums[g]) for g in row_blocks(len(sums), 8)]
        return _compute(sums[0])[0]  # type: ignore[no-any-return]

    @property
    def jobs_at_once(self) -> int:
        """One a worker's thread; Dask's own threads, without a cluster, are for sums."""
        client = _client()
        return 1 if client is None else max(1, sum(client.nthreads().values()))

    def side_by_side(self, jobs: Sequence[Job[Result]]) -> Generator[Result]:
        """A task each on the cluster; where results are no longer taken, tasks learn of it."""
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

    def _overlaps(self, start: int, stop: int) -> Iterator[tuple[_Chunk, int, int]]:
        """Chunks with some of these samples, and which of their rows these are."""
        for c in self._chunks:
            low, high = max(start, c.start), min(stop, c.stop)
            if low < high:
                yield c, low - c.start + c.first, high - c.start + c.first


class DaskArrays(DaskSource):
    """Dask arrays X (n, features) and y, (n,) or (n, outputs)."""

    def __init__(self, X: Any, y: Any, block: int | None = None) -> None:
        """Nothing is computed. Chunks are cut again to end where blocks of `block` rows do.

        They are the largest of a pass: sums are of the same blocks as in memory, rounded alike.
        """
        block, lengths, size = block or rows_per_block(0), X.chunks[0], len(X)
        cuts = block * np.round(np.cumsum(lengths[:-1]) / block).astype(int)
        edges = np.unique([0, *cuts[cuts < size], size]).tolist()
        rows = tuple(b - a for a, b in pairwise(edges))
        X = X.rechunk({0: rows, 1: -1})
        y = y.rechunk({0: rows, 1: -1} if y.ndim == 2 else {0: rows})
        self.size, self.features = X.shape
        self.outputs = None if y.ndim == 1 else y.shape[1]
        tasks = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True)
        self._chunks = [_Chunk(*e, pair) for e, pair in zip(pairwise(edges), tasks, strict=True)]

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """These rows alone travel."""
        return _gathered((*c.samples, slice(a, b)) for c, a, b in self._overlaps(start, stop))

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """A random subset, the same as that of arrays in memory with the same seed."""
        return draw_rows(self._pick, self.size, n, rng)

    def _pick(self, rows: AnyArray) -> tuple[Array, Array]:
        """Rows of rising number."""
        edges = np.searchsorted(rows, [*(c.start for c in self._chunks), self.size])
        return _gathered(
            (*c.samples, rows[a:b] - c.start)
            for c, (a, b) in zip(self._chunks, pairwise(edges), strict=True)
            if a < b
        )


class DaskFiles(DaskSource):
    """A source of files that all workers can read: each reads the rows that it adds up."""

    def __init__(self, source: Source) -> None:
        """`source` travels as the names of its files."""
        self.source = source
        self.size, self.features, self.outputs = source.size, source.features, source.outputs
        self.feature_names = source.feature_names
        node = dask.delayed(source, traverse=False, pure=False)
        stretches = source.stretches(source.block_rows)
        self._chunks = [_Chunk(s.start, s.stop, (node,), s.start) for s in stretches]

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Read here: the files are here too."""
        return self.source.rows(start, stop)

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """Read here."""
        return self.source.draw(n, rng)


# ---------------------------------------------------------------- tasks


@dataclass(frozen=True)
class _Shipped:
    """A term as plain data: Dask would take a callable for a task."""

    term: Callable[[Array, Array], Any]


def _sum_of_chunk(
    shipped: _Shipped, samples: tuple[Any, ...], first: int, last: int, *, rows: int
) -> Any:
    """Block by block on one thread: the workers' threads have chunks of their own."""
    source = ArraySource(*samples) if len(samples) == 2 else samples[0]
    blocks = (slice(first + b.start, first + b.stop) for b in row_blocks(last - first, rows))
    reuse_freed_memory()
    with one_blas_thread():
        return reduce(add, (shipped.term(*source.rows(b.start, b.stop)) for b in blocks))


def _done(job: Job[Result], ended: str) -> Result:
    """Work of a client, on a worker's thread."""
    from distributed import Event

    reuse_freed_memory()
    with one_blas_thread():
        return job(lambda: not Event(ended).is_set())


def _merged(sums: list[Any]) -> Any:
    return reduce(add, sums)


def _gathered(pieces: Iterable[tuple[Any, Any, Any]]) -> tuple[Array, Array]:
    """Some rows of some chunks, one after the other."""
    take = dask.delayed(_take, pure=False)
    X, y = zip(*_compute(*(take(*piece) for piece in pieces)), strict=True)
    return np.concatenate(X), np.concatenate(y)


def _take(X: AnyArray, y: AnyArray, rows: Any) -> tuple[Array, Array]:
    return np.asarray(X[rows], float), np.asarray(y[rows], float)


# ---------------------------------------------------------------- clusters and collections


def as_dask_arrays(X: Any, y: Any) -> tuple[Any, Any]:
    """Inputs and labels as Dask arrays of known shape and real numbers."""
    X, y = _as_dask_array(X, "X"), _as_dask_array(y, "y")
    return X, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def _as_dask_array(data: Any, name: str) -> Any:
    if data is None:
        raise InvalidInput("Labels y are missing: give X and y, or a source in place of both.")
    array = getattr(data, "to_dask_array", lambda **_: data)(lengths=False)
    if not isinstance(array, da.Array):
        array = da.from_array(np.asarray(array), chunks="auto")
    if np.isnan(array.shape).any():
        raise InvalidInput(
            f"The Dask array {name} has chunks of unknown size: call {name}.compute_chunk_sizes() "
            "first (of a data frame: to_dask_array(lengths=True))."
        )
    return array


@contextmanager
def cluster(address: str, timeout: str = "10s") -> Iterator[None]:
    """A context in which Dask computes on the cluster of a scheduler."""
    try:
        from distributed import Client

        client = Client(address, timeout=timeout)
    except ImportError:
        raise InvalidInput(
            'A scheduler needs distributed: run pip install "provenet[dask]".'
        ) from None
    except (OSError, TimeoutError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InvalidInput(
            f"No Dask scheduler answers at {address} ({reason}): check the address."
        ) from None
    logger = logging.getLogger("distributed")
    level, logger.level = logger.level, logging.CRITICAL  # an error is reported once, here
    try:
        with client:
            yield
    finally:
        logger.level = level


def _client() -> Any | None:
    """That of the cluster on which tasks are computed; None where there is none."""
    if dask.config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def _compute(*tasks: Any) -> tuple[Any, ...]:
    """The results of tasks."""
    with _loss_reported():
        return tuple(dask.compute(*tasks))


@contextmanager
def _loss_reported() -> Iterator[None]:
    """A cluster that is lost meanwhile ends in one clear sentence."""
    lost = {"CommClosedError", "CancelledError", "KilledWorker", "TimeoutError", "ConnectionError"}
    try:
        yield
    except Exception as error:
        if not lost & {kind.__name__ for kind in type(error).__mro__}:
            raise
        raise ClusterLost(
            f"The Dask cluster was lost ({type(error).__name__}): start it again and run the same "
            "once more; with a checkpoint it goes on where it was."
        ) from error
