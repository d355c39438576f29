"""What the best function with a single kink leaves of values along a line.

Two straight lines that meet between two neighbouring places, or at one of them: least squares for
every such choice, and the best of all. Two kinks close to each other leave more, wherever each is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.common.typing import Array

_FEWEST = 2
"""Places that tell a line. Derived."""


def left_by_one_kink(places: Array, values: Array) -> float:
    """The largest error of the best function with one kink, or with none."""
    order = np.argsort(places)
    t, y = places[order] - places.mean(), values[order]
    return min((float(np.abs(left).max()) for left in _left(t, y)), default=0.0)


def _left(t: Array, y: Array) -> Iterator[Array]:
    for place in t:
        yield _residual(np.column_stack([np.ones_like(t), t, np.maximum(t - place, 0.0)]), y)
    for k in range(_FEWEST, len(t) - _FEWEST + 1):
        sides = slice(None, k), slice(k, None)
        lines = [np.polyfit(t[side], y[side], 1) for side in sides]
        slope, height = lines[1] - lines[0]
        if slope != 0 and t[k - 1] <= -height / slope <= t[k]:
            yield y - np.where(np.arange(len(t)) < k, *(np.polyval(line, t) for line in lines))


def _residual(columns: Array, y: Array) -> Array:
    return np.asarray(y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0])
