"""Sample files of any size: `open_samples` and `save_samples`.

- `.npy`: a pair, inputs and labels; mapped into memory.
- `.npz`: arrays X and y; in memory if they are small, else mapped where they lie in the archive.
- `.h5`, `.hdf5`, `.zarr` and `.zip` (of a Zarr group): datasets X and y; read by slices of rows.
- `.csv`, `.tsv`, `.parquet`: tables (`data.tables`), read as a whole.

Labels are (samples,) or (samples, outputs). Nothing is ever unpickled. Every file that cannot be
used ends in `InvalidInput`: the file, the problem, a way out.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import lru_cache, partial
from math import prod
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import IO, Any
from weakref import finalize

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import load_npz, make_atomically, package, write_atomically, write_npz
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted, sized
from provenet.data.parallel import available_memory
from provenet.data.sources import ArraySource, Draw, Source, check_samples, draw_rows
from provenet.data.tables import (
    check_small,
    is_small,
    open_csv,
    open_parquet,
    plain_labels,
    save_csv,
    save_parquet,
)

FilePath = str | PathLike[str]
Reopen = Callable[[], Source]
"""How another process gets the same source, by the names of its files; it must be picklable."""


def open_samples(
    path: FilePath,
    labels: FilePath | None = None,
    outputs: int | None = None,
    target: str | Sequence[str] | None = None,
) -> Source:
    """The samples in a file, or in a pair of `.npy` files (`path` and `labels`), as a source.

    `outputs` is the number of label columns of a table, `.csv` or `.parquet` (1 unless its header
    says otherwise); in files of the other kinds the labels must have that many. `target` is the
    name of a table's label column, or several names, where labels are not the last columns.
    """
    check_pairing(path, labels)
    file, second = _existing(path), None if labels is None else _existing(labels)
    suffix, name = file.suffix.lower(), f"y in {path}"
    targets = (target,) if isinstance(target, str) else tuple(target or ())
    if targets and suffix not in _TABLES:
        raise InvalidInput(f"{path} has no columns with names: leave the target out.")
    reopen = partial(open_samples, file.absolute(), second and second.absolute(), outputs)
    if second is not None:
        source, name = open_npy(file, second, reopen), str(labels)
    elif suffix in _TABLES:
        source, name = _TABLES[suffix](file, outputs, targets), str(path)
    else:
        source = _GROUPS[suffix][0](file, reopen)
    found = source.outputs or 1
    if outputs is not None and outputs != found:
        raise InvalidInput(
            f"{name} has {counted(found, 'output')}, not {outputs}: "
            "correct the number of outputs or leave it out."
        )
    return source


def save_samples(path: FilePath, X: Any, y: Any, labels: FilePath | None = None) -> None:
    """Write samples in any format that `open_samples` reads: whole or not at all."""
    check_pairing(path, labels)
    X, y = np.asarray(X), np.asarray(y)
    suffix = Path(path).suffix.lower()
    if labels is not None:
        save_npy(path, X, labels, y)
    elif suffix in (".csv", ".tsv"):
        mark = "," if suffix == ".csv" else "\t"
        write_atomically(path, lambda file: save_csv(file, X, y, mark))
    elif suffix == ".parquet":
        make_atomically(path, lambda place: save_parquet(place, X, y))
    else:
        make_atomically(path, lambda place: _GROUPS[suffix][1](place, X, y))


def save_mask(path: FilePath, mask: Any) -> None:
    """Write a mask of labels to `.npy`, or to `.npz` as the array `corrupted`: whole or not."""
    check_mask_name(path)
    if Path(path).suffix.lower() == ".npz":
        write_npz(path, {"corrupted": np.asarray(mask)})
    else:
        write_atomically(path, lambda file: np.save(file, np.asarray(mask), allow_pickle=False))


def check_mask_name(path: FilePath) -> None:
    """Raise unless a mask can be written under this name."""
    if Path(path).suffix.lower() not in (".npy", ".npz"):
        raise InvalidInput(f"{path} cannot hold a mask: give it a name in .npy or .npz.")


def check_pairing(path: FilePath, labels: FilePath | None) -> None:
    """Raise unless the format is known, can be used here, and labels come with `.npy` alone."""
    suffix = Path(path).suffix.lower()
    if suffix not in _PACKAGES:
        raise InvalidInput(
            f"{path} has an unknown extension: name a file in .npz, .h5, .hdf5, .zarr or .zip "
            "(arrays X and y), .npy (and a second .npy for y), .csv, .tsv or .parquet."
        )
    if suffix == ".npy" and labels is None:
        raise InvalidInput(f"{path} holds only the inputs: name a second .npy file for the labels.")
    if suffix != ".npy" and labels is not None:
        raise InvalidInput(f"{path} holds the labels too: leave out {labels}.")
    if labels is not None and Path(labels).suffix.lower() != ".npy":
        raise InvalidInput(f"{labels} must be an .npy file, as {path} is.")
    package(_PACKAGES[suffix], path)


def _existing(path: FilePath) -> Path:
    file = Path(path)
    if file.is_dir() and file.suffix.lower() != ".zarr":
        raise InvalidInput(f"{path} is a folder: give the name of a file.")
    if not file.exists():
        raise InvalidInput(f"{path} does not exist: check the name.")
    if not os.access(file, os.R_OK):
        raise InvalidInput(f"{path} cannot be read: check its permissions.")
    if file.is_file() and file.stat().st_size == 0:
        raise InvalidInput(f"{path} is empty: write the samples again.")
    return file


def _check_group(path: Path, arrays: Any, names: Iterable[str]) -> tuple[Any, Any]:
    """The arrays X and y of a file, if they are samples."""
    there = sorted(names)
    missing = [name for name in ("X", "y") if name not in there]
    if missing:
        listed = ", ".join(there[:8]) or "nothing"
        raise InvalidInput(
            f"{path} lacks {' and '.join(missing)} (it holds {listed}): "
            'name the arrays "X" and "y".'
        )
    check_samples(arrays["X"], arrays["y"], f"X in {path}", f"y in {path}")
    return arrays["X"], arrays["y"]


# ---------------------------------------------------------------- .npy and .npz


class FileArrays(ArraySource):
    """Arrays mapped into memory, opened again by name in another process."""

    def __init__(self, X: AnyArray, y: AnyArray, reopen: Reopen) -> None:
        """Nothing is read yet; `reopen` must give the same samples."""
        super().__init__(X, plain_labels(y))
        self._reopen = reopen

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """The rows as float64; those that lie unaligned in an archive are copied into line."""
        X, y = (np.require(a[start:stop], float, ["A", "E"]) for a in (self.X, self.y))
        return X, y

    def __reduce__(self) -> tuple[Reopen, tuple[()]]:
        """A memory map would be pickled with all that it shows."""
        return self._reopen, ()


def open_npy(path: Path, labels: Path, reopen: Reopen) -> Source:
    """The inputs in `path` with the labels in `labels`."""
    X, y = _mapped(path), _mapped(labels)
    check_samples(X, y, str(path), str(labels))
    return FileArrays(X, y, reopen)


def _mapped(path: Path) -> AnyArray:
    with open(path, "rb") as opened:
        if opened.read(6) != b"\x93NUMPY":
            raise InvalidInput(f"{path} is not an .npy file: write it with numpy.save.")
    try:
        array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        problem = "holds Python objects" if "object" in str(error).lower() else "is truncated"
        raise InvalidInput(
            f"{path} {problem}: write it again with numpy.save, as an array of numbers."
        ) from None
    return array


def save_npy(path: FilePath, X: AnyArray, labels: FilePath, y: AnyArray) -> None:
    """Both files or neither."""
    if Path(path).resolve() == Path(labels).resolve():
        raise InvalidInput(f"{path} cannot hold inputs and labels both: give two names.")

    # Nested, so that the labels take their place only once the inputs have taken theirs.
    def write_both(file: IO[bytes]) -> None:
        np.save(file, y, allow_pickle=False)
        write_atomically(path, lambda inputs: np.save(inputs, X, allow_pickle=False))

    write_atomically(labels, write_both)


def open_npz(path: Path, reopen: Reopen) -> Source:
    """The arrays X and y of an archive."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename in ("X.npy", "y.npy")]
            needed = sum(info.file_size for info in members)
            stored = all(info.compress_type == zipfile.ZIP_STORED for info in members)
            if stored and not is_small(needed):
                mapped = {info.filename[0]: _mapped_member(path, archive, info) for info in members}
                return FileArrays(*_check_group(path, mapped, mapped), reopen)
        check_small(path, needed)
    arrays = load_npz(path)
    X, y = _check_group(path, arrays, arrays)
    return ArraySource(X, plain_labels(y))


