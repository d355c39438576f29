"""A table in comma-separated text, with or without a header, parsed a few thousand lines at once.

The number of rows is not known before the last: it is estimated from the file's size and the length
of lines here and there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray
from provenet.data.sample_files.columns import column_names, label_columns, split
from provenet.data.sample_files.spool import Blocks, gather
from provenet.data.sources import ArraySource
from provenet.data.tolerances import CSV_LINES_AT_ONCE, CSV_LOOK_BYTES, CSV_LOOKS


def open_csv(path: Path, outputs: int | None) -> ArraySource:
    """The samples of a table, its last columns the labels."""
    try:
        names, skip, columns = _layout(path)
        labels = label_columns(path, names, columns, outputs)
        needed = 8 * columns * _estimated_rows(path)
        return gather(path, _blocks(path, skip, columns, labels), needed)
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInput(
            f"{path} is not a text file: write it as comma-separated text."
        ) from None


def save_csv(file: IO[bytes], X: AnyArray, y: AnyArray) -> None:
    """Every digit, under a header."""
    header = ",".join(column_names(X, y))
    table = np.column_stack([X, y])
    np.savetxt(file, table, fmt="%.17g", delimiter=",", header=header, comments="")


def _layout(path: Path) -> tuple[list[str], int, int]:
    """Names of the columns if there are any, lines before the numbers, number of columns."""
    line, first = next(_rows(path), (0, []))
    skip = line if _is_header(first) else 0
    columns = next((len(row) for number, row in _rows(path) if number > skip), 0)
    if len(first) == 1:
        columns = 1
    elif columns == 0:
        raise InvalidInput(f"{path} holds no samples: write one a line, the label last.")
    return first if skip else [], skip, columns


def _estimated_rows(path: Path) -> int:
    size = path.stat().st_size
    looks = []
    with open(path, "rb") as file:
        for start in np.linspace(0, max(0, size - CSV_LOOK_BYTES), CSV_LOOKS):
            file.seek(int(start))
            looks.append(file.read(CSV_LOOK_BYTES))
    lines = sum(max(look.count(b"\n"), look.count(b"\r")) + 1 for look in looks)
    return -(-size * lines // sum(map(len, looks)))


def _blocks(path: Path, skip: int, columns: int, labels: int) -> Blocks:
    with open(path, encoding="utf-8-sig") as text:
        line = sum(1 for _ in islice(text, skip))
        while lines := list(islice(text, CSV_LINES_AT_ONCE)):
            filled = [content for content in lines if content != "\n"]
            if filled:
                yield split(_parse(path, filled, line, columns), labels)
            line += len(lines)


def _parse(path: Path, lines: list[str], before: int, columns: int) -> AnyArray:
    """The numbers in some lines, before which there are `before` others."""
    reason = "columns are missing"
    try:
        table = np.loadtxt(lines, delimiter=",", comments=None, quotechar='"', ndmin=2)
        if table.shape[1] == columns:
            return table
    except ValueError as error:
        reason = str(error)
    problem = next(_problems(path, before, columns), f"cannot be read ({reason})")
    raise InvalidInput(f"{path}, {problem}: correct it and try again.")


def _rows(path: Path, before: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Line numbers, from 1, and stripped cells of the lines after `before` that are not blank."""
    with open(path, encoding="utf-8-sig", newline="") as text:
        skipped = sum(1 for _ in islice(text, before))
        reader = csv.reader(text)
        for row in reader:
            if row:
                yield skipped + reader.line_num, [cell.strip() for cell in row]


def _is_header(cells: list[str]) -> bool:
    """Whether the first line names the columns: by words, or as pandas does by 0, 1, 2..."""
    numbers = [(column, cell) for column, cell in enumerate(cells) if _is_number(cell)]
    words = len(numbers) < len(cells)
    counted = all(cell == str(column) for column, cell in numbers)
    return any(cells) and counted and (words or len(cells) > 2)


def _problems(path: Path, before: int, columns: int) -> Iterator[str]:
    for line, row in _rows(path, before):
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
