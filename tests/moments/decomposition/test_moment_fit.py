"""The fit in moment space: value, gradient and minimum of the truncated population risk."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import direction_error, exact_tensors, special_network
from provenet.common.typing import Array
from provenet.moments.decomposition import fit_moments
from provenet.moments.decomposition.moment_fit import _Risk
from provenet.moments.population import symmetric_tensor
from provenet.networks.activations import ABS, RELU, Activation


def pack(a: Array, b: Array, W: Array) -> Array:
    return np.concatenate([a, b, W.ravel()])


def random_point(units: int, features: int, rng: np.random.Generator) -> Array:
    """Rows of W of any length: only their directions count."""
    return pack(
        rng.standard_normal(units),
        rng.uniform(-2, 2, units),
        rng.standard_normal((units, features)),
    )


@given(st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([RELU, ABS]))
def test_value_is_the_definition(units: int, seed: int, activation: Activation) -> None:
    rng = np.random.default_rng(seed)
    T = exact_tensors(pn.random_network(3, 3, rng=rng))
    x = random_point(units, 3, rng)
    a, b, W = x[:units], x[units : 2 * units], x[2 * units :].reshape(units, 3)
    V = W / np.linalg.norm(W, axis=1, keepdims=True)
    expected = sum(
        np.sum((T[k] - symmetric_tensor(a * activation.hermite(k, b), V, k)) ** 2) / factorial(k)
        for k in (2, 3, 4)
    )
    # Rounding of a sum of squares that cancel, relative to numbers below 100.
    assert _Risk(T, activation, units)(x)[0] == pytest.approx(expected, rel=1e-11, abs=1e-12)


@given(st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([RELU, ABS]))
def test_gradient_is_finite_differences(units: int, seed: int, activation: Activation) -> None:
    rng = np.random.default_rng(seed)
    T = exact_tensors(pn.random_network(3, 3, rng=rng))
    risk = _Risk(T, activation, units)
    x = random_point(units, 3, rng)
    shortest = np.linalg.norm(x[2 * units :].reshape(units, 3), axis=1).min()
    step = 1e-5 * min(shortest, 1.0)
    gradient = risk(x)[1]
    numerical = [
        (risk(x + step * e)[0] - risk(x - step * e)[0]) / (2 * step) for e in np.eye(len(x))
    ]
    # Rounding of the value over the step: 1e-15 / 1e-5 times values below 100, over short rows.
    np.testing.assert_allclose(gradient, numerical, rtol=1e-5, atol=1e-7 / min(shortest, 1.0))


@given(st.integers(0, 10**6))
def test_the_truth_and_its_reflections_are_minima_of_value_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = special_network(seed)
    signs = rng.choice([-1.0, 1.0], 6)
    W = net.weights * signs[:, None] * rng.uniform(0.5, 2, (6, 1))
    risk = _Risk(exact_tensors(net), RELU, 6)
    value, gradient = risk(pack(net.output_weights, signs * net.biases, W))
    # Zero but for rounding: (w, b) and (-w, -b) have the same moments of order 2 and up.
    assert abs(value) < 1e-13 and np.abs(gradient).max() < 1e-13


@pytest.mark.parametrize("seed", range(5))
def test_output_weights_at_the_true_units_are_the_true_ones(seed: int) -> None:
    net = special_network(seed)
    risk = _Risk(exact_tensors(net), RELU, 6)
    found = risk.best_output_weights(net.biases, net.weights)
    # A ridge of 1e-9 of the trace, over the smallest eigenvalue: over 50 seeds below 5e-8.
    np.testing.assert_allclose(found, net.output_weights, rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e-5])
@pytest.mark.parametrize(("units", "features"), [(5, 5), (3, 6), (6, 4)])
@pytest.mark.parametrize("seed", range(3))
def test_a_fit_from_near_the_truth_finds_it(
    units: int, features: int, seed: int, scale: float
) -> None:
    """Also with more units than features, where a decomposition would not, and for small labels.

    L-BFGS's own tolerances are absolute below 1: with them it ends far from the minimum.
    """
    net = pn.random_network(units, features, rng=100 + seed)
    net = net.replace(output_weights=scale * net.output_weights)
    rng = np.random.default_rng(seed)
    W = net.weights + 0.1 * rng.standard_normal(net.weights.shape)
    b = net.biases + 0.1 * rng.standard_normal(units)
    fit = fit_moments(exact_tensors(net), RELU, W, b)
    # The risk of about 1e-16 that rounding leaves allows its square root, 1e-8, times the condition
    # of the problem.
    assert direction_error(fit.W, net.weights) < 1e-5
    np.testing.assert_allclose(np.linalg.norm(fit.W, axis=1), 1.0, rtol=1e-14)
    order = np.argmax(np.abs(fit.W @ net.weights.T), axis=1)
    np.testing.assert_allclose(fit.a / scale, net.output_weights[order] / scale, rtol=0, atol=1e-4)
    signs = np.sign(np.einsum("md,md->m", fit.W, net.weights[order]))
    np.testing.assert_allclose(signs * fit.b, net.biases[order], rtol=0, atol=1e-4)


def test_the_fit_lowers_the_risk_from_any_start() -> None:
    T = exact_tensors(special_network(0))
    rng = np.random.default_rng(0)
    W, b = rng.standard_normal((6, 6)), rng.uniform(-1.5, 1.5, 6)
    risk = _Risk(T, RELU, 6)
    V = W / np.linalg.norm(W, axis=1, keepdims=True)
    start = risk(pack(risk.best_output_weights(b, V), b, V))[0]
    short, long = fit_moments(T, RELU, W, b, iterations=5), fit_moments(T, RELU, W, b)
    assert long.risk <= short.risk < start
    assert long.risk == pytest.approx(risk(pack(long.a, long.b, long.W))[0], abs=1e-12)
