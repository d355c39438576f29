"""Units from moments that were built from them: directions, scalars, and the fit of all at once."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import roots_hermitenorm

import provenet as pn
from helpers import (
    direction_error,
    exact_tensors,
    in_span,
    special_network,
    symmetric_tensor,
    symmetrised,
)
from provenet.common.typing import Array
from provenet.moments.decomposition import (
    MomentRisk,
    congruence,
    fit_moments,
    jennrich,
    power_directions,
    recover_scalars,
    scalars_from_coefficients,
    unit_directions,
)
from provenet.moments.hermite import population_moments
from provenet.moments.symmetric import SymmetricTensor
from provenet.networks.activations import ABS, RELU, Activation

SEEDS = range(5)


def exact(net: pn.Network, order: int = 4) -> tuple[SymmetricTensor, ...]:
    return population_moments(net.canonical(), order).symmetric


EXACT = 1e-11
"""Rounding times the condition of the units and of the eigenvalues: over 50 seeds below 2e-13."""

# ---------------------------------------------------------------- Jennrich


@pytest.mark.parametrize("features", [6, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_third_order_sees_all_units_but_those_with_bias_0(seed: int, features: int) -> None:
    """Order 4 sees all but those with bias 1 or -1."""
    net = special_network(seed, features)
    tensors, rng = exact_tensors(net), np.random.default_rng(seed)
    found = jennrich(tensors[3], 4, rng)
    assert direction_error(found, net.weights[net.biases != 0]) < EXACT
    found = jennrich(tensors[4].reshape(features, features, -1), 4, rng)
    assert direction_error(found, net.weights[np.abs(net.biases) != 1]) < EXACT


@pytest.mark.parametrize("seed", SEEDS)
def test_a_third_mode_of_its_own(seed: int) -> None:
    """`T = sum_i alpha_i u_i (x) u_i (x) x_i`: the x_i may be anything; noise moves the u_i."""
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((4, 5))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    alpha = np.array([2.0, -1.0, 0.5, -0.7])
    T = np.einsum("m,mi,mj,mk->ijk", alpha, U, U, rng.standard_normal((4, 3)))
    assert direction_error(jennrich(T, 4, rng), U) < EXACT
    assert jennrich(T, 0, rng).shape == (0, 5)
    E = rng.standard_normal(T.shape)
    off = [
        direction_error(jennrich(T + e * E, 4, np.random.default_rng(1)), U) for e in (1e-8, 1e-10)
    ]
    # To first order, times the condition of the problem.
    assert 95 < off[0] / off[1] < 105 and off[1] < 1e-6


def test_what_noise_makes_complex_is_still_real_unit_vectors() -> None:
    noise = np.random.default_rng(0).standard_normal((6, 6, 6))
    found = jennrich(noise + noise.transpose(1, 0, 2), 6, np.random.default_rng(1))
    assert found.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-12)


# ---------------------------------------------------------------- joint diagonalisation


def unit_rows(V: Array) -> Array:
    return V / np.linalg.norm(V, axis=1, keepdims=True)


def sharing(V: Array, matrices: int, noise: float, rng: np.random.Generator) -> Array:
    """Symmetric matrices `V^T D_j V`, with relative noise."""
    M = (V.T * rng.standard_normal((matrices, 1, len(V)))) @ V
    E = symmetric(rng.standard_normal(M.shape))
    return M + noise * np.linalg.norm(M) / np.linalg.norm(E) * E


def symmetric(M: Array) -> Array:
    return M + M.transpose(0, 2, 1)


def residual(M: Array, V: Array) -> float:
    """The relative residual of the best `D_j`, by another route."""
    terms = np.einsum("ki,kj->kij", V, V).reshape(len(V), -1).T
    flat = M.reshape(len(M), -1).T
    left = flat - terms @ np.linalg.lstsq(terms, flat, rcond=None)[0]
    return float(np.linalg.norm(left) / np.linalg.norm(flat))


@pytest.mark.parametrize(
    ("units", "matrices", "noise", "tolerance"),
    [
        # Two matrices at 20 units: eigenvalue ratios come close, which costs digits (1e-10 at worst
        # over 50 seeds); with more matrices no direction is left to chance.
        *[(1, 2, 0.0, 1e-15), (5, 2, 0.0, 1e-10), (20, 2, 0.0, 1e-7)],
        *[(5, 5, 0.0, 1e-12), (20, 40, 0.0, 1e-13), (50, 60, 0.0, 1e-13)],
        # Twice the largest error over 20 seeds (10 at 50 units).
        *[(5, 60, 0.1, 0.25), (20, 20, 0.1, 0.12), (50, 60, 0.05, 0.02), (50, 10, 0.02, 0.04)],
    ],
)
def test_noise_costs_its_own_size(
    units: int, matrices: int, noise: float, tolerance: float
) -> None:
    """A least-squares fit leaves the noise less its share of the numbers that are fitted."""
    rng = np.random.default_rng(1)
    V = unit_rows(rng.standard_normal((units, units)))
    M = sharing(V, matrices, noise, rng)
    found = congruence(M)
    assert np.isrealobj(found) and direction_error(found, V) < tolerance
    numbers, fitted = matrices * units * (units + 1) / 2, units * (matrices + units - 1)
    assert residual(M, found) == pytest.approx(
        noise * np.sqrt(max(1 - fitted / numbers, 0.0)), rel=0.05, abs=1e-13
    )


def test_nearly_parallel_rows() -> None:
    rng = np.random.default_rng(5)
    V = unit_rows(rng.standard_normal((8, 8)))
    V[1] = V[0] + 1e-3 * V[1]
    V = unit_rows(V)
    # Rounding times the condition squared is 1e-10; the rows are 1e-3 apart.
    assert direction_error(congruence(sharing(V, 12, 0.0, rng)), V) < 1e-8


def test_matrices_that_share_nothing_leave_a_residual() -> None:
    M = symmetric(np.random.default_rng(7).standard_normal((30, 6, 6)))
    assert residual(M, congruence(M)) > 0.3
    np.testing.assert_array_equal(congruence(np.zeros((3, 4, 4))), np.eye(4))


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), units=st.integers(1, 8))
def test_shared_rows_follow_a_change_of_coordinates(seed: int, units: int) -> None:
    rng = np.random.default_rng(seed)
    V = unit_rows(rng.standard_normal((units, units)))
    M = sharing(V, units + 2, 0.0, rng)
    C = rng.standard_normal((units, units)) + 3 * np.eye(units)
    assert direction_error(congruence(M), V) < 1e-8
    assert direction_error(congruence(C.T @ M @ C), unit_rows(V @ C)) < 1e-6


# ---------------------------------------------------------------- ATV21, Algorithm 4


def noisy_tensors(
    third: list[float], fourth: list[float], seed: int
) -> tuple[Array, tuple[SymmetricTensor, ...], list[float]]:
    """Orthonormal directions, `T_3` and `T_4` with these coefficients and noise, and its size."""
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.standard_normal((8, len(third))))[0].T
    noise = [1e-3 * symmetrised(rng.standard_normal((8,) * k)) for k in (3, 4)]
    terms = [symmetric_tensor(np.array(z), W, k) for k, z in ((3, third), (4, fourth))]
    tensors = (SymmetricTensor.of_dense(T + E) for T, E in zip(terms, noise, strict=True))
    return W, tuple(tensors), [float(np.sqrt(np.mean(E**2))) for E in noise]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rank_is_what_stands_above_the_noise(seed: int) -> None:
    """Each tensor misses one unit; together they have all, up to errors of the noise.

    Jennrich's contractions multiply the noise, sqrt(features) times its size over the smallest
    coefficient, 0.006, by a factor that differs from draw to draw: over 50 seeds at most 0.25, with
    these at most 0.06.
    """
    W, tensors, errors = noisy_tensors([1.0, -0.7, 0.5, 0.0], [0.0, 0.6, -0.8, 1.0], seed)
    found, words = unit_directions(tensors, errors, 1, None, np.random.default_rng(0))
    assert words.startswith("T_3 has rank 3 and T_4 rank 3 above the noise;")
    nearest = np.abs(W @ found.T).max(axis=1)
    assert np.all(np.arccos(np.minimum(nearest, 1.0)) < 0.15)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_term_below_the_noise_is_left_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A direction that Jennrich gives and no term of the tensor has: eta_2 takes it out."""
    W, tensors, errors = noisy_tensors([1.0, -0.7, 0.5], [0.9, 0.6, -0.8], seed)
    nothing = np.linalg.svd(W)[2][3]
    monkeypatch.setattr(
        "provenet.moments.decomposition.jennrich", lambda T, rank, rng: np.vstack([W, nothing])
    )
    found, _ = unit_directions(tensors, errors, 1, None, np.random.default_rng(0))
    assert direction_error(found, W) < 1e-12  # those that were given, up to rounding
    _, noise, errors = noisy_tensors([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], seed)
    found, _ = unit_directions(noise, errors, 1, None, np.random.default_rng(0))
    assert len(found) == 0


