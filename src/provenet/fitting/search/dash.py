"""A dash for zero: where labels have no noise, growing fast gets there before any chain is patient.

A chain judges every width by Schwarz's criterion, and every swap by what it leaves at rest. Without
noise neither is needed: a network with units to spare falls to zero, and what was a bad minimum on
the way does not matter. So one layer of units with kinks is doubled, a few steps each, up to half
of what the samples determine, and there its least useful units are exchanged while that helps. The
samples are those that a width some times as large needs: few of them would be learned by heart, and
what was learned does not help wider layers.

*The end.* Units to spare slow least squares down: along what they share nothing pulls. But once
little is left the fit is next to the network, so that units are told apart by what they are worth:
those that go one after the other, the rest refitted linearly, and leave a multiple of what is left
anyway, go all at once. From there least squares gets to zero in a few steps or not at all, which
shows at once.

*With noise* of variance s^2 a wider layer leaves no smaller `rss / (labels - parameters)`: where
that hardly falls the dash is given up, and chains begin as if it had not been (it draws random
numbers of its own).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.fitting.levenberg_marquardt import Fit
from provenet.fitting.losses import SQUARES
from provenet.fitting.normal_equations import dropped_in_turn
from provenet.fitting.parameters import Parameters
from provenet.fitting.search.floor import variance
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.units import OneLayer, without
from provenet.fitting.tolerances import (
    DASH_FACTOR,
    DASH_FAILURES,
    DASH_FALLS,
    DASH_FURTHER,
    DASH_NEAR,
    DASH_ROWS,
    DASH_STEPS,
    DASH_WORTH,
    LAST_FALLS,
    LAST_STEPS,
    PATIENT_STEPS,
    PATIENT_TOLERANCE,
    SWAP_STEPS,
    SWAP_TOLERANCE,
)

_MOVES = OneLayer()


@dataclass(frozen=True)
class Dash:
    """Where a dash got to zero."""

    wide: Fit
    """With units to spare, little being left."""
    fit: Fit
    """On all samples, without them."""


def serves(problem: Problem) -> bool:
    """Whether the model is one that a dash is for."""
    return problem.layers == 1 and problem.policy.homogeneous and problem.loss is SQUARES


def dash(problem: Problem, first: int, widest: int, rng: np.random.Generator) -> Iterator[Fit]:
    """Double the width, then exchange units, while what is left falls.

    Yields every fit; whoever takes them looks whether it is the last (`ended_at_zero`).
    """
    part = _on_rows_of(problem, first, widest)
    fit = _refined(part, _MOVES.start(part, first, rng), widest)
    yield fit
    while (width := fit.parameters.units) < widest and not problem.out_of_time:
        wider = min(DASH_FACTOR * width, widest)
        part = _on_rows_of(problem, wider, widest)
        before = variance(problem, fit)
        fit = _refined(part, _MOVES.grown(part, fit.parameters, wider - width, rng), widest)
        yield fit
        if variance(problem, fit) > DASH_FALLS * before:
            return
    yield from _exchanged(part, fit, rng)


def _exchanged(part: Problem, fit: Fit, rng: np.random.Generator) -> Iterator[Fit]:
    """The least useful units exchanged while that helps."""
    failures = 0
    while failures < DASH_FAILURES and not part.out_of_time:
        other = _MOVES.swapped(part, fit.parameters, failures, rng)
        trial = _refined(part, other, other.units)
        yield trial
        failures = 0 if trial.rss < DASH_FALLS * fit.rss else failures + 1
        fit = min(fit, trial, key=lambda f: f.rss)


def ended_at_zero(problem: Problem, widest: int, fit: Fit) -> Dash | None:
    """The fit without its units to spare, if from there it gets to zero."""
    part = _on_rows_of(problem, fit.parameters.units, widest)
    if fit.rms > DASH_NEAR[1] * problem.spread:
        return None
    for worth in DASH_WORTH:
        end = part.refine(_without_spare(part, fit, worth), LAST_STEPS, LAST_FALLS)
        if part is not problem and part.is_zero(end):
            end = problem.refine(end.parameters, SWAP_STEPS, SWAP_TOLERANCE)
        if problem.is_zero(end):
            return Dash(fit, end)
    return None


def _without_spare(part: Problem, fit: Fit, worth: float) -> Parameters:
    """Without units that are worth no more than a multiple of what is left."""
    allowed = part.samples.labels * (worth * fit.rms) ** 2
    spare = dropped_in_turn(part.linear_part(fit.parameters), fit.parameters, allowed)
    return without(fit.parameters, spare)


def _on_rows_of(problem: Problem, width: int, widest: int) -> Problem:
    return problem.for_width(min(DASH_ROWS * width, widest))


def _refined(part: Problem, parameters: Parameters, widest: int) -> Fit:
    """Least squares until little is left, or it falls slowly where there is nowhere to grow."""
    few = parameters.units < widest
    steps = (DASH_STEPS, SWAP_TOLERANCE) if few else (PATIENT_STEPS, PATIENT_TOLERANCE)
    return part.refine(parameters, *steps, further=DASH_FURTHER, zero=DASH_NEAR[0])
