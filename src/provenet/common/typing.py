"""Type names and limits of floating point numbers, used across the package."""

from __future__ import annotations

from collections.abc import Callable
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
