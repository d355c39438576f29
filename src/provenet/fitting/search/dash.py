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

*Many features.* Of a unit among many each sample says little, and least squares in all dimensions
learns samples by heart. But what the linear part leaves of the labels, r, has a second moment
`mean(r (x x^T - 1))`, for normal inputs the sum of the units' `a phi(b) w w^T`: its eigenvectors
beyond `2 std(r) sqrt(features / samples)`, where chance ends (`moments.subspace`), span most of the
units with a part of the parameters. Layers grow in that span first, and start from there in all
dimensions. Inputs need not be normal: it is only a start.

*With noise* of variance s^2 a wider layer leaves no smaller `rss / (labels - parameters)`: where
that hardly falls the dash is given up, and chains begin as if it had not been (it draws random
numbers of its own). Of many features chains that begin with a few units find hardly any: there the
best fit of the dash is pruned, if little is left.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import Fit
from provenet.fitting.losses import SQUARES
from provenet.fitting.model import Parameters
from provenet.fitting.output_layer import dropped_in_turn
from provenet.fitting.search.floor import variance
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.tolerances import (
    AT_FLOOR,
    DASH_FACTOR,
    DASH_FAILURES,
    DASH_FALLS,
    DASH_NEAR,
    DASH_ROWS,
    DASH_STEPS,
    DASH_WORTH,
    FEW_MISSING,
    LAST_FALLS,
    LAST_STEPS,
    PATIENT_STEPS,
    PATIENT_TOLERANCE,
    SPAN_FALLS,
    SPAN_FEATURES,
    SPAN_SHARE,
    SWAP_STEPS,
    SWAP_TOLERANCE,
)
from provenet.fitting.search.units import OneLayer, with_no_output, without

_MOVES = OneLayer()


@dataclass(frozen=True)
class Dash:
    """Where a dash got to zero, or to what noise leaves."""

    wide: Fit
    """With units to spare, little being left."""
    fit: Fit
    """On all samples, without them where that is known to be zero."""


def serves(problem: Problem) -> bool:
    """Whether the model is one that a dash is for."""
    return problem.layers == 1 and problem.policy.homogeneous and problem.loss is SQUARES


def dash(problem: Problem, first: int, widest: int, rng: np.random.Generator) -> Iterator[Fit]:
    """Double the width, then exchange units, while what is left falls.

    Yields every fit; whoever takes them looks whether it is the last (`ended_at_zero`).
    """
    inside = _from_span(problem, first, widest, rng)
    if inside is None:
        part = _on_rows_of(problem, first, widest)
        fit = _refined(part, _MOVES.start(part, first, rng), patient=first == widest)
        yield fit
    else:
        part = _on_rows_of(problem, inside.units, widest)
        fit = _refined(part, inside, patient=True)
        yield fit
        fit = yield from _exchanged(part, fit, SPAN_FALLS, rng, FEW_MISSING * problem.spread)
    wide = yield from _grown(problem, fit, widest, rng)
    if wide is not None:
        yield from _exchanged(_on_rows_of(problem, widest, widest), wide, DASH_FALLS, rng)


def _grown(
    problem: Problem, fit: Fit, widest: int, rng: np.random.Generator
) -> Generator[Fit, None, Fit | None]:
    """Doubled up to the widest; None where that hardly helps."""
    while (width := fit.parameters.units) < widest and not problem.out_of_time:
        wider, before = min(DASH_FACTOR * width, widest), variance(problem, fit)
        part = _on_rows_of(problem, wider, widest)
        start = _MOVES.grown(part, fit.parameters, wider - width, rng)
        fit = _refined(part, start, patient=wider == widest)
        yield fit
        if variance(problem, fit) > DASH_FALLS * before:
            return None
    return fit


def _exchanged(
    part: Problem, fit: Fit, falls: float, rng: np.random.Generator, enough: float = 0.0
) -> Generator[Fit, None, Fit]:
    """The least useful units exchanged, until a few exchanges in a row do not help."""
    failures = 0
    while failures < DASH_FAILURES and fit.rms > enough and not part.out_of_time:
        other = _MOVES.swapped(part, fit.parameters, failures, rng)
        trial = _refined(part, other, patient=True)
        yield trial
        failures = 0 if trial.rss < falls * fit.rss else failures + 1
        fit = min(fit, trial, key=lambda f: f.rss)
    return fit


def _from_span(
    problem: Problem, first: int, widest: int, rng: np.random.Generator
) -> Parameters | None:
    """Units that were grown in the span that shows; None where that is no help."""
    X, features = problem.samples.X, problem.samples.features
    if features < SPAN_FEATURES or problem.outputs > 1:
        return None
    linear, _ = problem.best_linear_part(with_no_output(problem, np.empty((0, features + 1))))
    left = problem.samples.y - X @ linear.beta[:-1] - linear.beta[-1]
    basis = _shown(X, left)
    if not 1 < len(basis) <= SPAN_SHARE * features:
        return None
    doublings = int(np.log(widest / first) / np.log(DASH_FACTOR))
    inside = replace(problem, samples=ArraySource(X @ basis.T, left))
    narrow = _refined(inside, _MOVES.start(inside, first, rng), patient=False)
    *_, grown = narrow, *_grown(inside, narrow, first * DASH_FACTOR**doublings, rng)
    theta = _refined(inside, grown.parameters, patient=True).parameters.theta
    return with_no_output(problem, np.column_stack([theta[:, :-1] @ basis, theta[:, -1]]))


def _shown(X: Array, left: Array) -> Array:
    """Directions that stand out in the second moment, one a row."""
    moment = (X * left[:, None]).T @ X / len(X) - np.mean(left) * np.eye(X.shape[1])
    values, vectors = np.linalg.eigh(moment)
    chance = 2 * np.std(left) * np.sqrt(X.shape[1] / len(X))
    return np.asarray(vectors.T[np.abs(values) > chance])


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


def ended_in_noise(problem: Problem, fits: Sequence[Fit]) -> Dash | None:
    """Of many features the best of all fits by Schwarz's criterion, if little is left."""
    little, labels = AT_FLOOR * problem.spread, problem.samples.labels
    near = [fit for fit in fits if fit.rms <= little and fit.labels == labels]
    if problem.samples.features < SPAN_FEATURES or not near:
        return None
    best = min(near, key=problem.criterion)
    return Dash(best, best)


def _without_spare(part: Problem, fit: Fit, worth: float) -> Parameters:
    """Without units that are worth no more than a multiple of what is left."""
    allowed = part.samples.labels * (worth * fit.rms) ** 2
    spare = dropped_in_turn(part.linear_part(fit.parameters), fit.parameters, allowed)
    return without(fit.parameters, spare)


def _on_rows_of(problem: Problem, width: int, widest: int) -> Problem:
    return problem.for_width(min(DASH_ROWS * width, widest))


def _refined(part: Problem, parameters: Parameters, patient: bool) -> Fit:
    """Least squares until little is left; a few steps, or until it falls slowly."""
    steps = (PATIENT_STEPS, PATIENT_TOLERANCE) if patient else (DASH_STEPS, SWAP_TOLERANCE)
    return part.refine(parameters, *steps, zero=DASH_NEAR[0])
