"""Tables, in text or Parquet: which columns are labels, and what cell cannot be read.

Labels are the last column, or as many of the last as `outputs` says, or those that are named as
targets; names `x1, x2, .., y1, y2, ..`, as `save_samples` writes them, say so themselves. Cells of
text are separated by tabs in `.tsv`, else by a semicolon, tab or comma, whichever the first line
has; beside semicolons a comma is a decimal point, as spreadsheets of half of Europe write it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import package
from provenet.common.typing import AnyArray
from provenet.common.words import WORDS_ARE_CLASSES, counted, sized
from provenet.data.parallel import available_memory
from provenet.data.sources import ArraySource


def is_small(needed: int) -> bool:
    """Whether so many bytes may be held in memory all the time: the recovery needs the rest."""
    return needed <= available_memory() / 4


def check_small(path: Path, needed: int) -> None:
    """Raise for a file that can only be read as a whole and leaves too little memory."""
    if not is_small(needed):
        raise InvalidInput(
            f"{path} needs {sized(needed)} of memory as a whole, and {sized(available_memory())} "
            "are available: write it as .npy, HDF5 or Zarr, which are read by parts."
        )


def plain_labels(y: AnyArray) -> AnyArray:
    """One output in a column of its own is one label a row."""
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


# ---------------------------------------------------------------- columns


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are inputs, and which labels."""

    inputs: list[int]
    labels: list[int]
    names: tuple[str, ...]
    """Of the inputs; empty if the columns have none."""

    def remedy(self, column: int) -> str:
        """What to do about a word where a number should be."""
        inputs = "write words as numbers, or leave the column out"
        return WORDS_ARE_CLASSES if column in self.labels else inputs

    def source(self, X: AnyArray, y: AnyArray) -> ArraySource:
        """The samples, with names."""
        source = ArraySource(X, plain_labels(y))
        source.feature_names = self.names
        return source


def columns_of(
    path: Path, names: Sequence[str], count: int, outputs: int | None, target: Sequence[str]
) -> Columns:
    """By the names of the labels if they are given; else they are the last of `count` columns."""
    names = [name.lstrip("# ") for name in names]
    if target and not names:
        raise InvalidInput(f"{path} has no names of columns: leave the target out, labels last.")
    for name in target:
        if name not in names:
            shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            raise InvalidInput(f"{path} has no column {name!r}: its columns are {shown}.")
    number = 0 if target else _number_of_labels(path, names, count, outputs)
    labels = [names.index(name) for name in target] or [*range(count - number, count)]
    inputs = [k for k in range(count) if k not in labels]
    if not inputs:
        raise InvalidInput(f"{path} has no column left for the inputs: name fewer targets.")
    return Columns(inputs, labels, tuple(names[k] for k in inputs) if names else ())


def _number_of_labels(path: Path, names: list[str], count: int, outputs: int | None) -> int:
    """How many of the last columns are labels: as their names say, or as given, or one."""
    if count == 1:
        raise InvalidInput(
            f"{path} has a single column: separate columns by commas, labels in the last."
        )
    label, run = r"(y|labels?|targets?|out(puts?)?)[ _.(\[-]*\d+[)\]]*", 0
    while run < len(names) and re.fullmatch(label, names[-1 - run], re.IGNORECASE):
        run += 1
    if 1 < run < len(names) and names == _numbered("x", len(names) - run) + _numbered("y", run):
        return run
    if outputs is None and run > 1:
        raise InvalidInput(
            f"{path} ends in columns {names[-run]} to {names[-1]}: say with --outputs (outputs=) "
            "how many of the last columns are labels."
        )
    outputs = 1 if outputs is None else outputs
    if not 0 < outputs < count:
        raise InvalidInput(
            f"{path} has {count} columns, so {counted(outputs, 'output')} cannot be: "
            "correct the number of outputs."
        )
    return outputs


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{i + 1}" for i in range(count)]


def _own_names(X: AnyArray, y: AnyArray) -> list[str]:
    several = y.ndim == 2 and y.shape[1] > 1
    return _numbered("x", X.shape[1]) + (_numbered("y", y.shape[1]) if several else ["y"])


# ---------------------------------------------------------------- text


def open_csv(path: Path, outputs: int | None, target: Sequence[str] = ()) -> ArraySource:
    """The samples of a table in text, with or without a header."""
    check_small(path, path.stat().st_size)
    try:
        mark = _delimiter(path)
        line, first = next(_rows(path, mark), (0, []))
        names, skip = (first, line) if _is_header(first) else ([], 0)
        width = next((len(row) for number, row in _rows(path, mark) if number > skip), 0)
        if width == 0 and len(first) != 1:
            raise InvalidInput(f"{path} holds no samples: write one a line, the label last.")
        order = columns_of(path, names, width or 1, outputs, target)
        table = _numbers(path, mark, skip, order, names)
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInput(
            f"{path} is not a text file: write it as comma-separated text."
        ) from None
    return order.source(table[:, order.inputs], table[:, order.labels])


