"""Sample files of any size: `open_samples` and `save_samples`.

- `.npy`: a pair, inputs and labels; mapped into memory.
- `.npz`: arrays X and y; in memory if they are small, else mapped where they lie in the archive.
- `.h5`, `.hdf5`, `.zarr` and `.zip` (of a Zarr group): datasets X and y; read by slices of rows.
- `.csv`, `.tsv`, `.parquet`: tables, read as a whole.

Labels are (samples,) or (samples, outputs). Names `x1, x2, .., y1, y2, ..` of a table's columns, as
`save_samples` writes them, determine the labels. Cells of text are separated by a semicolon, tab or
comma, whichever the first line has; with semicolons a comma is a decimal point. Nothing is ever
unpickled. Every file that cannot be used ends in `InvalidInput`: the file, the problem, a way out.
"""

from __future__ import annotations

import csv
import os
import re
import zipfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
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
from provenet.data.passes import available_memory
from provenet.data.sources import ArraySource, Source, check_samples

FilePath = str | PathLike[str]


def open_samples(
    path: FilePath,
    labels: FilePath | None = None,
    outputs: int | None = None,
    target: str | Sequence[str] | None = None,
) -> Source:
    """The samples in a file, or in a pair of `.npy` files (`path` and `labels`), as a source.

    `outputs` is the number of label columns of a table, `.csv` or `.parquet` (1 unless its header
    determines it); in files of the other kinds the labels must have that many. `target` is the name
    of a table's label column, or several names, if labels are not the last columns.
    """
    kind = check_pairing(path, labels)
    file, second = _existing(path), None if labels is None else _existing(labels)
    targets = (target,) if isinstance(target, str) else tuple(target or ())
    if targets and not kind.table:
        raise InvalidInput(f"{path} has no columns with names: leave the target out.")
    X_name, y_name = f"X in {path}", f"y in {path}"
    names: tuple[str, ...] = ()
    if second is not None:
        X, y, X_name, y_name = kind.open(file), kind.open(second), str(path), str(labels)
    elif kind.table:
        header, columns = kind.open(file)
        X, y, names = _split(file, header, columns, outputs, targets)
    else:
        arrays = kind.open(file)
        if not {"X", "y"} <= set(arrays):
            held = ", ".join(sorted(arrays)[:8]) or "nothing"
            raise InvalidInput(f"{path} holds {held}, not X and y: name the arrays so.")
        X, y = arrays["X"], arrays["y"]
    check_samples(X, y, X_name, y_name)
    found = 1 if len(y.shape) == 1 else y.shape[1]
    if outputs not in (None, found):
        raise InvalidInput(
            f"{y_name} has {counted(found, 'output')}, not {outputs}: "
            "correct the number of outputs or leave it out."
        )
    reopen = partial(open_samples, file.absolute(), second and second.absolute(), outputs, targets)
    if isinstance(X, np.ndarray):
        source = FileSource(X, y[:, 0] if y.shape[1:] == (1,) else y, reopen)
    else:
        source = FileSource(_Bands(X, X_name), _Bands(y, y_name, column=True), reopen)
    source.feature_names = names
    return source


class FileSource(ArraySource):
    """Samples in files, of which only the rows in use are in memory, unless a format is read as a
    whole; other processes open them again by name."""

    def __init__(self, X: Any, y: Any, reopen: Callable[[], Source]) -> None:
        """Arrays, or datasets that give rows as arrays; `reopen`, picklable, gives the same."""
        self.X, self.y, self._reopen = X, y, reopen
        self.size, self.features = X.shape
        self.outputs = None if len(y.shape) == 1 else y.shape[1]
        self.in_memory = isinstance(X, np.ndarray)

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """The rows as float64; unaligned ones, as in an archive, are copied."""
        X, y = (np.require(a[start:stop], float, ["A", "E"]) for a in (self.X, self.y))
        return X, y

    def __reduce__(self) -> tuple[Callable[[], Source], tuple[()]]:
        """By name: a memory map would be pickled with its content, and an open file not at all."""
        return self._reopen, ()


