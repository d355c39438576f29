"""What the search does for each kind of activation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.fitting.model import Parameters
from provenet.fitting.search.policy import fitted_form, policy_of
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.units import calmed, promising_units, random_units
from provenet.networks.activations import get_activation


def problem(name: str, n: int = 400) -> tuple[pn.Network, Problem]:
    truth = pn.random_network(3, 5, activation=name, rng=0)
    X, y = pn.sample(truth, n, rng=1)
    return truth, Problem(ArraySource(X, y), float(y.std()), activation=truth.activation)


@pytest.mark.parametrize(
    ("name", "linear", "mirrored"),
    [
        ("abs", True, False),
        ("tanh", False, False),
        ("sin", False, False),
        ("gelu", True, False),
        ("softplus", True, False),
        ("elu", True, True),
    ],
)
def test_a_linear_part_where_it_makes_opposites_equal(
    name: str, linear: bool, mirrored: bool
) -> None:
    """`sigma(z)`, `sigma(-z)`, z and 1 are dependent for mirrored units, else beside 1 alone."""
    policy, sigma = policy_of(get_activation(name)), get_activation(name)
    assert (policy.linear, policy.mirrored) == (linear, mirrored)
    z = np.linspace(-2, 2, 9)
    columns = [sigma(z), sigma(-z), np.ones_like(z), *([z] if linear else [])]
    same = np.linalg.matrix_rank(np.column_stack(columns), tol=1e-9) < len(columns)
    assert same is not mirrored


def test_piecewise_linear_units_are_fitted_as_absolute_values() -> None:
    assert fitted_form(get_activation("relu")).name == "abs"
    assert fitted_form(get_activation("leaky_relu")).name == "abs"
    assert fitted_form(get_activation("tanh")).name == "tanh"


def test_parameters_count_norms_that_count() -> None:
    """5 features: a tanh unit has 5 weights, a bias and an output weight; |z| has no norm."""
    assert problem("tanh")[1].parameters(3) == 3 * 7 + 1
    assert problem("gelu")[1].parameters(3) == 3 * 7 + 6
    assert problem("abs")[1].parameters(3) == 3 * 6 + 6


def test_norms_that_ran_away_come_back_and_the_unit_stays_where_it_is() -> None:
    _, own = problem("tanh")
    theta = random_units(own, 4, np.random.default_rng(0))
    norms = np.array([5.9, 0.01, 1.0, 2.0])
    theta *= (norms / np.linalg.norm(theta[:, :-1], axis=1))[:, None]
    calm = calmed(own, Parameters(theta, np.zeros(5)), np.random.default_rng(1)).theta
    found = np.linalg.norm(calm[:, :-1], axis=1)
    assert np.all((found > 0.5) & (found < 3.1))
    np.testing.assert_allclose(found[2:], norms[2:])
    cosine = np.sum(calm * theta, axis=1) / np.linalg.norm(calm, axis=1)
    np.testing.assert_allclose(cosine / np.linalg.norm(theta, axis=1), 1.0)


def test_norms_are_capped_while_searching_only() -> None:
    _, own = problem("tanh")
    steep = np.column_stack([10 * np.eye(5)[:2], np.zeros(2)])
    start = Parameters(steep, np.zeros(3))
    capped = own.searching().refine(start, 1, 1e-3).parameters.theta
    np.testing.assert_allclose(np.linalg.norm(capped[:, :-1], axis=1), 6.0)
    free = own.searching().with_free_norms().refine(start, 1, 1e-3).parameters.theta
    np.testing.assert_allclose(free, steep)


def test_opposites_are_tried_where_there_is_no_symmetry() -> None:
    truth, own = problem("elu")
    wrong = Parameters.of(truth.replace(linear=np.zeros(5)))
    theta = wrong.theta.copy()
    theta[1] *= -1
    calm = calmed(own, replace(wrong, theta=theta), np.random.default_rng(0))
    np.testing.assert_allclose(calm.theta, wrong.theta)
    # With the other two units there, the opposite of the second is the best of the pool.
    pool = promising_units(own, replace(wrong, theta=theta), 1, np.random.default_rng(0))
    np.testing.assert_allclose(pool[0], wrong.theta[1])
