"""The dash for zero: where it gets there, what it drops, and where it is given up."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import Fit
from provenet.fitting.model import Parameters
from provenet.fitting.search.chains import _dashed
from provenet.fitting.search.dash import (
    _from_span,
    _shown,
    dash,
    ended_at_zero,
    ended_in_noise,
    serves,
)
from provenet.fitting.search.floor import variance
from provenet.fitting.search.problem import Problem
from provenet.fitting.workspace import Wishes, Workspace, prepare
from provenet.networks.piecewise import as_absolute

TRUTH = pn.random_network(5, 10, bias_scale=1.0, rng=0)


def problem_of(truth: pn.Network, samples: int, noise: float = 0.0) -> Problem:
    X, y = pn.sample(truth, samples, noise=noise, rng=1)
    return Problem(ArraySource(X, y), float(np.std(y))).searching()


def fitted(problem: Problem, parameters: Parameters) -> Fit:
    return problem.refine(parameters, 1, 1.0)


def workspace_of(
    truth: pn.Network, samples: int, noise: float, rng: np.random.Generator
) -> Workspace:
    source = ArraySource(*pn.sample(truth, samples, noise=noise, rng=1))
    return prepare(
        source,
        Wishes(),
        source.standardisation(),
        rng=rng,
        progress=lambda *_: None,
        deadline=np.inf,
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_doubling_gets_to_zero_at_the_true_width(seed: int) -> None:
    problem = problem_of(TRUTH, 600)
    fits = dash(problem, 3, problem.widest // 2, np.random.default_rng(seed))
    ends = (ended_at_zero(problem, problem.widest // 2, fit) for fit in fits)
    found = next(end for end in ends if end is not None)
    assert problem.is_zero(found.fit) and found.fit.labels == 600
    assert found.fit.parameters.units == TRUTH.units <= found.wide.parameters.units


def test_units_to_spare_go_at_once_and_no_other() -> None:
    """Two of a unit, each with a part of its weight and a little off."""
    problem = problem_of(TRUTH, 600)
    inside = Parameters.of(as_absolute(TRUTH))
    theta = np.vstack([inside.theta, inside.theta[:2]])
    theta = theta + 1e-4 * np.random.default_rng(0).standard_normal(theta.shape)
    beta = np.insert(inside.beta, 5, [0.0, 0.0])
    near = fitted(problem, Parameters(theta, beta))
    found = ended_at_zero(problem, 8, near)
    assert found is not None and found.fit.parameters.units == TRUTH.units


def test_what_leaves_much_is_not_the_end() -> None:
    problem = problem_of(TRUTH, 600)
    missing = Parameters.of(as_absolute(TRUTH)).keep(np.arange(5) > 0)
    assert ended_at_zero(problem, 8, fitted(problem, missing)) is None


def test_noise_ends_the_doubling_and_leaves_chains_as_they_are() -> None:
    problem = problem_of(TRUTH, 4000, noise=0.2)
    fits = list(dash(problem, 3, problem.widest // 2, np.random.default_rng(0)))
    assert max(fit.parameters.units for fit in fits) < problem.widest // 4
    assert all(ended_at_zero(problem, problem.widest // 2, fit) is None for fit in fits)


def test_chains_that_follow_have_the_random_numbers_they_would_have_had() -> None:
    rng = np.random.default_rng(0)
    prepared = workspace_of(TRUTH, 600, 0.2, rng)
    before = rng.bit_generator.state
    assert _dashed(prepared) is None
    assert rng.bit_generator.state == before


def test_of_many_features_the_first_chain_is_the_end_of_the_dash_under_noise() -> None:
    """Its units are the true ones, and what it leaves is the noise."""
    truth = pn.random_network(3, 90, bias_scale=0.5, rng=0)
    prepared = workspace_of(truth, 9000, 0.01, np.random.default_rng(0))
    found = _dashed(prepared)
    assert found is not None and found.fit.parameters.units >= truth.units
    # Degrees of freedom count, so units to spare change little: 0.93 to 1.04 over 50 seeds.
    noise = variance(prepared.problem, found.fit) ** 0.5
    assert noise == pytest.approx(0.01, rel=0.15)


@pytest.mark.parametrize(("activation", "layers"), [("tanh", 1), ("relu", 2)])
def test_smooth_units_and_several_layers_are_left_to_chains(activation: str, layers: int) -> None:
    samples = problem_of(TRUTH, 300).samples
    own = pn.random_network(2, 3, activation=activation, rng=0).activation
    assert serves(Problem(samples, 1.0))
    assert not serves(Problem(samples, 1.0, activation=own, layers=layers))


def test_directions_that_show_are_those_of_the_units() -> None:
    truth = pn.random_network(3, 90, bias_scale=0.5, rng=0)
    problem = problem_of(truth, 9000)
    inside = _from_span(problem, 3, 12, np.random.default_rng(0))
    assert inside is not None and inside.units >= truth.units
    X, y = problem.samples.X, problem.samples.y
    A = np.column_stack([X, np.ones(len(X))])
    basis = _shown(X, y - A @ np.linalg.lstsq(A, y, rcond=None)[0])
    assert len(basis) == 3
    assert np.linalg.norm(truth.weights @ basis.T, axis=1) == pytest.approx(1.0, abs=0.1)
    np.testing.assert_allclose(inside.theta[:, :-1] @ basis.T @ basis, inside.theta[:, :-1])


def test_few_features_need_no_span() -> None:
    problem = problem_of(TRUTH, 600)
    assert _from_span(problem, 3, 12, np.random.default_rng(0)) is None


def test_of_many_features_the_best_that_noise_leaves_is_kept() -> None:
    """That of the true units, of fits too narrow, too wide, and of fewer samples."""
    truth = pn.random_network(3, 90, bias_scale=0.5, rng=0)
    problem = problem_of(truth, 9000, noise=0.01)
    inside = Parameters.of(as_absolute(truth))
    spare = inside.widened(np.random.default_rng(0).standard_normal((2, 91)))
    fits = [
        problem.refine(start, 10, 1e-3) for start in (inside.keep(np.arange(3) > 0), inside, spare)
    ]
    few = problem.for_width(1).refine(inside, 10, 1e-3)
    found = ended_in_noise(problem, [*fits, few])
    assert found is not None and found.wide is fits[1] and found.fit is fits[1]
    assert ended_in_noise(problem, [fits[0], few]) is None


def test_of_few_features_chains_find_what_noise_leaves() -> None:
    problem = problem_of(TRUTH, 4000, noise=0.01)
    at_truth = problem.refine(Parameters.of(as_absolute(TRUTH)), 10, 1e-3)
    assert ended_in_noise(problem, [at_truth]) is None
