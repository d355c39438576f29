"""Random questions, in growing batches, until `recover` is sure: for noisy or rounded answers."""

from __future__ import annotations

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.asked import judged_again, stopped_early
from provenet.certify.result import Recovery
from provenet.common.exceptions import Spent, TimeSpent
from provenet.common.typing import Array, Progress
from provenet.common.words import counted
from provenet.extraction.box import Box
from provenet.extraction.oracle import Oracle
from provenet.extraction.tolerances import (
    ASKED_AGAIN,
    FIRST,
    FIRST_A_FEATURE,
    GROWTH,
    MOST_POINTS,
    MOST_POINTS_A_FEATURE,
    MOST_SECONDS,
    SECONDS_A_BATCH,
    SHORTEST,
)
from provenet.recover import recover

_METHOD = "expand-prune"


def sampled(
    oracle: Oracle,
    box: Box,
    rng: np.random.Generator,
    *,
    noise: float | None = None,
    units: int | None = None,
    progress: Progress | None = None,
) -> Recovery:
    """Ask and recover until it succeeds, or the questions or five minutes are used up."""
    limit = _limit(oracle)
    size = max(FIRST, FIRST_A_FEATURE * oracle.features)
    X, y = np.empty((0, oracle.features)), None
    deadline, seconds = oracle.deadline.or_after(MOST_SECONDS), SECONDS_A_BATCH
    best = Recovery.nothing(_METHOD, "The budget allows no questions: raise budget.")
    while len(X) < limit and (y is None or not deadline.passed):
        # A last batch that would be hardly larger than this one is joined with it.
        size = limit if size * GROWTH**0.5 > limit else size
        try:
            X, y = _grown(oracle, box, rng, X, y, size)
        except TimeSpent:
            if y is None:
                raise
            break
        if progress is not None:
            progress("ask", -1, counted(len(X), "random point"))
        best = recover(
            X,
            y,
            method=_METHOD,
            noise=noise,
            units=units,
            rng=rng,
            progress=progress,
            budget=max(min(seconds, deadline.left), SHORTEST),
        )
        if best.success:
            return _asked_again(oracle, best, X, y)
        size, seconds = int(GROWTH * size), GROWTH * seconds
    return stopped_early(best, _exhausted(oracle, len(X)))


def _asked_again(oracle: Oracle, found: Recovery, X: Array, y: Array) -> Recovery:
    """What the first questions of all say of an answer when they are asked again."""
    try:
        again = oracle.ask(X[:ASKED_AGAIN], fresh=True)
    except Spent:
        return found
    return judged_again(found, Answered(X, y), Answered(X[:ASKED_AGAIN], again))


def _exhausted(oracle: Oracle, number: int) -> str:
    asked = counted(number, "random point")
    if not oracle.deadline.passed:
        return f"({asked} asked: more may do, see budget.)"
    allowed = f"{oracle.deadline.seconds:g} s allowed"
    return f"({asked} asked when the {allowed} were over: give more time with seconds=.)"


def _limit(oracle: Oracle) -> int:
    if oracle.remaining is not None:
        return oracle.remaining - ASKED_AGAIN
    return MOST_POINTS + MOST_POINTS_A_FEATURE * oracle.features


def _grown(
    oracle: Oracle,
    box: Box,
    rng: np.random.Generator,
    X: Array,
    y: Array | None,
    size: int,
) -> tuple[Array, Array]:
    """More points and their answers; single precision stays what it is."""
    more = box.sample(size - len(X), rng).astype(oracle.input_dtype).astype(float)
    answers = oracle.ask(more)
    return np.vstack([X, more]), answers if y is None else np.concatenate([y, answers])
