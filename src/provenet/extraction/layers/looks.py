"""Looking for a kink where a row predicts one.

Newton's method leads from random points to the row's surface, as far as its columns tell, and f is
asked at six points across it: straight on either side, and a turn between them or none.

Every row predicts kinks about the one it comes from. That of a deeper unit does so only while the
units between keep their states: places where other rows of the layer have switched tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import Frame, KnownLayers, OutsideTheBox, usual_distance
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.tolerances import (
    CROSSING_STEP,
    LOOK_ROOM,
    LOOK_SHORTER,
    LOOK_TRIES,
    LOOK_WIDTH,
    ON_SURFACE,
    PLACE_STARTS,
    PLACE_TRIES,
    SCALES,
    SURFACE_STEPS,
    TURNS,
    UNSURE_PLACE,
)
from provenet.extraction.tolerances import ROUNDING, TINIEST

_GAP = 0.02
"""Beside the width: how far from the middle the inner points are. A convention."""
_ACROSS = np.array([-1.0, -0.5, -_GAP, _GAP, 0.5, 1.0])
"""Where f is asked, beside the width: two points and the middle on either side. Derived."""


def look(
    frame: Frame,
    known: KnownLayers,
    row: Row,
    rng: np.random.Generator,
    others: Sequence[Row] = (),
    least: int = 0,
    *,
    anywhere: bool = False,
) -> bool | None:
    """Whether there is a kink at a random place of a row's surface; None if none could be found.

    Of several places, that with the most `others` in another state; `least` at least. It may lie
    about where the row was met, unless it is to be `anywhere`.
    """
    found = places_on(frame, known, row, rng, anywhere=anywhere)
    if len(found.U) == 0:
        return None
    switched = States.at(known, row.place, others).switched(known, found.U)
    for i in np.argsort(-switched, kind="stable")[:PLACE_TRIES]:
        if switched[i] < least:
            break
        try:
            seen = bends_at(frame, found.U[i], found.across[i], found.room[i], found.unsure[i])
        except OutsideTheBox:
            continue
        if seen is not None:
            return seen
    return None


@dataclass(frozen=True)
class States:
    """Which rows of a layer are positive at a place."""

    R: Array
    cols: AnyArray
    positive: AnyArray
    told: AnyArray

    @classmethod
    def at(cls, known: KnownLayers, u: Array, rows: Sequence[Row]) -> States:
        """The states at a point."""
        R = np.array([row.v for row in rows]).reshape(len(rows), known.units + 1)
        cols = np.array([row.cols for row in rows], dtype=bool).reshape(len(rows), known.units)
        h = known.h(u[None])
        told = ~((h > 0) @ ~cols.T)[0]
        return cls(R, cols, R[:, :-1] @ h[0] + R[:, -1] > 0, told)

    def switched(self, known: KnownLayers, U: Array) -> AnyArray:
        """How many are in another state at the rows of U, as far as their columns tell."""
        h = known.h(U)
        told = ~((h > 0) @ ~self.cols.T) & self.told
        positive = h @ self.R[:, :-1].T + self.R[:, -1] > 0
        return np.asarray((told & (positive != self.positive)).sum(axis=1))


@dataclass(frozen=True)
class SurfacePlaces:
    """Points of a row's surface, directions across it, the room there, and how unsure each is."""

    U: Array
    across: Array
    room: Array
    unsure: Array


def places_on(
    frame: Frame, known: KnownLayers, row: Row, rng: np.random.Generator, *, anywhere: bool
) -> SurfacePlaces:
    """Newton's method leads to the surface from random points, as far as the columns tell.

    Half of them lie about where the row was met, unless they may be `anywhere`: a unit that is
    seldom on switches there.
    """
    U = rng.choice(SCALES, PLACE_STARTS)[:, None] * rng.standard_normal(
        (PLACE_STARTS, known.coordinates)
    )
    if not anywhere:
        U[::4] *= usual_distance(row.place)
        U[::2] += row.place
    U = rng.permutation(frame.inside(U))
    for _ in range(SURFACE_STEPS):
        U = U - _to_surface(known, row, U)[0]
    step, across = _to_surface(known, row, U)
    state, off = known.state(U), np.linalg.norm(step, axis=1)
    room = np.minimum(state.room, frame.room(U)) if known.layers else np.full(len(U), LOOK_ROOM)
    size = np.linalg.norm(across, axis=1)
    good = (size > 0) & (off < ON_SURFACE * room) & (room >= LOOK_ROOM) & row.knows(state.h)
    good &= frame.contains(U)
    U, across, size, room = U[good], across[good], size[good], room[good]
    unsure = UNSURE_PLACE * row.unsure(state.h[good]) / size
    return SurfacePlaces(U, across / size[:, None], room, unsure)


def _to_surface(known: KnownLayers, row: Row, U: Array) -> tuple[Array, Array]:
    """Newton's step to a row's surface, cut where that is far; and the slope across it."""
    state = known.state(U)
    across = row.v[:-1] @ state.J
    size = np.linalg.norm(across, axis=1)
    length = row.values(state.h) / np.maximum(size, TINIEST)
    cut = np.clip(length, -CROSSING_STEP, CROSSING_STEP) / np.maximum(size, TINIEST)
    return across * cut[:, None], across


def bends_at(
    frame: Frame, u: Array, across: Array, room: float, unsure: float = np.inf
) -> bool | None:
    """Whether f turns at a point, along a direction; None if it is not straight on either side.

    None, too, where there is no turn, but the point is so `unsure` that it may be elsewhere.
    """
    width = min(0.3 * room, LOOK_WIDTH)
    for _ in range(LOOK_TRIES):
        seen = turn_near(frame, u, across, width)
        if seen is not None:
            return True if seen.turns else None if unsure > _GAP * width else False
        width *= LOOK_SHORTER
    return None


@dataclass(frozen=True)
class Turn:
    """What f does about a point: whether it turns, and where the two straight parts meet."""

    turns: bool
    place: float


def turn_near(frame: Frame, u: Array, across: Array, width: float) -> Turn | None:
    """Six questions across a point; None if f is not straight on either side."""
    t = width * _ACROSS
    y = frame(u + t[:, None] * across)
    left, right = (y[2] - y[0]) / (t[2] - t[0]), (y[5] - y[3]) / (t[5] - t[3])
    steep = max(float(np.abs(left).max()), float(np.abs(right).max()))
    noise = ROUNDING * (float(np.abs(y).max()) + steep * (1 + float(np.linalg.norm(u))))
    off = max(
        float(np.abs(y[1] - y[0] - left * (t[1] - t[0])).max()),
        float(np.abs(y[4] - y[3] - right * (t[4] - t[3])).max()),
    )
    if off > 4 * noise or not np.ptp(y, axis=0).any():  # where f is flat nothing can be seen
        return None
    turn = right - left
    if float(np.abs(turn).max()) * width <= TURNS * noise:
        return Turn(False, 0.0)
    apart = y[0] - left * t[0] - y[5] + right * t[5]
    return Turn(True, float(apart @ turn) / float(turn @ turn))
