"""An HDF5 file with datasets X and y, read by slices of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provenet.common.exceptions import InvalidInput
from provenet.common.optional import package
from provenet.common.typing import AnyArray
from provenet.data.sample_files.checks import check_chunks, check_present, check_samples
from provenet.data.sources.files import FileSource, Reopen


def open_hdf5(path: Path, reopen: Reopen) -> FileSource:
    """The datasets X and y; the file stays open as long as the source is in use."""
    h5py = package("h5py", path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        reason = str(error).rstrip(".")
        raise InvalidInput(
            f"{path} is truncated, in use or not an HDF5 file ({reason}): write it again."
        ) from None
    check_present(path, _datasets(h5py, file), 'name the datasets "X" and "y"')
    X, y = file["X"], file["y"]
    check_samples(X, y, f"X in {path}", f"y in {path}")
    for dataset, name in ((X, "X"), (y, "y")):
        check_chunks(dataset, f"{name} in {path}")
    return FileSource(X, y, reopen)


def _datasets(h5py: Any, file: Any) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if _is(h5py, item) else None)
    return names


def _is(h5py: Any, item: Any) -> bool:
    return isinstance(item, h5py.Dataset) and item.shape is not None


def save_hdf5(path: Path, X: AnyArray, y: AnyArray) -> None:
    """Row after row, without chunks: what slices of rows are read from fastest."""
    with package("h5py", path).File(path, "w") as file:
        file["X"], file["y"] = X, y
