"""Many questions, made and asked a block at a time: of many features few points fit in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from provenet.common.typing import Array, row_blocks
from provenet.extraction.tolerances import NUMBERS_AT_ONCE

Ask = Callable[[Array], Array]
"""Values of the function at the rows of an array; vectors where it has several outputs."""


def most_rows(wanted: int, features: int) -> int:
    """As many points as are wanted, or as `NUMBERS_AT_ONCE` hold; one at least."""
    return max(1, min(wanted, NUMBERS_AT_ONCE // features))


def ask_in_blocks(ask: Ask, number: int, features: int, make: Callable[[slice], Array]) -> Array:
    """Answers to so many points, of which `make` makes those of a slice."""
    blocks = row_blocks(number, most_rows(max(number, 1), features))
    return np.concatenate([ask(make(block)) for block in blocks])


def ask_gradients(ask: Ask, X: Array, axes: Array, along: Array | None = None) -> Array:
    """Answers at every point, then a step along every axis from it, then one more step, if any.

    `axes` are the steps' sizes and `along` the further steps, both (n, features). Gives
    (n, features + 1 or 2, outputs).
    """
    n, d = X.shape
    each = d + 1 if along is None else d + 2

    def points(block: slice) -> Array:
        pieces, which = np.divmod(np.arange(block.start, block.stop), each)
        made = X[pieces]
        stepped = np.flatnonzero((which > 0) & (which <= d))
        axis = which[stepped] - 1
        made[stepped, axis] += axes[pieces[stepped], axis]
        if along is not None:
            last = which == d + 1
            made[last] += along[pieces[last]]
        return made

    return ask_in_blocks(ask, n * each, d, points).reshape(n, each, -1)
