"""Least squares on samples: the sums against an explicit Jacobian, the minimum against scipy."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

import provenet as pn
from helpers import jacobian
from provenet import refine as module
from provenet.activations import ABS, RELU
from provenet.networks import as_absolute
from provenet.refine import (
    IterativeStep,
    Parameters,
    _DenseStep,
    fit_linear_part,
    gradient_sums,
    linear_part,
    normal_equations,
    refine,
    solve_scaled,
    without_each_unit,
)
from provenet.sources import ArraySource
from provenet.typing import Array

NET = pn.random_network(4, 3, rng=0).replace(output_bias=0.4)


def samples(n: int = 1500, noise: float = 0.0, seed: int = 1) -> ArraySource:
    """More than one block of rows."""
    return ArraySource(*pn.sample(NET, n, noise=noise, rng=seed))


def moved(net: pn.Network, size: float, seed: int = 2) -> pn.Network:
    rng = np.random.default_rng(seed)
    return net.replace(
        weights=net.weights + size * rng.standard_normal(net.weights.shape),
        biases=net.biases + size * rng.standard_normal(net.units),
        output_weights=net.output_weights + size * rng.standard_normal(net.units),
    )


@pytest.fixture(params=["relu", "abs with a linear part"])
def model(request: pytest.FixtureRequest) -> pn.Network:
    """A network near NET in either of the two forms that are refined."""
    near = moved(NET, 0.2)
    return near if request.param == "relu" else as_absolute(near)


# ---------------------------------------------------------------- parameters


def test_parameters_are_the_network_s_own(model: pn.Network) -> None:
    parameters = Parameters.of(model)
    again = parameters.network(model.activation)
    for name in ("weights", "biases", "output_weights", "output_bias", "linear"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert parameters.units == 4 and parameters.has_linear == (model.linear is not None)
    assert len(parameters.linear) == (1 if model.linear is None else 4)


def test_normalised_parameters_are_the_same_function(model: pn.Network) -> None:
    parameters = Parameters.of(model.replace(weights=3 * model.weights)).normalised()
    np.testing.assert_allclose(np.linalg.norm(parameters.theta[:, :-1], axis=1), 1.0, rtol=1e-14)
    X = samples().X
    expected = model.replace(weights=3 * model.weights)(X)
    np.testing.assert_allclose(parameters.network(model.activation)(X), expected, atol=1e-13)


def test_keep_some_units(model: pn.Network) -> None:
    mask = np.array([True, False, True, True])
    kept = Parameters.of(model).keep(mask).network(model.activation)
    np.testing.assert_array_equal(kept(samples().X), model.keep(mask)(samples().X))


# ---------------------------------------------------------------- sums over samples


def test_normal_equations_are_those_of_the_explicit_jacobian(model: pn.Network) -> None:
    source = samples()
    J, r = jacobian(model, source.X), model(source.X) - source.y
    found = normal_equations(source, Parameters.of(model), model.activation)
    # Rounding of sums of 1500 terms near 1.
    np.testing.assert_allclose(found.hessian, J.T @ J, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(found.gradient, J.T @ r, rtol=1e-12, atol=1e-10)
    assert found.rss == pytest.approx(r @ r, rel=1e-12)


def test_in_single_precision_the_gradient_keeps_its_digits(model: pn.Network) -> None:
    source = samples()
    double = normal_equations(source, Parameters.of(model), model.activation)
    single = normal_equations(source, Parameters.of(model), model.activation, np.float32)
    # Float32 has 6e-8; sums over blocks of at most 512 rows are added in double.
    np.testing.assert_allclose(single.hessian, double.hessian, rtol=1e-5, atol=1e-2)
    assert not np.array_equal(single.hessian, double.hessian)
    np.testing.assert_allclose(single.gradient, double.gradient, rtol=1e-12, atol=1e-10)
    assert single.rss == pytest.approx(double.rss, rel=1e-13)


def test_the_gradient_is_finite_differences(model: pn.Network) -> None:
    source = samples(300)
    parameters = Parameters.of(model)
    gradient = normal_equations(source, parameters, model.activation).gradient
    x = np.append(parameters.theta.ravel(), parameters.beta)

    def half_rss(x: Array) -> float:
        p = Parameters(x[:16].reshape(4, 4), x[16:])
        return np.sum((p.network(model.activation)(source.X) - source.y) ** 2) / 2

    step = 1e-6
    numerical = [
        (half_rss(x + step * e) - half_rss(x - step * e)) / (2 * step) for e in np.eye(len(x))
    ]
    # Rounding of the value (1e2) over the step, 1e-8, and samples within 1e-6 of a kink: none.
    np.testing.assert_allclose(gradient, numerical, rtol=0, atol=1e-6)


def test_other_sums_are_parts_of_the_normal_equations(model: pn.Network) -> None:
    source, parameters = samples(), Parameters.of(model)
    whole = normal_equations(source, parameters, model.activation)
    linear = linear_part(source, parameters, model.activation)
    np.testing.assert_allclose(linear.gram, whole.hessian[16:, 16:], rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(linear.gradient, whole.gradient[16:], rtol=1e-12, atol=1e-10)
    alone = gradient_sums(source, parameters, model.activation)
    np.testing.assert_allclose(alone.gradient, whole.gradient, rtol=1e-12, atol=1e-10)
    assert linear.rss == pytest.approx(whole.rss, rel=1e-13)
    assert alone.rss == pytest.approx(whole.rss, rel=1e-13)


def test_the_best_linear_parameters(model: pn.Network) -> None:
    source = samples(noise=0.1)
    start = Parameters.of(model)
    phi = jacobian(model, source.X)[:, 16:]
    expected, rss, *_ = np.linalg.lstsq(phi, source.y, rcond=None)
    fitted, found = fit_linear_part(source, start, model.activation, passes=2)
    np.testing.assert_array_equal(fitted.theta, start.theta)
    # Normal equations of condition 1e2 or so, corrected twice.
    np.testing.assert_allclose(fitted.beta, expected, rtol=0, atol=1e-11)
    assert found == pytest.approx(rss[0], rel=1e-12)


def test_what_each_unit_is_worth(model: pn.Network) -> None:
    source = samples(noise=0.1)
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
    model: pn.Network, damping: float
) -> None:
    """Eliminating the linear parameters changes nothing: damping is on theta alone."""
    source = samples(noise=0.1)
    equations = normal_equations(source, Parameters.of(model), model.activation)
    step = _DenseStep(equations, 16, 1e-14).solve(damping)
    H = equations.hessian.copy()
    H[np.arange(16), np.arange(16)] *= 1 + damping
    expected = np.linalg.solve(H, equations.gradient)[:16]
    # A regularisation of 1e-10 of the mean diagonal beside the damping, over units' null scales.
    np.testing.assert_allclose(step, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_conjugate_gradients_take_the_same_step(model: pn.Network) -> None:
    source, parameters = samples(noise=0.1), Parameters.of(model)
    equations = normal_equations(source, parameters, model.activation)
    iterative = IterativeStep(source, parameters, model.activation, equations.gradient)
    v = np.random.default_rng(0).standard_normal(len(equations.gradient))
    np.testing.assert_allclose(iterative.product(v), equations.hessian @ v, rtol=1e-11, atol=1e-9)
    # Its diagonal carries 1e-10 of its mean.
    np.testing.assert_allclose(iterative.diagonal, np.diag(equations.hessian), rtol=1e-8)
    found = iterative.solve(0.1)
    expected = _DenseStep(equations, 16, 1e-14).solve(0.1)
    # Conjugate gradients end at a relative residual of 1e-3, in a system of condition 1e2 or less.
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.03 * np.abs(expected).max())


def test_a_matrix_that_is_not_positive_definite_has_no_step() -> None:
    equations = normal_equations(samples(), Parameters.of(moved(NET, 0.2)), RELU)
    step = _DenseStep(equations, 16, 1e-14)
    step.matrix = step.matrix - 1e6 * np.eye(16)
    assert step.solve(1e-3) is None


# ---------------------------------------------------------------- the iteration


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("form", ["relu", "abs"])
def test_without_noise_it_ends_at_machine_precision(
    form: str, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not dense:
        monkeypatch.setattr(module, "DENSE_LIMIT", 0)
    source = samples(600)
    near = moved(NET, 0.05)
    start = Parameters.of(near if form == "relu" else as_absolute(near))
    fit = refine(
        source, start, RELU if form == "relu" else ABS, spread=float(source.y.std()), tolerance=1e-9
    )
    assert fit.rms < 1e-13 * source.y.std() and fit.samples == 600
    found = fit.parameters.network(RELU if form == "relu" else ABS)
    truth = NET if form == "relu" else as_absolute(NET)
    # Rounding of the labels times the condition of the problem.
    assert abs(found.output_bias - truth.output_bias) < 1e-11
    if form == "relu":
        assert fit.reason in ("zero", "stuck")
        assert pn.parameter_error(found, truth) < 1e-11


def test_with_noise_it_ends_where_scipy_ends() -> None:
    source = samples(800, noise=0.2)
    start = moved(NET, 0.05)

    def residual(x: Array) -> Array:
        theta = x[:16].reshape(4, 4)
        return np.maximum(source.X @ theta[:, :3].T + theta[:, 3], 0) @ x[16:20] + x[20] - source.y

    x = np.append(Parameters.of(start).theta.ravel(), Parameters.of(start).beta)
    scipy_fit = least_squares(residual, x, method="lm", xtol=1e-12, ftol=1e-12, gtol=1e-12)
    fit = refine(source, Parameters.of(start), RELU, spread=1.0, tolerance=1e-10)
    # Both are minima of the same function; kinks at samples leave ends that differ by a little.
    assert fit.rss == pytest.approx(2 * scipy_fit.cost, rel=1e-4)
    assert fit.reason in ("converged", "stuck")
    residuals = fit.parameters.network(RELU)(source.X) - source.y
    assert fit.rss == pytest.approx(residuals @ residuals, rel=1e-10)
    # The noise's own sum of squares, less one for each of 17 free parameters: 5 deviations.
    assert fit.rms == pytest.approx(0.2 * np.sqrt(1 - 17 / 800), rel=5 / np.sqrt(2 * 800))


@given(st.integers(0, 10**6))
@settings(max_examples=15)
def test_it_never_ends_worse_than_the_best_linear_fit_at_its_start(seed: int) -> None:
    source = samples(200, noise=0.1)
    start = Parameters.of(pn.random_network(3, 3, rng=seed))
    first = fit_linear_part(source, start, RELU, passes=2)[1]
    fit = refine(source, start, RELU, spread=1.0, iterations=8)
    # At one iteration the sum of squares is only computed anew: equal to rounding.
    assert fit.rss <= first * (1 + 1e-9)
    np.testing.assert_allclose(np.linalg.norm(fit.parameters.theta[:, :-1], axis=1), 1.0)


def test_reasons() -> None:
    source = samples(300, noise=0.1)
    start = Parameters.of(moved(NET, 0.2))

    def reason(**options: float) -> str:
        return refine(source, start, RELU, spread=1.0, **options).reason

    assert reason(tolerance=1e-3) == "converged"
    assert reason(tolerance=1e-9, iterations=2) == "iterations"
    assert reason(tolerance=1e-9, deadline=time.monotonic() - 1) == "time"
    assert reason(zero=0.5) == "zero"
    best = refine(source, start, RELU, spread=1.0, tolerance=0.0, iterations=300)
    assert best.reason == "stuck"


def test_the_same_samples_give_the_same_digits() -> None:
    source = samples(3000, noise=0.1)
    first, second = (
        refine(source, Parameters.of(moved(NET, 0.1)), RELU, spread=1.0).parameters for _ in "ab"
    )
    np.testing.assert_array_equal(first.theta, second.theta)
    np.testing.assert_array_equal(first.beta, second.beta)
