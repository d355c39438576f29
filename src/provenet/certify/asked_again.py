"""What is asked of a network that was fitted to a model's random answers, once it is found.

It was judged as samples are; now the first questions are asked again, and points beyond those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.answered import AGREES, Answered, where_off
from provenet.certify.asked import SEARCHED, TO_AGREE, came_to_its_end
from provenet.certify.asked_layers import named
from provenet.certify.checks import Check, Status
from provenet.certify.result import Recovery
from provenet.certify.tolerances import (
    FURTHER_OUT,
    HALVES_HIDE,
    HALVES_SHOW,
    MORE_AT_THE_END,
    MORE_BY_STEPS,
    MORE_IN_FLOATS,
    OUTLIERS_AT_THE_END,
)
from provenet.common.typing import AnyArray, Array
from provenet.common.words import counted
from provenet.data.labels import label_precision
from provenet.networks.network import Network
from provenet.networks.piecewise import inputs_of_units

_TINIEST = 1e-300
"""Keeps a division by zero away. A convention."""


def stopped_early(result: Recovery, reason: str) -> Recovery:
    """The same answer of a search that was stopped before its end, for this reason."""
    message = f"{result.message} {reason}"
    return replace(result.with_checks(came_to_its_end(message)), message=message)


@dataclass(frozen=True)
class FartherOut:
    """Points that usual inputs do not stand for: on lines, far out, in corners of a box."""

    points: Answered
    farther: Array
    """How many times as far out as usual inputs each is."""

    @classmethod
    def of(cls, points: Answered, centre: Array, width: Array) -> FartherOut:
        """Points of inputs that have this centre and width."""
        return cls(points, np.sqrt(np.mean(((points.X - centre) / width) ** 2, axis=1)))

    def __getitem__(self, rows: AnyArray) -> FartherOut:
        """Some of them."""
        return FartherOut(self.points[rows], self.farther[rows])

    def __add__(self, other: FartherOut) -> FartherOut:
        """All of both."""
        return FartherOut(self.points + other.points, np.append(self.farther, other.farther))


@dataclass(frozen=True)
class AcrossKinks:
    """Points on a normal of every unit's hyperplane."""

    points: Answered
    whose: AnyArray
    """The unit that each of these belongs to."""
    times: float
    """How many times as far out as usual inputs they lie."""

    def farther_out(self, centre: Array, width: Array) -> FartherOut:
        """The same points, with how far out they are."""
        return FartherOut.of(self.points, centre, width)

    def one_kink_leaves(self, network: Network, unit: int) -> Array:
        """What a single kink leaves of a unit's points at most, an output."""
        own = self.points[self.whose == unit]
        w = network.affine_maps[0][0][unit]
        places = own.X @ (w / np.linalg.norm(w))
        return np.array([left_by_one_kink(places, y) for y in own.values.T])


def judged_again(
    result: Recovery,
    sampled: Answered,
    again: Answered,
    beyond: Answered | None = None,
    on_kinks: Answered | None = None,
    across: AcrossKinks | None = None,
    farther: FartherOut | None = None,
) -> Recovery:
    """The same answer, if its network predicts questions asked again as well as at first.

    Where answers are exact, it must predict points beyond those that it was fitted to as well, and
    where units have kinks, those on them. Where answers are rounded, a single kink must explain
    those across each, and points farther out must be predicted.
    """
    network = result.network
    assert network is not None, "a success has one"
    questions = [_the_same_as_sampled(result.status, network, sampled, again)]
    if beyond is not None and len(beyond):
        questions.append(_points_beyond_are_predicted(network, sampled, beyond))
    if on_kinks is not None and len(on_kinks):
        questions.append(_points_on_kinks_are_predicted(network, sampled, on_kinks))
    if across is not None:
        questions.append(_one_kink_a_unit_explains(result, sampled, across))
        closest = _found_as_one(result, sampled, across)
        result = replace(result, ambiguities=(*result.ambiguities, closest))
    if farther is not None:
        questions.append(_points_farther_out_are_predicted(network, sampled, farther))
    return result.with_checks(*questions)


