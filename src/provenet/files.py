"""Files written whole or not at all, and `.npz` archives read without unpickling."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from provenet.exceptions import InvalidInput
from provenet.typing import AnyArray

_UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def check_writable(path: str | PathLike[str]) -> None:
    """Raise before any work is done if `path` could not be written later."""
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(f"{target} is a folder: give the name of a file.")
    if not target.parent.is_dir():
        raise InvalidInput(f"The folder {target.parent} does not exist: make it first.")
    if not os.access(target.parent, os.W_OK):
        raise InvalidInput(f"The folder {target.parent} cannot be written to: choose another.")


def write_atomically(path: str | PathLike[str], write: Callable[[IO[bytes]], Any]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place."""
    check_writable(path)
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's file mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_npz(path: str | PathLike[str], arrays: dict[str, Any]) -> None:
    """Write arrays to an `.npz` file, whole or not at all."""
    write_atomically(path, lambda file: np.savez(file, **arrays))


def load_npz(path: str | PathLike[str]) -> dict[str, AnyArray]:
    """All arrays of an `.npz` file; nothing is ever unpickled."""
    # numpy.load takes any other file for an array or a pickle, and leaks its handle if it fails.
    if Path(path).is_file() and not zipfile.is_zipfile(path):
        raise InvalidInput(
            f"{path} is truncated or not an .npz archive: write it again with numpy.savez."
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in archive.files}
    except FileNotFoundError:
        raise InvalidInput(f"{path} does not exist: check the name.") from None
    except _UNREADABLE as error:
        raise InvalidInput(
            f"{path} cannot be read as an .npz archive ({error}): write it again with numpy.savez."
        ) from None
