"""Rows measured again where the network says that there is room.

Once all layers are known nearly, places are known where a unit switches and all others are far: the
jump of the gradient there is a multiple of its row in the columns that are on, whatever the layers
above do, and steps may be as long as the room allows. From the inputs on, each layer is measured in
terms of those below it, which are known better by then.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import Frame, KnownLayers, OutsideTheBox
from provenet.extraction.layers.pieces import slopes
from provenet.extraction.layers.tolerances import (
    ACROSS,
    ANOTHER_ROW,
    AROUND_A_PLACE,
    BIAS_AT,
    CANDIDATES,
    LONG_STEP,
    LOOKED_AT,
    MORE_CANDIDATES,
    ON_SURFACE,
    ONE_JUMP,
    RANK,
    REMEASURED,
    SCALES,
    SHARED,
    SURFACE_STEPS,
)
from provenet.extraction.tolerances import (
    TINIEST,
    TYPICAL_ERROR,
)


@dataclass(frozen=True)
class Nearly:
    """All hidden layers, nearly, the output weights, and how well each row is known."""

    known: KnownLayers
    first: Array
    """Weights of the first layer by inputs, not coordinates."""
    A: Array
    """(outputs, units of the last layer)."""
    errors: tuple[Array, ...]
    """Of the rows of each layer, relatively."""
    places: tuple[Array, ...]
    """A point on the surface of every unit of each layer."""

    @property
    def worst(self) -> float:
        """The largest error of a row."""
        return max(float(errors.max(initial=0.0)) for errors in self.errors)


def remeasured(frame: Frame, nearly: Nearly, rng: np.random.Generator) -> Nearly:
    """The same with the rows that are not known well measured again.

    Those of the first layer in the space that they span: what lies outside of it stays.
    """
    for number in range(len(nearly.known.layers)):
        poor = nearly.errors[number] > REMEASURED
        for unit in range(len(poor)):
            frame.check_time()
            spots = _Spots.of(nearly, number, unit, CANDIDATES, rng)
            if poor[unit]:
                nearly = _row_again(frame, nearly, number, unit, spots, rng)
            with suppress(OutsideTheBox):
                nearly = _bias_again(frame, nearly, number, unit, spots)
        if number == 0 and poor.any():
            W = nearly.known.layers[0].W
            nearly = replace(nearly, first=W if frame.Q is None else W @ frame.Q.T)
    return nearly


def _row_again(
    frame: Frame,
    nearly: Nearly,
    number: int,
    unit: int,
    spots: _Spots,
    rng: np.random.Generator,
) -> Nearly:
    """One row, from place after place until all columns are measured, or no place is left."""
    layer = nearly.known.layers[number]
    row, wanted = np.append(layer.W[unit], layer.b[unit]), layer.known[unit].copy()
    fixed, error = np.zeros(len(wanted), dtype=bool), 0.0
    wider = False
    while (wanted & ~fixed).any():
        frame.check_time()
        best = spots.best(wanted & ~fixed, fixed)
        if best is None and wider:
            break
        if best is None:
            spots, wider = _Spots.of(nearly, number, unit, MORE_CANDIDATES, rng), True
            continue
        measured = None
        with suppress(OutsideTheBox):
            measured = _measured(frame, nearly, number, unit, spots.U[best])
        spots = spots.without(best)
        if measured is None:
            continue
        v, on, off = measured
        row, ok = _joined(row, fixed, v, on)
        if ok:
            fixed |= on
            error = max(error, off)
    if (wanted & ~fixed).any():
        error = max(error, float(nearly.errors[number][unit]))
    return _with_row(nearly, number, unit, row, error)


def _bias_again(frame: Frame, nearly: Nearly, number: int, unit: int, spots: _Spots) -> Nearly:
    """The bias from a kink near the origin: where weights are off, that matters least there."""
    if len(spots.U) == 0 or not (spots.worth > 0).any():
        return nearly
    below, layer = nearly.known.below(number), nearly.known.layers[number]
    size = np.linalg.norm(below.h(spots.U), axis=1)
    u = spots.U[int(np.argmax(spots.worth / (1 + size) ** 2))]
    sides = (nearly.known.state(u[None], (number, unit, side)) for side in (False, True))
    room = min(float(state.room[0]) for state in sides)
    across = layer.W[unit] @ below.state(u[None]).J[0]
    across /= np.linalg.norm(across)
    t = BIAS_AT[1] * room * np.array([-1.0, -BIAS_AT[0], BIAS_AT[0], 1.0])
    y = frame(u + t[:, None] * across)
    left, right = (y[1] - y[0]) / (t[1] - t[0]), (y[3] - y[2]) / (t[3] - t[2])
    turn = right - left
    place = float(((y[0] - left * t[0] - y[3] + right * t[3]) @ turn) / (turn @ turn))
    if not abs(place) < BIAS_AT[0] * room:
        return nearly
    layers, b = list(nearly.known.layers), layer.b.copy()
    b[unit] = -float(layer.W[unit] @ below.h((u + place * across)[None])[0])
    layers[number] = replace(layer, b=b)
    return replace(nearly, known=KnownLayers(nearly.known.coordinates, tuple(layers)))


@dataclass(frozen=True)
class _Spots:
    """Points on a unit's surface, which units below are on there, and how good each is."""

    U: Array
    on: AnyArray
    worth: Array

    @classmethod
    def of(
        cls, nearly: Nearly, number: int, unit: int, candidates: int, rng: np.random.Generator
    ) -> _Spots:
        """Many of them, in clean cells."""
        known, layer = nearly.known, nearly.known.layers[number]
        U = _on_surface(known, number, unit, nearly.places[number][unit], candidates, rng)
        below = known.below(number)
        state = below.state(U)
        z = state.h @ layer.W[unit] + layer.b[unit]
        slope = np.linalg.norm(layer.W[unit] @ state.J, axis=1)
        good = np.abs(z) < ON_SURFACE * slope
        U, state = U[good], below.state(U[good])
        off, on = (known.state(U, (number, unit, side)) for side in (False, True))
        room = np.minimum(off.room, on.room)
        jump = np.abs((on.J - off.J).transpose(0, 2, 1) @ nearly.A.T).max(axis=(1, 2), initial=0.0)
        if number == 0:
            active, stretch = np.ones(U.shape, dtype=bool), np.ones(len(U))
        else:
            active = state.h > 0
            stretch = _stretches(state.J, active, room * jump * active.sum(axis=1) ** 2)
        worth = room * jump / (stretch * (1 + np.linalg.norm(U, axis=1)))
        return cls(U, active, np.where(np.isfinite(worth), worth, 0.0))

    def best(self, wanted: AnyArray, fixed: AnyArray) -> int | None:
        """The place that tells the most of the columns wanted, well; None if there is none."""
        new = (self.on & wanted).sum(axis=1)
        shared = (self.on & fixed).sum(axis=1)
        possible = (new > 0) & (self.worth > 0) & ((shared >= SHARED) | ~fixed.any())
        if not possible.any():
            return None
        return int(np.argmax(np.where(possible, new**2 * self.worth, -1.0)))

    def without(self, i: int) -> _Spots:
        """All others."""
        kept = np.arange(len(self.U)) != i
        return _Spots(self.U[kept], self.on[kept], self.worth[kept])


