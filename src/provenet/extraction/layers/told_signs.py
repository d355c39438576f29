"""The signs of a layer's rows where cells have fewer dimensions than the layer has units.

A gradient refutes signs only where fewer units are on than the cell has dimensions (`signs`), and
lines seldom lead there. With the signs that explain most so far it is known where few units are on:
for every unit, gradients are measured at such places on both sides of its surface. A sign is told
where another one leaves some of them unexplained.

Rows of deeper units may be among those that are confirmed. They are not needed: where the others
explain every gradient, rows whose sign nothing tells are left out, and so are those of which
weights are still missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.always_on import always_on, may_switch
from provenet.extraction.layers.known import KnownLayers
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.signs import LayerSigns, layer_signs
from provenet.extraction.layers.stage import Stage
from provenet.extraction.layers.tolerances import (
    LOOK_ROOM,
    RANK,
    SCALES,
    SIGN_PLACES,
    SIGN_POOL,
    SIGN_ROUNDS,
    UNEXPLAINED,
)
from provenet.extraction.tolerances import TINIEST


@dataclass(frozen=True)
class ToldSigns:
    """The rows that are needed, and what gradients say of their signs."""

    rows: list[Row]
    found: LayerSigns

    @property
    def refuted(self) -> bool:
        """Whether gradients are left that the rows do not explain."""
        return self.found.unexplained > UNEXPLAINED * self.found.asked

    @property
    def told(self) -> bool:
        """Whether gradients tell all signs, and all of them are explained."""
        enough = self.found.asked > len(self.rows)
        return enough and bool(self.found.voted.all()) and not self.refuted


def told_signs(stage: Stage, rows: Sequence[Row], *, further: bool) -> ToldSigns:
    """What gradients tell of the rows' signs; `further` ones are asked where that is not enough.

    Then weights that no kink tells are told, too, and rows that nothing needs are left out.
    """
    first = _told(stage, rows)
    if not further or (first.told and all(row.cols.all() for row in rows)):
        return first
    stage.believing.doubt(rows)
    for some in _fewer([row for row in rows if not row.refuted]):
        told = _told_further(stage, some)
        if told.told:
            return _with_all_weights(stage, told)
        told = _with_another(stage, some) if told.refuted else told
        if told.told:
            return _with_all_weights(stage, told)
    return first


def _told(stage: Stage, rows: Sequence[Row]) -> ToldSigns:
    return ToldSigns(list(rows), layer_signs(rows, stage.pieces))


def _fewer(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows seen where others had switched, which are never left out; then others, too.

    One that is not seen there may be a deeper unit's, which switches in one cell of the layer.
    """
    lack = [-1 if row.away.believed else int((~row.cols).sum()) for row in rows]
    for most in sorted(set(lack)):
        yield [row for row, number in zip(rows, lack, strict=True) if number <= most]


def _told_further(stage: Stage, rows: list[Row]) -> ToldSigns:
    """With further gradients; without rows that these do not need."""
    told = _told(stage, rows)
    for _ in range(SIGN_ROUNDS):
        if told.told or told.refuted:
            return told
        measure_for_signs(stage, rows, told.found.signs)
        told = _told(stage, rows)
    sure = [row.away.believed for row in rows] | told.found.voted
    needed = [row for row, own in zip(rows, sure, strict=True) if own]
    if told.refuted or not 0 < len(needed) < len(rows):
        return told
    fewer = _told(stage, needed)
    return fewer if fewer.found.unexplained <= told.found.unexplained else told


def _with_another(stage: Stage, rows: list[Row]) -> ToldSigns:
    """With a unit that is on wherever gradients were measured."""
    unit = always_on(stage.known, rows, stage.pieces, stage.rng)
    if unit is None:
        return _told(stage, rows)
    for row in may_switch(stage.known, unit, stage.kinks_beside(rows)):
        if stage.believing.predicts(row):
            own = stage.propose(row)
            stage.look_at_candidates()
            stage.believing.doubt([*rows, own])
            if own.accepted and own.away.believed:
                unit = own
                break
    return _told_further(stage, [*rows, unit])


def _with_all_weights(stage: Stage, told: ToldSigns) -> ToldSigns:
    """With weights that no kink tells, if all gradients are explained with them, too."""
    if all(row.cols.all() for row in told.rows):
        return told
    whole = _told(stage, stage.with_weights_apart(told.rows, told.found.signs))
    if not whole.told:  # more gradients where the weights matter
        measure_for_signs(stage, whole.rows, told.found.signs)
        whole = _told(stage, stage.with_weights_apart(told.rows, told.found.signs))
    return whole if whole.told else told


def measure_for_signs(stage: Stage, rows: Sequence[Row], signs: Array) -> None:
    """Gradients where few units are on, for each of them where it is and where it is not."""
    for u, room in _places(stage.known, rows, signs, stage.rng):
        stage.frame.check_time()
        stage.measure_at(u, room)


def _places(
    known: KnownLayers, rows: Sequence[Row], signs: Array, rng: np.random.Generator
) -> Iterator[tuple[Array, float]]:
    """Points for each unit, on and off, with the fewest others on beside the cell's dimensions."""
    U = np.vstack([s * rng.standard_normal((SIGN_POOL, known.coordinates)) for s in SCALES])
    state, R = known.state(U), np.array([row.v for row in rows])
    Z, slopes = state.h @ R[:, :-1].T + R[:, -1], R[:, :-1] @ state.J
    own = (np.abs(Z) / (np.linalg.norm(slopes, axis=2) + TINIEST)).min(axis=1)
    room, on = np.minimum(state.room, own), signs * Z > 0
    size = np.linalg.svd(state.J, compute_uv=False)
    spare = (size > RANK * size[:, :1]).sum(axis=1) - on.sum(axis=1)
    good = (spare >= 0) & (room > LOOK_ROOM)
    good &= np.all([row.knows(state.h) for row in rows], axis=0)
    chosen = set[int]()
    for k in range(len(rows)):
        for side in (on[:, k], ~on[:, k] & (spare > 0)):  # without it fewer are on than dimensions
            chosen |= set(_best(np.flatnonzero(good & side), spare, room, on))
    for i in sorted(chosen):
        yield U[i], float(room[i])


def _best(points: AnyArray, spare: AnyArray, room: Array, on: AnyArray) -> list[int]:
    """Those with the most dimensions to spare, then with the most room, in different states."""
    found, seen = list[int](), set[bytes]()
    for i in points[np.lexsort([-room[points], -spare[points]])]:
        if len(found) == SIGN_PLACES:
            break
        if on[i].tobytes() not in seen:
            seen.add(on[i].tobytes())
            found.append(int(i))
    return found
