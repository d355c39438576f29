"""Where a unit of a layer is missing: directions along which nothing may change.

If the rows are all units of a layer, f depends on u through those that are on alone. Along a
direction in which none of these changes, f is constant, whatever lies above: two questions at a
point ask for that, and a difference shows a unit that is missing and on there. Nothing is asked
where as many units are on as there are dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import Frame, KnownLayers
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.tolerances import (
    NOT_SILENT,
    RANK,
    SILENT_ROUNDINGS,
    SILENT_STEP,
)
from provenet.extraction.tolerances import EPS, TINIEST


@dataclass(frozen=True)
class Silence:
    """Points that could be asked, and whether f was constant there as it must be."""

    U: Array
    silent: AnyArray


def asked_for_silence(
    frame: Frame,
    known: KnownLayers,
    rows: Sequence[Row],
    signs: Array,
    U: Array,
    rng: np.random.Generator,
) -> Silence:
    """Whether rows with these signs are all that f depends on, at points."""
    ways = _ways(frame, known, rows, signs, U, rng)
    asked = (ways != 0).any(axis=1)
    if not frame.box.unlimited:
        asked &= frame.box.contains(frame.inputs(U + ways))
        asked &= frame.box.contains(frame.inputs(U - ways))
    U, ways = U[asked], ways[asked]
    if len(U) == 0:
        return Silence(U, np.ones(0, dtype=bool))
    Y = frame.beside(np.vstack([U + ways, U - ways])).reshape(2, len(U), -1)
    size = np.abs(Y).max(axis=(0, 2))
    steep = float(np.median(size)) / (1 + float(np.median(np.linalg.norm(U, axis=1))))
    slope = steep * (NOT_SILENT + 100 * max(row.error for row in rows))
    allowed = SILENT_ROUNDINGS * EPS * (size + np.median(size))
    allowed += slope * np.linalg.norm(ways, axis=1)
    return Silence(U, np.abs(Y[0] - Y[1]).max(axis=1) <= allowed)


def _ways(
    frame: Frame,
    known: KnownLayers,
    rows: Sequence[Row],
    signs: Array,
    U: Array,
    rng: np.random.Generator,
) -> Array:
    """At each point a step along which no unit that is on changes and none switches; 0 if none."""
    R = np.array([row.v / np.linalg.norm(row.v[:-1]) for row in rows])
    state = known.state(U)
    Z, slopes = state.h @ R[:, :-1].T + R[:, -1], R[:, :-1] @ state.J
    own = (np.abs(Z) / (np.linalg.norm(slopes, axis=2) + TINIEST)).min(axis=1)
    room = np.minimum(state.room, np.maximum(frame.room(U), 0.0))
    steps = SILENT_STEP * np.minimum(1.0, np.minimum(own, room))
    told = np.all([row.knows(state.h) for row in rows], axis=0) & (steps > 0)
    ways, on = np.zeros_like(U), signs * Z > 0
    for i in np.flatnonzero(told):
        V = _row_space(state.J[i]) if known.layers else state.J[i]
        ways[i] = steps[i] * _way(V, slopes[i][on[i]], rng)
    return ways


def _row_space(J: Array) -> Array:
    _, size, V = np.linalg.svd(J, full_matrices=False)
    return np.asarray(V[size > RANK * size.max(initial=0.0)])


def _way(V: Array, slopes: Array, rng: np.random.Generator) -> Array:
    """A direction of length 1 in the span of V along which rows do not change; 0 if none is."""
    if len(V) <= len(slopes):
        return np.zeros(V.shape[1])
    way = rng.standard_normal(len(V)) @ V
    if len(slopes):
        way = way - np.linalg.pinv(slopes, rcond=RANK) @ (slopes @ way)
    return np.asarray(way / np.linalg.norm(way))
