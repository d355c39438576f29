"""A row once more, from where its kinks are.

Wherever a unit switches `r.h + b = 0`: one equation on its row and bias, as exact as h is known and
as the kink is placed, whatever cell it lies in and whatever the layers above do. Once a row is
nearly known, Newton's method finds places on its surface, six questions each tell where the kink
really is, and the smallest singular vector of `(h, 1)` at as many of them as there are weights, and
a few more, is the row. Jumps of gradients, of which it was made, are known as well as steps between
unknown kinks are long; places of kinks are not worse in small cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.layers.known import Frame, KnownLayers, OutsideTheBox
from provenet.extraction.layers.looks import SurfacePlaces, places_on, turn_near
from provenet.extraction.layers.rows import LooksAtRow, Row
from provenet.extraction.layers.tolerances import (
    LOOK_SHORTER,
    LOOK_TRIES,
    LOOK_WIDTH,
    REFINED_NEAR,
    REFINED_ROUNDS,
    REFINED_SPARE,
    REFINED_TELLS,
    REFINED_WITHIN,
)
from provenet.extraction.tolerances import EPS


def refined(frame: Frame, known: KnownLayers, row: Row, rng: np.random.Generator) -> Row | None:
    """The row from places of its kinks; None if these do not tell all of its columns."""
    wanted = int(row.told.sum()) + REFINED_SPARE
    found = np.empty((0, known.coordinates))
    for number in range(REFINED_ROUNDS):
        places = places_on(frame, known, row, rng, anywhere=number % 2 == 0)
        more = [_kink_at(frame, places, i) for i in range(min(len(places.U), wanted - len(found)))]
        found = np.vstack([found, *(u[None] for u in more if u is not None)])
        if len(found) < wanted:
            continue
        better = _from_kinks(known, row, found)
        if better is not None:
            return better
        wanted += REFINED_SPARE
    return None


def _kink_at(frame: Frame, places: SurfacePlaces, i: int) -> Array | None:
    """Where the kink is that is expected at a place; None if none is there."""
    u, across, width = places.U[i], places.across[i], min(0.3 * places.room[i], LOOK_WIDTH)
    for _ in range(LOOK_TRIES):
        frame.check_time()
        try:
            turn = turn_near(frame, u, across, width)
        except OutsideTheBox:
            return None
        if turn is not None:
            near = turn.turns and abs(turn.place) <= REFINED_WITHIN * width + places.unsure[i]
            return np.asarray(u + turn.place * across) if near else None
        width *= LOOK_SHORTER
    return None


def _from_kinks(known: KnownLayers, row: Row, U: Array) -> Row | None:
    """The row that vanishes at kinks, in its columns; without those that are another unit's."""
    told = row.told
    A = np.hstack([known.h(U), np.ones((len(U), 1))])[:, told]
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    scale = np.linalg.norm(A, axis=0)
    if (scale == 0).any():
        return None
    for _ in range(REFINED_SPARE // 2):
        _, size, V = np.linalg.svd(A / scale, full_matrices=False)
        left = np.abs(A / scale @ V[-1])
        worst = int(np.argmax(left))
        others = np.delete(left, worst)
        if left[worst] <= REFINED_NEAR * float(np.sqrt(np.mean(others**2))) + EPS:
            break
        A = np.delete(A, worst, axis=0)
    if len(A) <= len(size) or size[-2] < REFINED_TELLS * size[0]:
        return None
    sigma = float(size[-1]) / float(np.sqrt(len(A) - len(size) + 1)) + EPS
    v, errors = np.zeros(len(told)), np.zeros(len(told))
    v[told] = V[-1] / scale
    errors[told] = sigma * np.sqrt(np.sum((V[:-1] / size[:-1, None]) ** 2, axis=0)) / scale
    before, now = row.v / np.linalg.norm(row.v[told]), v / np.linalg.norm(v)
    if np.linalg.norm(now - np.sign(before @ now) * before) > REFINED_WITHIN:
        return None
    return replace(row, v=v, errors=errors, anywhere=LooksAtRow(len(A), 0))


def refined_layers(
    frame: Frame,
    known: KnownLayers,
    rows: Sequence[Sequence[Row]],
    start: int,
    rng: np.random.Generator,
) -> KnownLayers:
    """The layers from a first on, from below: each row from where its kinks are, as `rows` say it.

    Rows keep their norm and sign, and are told how well they are known.
    """
    for number in range(start, len(known.layers)):
        layer, below = known.layers[number], known.below(number)
        W, b = layer.W.copy(), layer.b.copy()
        for unit, row in enumerate(rows[number]):
            v, cols = np.append(W[unit], b[unit]), layer.known[unit].copy()
            cols[list(row.apart)] = False
            v[list(row.apart)] = 0.0
            own = replace(row, v=v, cols=cols, errors=np.full(len(v), row.error))
            better = refined(frame, below, own, rng)
            if better is not None:
                factor = np.linalg.norm(v[:-1]) / np.linalg.norm(better.v[:-1])
                factor *= np.sign(better.v @ v)
                W[unit, cols], b[unit] = factor * better.v[:-1][cols], factor * better.v[-1]
                row.errors = np.where(row.told, better.error * np.linalg.norm(row.v[:-1]), 0.0)
        known = known.with_at(number, replace(layer, W=W, b=b))
    return known
