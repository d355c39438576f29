"""What the figures of BJW19 share: medians with quartiles, and shares with Wilson's intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from figures import Row, column, share_with_error
from provenet.common.typing import Array

COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple")
QUARTILES = {"low": 0.25, "median": 0.5, "high": 0.75}


def quartiles(values: Sequence[float | None]) -> Row:
    """Median and quartiles of trials; one without a value counts as infinite, which is None."""
    ordered = np.sort([np.inf if value is None else value for value in values])
    at = {name: ordered[round(q * (len(ordered) - 1))] for name, q in QUARTILES.items()}
    seen = {name: float(x) if np.isfinite(x) else None for name, x in at.items()}
    return {**seen, "found": int(np.isfinite(ordered).sum()), "of": len(ordered)}


def draw_medians(axes: Any, x: Array, rows: Sequence[Row], style: str, **look: Any) -> Array:
    """Medians with their quartiles; a quartile that was not reached is drawn at the median."""
    median = column(rows, "median")
    low, high = (
        np.where(np.isnan(column(rows, end)), median, column(rows, end)) for end in ("low", "high")
    )
    axes.errorbar(x, median, [median - low, high - median], fmt=style, ms=5, lw=1, **look)
    return median


def draw_shares(axes: Any, x: Array, rows: Sequence[Row], style: str, **look: Any) -> None:
    """Shares of trials with Wilson's intervals of 95%."""
    share = np.array([share_with_error(row["hits"], row["of"]) for row in rows])
    axes.errorbar(x, share[:, 0], share[:, 1:].T, fmt=style, ms=5, lw=1, **look)
