"""Expanding, swapping and pruning on small problems built from their answer."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.fitting.model import Parameters
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.pruning import prune
from provenet.fitting.search.swaps import expand, start
from provenet.fitting.search.units import OneLayer, promising_units, random_units, usefulness
from provenet.networks.activations import ABS
from provenet.networks.piecewise import as_absolute


@pytest.fixture
def truth():
    return pn.random_network(4, 6, bias_scale=1.0, rng=0).replace(output_bias=0.5)


@pytest.fixture
def problem(truth):
    X, y = pn.sample(truth, 600, rng=1)
    return Problem(ArraySource(X, y), float(y.std()))


def true_parameters(truth):
    return Parameters.of(as_absolute(truth))


def test_absolute_form_is_the_same_function(truth):
    X, y = pn.sample(truth, 50, rng=2)
    assert np.allclose(as_absolute(truth)(X), y, rtol=0, atol=1e-13)


def test_usefulness_is_the_growth_of_the_sum_of_squares(truth, problem):
    parameters = true_parameters(truth)
    cost = usefulness(problem, parameters)
    X, y = problem.samples.X, problem.samples.y
    z = X @ parameters.theta[:, :-1].T + parameters.theta[:, -1]
    Phi = np.column_stack([np.abs(z), X, np.ones(len(X))])
    for i in range(4):
        rest = np.delete(Phi, i, axis=1)
        direct = np.sum((y - rest @ np.linalg.lstsq(rest, y, rcond=None)[0]) ** 2)
        assert cost[i] == pytest.approx(direct, rel=1e-6)


def test_promising_units_beat_random_ones(truth, problem):
    rng = np.random.default_rng(3)
    two = true_parameters(truth).keep(np.array([True, True, False, False]))

    def left(new):
        theta = np.vstack([two.theta, new])
        beta = np.zeros(len(theta) + 7)
        return problem.refine(Parameters(theta, beta), 1, 1e-3).rss

    chosen = left(promising_units(problem, two, 2, rng))
    chance = np.median([left(random_units(problem, 2, rng)) for _ in range(20)])
    assert chosen < chance


@pytest.mark.parametrize("failures", [0, 3])
def test_swaps_exchange_the_least_useful_units(truth, problem, failures, monkeypatch):
    """Four units that matter among twelve: two of the four least useful go, of more after failures.

    All eight others are useless here, so none of the four is ever among those to choose from.
    """
    own = true_parameters(truth).theta
    theta = np.vstack([random_units(problem, 8, np.random.default_rng(5)), own])
    fit = problem.refine(Parameters(theta, np.zeros(12 + 7)), 0, 1e-3)
    useless = set(np.argsort(usefulness(problem, fit.parameters))[: 4 + failures].tolist())
    assert useless <= set(range(8))
    dropped = []
    monkeypatch.setattr(
        "provenet.fitting.search.units._with_new_units",
        lambda problem, parameters, drop, add, rng: dropped.append((set(drop.tolist()), add)),
    )
    for seed in range(10):
        OneLayer().swapped(problem, fit.parameters, failures, np.random.default_rng(seed))
    assert all(len(drop) == add == 2 for drop, add in dropped)
    assert set.union(*(drop for drop, _ in dropped)) == useless


def test_of_twins_that_share_a_unit_one_goes(truth, problem):
    """Either of two equal units is useless while the other is there: both must not go."""
    own = true_parameters(truth)
    twins = own.widened(own.theta[:2])  # further units have no output yet
    shared = twins.beta.copy()
    shared[:2] /= 2
    shared[4:6] = shared[:2]
    fit = problem.refine(Parameters(twins.theta, shared), 0, 1e-3)
    assert fit.parameters.units == 6 and problem.is_zero(fit)
    first = next(OneLayer().narrower(problem, fit))
    assert first.units == 4 and problem.is_zero(problem.refine(first, 0, 1e-3))


def test_the_least_useful_units_are_the_first_to_be_dropped(truth, problem):
    """Eight of twelve units are useless: all of them at once, half, then one, never a true one.

    By the growth of the sum of squares written out, unit by unit.
    """
    own = true_parameters(truth).theta
    theta = np.vstack([own, random_units(problem, 8, np.random.default_rng(5))])
    fit = problem.refine(Parameters(theta, np.zeros(12 + 7)), 0, 1e-3)
    all_at_once, half, *singly = (
        [i for i, unit in enumerate(fit.parameters.theta) if unit not in narrower.theta]
        for narrower in OneLayer().narrower(problem, fit)
    )
    assert all_at_once == [*range(4, 12)] and len(half) == 4
    assert all(len(drop) == 1 for drop in singly)
    assert min(min(drop) for drop in (half, *singly)) >= 4


def test_prune_finds_the_true_width_and_what_one_fewer_costs(truth, problem):
    parameters = true_parameters(truth)
    extra = random_units(problem, 3, np.random.default_rng(4))
    beta = np.concatenate([parameters.beta[:4], np.zeros(3), parameters.linear])
    wide = problem.refine(Parameters(np.vstack([parameters.theta, extra]), beta), 5, 1e-3)
    fit, narrower = prune(problem, wide)
    assert fit.parameters.units == 4
    assert problem.is_zero(fit)
    assert narrower is not None
    assert narrower.rms > 1e-3 * problem.spread


def test_prune_to_fewer_than_needed_when_asked(truth, problem):
    fit = problem.refine(true_parameters(truth), 5, 1e-3)
    narrow, _ = prune(problem, fit, most=2)
    assert narrow.parameters.units == 2


@pytest.mark.parametrize("seed", range(5))
def test_expand_ends_at_zero_from_random_units(problem, seed):
    rng = np.random.default_rng(seed)
    fit = start(problem, OneLayer().start(problem, 2, rng))
    for better in expand(problem, fit, 8, problem.widest, rng):
        fit = better
    assert problem.is_zero(fit)
    X, y = problem.samples.X, problem.samples.y
    assert np.abs(fit.parameters.network(ABS)(X) - y).max() < 1e-7


def test_noise_stops_the_growth_near_the_true_width(truth):
    X, y = pn.sample(truth, 2000, noise=0.2, rng=5)
    problem = Problem(ArraySource(X, y), float(y.std()))
    rng = np.random.default_rng(6)
    fit = start(problem, OneLayer().start(problem, 2, rng))
    for better in expand(problem, fit, 4, problem.widest, rng):
        fit = better
    assert fit.parameters.units < problem.widest / 4
    assert prune(problem, fit)[0].parameters.units == truth.units


def test_deadline_stops_the_search(problem):
    from dataclasses import replace

    late = replace(problem, deadline=0.0)
    rng = np.random.default_rng(0)
    fit = start(late, OneLayer().start(problem, 2, rng))
    assert sum(1 for _ in expand(late, fit, 100, 50, rng)) <= 2
