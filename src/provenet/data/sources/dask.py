"""Samples on a Dask cluster: sums are added up where the chunks are, and only sums travel.

Every chunk of rows is a task that adds up its own samples; sums are merged eight at a time, as a
tree, until one is left. So what moves are the terms' parameters out and sums back, whatever the
number of samples. The order of additions is that of the tree, not that in which workers finish:
the digits do not depend on the cluster. A worker that dies costs the chunks it worked on: Dask
computes them again.

The only module that imports dask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, TypeVar

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.exceptions import ClusterLost, InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.data.parallel import memory_kept, one_blas_thread
from provenet.data.passes import Term
from provenet.data.sources.arrays import ArraySource, draw_rows
from provenet.data.sources.base import LARGEST_BLOCK, Draw, Job, Result, Source
from provenet.data.tolerances import ROWS_AT_ONCE, SUMS_MERGED_AT_ONCE

try:
    import dask
    import dask.array as da
except ImportError:
    raise InvalidInput(
        'Dask is not installed: run pip install "provenet[dask]", or give arrays.'
    ) from None

Sum = TypeVar("Sum")

_PATIENCE = "10s"
_CHUNKS_A_STRETCH = 64
"""Chunks between two checkpoints: workers wait for each other once in so many."""


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

    def stretches(self, rows: int) -> list[slice]:
        """Whole chunks, many at a time."""
        groups = row_blocks(len(self._chunks), _CHUNKS_A_STRETCH)
        return [slice(self._chunks[g.start].start, self._chunks[g.stop - 1].stop) for g in groups]

    def partial_total(self, term: Term[Sum], start: int, stop: int, rows: int) -> Sum:
        """A task a chunk, and a tree of tasks that merge their sums."""
        node = dask.delayed(_Shipped(term), traverse=False, pure=False)
        task = dask.delayed(partial(_sum_of_chunk, rows=rows), pure=False)
        sums = [task(node, c.samples, a, b) for c, a, b in self._overlaps(start, stop)]
        merge = dask.delayed(_merged, pure=False)
        while len(sums) > 1:
            sums = [merge(sums[g]) for g in row_blocks(len(sums), SUMS_MERGED_AT_ONCE)]
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
                with _cluster_kept():
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

    def __init__(self, X: Any, y: Any) -> None:
        """Nothing is computed; chunks end where blocks of a pass do, those of y where X's do."""
        X = X.rechunk({0: _whole_blocks(X.chunks[0]), 1: -1})
        y = y.rechunk({0: X.chunks[0], 1: -1} if y.ndim == 2 else {0: X.chunks[0]})
        self.size, self.features = X.shape
        self.outputs = None if y.ndim == 1 else y.shape[1]
        edges = np.cumsum([0, *X.chunks[0]]).tolist()
        blocks = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True)
        chunks = (_Chunk(a, b, pair) for (a, b), pair in zip(pairwise(edges), blocks, strict=True))
        self._chunks = [chunk for chunk in chunks if chunk.start < chunk.stop]

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


def _whole_blocks(lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Chunks of nearly these lengths that end where blocks of a pass do, so that sums are of the
    same blocks as those of arrays in memory, and rounded alike."""
    size = sum(lengths)
    edges = LARGEST_BLOCK * np.round(np.cumsum(lengths[:-1]) / LARGEST_BLOCK).astype(int)
    return tuple(np.diff(np.unique([0, *edges[edges < size], size])).tolist())


class DaskFiles(DaskSource):
    """A source of files that all workers can read: each reads the rows that it adds up."""

    def __init__(self, source: Source) -> None:
        """`source` travels as the names of its files."""
        self.source = source
        self.size, self.features, self.outputs = source.size, source.features, source.outputs
        self.feature_names = source.feature_names
        node = dask.delayed(source, traverse=False, pure=False)
        self._chunks = [
            _Chunk(rows.start, rows.stop, (node,), rows.start)
            for rows in source.stretches(ROWS_AT_ONCE)
        ]

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Read here: the files are here too."""
        return self.source.rows(start, stop)

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """Read here."""
        return self.source.draw(n, rng)


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
    with one_blas_thread(), memory_kept():
        return reduce(add, (shipped.term(*source.rows(b.start, b.stop)) for b in blocks))


def _done(job: Job[Result], ended: str) -> Result:
    """Work of a client, on a worker's thread."""
    from distributed import Event

    with one_blas_thread(), memory_kept():
        return job(lambda: not Event(ended).is_set())


def _client() -> Any | None:
    """That of the cluster on which tasks are computed; None where there is none."""
    if dask.config.get("scheduler", None) not in (None, "dask.distributed", "distributed"):
        return None
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def _merged(sums: list[Any]) -> Any:
    return reduce(add, sums)


def _gathered(pieces: Iterable[tuple[Any, Any, Any]]) -> tuple[Array, Array]:
    """Some rows of some chunks, one after the other."""
    take = dask.delayed(_take, pure=False)
    parts = _compute(*(take(*piece) for piece in pieces))
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return X, y


def _take(X: AnyArray, y: AnyArray, rows: Any) -> tuple[Array, Array]:
    return np.asarray(X[rows], float), np.asarray(y[rows], float)


def as_dask_arrays(X: Any, y: Any) -> tuple[Any, Any]:
    """Inputs and labels as Dask arrays of known shape and real numbers."""
    X, y = _as_dask_array(X, "X"), _as_dask_array(y, "y")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    return X, y


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
    if array.dtype.kind not in "fiub":
        raise InvalidInput(
            f"{name} must hold real numbers, not {array.dtype}: convert it with astype(float)."
        )
    return array


@contextmanager
def cluster(address: str) -> Iterator[None]:
    """A context in which Dask computes on the cluster of a scheduler."""
    try:
        from distributed import Client

        client = Client(address, timeout=_PATIENCE)
    except ImportError:
        raise InvalidInput(
            'A scheduler needs distributed: run pip install "provenet[dask]".'
        ) from None
    except (OSError, TimeoutError, ValueError) as error:
        raise InvalidInput(
            f"No Dask scheduler answers at {address} ({_first_line(error)}): check the address."
        ) from None
    logger = logging.getLogger("distributed")
    level, logger.level = logger.level, logging.CRITICAL  # what went wrong is said once, by us
    try:
        with client:
            yield
    finally:
        logger.level = level


def _compute(*tasks: Any) -> tuple[Any, ...]:
    """The results of tasks."""
    with _cluster_kept():
        return tuple(dask.compute(*tasks))


@contextmanager
def _cluster_kept() -> Iterator[None]:
    """A cluster that is lost meanwhile ends in one clear sentence."""
    try:
        yield
    except Exception as error:
        if _is_loss(error):
            raise ClusterLost(
                f"The Dask cluster was lost ({type(error).__name__}): start it again and run the "
                "same once more; with a checkpoint it goes on where it was."
            ) from error
        raise


def _is_loss(error: BaseException) -> bool:
    """Whether an exception tells of the cluster and not of the data."""
    names = {kind.__name__ for kind in type(error).__mro__}
    lost = {"CommClosedError", "CancelledError", "KilledWorker", "TimeoutError", "ConnectionError"}
    return bool(names & lost)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
