"""What is asked of a network that was fitted to a model's random answers, once it is found.

It was judged as samples are; now the first questions are asked again, and points beyond those.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from provenet.certify.answered import AGREES, Answered, where_off
from provenet.certify.asked import SEARCHED, TO_AGREE, came_to_its_end
from provenet.certify.checks import Check, Status
from provenet.certify.result import Recovery
from provenet.certify.tolerances import MORE_AT_THE_END, OUTLIERS_AT_THE_END
from provenet.common.words import counted
from provenet.networks.any_network import AnyNetwork


def stopped_early(result: Recovery, reason: str) -> Recovery:
    """The same answer of a search that was stopped before its end, for this reason."""
    message = f"{result.message} {reason}"
    return replace(result.with_checks(came_to_its_end(message)), message=message)


def judged_again(
    result: Recovery, sampled: Answered, again: Answered, beyond: Answered
) -> Recovery:
    """The same answer, if its network predicts questions asked again as well as at first.

    Where answers are exact, it must predict points beyond those that it was fitted to as well.
    """
    network = result.network
    assert network is not None, "a success has one"
    questions = [_the_same_as_sampled(result.status, network, sampled, again)]
    if len(beyond):
        questions.append(_points_beyond_are_predicted(network, sampled, beyond))
    return result.with_checks(*questions)


def _the_same_as_sampled(
    status: Status, network: AnyNetwork, sampled: Answered, again: Answered
) -> Check:
    noise = np.sqrt(np.mean(sampled.left_by(network) ** 2, axis=0))
    allowed = MORE_AT_THE_END * noise + sampled.allowed(AGREES)
    same = np.asarray((again.left_by(network) <= allowed).all(axis=1))
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
