"""Samples in files: arrays mapped into memory, and datasets (HDF5, Zarr) read by slices of rows.

A dataset on disk is read in bands: whole rows of its chunks, about a megabyte or one chunk,
whichever is more. The last few bands are kept, because blocks of samples are shorter than bands and
a chunk can only be decompressed as a whole. Sources of both kinds travel to other processes by the
names of their files, which are opened again there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, Protocol

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.data.sources.arrays import ArraySource, draw_rows
from provenet.data.sources.base import Draw, Source

Reopen = Callable[[], Source]
"""How another process gets the same source; it must be picklable."""

_BAND_BYTES = 2**20
_NEAR_BYTES = 2**16
"""Rows closer than this are read in one slice: a read costs as much as that many bytes."""
_KEPT_BYTES = 2**26
_MOST_KEPT = 8


class Dataset(Protocol):
    """An array on disk, read by slices: of h5py, of zarr, or like them."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...] | None

    def __getitem__(self, rows: slice) -> AnyArray:
        """The rows of a slice."""


class FileArrays(ArraySource):
    """Arrays mapped into memory, opened again by name in another process."""

    def __init__(self, X: AnyArray, y: AnyArray, reopen: Reopen) -> None:
        """Nothing is read yet; `reopen` must give the same samples."""
        super().__init__(X, y)
        self._reopen = reopen

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """The rows as float64; those that lie unaligned in an archive are copied into line."""
        return _aligned(self.X[start:stop]), _aligned(self.y[start:stop])

    def __reduce__(self) -> tuple[Reopen, tuple[()]]:
        """A memory map would be pickled with all that it shows."""
        return self._reopen, ()


def _aligned(rows: AnyArray) -> Array:
    return np.require(rows, np.float64, ["ALIGNED", "ENSUREARRAY"])


class FileSource(Source):
    """Two datasets on disk, of which only the rows in use are in memory."""

    def __init__(self, X: Dataset, y: Dataset, reopen: Reopen) -> None:
        """Inputs (n, features), labels (n,) or (n, outputs); `reopen` must give the same."""
        self.size, self.features = int(X.shape[0]), int(X.shape[1])
        several = len(y.shape) == 2 and y.shape[1] > 1
        self.outputs = int(y.shape[1]) if several else None
        self._X, self._y, self._reopen = _Bands(X), _Bands(y), reopen

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Read, or taken from what was read last, as float64."""
        return self._X.read(start, stop), self._labels(self._y.read(start, stop))

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """A random subset, or all rows in random order when `n` is as many as there are."""
        return draw_rows(self._pick, self.size, n, rng)

    def _pick(self, rows: AnyArray) -> tuple[Array, Array]:
        return self._X.pick(rows), self._labels(self._y.pick(rows))

    def _labels(self, y: Array) -> Array:
        return y if self.outputs else y.reshape(len(y))

    def __reduce__(self) -> tuple[Reopen, tuple[()]]:
        """Open files cannot be pickled."""
        return self._reopen, ()


class _Bands:
    """Rows of a dataset, read a band at a time."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.row_bytes = bytes_a_row(dataset)
        chunk = rows_a_chunk(dataset)
        self.length = chunk * -(-_BAND_BYTES // (chunk * self.row_bytes))
        self.near = max(chunk, _NEAR_BYTES // self.row_bytes)
        self._kept: dict[int, AnyArray] = {}
        self._most = int(np.clip(_KEPT_BYTES // (self.length * self.row_bytes), 1, _MOST_KEPT))
        self._lock = Lock()

    def read(self, start: int, stop: int) -> Array:
        """Rows `start` to `stop`."""
        pieces = list(self._pieces(start, stop))
        joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return np.asarray(joined, float)

    def _pieces(self, start: int, stop: int) -> Iterator[AnyArray]:
        for band in range(start // self.length, -(-stop // self.length)):
            first = band * self.length
            yield self._band(band)[max(0, start - first) : stop - first]

    def _band(self, band: int) -> AnyArray:
        with self._lock:  # a thread that needs the same band waits for it and does not read it too
            found = self._kept.pop(band, None)
            if found is None:
                while len(self._kept) >= self._most:
                    del self._kept[next(iter(self._kept))]
                found = np.asarray(self.dataset[band * self.length : (band + 1) * self.length])
            self._kept[band] = found
            return found

    def pick(self, rows: AnyArray) -> Array:
        """Some rows, of rising number; those near each other are read together."""
        picked = np.empty((len(rows), *self.dataset.shape[1:]))
        cuts = np.flatnonzero(np.diff(rows // self.near)) + 1
        for place in np.split(np.arange(len(rows)), cuts):
            first, last = int(rows[place[0]]), int(rows[place[-1]])
            picked[place] = np.asarray(self.dataset[first : last + 1])[rows[place] - first]
        return picked


def rows_a_chunk(dataset: Dataset) -> int:
    """How many rows can only be read together: a chunk's, or one where there are no chunks."""
    shape = getattr(dataset, "shards", None) or dataset.chunks or (1,)
    return max(1, min(int(shape[0]), dataset.shape[0]))


def bytes_a_row(dataset: Dataset) -> int:
    """Bytes of one row in memory."""
    return int(np.prod(dataset.shape[1:], dtype=np.int64)) * dataset.dtype.itemsize
