"""Tables: which of the columns are labels.

They are the last column, or as many of the last as `outputs` says, or those that are named as
targets; names `x1, x2, .., y1, y2, ..`, as `save_samples` writes them, say so themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray
from provenet.common.words import WORDS_ARE_CLASSES, counted
from provenet.data.sample_files.checks import plain_labels
from provenet.data.tolerances import MOST_NAMES

_LABEL = re.compile(r"(y|labels?|targets?|out(puts?)?)[ _.(\[-]*\d+[)\]]*", re.IGNORECASE)
"""A column that may be one label of several."""


def column_names(X: AnyArray, y: AnyArray) -> list[str]:
    """`x1, x2, ..` and `y`, or `y1, y2, ..`."""
    several = y.ndim == 2 and y.shape[1] > 1
    return _numbered("x", X.shape[1]) + (_numbered("y", y.shape[1]) if several else ["y"])


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{i + 1}" for i in range(count)]


def label_columns(path: Path, names: list[str], columns: int, outputs: int | None) -> int:
    """How many of the last columns are labels; `names` is empty if they have none."""
    if columns == 1:
        raise InvalidInput(
            f"{path} has a single column: separate columns by commas, labels in the last."
        )
    count = _as_named_or_said(path, [name.lstrip("# ") for name in names], outputs)
    if not 0 < count < columns:
        raise InvalidInput(
            f"{path} has {columns} columns, so {counted(count, 'output')} cannot be: "
            "correct the number of outputs."
        )
    return count


def _as_named_or_said(path: Path, names: list[str], outputs: int | None) -> int:
    """As our own names say, or as said, or one."""
    run = _trailing_labels(names)
    if names == _numbered("x", len(names) - run) + _numbered("y", run) and 1 < run < len(names):
        return run
    if outputs is None and run > 1:
        raise InvalidInput(
            f"{path} ends in columns {names[-run]} to {names[-1]}: say with --outputs (outputs=) "
            "how many of the last columns are labels."
        )
    return 1 if outputs is None else outputs


def _trailing_labels(names: list[str]) -> int:
    """How many of the last columns have names such as y1 or target_2."""
    count = 0
    while count < len(names) and _LABEL.fullmatch(names[-1 - count]):
        count += 1
    return count


@dataclass(frozen=True)
class ColumnOrder:
    """Which columns of a table are inputs, and which labels."""

    inputs: list[int]
    labels: list[int]
    input_names: tuple[str, ...]
    """Empty if the columns have none."""

    def split(self, table: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Inputs and labels of a table."""
        return table[:, self.inputs], plain_labels(table[:, self.labels])

    def remedy(self, column: int) -> str:
        """What to do about a word where a number should be."""
        inputs = "write words as numbers, or leave the column out"
        return WORDS_ARE_CLASSES if column in self.labels else inputs


def order_of_columns(
    path: Path, names: Sequence[str], columns: int, outputs: int | None, target: Sequence[str]
) -> ColumnOrder:
    """By the names of the labels if they are given; else they are the last columns."""
    known = [name.lstrip("# ") for name in names]
    if target:
        labels = [_place_of(path, known, name) for name in target]
    else:
        count = label_columns(path, list(names), columns, outputs)
        labels = list(range(columns - count, columns))
    inputs = [k for k in range(columns) if k not in labels]
    if not inputs:
        raise InvalidInput(f"{path} has no column left for the inputs: name fewer targets.")
    return ColumnOrder(inputs, labels, tuple(known[k] for k in inputs) if known else ())


def _place_of(path: Path, names: list[str], target: str) -> int:
    if not names:
        raise InvalidInput(f"{path} has no names of columns: leave the target out, labels last.")
    if target not in names:
        shown = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
        raise InvalidInput(f"{path} has no column {target!r}: its columns are {shown}.")
    return names.index(target)
