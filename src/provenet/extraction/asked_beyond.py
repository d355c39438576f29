"""What a model is asked once a network was fitted to its random answers.

The first questions again, and points that may refute the network: beyond the others where answers
are exact, on kinks and across them, and far out or in corners where answers are rounded. Nothing is
judged here: `certify.asked_again` does that.
"""

from __future__ import annotations

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.asked_again import (
    AcrossKinks,
    FartherOut,
    allowed_for_noise,
    is_by_steps,
    judged_again,
    stopped_early,
)
from provenet.certify.result import Recovery
from provenet.common.exceptions import Spent
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.extraction.box import Box
from provenet.extraction.confirming import (
    few_searched_points,
    points_across_kinks,
    points_farther_out,
    points_on_kinks,
)
from provenet.extraction.deadline import Deadline
from provenet.extraction.oracle import Oracle
from provenet.extraction.tolerances import ALONG_A_KINK, ASKED_AGAIN
from provenet.networks.network import Network


def asked_beyond(
    oracle: Oracle,
    box: Box,
    rng: np.random.Generator,
    found: Recovery,
    asked: Answered,
    number: int,
    lines: FartherOut | None = None,
    step: float = 0.0,
) -> Recovery:
    """What the first questions say of an answer when they are asked again, and searched points.

    `step` is that of answers that are decimals. Two units close to each other differ from one
    between their kinks alone, where random points hardly ever are: those on the kinks and across
    them tell.
    """
    assert found.network is not None, "a success has one"
    first, network = asked.X[:ASKED_AGAIN], found.network
    try:
        again = Answered(first, oracle.ask(first, fresh=True))
        beyond = _answered(oracle, _searched(network, box, rng, number))
        if network.layers > 1 or not network.activation.kinked:
            return judged_again(found, asked, again, beyond)
        if found.certificate is None or found.certificate.label_rounding == 0:
            on_kinks = _answered(oracle, points_on_kinks(network, box, rng))
            return judged_again(found, asked, again, beyond, on_kinks=on_kinks)
        times = ALONG_A_KINK if step and box.unlimited and is_by_steps(found, asked) else 1.0
        across = _across(oracle, box, rng, network, asked, times)
        farther = _farther_out(oracle, box, rng) + across.farther_out(box.centre, box.width)
        farther = farther if lines is None else farther + lines
    except Spent:  # what may refute it was not asked: that is no success
        return stopped_early(found, exhausted(oracle.deadline, len(asked)))
    return judged_again(found, asked, again, beyond, across=across, farther=farther)


def _answered(oracle: Oracle, X: Array) -> Answered:
    """In the precision that inputs have."""
    X = oracle.as_asked(X)
    return Answered(X, oracle.ask(X))


def _searched(network: Network, box: Box, rng: np.random.Generator, number: int) -> Array:
    if number == 0:
        return np.empty((0, network.features))
    return few_searched_points(network, box, rng, number)


def _across(
    oracle: Oracle,
    box: Box,
    rng: np.random.Generator,
    network: Network,
    asked: Answered,
    times: float,
) -> AcrossKinks:
    """Far out two units are farther apart; decimals are the same there, floats are coarser."""
    allowed = allowed_for_noise(network, asked)
    X, whose = points_across_kinks(network, allowed, box, rng, times)
    return AcrossKinks(_answered(oracle, X), whose, times)


def _farther_out(oracle: Oracle, box: Box, rng: np.random.Generator) -> FartherOut:
    return FartherOut.of(_answered(oracle, points_farther_out(box, rng)), box.centre, box.width)


def exhausted(deadline: Deadline, number: int) -> str:
    """What ended the search, and what to give more of."""
    asked = counted(number, "random point")
    if not deadline.passed:
        return f"({asked} asked: more may do, see budget.)"
    allowed = f"{deadline.seconds:g} s allowed"
    return f"({asked} asked when the {allowed} were over: give more time with seconds=.)"
