"""A pair of `.npy` files, one of inputs and one of labels, mapped into memory."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import IO

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import write_atomically
from provenet.common.typing import AnyArray
from provenet.data.sample_files.checks import check_samples, plain_labels
from provenet.data.sources.files import FileArrays, Reopen


def open_npy(path: Path, labels: Path, reopen: Reopen) -> FileArrays:
    """The inputs in `path` with the labels in `labels`."""
    X, y = _mapped(path), _mapped(labels)
    check_samples(X, y, str(path), str(labels))
    return FileArrays(X, plain_labels(y), reopen)


def _mapped(path: Path) -> AnyArray:
    with open(path, "rb") as opened:
        magic = opened.read(6)
    if magic != b"\x93NUMPY":
        raise InvalidInput(f"{path} is not an .npy file: write it with numpy.save.")
    try:
        array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        problem = "holds Python objects" if "object" in str(error).lower() else "is truncated"
        raise InvalidInput(
            f"{path} {problem}: write it again with numpy.save, as an array of numbers."
        ) from None
    return array


def save_npy(
    path: str | PathLike[str], X: AnyArray, labels: str | PathLike[str], y: AnyArray
) -> None:
    """Both files or neither."""
    if Path(path).resolve() == Path(labels).resolve():
        raise InvalidInput(f"{path} cannot hold inputs and labels both: give two names.")

    # Nested, so that the labels take their place only once the inputs have taken theirs.
    def write_both(file: IO[bytes]) -> None:
        np.save(file, y, allow_pickle=False)
        write_atomically(path, lambda inputs: np.save(inputs, X, allow_pickle=False))

    write_atomically(labels, write_both)