def _mapped_member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> AnyArray:
    """An array that is not compressed, where it lies in its archive."""
    with archive.open(info) as stream:
        header = np.lib.format
        first = header.read_magic(stream) == (1, 0)
        read = header.read_array_header_1_0 if first else header.read_array_header_2_0
        shape, fortran, dtype = read(stream)
        numbers = stream.tell()
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)  # where the lengths of name and extra field are
        name, extra = np.frombuffer(file.read(4), "<u2").tolist()
    offset = info.header_offset + 30 + name + extra + numbers
    return np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")


def save_npz(path: Path, X: AnyArray, y: AnyArray) -> None:
    """Not compressed: samples are noise."""
    with open(path, "wb") as file:
        np.savez(file, X=X, y=y)


# ---------------------------------------------------------------- HDF5 and Zarr


class FileSource(Source):
    """Two datasets of h5py or zarr, of which only the rows in use are in memory."""

    def __init__(self, X: Any, y: Any, reopen: Reopen) -> None:
        """Inputs (n, features), labels (n,) or (n, outputs); `reopen` must give the same."""
        self.size, self.features = int(X.shape[0]), int(X.shape[1])
        several = len(y.shape) == 2 and y.shape[1] > 1
        self.outputs = int(y.shape[1]) if several else None
        self._X, self._y, self._reopen = _Bands(X), _Bands(y), reopen

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Read, or taken from what was read last, as float64."""
        return self._X.read(start, stop), plain_labels(self._y.read(start, stop))

    def draw(self, n: int, rng: np.random.Generator) -> Draw:
        """A random subset, or all rows in random order when `n` is as many as there are."""
        return draw_rows(
            lambda rows: (self._X.pick(rows), plain_labels(self._y.pick(rows))), self.size, n, rng
        )

    def __reduce__(self) -> tuple[Reopen, tuple[()]]:
        """Open files cannot be pickled."""
        return self._reopen, ()


class _Bands:
    """Rows of a dataset, read a band at a time: whole rows of its chunks, about a megabyte or one
    chunk, whichever is more.

    Blocks of samples are shorter than bands, and a chunk can only be decompressed as a whole: up to
    eight bands, of 64 MB in all, are kept.
    """

    def __init__(self, dataset: Any) -> None:
        chunk, row = _rows_per_chunk(dataset), _bytes_per_row(dataset)
        self.dataset, self.length = dataset, chunk * -(-(2**20) // (chunk * row))
        self.near = max(chunk, 2**16 // row)
        """Rows closer than this are read in one slice: a read costs as much as 64 kB."""
        most = int(np.clip(2**26 // (self.length * row), 1, 8))
        self._band = lru_cache(most)(partial(_band, dataset, self.length))
        self._lock = Lock()

    def read(self, start: int, stop: int) -> Array:
        """Rows `start` to `stop`."""
        first, last = start // self.length, -(-stop // self.length)
        with self._lock:  # a thread that needs the same band waits for it and does not read it too
            bands = [self._band(band) for band in range(first, last)]
        joined = bands[0] if len(bands) == 1 else np.concatenate(bands)
        return np.asarray(joined[start - first * self.length :][: stop - start], float)

    def pick(self, rows: AnyArray) -> Array:
        """Some rows, of rising number; those near each other are read together."""
        picked = np.empty((len(rows), *self.dataset.shape[1:]))
        cuts = np.flatnonzero(np.diff(rows // self.near)) + 1
        for place in np.split(np.arange(len(rows)), cuts):
            first, last = int(rows[place[0]]), int(rows[place[-1]])
            picked[place] = np.asarray(self.dataset[first : last + 1])[rows[place] - first]
        return picked


def _band(dataset: Any, length: int, number: int) -> AnyArray:
    return np.asarray(dataset[number * length : (number + 1) * length])


def _rows_per_chunk(dataset: Any) -> int:
    """How many rows can only be read together: a chunk's, or one where there are no chunks."""
    shape = getattr(dataset, "shards", None) or dataset.chunks or (1,)
    return max(1, min(int(shape[0]), int(dataset.shape[0])))