def _stretches(J: Array, on: AnyArray, promise: Array) -> Array:
    """Of the most promising places; infinite for all others."""
    stretch = np.full(len(J), np.inf)
    for i in np.argsort(-promise)[:LOOKED_AT]:
        stretch[i] = _stretch(J[i][on[i]])
    return stretch


def _stretch(J: Array) -> float:
    """How much errors along the rows of J grow where these depend on each other."""
    if len(J) == 0:
        return np.inf
    size = np.linalg.svd(J, compute_uv=False)
    return float(1 / size[-1]) if len(size) == len(J) and size[-1] > RANK * size[0] else np.inf


def _on_surface(
    known: KnownLayers,
    number: int,
    unit: int,
    place: Array,
    candidates: int,
    rng: np.random.Generator,
) -> Array:
    """Points near a unit's surface, from random ones and from about a place that is on it."""
    d = known.coordinates
    scales = np.array(SCALES)[rng.integers(len(SCALES), size=candidates)]
    anywhere = scales[:, None] * rng.standard_normal((candidates, d))
    widest = max(1.0, float(np.linalg.norm(place)) / np.sqrt(d))
    spread = np.exp(rng.uniform(np.log(AROUND_A_PLACE), np.log(widest), candidates))
    around = place + spread[:, None] * rng.standard_normal((candidates, d))
    U = np.vstack([place[None], around, anywhere])
    below, layer = known.below(number), known.layers[number]
    for _ in range(SURFACE_STEPS):
        state = below.state(U)
        z = state.h @ layer.W[unit] + layer.b[unit]
        g = layer.W[unit] @ state.J
        size = np.einsum("ni,ni->n", g, g)
        step = np.where(size > TINIEST, z / np.maximum(size, TINIEST), 0.0)
        U = U - step[:, None] * g
        if number == 0:
            break  # a plane is reached by one step
    return U


