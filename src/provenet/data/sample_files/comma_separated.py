"""A table in text, with or without a header, parsed a few thousand lines at once.

Cells are parted by commas, semicolons or tabs: by tabs in `.tsv`, else by what the first line has.
Beside semicolons a comma is a decimal point, as spreadsheets of half of Europe write it.

The number of rows is not known before the last: it is estimated from the file's size and the length
of lines here and there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray
from provenet.data.sample_files.columns import ColumnOrder, column_names, order_of_columns
from provenet.data.sample_files.spool import Blocks, gather
from provenet.data.sources import ArraySource
from provenet.data.tolerances import CSV_LINES_AT_ONCE, CSV_LOOK_BYTES, CSV_LOOKS


@dataclass(frozen=True)
class _Layout:
    """How a table is written."""

    path: Path
    delimiter: str
    names: list[str]
    """Of the columns; empty if they have none."""
    skip: int
    """Lines before the numbers."""
    columns: int


def open_csv(path: Path, outputs: int | None, target: Sequence[str] = ()) -> ArraySource:
    """The samples of a table; its labels are the last columns, or those named in `target`."""
    try:
        layout = _layout(path)
        order = order_of_columns(path, layout.names, layout.columns, outputs, target)
        needed = 8 * layout.columns * _estimated_rows(path)
        source = gather(path, _blocks(layout, order), needed)
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInput(
            f"{path} is not a text file: write it as comma-separated text."
        ) from None
    source.feature_names = order.input_names
    return source


def save_csv(file: IO[bytes], X: AnyArray, y: AnyArray, delimiter: str = ",") -> None:
    """Every digit, under a header."""
    header = delimiter.join(column_names(X, y))
    table = np.column_stack([X, y])
    np.savetxt(file, table, fmt="%.17g", delimiter=delimiter, header=header, comments="")


def _layout(path: Path) -> _Layout:
    """How the cells are parted, and what the first line is."""
    delimiter = _delimiter(path)
    line, first = next(_rows(path, delimiter), (0, []))
    skip = line if _is_header(first) else 0
    columns = next((len(row) for number, row in _rows(path, delimiter) if number > skip), 0)
    if len(first) == 1:
        columns = 1
    elif columns == 0:
        raise InvalidInput(f"{path} holds no samples: write one a line, the label last.")
    return _Layout(path, delimiter, first if skip else [], skip, columns)


def _delimiter(path: Path) -> str:
    """A tab in a `.tsv`; else a semicolon or a tab if the first line has one; else a comma."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    with open(path, encoding="utf-8-sig", newline="") as text:
        first = next((line for line in text if line.strip()), "")
    return next((mark for mark in ";\t" if mark in first), ",")


def _estimated_rows(path: Path) -> int:
    size = path.stat().st_size
    looks = []
    with open(path, "rb") as file:
        for start in np.linspace(0, max(0, size - CSV_LOOK_BYTES), CSV_LOOKS):
            file.seek(int(start))
            looks.append(file.read(CSV_LOOK_BYTES))
    lines = sum(max(look.count(b"\n"), look.count(b"\r")) + 1 for look in looks)
    return -(-size * lines // sum(map(len, looks)))


def _blocks(layout: _Layout, order: ColumnOrder) -> Blocks:
    with open(layout.path, encoding="utf-8-sig") as text:
        line = sum(1 for _ in islice(text, layout.skip))
        while lines := list(islice(text, CSV_LINES_AT_ONCE)):
            filled = [content for content in lines if content != "\n"]
            if filled:
                yield order.split(_parse(layout, order, filled, line))
            line += len(lines)


def _parse(layout: _Layout, order: ColumnOrder, lines: list[str], before: int) -> AnyArray:
    """The numbers in some lines, before which there are `before` others."""
    reason, mark = "columns are missing", layout.delimiter
    plain = [line.replace(",", ".") for line in lines] if mark == ";" else lines
    try:
        table = np.loadtxt(plain, delimiter=mark, comments=None, quotechar='"', ndmin=2)
        if table.shape[1] == layout.columns:
            return table
    except ValueError as error:
        reason = str(error)
    unclear = f"cannot be read ({reason}): correct it and try again"
    raise InvalidInput(f"{layout.path}, {next(_problems(layout, order, before), unclear)}.")


def _rows(path: Path, delimiter: str, before: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Line numbers, from 1, and stripped cells of the lines after `before` that are not blank."""
    with open(path, encoding="utf-8-sig", newline="") as text:
        skipped = sum(1 for _ in islice(text, before))
        reader = csv.reader(text, delimiter=delimiter)
        for row in reader:
            if row:
                cells = [cell.strip() for cell in row]
                if delimiter == ";":
                    cells = [_with_point(cell) for cell in cells]
                yield skipped + reader.line_num, cells


def _with_point(cell: str) -> str:
    """A number with a decimal point; words stay as they are."""
    other = cell.replace(",", ".")
    return other if _is_number(other) else cell


def _is_header(cells: list[str]) -> bool:
    """Whether the first line names the columns: by words, or as pandas does by 0, 1, 2..."""
    numbers = [(column, cell) for column, cell in enumerate(cells) if _is_number(cell)]
    words = len(numbers) < len(cells)
    counted = all(cell == str(column) for column, cell in numbers)
    return any(cells) and counted and (words or len(cells) > 2)


def _problems(layout: _Layout, order: ColumnOrder, before: int) -> Iterator[str]:
    """What is wrong with the lines after `before`, and what to do about it."""
    for line, row in _rows(layout.path, layout.delimiter, before):
        if len(row) != layout.columns:
            wrong = f"has {len(row)} columns where earlier lines have {layout.columns}"
            yield f"line {line} {wrong}: correct it and try again"
        for column, cell in enumerate(row):
            if not _is_number(cell):
                name = f" ({layout.names[column]})" if column < len(layout.names) else ""
                wrong = f"{cell[:40]!r} is not a number" if cell else "the cell is empty"
                remedy = order.remedy(column) if cell else "fill it, or leave the line out"
                yield f"line {line}, column {column + 1}{name}: {wrong}: {remedy}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # numpy does not read Python's 1_000