def _points_farther_out_are_predicted(
    network: Network, sampled: Answered, farther: FartherOut
) -> Check:
    """Errors of weights grow with the distance, and so does rounding."""
    points = farther.points
    allowed = FURTHER_OUT * allowed_for_noise(network, sampled) * (1 + farther.farther[:, None])
    agree = np.asarray((points.left_by(network) <= allowed).all(axis=1))
    return Check(
        "points farther out are predicted",
        bool(agree.all()),
        f"{int(agree.sum())} of {len(agree)}",
        f"all, to {FURTHER_OUT:g} times what noise allows, and more farther out",
        f"{counted(network.units, 'unit')} explain usual inputs, but not {int((~agree).sum())} of "
        f"{len(agree)} points that lie farther out: units that hardly any usual input switches are "
        "missing, or answers have a limit. Ask for inputs there with low= and high=.",
        Status.PARTIAL,
        samples=len(agree),
    )


def _the_same_as_sampled(
    status: Status, network: Network, sampled: Answered, again: Answered
) -> Check:
    same = again.explained_by(network, allowed_for_noise(network, sampled))
    few = 0 if status is Status.EXACT else len(same) // OUTLIERS_AT_THE_END
    return Check(
        "the same questions get the same answers",
        int(np.sum(~same)) <= few,
        f"{int(same.sum())} of {len(same)} predicted again",
        f"{len(same) - few} at least",
        "Questions that were asked again at the end got other answers than at the beginning: "
        "the model changes while it is asked.",
        samples=len(same),
    )


def allowed_for_noise(network: Network, sampled: Answered, most: float = MORE_AT_THE_END) -> Array:
    """What an answer may be off by for its noise: so many deviations of it."""
    noise = np.sqrt(np.mean(sampled.left_by(network) ** 2, axis=0))
    return np.asarray(most * noise + sampled.allowed(AGREES))


def is_by_steps(result: Recovery, sampled: Answered) -> bool:
    """Whether rounding to steps, the same for all answers, explains what a network leaves."""
    certificate, widths = result.certificate, label_precision(sampled.y).widths
    if certificate is None or not certificate.rounded:
        return False
    return bool(np.all(widths > 0) and np.all(np.ptp(widths, axis=0) == 0))


def _one_kink_a_unit_explains(result: Recovery, sampled: Answered, across: AcrossKinks) -> Check:
    """Up to rounding alone: that a kink lies a little elsewhere is no matter here."""
    network, allowed = result.network, _allowed_across(result, sampled, across)
    assert network is not None, "a success has one"
    units = np.unique(across.whose)
    off = [i for i in units if (across.one_kink_leaves(network, i) > allowed[i]).any()]
    return Check(
        "one kink a unit explains the points across it",
        len(off) == 0,
        f"{len(units) - len(off)} of {len(units)}",
        "all",
        f"{counted(network.units, 'unit')} explain random points, but not points on the kinks of "
        f"{named(network, np.array(off, dtype=int))} and beside them: these are two or more units "
        "with almost the same hyperplane.",
        Status.PARTIAL,
        samples=len(across.points),
    )


def _allowed_across(result: Recovery, sampled: Answered, across: AcrossKinks) -> Array:
    """What points across the kink of each unit may be off by, (units, outputs).

    Rounding to steps is the same everywhere, that of floats as large as answers are.
    """
    network = result.network
    assert network is not None, "a success has one"
    if is_by_steps(result, sampled):
        allowed = allowed_for_noise(network, sampled, MORE_BY_STEPS)
        return np.broadcast_to(allowed, (network.units, len(allowed)))
    usual = np.sqrt(np.mean(sampled.values**2, axis=0))
    sizes = [np.abs(across.points[across.whose == i].values) for i in range(network.units)]
    largest = np.array([own.max(axis=0, initial=0.0) for own in sizes])
    larger = np.maximum(largest / np.maximum(usual, _TINIEST), 1.0)
    return np.asarray(larger * allowed_for_noise(network, sampled, MORE_IN_FLOATS))


