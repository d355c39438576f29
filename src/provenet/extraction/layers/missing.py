"""Where a unit that is missing switches: two questions a piece of a line tell.

Rows that are fewer than the dimensions leave directions along which none of them changes. A slope
of f along such a direction is that of a unit which is not among them. Where it comes or goes, that
unit switches: only there gradients are worth their questions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.cells import CleanCell
from provenet.extraction.layers.known import Frame, KnownLayers, OutsideTheBox
from provenet.extraction.layers.lines import Line
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.tolerances import (
    DEPENDENT,
    OPEN_A_LINE,
    PERPENDICULAR_STEP,
    ROWS_MATTER,
    SLOPE_ROUNDINGS,
    STANDS_OUT,
)
from provenet.extraction.tolerances import EPS, TINIEST


def missing_at(
    frame: Frame, known: KnownLayers, rows: Sequence[Row], line: Line, rng: np.random.Generator
) -> AnyArray | None:
    """Kinks where a slope perpendicular to all rows comes or goes; None if these span everything.

    Above known layers, only for a line that stays in one cell.
    """
    V = _perpendicular(known, rows, line, rng)
    if V is None:
        return None
    t, distance = line.places()
    U = line.at(t)
    if known.layers:
        distance = np.minimum(distance, known.state(U).room)
    steps = PERPENDICULAR_STEP * distance[:, None] * V
    try:
        Y = frame.beside(np.vstack([U + steps, U - steps])).reshape(2, len(U), -1)
    except OutsideTheBox:
        return None
    length = 2 * np.linalg.norm(steps, axis=1) + TINIEST  # none where weights are not known
    slope = (Y[0] - Y[1]) / length[:, None]
    rounding = SLOPE_ROUNDINGS * EPS * (np.abs(Y).max(axis=(0, 2)) + np.linalg.norm(U, axis=1))
    error = rounding / length + STANDS_OUT + ROWS_MATTER * max(row.error for row in rows)
    on = np.abs(slope).max(axis=1) > error
    changes = np.abs(np.diff(slope, axis=0)).max(axis=1) > error[1:] + error[:-1]
    turned = changes & (on[1:] != on[:-1])
    # A unit that is missing and on all along changes its slope at every kink above it.
    few = np.flatnonzero(changes)[:OPEN_A_LINE]
    return np.flatnonzero(turned) if turned.any() or not known.layers else few


def _perpendicular(
    known: KnownLayers, rows: Sequence[Row], line: Line, rng: np.random.Generator
) -> Array | None:
    """A direction along which no row changes."""
    if not known.layers:
        R = np.array([row.v[:-1] for row in rows])
        return _across(R, known.coordinates, rng)
    middle = line.at((line.low + line.high) / 2)
    cell = None if len(line.switches) else CleanCell.of(known, middle)
    if cell is None:
        return None
    whole = [row.v[:-1] for row in rows if (row.cols >= cell.on).all()]
    R = np.array(whole) @ cell.J @ cell.V.T if whole else np.empty((0, len(cell.V)))
    v = _across(R, len(cell.V), rng)
    return None if v is None else np.asarray(v @ cell.V)


def _across(R: Array, rank: int, rng: np.random.Generator) -> Array | None:
    """A random direction at right angles to some rows; None of no row, and of too many."""
    if not 0 < len(R) < rank:
        return None
    v = rng.standard_normal(rank)
    v -= np.linalg.pinv(R, rcond=DEPENDENT) @ (R @ v)
    return np.asarray(v / np.linalg.norm(v))
