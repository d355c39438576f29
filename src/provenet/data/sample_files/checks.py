"""What holds for samples in any format: real numbers, one label a sample, memory enough."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from os import PathLike
from typing import Any, Protocol

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray
from provenet.common.words import sized
from provenet.data.parallel import memory_at_hand
from provenet.data.sources.files import Dataset, bytes_a_row, rows_a_chunk

_SHARE = 4
"""What is held in memory may take this part of what is at hand: the recovery needs the rest."""


class Shaped(Protocol):
    """An array, or what is known of it before it is read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of its dimensions."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its numbers."""


def check_samples(X: Shaped, y: Shaped, X_name: str, y_name: str) -> None:
    """Raise unless X is (samples, features) and y is (samples,) or (samples, outputs)."""
    for array, name in ((X, X_name), (y, y_name)):
        if array.dtype.kind not in "biuf":
            raise InvalidInput(
                f"{name} must hold real numbers, not {array.dtype}: convert it first."
            )
    if len(X.shape) != 2:
        raise InvalidInput(
            f"{X_name} must have 2 dimensions (samples, features), not {len(X.shape)}: reshape it."
        )
    if len(y.shape) not in (1, 2):
        raise InvalidInput(
            f"{y_name} must have a row of labels a sample, (samples,) or (samples, outputs), "
            f"not shape {y.shape}: reshape it."
        )
    _check_lengths(X.shape, y.shape, X_name, y_name)
    if prod(X.shape) == 0:
        raise InvalidInput(f"{X_name} holds no samples (shape {X.shape}): write it again.")
    if prod(y.shape) == 0:
        raise InvalidInput(f"{y_name} holds no labels (shape {y.shape}): write it again.")


def _check_lengths(X: tuple[int, ...], y: tuple[int, ...], X_name: str, y_name: str) -> None:
    if X[0] != y[0] and len(y) == 2 and X[0] == y[1]:
        raise InvalidInput(
            f"{y_name} has shape {y} for {X[0]} samples: transpose it, one sample a row."
        )
    if X[0] != y[0]:
        raise InvalidInput(
            f"{X_name} has {X[0]} samples but {y_name} has {y[0]} labels: give one a sample."
        )


def check_present(path: str | PathLike[str], names: Iterable[str], way_out: str) -> None:
    """Raise unless the arrays X and y are among `names`."""
    there = sorted(names)
    missing = [name for name in ("X", "y") if name not in there]
    if missing:
        listed = ", ".join(there[:8]) or "nothing"
        raise InvalidInput(f"{path} lacks {' and '.join(missing)} (it holds {listed}): {way_out}.")


def check_chunks(dataset: Dataset, name: str) -> None:
    """Raise if a single chunk, which must be read as a whole, is too large for memory."""
    rows = rows_a_chunk(dataset)
    if not is_small(rows * bytes_a_row(dataset)):
        raise InvalidInput(
            f"{name} is in chunks of {rows:,} rows, {sized(rows * bytes_a_row(dataset))} each, and "
            f"{sized(memory_at_hand())} of memory are at hand: write it in smaller chunks."
        )


def is_small(needed: int) -> bool:
    """Whether so many bytes may be held in memory all the time."""
    return needed <= memory_at_hand() / _SHARE


def plain_labels(y: AnyArray) -> AnyArray:
    """One output in a column of its own is one label a row."""
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
