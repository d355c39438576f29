"""A Zarr group with arrays X and y, in a folder or a zip archive, read by slices of rows."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any
from weakref import finalize

from provenet.common.exceptions import InvalidInput
from provenet.common.optional import package
from provenet.common.typing import AnyArray
from provenet.data.sample_files.checks import check_chunks, check_present, check_samples
from provenet.data.sources.files import FileSource, Reopen
from provenet.data.tolerances import ZARR_CHUNK_BYTES


def open_zarr(path: Path, reopen: Reopen) -> FileSource:
    """The arrays X and y of a group."""
    zarr = package("zarr", path)
    try:
        store = _store(zarr, path, "r")
        group = zarr.open_group(store, mode="r")
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        reason = str(error).rstrip(".")
        raise InvalidInput(
            f"{path} is truncated or not a Zarr group ({reason}): write it again."
        ) from None
    check_present(path, group.array_keys(), 'name the arrays "X" and "y"')
    X, y = group["X"], group["y"]
    check_samples(X, y, f"X in {path}", f"y in {path}")
    for array, name in ((X, "X"), (y, "y")):
        check_chunks(array, f"{name} in {path}")
        _check_whole(array, f"{name} in {path}")
    source = FileSource(X, y, reopen)
    finalize(source, store.close)
    return source


def _store(zarr: Any, path: Path, mode: str) -> Any:
    if path.suffix.lower() == ".zip":
        return zarr.storage.ZipStore(path, mode=mode)
    return zarr.storage.LocalStore(path, read_only=mode == "r")


def _check_whole(array: Any, name: str) -> None:
    """Raise if chunks are missing: they would be read as zeros."""
    missing = array.nchunks - array.nchunks_initialized
    if missing > 0:
        raise InvalidInput(
            f"{name} lacks {missing} of its {array.nchunks} chunks: copy it again, or write it "
            "with write_empty_chunks if they are all zeros."
        )


def save_zarr(path: Path, X: AnyArray, y: AnyArray) -> None:
    """Chunks of whole rows, not compressed: samples are noise."""
    zarr = package("zarr", path)
    store = _store(zarr, path, "w")
    try:
        group = zarr.open_group(store, mode="w")
        for name, array in (("X", X), ("y", y)):
            rows = max(1, ZARR_CHUNK_BYTES * len(array) // max(1, array.nbytes))
            group.create_array(
                name,
                data=array,
                chunks=(min(rows, len(array)), *array.shape[1:]),
                compressors=None,
                config={"write_empty_chunks": True},
            )
    finally:
        store.close()
