"""All kinks of a piecewise linear function along a line, with few questions.

Between two points whose tangents are known, a single kink lies where the tangents meet. Two
questions, just before that place and just after it, confirm it: each value must lie on the tangent
of its own side. (The value at the place itself tells nothing: it lies on both tangents too if all
kinks are on one side of it.) If one does not, the two values are a tangent there, and the interval
is split; where tangents meet too near an end or not at all, it is split in its middle. All
intervals of a round are asked together.

Where kinks are expected, tangents are asked between them at once. Two that meet where one is
expected need no confirmation: with another kink between them they would meet elsewhere.

Tangents carry the error of rounding: of the values, and of the slope times the distance it is
extended over. What differs by less is the same. Where answers are rounded coarsely the steps that
slopes are measured over are longer: an error of e over a step h is one of e / h in the slope, and a
kink lies inside of a step the more often the longer it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.questions import Ask, ask_in_blocks
from provenet.extraction.segments import Segment
from provenet.extraction.tolerances import (
    AS_EXPECTED,
    COARSER,
    MOST_OPEN,
    MOST_ROUNDS,
    NARROW,
    NARROW_COARSER,
    NARROW_ROUNDED,
    NARROWEST,
    NEAR_AN_END,
    ROUNDED_COARSER,
    ROUNDING,
    SPLIT,
    TANGENT_STEP,
)

__all__ = ["Ask", "FollowedLine", "Tangent", "Trace", "trace_line"]


@dataclass(frozen=True)
class Tangent:
    """A value and a slope at t, and how far rounding lets each be off."""

    t: float
    value: Array
    slope: Array
    places: tuple[float, float]
    """Where the function was asked."""
    first: Array
    last: Array
    value_error: float = 0.0
    slope_error: float = 0.0

    def at(self, t: float) -> Array:
        """The tangent's value at another place."""
        return self.value + self.slope * (t - self.t)

    def error_at(self, t: float) -> float:
        """How far rounding lets that be off."""
        return self.value_error + self.slope_error * abs(t - self.t)


@dataclass(frozen=True)
class Trace:
    """Kinks along a line, in order."""

    kinks: Array
    complete: bool
    """False where intervals were given up: too narrow to be split, or after too many rounds."""


@dataclass(frozen=True)
class FollowedLine:
    """A line of inputs, and what was met on it."""

    segment: Segment
    trace: Trace


@dataclass(frozen=True)
class _Interval:
    left: Tangent
    right: Tangent

    @property
    def length(self) -> float:
        return self.right.t - self.left.t

    def is_straight(self) -> bool:
        """Whether both ends have the same tangent: no kink between them, or one in a million."""
        return all(
            np.abs(self.left.at(t) - self.right.at(t)).max() <= self.tolerance(t)
            for t in (self.left.t, self.right.t)
        )

    def tolerance(self, t: float) -> float:
        return self.left.error_at(t) + self.right.error_at(t)

    def meeting(self) -> float | None:
        """Where the tangents meet (of several outputs: nearest to it), if that is inside."""
        turn = self.left.slope - self.right.slope
        size = float(np.vdot(turn, turn))
        if size == 0.0:
            return None
        apart = self.right.at(self.left.t) - self.left.value
        t = self.left.t + float(np.vdot(apart, turn)) / size
        return t if self.left.t < t < self.right.t else None

    def is_kink_at(self, middle: Tangent) -> bool:
        """Whether the values beside a place lie each on the tangent of its own side."""
        error = middle.value_error + self.tolerance(middle.t)
        on_left = np.abs(middle.first - self.left.at(middle.places[0])).max() <= error
        return bool(
            on_left and np.abs(middle.last - self.right.at(middle.places[1])).max() <= error
        )

    def place_to_split(self, scale: float) -> float:
        """The meeting point, or the middle in orders of magnitude."""
        meeting, margin = self.meeting(), NEAR_AN_END * self.length
        if meeting is not None and self.left.t + margin < meeting < self.right.t - margin:
            return meeting
        return _middle(self.left.t, self.right.t, scale)


def trace_line(
    ask: Ask,
    origin: Array,
    direction: Array,
    reach: tuple[float, float],
    scale: float,
    rounding: float = ROUNDING,
    least: float = 0.0,
    expected: Array | None = None,
    coarse: float | None = None,
) -> Trace:
    """The kinks of `t -> f(origin + t direction)` between two places; most are within `scale`.

    `rounding` is the relative error of the function's values, and `least` an absolute one: what
    known units leave of a function is small, but their errors are not. Kinks may be `expected`. Of
    answers that are rounded `coarse` is the part of their size: steps are those that suit it.
    """
    low, high = reach
    line = _AlongLine(ask, origin, direction, scale, rounding, least, coarse, ends=(low, high))
    between = _between(np.empty(0) if expected is None else expected, low, high, scale)
    inner = line.tangents(between, centred=True)
    (left,), (right,) = line.tangents([(low, high - low)]), line.tangents([(high, low - high)])
    tangents = [left, *inner, right]
    steepest = max(float(np.abs(tangent.slope).max()) for tangent in tangents)
    line = replace(line, steepness=np.sqrt(len(origin)) * steepest)
    intervals = [_Interval(*pair) for pair in pairwise(map(line.judged, tangents))]
    kinks: list[float] = []
    if expected is not None:
        intervals = line.without_expected(intervals, expected, kinks)
    for _ in range(MOST_ROUNDS):
        intervals = [i for i in intervals if not i.is_straight()]
        if not intervals:
            return Trace(np.sort(kinks), True)
        if len(intervals) > MOST_OPEN:
            break
        intervals = line.round(intervals, kinks)
    return Trace(np.sort(kinks), False)