def _bytes_per_row(dataset: Any) -> int:
    return int(prod(dataset.shape[1:]) * dataset.dtype.itemsize)


def _file_source(path: Path, group: Any, names: Iterable[str], reopen: Reopen) -> FileSource:
    """The datasets X and y of a group."""
    X, y = _check_group(path, group, names)
    for dataset, name in ((X, f"X in {path}"), (y, f"y in {path}")):
        rows, size = _rows_per_chunk(dataset), _rows_per_chunk(dataset) * _bytes_per_row(dataset)
        if not is_small(size):
            raise InvalidInput(
                f"{name} is in chunks of {rows:,} rows, {sized(size)} each, and "
                f"{sized(available_memory())} of memory are available: write it in smaller chunks."
            )
        chunks = getattr(dataset, "nchunks", 0)  # of Zarr, which reads missing ones as zeros
        missing = chunks - getattr(dataset, "nchunks_initialized", 0)
        if missing > 0:
            raise InvalidInput(
                f"{name} lacks {missing} of its {chunks} chunks: copy it again, or write it with "
                "write_empty_chunks if they are all zeros."
            )
    return FileSource(X, y, reopen)


def open_hdf5(path: Path, reopen: Reopen) -> Source:
    """The datasets X and y; the file stays open as long as the source is in use."""
    h5py = package("h5py", path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        reason = str(error).rstrip(".")
        raise InvalidInput(
            f"{path} is truncated, in use or not an HDF5 file ({reason}): write it again."
        ) from None
    items: dict[str, Any] = {}
    file.visititems(items.__setitem__)
    full = [k for k, v in items.items() if isinstance(v, h5py.Dataset) and v.shape is not None]
    return _file_source(path, file, full, reopen)


def save_hdf5(path: Path, X: AnyArray, y: AnyArray) -> None:
    """Row after row, without chunks: what slices of rows are read from fastest."""
    with package("h5py", path).File(path, "w") as file:
        file["X"], file["y"] = X, y


def open_zarr(path: Path, reopen: Reopen) -> Source:
    """The arrays X and y of a group, in a folder or a zip archive."""
    zarr = package("zarr", path)
    try:
        store = _zarr_store(zarr, path, "r")
        group = zarr.open_group(store, mode="r")
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        reason = str(error).rstrip(".")
        raise InvalidInput(
            f"{path} is truncated or not a Zarr group ({reason}): write it again."
        ) from None
    source = _file_source(path, group, group.array_keys(), reopen)
    finalize(source, store.close)
    return source


def _zarr_store(zarr: Any, path: Path, mode: str) -> Any:
    # Absolute: missing chunks read as zeros, and all are missing from another working folder.
    if path.suffix.lower() == ".zip":
        return zarr.storage.ZipStore(path.absolute(), mode=mode)
    return zarr.storage.LocalStore(path.absolute(), read_only=mode == "r")


def save_zarr(path: Path, X: AnyArray, y: AnyArray) -> None:
    """Chunks of whole rows, 4 MB each, not compressed."""
    zarr = package("zarr", path)
    with closing(_zarr_store(zarr, path, "w")) as store:
        group = zarr.open_group(store, mode="w")
        for name, array in (("X", X), ("y", y)):
            rows = max(1, 2**22 * len(array) // max(1, array.nbytes))
            chunks = (min(rows, len(array)), *array.shape[1:])
            full = {"write_empty_chunks": True}
            group.create_array(name, data=array, chunks=chunks, compressors=None, config=full)


_PACKAGES = {".npy": "numpy", ".npz": "numpy", ".csv": "numpy", ".tsv": "numpy"}
_PACKAGES |= {
    ".parquet": "pyarrow",
    ".h5": "h5py",
    ".hdf5": "h5py",
    ".zarr": "zarr",
    ".zip": "zarr",
}
"""Extensions of sample files, and what is needed to use them."""
_TABLES = {".csv": open_csv, ".tsv": open_csv, ".parquet": open_parquet}
_GROUPS = {".npz": (open_npz, save_npz)}
_GROUPS |= dict.fromkeys((".h5", ".hdf5"), (open_hdf5, save_hdf5))
_GROUPS |= dict.fromkeys((".zarr", ".zip"), (open_zarr, save_zarr))
