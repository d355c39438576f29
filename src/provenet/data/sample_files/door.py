"""Samples in files, through one door, whatever their size.

- `.npy`: a pair, inputs and labels; mapped into memory.
- `.npz`: arrays X and y; mapped where they lie, or unpacked if compressed.
- `.h5`, `.hdf5`, `.zarr` and `.zip` (of a Zarr group): datasets X and y; read by slices of rows.
- `.csv`, `.tsv`, `.parquet`: tables whose last columns are the labels, or those named; read once.

Labels are (samples,) or (samples, outputs). What cannot be read by slices is held in memory if it
is small and else in a temporary file, so samples larger than memory can be used in every format.
Nothing is ever unpickled. Every file that cannot be used ends in `InvalidInput`: the file, the
problem, a way out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import make_atomically, write_atomically, write_npz
from provenet.common.optional import package
from provenet.common.typing import AnyArray
from provenet.common.words import counted
from provenet.data.sample_files.comma_separated import open_csv, save_csv
from provenet.data.sample_files.hdf5 import open_hdf5, save_hdf5
from provenet.data.sample_files.npy import open_npy, save_npy
from provenet.data.sample_files.npz import open_npz
from provenet.data.sample_files.parquet import open_parquet, save_parquet
from provenet.data.sample_files.zarr_group import open_zarr, save_zarr
from provenet.data.sources import Source
from provenet.data.sources.files import Reopen

FilePath = str | PathLike[str]

_PACKAGES = {
    ".npy": "numpy",
    ".npz": "numpy",
    ".csv": "numpy",
    ".tsv": "numpy",
    ".parquet": "pyarrow",
    ".h5": "h5py",
    ".hdf5": "h5py",
    ".zarr": "zarr",
    ".zip": "zarr",
}
"""Extensions of sample files, and what is needed to use them."""
_OPENERS: dict[str, Callable[[Path, Reopen], Source]] = {
    ".npz": open_npz,
    ".h5": open_hdf5,
    ".hdf5": open_hdf5,
    ".zarr": open_zarr,
    ".zip": open_zarr,
}
_TABLES: dict[str, Callable[[Path, int | None, Sequence[str]], Source]] = {
    ".csv": open_csv,
    ".tsv": open_csv,
    ".parquet": open_parquet,
}
_SAVERS: dict[str, Callable[[Path, AnyArray, AnyArray], None]] = {
    ".parquet": save_parquet,
    ".h5": save_hdf5,
    ".hdf5": save_hdf5,
    ".zarr": save_zarr,
    ".zip": save_zarr,
}
_KINDS = (
    "name a file in .npz, .h5, .hdf5, .zarr or .zip (arrays X and y), .npy (and a second .npy for "
    "y), .csv, .tsv or .parquet"
)


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
    targets = _targets(path, target)
    file, second = _existing(path), None if labels is None else _existing(labels)
    reopen = partial(open_samples, file.absolute(), second and second.absolute(), outputs)
    suffix = file.suffix.lower()
    if second is not None:
        source: Source = open_npy(file, second, reopen)
    elif suffix in _TABLES:
        source = _TABLES[suffix](file, outputs, targets)
    else:
        source = _OPENERS[suffix](file, reopen)
    _check_outputs(source, outputs, f"y in {path}" if suffix in _OPENERS else str(labels or path))
    return source


def _targets(path: FilePath, target: str | Sequence[str] | None) -> tuple[str, ...]:
    """Names of the label columns; only a table has names."""
    if target is None or len(target) == 0:
        return ()
    if Path(path).suffix.lower() not in _TABLES:
        raise InvalidInput(f"{path} has no columns with names: leave the target out.")
    return (target,) if isinstance(target, str) else tuple(target)


def save_samples(path: FilePath, X: Any, y: Any, labels: FilePath | None = None) -> None:
    """Write samples in any format that `open_samples` reads: whole or not at all."""
    check_pairing(path, labels)
    X, y = np.asarray(X), np.asarray(y)
    suffix = Path(path).suffix.lower()
    if labels is not None:
        save_npy(path, X, labels, y)
    elif suffix == ".npz":
        write_npz(path, {"X": X, "y": y})
    elif suffix in (".csv", ".tsv"):
        mark = "," if suffix == ".csv" else "\t"
        write_atomically(path, lambda file: save_csv(file, X, y, mark))
    else:
        make_atomically(path, lambda place: _SAVERS[suffix](place, X, y))


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
        raise InvalidInput(f"{path} has an unknown extension: {_KINDS}.")
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


def _check_outputs(source: Source, outputs: int | None, name: str) -> None:
    found = source.outputs or 1
    if outputs is not None and outputs != found:
        raise InvalidInput(
            f"{name} has {counted(found, 'output')}, not {outputs}: "
            "correct the number of outputs or leave it out."
        )