# ---------------------------------------------------------------- power iteration

# Iterates that have not settled must not be chosen: of order 3 where only units with b = 0 are
# left, of order 4 where only b = +-1 are. With output weights of both signs they are easily the
# largest by any measure relative to u T_2 u, which they can bring near zero.


def power_error(
    net: pn.Network, seed: int, trust: tuple[float, float], noise: float = 0.0
) -> float:
    rng = np.random.default_rng(seed)
    T = list(exact(net))
    for k in (2, 3, 4):
        E = SymmetricTensor.of_dense(symmetrised(rng.standard_normal((net.features,) * k)))
        T[k] = T[k].plus(noise * E.entries)
    errors = (1.0, 1.0, 1.0, *(1 / weight for weight in trust))
    return direction_error(power_directions(T, errors, np.random.default_rng(seed)), net.weights)


@pytest.mark.parametrize("trust", [(1.0, 1.0), (3.0, 1.0), (1.0, 3.0)])
@pytest.mark.parametrize("seed", SEEDS)
def test_all_units_with_biases_at_the_roots_among_them(
    seed: int, trust: tuple[float, float]
) -> None:
    # Rounding times the condition of T_2, and what 60 iterations leave.
    assert power_error(in_span(special_network(seed, 20)), seed, trust) < 1e-8


