"""Chains of expanding and pruning, each from a fresh start and more patient than the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from provenet.common.typing import Array
from provenet.fitting.least_squares import Ended, Fit
from provenet.fitting.model import Parameters
from provenet.fitting.search.dash import Dash, dash, ended_at_zero, ended_in_noise, serves
from provenet.fitting.search.moves import moves_of
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.pruning import prune
from provenet.fitting.search.swaps import expand, start
from provenet.fitting.search.tolerances import (
    FIRST_WIDTH,
    MANY_MORE,
    MORE_SWAPS,
    MORE_SWAPS_OF_FEW,
    MORE_THAN_A_FEW,
    MOST_SWAPS,
    SHORT_OF_SAMPLES,
)
from provenet.fitting.search.units import with_no_output
from provenet.fitting.tolerances import POLISH_LAST_STEPS, POLISH_STEPS, POLISH_TOLERANCE
from provenet.fitting.workspace import Workspace


@dataclass(frozen=True)
class Chain:
    """Where a chain of expanding and pruning ended."""

    fit: Fit
    evidence: str
    """Why it has that many units."""
    narrower: float
    """What the best fit with a unit fewer left, root mean square; infinite where none was tried to
    the end."""


@dataclass(frozen=True)
class _Beginning:
    """Where a chain starts, and how patient it is."""

    width: int
    swaps: int
    known: Array | None = None
    """Units to start from instead."""


class _Unwanted(Exception):
    """Another chain had the answer meanwhile."""


def chains(workspace: Workspace, known: Array | None = None) -> Iterator[Chain]:
    """One chain after the other until time is over; whoever takes them decides when to stop.

    `known` are units (weights and bias on standardised inputs) to start the first chain from. Where
    the samples are on a cluster, all chains after the first run there, as many at once as it takes.
    """
    problem = workspace.problem
    coming, swaps = _first(workspace, known), 1
    best: Fit | None = None
    while not workspace.out_of_time:
        ends = []
        for chain in coming:
            ends.append(chain.fit)
            yield chain
        last = min(ends, key=problem.criterion)
        best = last if best is None else min(best, last, key=problem.criterion)
        short = _short_of_samples(problem, best)
        beginnings = _next_beginnings(workspace, last, short, swaps)
        coming, swaps = _side_by_side(workspace, beginnings), beginnings[-1].swaps


def _first(workspace: Workspace, known: Array | None) -> Iterator[Chain]:
    """The end of a dash, if that gets somewhere, or of a chain that is not patient."""
    found = _dashed(workspace) if known is None else None
    if found is not None:
        yield pruned(workspace, found.wide, found.fit)
    else:
        width = first_width(workspace.problem, workspace.units)
        yield _chain(workspace, _Beginning(width, 1, known))


def _dashed(workspace: Workspace) -> Dash | None:
    """Where a dash got to zero, or to noise, if it did."""
    problem, fits = workspace.problem.searching(), list[Fit]()
    if not serves(problem):
        return None
    first, rng = first_width(problem, workspace.units), workspace.rng.spawn(1)[0]
    widest = first if workspace.units else max(first, widest_of(problem, None) // 2)
    with workspace.stage("search"):
        for fit in dash(problem, first, widest, rng):
            _tell(workspace, fit)
            if (found := ended_at_zero(problem, widest, fit)) is not None:
                return found
            fits.append(fit)
    return ended_in_noise(problem, fits)


def _next_beginnings(workspace: Workspace, last: Fit, short: bool, swaps: int) -> list[_Beginning]:
    problem, rng, beginnings = workspace.problem, workspace.rng, list[_Beginning]()
    widest = widest_of(problem, workspace.units)
    for _ in range(workspace.source.jobs_at_once):
        width = _next_width(problem, last, swaps, widest, rng)
        if short:  # wide enough for the network, whatever the chain was left with
            width = int(rng.integers((widest + 1) // 2, widest + 1))
        swaps = min((MORE_SWAPS_OF_FEW if short else MORE_SWAPS) * swaps, MOST_SWAPS)
        beginnings.append(_Beginning(width, swaps))
    return beginnings


def _short_of_samples(problem: Problem, best: Fit) -> bool:
    """Whether the best of all chains failed, with not many units fewer than the samples determine.

    Under noise it has few units: narrower fits are better by Schwarz's criterion.
    """
    kinked = problem.layers == 1 and problem.policy.homogeneous
    within = problem.widest <= SHORT_OF_SAMPLES * (best.parameters.units + 1)
    return kinked and within and not problem.is_zero(best)


def _side_by_side(workspace: Workspace, beginnings: Sequence[_Beginning]) -> Iterator[Chain]:
    """The ends of chains; of several elsewhere, each with random numbers of its own."""
    if len(beginnings) == 1:
        yield _chain(workspace, beginnings[0])
        return
    seconds, seeds = workspace.seconds_left, workspace.rng.integers(2**63, size=len(beginnings))
    jobs = [
        partial(_chain_elsewhere, workspace.travelling(np.random.default_rng(seed)), one, seconds)
        for one, seed in zip(beginnings, seeds, strict=True)
    ]
    with closing(workspace.source.side_by_side(jobs)) as ends:
        for _ in jobs:
            with workspace.stage("search", f"{len(jobs)} chains side by side"):
                chain = next(ends)
            yield chain


def _chain_elsewhere(
    workspace: Workspace, beginning: _Beginning, seconds: float, is_wanted: Callable[[], bool]
) -> Chain:
    def stop_unless_wanted(*_: object) -> None:
        if not is_wanted():
            raise _Unwanted

    return _chain(replace(workspace.within(seconds), progress=stop_unless_wanted), beginning)


def _chain(workspace: Workspace, beginning: _Beginning) -> Chain:
    """The end of one chain."""
    problem = workspace.problem
    if beginning.known is None:
        first = moves_of(problem).start(problem, beginning.width, workspace.rng)
    else:
        first = with_no_output(problem, beginning.known)
    wide = _expanded(workspace, first, beginning.swaps, widest_of(problem, workspace.units))
    return pruned(workspace, wide)


def _next_width(
    problem: Problem, fit: Fit, swaps: int, widest: int, rng: np.random.Generator
) -> int:
    """Where the next chain starts afresh: near the width that the last one ended with.

    After the first, and every second one from then on, well above it: where each unit of many
    explains little, growing from a few never pays, and ends in an answer that is far too narrow.
    """
    near = max(sum(fit.parameters.widths), 2)
    if problem.layers > 1:  # from few units to as many again: growing is what finds them
        fewest = FIRST_WIDTH * problem.layers
        return min(int(rng.integers(fewest, max(near, fewest) + 1)), widest)
    if not problem.is_zero(fit) and round(np.log2(swaps)) % 2 == 0:
        return min(swaps * (MANY_MORE * near + MORE_THAN_A_FEW), max(near, widest // 2))
    return int(np.clip(rng.integers(near // 2, near + 2), 1, widest))


def _expanded(workspace: Workspace, first: Parameters, swaps: int, widest: int) -> Fit:
    """The end of expanding from the given units."""
    problem = workspace.problem.searching()
    with workspace.stage("search"):
        fit = start(problem.for_width(*first.widths), first)
        ends = []
        for better in expand(problem, fit, swaps, widest, workspace.rng):
            fit = better
            ends.append(fit)
            _tell(workspace, fit)
    return _worth_pruning(problem, fit, ends)


def _tell(workspace: Workspace, fit: Fit) -> None:
    units = in_words(fit.parameters.widths)
    message = f"{units} units, residual {fit.rms / workspace.spread:.2g}"
    workspace.progress("search", workspace.budget_used, message)


def _worth_pruning(problem: Problem, last: Fit, ends: Sequence[Fit]) -> Fit:
    """The last fit; of several layers that have not come near zero, the best by Schwarz's criterion
    of those of all samples: wide ones may have fitted few samples by heart, and prune slowly."""
    if problem.layers == 1 or last.rms <= problem.policy.little * problem.spread:
        return last
    whole = [fit for fit in (*ends, last) if fit.labels == problem.samples.labels]
    return min(whole, key=problem.criterion, default=last)


def pruned(workspace: Workspace, wide: Fit, narrow: Fit | None = None) -> Chain:
    """The end of a chain: its fit without the units that it does not need.

    `narrow` is what is known to be as good with fewer.
    """
    problem = workspace.problem.searching().with_free_norms()
    with workspace.stage("prune"):
        fit, rejected = prune(problem, wide if narrow is None else narrow, workspace.units)
        if rejected is None and problem.crawls(fit):
            fit, rejected = _pruned_from_the_end(problem, fit, workspace.units)
    tried = rejected is not None and rejected.ended is not Ended.OUT_OF_TIME
    narrower = rejected.rms if tried and rejected is not None else np.inf
    return Chain(fit, _evidence(workspace, wide, fit, rejected), narrower)


def _pruned_from_the_end(problem: Problem, fit: Fit, units: int | None) -> tuple[Fit, Fit | None]:
    """Pruned once more from zero, if the fit gets there: only from there it shows that no unit of
    it is in vain. Of several layers that crawl, pruning went below it while little was left."""
    end = problem.refine_in_steps(fit.parameters, POLISH_STEPS, POLISH_TOLERANCE, POLISH_LAST_STEPS)
    return prune(problem, end, units) if problem.is_zero(end) else (fit, None)


def first_width(problem: Problem, units: int | None) -> int:
    """Units of the first chain: a few, or some more than were asked for."""
    wished = FIRST_WIDTH * problem.layers if units is None else units + units // 4 + 1
    return min(wished, widest_of(problem, units))


def widest_of(problem: Problem, units: int | None) -> int:
    """The most units of a chain."""
    return problem.widest if units is None else min(problem.widest, units + units // 2 + 2)


def _evidence(workspace: Workspace, wide: Fit, fit: Fit, rejected: Fit | None) -> str:
    units = sum(fit.parameters.widths)
    pruned = f"{in_words(wide.parameters.widths)} units were pruned to "
    pruned += in_words(fit.parameters.widths)
    if rejected is None:
        return f"{pruned}."
    if rejected.ended is Ended.OUT_OF_TIME:
        return f"{pruned}; time was over before fewer were tried to the end."
    return (
        f"{pruned}; with {units - 1}, refined, the residual is "
        f"{rejected.rms / workspace.spread:.2g} of the labels' spread."
    )


def in_words(widths: Sequence[int]) -> str:
    """Units a layer: "10", or "16, 8" where there are several."""
    return ", ".join(map(str, widths))