def save_samples(path: FilePath, X: Any, y: Any, labels: FilePath | None = None) -> None:
    """Write samples atomically in any format that `open_samples` reads."""
    kind = check_pairing(path, labels)
    X, y = np.asarray(X), np.asarray(y)
    if labels is None:
        make_atomically(path, lambda place: kind.save(place, X, y))
        return
    if Path(path).resolve() == Path(labels).resolve():
        raise InvalidInput(f"{path} cannot hold inputs and labels both: give two names.")

    # Nested, so that the labels take their place only once the inputs have taken theirs.
    def write_both(file: IO[bytes]) -> None:
        np.save(file, y, allow_pickle=False)
        write_atomically(path, lambda inputs: np.save(inputs, X, allow_pickle=False))

    write_atomically(labels, write_both)


def save_mask(path: FilePath, mask: Any) -> None:
    """Write a mask of labels atomically to `.npy`, or to `.npz` as the array `corrupted`."""
    check_mask_name(path)
    if Path(path).suffix.lower() == ".npz":
        write_npz(path, {"corrupted": np.asarray(mask)})
    else:
        write_atomically(path, lambda file: np.save(file, np.asarray(mask), allow_pickle=False))


def check_mask_name(path: FilePath) -> None:
    """Raise unless a mask can be written under this name."""
    if Path(path).suffix.lower() not in (".npy", ".npz"):
        raise InvalidInput(f"{path} cannot hold a mask: give it a name in .npy or .npz.")


def check_pairing(path: FilePath, labels: FilePath | None) -> _Format:
    """The format of a file, if it can be used here; labels come with `.npy` alone."""
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        raise InvalidInput(
            f"{path} has an unknown extension: name a file in .npz, .h5, .hdf5, .zarr or .zip "
            "(arrays X and y), .npy (and a second .npy for y), .csv, .tsv or .parquet."
        )
    if labels is None and suffix == ".npy":
        raise InvalidInput(f"{path} holds only the inputs: name a second .npy file for the labels.")
    if labels is not None and (suffix != ".npy" or Path(labels).suffix.lower() != ".npy"):
        raise InvalidInput(f"{path} and {labels} are no pair of .npy files: leave out the second.")
    package(_FORMATS[suffix].package, path)
    return _FORMATS[suffix]


