"""Looking for a kink where a row predicts one.

A place on the row's surface is found along a random segment, as far as its columns tell, and f is
asked at six points across it: straight on either side, and a turn between them or none.

Every row predicts kinks about the one it comes from. That of a deeper unit does so only while the
units between keep their states: places where other rows of the layer have switched tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import Frame, KnownLayers, OutsideTheBox
from provenet.extraction.layers.lines import Line
from provenet.extraction.layers.rows import Row, predicted
from provenet.extraction.layers.tolerances import (
    LOOK_ROOM,
    LOOK_SHORTER,
    LOOK_TRIES,
    LOOK_WIDTH,
    PLACE_TRIES,
    SCALES,
    TURNS,
    UNSURE_PLACE,
)
from provenet.extraction.tolerances import (
    ROUNDING,
)

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
) -> bool | None:
    """Whether there is a kink at a random place of a row's surface; None if none could be found.

    Of the places on a segment, that with the most `others` in another state; `least` at least.
    """
    states = States.at(known, row.place, others)
    for _ in range(PLACE_TRIES):
        found = _place(frame, known, row, rng, states)
        if found is None or states.switched(known, found[0][None])[0] < least:
            continue
        try:
            seen = bends_at(frame, *found)
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


def _place(
    frame: Frame, known: KnownLayers, row: Row, rng: np.random.Generator, states: States
) -> tuple[Array, Array, float, float] | None:
    """A point of the surface, the direction across it, the room there, and how unsure it is."""
    p, q = rng.choice(SCALES) * rng.standard_normal((2, known.coordinates))
    if rng.random() < 0.5:  # a unit that is seldom on switches about where it was met
        p, q = row.place + p, row.place + q
    p, q = frame.inside(np.array([p, q]))
    length = float(np.linalg.norm(q - p))
    direction = (q - p) / length
    nothing = np.empty(0)
    switches = known.switches(p, direction, 0.0, length)
    line = Line(p, direction, 0.0, length, length, switches, nothing, nothing, nothing, True)
    t, _ = predicted(row, known, line)
    if len(t) == 0:
        return None
    t = rng.permutation(t)
    u = line.at(float(t[np.argmax(states.switched(known, line.at(t)))]))
    if not known.layers:
        size = float(np.linalg.norm(row.v[:-1]))
        return u, row.v[:-1] / size, LOOK_ROOM, UNSURE_PLACE * float(row.unsure(u)) / size
    state = known.state(u[None])
    across = row.v[:-1] @ state.J[0]
    size = float(np.linalg.norm(across))
    room = float(state.room[0])
    if size == 0 or room < LOOK_ROOM:
        return None
    unsure = UNSURE_PLACE * float(row.unsure(state.h)[0]) / size
    return u - across * row.values(state.h)[0] / size**2, across / size, room, unsure


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
