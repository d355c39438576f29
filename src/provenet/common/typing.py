"""Type names, limits of floating point numbers and blocks of rows, used across the package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
AnyArray = NDArray[Any]
Seed = int | np.random.Generator | None
Progress = Callable[[str, float, str], None]
"""Called as `progress(stage, fraction, message)`; a negative fraction means that it is unknown."""

EPS = float(np.finfo(float).eps)
"""The spacing of floating point numbers at 1. Rounding is given as a multiple of it."""
TINY = 1e-300
"""In place of zero where something is divided by it: the quotient stays finite."""


def row_blocks(n: int, rows: int = 8192) -> Iterator[slice]:
    """Slices that cover `range(n)` in blocks of at most `rows`."""
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))
