"""What is asked of a network that was fitted to a model's random answers, once it is found.

It was judged as samples are; now the first questions are asked again, and points beyond those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.answered import AGREES, Answered, where_off
from provenet.certify.asked import SEARCHED, TO_AGREE, came_to_its_end
from provenet.certify.asked_layers import named
from provenet.certify.checks import Check, Status
from provenet.certify.result import Recovery
from provenet.certify.tolerances import (
    FURTHER_OUT,
    MORE_AT_THE_END,
    MORE_BY_STEPS,
    MORE_IN_FLOATS,
    OUTLIERS_AT_THE_END,
)
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.networks.any_network import AnyNetwork
from provenet.networks.cells import inputs_of_units


def stopped_early(result: Recovery, reason: str) -> Recovery:
    """The same answer of a search that was stopped before its end, for this reason."""
    message = f"{result.message} {reason}"
    return replace(result.with_checks(came_to_its_end(message)), message=message)


@dataclass(frozen=True)
class OnLines:
    """Points on lines that led to a network's units."""

    points: Answered
    farther: Array
    """How many times as far out as usual inputs each is."""


def judged_again(
    result: Recovery,
    sampled: Answered,
    again: Answered,
    beyond: Answered,
    on_kinks: Answered,
    on_lines: OnLines | None = None,
) -> Recovery:
    """The same answer, if its network predicts questions asked again as well as at first.

    Where answers are exact, it must predict points beyond those that it was fitted to as well,
    where units have kinks, those on them, and where lines led to them, those on the lines.
    """
    network = result.network
    assert network is not None, "a success has one"
    questions = [_the_same_as_sampled(result.status, network, sampled, again)]
    if len(beyond):
        questions.append(_points_beyond_are_predicted(network, sampled, beyond))
    if len(on_kinks):
        questions.append(_points_on_kinks_are_predicted(result, sampled, on_kinks))
    if on_lines is not None and len(on_lines.points):
        questions.append(_points_on_lines_are_predicted(network, sampled, on_lines))
    return result.with_checks(*questions)


def _points_on_lines_are_predicted(
    network: AnyNetwork, sampled: Answered, on_lines: OnLines
) -> Check:
    """Errors of weights grow with the distance, and so does rounding."""
    points = on_lines.points
    allowed = FURTHER_OUT * allowed_for_noise(network, sampled) * (1 + on_lines.farther[:, None])
    agree = np.asarray((points.left_by(network) <= allowed).all(axis=1))
    return Check(
        "points on the lines that led to the units are predicted",
        bool(agree.all()),
        f"{int(agree.sum())} of {len(agree)}",
        f"all, to {FURTHER_OUT:g} times what noise allows, and more farther out",
        f"{counted(network.units, 'unit')} explain usual inputs, but not {int((~agree).sum())} of "
        f"{len(agree)} points on lines that go farther out: units that hardly any usual input "
        "switches are missing. Ask for inputs there with low= and high=.",
        Status.PARTIAL,
        samples=len(agree),
    )


def _the_same_as_sampled(
    status: Status, network: AnyNetwork, sampled: Answered, again: Answered
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


def allowed_for_noise(
    network: AnyNetwork, sampled: Answered, most: float = MORE_AT_THE_END
) -> Array:
    """What an answer may be off by for its noise: so many deviations of it."""
    noise = np.sqrt(np.mean(sampled.left_by(network) ** 2, axis=0))
    return np.asarray(most * noise + sampled.allowed(AGREES))


def _points_on_kinks_are_predicted(
    result: Recovery, sampled: Answered, on_kinks: Answered
) -> Check:
    """A unit's points are those nearest to its kink; noise alone may be far off at one of them."""
    network, certificate = result.network, result.certificate
    assert network is not None, "a success has one"
    most = 0 if certificate is not None and certificate.label_rounding > 0 else 1
    steps = certificate is not None and certificate.rounded
    if steps and certificate is not None:  # unless these are coarser than the answers are
        left = float(np.sqrt(np.mean(sampled.left_by(network) ** 2)))
        steps = left > certificate.label_rounding / 2
    deviations = MORE_BY_STEPS if steps else MORE_AT_THE_END if most else MORE_IN_FLOATS
    agree = on_kinks.explained_by(network, allowed_for_noise(network, sampled, deviations))
    whose = np.abs(inputs_of_units(network, on_kinks.X)[0]).argmin(axis=1)
    off = np.flatnonzero(np.bincount(whose, ~agree, network.units) > most)
    return Check(
        "points on the kinks are predicted",
        len(off) == 0,
        f"{int(agree.sum())} of {len(agree)}",
        "all of every unit, but one" if most else "all",
        f"{counted(network.units, 'unit')} explain random points, but not points on the kinks of "
        f"{named(network, off)} and beside them: these are two or more units with almost the same "
        "hyperplane.",
        Status.PARTIAL,
        samples=len(agree),
    )


def _points_beyond_are_predicted(network: AnyNetwork, sampled: Answered, beyond: Answered) -> Check:
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
