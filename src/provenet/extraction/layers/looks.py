"""Looking for a kink where a row predicts one.

A place on the row's surface is found along a random segment, as far as its columns tell, and f is
asked at six points across it: straight on either side, and a turn between them or none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.layers.known import Frame, KnownLayers, OutsideTheBox
from provenet.extraction.layers.pieces import Line
from provenet.extraction.layers.rows import Row, predicted
from provenet.extraction.layers.tolerances import (
    LOOK_ROOM,
    LOOK_SHORTER,
    LOOK_TRIES,
    LOOK_WIDTH,
    PLACE_TRIES,
    SCALES,
    TURNS,
)
from provenet.extraction.tolerances import (
    ROUNDING,
)

_ACROSS = np.array([-1.0, -0.5, -0.02, 0.02, 0.5, 1.0])
"""Where f is asked, beside the width: two points and the middle on either side. Derived."""


def look(frame: Frame, known: KnownLayers, row: Row, rng: np.random.Generator) -> bool | None:
    """Whether there is a kink at a random place of a row's surface; None if none could be found."""
    for _ in range(PLACE_TRIES):
        found = _place(known, row, rng)
        if found is None:
            continue
        try:
            seen = bends_at(frame, *found)
        except OutsideTheBox:
            continue
        if seen is not None:
            return seen
    return None


def _place(
    known: KnownLayers, row: Row, rng: np.random.Generator
) -> tuple[Array, Array, float] | None:
    """A point of the surface, the direction across it, and the room there."""
    p, q = rng.choice(SCALES) * rng.standard_normal((2, known.coordinates))
    if rng.random() < 0.5:  # a unit that is seldom on switches about where it was met
        p, q = row.place + p, row.place + q
    length = float(np.linalg.norm(q - p))
    direction = (q - p) / length
    nothing = np.empty(0)
    switches = known.switches(p, direction, 0.0, length)
    line = Line(p, direction, 0.0, length, length, switches, nothing, nothing, nothing, True)
    t, _ = predicted(row, known, line)
    if len(t) == 0:
        return None
    u = line.at(float(rng.choice(t)))
    if not known.layers:
        return u, row.v[:-1] / np.linalg.norm(row.v[:-1]), LOOK_ROOM
    state = known.state(u[None])
    across = row.v[:-1] @ state.J[0]
    size = float(np.linalg.norm(across))
    room = float(state.room[0])
    if size == 0 or room < LOOK_ROOM:
        return None
    return u - across * row.values(state.h)[0] / size**2, across / size, room


def bends_at(frame: Frame, u: Array, across: Array, room: float) -> bool | None:
    """Whether f turns at a point, along a direction; None if it is not straight on either side."""
    width = min(0.3 * room, LOOK_WIDTH)
    for _ in range(LOOK_TRIES):
        seen = turn_near(frame, u, across, width)
        if seen is not None:
            return seen.turns
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
