"""A table in Parquet, read once in batches of rows; columns keep their precision."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.optional import package
from provenet.common.typing import AnyArray
from provenet.data.sample_files.checks import plain_labels
from provenet.data.sample_files.columns import ColumnOrder, column_names, order_of_columns
from provenet.data.sample_files.spool import Blocks, gather
from provenet.data.sources import ArraySource
from provenet.data.tolerances import PARQUET_BUFFER_BYTES, PARQUET_GROUP_ROWS, PARQUET_ROWS_AT_ONCE

_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls row labels that it writes as a column: they are no samples."""


def open_parquet(path: Path, outputs: int | None, target: Sequence[str] = ()) -> ArraySource:
    """The samples of a table; its labels are the last columns, or those named in `target`."""
    parquet = package("pyarrow.parquet", path)
    try:
        # Whole row groups are read ahead otherwise, and a file may be a single one.
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=PARQUET_BUFFER_BYTES) as table:
            return _gathered(path, table, outputs, target)
    except InvalidInput:
        raise
    except (OSError, ValueError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidInput(
            f"{path} is truncated or not a Parquet file ({reason}): write it again."
        ) from None


def _gathered(path: Path, table: Any, outputs: int | None, target: Sequence[str]) -> ArraySource:
    fields = [field for field in table.schema_arrow if not _INDEX.fullmatch(field.name)]
    names = [field.name for field in fields]
    if table.metadata.num_rows == 0 or not names:
        raise InvalidInput(f"{path} holds no samples: write one a row, the label last.")
    order = order_of_columns(path, names, len(names), outputs, target)
    types = _types(path, fields, order)
    parts = order.inputs, order.labels
    kinds = tuple(np.result_type(*(types[k] for k in part)) for part in parts)
    row = sum(len(part) * kind.itemsize for part, kind in zip(parts, kinds, strict=True))
    blocks = _blocks(path, table, names, order, kinds)
    source = gather(path, blocks, row * table.metadata.num_rows)
    source.feature_names = order.input_names
    return source


def _types(path: Path, fields: list[Any], order: ColumnOrder) -> list[np.dtype[Any]]:
    types = [_numeric_type(field.type) for field in fields]
    wrong = [k for k, found in enumerate(types) if found is None]
    if wrong:
        named = ", ".join(f"{fields[k].name}: {fields[k].type}" for k in wrong[:4])
        raise InvalidInput(
            f"{path} has columns that are not numbers ({named}): {order.remedy(wrong[0])}."
        )
    return [found for found in types if found is not None]


def _numeric_type(arrow: Any) -> np.dtype[Any] | None:
    try:
        found = np.dtype(arrow.to_pandas_dtype())
    except (TypeError, NotImplementedError):
        return None
    return found if found.kind in "biuf" else None


def _blocks(
    path: Path, table: Any, names: list[str], order: ColumnOrder, kinds: tuple[np.dtype[Any], ...]
) -> Blocks:
    first = 0
    for batch in table.iter_batches(PARQUET_ROWS_AT_ONCE, columns=names):
        columns = [_numbers(path, batch.column(name), name, first) for name in names]
        X, y = ([columns[k] for k in part] for part in (order.inputs, order.labels))
        yield _stacked(X, kinds[0]), plain_labels(_stacked(y, kinds[1]))
        first += batch.num_rows


def _numbers(path: Path, column: Any, name: str, first: int) -> AnyArray:
    if column.null_count:
        row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidInput(
            f"{path}, row {row} (from 0), column {name}: the cell is empty: "
            "correct it and try again."
        )
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _stacked(columns: list[AnyArray], kind: np.dtype[Any]) -> AnyArray:
    stacked = np.empty((len(columns[0]), len(columns)), kind)
    for i, column in enumerate(columns):
        stacked[:, i] = column
    return stacked


def save_parquet(path: Path, X: AnyArray, y: AnyArray) -> None:
    """One column a feature and a label, each of its own precision."""
    arrow, parquet = package("pyarrow", path), package("pyarrow.parquet", path)
    columns = [*X.T, *y.reshape(len(y), -1).T]
    table = arrow.table([np.ascontiguousarray(c) for c in columns], names=column_names(X, y))
    parquet.write_table(table, path, row_group_size=PARQUET_GROUP_ROWS, use_dictionary=False)
