"""Sums and steps of least squares against an explicit Jacobian."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import NET, NETS, jacobian, moved, random_standardisation, samples
from provenet.common.ended import Ended
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, StandardisedSource
from provenet.fitting.many_samples import sums_of_many
from provenet.fitting.model import Parameters
from provenet.fitting.normal_equations import (
    DenseStep,
    cross_products,
    eliminate,
    input_gram,
    linear_part,
    normal_equations,
    solve_scaled,
    without_each_unit,
)
from provenet.fitting.output_layer import fit_linear_part
from provenet.networks.activations import RELU
from provenet.networks.conversions import as_absolute


@pytest.fixture(params=["relu", "abs with a linear part"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["one output", "three outputs"])
def truth(request: pytest.FixtureRequest) -> pn.Network:
    return NETS[request.param]


@pytest.fixture
def model(truth: pn.Network, form: str) -> pn.Network:
    """A network near the truth in either of the two forms that are refined."""
    near = moved(truth, 0.2)
    return near if form == "relu" else as_absolute(near)


def explicit(model: pn.Network, source: ArraySource) -> tuple[Array, Array]:
    """The Jacobian in all parameters, and the residual."""
    return jacobian(model, source.X), (model(source.X) - source.y).ravel()


# ---------------------------------------------------------------- parameters


def test_parameters_are_the_network_s_own(model: pn.Network) -> None:
    parameters = Parameters.of(model)
    again = parameters.network(model.activation)
    for name in ("weights", "biases", "output_weights", "output_bias", "linear"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert parameters.units == 4 and parameters.has_linear == (model.linear is not None)
    assert len(parameters.linear) == (1 if model.linear is None else 4)


def test_normalised_parameters_are_the_same_function(model: pn.Network) -> None:
    parameters = Parameters.of(model.replace(weights=3 * model.weights)).normalised(
        model.activation
    )
    np.testing.assert_allclose(np.linalg.norm(parameters.theta[:, :-1], axis=1), 1.0, rtol=1e-14)
    X = samples().X
    expected = model.replace(weights=3 * model.weights)(X)
    np.testing.assert_allclose(parameters.network(model.activation)(X), expected, atol=1e-13)


def test_keep_some_units(model: pn.Network) -> None:
    mask = np.array([True, False, True, True])
    kept = Parameters.of(model).keep(mask).network(model.activation)
    np.testing.assert_array_equal(kept(samples().X), model.keep(mask)(samples().X))


# ---------------------------------------------------------------- sums over samples


def test_sums_are_those_of_the_explicit_jacobian(truth: pn.Network, model: pn.Network) -> None:
    source, parameters = samples(net=truth), Parameters.of(model)
    J, r = explicit(model, source)
    found = normal_equations(source, parameters, model.activation)
    # Rounding of sums of 4500 terms near 1.
    np.testing.assert_allclose(found.theta_gradient, (J.T @ r)[:16], rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(found.gradient.ravel(), (J.T @ r)[16:], rtol=1e-12, atol=1e-10)
    assert found.rss == pytest.approx(r @ r, rel=1e-12)
    crossed = cross_products(source, parameters, model.activation)
    thetas = len(found.theta_gradient)
    np.testing.assert_allclose(
        crossed.reshape(thetas, -1), found.hessian[:thetas, thetas:], rtol=1e-12, atol=1e-10
    )
    linear = linear_part(source, parameters, model.activation)
    outputs = len(parameters.output_weights)
    first = J[::outputs, 16::outputs]  # the features, as the first output sees them
    np.testing.assert_allclose(linear.gram, first.T @ first, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(linear.gradient, found.gradient, rtol=1e-12, atol=1e-10)
    assert linear.rss == pytest.approx(r @ r, rel=1e-12)


def test_sums_of_many_samples_are_the_same(truth: pn.Network, model: pn.Network) -> None:
    """In one pass with the matrix of some samples: as from normal equations of all and of these."""
    given, parameters = samples(net=truth), Parameters.of(model)
    s = random_standardisation(given.features, np.random.default_rng(3))
    source = StandardisedSource(given, s, 0.7)
    whole = normal_equations(source, parameters, model.activation)
    inputs = input_gram(source, parameters)
    found, matrix = sums_of_many(source, parameters, model.activation, inputs, 3)
    # Rounding of sums of 4500 terms near 1.
    for name in ("theta_gradient", "gradient", "rss"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(whole, name), rtol=1e-11, atol=1e-10
        )
    gram = linear_part(source, parameters, model.activation).gram
    np.testing.assert_allclose(found.gram, gram, rtol=1e-12, atol=1e-10)
    some = StandardisedSource(ArraySource(given.X[::3], given.y[::3]), s, 0.7)
    own = normal_equations(some, parameters, model.activation, np.float32).hessian
    # Single precision, of entries up to the number of samples.
    np.testing.assert_allclose(matrix, own * (source.size / some.size), atol=1e-5 * source.size)


def test_the_matrix_without_beta_is_the_schur_complement(
    truth: pn.Network, model: pn.Network
) -> None:
    source, parameters = samples(net=truth), Parameters.of(model)
    J, _ = explicit(model, source)
    H = J.T @ J
    expected = H[:16, :16] - H[:16, 16:] @ np.linalg.solve(H[16:, 16:], H[16:, :16])
    equations = normal_equations(source, parameters, model.activation)
    S, _ = eliminate(equations, parameters, 1e-15)
    # Sizes up to 1e3, features of condition 1e2 or so.
    np.testing.assert_allclose(S, expected, rtol=0, atol=1e-8)


def test_in_single_precision_the_gradient_keeps_its_digits(
    truth: pn.Network, model: pn.Network
) -> None:
    source = samples(net=truth)
    double = normal_equations(source, Parameters.of(model), model.activation)
    single = normal_equations(source, Parameters.of(model), model.activation, np.float32)
    # Float32 has 6e-8; sums over blocks of at most 512 rows are added in double.
    np.testing.assert_allclose(single.hessian, double.hessian, rtol=1e-5, atol=1e-2)
    assert not np.array_equal(single.hessian, double.hessian)
    np.testing.assert_allclose(single.theta_gradient, double.theta_gradient, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(single.gradient, double.gradient, rtol=1e-12, atol=1e-10)
    assert single.rss == pytest.approx(double.rss, rel=1e-13)


def test_the_gradient_is_finite_differences(truth: pn.Network, model: pn.Network) -> None:
    source = samples(300, net=truth)
    parameters = Parameters.of(model)
    sums = normal_equations(source, parameters, model.activation)
    gradient = np.append(sums.theta_gradient, sums.gradient)
    x = np.append(parameters.theta.ravel(), parameters.beta)

    def half_rss(x: Array) -> float:
        p = Parameters(x[:16].reshape(4, 4), x[16:].reshape(parameters.beta.shape))
        return np.sum((p.network(model.activation)(source.X) - source.y) ** 2) / 2

    step = 1e-6
    numerical = [
        (half_rss(x + step * e) - half_rss(x - step * e)) / (2 * step) for e in np.eye(len(x))
    ]
    # Rounding of the value (1e2) over the step, 1e-8, and samples within 1e-6 of a kink: none.
    np.testing.assert_allclose(gradient, numerical, rtol=0, atol=1e-6)


def test_the_best_linear_parameters(truth: pn.Network, model: pn.Network) -> None:
    source = samples(noise=0.1, net=truth)
    start = Parameters.of(model)
    J, _ = explicit(model, source)
    expected, rss, *_ = np.linalg.lstsq(J[:, 16:], source.y.ravel(), rcond=None)
    fitted, found = fit_linear_part(source, start, model.activation, passes=2)
    np.testing.assert_array_equal(fitted.theta, start.theta)
    # Normal equations of condition 1e2 or so, corrected twice.
    np.testing.assert_allclose(fitted.beta.ravel(), expected, rtol=0, atol=1e-11)
    assert found == pytest.approx(rss[0], rel=1e-12)


def test_what_each_unit_is_worth(truth: pn.Network, model: pn.Network) -> None:
    source = samples(noise=0.1, net=truth)
    fitted, rss = fit_linear_part(source, Parameters.of(model), model.activation, passes=2)
    sums = linear_part(source, fitted, model.activation)
    worth = without_each_unit(sums, fitted)
    for i in range(4):
        rest = fitted.keep(np.arange(4) != i)
        without = fit_linear_part(source, rest, model.activation, passes=2)[1]
        assert worth[i] == pytest.approx(without - rss, rel=1e-8)


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_badly_scaled_systems_are_solved(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((2 * n + 2, n))
    scale = 10.0 ** rng.uniform(-6, 6, n)
    x = rng.standard_normal(n) / scale
    A = B.T @ B * np.outer(scale, scale)
    # Rounding times the condition of B^T B once its diagonal is one, not that of A.
    cond = np.linalg.cond(A / np.sqrt(np.outer(np.diag(A), np.diag(A))))
    found = solve_scaled(A, A @ x, 1e-15)
    np.testing.assert_allclose(found * scale, x * scale, rtol=0, atol=1e-12 * cond)


def test_singular_systems_have_an_answer() -> None:
    B = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    A, rhs = B.T @ B, B.T @ np.array([1.0, 2.0, 0.0])
    x = solve_scaled(A, rhs, 1e-13)
    assert np.isfinite(x).all()
    np.testing.assert_allclose(A @ x, rhs, rtol=0, atol=1e-6)  # a ridge of up to 1e-7
    assert np.isfinite(solve_scaled(np.zeros((2, 2)), np.zeros(2), 1e-13)).all()


# ---------------------------------------------------------------- one step


@pytest.mark.parametrize("damping", [1e-4, 1.0])
def test_a_step_is_that_of_the_damped_problem_in_all_parameters(
    truth: pn.Network, model: pn.Network, damping: float
) -> None:
    """Eliminating the linear parameters changes nothing: damping is on theta alone."""
    source, parameters = samples(noise=0.1, net=truth), Parameters.of(model)
    equations = normal_equations(source, parameters, model.activation)
    step = DenseStep.of(equations, parameters, 1e-14).solve(damping)
    J, r = explicit(model, source)
    H = J.T @ J
    H[np.arange(16), np.arange(16)] *= 1 + damping
    expected = np.linalg.solve(H, J.T @ r)[:16]
    # A regularisation of 1e-10 of the mean diagonal beside the damping, over units' null scales.
    assert step is not None and step.ended is Ended.CONVERGED
    np.testing.assert_allclose(step.move, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_a_matrix_that_is_not_positive_definite_has_no_step() -> None:
    parameters = Parameters.of(moved(NET, 0.2))
    step = DenseStep.of(normal_equations(samples(), parameters, RELU), parameters, 1e-14)
    step = replace(step, matrix=step.matrix - 1e6 * np.eye(16))
    assert step.solve(1e-3) is None
