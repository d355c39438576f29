"""Type names used across the package."""

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