@dataclass(frozen=True)
class _AlongLine:
    """The function along a line."""

    ask: Ask
    origin: Array
    direction: Array
    scale: float
    rounding: float
    least: float
    coarse: float | None = None
    steepness: float = 0.0
    """Size of the gradient: inputs are rounded too, and units that cancel each other are."""
    ends: tuple[float, float] = (-np.inf, np.inf)
    """Beyond these nothing may be asked: the steps that coarse values need may be longer."""

    def values(self, ts: list[float]) -> Array:
        places = np.array(ts)[:, None]
        return ask_in_blocks(
            self.ask,
            len(ts),
            len(self.origin),
            lambda block: self.origin + places[block] * self.direction,
        )

    def without_expected(
        self, intervals: list[_Interval], expected: Array, kinks: list[float]
    ) -> list[_Interval]:
        """Intervals but those whose tangents meet where a kink is expected: there it is."""
        others = []
        for interval in intervals:
            meeting = None if interval.is_straight() else interval.meeting()
            if (
                meeting is None
                or not (
                    np.abs(expected - meeting) <= AS_EXPECTED * (abs(meeting) + self.scale)
                ).any()
            ):
                others.append(interval)
            else:
                kinks.append(meeting)
        return others

    def round(self, intervals: list[_Interval], kinks: list[float]) -> list[_Interval]:
        """Confirm the kinks that can be, and split the other intervals."""
        places = [interval.place_to_split(self.scale) for interval in intervals]
        rooms = [interval.length for interval in intervals]
        middles = self.tangents(list(zip(places, rooms, strict=True)), centred=True)
        parts: list[_Interval] = []
        for interval, middle in zip(intervals, middles, strict=True):
            if interval.is_kink_at(middle):
                kinks.append(middle.t)
            elif interval.length > self._narrow * (abs(middle.t) + self.scale):
                parts += [_Interval(interval.left, middle), _Interval(middle, interval.right)]
        return parts

    @property
    def _narrow(self) -> float:
        """Relative length of an interval that is not split: of coarse values a longer one."""
        if self.coarse is not None:
            return float(min(NARROWEST, NARROW * (self.coarse / ROUNDING) ** NARROW_ROUNDED))
        return float(min(NARROWEST, NARROW * (self.rounding / ROUNDING) ** NARROW_COARSER))

    def tangents(self, places: list[tuple[float, float]], centred: bool = False) -> list[Tangent]:
        """Tangents at places with the (signed) room beside each; two questions a place."""
        if not places:
            return []
        pairs = []
        for t, room in places:
            step = self._step(t, room)
            pairs.append((self._inside(t - step) if centred else t, self._inside(t + step)))
        values = self.values([t for pair in pairs for t in pair])
        return [
            self.judged(_tangent(t, *pair, fa, fb))
            for (t, _), pair, fa, fb in zip(places, pairs, values[::2], values[1::2], strict=True)
        ]

    def _inside(self, t: float) -> float:
        return min(max(t, self.ends[0]), self.ends[1])

    def _step(self, t: float, room: float) -> float:
        """Short against the room, and against the distance between kinks in this place.

        The coarser the values are, the longer: a slope is as good as they are over the step.
        """
        if self.coarse is not None:
            part = TANGENT_STEP * (self.coarse / ROUNDING) ** ROUNDED_COARSER
        else:
            part = TANGENT_STEP * (self.rounding / ROUNDING) ** COARSER
        return float(np.copysign(part * min(abs(room), abs(t) + self.scale), room))

    def judged(self, tangent: Tangent) -> Tangent:
        """A tangent with the errors that rounding may have."""
        a, b = tangent.places
        values = max(float(np.abs(tangent.first).max()), float(np.abs(tangent.last).max()))
        reach = abs(tangent.t) + float(np.linalg.norm(self.origin))
        error = self.rounding * (values + self.steepness * reach) + self.least
        return replace(tangent, value_error=error, slope_error=2 * error / abs(b - a))


def _between(expected: Array, low: float, high: float, scale: float) -> list[tuple[float, float]]:
    """Places between kinks that are expected, and their room; without any, one for a start."""
    inside = np.sort(expected[(expected > low) & (expected < high)])
    apart = np.diff(inside) > 10 * AS_EXPECTED * (np.abs(inside[1:]) + scale)
    inside = np.append(inside[:1], inside[1:][apart])
    if len(inside) < 2:
        margin = NEAR_AN_END * (high - low)
        return [(0.0 if low + margin < 0 < high - margin else (low + high) / 2, high - low)]
    return [(_middle(a, b, scale), b - a) for a, b in pairwise(inside.tolist())]


def _middle(low: float, high: float, scale: float) -> float:
    """In orders of magnitude."""
    ends = np.arcsinh([low / scale, high / scale])
    return float(scale * np.sinh((1 - SPLIT) * ends[0] + SPLIT * ends[1]))


def _tangent(t: float, a: float, b: float, fa: Array, fb: Array) -> Tangent:
    slope = (fb - fa) / (b - a)
    return Tangent(t, fa + slope * (t - a), slope, (a, b), fa, fb)
