"""Rows from walks along a unit's surface, where units below depend on each other.

In such a cell h moves in a span S of fewer dimensions than units are on, and a jump tells `S^T r`
alone, up to a factor. With n its direction and N what is perpendicular to that in S,

    N^T S^T r = 0,    r.h + b = 0:

as many homogeneous equations on the row r and its bias b as S has dimensions. The surface goes on
in the next cell, beyond where a known unit switches: kinks there are those of the same unit, and
their equations add up until one solution is left. Steps are taken to cells of many dimensions. A
deeper unit's surface turns elsewhere, too, and its equations have none, or a row that looks refute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import KnownLayers, OutsideTheBox
from provenet.extraction.layers.pieces import Measuring, Piece
from provenet.extraction.layers.rows import Row, jump_of
from provenet.extraction.layers.tolerances import (
    BEYOND,
    FARTHEST_FILL,
    FARTHEST_WALK,
    FILL_PART,
    RANK,
    SHORTEST_LINE,
    WALK_AGREES,
    WALK_COLUMNS,
    WALK_PLACED,
    WALK_STEPS,
    WALK_TELLS,
    WALK_TRIES,
    WALK_WAYS,
)
from provenet.extraction.lines import trace_line
from provenet.extraction.tolerances import ROUNDING


@dataclass(frozen=True, eq=False)
class KinkInCell:
    """A kink, the direction across its surface, and what it says of its row: `E (r, b) = 0`."""

    u: Array
    across: Array
    E: Array
    on: AnyArray
    error: float


def kink_in_cell(known: KnownLayers, before: Piece, after: Piece, u: Array) -> KinkInCell | None:
    """The kink between two pieces of one cell; None if the jump is unclear."""
    if not np.array_equal(before.on, after.on):
        return None
    jump = jump_of(before, after)
    if jump is None:
        return None
    state, on = known.state(u[None]), before.on
    S = np.eye(int(on.sum())) if before.span is None else before.span
    E = np.zeros((S.shape[1], len(on) + 1))
    E[:-1, :-1][:, on] = np.linalg.svd((S.T @ jump.direction)[None])[2][1:] @ S.T
    E[-1] = np.append(state.h[0], 1.0)
    E[-1] /= np.linalg.norm(E[-1])
    across = jump.direction @ state.J[0][on]
    return KinkInCell(u, across / np.linalg.norm(across), E, on, jump.error)


def walked_row(measuring: Measuring, start: KinkInCell, rng: np.random.Generator) -> Row | None:
    """The row of a kink's unit, from a walk along its surface; None if that does not tell it."""
    kinks, seen = [start], {_pattern(measuring.known, start.u)}
    for _ in range(WALK_STEPS):
        measuring.frame.check_time()
        after = _step(measuring, kinks, seen, rng)
        if after is None:
            return None
        kinks.append(after)
        seen.add(_pattern(measuring.known, after.u))
        row = _solution(kinks)
        if row is not None:
            return row
    return None


def _step(
    measuring: Measuring, kinks: list[KinkInCell], seen: set[bytes], rng: np.random.Generator
) -> KinkInCell | None:
    """A kink of the same unit in a cell beside that of the last one."""
    last = kinks[-1]
    for turn, y, far in _beyond(measuring, last, seen, rng):
        try:
            for kink in _kinks_across(measuring, y, last.across, BEYOND * far):
                if _goes_through(kink, turn) and _agree([*kinks, kink]):
                    return kink
        except OutsideTheBox:
            continue
    return None


def _beyond(
    measuring: Measuring, kink: KinkInCell, seen: set[bytes], rng: np.random.Generator
) -> Iterator[tuple[Array, Array, float]]:
    """Where the surface turns into cells not seen, rich ones first, and places beyond."""
    known, places = measuring.known, []
    for w in rng.standard_normal((WALK_WAYS, len(kink.u))):
        w -= kink.across * float(kink.across @ w)
        w /= np.linalg.norm(w)
        switches = known.switches(kink.u, w, 0.0, FARTHEST_WALK)
        if len(switches) == 0:
            continue
        room = float(switches[1] - switches[0]) if len(switches) > 1 else FARTHEST_FILL
        far = FILL_PART * min(room, FARTHEST_FILL)
        turn, y = kink.u + switches[0] * w, kink.u + (switches[0] + far) * w
        inside = bool(measuring.frame.contains(y[None])[0])
        if far > SHORTEST_LINE and inside and _pattern(known, y) not in seen:
            size = np.linalg.svd(known.state(y[None]).J[0], compute_uv=False)
            places.append((int((size > RANK * size[0]).sum()), far, turn, y))
    places.sort(key=lambda place: place[:2], reverse=True)
    for _, far, turn, y in places[:WALK_TRIES]:
        yield turn, y, far


def _kinks_across(
    measuring: Measuring, y: Array, across: Array, width: float
) -> Iterator[KinkInCell]:
    """Kinks of unknown units on a short line, the nearest first."""
    frame, known = measuring.frame, measuring.known
    rounding = ROUNDING * (1 + len(known.layers))
    trace = trace_line(frame, y, across, (-width, width), width / 4, rounding)
    edges = np.concatenate([[-width], trace.kinks, [width]])
    for i in np.argsort(np.abs(trace.kinks)):
        t = float(trace.kinks[i])
        u = y + t * across
        room = float(known.state(u[None]).room[0])
        gap = min(t - edges[i], edges[i + 2] - t, room)
        if room < RANK * width or gap <= 0:
            continue
        sides = [measuring.in_any_cell(u + side * gap / 2 * across, gap / 2) for side in (-1, 1)]
        if sides[0] is None or sides[1] is None:
            continue
        kink = kink_in_cell(known, sides[0], sides[1], u)
        if kink is not None:
            yield kink


def _goes_through(kink: KinkInCell, turn: Array) -> bool:
    """Whether the surface of a kink goes through a point, as that of the same unit does."""
    way = turn - kink.u
    off = abs(float(kink.across @ way))
    return off <= (WALK_PLACED + 10 * kink.error) * float(np.linalg.norm(way))


def _pattern(known: KnownLayers, u: Array) -> bytes:
    return b"".join(on.tobytes() for on in known.patterns(u[None]))


def _singular(kinks: list[KinkInCell]) -> tuple[Array, Array, AnyArray]:
    """Singular values of all equations, largest first, the last right vector, and the columns."""
    told = np.append(np.any([kink.on for kink in kinks], axis=0), True)
    E = np.vstack([kink.E for kink in kinks])[:, told]
    _, size, right = np.linalg.svd(E, full_matrices=True)
    return np.append(size, np.zeros(max(0, E.shape[1] - len(size)))), right[-1], told


def _agree(kinks: list[KinkInCell]) -> bool:
    """Whether some row solves the equations of all."""
    size, _, _ = _singular(kinks)
    return bool(size[-1] <= WALK_AGREES + 10 * max(kink.error for kink in kinks))


def _solution(kinks: list[KinkInCell]) -> Row | None:
    """The row, if it is the only one, two equations more say so, and most columns are known."""
    size, solution, told = _singular(kinks)
    few = sum(len(kink.E) for kink in kinks) <= told.sum() or told.mean() < WALK_COLUMNS
    if few or size[-2] < WALK_TELLS:
        return None
    v, errors = np.zeros(len(told)), np.zeros(len(told))
    v[told] = solution
    errors[told] = (max(kink.error for kink in kinks) + size[-1]) / size[-2]
    return Row(v, told[:-1].copy(), errors, kinks[-1].u)
