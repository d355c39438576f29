"""The floor that noise leaves: chains stop there, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import Fit
from provenet.fitting.model import Parameters
from provenet.fitting.search.floor import at_floor
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.swaps import expand, grown, start

NOISE = 0.02
"""Of the labels' spread: above what counts as near zero, so that only the floor ends a chain."""
TRUTH = pn.random_network((4, 3), 5, rng=1)


def problem_of(noise: float = NOISE, n: int = 2000) -> Problem:
    X, y = pn.sample(TRUTH, n, rng=1)
    spread = float(y.std())
    y = y + noise * spread * np.random.default_rng(2).standard_normal(n)
    return Problem(ArraySource(X, y), spread, activation=TRUTH.activation, layers=2)


def fit_from(problem: Problem, network: pn.DeepNetwork) -> Fit:
    parameters = Parameters.of(network)
    return problem.for_width(*network.widths).refine(parameters, 30, 1e-3)


def without(unit: int) -> pn.DeepNetwork:
    """The truth without a unit of its second layer."""
    (W, V, A), (b, c, d) = TRUTH.weights, TRUTH.biases
    V, A, c = np.delete(V, unit, axis=0), np.delete(A, unit, axis=1), np.delete(c, unit)
    return TRUTH.replace(weights=[W, V, A], biases=[b, c, d])


def test_wider_layers_explain_no_more_than_the_truth() -> None:
    """The narrower one comes back, fitted to all samples: noise is known to `sqrt(1/2n)`, 2%."""
    problem = problem_of()
    narrow = fit_from(problem, TRUTH)
    rest = at_floor(problem, narrow, grown(problem, narrow, 2, np.random.default_rng(0)))
    assert rest is not None and rest.parameters.widths == TRUTH.widths
    assert rest.labels == problem.samples.labels
    assert abs(rest.rms / (NOISE * problem.spread) - 1) < 0.1


def test_a_unit_that_explains_much_is_above_the_floor() -> None:
    problem = problem_of()
    narrow, wide = fit_from(problem, without(1)), fit_from(problem, TRUTH)
    assert wide.rss / wide.labels < 0.2 * narrow.rss / narrow.labels
    assert at_floor(problem, narrow, wide) is None


def test_a_unit_that_explains_little_is_above_it_by_the_criterion() -> None:
    """The variance falls to a half only: what decides is Schwarz's criterion on all samples."""
    problem = problem_of()
    narrow, wide = fit_from(problem, without(0)), fit_from(problem, TRUTH)
    assert wide.rss / wide.labels > 0.45 * narrow.rss / narrow.labels
    assert at_floor(problem, narrow, wide) is None


def test_no_floor_of_one_layer_near_zero_or_of_much() -> None:
    problem = problem_of()
    narrow = fit_from(problem, TRUTH)
    wide = grown(problem, narrow, 2, np.random.default_rng(0))
    assert at_floor(problem, None, wide) is None
    assert at_floor(replace(problem, layers=1), narrow, wide) is None
    assert at_floor(replace(problem, spread=problem.spread * 100), narrow, wide) is None
    assert at_floor(replace(problem, spread=problem.spread / 100), narrow, wide) is None


def test_a_chain_ends_at_the_floor_and_not_above_twice_the_width() -> None:
    """Without it the chain grows on, fits noise of a part of the samples, and leaves more."""
    problem, rng = problem_of(n=4000).searching(), np.random.default_rng(0)
    wider = pn.random_network((6, 5), 5, rng=3)
    fit = start(problem.for_width(6, 5), Parameters.of(wider))
    for better in expand(problem, fit, 1, problem.widest, rng):
        fit = better
    assert fit.rms < 1.1 * NOISE * problem.spread
    assert sum(fit.parameters.widths) <= 22
