"""Pruning: units that cost nothing are dropped, and the rest is refined in between."""

from __future__ import annotations

from provenet.fitting.least_squares import Ended, Fit
from provenet.fitting.model import Parameters
from provenet.fitting.search.moves import moves_of
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.tolerances import (
    PRUNE_LAST_STEPS,
    PRUNE_STEPS,
    PRUNE_TOLERANCE,
    PRUNE_ZERO_TOLERANCE,
    SWAP_STEPS,
    SWAP_TOLERANCE,
)


def prune(problem: Problem, fit: Fit, most: int | None = None) -> tuple[Fit, Fit | None]:
    """Drop units while that costs nothing, and until at most `most` are left, refining in between.

    Returns the narrowest good fit, and the best fit with one unit fewer that was rejected.
    """
    best_so_far, rejected = fit, None
    while (width := sum(fit.parameters.widths)) >= problem.layers:
        best = _best_narrower(problem, fit)
        too_many = most is not None and width > most
        if best is None or not (too_many or _as_good(problem, best, fit)):
            on = _with_little_left(problem, fit, best)
            if on is None:
                if best_so_far is fit:
                    rejected = best
                break
            best = on
        fit = best
        if too_many or _as_good(problem, fit, best_so_far):
            best_so_far = fit
    return best_so_far, rejected


def _best_narrower(problem: Problem, fit: Fit) -> Fit | None:
    """The first narrower fit that is as good, or the best without one unit."""
    # A redundant unit leaves a residual near zero behind after a few steps, or never.
    nothing = problem.is_zero(fit)
    few = nothing or problem.crawls(fit)
    iterations = PRUNE_STEPS if few else SWAP_STEPS
    tolerance = PRUNE_ZERO_TOLERANCE if few else PRUNE_TOLERANCE
    best: Fit | None = None
    for narrower in moves_of(problem).narrower(problem, fit):
        trial = _refined(problem, narrower, nothing, iterations, tolerance)
        if _as_good(problem, trial, fit):
            return trial
        single = sum(trial.parameters.widths) == sum(fit.parameters.widths) - 1
        if single and (best is None or trial.rss < best.rss):
            best = trial
        if problem.out_of_time and (best is not None or problem.layers > 1):
            break
    return best


def _refined(
    problem: Problem, narrower: Parameters, nothing: bool, iterations: int, tolerance: float
) -> Fit:
    """A narrower model refined, on all samples if it is worth it.

    Of several layers, one that is to leave nothing and leaves something of a part is not.
    """
    if problem.layers == 1:
        trial = problem.refine_in_steps(narrower, iterations, tolerance, PRUNE_LAST_STEPS)
        return problem.refine_near_zero(trial) if nothing else trial
    part = problem.for_width(*narrower.widths)
    trial = part.refine(narrower, iterations, tolerance)
    if nothing and trial.ended not in (Ended.CONVERGED, Ended.STUCK):
        trial = part.refine_near_zero(trial)
    if part is problem or (nothing and not part.is_zero(trial)):
        return trial if nothing else problem.refine_near_zero(trial)
    whole = problem.refine(trial.parameters, PRUNE_LAST_STEPS, tolerance)
    return problem.refine_near_zero(whole)


def _with_little_left(problem: Problem, fit: Fit, best: Fit | None) -> Fit | None:
    """The best narrower fit, refined, if what it leaves is little all the same."""
    if best is None or problem.is_zero(fit) or problem.out_of_time or not problem.policy.little:
        return None
    on = problem.refine_in_steps(best.parameters, SWAP_STEPS, SWAP_TOLERANCE, PRUNE_LAST_STEPS)
    return on if on.rms < problem.policy.little * problem.spread else None


def _as_good(problem: Problem, narrower: Fit, fit: Fit) -> bool:
    if problem.is_zero(fit) or problem.is_zero(narrower):
        return problem.is_zero(narrower)
    return problem.criterion(narrower) < problem.criterion(fit)
