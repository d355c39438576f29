"""Chains of expanding and pruning, each from a fresh start and more patient than the last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.ended import Ended
from provenet.common.typing import Array
from provenet.fitting.levenberg_marquardt import Fit
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.pruning import prune
from provenet.fitting.search.swaps import expand, start
from provenet.fitting.search.units import random_units
from provenet.fitting.tolerances import FIRST_WIDTH, MOST_SWAPS
from provenet.fitting.workspace import Workspace


@dataclass(frozen=True)
class Chain:
    """Where a chain of expanding and pruning ended."""

    fit: Fit
    evidence: str
    """Why it has that many units."""


def chains(workspace: Workspace, known: Array | None = None) -> Iterator[Chain]:
    """One chain after the other until time is over; whoever takes them decides when to stop.

    `known` are units (weights and bias on standardised inputs) to start the first chain from.
    """
    problem, rng, units = workspace.problem, workspace.rng, workspace.units
    widest, swaps, width = widest_of(problem, units), 1, first_width(problem, units)
    while not workspace.out_of_time:
        theta = random_units(problem, width, rng) if known is None else known
        known = None
        wide = _expanded(workspace, theta, swaps, widest)
        chain = pruned(workspace, wide)
        yield chain
        # The next chain starts afresh, near the width that served best so far.
        near = max(chain.fit.parameters.units, 2)
        width = int(np.clip(rng.integers(near // 2, near + 2), 1, widest))
        swaps = min(2 * swaps, MOST_SWAPS)


def _expanded(workspace: Workspace, theta: Array, swaps: int, widest: int) -> Fit:
    """The end of expanding from the given units."""
    problem = workspace.problem.searching()
    with workspace.stage("search"):
        fit = start(problem.for_width(len(theta)), theta)
        for better in expand(problem, fit, swaps, widest, workspace.rng):
            fit = better
            message = f"{fit.parameters.units} units, residual {fit.rms / workspace.spread:.1e}"
            workspace.progress("search", workspace.budget_used, message)
    return fit


def pruned(workspace: Workspace, wide: Fit) -> Chain:
    """The end of a chain: its fit without the units that it does not need."""
    problem = workspace.problem.searching().with_free_norms()
    with workspace.stage("prune"):
        fit, rejected = prune(problem, wide, workspace.units)
    return Chain(fit, _evidence(workspace, wide, fit, rejected))


def first_width(problem: Problem, units: int | None) -> int:
    """Units of the first chain: a few, or some more than were asked for."""
    wished = FIRST_WIDTH if units is None else units + units // 4 + 1
    return min(wished, widest_of(problem, units))


def widest_of(problem: Problem, units: int | None) -> int:
    """The most units of a chain."""
    return problem.widest if units is None else min(problem.widest, units + units // 2 + 2)


def _evidence(workspace: Workspace, wide: Fit, fit: Fit, rejected: Fit | None) -> str:
    units = fit.parameters.units
    pruned = f"{wide.parameters.units} units were pruned to {units}"
    if rejected is None:
        return f"{pruned}."
    if rejected.ended is Ended.OUT_OF_TIME:
        return f"{pruned}; time was over before fewer were tried to the end."
    return (
        f"{pruned}; with {units - 1}, refined, the residual is "
        f"{rejected.rms / workspace.spread:.1e} of the labels' spread."
    )