def _found_as_one(result: Recovery, sampled: Answered, across: AcrossKinks) -> str:
    """How close two units may be, at usual inputs, without a point across that shows it.

    Two halves of a unit of slope a whose kinks are e apart are `a e / 4` above it between them; the
    best single kink leaves half of that.
    """
    network, allowed = result.network, _allowed_across(result, sampled, across)
    assert network is not None, "a success has one"
    (weights, _), (A, _) = network.affine_maps
    slopes = np.abs(A) * np.linalg.norm(weights, axis=1)
    apart = HALVES_SHOW * np.min(allowed.T / np.maximum(slopes, _TINIEST), axis=0)
    closest = HALVES_HIDE * float(apart.max(initial=0.0)) / across.times
    return (
        f"Two units whose kinks are less than {closest:.0e} apart at usual "
        "inputs may be found as one: rounding hides what lies between them."
    )


def _points_on_kinks_are_predicted(
    network: Network, sampled: Answered, on_kinks: Answered
) -> Check:
    """A unit's points are those nearest to its kink; noise alone may be far off at one of them."""
    agree = on_kinks.explained_by(network, allowed_for_noise(network, sampled))
    whose = np.abs(inputs_of_units(network, on_kinks.X)[0]).argmin(axis=1)
    off = np.flatnonzero(np.bincount(whose, ~agree, network.units) > 1)
    return Check(
        "points on the kinks are predicted",
        len(off) == 0,
        f"{int(agree.sum())} of {len(agree)}",
        "all of every unit, but one",
        f"{counted(network.units, 'unit')} explain random points, but not points on the kinks of "
        f"{named(network, off)}: these are two or more units with almost the same hyperplane.",
        Status.PARTIAL,
        samples=len(agree),
    )


def _points_beyond_are_predicted(network: Network, sampled: Answered, beyond: Answered) -> Check:
    together = sampled + beyond
    allowed = together.allowed(AGREES)
    agree = beyond.explained_by(network, allowed)
    place = where_off(together, together.explained_by(network, allowed))
    return Check(
        f"{SEARCHED} are predicted",
        bool(agree.all()),
        f"{int(agree.sum())} of {len(agree)}",
        TO_AGREE,
        f"{counted(network.units, 'unit')} explain the {len(sampled)} random points exactly, but "
        f"{int((~agree).sum())} of {len(agree)} {SEARCHED} are off. {place} The function is such "
        "a network at most inputs only.",
        samples=len(agree),
    )


def left_by_one_kink(places: Array, values: Array) -> float:
    """The largest error of the best function with one kink, or with none.

    Two straight lines that meet between two neighbouring places, or at one of them.
    """
    order = np.argsort(places)
    t, y = places[order] - places.mean(), values[order]
    return min((float(np.abs(left).max()) for left in _left(t, y)), default=0.0)


def _left(t: Array, y: Array) -> Iterator[Array]:
    for place in t:
        yield _residual(np.column_stack([np.ones_like(t), t, np.maximum(t - place, 0.0)]), y)
    for k in range(2, len(t) - 2 + 1):
        sides = slice(None, k), slice(k, None)
        lines = [np.polyfit(t[side], y[side], 1) for side in sides]
        slope, height = lines[1] - lines[0]
        if slope != 0 and t[k - 1] <= -height / slope <= t[k]:
            yield y - np.where(np.arange(len(t)) < k, *(np.polyval(line, t) for line in lines))


def _residual(columns: Array, y: Array) -> Array:
    return np.asarray(y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0])
