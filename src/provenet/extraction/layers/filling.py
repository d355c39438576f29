"""A weight of a row that no kink has told yet, by one number.

Where unit j of the layer below is about to switch on, the row's surface `F = 0` does not depend on
its weight r_j. A walk along the surface, from a kink that is known, comes to such places; units
whose weights are known are passed. Beyond the place `F + r_j z_j = 0`: where the kink is found on a
short line across the surface tells r_j, and a second place, farther on, confirms it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.layers.known import Frame, KnownLayers, OutsideTheBox
from provenet.extraction.layers.looks import turn_near
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.tolerances import (
    BEYOND,
    CONFIRMED_SHORTER,
    CONFIRMED_WITHIN,
    FARTHEST_FILL,
    FARTHEST_WALK,
    FILL_PART,
    KINK_PLACED,
    LOOK_TRIES,
    UNSURE_PLACE,
    WALK_STEPS,
)
from provenet.extraction.lines import trace_line
from provenet.extraction.tolerances import (
    ROUNDING,
)


@dataclass(frozen=True)
class Crossing:
    """A place where a row's surface meets `z_j = 0`: how to go on along it, and across it."""

    u: Array
    along: Array
    """On the surface, to where unit j is on; of length 1."""
    across: Array


def completed(
    frame: Frame, known: KnownLayers, row: Row, rng: np.random.Generator, walks: int
) -> Row:
    """The row with the columns that so many walks from its kink along its surface tell."""
    for _ in range(walks):
        frame.check_time()
        if row.cols.all():
            break
        met = _walked(known, row, rng)
        if met is None:
            continue
        try:
            wider = filled_at(frame, known, row, met[1], met[0])
        except OutsideTheBox:
            continue
        row = row if wider is None else wider
    return row


def filled_at(frame: Frame, known: KnownLayers, row: Row, j: int, crossing: Crossing) -> Row | None:
    """The row with column j, told beyond a place where that unit switches."""
    far = _room_beyond(known, crossing)
    if far is None:
        return None
    y = crossing.u + far * crossing.along
    width = BEYOND * far
    rounding = ROUNDING * (1 + len(known.layers))
    trace = trace_line(frame, y, crossing.across, (-width, width), width / 4, rounding)
    for t in sorted(trace.kinks, key=abs):
        wider = _with_weight(known, row, j, y + t * crossing.across)
        if wider is None:
            continue
        again = _again_farther(frame, known, wider, j, crossing, far)
        if again is not None:
            return again
    return None


def _walked(known: KnownLayers, row: Row, rng: np.random.Generator) -> tuple[Crossing, int] | None:
    """Along the surface in a random direction to the first unit whose weight is not known."""
    top, below = known.layers[-1], known.below(len(known.layers) - 1)
    u, direction, last = row.place, rng.standard_normal(known.coordinates), -1
    for _ in range(WALK_STEPS):
        state, inner = known.state(u[None]), below.state(u[None])
        across = row.v[:-1] @ state.J[0]
        size = float(across @ across)
        if size == 0 or not row.knows(state.h)[0]:
            return None
        u = u - across * float(row.values(state.h)[0]) / size
        d = direction - across * (across @ direction) / size
        d /= np.linalg.norm(d)
        slopes = top.W @ inner.J[0]
        z, rate = top.W @ inner.h[0] + top.b, slopes @ d
        t = np.full(len(z), np.inf)
        np.divide(-z, rate, out=t, where=~top.always & (rate != 0))
        t[(t <= 0) | (np.arange(len(z)) == last)] = np.inf
        j, room = int(np.argmin(t)), float(inner.room[0])
        if not min(t[j], room) < FARTHEST_WALK:
            return None
        if room < t[j]:  # a unit further below switches before
            u, direction, last = u + (1 + 1e-6) * room * d, d, -1
            continue
        u = u + t[j] * d
        if not row.cols[j]:
            along = slopes[j] - across * (across @ slopes[j]) / size
            return Crossing(u, along / np.linalg.norm(along), across / np.sqrt(size)), j
        u, direction, last = u + 1e-9 * d, d, j
    return None


def _room_beyond(known: KnownLayers, crossing: Crossing) -> float | None:
    """How far one may go on with only unit j switched."""
    far = 0.1
    for _ in range(6):
        U = crossing.u + np.array([[0.5], [1.0], [2.5]]) * far * crossing.along
        if (known.state(U).room > 0.05 * far).all() and _same_pattern(known, U):
            return far
        far *= 0.3
    return None


def _same_pattern(known: KnownLayers, U: Array) -> bool:
    return all(bool((on == on[0]).all()) for on in known.patterns(U))


def _with_weight(known: KnownLayers, row: Row, j: int, u: Array) -> Row | None:
    """The row whose surface goes through a point where unit j is on."""
    h = known.h(u[None])[0]
    v, cols = row.v.copy(), row.cols.copy()
    v[j], cols[j] = 0.0, True
    if h[j] <= 0 or ((h > 0) & ~cols & ~known.layers[-1].always).any():
        return None
    v[j] = -float(h @ v[:-1] + v[-1]) / h[j]
    others, errors = h.copy(), row.errors.copy()
    others[j] = 0.0
    rounding = ROUNDING * float(np.abs(h) @ np.abs(v[:-1]))
    errors[j] = (float(row.unsure(others)) + KINK_PLACED * rounding) / h[j]
    return Row(v, cols, errors, row.place, row.hits, row.misses)


def _again_farther(
    frame: Frame, known: KnownLayers, row: Row, j: int, crossing: Crossing, near: float
) -> Row | None:
    """The weight from a second place, where the wider row predicts a kink; None if none is there.

    It lies as far beyond the crossing as no other unit switches: the farther, the better the place
    of the kink tells the weight.
    """
    switches = known.switches(crossing.u, crossing.along, near, FARTHEST_WALK)
    far = min(FARTHEST_FILL, FILL_PART * float(switches.min(initial=np.inf)))
    u = crossing.u + max(far, 2 * near) * crossing.along
    for _ in range(3):
        state = known.state(u[None])
        g = row.v[:-1] @ state.J[0]
        if not row.knows(state.h)[0] or g @ g == 0:
            return None
        u = u - g * float(row.values(state.h)[0]) / (g @ g)
    across, width = g / np.linalg.norm(g), 0.5 * min(1.0, float(known.state(u[None]).room[0]))
    for _ in range(LOOK_TRIES):
        turn = turn_near(frame, u, across, width) if width > 0 else None
        if turn is not None:
            break
        width *= CONFIRMED_SHORTER
    if turn is None or not turn.turns:
        return None
    unsure = UNSURE_PLACE * float(row.unsure(known.h(u[None]))[0]) / float(np.linalg.norm(g))
    if abs(turn.place) > max(unsure, CONFIRMED_WITHIN * width):
        return None
    place = u + turn.place * across
    wider = _with_weight(known, row, j, place)
    return None if wider is None else replace(wider, place=place)
