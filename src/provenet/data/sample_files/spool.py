"""Samples that can only be read from the first to the last: into memory, or into a spool.

A spool is a temporary folder with `X.npy` and `y.npy`, written block by block and then mapped into
memory. It is removed when its source is no longer in use, or when the process ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO
from weakref import finalize

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray
from provenet.common.words import sized
from provenet.data.sample_files.checks import is_small
from provenet.data.sources import ArraySource, FileArrays

Blocks = Generator[tuple[AnyArray, AnyArray], None, None]

_removals: set[finalize[[str, int], FileArrays]] = set()


def gather(path: Path, blocks: Blocks, needed: int) -> ArraySource:
    """All blocks (X, y) of a file in memory if they are small, else in a spool.

    `needed` is the number of bytes that the samples take, or an estimate of it.
    """
    with closing(blocks):
        if is_small(needed):
            X, y = zip(*blocks, strict=True)
            return ArraySource(np.concatenate(X), np.concatenate(y))
        _check_room(path, needed)
        return _spooled(blocks)


def _check_room(path: Path, needed: int) -> None:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InvalidInput(
            f"{path} needs {sized(needed)} of temporary space and {folder} has {sized(free)}: name "
            "a folder with more in the environment variable TMPDIR."
        )


def _spooled(blocks: Blocks) -> FileArrays:
    with _told_apart():
        folder = tempfile.mkdtemp(prefix="provenet-")
    try:
        _write(Path(folder), blocks)
        source = open_spool(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _removals.add(finalize(source, _remove, folder, os.getpid()))
    return source


@contextmanager
def _told_apart() -> Iterator[None]:
    """What goes wrong with the spool is not the fault of the file that is read."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"Samples cannot be spooled in {tempfile.gettempdir()} ({error.strerror}): name "
            "another folder in the environment variable TMPDIR."
        ) from None


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked process has a copy of the source, but not the files
        shutil.rmtree(folder, ignore_errors=True)


def remove_spools() -> None:
    """Remove every spool at once: for a process that is about to end without cleaning up."""
    while _removals:
        _removals.pop()()


def open_spool(folder: str) -> FileArrays:
    """The samples of a spool, here or in another process."""
    try:
        X, y = (np.load(Path(folder, f"{name}.npy"), mmap_mode="r") for name in ("X", "y"))
    except FileNotFoundError:
        raise InvalidInput(
            f"The spooled samples in {folder} are gone or on another machine: write them to .npy, "
            "HDF5 or Zarr on a disk that all machines share."
        ) from None
    return FileArrays(X, y, partial(open_spool, folder))


def _write(folder: Path, blocks: Blocks) -> None:
    with ExitStack() as files:
        X_file, y_file = (
            _GrowingArray(files.enter_context(open(folder / f"{name}.npy", "wb"))) for name in "Xy"
        )
        for X, y in blocks:
            X_file.add(X)
            y_file.add(y)


class _GrowingArray:
    """An `.npy` file that grows by rows; numpy leaves room in the header for their number."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.rows = file, 0

    def add(self, block: AnyArray) -> None:
        """Write a block at the end and the new number of rows at the beginning."""
        self.rows += len(block)
        header = {
            "descr": np.lib.format.dtype_to_descr(block.dtype),
            "fortran_order": False,
            "shape": (self.rows, *block.shape[1:]),
        }
        with _told_apart():
            self.file.seek(0)
            np.lib.format.write_array_header_1_0(self.file, header)
            self.file.seek(0, os.SEEK_END)
            self.file.write(np.ascontiguousarray(block).data)
            self.file.flush()
