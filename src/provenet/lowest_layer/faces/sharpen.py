"""Faces from candidates: sharpened on samples, tested, sharpened further where one may ask.

Steps are sharpened in ever thinner bands, ReLUs by least squares. The test is the same for both: a
unit's statistic on labels from which the other units are taken off must stand above its noise, and
stay as high in thinner bands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from provenet.common.typing import Array
from provenet.lowest_layer.faces.fit import fitted_relus
from provenet.lowest_layer.faces.model import SURE, WIDTH, Controlled, Unit
from provenet.lowest_layer.faces.thin_bands import (
    SIGNIFICANT,
    Labels,
    Peak,
    is_face,
    peak_at,
    thinner_and_thinner,
)
from provenet.lowest_layer.faces.tilts import asked_tilt, measured_tilt
from provenet.lowest_layer.faces.tolerances import (
    ASKED_LINES,
    MOST_ASKED,
    SAME_ANGLE,
    STALE_STEPS,
    WORTH_THINNER,
)

_ASKED_WIDTH = 4.0
"""Bands to ask in, over the error before."""

Ask = Callable[[Array], Array]
Over = Callable[[], bool]
"""Whether the time is over."""


def sharpened(data: Labels, start: Peak, h: float, step: float) -> Unit | None:
    """The jump near a candidate; None if there is none."""
    levels = thinner_and_thinner(data, start, 1, h, step)
    if not is_face(levels, 1):
        return None
    peak = next((p for p in reversed(levels) if p.significance > WORTH_THINNER), levels[0])
    w, t = peak.direction, peak.offset
    for _ in range(2):
        tilt = measured_tilt(data, w, t, 1, peak.h)
        if tilt.size > peak.h:
            break
        w, t = tilt.applied(w, t)
    angle, shift = (min(e, peak.h) for e in (tilt.angle_error, tilt.shift_error))
    return Unit(replace(peak, direction=w, offset=t), angle, shift, levels[0].significance)


def distinct(units: list[Unit], h: float, angle: float = SAME_ANGLE) -> list[Unit]:
    """Without those that are the same as an earlier one."""
    kept: list[Unit] = []
    for unit in units:
        if not any(unit.same_as(other, h, angle) for other in kept):
            kept.append(unit)
    return kept


def standing_steps(
    X: Array, y: Array, units: list[Unit], over: Over, settled: bool = False
) -> tuple[list[Unit], Controlled]:
    """Units whose jumps stand on labels from which the others are taken off, sharpened anew.

    Until a pass drops none: a first one is on labels from which the others are taken off roughly.
    """
    data = Controlled(X, y, units, 1)
    standing = []
    for i, unit in enumerate(units):
        labels, h = data.about(i), min(16 * unit.peak.h, WIDTH[1])
        sharper = sharpened(data.in_heights(i, labels), unit.peak, h, h / 4)
        if sharper is not None and sharper.sharp:
            plain = peak_at(labels, sharper.w, sharper.t, 1, WIDTH[1])
            peak = replace(sharper.peak, height=plain.height, error=plain.error)
            standing.append(replace(sharper, peak=peak))
        if over():
            standing += units[i + 1 :]
            break
    standing, data = _needed(X, y, standing)
    stays = len(standing) == len(units)
    if (stays and (settled or data.explained)) or over():
        return standing, data
    return standing_steps(X, y, standing, over, settled=stays)


def _needed(X: Array, y: Array, units: list[Unit]) -> tuple[list[Unit], Controlled]:
    """Steps without those without which all is explained as well."""
    data = Controlled(X, y, units, 1)
    if data.explained:
        for i in range(len(units)):
            if data.explained_without(i):
                return _needed(X, y, units[:i] + units[i + 1 :])
    return units, data


def standing_relus(
    X: Array, y: Array, units: list[Unit], over: Over
) -> tuple[list[Unit], Controlled]:
    """Units by least squares whose kinks stand on labels from which the others are taken off.

    If labels are explained to rounding, all units that this takes are there.
    """
    units = distinct(fitted_relus(units, X, y, over), WIDTH[2])
    data = Controlled(X, y, units, 2)
    standing = []
    for i, unit in enumerate(units):
        labels = data.about(i)
        plain, levels = peak_at(labels, unit.w, unit.t, 2, WIDTH[2]), _kink_levels(labels, unit)
        in_heights = data.in_heights(i, labels)
        if not is_face(levels, 2):
            levels = _kink_levels(in_heights, unit)
        unit = replace(unit, peak=plain, significance=levels[0].significance)
        if data.explained:
            standing.append(unit)
        elif is_face(levels, 2):
            standing.append(_unless_contradicted(in_heights, unit, levels))
    if len(standing) in (0, len(units)) or over():
        return standing, data
    return standing_relus(X, y, standing, over)


def _kink_levels(labels: Labels, unit: Unit) -> list[Peak]:
    """The statistic where least squares put a unit, in thinner bands while it is significant."""
    levels: list[Peak] = []
    h = WIDTH[2]
    while len(levels) < 2 or levels[-1].significance > SIGNIFICANT:
        levels.append(peak_at(labels, unit.w, unit.t, 2, h))
        h *= 0.5**0.5
    return levels


def _unless_contradicted(labels: Labels, unit: Unit, levels: list[Peak]) -> Unit:
    """The unit, moved if bands say that least squares put it wrong (its model may not suit)."""
    thin = next((p.h for p in reversed(levels) if p.significance > WORTH_THINNER), levels[0].h)
    tilt = measured_tilt(labels, unit.w, unit.t, 2, thin)
    if tilt.size > thin or tilt.size < SURE * max(tilt.angle_error, tilt.shift_error):
        return unit
    w, t = tilt.applied(unit.w, unit.t)
    peak = replace(unit.peak, direction=w, offset=t)
    return replace(unit, peak=peak, angle_error=tilt.angle_error, threshold_error=tilt.shift_error)


def all_asked(
    ask: Ask, units: list[Unit], order: int, angle: float, over: Over, rng: np.random.Generator
) -> tuple[list[Unit], int]:
    """The units sharpened by questions, and how many were asked."""
    count = 0

    def counted(X: Array) -> Array:
        nonlocal count
        count += len(X)
        return ask(X)

    return [_asked(counted, unit, order, angle, over, rng) for unit in units], count


def _asked(
    ask: Ask, unit: Unit, order: int, angle: float, over: Over, rng: np.random.Generator
) -> Unit:
    """Newton steps in bands of about the width of the last error, from questions in the bands.

    A step is off by its sampling error, and by its own square over the width of the bands; one that
    leaves the bands is not made, and wider ones are tried.
    """
    stale = 0
    for _ in range(MOST_ASKED):
        before = max(unit.angle_error, unit.threshold_error)
        if before <= angle or stale == STALE_STEPS or over():
            break
        h = _ASKED_WIDTH * before
        tilt, height, error = asked_tilt(ask, unit.w, unit.t, order, h, ASKED_LINES, rng)
        if tilt.size > h:
            turn = shift = 2 * before
            peak = unit.peak
        else:
            curved = 2 * tilt.size**2 / h
            turn, shift = (float(np.hypot(e, curved)) for e in (tilt.angle_error, tilt.shift_error))
            peak = Peak(*tilt.applied(unit.w, unit.t), height, error, h)
        unit = Unit(peak, turn, shift, unit.significance)
        stale = stale + 1 if max(turn, shift) > before / 2 else 0
    return unit
