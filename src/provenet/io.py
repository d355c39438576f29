"""Samples in files: `.npz` (arrays X and y), a pair of `.npy` files, or `.csv` (last columns y).

Labels are (samples,) or (samples, outputs). In a `.csv` file they are the last column, or as many
of the last as `outputs` says; a header `x1, x2, .., y1, y2, ..`, as `save_samples` writes it, says
so itself. The pair of `.npy` files is memory-mapped, so samples larger than memory can be used.
Nothing is ever unpickled. Every file that cannot be used ends in `InvalidInput`: the file, the
problem, a way out.
"""

from __future__ import annotations

import csv
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from provenet.exceptions import InvalidInput
from provenet.files import load_npz, write_atomically, write_npz
from provenet.typing import AnyArray

FilePath = str | PathLike[str]

_KINDS = "name a file in .npz (arrays X and y), .npy (and a second .npy for y) or .csv"
_LABEL = re.compile(r"(y|labels?|targets?|out(puts?)?)[ _.(\[-]*\d+[)\]]*", re.IGNORECASE)
"""A column that may be one label of several."""


def load_samples(
    path: FilePath, labels: FilePath | None = None, outputs: int | None = None
) -> tuple[AnyArray, AnyArray]:
    """Inputs X and labels y from a file, or from a pair of `.npy` files (`path` and `labels`).

    `outputs` is the number of label columns in a `.csv` file (1 unless its header says otherwise);
    in files of the other kinds the labels must have that many.
    """
    check_pairing(path, labels)
    file = _existing(path)
    if labels is not None:
        X, y = _load_npy(file), _load_npy(_existing(labels))
        names = str(path), str(labels)
    elif file.suffix.lower() == ".npz":
        X, y = _load_archive(file)
        names = f"X in {path}", f"y in {path}"
    else:
        X, y = _load_csv(file, outputs)
        names = str(path), str(path)
    _check_samples(X, y, *names)
    _check_outputs(y, outputs, names[1])
    return X, y


