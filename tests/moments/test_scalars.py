"""Biases and output weights from directions and moments, at roots of Hermite polynomials too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import roots_hermitenorm

import provenet as pn
from helpers import exact_tensors, special_network
from provenet.moments.population import symmetric_tensor
from provenet.moments.scalars import coefficients_of, recover_scalars, scalars_from_coefficients
from provenet.networks.activations import RELU

ROOTS = np.unique(
    np.concatenate([[0.3, -1.2, 2.0], *(roots_hermitenorm(k)[0] for k in range(1, 6))]).round(15)
)
"""The roots of He_1 .. He_5, at which one of the coefficients vanishes, and other biases."""


@pytest.mark.parametrize("j", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_coefficients_of_a_tensor_in_known_directions(j: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((5, 4))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    zeta = rng.standard_normal(5)
    # Five directions in four dimensions: their squares are independent. Rounding times the
    # condition of the Gram matrix (below 1e4).
    found = coefficients_of(symmetric_tensor(zeta, W, j), W)
    np.testing.assert_allclose(found, zeta, rtol=0, atol=1e-10)


def test_coefficients_are_least_squares_where_there_is_more_in_the_tensor() -> None:
    rng = np.random.default_rng(0)
    W, T = rng.standard_normal((3, 4)), rng.standard_normal((4, 4, 4))
    T = sum(
        np.transpose(T, p)
        for p in [(0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2), (0, 2, 1), (2, 1, 0)]
    )
    design = np.column_stack([np.einsum("i,j,k->ijk", w, w, w).ravel() for w in W])
    expected = np.linalg.lstsq(design, T.ravel(), rcond=None)[0]
    np.testing.assert_allclose(coefficients_of(T, W), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_scalars_of_a_network(order: int, seed: int) -> None:
    net = special_network(seed)
    a, b = recover_scalars(exact_tensors(net, order + 3), net.weights, order)
    # Rounding times the condition of the Gram matrix of powers (over 50 seeds below 2e-13).
    np.testing.assert_allclose(b, net.biases, rtol=0, atol=1e-11)
    np.testing.assert_allclose(a, net.output_weights, rtol=0, atol=1e-11)


@pytest.mark.parametrize("order", [1, 2])
def test_a_direction_reversed_reverses_the_bias_only(order: int) -> None:
    net = special_network(1)
    signs = np.array([1.0, -1.0, -1.0, 1.0, -1.0, -1.0])
    a, b = recover_scalars(exact_tensors(net, order + 3), net.weights * signs[:, None], order)
    np.testing.assert_allclose(b, signs * net.biases, rtol=0, atol=1e-11)
    np.testing.assert_allclose(a, net.output_weights, rtol=0, atol=1e-11)


def test_more_units_than_features_at_order_2() -> None:
    """Order 2 needs independent squares of the weights only (ATV21, Theorem 3.2)."""
    net = pn.random_network(6, 3, rng=4).replace(biases=[0.0, 1.0, -1.0, np.sqrt(3), 0.5, -2.0])
    a, b = recover_scalars(exact_tensors(net, 5), net.weights, order=2)
    # Six squares span all symmetric 3 x 3 matrices; rounding times a condition of about 1e3.
    np.testing.assert_allclose(b, net.biases, rtol=0, atol=1e-10)
    np.testing.assert_allclose(a, net.output_weights, rtol=0, atol=1e-10)


@given(
    st.one_of(st.sampled_from(ROOTS), st.floats(-3, 3)),
    st.floats(0.1, 3),
    st.sampled_from([-1.0, 1.0]),
    st.integers(2, 5),
)
def test_the_recurrence_gives_back_any_unit(b: float, size: float, sign: float, order: int) -> None:
    a = size * sign
    zeta = np.array([[a * float(RELU.hermite(j, b))] for j in range(order, order + 4)])
    found_a, found_b = scalars_from_coefficients(zeta, order)
    # One of two neighbouring Hermite polynomials is at least sqrt(k!)/2 (Lemma 4.3): no root is
    # near, and rounding is all there is.
    assert found_b[0] == pytest.approx(b, abs=1e-11)
    assert found_a[0] == pytest.approx(a, rel=1e-10)


def test_no_signal_gives_finite_numbers() -> None:
    W = np.eye(3)
    tensors = tuple(np.zeros((3,) * k) for k in range(6))
    for order in (1, 2):
        a, b = recover_scalars(tensors, W, order)
        assert np.isfinite(b).all() and np.abs(b).max() <= 8
        assert np.isfinite(a).all()
    noise = (np.zeros(()), np.zeros(3), 1e-9 * np.eye(3), symmetric_tensor(np.ones(3), W, 3))
    a, b = recover_scalars(noise, W)
    np.testing.assert_array_equal(b, -8.0)
    assert np.isfinite(a).all()
