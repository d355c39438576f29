"""Jennrich's algorithm on exact tensors: every term, whatever its sign."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import direction_error, exact_tensors, special_network
from provenet.moments.decomposition import jennrich

SEEDS = range(5)
EXACT = 1e-11
"""Rounding times the condition of the units and of the eigenvalues: over 50 seeds below 2e-14."""


@pytest.mark.parametrize("features", [6, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_third_order_sees_all_units_but_those_with_bias_0(seed: int, features: int) -> None:
    net = special_network(seed, features)
    seen = net.biases != 0
    found = jennrich(exact_tensors(net)[3], 4, np.random.default_rng(seed))
    assert direction_error(found, net.weights[seen]) < EXACT


@pytest.mark.parametrize("features", [6, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_fourth_order_sees_all_units_but_those_with_bias_1(seed: int, features: int) -> None:
    net = special_network(seed, features)
    seen = np.abs(net.biases) != 1
    T4 = exact_tensors(net)[4].reshape(features, features, features**2)
    found = jennrich(T4, 4, np.random.default_rng(seed))
    assert direction_error(found, net.weights[seen]) < EXACT


@pytest.mark.parametrize("seed", SEEDS)
def test_a_third_mode_of_its_own(seed: int) -> None:
    """`T = sum_i alpha_i u_i (x) u_i (x) x_i`: the x_i may be anything, even parallel."""
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((4, 5))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    x = rng.standard_normal((4, 3))
    alpha = np.array([2.0, -1.0, 0.5, -0.7])
    T = np.einsum("m,mi,mj,mk->ijk", alpha, U, U, x)
    assert direction_error(jennrich(T, 4, rng), U) < EXACT


def test_rank_one_and_rank_zero() -> None:
    w = np.array([0.6, 0.0, -0.8])
    T = -3.0 * np.einsum("i,j,k->ijk", w, w, w)
    rng = np.random.default_rng(0)
    found = jennrich(T, 1, rng)
    assert direction_error(found, w[None]) < 1e-14
    assert jennrich(T, 0, rng).shape == (0, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_errors_of_the_tensor_move_the_directions_in_proportion(seed: int) -> None:
    net = special_network(seed)
    T3 = exact_tensors(net)[3]
    E = np.random.default_rng(seed).standard_normal(T3.shape)
    truth = net.weights[net.biases != 0]

    def error(size: float) -> float:
        return direction_error(jennrich(T3 + size * E, 4, np.random.default_rng(1)), truth)

    # To first order, with the condition of the problem as the factor: over 50 seeds the quotient of
    # the errors is between 99.9 and 100.1 and the factor below 4e3.
    assert 95 < error(1e-8) / error(1e-10) < 105
    assert error(1e-10) < 4e-6


def test_what_noise_makes_complex_is_still_real_unit_vectors() -> None:
    noise = np.random.default_rng(0).standard_normal((6, 6, 6))
    found = jennrich(noise + noise.transpose(1, 0, 2), 6, np.random.default_rng(1))
    assert found.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-12)