def save_samples(path: FilePath, X: Any, y: Any, labels: FilePath | None = None) -> None:
    """Write samples to `.npz` or `.csv`, or to a pair of `.npy` files: whole or not at all."""
    check_pairing(path, labels)
    X, y = np.asarray(X), np.asarray(y)
    if labels is not None:
        _save_pair(path, X, labels, y)
    elif Path(path).suffix.lower() == ".npz":
        write_npz(path, {"X": X, "y": y})
    else:
        write_atomically(path, lambda file: _write_csv(file, X, y))


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
    """Raise unless the names fit together: `.npz` or `.csv` alone, `.npy` with a second `.npy`."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".npz", ".npy", ".csv"):
        raise InvalidInput(f"{path} has an unknown extension: {_KINDS}.")
    if suffix == ".npy" and labels is None:
        raise InvalidInput(f"{path} holds only the inputs: name a second .npy file for the labels.")
    if suffix != ".npy" and labels is not None:
        raise InvalidInput(f"{path} holds the labels too: leave out {labels}.")
    if labels is not None and Path(labels).suffix.lower() != ".npy":
        raise InvalidInput(f"{labels} must be an .npy file, as {path} is.")


def _existing(path: FilePath) -> Path:
    file = Path(path)
    if file.is_dir():
        raise InvalidInput(f"{path} is a folder: give the name of a file.")
    if not file.exists():
        raise InvalidInput(f"{path} does not exist: check the name.")
    if not os.access(file, os.R_OK):
        raise InvalidInput(f"{path} cannot be read: check its permissions.")
    if file.stat().st_size == 0:
        raise InvalidInput(f"{path} is empty: write the samples again.")
    return file


def _check_samples(X: AnyArray, y: AnyArray, X_name: str, y_name: str) -> None:
    for array, name in ((X, X_name), (y, y_name)):
        if array.dtype.kind not in "biuf":
            raise InvalidInput(
                f"{name} must hold real numbers, not {array.dtype}: convert it first."
            )
    if X.ndim != 2:
        raise InvalidInput(
            f"{X_name} must have 2 dimensions (samples, features), not {X.ndim}: reshape it."
        )
    if y.ndim not in (1, 2):
        raise InvalidInput(
            f"{y_name} must have a row of labels a sample, (samples,) or (samples, outputs), "
            f"not shape {y.shape}: reshape it."
        )
    if len(X) != len(y) and y.ndim == 2 and len(X) == y.shape[1]:
        raise InvalidInput(
            f"{y_name} has shape {y.shape} for {len(X)} samples: transpose it, one sample a row."
        )
    if len(X) != len(y):
        raise InvalidInput(
            f"{X_name} has {len(X)} samples but {y_name} has {len(y)} labels: give one a sample."
        )
    if X.size == 0:
        raise InvalidInput(f"{X_name} holds no samples (shape {X.shape}): write it again.")
    if y.size == 0:
        raise InvalidInput(f"{y_name} holds no labels (shape {y.shape}): write it again.")


def _check_outputs(y: AnyArray, outputs: int | None, name: str) -> None:
    found = y.shape[1] if y.ndim == 2 else 1
    if outputs is not None and outputs != found:
        raise InvalidInput(
            f"{name} has {_counted(found, 'output')}, not {outputs}: "
            "correct the number of outputs or leave it out."
        )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _load_archive(file: Path) -> tuple[AnyArray, AnyArray]:
    if not zipfile.is_zipfile(file):
        raise InvalidInput(
            f"{file} is truncated or not an .npz archive: "
            "write it again with numpy.savez(path, X=X, y=y)."
        )
    try:
        arrays = load_npz(file)
    except (zlib.error, NotImplementedError) as error:
        raise InvalidInput(f"{file} is damaged ({error}): write it again.") from None
    missing = [name for name in ("X", "y") if name not in arrays]
    if missing:
        raise InvalidInput(
            f"{file} lacks {' and '.join(missing)} (it holds {_listed(arrays)}): "
            "write it with numpy.savez(path, X=X, y=y)."
        )
    return np.asarray(arrays["X"]), np.asarray(arrays["y"])


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)[:8]) or "nothing"


def _load_npy(file: Path) -> AnyArray:
    with open(file, "rb") as opened:
        magic = opened.read(6)
    if magic != b"\x93NUMPY":
        raise InvalidInput(f"{file} is not an .npy file: write it with numpy.save.")
    try:
        array: AnyArray = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        problem = "holds Python objects" if "object" in str(error).lower() else "is truncated"
        raise InvalidInput(
            f"{file} {problem}: write it again with numpy.save, as an array of numbers."
        ) from None
    return array


def _save_pair(path: FilePath, X: AnyArray, labels: FilePath, y: AnyArray) -> None:
    if Path(path).resolve() == Path(labels).resolve():
        raise InvalidInput(f"{path} cannot hold inputs and labels both: give two names.")

    # Nested, so that the labels take their place only once the inputs have taken theirs.
    def write_both(file: IO[bytes]) -> None:
        np.save(file, y, allow_pickle=False)
        write_atomically(path, lambda inputs: np.save(inputs, X, allow_pickle=False))

    write_atomically(labels, write_both)


def _write_csv(file: IO[bytes], X: AnyArray, y: AnyArray) -> None:
    several = y.ndim == 2 and y.shape[1] > 1
    labels = _numbered("y", y.shape[1]) if several else ["y"]
    header = ",".join([*_numbered("x", X.shape[1]), *labels])
    table = np.column_stack([X, y])
    np.savetxt(file, table, fmt="%.17g", delimiter=",", header=header, comments="")


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{i + 1}" for i in range(count)]


def _load_csv(file: Path, outputs: int | None) -> tuple[AnyArray, AnyArray]:
    table, header = _load_table(file)
    count = _label_columns(file, header, outputs)
    if not 0 < count < table.shape[1]:
        raise InvalidInput(
            f"{file} has {table.shape[1]} columns, so {_counted(count, 'output')} cannot be: "
            "correct the number of outputs."
        )
    X, y = np.ascontiguousarray(table[:, :-count]), table[:, -count:].copy()
    return X, y[:, 0] if count == 1 else y


def _label_columns(file: Path, header: list[str], outputs: int | None) -> int:
    """How many of the last columns are labels: as our own header says, or as said, or one."""
    names = [name.lstrip("# ") for name in header]
    run = _trailing_labels(names)
    if names == _numbered("x", len(names) - run) + _numbered("y", run) and 1 < run < len(names):
        return run
    if outputs is None and run > 1:
        raise InvalidInput(
            f"{file} ends in columns {names[-run]} to {names[-1]}: say with --outputs (outputs=) "
            "how many of the last columns are labels."
        )
    return 1 if outputs is None else outputs


def _trailing_labels(names: list[str]) -> int:
    """How many of the last columns have names such as y1 or target_2."""
    count = 0
    while count < len(names) and _LABEL.fullmatch(names[-1 - count]):
        count += 1
    return count


def _load_table(file: Path) -> tuple[AnyArray, list[str]]:
    """The numbers, and the names of the columns if there are any."""
    try:
        line, first = next(_csv_rows(file), (0, []))
        if len(first) == 1:
            raise InvalidInput(
                f"{file} has a single column: separate columns by commas, labels in the last."
            )
        skip = line if _is_header(first) else 0
        # loadtxt only warns about a file without data.
        if not any(number > skip for number, _ in _csv_rows(file)):
            raise InvalidInput(f"{file} holds no samples: write one a line, the label last.")
        return _parse_csv(file, skip), first if skip else []
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInput(
            f"{file} is not a text file: write it as comma-separated text."
        ) from None


def _parse_csv(file: Path, skip: int) -> AnyArray:
    try:
        with open(file, encoding="utf-8-sig") as text:
            return np.loadtxt(
                text, delimiter=",", comments=None, quotechar='"', skiprows=skip, ndmin=2
            )
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        problem = next(_csv_problems(file, skip), f"cannot be read ({error})")
        raise InvalidInput(f"{file}, {problem}: correct it and try again.") from None


def _csv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Line numbers, from 1, and stripped cells of the lines that are not blank."""
    with open(file, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text)
        for row in reader:
            if row:
                yield reader.line_num, [cell.strip() for cell in row]


def _is_header(cells: list[str]) -> bool:
    """Whether the first line names the columns: by words, or as pandas does by 0, 1, 2..."""
    numbers = [(column, cell) for column, cell in enumerate(cells) if _is_number(cell)]
    words = len(numbers) < len(cells)
    counted = all(cell == str(column) for column, cell in numbers)
    return any(cells) and counted and (words or len(cells) > 2)


def _csv_problems(file: Path, skip: int) -> Iterator[str]:
    columns = None
    for line, row in _csv_rows(file):
        if line <= skip:
            continue
        columns = columns or len(row)
        if len(row) != columns:
            yield f"line {line} has {len(row)} columns where earlier lines have {columns}"
        for column, cell in enumerate(row, start=1):
            if not _is_number(cell):
                found = f"{cell[:40]!r} is not a number" if cell else "the cell is empty"
                yield f"line {line}, column {column}: {found}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # numpy does not read Python's 1_000
