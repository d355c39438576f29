"""A weight of a row that no kink has told yet, by one number.

Where unit j of the layer below is about to switch on, the row's surface `F = 0` does not depend on
its weight r_j. Newton's method finds such places, where no other unit is on whose weight is not
known. Beyond the place `F + r_j z_j = 0`: where the kink is found on a
short line across the surface tells r_j, and a second place, farther on, confirms it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.layers.known import Frame, KnownLayers, OutsideTheBox, usual_distance
from provenet.extraction.layers.looks import turn_near
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.tolerances import (
    BEYOND,
    CONFIRMED_SHORTER,
    CONFIRMED_WITHIN,
    CROSSED,
    CROSSING_POOL,
    CROSSING_STARTS,
    CROSSING_STEP,
    CROSSING_STEPS,
    CROSSINGS,
    FAR_BEYOND,
    FARTHEST_FILL,
    FARTHEST_WALK,
    FILL_PART,
    KINK_PLACED,
    LOOK_TRIES,
    RANK,
    SCALES,
    SHORTEST_LINE,
    UNSURE_PLACE,
)
from provenet.extraction.lines import trace_line
from provenet.extraction.tolerances import (
    ROUNDING,
    TINIEST,
)


@dataclass(frozen=True)
class Crossing:
    """A place where a row's surface meets `z_j = 0`: how to go on along it, and across it."""

    u: Array
    along: Array
    """On the surface, to where unit j is on; of length 1."""
    across: Array


def completed(
    frame: Frame,
    known: KnownLayers,
    row: Row,
    rng: np.random.Generator,
    rounds: int,
    *,
    seldom: bool = False,
) -> Row:
    """The row with the columns that so many rounds over those that are missing tell.

    Also of units that are `seldom` on, if wanted.
    """
    for _ in range(rounds):
        missing = np.flatnonzero(~row.cols)
        before = row
        for j in rng.permutation(missing):
            frame.check_time()
            for crossing in crossings(frame, known, row, int(j), rng, seldom=seldom):
                try:
                    wider = filled_at(frame, known, row, int(j), crossing)
                except OutsideTheBox:
                    continue
                if wider is not None:
                    row = wider
                    break
        if row is before or row.cols.all():
            break
    return row


def crossings(
    frame: Frame,
    known: KnownLayers,
    row: Row,
    j: int,
    rng: np.random.Generator,
    *,
    seldom: bool = False,
) -> list[Crossing]:
    """Places where the surface meets `z_j = 0`, as far as its columns tell, those with room first.

    Newton's method for both, from points about the row's kink and elsewhere; unit j is taken to be
    off.
    """
    number = len(known.layers) - 1
    top, below = known.layers[-1], known.below(number)
    scales = np.repeat(SCALES, CROSSING_STARTS)[:, None]
    U = scales * rng.standard_normal((len(scales), known.coordinates))
    if seldom:
        U[1::2] = _near_switching(below, top.W[j], float(top.b[j]), rng)
    U[::4] *= usual_distance(row.place)
    U[::2] += row.place
    U = frame.inside(U)
    for _ in range(CROSSING_STEPS):
        inner = below.state(U)
        z = inner.h @ top.W[j] + top.b[j]
        slope = top.W[j] @ inner.J
        state = known.state(U, (number, j, False))
        F, across = row.values(state.h), row.v[:-1] @ state.J
        U = U - _to_both(F, across, z, slope)
    size = np.abs(state.h) @ np.abs(row.v[:-1]) + abs(row.v[-1])
    apart = np.abs(F) / size + np.abs(z) / (np.abs(inner.h) @ np.abs(top.W[j]) + abs(top.b[j]))
    good = (apart < CROSSED) & row.knows(state.h) & (state.room > SHORTEST_LINE)
    good &= frame.contains(U)
    found = []
    for i in np.flatnonzero(good)[np.argsort(-state.room[good])][:CROSSINGS]:
        size = float(np.linalg.norm(across[i]))
        way = slope[i] - across[i] * float(across[i] @ slope[i]) / size**2
        if np.linalg.norm(way) > RANK * np.linalg.norm(slope[i]):
            found.append(Crossing(U[i], way / np.linalg.norm(way), across[i] / size))
    return found


def _near_switching(below: KnownLayers, w: Array, b: float, rng: np.random.Generator) -> Array:
    """Points at all scales, of many, where a unit is nearly zero: half as many as starts."""
    scales = np.repeat(SCALES, CROSSING_STARTS * CROSSING_POOL)[:, None]
    U = scales * rng.standard_normal((len(scales), below.coordinates))
    near = np.abs(below.h(U) @ w + b) / (1 + np.linalg.norm(U, axis=1))
    return np.asarray(U[np.argsort(near)[: len(SCALES) * CROSSING_STARTS // 2]])


def _to_both(F: Array, across: Array, z: Array, slope: Array) -> Array:
    """The shortest steps to where two linear functions vanish, cut where these are far."""
    a, b = (across**2).sum(axis=1), (slope**2).sum(axis=1)
    c = (across * slope).sum(axis=1)
    determinant = np.maximum(a * b - c**2, RANK**2 * a * b) + TINIEST
    with np.errstate(over="ignore", invalid="ignore"):  # where a function is flat
        p, q = (b * F - c * z) / determinant, (a * z - c * F) / determinant
        steps = p[:, None] * across + q[:, None] * slope
        length = np.linalg.norm(steps, axis=1, keepdims=True)
        cut = steps * np.minimum(1.0, CROSSING_STEP / (length + TINIEST))
    return np.where(np.isfinite(cut), cut, 0.0)


def filled_at(frame: Frame, known: KnownLayers, row: Row, j: int, crossing: Crossing) -> Row | None:
    """The row with column j, told beyond a place where that unit switches."""
    far = _room_beyond(known, crossing)
    if far is None:
        return None
    y = crossing.u + far * crossing.along
    rounding = ROUNDING * (1 + len(known.layers))
    for width in (BEYOND * far, FAR_BEYOND * far):
        trace = trace_line(frame, y, crossing.across, (-width, width), width / 4, rounding)
        for t in sorted(trace.kinks, key=abs):
            wider = _with_weight(known, row, j, y + t * crossing.across)
            if wider is None:
                continue
            again = _again_farther(frame, known, wider, j, crossing, far)
            if again is not None:
                return again
        if len(trace.kinks):
            break
    return None


def _room_beyond(known: KnownLayers, crossing: Crossing) -> float | None:
    """How far one may go on with only unit j switched."""
    far = 0.1 * usual_distance(crossing.u)
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
    return replace(row, v=v, cols=cols, errors=errors)


def _again_farther(
    frame: Frame, known: KnownLayers, row: Row, j: int, crossing: Crossing, near: float
) -> Row | None:
    """The weight from a second place, where the wider row predicts a kink; None if none is there.

    It lies as far beyond the crossing as no other unit switches: the farther, the better the place
    of the kink tells the weight.
    """
    usual = usual_distance(crossing.u)
    switches = known.switches(crossing.u, crossing.along, near, FARTHEST_WALK * usual)
    far = min(FARTHEST_FILL * usual, FILL_PART * float(switches.min(initial=np.inf)))
    u = crossing.u + max(far, 2 * near) * crossing.along
    for _ in range(3):
        state = known.state(u[None])
        g = row.v[:-1] @ state.J[0]
        if not row.knows(state.h)[0] or g @ g == 0:
            return None
        u = u - g * float(row.values(state.h)[0]) / (g @ g)
    across, width = g / np.linalg.norm(g), 0.5 * min(usual, float(known.state(u[None]).room[0]))
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
