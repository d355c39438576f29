"""Expanding: useless units make room for promising ones, and a chain grows where that pays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.fitting.least_squares import Fit
from provenet.fitting.losses import SQUARES
from provenet.fitting.model import Parameters
from provenet.fitting.search.floor import at_floor
from provenet.fitting.search.moves import moves_of
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.tolerances import (
    GROWING_PAYS,
    GROWTH_BEYOND,
    GROWTH_TOLERANCE,
    PRICE_OF_GROWTH,
    PRICE_OF_LAYERS,
    PRUNE_LAST_STEPS,
    SWAP_STEPS,
    SWAP_TOLERANCE,
    WORTHWHILE,
)


def start(problem: Problem, parameters: Parameters) -> Fit:
    """Refine from the given units, the linear part unknown."""
    return problem.refine(parameters, SWAP_STEPS, _tolerance(problem))


def _tolerance(problem: Problem) -> float:
    """Of least squares with units added: coarse where one layer of them is fitted to numbers."""
    return GROWTH_TOLERANCE if problem.layers == 1 and problem.loss is SQUARES else SWAP_TOLERANCE


def grown(problem: Problem, fit: Fit, add: int, rng: np.random.Generator) -> Fit:
    """Add promising units, refine."""
    wider = moves_of(problem).grown(problem, fit.parameters, add, rng)
    part = problem.for_width(*wider.widths)
    return part.refine(wider, SWAP_STEPS, _tolerance(problem))


def swap(problem: Problem, fit: Fit, failures: int, rng: np.random.Generator) -> Fit:
    """Exchange a few of the least useful units; the more failures, the wider the choice."""
    other = moves_of(problem).swapped(problem, fit.parameters, failures, rng)
    return problem.refine(other, SWAP_STEPS, SWAP_TOLERANCE)


def expand(
    problem: Problem, fit: Fit, swaps: int, widest: int, rng: np.random.Generator
) -> Iterator[Fit]:
    """Swap and grow until the residual is zero, more units no longer pay, or time is over.

    Yields the best fit so far after each step; the last one is the result.
    """
    scores: dict[int, float] = {}
    before, narrower = np.inf, None
    while True:
        width = sum(fit.parameters.widths)
        part = problem.for_width(*fit.parameters.widths)
        fit = part.refine_near_zero(fit)
        if (rest := at_floor(problem, narrower, fit)) is not None:
            yield rest
            return
        # In the first chain growing is cheaper than swapping while it pays, but for opposites.
        first = swaps == 1 and not problem.policy.mirrored
        failures = swaps if first and fit.rms**2 < GROWING_PAYS * before else 0
        before = fit.rms**2
        # Several layers that leave little have all their units: others in their place do not help.
        little = problem.layers > 1 and part.is_near_zero(fit)
        while not (part.is_zero(fit) or little or failures >= swaps or problem.out_of_time):
            trial = part.refine_near_zero(swap(part, fit, failures, rng))
            failures = 0 if trial.rss < WORTHWHILE * fit.rss else failures + 1
            fit = min(fit, trial, key=lambda f: f.rss)
            little = problem.layers > 1 and part.is_near_zero(fit)
            yield fit
        narrower = fit
        if part is not problem:
            last = part.is_zero(fit)
            whole = problem.with_free_norms() if last else problem
            steps = SWAP_STEPS if last else PRUNE_LAST_STEPS if little else 1
            fit = whole.refine(fit.parameters, steps, SWAP_TOLERANCE)
        price = PRICE_OF_GROWTH if problem.layers == 1 else PRICE_OF_LAYERS
        scores[width] = problem.criterion(fit, price)
        yield fit
        best_width = min(scores, key=lambda w: scores[w])
        pays = width <= GROWTH_BEYOND * best_width + 1
        if problem.is_zero(fit) or problem.out_of_time or not pays or width >= widest:
            return
        if problem.crawls(fit) or (little and fit.rms <= problem.policy.little * problem.spread):
            return  # pruning helps
        fit = grown(problem, fit, min(1 + width // 3, widest - width), rng)