def _existing(path: FilePath) -> Path:
    file = Path(path)
    if not os.access(file, os.R_OK) or (file.is_dir() and file.suffix.lower() != ".zarr"):
        raise InvalidInput(
            f"{path} does not exist, is a folder or cannot be read: check its name and permissions."
        )
    return file


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """A context in which all that libraries raise for bad files becomes one sentence."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:  # HDF5, Zarr, Arrow, zip and csv have errors of their own
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        problem = f"{path} is truncated or not {kind} ({reason})"
        raise InvalidInput(f"{problem}: write it again.") from None


def _is_small(needed: int) -> bool:
    """Whether so many bytes may be held in memory all the time: the recovery needs the rest."""
    return needed <= available_memory() / 4


def _check_small(what: Any, needed: int) -> None:
    """Raise for what can only be read as a whole and leaves too little memory."""
    if not _is_small(needed):
        raise InvalidInput(
            f"{what} needs {sized(needed)} of memory as a whole, and {sized(available_memory())} "
            "are available: write .npy, HDF5 or Zarr (in small chunks), which are read by parts."
        )


# ---------------------------------------------------------------- arrays: .npy and .npz


def _open_npy(path: Path) -> AnyArray:
    with _reading(path, "an array of numbers that numpy.save wrote"):
        return np.lib.format.open_memmap(path, mode="r")


def _open_npz(path: Path) -> dict[str, AnyArray]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename in ("X.npy", "y.npy")]
        needed = sum(info.file_size for info in members)
        stored = all(info.compress_type == zipfile.ZIP_STORED for info in members)
        if stored and not _is_small(needed):
            return {info.filename[0]: _mapped_member(path, info) for info in members}
        _check_small(path, needed)
    return load_npz(path)


def _mapped_member(path: Path, info: zipfile.ZipInfo) -> AnyArray:
    """An array that is not compressed, where it lies in its archive."""
    header = np.lib.format
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)  # where the lengths of name and extra field are
        file.seek(int(np.frombuffer(file.read(4), "<u2").sum()), os.SEEK_CUR)
        first = header.read_magic(file) == (1, 0)
        read = header.read_array_header_1_0 if first else header.read_array_header_2_0
        shape, fortran, dtype = read(file)
        return np.memmap(file, dtype, "r", file.tell(), shape, "F" if fortran else "C")


def _save_npz(path: Path, X: AnyArray, y: AnyArray) -> None:
    with open(path, "wb") as file:
        np.savez(file, X=X, y=y)  # not compressed: samples are noise


# ---------------------------------------------------------------- datasets: HDF5 and Zarr


class _Bands:
    """Rows of a dataset, read in bands: whole rows of its chunks, at least about a megabyte.

    Blocks of samples are shorter than bands, and a chunk can only be decompressed as a whole, so up
    to eight bands, of 64 MB in all, are kept.
    """

    def __init__(self, dataset: Any, name: str, *, column: bool = False) -> None:
        shape = tuple(map(int, dataset.shape))
        self.dataset, self.shape = dataset, shape[:1] if column and shape[1:] == (1,) else shape
        chunk = min((getattr(dataset, "shards", None) or dataset.chunks or (1,))[0], shape[0])
        row = prod(shape[1:]) * dataset.dtype.itemsize
        _check_small(f"Each chunk of {name}", chunk * row)
        chunks = getattr(dataset, "nchunks", 0)  # of Zarr, which reads missing ones as zeros
        missing = chunks - getattr(dataset, "nchunks_initialized", 0)
        if missing > 0:
            raise InvalidInput(
                f"{name} lacks {missing} of its {chunks} chunks: copy it again, or write it with "
                "write_empty_chunks if they are all zeros."
            )
        self.length = chunk * -(-(2**20) // (chunk * row))
        most = int(np.clip(2**26 // (self.length * row), 1, 8))
        length = self.length
        self._band = lru_cache(most)(lambda k: np.asarray(dataset[k * length : (k + 1) * length]))
        self._lock = Lock()

    def __getitem__(self, rows: slice | AnyArray) -> AnyArray:
        """Consecutive rows, or some rows of increasing number."""
        if not isinstance(rows, slice):
            indexable = getattr(self.dataset, "oindex", self.dataset)  # of Zarr, of h5py
            return np.reshape(indexable[rows], (-1, *self.shape[1:]))
        first, last = rows.start // self.length, -(-rows.stop // self.length)
        with self._lock:  # a thread that needs the same band waits for it instead of reading it
            bands = [self._band(band) for band in range(first, last)]
        joined = bands[0] if len(bands) == 1 else np.concatenate(bands)
        start = first * self.length
        return joined[rows.start - start : rows.stop - start].reshape(-1, *self.shape[1:])


def _open_hdf5(path: Path) -> dict[str, Any]:
    """The file stays open as long as its datasets are in use."""
    h5py = package("h5py", path)
    with _reading(path, "an HDF5 file, or in use"):
        items = h5py.File(path, "r").items()
        return {k: v for k, v in items if isinstance(v, h5py.Dataset) and v.shape is not None}


def _save_hdf5(path: Path, X: AnyArray, y: AnyArray) -> None:
    """Row after row, without chunks: what slices of rows are read from fastest."""
    with package("h5py", path).File(path, "w") as file:
        file["X"], file["y"] = X, y


def _open_zarr(path: Path) -> dict[str, Any]:
    """The arrays of a group, in a folder or a zip archive."""
    zarr = package("zarr", path)
    with _reading(path, "a Zarr group"):
        store = _zarr_store(zarr, path, "r")
        arrays = dict(zarr.open_group(store, mode="r").arrays())
    if "X" in arrays:
        finalize(arrays["X"], store.close)
    return arrays


def _zarr_store(zarr: Any, path: Path, mode: str) -> Any:
    # Absolute: missing chunks read as zeros, and all are missing from another working folder.
    if path.suffix.lower() == ".zip":
        return zarr.storage.ZipStore(path.absolute(), mode=mode)
    return zarr.storage.LocalStore(path.absolute(), read_only=mode == "r")


def _save_zarr(path: Path, X: AnyArray, y: AnyArray) -> None:
    """Chunks of whole rows, 4 MB each, not compressed."""
    zarr = package("zarr", path)
    with closing(_zarr_store(zarr, path, "w")) as store:
        group = zarr.open_group(store, mode="w")
        for name, array in (("X", X), ("y", y)):
            rows = max(1, 2**22 * len(array) // max(1, array.nbytes))
            chunks = (min(rows, len(array)), *array.shape[1:])
            full = {"write_empty_chunks": True}
            group.create_array(name, data=array, chunks=chunks, compressors=None, config=full)


# ---------------------------------------------------------------- tables


def _split(
    path: Path,
    names: Sequence[str],
    columns: Sequence[AnyArray],
    outputs: int | None,
    targets: Sequence[str],
) -> tuple[AnyArray, AnyArray, tuple[str, ...]]:
    """Inputs, labels and the names of the inputs; labels are the targets, or the last columns."""
    names, count = [name.lstrip("# ") for name in names], len(columns)
    missing = [name for name in targets if name not in names]
    if missing:
        shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "") or "without names"
        raise InvalidInput(f"{path} has no column {missing[0]!r}: its columns are {shown}.")
    label, run = r"(y|labels?|targets?|out(puts?)?)[ _.(\[-]*\d+[)\]]*", 0
    while run < len(names) and re.fullmatch(label, names[-1 - run], re.IGNORECASE):
        run += 1
    if 1 < run < count and names == _own_names(count - run, run):
        outputs = run
    if outputs is None and run > 1 and not targets:
        ends = f"{path} ends in columns {names[-run]} to {names[-1]}"
        raise InvalidInput(f"{ends}: give the number of labels with --outputs (outputs=).")
    number = 1 if outputs is None else outputs
    labels = [names.index(name) for name in targets] or [*range(max(count - number, 0), count)]
    inputs = [k for k in range(count) if k not in labels]
    if not (inputs and labels):
        raise InvalidInput(
            f"{path} has {counted(count, 'column')} for inputs and "
            f"{counted(len(targets) or number, 'output')}: separate columns by commas, and correct "
            "the number of outputs."
        )
    X, y = (np.column_stack([columns[k] for k in part]) for part in (inputs, labels))
    return X, y, tuple(names[k] for k in inputs) if names else ()


def _own_names(features: int, outputs: int) -> list[str]:
    labels = [f"y{i + 1}" for i in range(outputs)] if outputs > 1 else ["y"]
    return [f"x{i + 1}" for i in range(features)] + labels


_NUMBERS = (
    "write words as numbers, or leave the column out (provenet.NetworkClassifier fits labels that "
    "are classes; to recover a network, write 0 and 1)"
)


def _open_csv(path: Path) -> tuple[list[str], AnyArray]:
    """Names, if there is a header, and columns of a table in text."""
    _check_small(path, path.stat().st_size)
    names, numbers, width = list[str](), array("d"), 0
    with (
        _reading(path, "comma-separated text"),
        open(path, encoding="utf-8-sig", newline="") as text,
    ):
        first = next((line for line in text if line.strip()), "")
        mark = (
            "\t" if path.suffix.lower() == ".tsv" else next((m for m in ";\t" if m in first), ",")
        )
        point = "," if mark == ";" else "."
        text.seek(0)
        for row in (reader := csv.reader(text, delimiter=mark)):
            if len(row) < 2 and not "".join(row).strip():
                continue
            if not (names or numbers) and _is_header(row, point):
                names = [cell.strip() for cell in row]
                continue
            place, width = f"{path}, line {reader.line_num}", width or len(row)
            if len(row) != width:
                wrong = f"has {len(row)} columns where earlier lines have {width}"
                raise InvalidInput(f"{place} {wrong}: correct it and try again.")
            try:
                numbers.extend([float(cell.replace(point, ".")) for cell in row])
            except ValueError:
                column = next(k for k, cell in enumerate(row) if not _is_number(cell, point))
                wrong = f"column {column + 1}: {row[column].strip()[:40]!r} is not a number"
                raise InvalidInput(f"{place}, {wrong}: {_NUMBERS}.") from None
    if not numbers:
        raise InvalidInput(f"{path} holds no samples: write one a line, the label last.")
    return names, np.frombuffer(numbers).reshape(-1, width).T


def _is_header(row: list[str], point: str) -> bool:
    """Whether the first line names the columns: by words, or as pandas does by 0, 1, 2..."""
    numbers = {
        str(column): cell.strip() for column, cell in enumerate(row) if _is_number(cell, point)
    }
    in_order = all(column == cell for column, cell in numbers.items())
    return any(map(str.strip, row)) and in_order and (len(numbers) < len(row) or len(row) > 2)


def _is_number(cell: str, point: str) -> bool:
    try:
        float(cell.replace(point, "."))
    except ValueError:
        return False
    return True


def _save_csv(path: Path, X: AnyArray, y: AnyArray) -> None:
    """Every digit, under a header."""
    mark, table = "\t" if path.suffix.lower() == ".tsv" else ",", np.column_stack([X, y])
    header = mark.join(_own_names(X.shape[1], table.shape[1] - X.shape[1]))
    np.savetxt(path, table, fmt="%.17g", delimiter=mark, header=header, comments="")


def _open_parquet(path: Path) -> tuple[list[str], list[AnyArray]]:
    """Names and columns, which keep their precision, of a table in Parquet."""
    parquet, types = package("pyarrow.parquet", path), package("pyarrow.types", path)
    with _reading(path, "a Parquet file"), parquet.ParquetFile(path) as file:
        # Row labels that pandas writes as a column are no samples.
        index = re.compile(r"__index_level_\d+__")
        fields = [f for f in file.schema_arrow if not index.fullmatch(f.name)]
        names, count = [field.name for field in fields], file.metadata.num_rows
        if count == 0 or not names:
            raise InvalidInput(f"{path} holds no samples: write one a row, the label last.")
        numeric = types.is_integer, types.is_floating, types.is_boolean
        wrong = [f"{f.name}: {f.type}" for f in fields if not any(is_(f.type) for is_ in numeric)]
        if wrong:
            shown = ", ".join(wrong[:4])
            raise InvalidInput(f"{path} has columns that are not numbers ({shown}): {_NUMBERS}.")
        _check_small(path, 8 * len(names) * count)
        table = file.read(columns=names)
    return names, [table[name].to_numpy() for name in names]


def _save_parquet(path: Path, X: AnyArray, y: AnyArray) -> None:
    """One column for each feature and label, each of its own precision."""
    columns = [np.ascontiguousarray(c) for c in (*X.T, *y.reshape(len(y), -1).T)]
    names = _own_names(X.shape[1], len(columns) - X.shape[1])
    table = package("pyarrow", path).table(columns, names=names)
    parquet = package("pyarrow.parquet", path)
    parquet.write_table(table, path, row_group_size=2**17, use_dictionary=False)


# ---------------------------------------------------------------- formats


@dataclass(frozen=True)
class _Format:
    """How files of one extension are read and written."""

    package: str
    open: Callable[[Path], Any]
    """Arrays by name; of a table names and columns, of `.npy` one array."""
    save: Callable[[Path, AnyArray, AnyArray], None]
    table: bool = False


_FORMATS = {
    ".npy": _Format("numpy", _open_npy, _save_npz),  # `save_samples` writes pairs itself
    ".npz": _Format("numpy", _open_npz, _save_npz),
    **dict.fromkeys((".h5", ".hdf5"), _Format("h5py", _open_hdf5, _save_hdf5)),
    **dict.fromkeys((".zarr", ".zip"), _Format("zarr", _open_zarr, _save_zarr)),
    **dict.fromkeys((".csv", ".tsv"), _Format("numpy", _open_csv, _save_csv, table=True)),
    ".parquet": _Format("pyarrow", _open_parquet, _save_parquet, table=True),
}
