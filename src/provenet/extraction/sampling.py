"""Random questions, in growing batches, until `recover` is sure: for noisy or rounded answers."""

from __future__ import annotations

import numpy as np

from provenet.certify.asked import stopped_early
from provenet.certify.result import Recovery
from provenet.common.exceptions import TimeSpent
from provenet.common.typing import Array, Progress
from provenet.common.words import counted
from provenet.extraction.oracle import Oracle
from provenet.extraction.units import Region
from provenet.recover import recover

_FIRST, _FIRST_A_FEATURE = 200, 12
_GROWTH = 1.6
_MOST, _MOST_A_FEATURE = 20_000, 200
"""Questions without a budget: who needs more may give one."""
_SECONDS_A_BATCH = 5.0
"""For the first; with too few points no attempt succeeds, and later ones may take longer."""
_SECONDS = 300.0
_SHORTEST = 0.01
"""Seconds that an attempt is given at least, however near the deadline is."""
_METHOD = "expand-prune"


def sampled(
    oracle: Oracle,
    region: Region,
    rng: np.random.Generator,
    *,
    noise: float | None = None,
    units: int | None = None,
    progress: Progress | None = None,
) -> Recovery:
    """Ask and recover until it succeeds, or the questions or five minutes are used up."""
    limit = _limit(oracle)
    size = max(_FIRST, _FIRST_A_FEATURE * oracle.features)
    X, y = np.empty((0, oracle.features)), None
    deadline, seconds = oracle.deadline.or_after(_SECONDS), _SECONDS_A_BATCH
    best = Recovery.nothing(_METHOD, "The budget allows no questions: raise budget.")
    while len(X) < limit and (y is None or not deadline.passed):
        # A last batch that would be hardly larger than this one is joined with it.
        size = limit if size * _GROWTH**0.5 > limit else size
        try:
            X, y = _grown(oracle, region, rng, X, y, size)
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
            budget=max(min(seconds, deadline.left), _SHORTEST),
        )
        if best.success:
            return best
        size, seconds = int(_GROWTH * size), _GROWTH * seconds
    return stopped_early(best, _exhausted(oracle, len(X)))


def _exhausted(oracle: Oracle, number: int) -> str:
    asked = counted(number, "random point")
    if not oracle.deadline.passed:
        return f"({asked} asked: more may do, see budget.)"
    allowed = f"{oracle.deadline.seconds:g} s allowed"
    return f"({asked} asked when the {allowed} were over: give more time with seconds=.)"


def _limit(oracle: Oracle) -> int:
    if oracle.remaining is not None:
        return oracle.remaining
    return _MOST + _MOST_A_FEATURE * oracle.features


def _grown(
    oracle: Oracle,
    region: Region,
    rng: np.random.Generator,
    X: Array,
    y: Array | None,
    size: int,
) -> tuple[Array, Array]:
    """More points and their answers; single precision stays what it is."""
    more = region.sample(size - len(X), rng).astype(oracle.input_dtype).astype(float)
    answers = oracle.ask(more)
    return np.vstack([X, more]), answers if y is None else np.concatenate([y, answers])
