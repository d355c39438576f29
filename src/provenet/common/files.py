"""Files written whole or not at all, `.npz` archives read without unpickling, optional packages."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray


def package(name: str, path: str | PathLike[str], install: str = '"provenet[files]"') -> Any:
    """The module `name`, for the file (or whatever needs it) `path`."""
    try:
        return import_module(name)
    except ImportError:
        raise InvalidInput(
            f"{path} needs the package {name.partition('.')[0]}: pip install {install}."
        ) from None


def check_writable(path: str | PathLike[str]) -> None:
    """Raise before any work is done if `path` could not be written later."""
    target = Path(path)
    if target.is_dir() and not _is_zarr(target):
        raise InvalidInput(f"{target} is a folder: give the name of a file.")
    if not target.parent.is_dir():
        raise InvalidInput(f"The folder {target.parent} does not exist: make it first.")
    if not os.access(target.parent, os.W_OK):
        raise InvalidInput(f"The folder {target.parent} cannot be written to: choose another.")


def _is_zarr(folder: Path) -> bool:
    """Whether a folder holds samples in Zarr, which may be replaced as a file may."""
    marks = ("zarr.json", ".zgroup")
    return folder.suffix.lower() == ".zarr" and any((folder / name).is_file() for name in marks)


def write_atomically(path: str | PathLike[str], write: Callable[[IO[bytes]], Any]) -> None:
    """Let `write` fill a file beside `path`, then move it into place."""

    def make(place: Path) -> None:
        with open(place, "wb") as file:
            write(file)

    make_atomically(path, make)


def make_atomically(path: str | PathLike[str], make: Callable[[Path], Any]) -> None:
    """Let `make` write a file or a folder under the name it is given, then move it to `path`."""
    check_writable(path)
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as beside:
        made, aside = Path(beside) / target.name, Path(beside) / "replaced"
        make(made)
        if target.is_dir():  # a folder must be moved aside to be replaced
            os.rename(target, aside)
        try:
            os.replace(made, target)
        except BaseException:
            if aside.exists():
                os.rename(aside, target)
            raise


def write_npz(path: str | PathLike[str], arrays: dict[str, Any]) -> None:
    """Write arrays to an `.npz` file, whole or not at all."""
    write_atomically(path, lambda file: np.savez(file, **arrays))


def load_npz(path: str | PathLike[str]) -> dict[str, AnyArray]:
    """All arrays of an `.npz` file; nothing is ever unpickled."""
    # numpy.load takes any other file for an array or a pickle, and leaks a handle of its own.
    if Path(path).is_file() and not zipfile.is_zipfile(path):
        raise InvalidInput(
            f"{path} is truncated or not an .npz archive: write it again with numpy.savez."
        )
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in archive.files}
    except FileNotFoundError:
        raise InvalidInput(f"{path} does not exist: check the name.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise InvalidInput(
            f"{path} cannot be read as an .npz archive ({error}): write it again with numpy.savez."
        ) from None
