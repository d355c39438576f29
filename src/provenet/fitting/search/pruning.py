"""Pruning: units that cost nothing are dropped, and the rest is refined in between."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.common.typing import AnyArray
from provenet.fitting.levenberg_marquardt import Fit
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.units import usefulness
from provenet.fitting.tolerances import (
    PRUNE_CANDIDATES,
    PRUNE_LAST_STEPS,
    PRUNE_STEPS,
    PRUNE_TOLERANCE,
    PRUNE_ZERO_TOLERANCE,
    SWAP_STEPS,
)


def prune(problem: Problem, fit: Fit, most: int | None = None) -> tuple[Fit, Fit | None]:
    """Drop units while that costs nothing, and until at most `most` are left, refining in between.

    Returns the narrowest good fit, and the best fit with one unit fewer that was rejected.
    """
    # A redundant unit leaves a residual near zero behind after a few steps, or never.
    nothing = problem.is_zero(fit)
    iterations = PRUNE_STEPS if nothing else SWAP_STEPS
    tolerance = PRUNE_ZERO_TOLERANCE if nothing else PRUNE_TOLERANCE
    while fit.parameters.units > 0:
        too_many = most is not None and fit.parameters.units > most
        best: Fit | None = None
        for drop in _choices_to_drop(problem, fit):
            kept = np.ones(fit.parameters.units, dtype=bool)
            kept[drop] = False
            trial = problem.refine_in_steps(
                fit.parameters.keep(kept), iterations, tolerance, PRUNE_LAST_STEPS
            )
            if nothing:
                trial = problem.refine_near_zero(trial)
            if _as_good(problem, trial, fit):
                best = trial
                break
            if len(drop) == 1 and (best is None or trial.rss < best.rss):
                best = trial
        if best is None or not (too_many or _as_good(problem, best, fit)):
            return fit, best
        fit = best
    return fit, None


def _choices_to_drop(problem: Problem, fit: Fit) -> Iterator[AnyArray]:
    """Half of the units that look useless, all at once; then the least useful ones singly."""
    cost = usefulness(problem, fit.parameters)
    order = np.argsort(cost)
    n, a_unit = problem.samples.labels, problem.a_unit
    if problem.is_zero(fit):
        useless = cost < n * problem.zero**2
    else:
        useless = n * np.log1p(cost / fit.rss) < a_unit * np.log(n)
    several = int(useless.sum()) // 2
    if several > 1:
        yield order[:several]
    for j in order[:PRUNE_CANDIDATES]:
        yield np.array([j])


def _as_good(problem: Problem, narrower: Fit, fit: Fit) -> bool:
    if problem.is_zero(fit):
        return problem.is_zero(narrower)
    return problem.criterion(narrower) < problem.criterion(fit)
