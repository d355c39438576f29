"""Output weights and signs from directions: exact on moments, and within the lemmas' bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import provenet as pn
from helpers import exact_tensors
from provenet.common.typing import Array
from provenet.landscape.linear_layer import output_weights

seeds = st.integers(0, 10**6)


def a_truth(
    seed: int, units: int, features: int, activation: str = "relu", *, orthogonal: bool = False
) -> pn.Network:
    rng = np.random.default_rng([seed, 1])
    W = rng.standard_normal((units, features))
    if orthogonal:
        W = np.linalg.qr(W.T)[0].T
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return pn.Network(W, output_weights=rng.uniform(0.5, 2.0, units), activation=activation)


def shuffled(truth: pn.Network, seed: int) -> tuple[Array, Array, Array]:
    """The rows in another order with random signs, and the order and the signs."""
    rng = np.random.default_rng([seed, 2])
    order = rng.permutation(truth.units)
    signs = rng.choice([-1.0, 1.0], truth.units)
    return truth.weights[order] * signs[:, None], order, signs


@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.1)", "relu3", "exp"])
@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_both_algorithms_are_exact_on_moments(activation: str, orthogonal: bool, seed: int) -> None:
    truth = a_truth(seed, 4, 6, activation, orthogonal=orthogonal)
    B, order, _ = shuffled(truth, seed)
    _, T1, T2, *_ = exact_tensors(truth)
    a, W = output_weights(T1, T2, B, truth.activation, orthogonal=orthogonal)
    # Rounding, and that of the inverse of B B^T (conditioned below 1e3).
    np.testing.assert_allclose(a, truth.output_weights[order], rtol=0, atol=1e-11)
    np.testing.assert_array_equal(W, truth.weights[order])


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_an_even_activation_has_weights_from_the_second_moment_and_no_signs(
    orthogonal: bool, seed: int
) -> None:
    truth = a_truth(seed, 4, 6, "abs", orthogonal=orthogonal)
    B, order, _ = shuffled(truth, seed)
    _, T1, T2, *_ = exact_tensors(truth)
    assert np.abs(T1).max() < 1e-14
    a, W = output_weights(T1, T2, B, truth.activation, orthogonal=orthogonal)
    np.testing.assert_allclose(a, truth.output_weights[order], rtol=0, atol=1e-11)
    np.testing.assert_array_equal(np.abs(W), np.abs(B))


def test_algorithm_1_is_the_papers_formula() -> None:
    """`a'_i = 2 E[y <x, b_i>]` for ReLU, of samples just as well."""
    truth = a_truth(0, 3, 3, orthogonal=True)
    B, _, _ = shuffled(truth, 0)
    X, y = pn.sample(truth, 1000, rng=np.random.default_rng([0, 3]))
    plain = 2 * np.mean(y[:, None] * (X @ B.T), axis=0)
    a, W = output_weights(y @ X / 1000, np.eye(3), B, truth.activation, orthogonal=True)
    np.testing.assert_allclose(a, np.abs(plain), rtol=1e-12)
    np.testing.assert_allclose(W, B * np.sign(plain)[:, None], rtol=0, atol=0)


def test_algorithm_2_is_the_papers_formula() -> None:
    """`a' = (B B^T)^{-1} u`; algorithm 1 would be wrong where units are not orthogonal."""
    truth = a_truth(0, 3, 4)
    B, order, _ = shuffled(truth, 0)
    _, T1, T2, *_ = exact_tensors(truth)
    plain = np.linalg.inv(B @ B.T) @ (2 * B @ T1)
    a, _ = output_weights(T1, T2, B, truth.activation)
    np.testing.assert_allclose(a, np.abs(plain), rtol=0, atol=1e-12)
    rough, _ = output_weights(T1, T2, B, truth.activation, orthogonal=True)
    assert np.abs(rough - truth.output_weights[order]).max() > 0.1


def perturbed(B: Array, size: float, seed: int) -> Array:
    C = B + size * np.random.default_rng([seed, 4]).standard_normal(B.shape)
    return np.asarray(C / np.linalg.norm(C, axis=1, keepdims=True))


@given(seeds, st.floats(1e-6, 0.2))
def test_algorithm_1_is_within_its_bound(seed: int, size: float) -> None:
    """Lemma 2.5 with `|a*|` for `a*_max`: the `<a*, u>` of its proof is at most `|a*| |u|`."""
    truth = a_truth(seed, 4, 5, orthogonal=True)
    B, order, signs = shuffled(truth, seed)
    C = perturbed(B, size, seed)
    delta = float(np.linalg.norm(C - B, axis=1).max())
    _, T1, T2, *_ = exact_tensors(truth)
    a_true = truth.output_weights[order]
    norm = float(np.linalg.norm(a_true))
    assume(delta * norm < a_true.min())  # then no weight changes its sign
    a, W = output_weights(T1, T2, C, truth.activation, orthogonal=True)
    assert np.abs(a - a_true).max() <= delta * norm + 1e-12
    np.testing.assert_array_equal(W, C * signs[:, None])


def test_lemma_2_5_as_printed_is_too_good() -> None:
    """A row may lean towards all other units at once: off by sqrt(m - 1) delta, not delta."""
    truth = pn.Network(np.eye(4))
    _, T1, T2, *_ = exact_tensors(truth)
    t = 0.1
    B = np.eye(4)
    B[0] = [np.cos(t), *[np.sin(t) / np.sqrt(3)] * 3]
    delta = float(np.linalg.norm(B[0] - np.eye(4)[0]))
    a, _ = output_weights(T1, T2, B, truth.activation, orthogonal=True)
    error = abs(a[0] - 1.0)
    assert 1.5 * delta < error < 2.0 * delta  # |a*| = 2, a_max = 1


@given(seeds, st.floats(1e-6, 0.05))
def test_algorithm_2_is_within_the_bound_of_lemma_B_2(seed: int, size: float) -> None:
    truth = a_truth(seed, 3, 5)
    B, order, signs = shuffled(truth, seed)
    C = perturbed(B, size, seed)
    delta = float(np.linalg.norm(C - B, 2))
    smallest = float(np.linalg.svd(C)[1][-1])
    a_true = truth.output_weights[order]
    kappa = a_true.max() / a_true.min()
    assume(delta <= smallest**2 / (4 * np.sqrt(2) * kappa * np.sqrt(3)))  # what the lemma asks
    _, T1, T2, *_ = exact_tensors(truth)
    a, W = output_weights(T1, T2, C, truth.activation)
    error = float(np.linalg.norm(a - a_true))
    assert error <= 2 * np.sqrt(2) * a_true.max() * np.sqrt(3) / smallest**2 * delta + 1e-9
    # From C C^+ = I directly: E C^+ a, smaller by more than that.
    assert error <= np.linalg.norm(a_true) / smallest * delta + 1e-9
    np.testing.assert_array_equal(W, C * signs[:, None])


def test_two_equal_rows_share_their_weight() -> None:
    """B B^T is singular then: no exception, and nothing infinite."""
    truth = pn.Network(np.eye(3), output_weights=[1.0, 2.0, 3.0])
    _, T1, T2, *_ = exact_tensors(truth)
    a, W = output_weights(T1, T2, np.eye(3)[[0, 1, 1]], truth.activation)
    np.testing.assert_allclose(a, [1.0, 1.0, 1.0], rtol=0, atol=1e-12)
    assert np.isfinite(W).all()