def save_csv(file: IO[bytes], X: AnyArray, y: AnyArray, delimiter: str = ",") -> None:
    """Every digit, under a header."""
    header, table = delimiter.join(_own_names(X, y)), np.column_stack([X, y])
    np.savetxt(file, table, fmt="%.17g", delimiter=delimiter, header=header, comments="")


def _delimiter(path: Path) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    with open(path, encoding="utf-8-sig", newline="") as text:
        first = next((line for line in text if line.strip()), "")
    return next((mark for mark in ";\t" if mark in first), ",")


def _numbers(path: Path, mark: str, skip: int, order: Columns, names: list[str]) -> AnyArray:
    """The table below the header; a cell or a line that cannot be read is named."""
    with open(path, encoding="utf-8-sig") as text:
        lines = (line.replace(",", ".") if mark == ";" else line for line in text)
        try:
            return np.loadtxt(
                lines, delimiter=mark, comments=None, quotechar='"', skiprows=skip, ndmin=2
            )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            unclear = f"cannot be read ({error}): correct it and try again"
    width = len(order.inputs) + len(order.labels)
    raise InvalidInput(
        f"{path}, {next(_problems(path, mark, skip, order, names, width), unclear)}."
    )


def _problems(
    path: Path, mark: str, skip: int, order: Columns, names: list[str], width: int
) -> Iterator[str]:
    """What is wrong with the lines below the header, and what to do about it."""
    for line, row in _rows(path, mark):
        if line <= skip:
            continue
        if len(row) != width:
            wrong = f"has {len(row)} columns where earlier lines have {width}"
            yield f"line {line} {wrong}: correct it and try again"
        for column, cell in enumerate(row):
            if not _is_number(cell):
                name = f" ({names[column]})" if column < len(names) else ""
                wrong = f"{cell[:40]!r} is not a number" if cell else "the cell is empty"
                remedy = order.remedy(column) if cell else "fill it, or leave the line out"
                yield f"line {line}, column {column + 1}{name}: {wrong}: {remedy}"


def _rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers, from 1, and stripped cells of the lines that are not blank."""
    with open(path, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter)
        for row in reader:
            cells = [cell.strip() for cell in row]
            if delimiter == ";":  # a number with a decimal point; words stay as they are
                pointed = [cell.replace(",", ".") for cell in cells]
                cells = [p if _is_number(p) else c for p, c in zip(pointed, cells, strict=True)]
            if row:
                yield reader.line_num, cells


def _is_header(cells: list[str]) -> bool:
    """Whether the first line names the columns: by words, or as pandas does by 0, 1, 2..."""
    numbers = [(column, cell) for column, cell in enumerate(cells) if _is_number(cell)]
    in_order = all(cell == str(column) for column, cell in numbers)
    return any(cells) and in_order and (len(numbers) < len(cells) or len(cells) > 2)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # numpy does not read Python's 1_000


# ---------------------------------------------------------------- Parquet


def open_parquet(path: Path, outputs: int | None, target: Sequence[str] = ()) -> ArraySource:
    """The samples of a table in Parquet; columns keep their precision."""
    parquet = package("pyarrow.parquet", path)
    try:
        with parquet.ParquetFile(path) as file:
            # Row labels that pandas writes as a column are no samples.
            index = re.compile(r"__index_level_\d+__")
            fields = [f for f in file.schema_arrow if not index.fullmatch(f.name)]
            names = [field.name for field in fields]
            if file.metadata.num_rows == 0 or not names:
                raise InvalidInput(f"{path} holds no samples: write one a row, the label last.")
            order = columns_of(path, names, len(names), outputs, target)
            wrong = [k for k, field in enumerate(fields) if not _is_numeric(field.type)]
            if wrong:
                named = ", ".join(f"{fields[k].name}: {fields[k].type}" for k in wrong[:4])
                remedy = order.remedy(wrong[0])
                raise InvalidInput(f"{path} has columns that are not numbers ({named}): {remedy}.")
            check_small(path, 8 * len(names) * file.metadata.num_rows)
            table = file.read(columns=names)
    except InvalidInput:
        raise
    except (OSError, ValueError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidInput(
            f"{path} is truncated or not a Parquet file ({reason}): write it again."
        ) from None
    for name in names:
        if table[name].null_count:
            row = int(np.argmax(table[name].is_null().to_numpy()))
            raise InvalidInput(
                f"{path}, row {row} (from 0), column {name}: the cell is empty: "
                "correct it and try again."
            )
    columns = [table[name].to_numpy() for name in names]
    X, y = (np.column_stack([columns[k] for k in part]) for part in (order.inputs, order.labels))
    return order.source(X, y)


def _is_numeric(arrow: Any) -> bool:
    try:
        return np.dtype(arrow.to_pandas_dtype()).kind in "biuf"
    except (TypeError, NotImplementedError):
        return False


def save_parquet(path: Path, X: AnyArray, y: AnyArray) -> None:
    """One column a feature and a label, each of its own precision."""
    arrow, parquet = package("pyarrow", path), package("pyarrow.parquet", path)
    columns = [*X.T, *y.reshape(len(y), -1).T]
    table = arrow.table([np.ascontiguousarray(c) for c in columns], names=_own_names(X, y))
    parquet.write_table(table, path, row_group_size=2**17, use_dictionary=False)