@pytest.mark.parametrize("units", [1, 2, 5, 10])
@pytest.mark.parametrize("seed", range(3))
def test_few_units_and_many(units: int, seed: int) -> None:
    net = in_span(pn.random_network(units, 20, rng=seed))
    assert power_error(net, seed, (1.0, 1.0)) < 1e-8


@pytest.mark.parametrize("bias", [0.0, 1.0, -1.0, None])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_order_alone_and_noise(bias: float | None, seed: int) -> None:
    """Biases all at 0 leave the fourth order alone, all at 1 or -1 the third: the other is zero."""
    net = in_span(special_network(seed, 20))
    if bias is not None:
        net = net.replace(biases=np.full(6, bias))
    assert power_error(net, seed, (2.0, 1.0)) < 1e-8
    # Noise moves directions by its size times the condition of the problem, below 300 of 50 seeds.
    assert power_error(net, seed, (2.0, 1.0), noise=1e-7) < 1e-4


# ---------------------------------------------------------------- ATV21, Algorithm 2


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_scalars_of_a_network(order: int, seed: int) -> None:
    """A direction reversed reverses the bias only."""
    net = special_network(seed)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], 6)
    a, b = recover_scalars(exact(net, order + 3), net.weights * signs[:, None], order)
    np.testing.assert_allclose(b, signs * net.biases, rtol=0, atol=EXACT)
    np.testing.assert_allclose(a, net.output_weights, rtol=0, atol=EXACT)


