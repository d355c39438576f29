"""Lifting: exact from few samples on any inputs, and its conditions by violating them."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.methods.lifting import (
    count_unknowns,
    lifted_system,
    null_space,
    units_behind,
)

INPUTS = {
    "integers": lambda rng, n, d: rng.integers(-3, 4, (n, d)).astype(float),
    "uniform": lambda rng, n, d: rng.uniform(-1.7, 1.7, (n, d)),
    "heavy tails": lambda rng, n, d: rng.standard_t(3, (n, d)),
}


def problem(
    d: int, k: int, o: int, n: int, seed: int, kind: str = "uniform", activation: str = "relu"
) -> tuple[pn.Network, Array, Array]:
    truth = pn.random_network(k, d, outputs=o, bias_scale=0.7, activation=activation, rng=seed)
    truth = truth.replace(output_bias=np.linspace(-1, 2, o))
    X = INPUTS[kind](np.random.default_rng([seed, 1]), n, d)
    return truth, X, truth(X)


def lift(X: Array, Y: Array, **options: object) -> pn.Recovery:
    return pn.recover(X, Y, method="lifting", rng=12345, **options)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the null space


def relations(truth: pn.Network, X: Array, relu: bool = True) -> Array:
    """Singular values of the lifted system in the units' own coordinates, columns of norm 1."""
    h = truth.activation(X @ truth.weights.T + truth.biases)
    M = lifted_system(h - h.mean(axis=0), X, relu)
    return np.linalg.svd(M / np.linalg.norm(M, axis=0), compute_uv=False)


@pytest.mark.parametrize(("activation", "relu"), [("relu", True), ("relu", False), ("abs", False)])
@pytest.mark.parametrize("seed", range(3))
def test_there_are_as_many_relations_as_units(activation: str, relu: bool, seed: int) -> None:
    truth, X, _ = problem(6, 4, 4, 400, seed, activation=activation)
    sizes = relations(truth, X, relu)
    assert np.all(sizes[-4:] < 1e-14) and sizes[-5] > 1e-4


def test_a_unit_that_is_never_off_brings_more_relations() -> None:
    """Then `h = z` on all samples, and `h - z` times any linear form vanishes."""
    truth, X, _ = problem(6, 4, 4, 400, 0)
    always_on = truth.replace(biases=[*truth.biases[:3], 100.0])
    assert np.sum(relations(always_on, X) < 1e-12) > 4


def test_too_few_samples_on_one_side_bring_more_relations() -> None:
    """Fewer than k + d where a unit is on, or k where it is off: condition (3) of the module."""
    truth, X, _ = problem(6, 4, 4, 400, 0)
    z = X @ truth.weights[0] + truth.biases[0]
    on, off = np.flatnonzero(z > 0), np.flatnonzero(z <= 0)
    for few_off, few_on, found in ((4, 150, 4), (3, 150, 5), (150, 10, 4), (150, 9, 5)):
        chosen = np.append(on[:few_on], off[:few_off])
        assert np.sum(relations(truth, X[chosen]) < 1e-12) == found, (few_off, few_on)