def _measured(
    frame: Frame, nearly: Nearly, number: int, unit: int, u: Array
) -> tuple[Array, AnyArray, float] | None:
    """The row in the columns that are on at a place of its surface, bias last; and its error."""
    known, layer = nearly.known, nearly.known.layers[number]
    state = known.below(number).state(u[None])
    h, J = state.h[0], state.J[0]
    on = h > 0 if number else np.ones(len(h), dtype=bool)
    room = min(float(known.state(u[None], (number, unit, s)).room[0]) for s in (False, True))
    across = layer.W[unit] @ J
    across /= np.linalg.norm(across)
    V = np.linalg.svd(J[on], full_matrices=False)[2]
    away, step = ACROSS * room * across, LONG_STEP * room
    before, after = (slopes(frame, u + side * away, V, step) for side in (-1, 1))
    jump = after.along - before.along
    # Both linear pieces, continued to u, differ by what the unit is there.
    far = V @ away
    apart = (after.value - after.along @ far) - (before.value + before.along @ far)
    left, size, right = np.linalg.svd(jump, full_matrices=False)
    error = TYPICAL_ERROR * (before.rounding + after.rounding) / step
    error *= np.sqrt(jump.shape[1]) / max(float(size[0]), TINIEST)
    if error > ONE_JUMP or (len(size) > 1 and size[1] > ONE_JUMP * size[0]):
        return None
    value = float(left[:, 0] @ apart) / float(size[0])
    weights = np.linalg.solve((J[on] @ V.T).T, right[0])
    stretch = float(np.linalg.norm(np.linalg.inv(J[on] @ V.T), 2))
    v = np.zeros(len(h) + 1)
    v[:-1][on] = weights
    v[-1] = value - weights @ h[on]
    factor = float(v[:-1] @ layer.W[unit])
    return (v if factor > 0 else -v), on, error * stretch / float(np.linalg.norm(weights))


def _joined(row: Array, fixed: AnyArray, v: Array, on: AnyArray) -> tuple[Array, bool]:
    """A row with the columns that were measured, at the scale of those that are fixed."""
    both = np.append(fixed & on if fixed.any() else on, True)
    factor = float(row[both] @ v[both]) / float(v[both] @ v[both])
    apart = float(np.linalg.norm(row[both] - factor * v[both]))
    if apart > ANOTHER_ROW * float(np.linalg.norm(row[both])):  # another unit was met
        return row, False
    new = row.copy()
    columns = np.append(on & ~fixed, not fixed.any())
    new[columns] = factor * v[columns]
    return new, True


def _with_row(nearly: Nearly, number: int, unit: int, row: Array, error: float) -> Nearly:
    layers, errors = list(nearly.known.layers), [e.copy() for e in nearly.errors]
    W, b = layers[number].W.copy(), layers[number].b.copy()
    size = float(np.linalg.norm(row[:-1]))
    W[unit], b[unit], errors[number][unit] = row[:-1] / size, row[-1] / size, error
    layers[number] = replace(layers[number], W=W, b=b)
    known = KnownLayers(nearly.known.coordinates, tuple(layers))
    return replace(nearly, known=known, errors=tuple(errors))