def test_more_units_than_features_at_order_2() -> None:
    """Order 2 needs independent squares of the weights only (ATV21, Theorem 3.2)."""
    net = pn.random_network(6, 3, rng=4).replace(biases=[0.0, 1.0, -1.0, np.sqrt(3), 0.5, -2.0])
    a, b = recover_scalars(exact(net, 5), net.weights, order=2)
    # Six squares span all symmetric 3 x 3 matrices; rounding times a condition of about 1e3.
    np.testing.assert_allclose(b, net.biases, rtol=0, atol=1e-10)
    np.testing.assert_allclose(a, net.output_weights, rtol=0, atol=1e-10)


ROOTS = np.unique(
    np.concatenate([[0.3, -1.2, 2.0], *(roots_hermitenorm(k)[0] for k in range(1, 6))]).round(15)
)
"""The roots of He_1 .. He_5, at which one of the coefficients vanishes, and other biases."""


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
    zeros = tuple(SymmetricTensor.of_terms(np.zeros(3), W, k) for k in range(6))
    noise = [SymmetricTensor.of_terms(np.full(3, c), W, k) for k, c in enumerate((0, 0, 1e-9, 1))]
    for tensors, order in ((zeros, 1), (zeros, 2), (noise, 1)):
        a, b = recover_scalars(tensors, W, order)
        assert np.isfinite(a).all() and np.abs(b).max() <= 8


# ---------------------------------------------------------------- the fit in moment space


@given(st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([RELU, ABS]))
def test_value_and_gradient_of_the_risk(units: int, seed: int, activation: Activation) -> None:
    rng = np.random.default_rng(seed)
    net = pn.random_network(3, 3, rng=rng)
    T, risk = exact_tensors(net), MomentRisk(exact(net), activation)
    a, b, W = (
        rng.standard_normal(units),
        rng.uniform(-2, 2, units),
        rng.standard_normal((units, 3)),
    )
    x, lengths = np.concatenate([a, b, W.ravel()]), np.linalg.norm(W, axis=1, keepdims=True)
    value, gradient = risk(x)
    expected = sum(
        np.sum((T[k] - symmetric_tensor(a * activation.hermite(k, b), W / lengths, k)) ** 2)
        / factorial(k)
        for k in (2, 3, 4)
    )
    # Rounding of a sum of squares that cancel, relative to numbers below 100.
    assert value == pytest.approx(expected, rel=1e-11, abs=1e-12)
    shortest = min(lengths.min(), 1.0)
    step = 1e-5 * shortest
    numerical = [
        (risk(x + step * e)[0] - risk(x - step * e)[0]) / (2 * step) for e in np.eye(len(x))
    ]
    # Rounding of the value over the step: 1e-15 / 1e-5 times values below 100, over short rows.
    np.testing.assert_allclose(gradient, numerical, rtol=1e-5, atol=1e-7 / shortest)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_truth_and_its_reflections_are_minima_of_value_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = special_network(seed)
    signs = rng.choice([-1.0, 1.0], 6)
    W = net.weights * signs[:, None] * rng.uniform(0.5, 2, (6, 1))
    risk = MomentRisk(exact(net), RELU)
    value, gradient = risk(np.concatenate([net.output_weights, signs * net.biases, W.ravel()]))
    assert abs(value) < 1e-13 and np.abs(gradient).max() < 1e-13
    # A ridge of 1e-9 of the trace, over the smallest eigenvalue: over 50 seeds below 5e-8.
    found = risk.best_output_weights(net.biases, net.weights)
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
    short = fit_moments(exact(net), RELU, W, b, iterations=5)
    fit = fit_moments(exact(net), RELU, W, b)
    assert fit.risk <= short.risk
    # The risk of about 1e-16 that rounding leaves allows its square root, 1e-8, times the condition
    # of the problem.
    assert direction_error(fit.W, net.weights) < 1e-5
    order = np.argmax(np.abs(fit.W @ net.weights.T), axis=1)
    np.testing.assert_allclose(fit.a / scale, net.output_weights[order] / scale, rtol=0, atol=1e-4)
    signs = np.sign(np.einsum("md,md->m", fit.W, net.weights[order]))
    np.testing.assert_allclose(signs * fit.b, net.biases[order], rtol=0, atol=1e-4)