def a_pair(kind: str, seed: int) -> tuple[pn.Network, Array]:
    """Two parallel units that exclude, or imply, each other on all inputs, and two others."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((4, 3))
    W[1] = -W[0] if kind == "never on together" else W[0]
    biases = np.array([-0.4, -0.6 if kind == "never on together" else 0.5, 0.3, -0.2])
    truth = pn.Network(W, biases, rng.standard_normal((5, 4)), rng.standard_normal(5))
    return truth, rng.uniform(-1.7, 1.7, (400, 3))


@pytest.mark.parametrize("kind", ["never on together", "one implies the other"])
@pytest.mark.parametrize("seed", [0, 1, 3])  # with 2 another pair misses a pattern too
def test_pairs_that_exclude_or_imply_each_other_are_told_from_units(kind: str, seed: int) -> None:
    """`h_i h_j = 0`, or `h_i (h_j - z_j) = 0`: one relation more, of rank two."""
    truth, X = a_pair(kind, seed)
    sizes = relations(truth, X)
    assert np.all(sizes[-5:] < 1e-14) and sizes[-6] > 1e-4
    result = lift(X, truth(X))
    assert result.status == "exact"
    told = result.certificate.width_evidence
    assert "obey 5 quadratic relations, 4 of them a single unit's, and 1 of pairs" in told
    assert pn.parameter_error(result.network, truth) < 1e-8  # rounding times the condition


@pytest.mark.parametrize("seed", range(8))
def test_many_biased_units_in_few_dimensions_exclude_and_imply_each_other(seed: int) -> None:
    """Units in general position; in two dimensions many pairs of four miss a pattern."""
    truth, X, Y = problem(2, 4, 5, 400, seed)
    on = X @ truth.weights.T + truth.biases > 0
    result = lift(X, Y)
    if min(on.sum(axis=0).min(), (~on).sum(axis=0).min()) >= 20:
        assert result.status == "exact"
    if result.success:
        assert pn.parameter_error(result.network, truth) < 1e-8


def test_the_null_space_is_that_of_the_singular_value_decomposition() -> None:
    rng = np.random.default_rng(0)
    M = rng.standard_normal((60, 20)) @ np.diag(np.r_[np.ones(17), 1e-3, 1e-12, 1e-15])
    M = M @ np.linalg.qr(rng.standard_normal((20, 20)))[0]
    scale = np.linalg.norm(M, axis=0)
    _, sizes, rows = np.linalg.svd(M / scale)
    found = null_space(np.asfortranarray(M), 2, rng)
    basis = np.linalg.qr((found.vectors * scale).T)[0]
    # The two smallest span the same plane; 1e-12 over the gap to 1e-3.
    np.testing.assert_allclose(basis @ basis.T, rows[-2:].T @ rows[-2:], atol=1e-6)
    assert found.exact and found.gap > 1e8
    np.testing.assert_allclose(found.singular_values[2] / sizes[-3], 1.0, rtol=1.0)


@pytest.mark.parametrize("relu", [True, False])
def test_units_are_read_from_their_relations(relu: bool) -> None:
    """From the relations written down by hand: P = u u^T, Q = u q^T, R (see the module)."""
    rng = np.random.default_rng(1)
    k, d, s = 3, 4, 0.0 if relu else 0.3
    U, theta = rng.standard_normal((k, k)), rng.standard_normal((k, d + 1))
    gamma, e = rng.standard_normal(k), np.eye(d + 1)[-1]
    rows, columns = np.triu_indices(k)
    vectors = []
    for u, t, g in zip(U, theta, gamma, strict=True):
        P = np.outer(u, u) * np.where(np.eye(k), 1, 2)
        Q = np.outer(u, (1 + s) * t + 2 * g * e)
        R = -(g**2 * np.outer(e, e) + g * (1 + s) * np.outer(t, e) + s * np.outer(t, t))
        R = R + R.T
        flat = (
            R[-1] - R[-1, -1] / 2 * e
            if relu
            else (R - np.diag(np.diag(R)) / 2)[np.triu_indices(d + 1)]
        )
        vectors.append(np.concatenate([P[rows, columns], Q.ravel(), flat]))
    mixed = np.linalg.qr(rng.standard_normal((k, k)))[0] @ np.array(vectors)

    class Given:
        vectors = mixed

    found = units_behind(Given(), k, d, relu, rng)  # type: ignore[arg-type]
    unit = theta / np.linalg.norm(theta, axis=1, keepdims=True)
    cosines = np.abs(found @ unit.T)
    np.testing.assert_allclose(np.sort(cosines.max(axis=0)), 1.0, atol=1e-12)


# ---------------------------------------------------------------- recovery


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("outputs", [5, 7])
@pytest.mark.parametrize("seed", range(3))
def test_exact_from_one_and_a_half_times_the_unknowns(kind: str, outputs: int, seed: int) -> None:
    assert count_unknowns(5, 10, relu=True) == 81  # 70 without an output bias
    truth, X, Y = problem(10, 5, outputs, 120, seed, kind)
    result = lift(X, Y)
    assert result.status is pn.Status.EXACT and result.network is not None
    # Over 100 seeds the largest error is 3e-13.
    assert pn.parameter_error(result.network, truth) < 1e-10
    assert "5 quadratic relations" in result.certificate.width_evidence


@pytest.mark.parametrize("activation", ["leaky_relu(0.2)", "leaky_relu(-0.4)", "abs"])
@pytest.mark.parametrize("seed", range(2))
def test_other_slopes_are_found(activation: str, seed: int) -> None:
    truth, X, Y = problem(8, 4, 5, 200, seed, activation=activation)
    result = lift(X, Y, activation=activation.partition("(")[0])
    assert result.status is pn.Status.EXACT and result.network is not None
    assert pn.parameter_error(result.network, truth) < 1e-10
    assert result.network.activation.slope == pytest.approx(truth.activation.slope, abs=1e-12)


def test_the_method_s_own_answer_is_exact_too() -> None:
    truth, X, Y = problem(10, 5, 6, 120, 3)
    result = lift(X, Y, refine=False)
    assert pn.parameter_error(result.network, truth) < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_with_small_noise_it_is_a_start_for_least_squares(seed: int) -> None:
    truth, X, Y = problem(6, 3, 5, 2000, seed)
    Y = Y + 1e-3 * np.random.default_rng([seed, 2]).standard_normal(Y.shape)
    result = lift(X, Y)
    assert result.status is pn.Status.WITHIN_NOISE
    # Some five standard errors, 1e-3 / sqrt(2000) each.
    assert pn.parameter_error(result.network, truth) < 1e-3


# ---------------------------------------------------------------- conditions violated


def test_dependent_output_weights_are_named() -> None:
    truth, X, _ = problem(8, 4, 6, 400, 0)
    A = truth.output_weights.copy()
    A[:, 3] = A[:, 0] + A[:, 1]
    result = lift(X, truth.replace(output_weights=A)(X))
    assert result.status is pn.Status.FAILED and "dependent output weights" in result.message
    told = lift(X, truth.replace(output_weights=A)(X), units=4)
    assert told.status is pn.Status.FAILED and "output weights are dependent" in told.message


def test_more_units_than_outputs_are_named() -> None:
    truth, X, Y = problem(8, 6, 4, 600, 0)
    result = lift(X, Y)  # what lifting misses the search on from its answer may find
    assert not result.success or pn.parameter_error(result.network, truth) < 1e-8
    with pytest.raises(pn.InvalidInput, match="at least as many outputs as units"):
        lift(X, Y, units=6)


def test_two_parallel_units_are_named() -> None:
    truth, X, _ = problem(8, 4, 6, 600, 0)
    W = truth.weights.copy()
    W[1] = W[0]
    result = lift(X, truth.replace(weights=W)(X))
    # The same direction with another bias: three patterns of the pair, not four.
    assert not result.success or pn.parameter_error(result.network, truth.replace(weights=W)) < 1e-8
    twins = truth.replace(weights=W, biases=[*truth.biases[[0, 0]], *truth.biases[2:]])
    merged = lift(X, twins(X))
    # Two equal units are one: three are found, and the function is the same.
    assert merged.success and merged.network.units == 3
    np.testing.assert_allclose(merged.network(X), twins(X), atol=1e-10)


def test_too_few_samples_are_named() -> None:
    _, X, Y = problem(10, 5, 6, 70, 0)
    result = lift(X, Y)
    assert result.status is pn.Status.FAILED and "take more" in result.message


def test_the_wrong_activation_is_no_success() -> None:
    _, X, Y = problem(8, 4, 5, 300, 0, activation="leaky_relu(0.2)")
    assert not lift(X, Y).success
    _, X, Y = problem(8, 4, 5, 300, 0, activation="relu2")
    assert not lift(X, Y).success


def test_one_output_is_refused_with_a_way_out() -> None:
    with pytest.raises(pn.InvalidInput, match="expand-prune"):
        lift(np.zeros((10, 2)), np.zeros(10))
