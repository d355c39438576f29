"""A classifier's network from inputs where its probabilities tell the outputs behind them.

Two roads. In a box without saturated inputs the outputs are traced as those of any network
(`linked`). A box that is much smaller than the inputs may miss units: then random inputs are asked,
and those whose probabilities are not saturated are fitted (`recover` with a link), which needs more
questions and serves one hidden layer of not too many units.

Either way the network must predict the probabilities of other inputs, saturated or not, as closely
as their digits tell: a unit that is off in all of the box shows there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.checks import Check, Status
from provenet.certify.result import Recovery
from provenet.common.exceptions import Spent
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.extraction.box import Box
from provenet.extraction.confirming import searched_points
from provenet.extraction.oracle import Oracle
from provenet.extraction.tolerances import (
    BEYOND_THE_BOX,
    MOST_UNSATURATED,
    SAME_PROBABILITY,
    SECONDS_A_BATCH,
    UNSATURATED_AT_FIRST,
    UNSATURATED_GROWTH,
)
from provenet.networks.network import probabilities
from provenet.recover import recover


def fitted_where_told(
    oracle: Oracle, box: Box, rng: np.random.Generator, link: str, options: Mapping[str, Any]
) -> Recovery:
    """Random inputs, more and more of them, until those that tell their outputs tell a network."""
    size, best = UNSATURATED_AT_FIRST, Recovery.nothing("expand-prune", _TOO_FEW)
    X = np.empty((0, oracle.features))
    while size <= MOST_UNSATURATED:
        try:
            X = np.vstack([X, box.sample(size - len(X), rng).astype(oracle.input_dtype)])
            p = oracle.ask(X)
        except Spent:
            return best
        seconds = min(SECONDS_A_BATCH, max(oracle.deadline.left, 1.0))
        best = recover(X, p, link=link, budget=seconds, rng=rng, **options)
        best = replace(best, asked=Answered(X, p))
        if best.success or oracle.deadline.passed:
            return best
        size = UNSATURATED_GROWTH * size
    return best


_TOO_FEW = "The budget allows too few questions: raise budget."


def beyond_the_box(
    result: Recovery, oracle: Oracle, box: Box, rng: np.random.Generator
) -> Recovery:
    """Whether inputs of all kinds get the probabilities that the network gives them.

    A limit on the outputs shows at the extremes of the network's own.
    """
    if not result.success:
        return result
    searched = searched_points(result.network, box, rng)
    X = np.vstack([box.sample(BEYOND_THE_BOX, rng), box.corners(BEYOND_THE_BOX, rng), searched])
    X = oracle.as_asked(X)
    try:
        p = oracle.ask(X).reshape(len(X), -1)
    except Spent:
        return result.with_checks(_not_asked(len(X)))
    return result.with_checks(_predicts(result, X, p, oracle))


_ELSEWHERE = "probabilities of other inputs are predicted"


def _not_asked(number: int) -> Check:
    advice = (
        "The network explains the answers where the model is not saturated; questions or time were "
        "spent before others were asked: raise budget, or seconds."
    )
    return Check(_ELSEWHERE, False, "not asked", f"{number:,} asked", advice, Status.PARTIAL)


def _predicts(result: Recovery, X: Array, p: Array, oracle: Oracle) -> Check:
    network = result.network
    predicted = probabilities(network(X), network.link)
    off = np.abs(predicted[:, -p.shape[1] :] - p).max(axis=1, initial=0.0)
    double, single = SAME_PROBABILITY
    precise = oracle.input_dtype == oracle.answer_dtype == np.float64
    allowed = double if precise else single
    wrong = int(np.sum(off > allowed))
    return Check(
        _ELSEWHERE,
        wrong == 0,
        f"{wrong:,} of {len(p):,} are off, by up to {off.max(initial=0.0):.1e}",
        f"none, by more than {allowed:g}",
        _elsewhere(wrong) if wrong else "",
        Status.PARTIAL,
        samples=len(p),
    )


def _elsewhere(wrong: int) -> str:
    return (
        "The network explains the answers where the model is not saturated, but not those of "
        f"{counted(wrong, 'other input')}: there are units whose kinks lie elsewhere. Limit the "
        "inputs with low= and high= to where they are, or ask for the outputs before the last "
        "layer."
    )
