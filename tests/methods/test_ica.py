"""Orthonormal weights from the labels alone: BJW19, Algorithm 3."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import direction_error
from provenet.common.typing import Array
from provenet.methods.ica import (
    Contrast,
    are_independent,
    dependence,
    independent_components,
    principal_sketch,
    random_sketch,
    sparsity_pattern,
    third_moment,
    units_on,
    zero_of,
)


def orthonormal(units: int, features: int, outputs: int | None, seed: int) -> pn.Network:
    truth = pn.random_network(units, features, outputs=outputs, bias_scale=0.0, rng=[seed, 0])
    Q = np.linalg.qr(np.random.default_rng([seed, 1]).standard_normal((features, units)))[0]
    return truth.replace(weights=Q.T)


def problem(
    features: int, units: int, outputs: int | None, n: int, seed: int, noise: float = 0.0
) -> tuple[pn.Network, Array, Array]:
    truth = orthonormal(units, features, outputs, seed)
    return truth, *pn.sample(truth, n, noise=noise, rng=[seed, 2])  # type: ignore[arg-type]


def recovered(X: Array, Y: Array, **options: object) -> pn.Recovery:
    return pn.recover(X, Y, method="ica", rng=4242, **options)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the steps


@pytest.mark.parametrize("sketch", ["principal", "random"])
def test_components_are_the_units_values(sketch: str) -> None:
    truth, X, Y = problem(8, 4, 6, 10_000, 1)
    left = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)[0]
    rng = np.random.default_rng(3)
    T = principal_sketch(left, 4) if sketch == "principal" else random_sketch(Y, 4, rng)
    S = independent_components(T, third_moment, 5)
    assert S is not None and are_independent(S)
    H = np.maximum(X @ truth.weights.T, 0.0)
    inner = np.corrcoef(S.T, H.T)[:4, 4:]
    # At least 0.998 over 20 seeds, sign included.
    assert np.all(np.sort(inner.max(axis=1)) > 0.99)
    on, values = sparsity_pattern(S)
    W = units_on(on, values, X)[0]
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    assert direction_error(W, truth.weights) < 0.1


@pytest.mark.parametrize("contrast", [third_moment, "cube", "logcosh"])
def test_components_are_positive_multiples_whatever_the_contrast(contrast: Contrast) -> None:
    H = np.maximum(np.random.default_rng(19).standard_normal((10_000, 4)), 0.0)
    left = np.linalg.svd(H - H.mean(axis=0), full_matrices=False)[0]
    for seed in range(3):
        S = independent_components(principal_sketch(left, 4), contrast, seed)
        assert S is not None
        assert np.corrcoef(S.T, H.T)[:4, 4:].max(axis=1).min() > 0.97


def test_components_that_are_mixed_are_not_independent() -> None:
    rng = np.random.default_rng(6)
    H = np.maximum(rng.standard_normal((10_000, 3)), 0.0)
    S = (H - H.mean(axis=0)) / H.std(axis=0)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    assert are_independent(S)
    assert not are_independent(S @ turn)
    assert dependence(S @ turn) > 0.2


def test_the_zero_of_a_component_is_where_its_mass_lies() -> None:
    rng = np.random.default_rng(7)
    # An atom of a fifth, blurred: a unit with a bias of 0.8.
    values = np.maximum(rng.standard_normal(10_000) + 0.8, 0.0) - 0.9
    assert zero_of(values + 0.02 * rng.standard_normal(10_000)) == pytest.approx(-0.9, abs=0.02)


def test_units_are_read_from_where_they_are_on() -> None:
    """Step 8: on a right pattern the linear system is exact, and a bias comes with the weights."""
    rng = np.random.default_rng(20)
    W, b = rng.standard_normal((3, 5)), np.array([0.5, -0.7, 0.0])
    X = rng.standard_normal((200, 5))
    values = np.maximum(X @ W.T + b, 0.0)
    weights, biases = units_on(values > 0, values, X)
    np.testing.assert_allclose(weights, W, rtol=0, atol=1e-12)
    np.testing.assert_allclose(biases, b, rtol=0, atol=1e-12)


def test_a_component_that_does_not_settle_is_none() -> None:
    gaussian = np.random.default_rng(8).standard_normal((300, 12))
    assert independent_components(gaussian, "logcosh", 9) is None


# ---------------------------------------------------------------- from end to end


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_exact_without_noise(seed: int, faithful: bool) -> None:
    truth, X, Y = problem(20, 10, 15, 100_000, seed)
    result = recovered(X, Y, faithful=faithful)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-10  # 3e-14 at most over 20 seeds


def test_as_many_outputs_as_units_and_an_output_bias() -> None:
    truth, X, Y = problem(12, 6, 6, 10_000, 11)
    c = np.arange(6.0)
    result = recovered(X, Y + c)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth.replace(output_bias=c)) < 1e-10


def test_inputs_of_any_covariance_with_weights_that_suit_it() -> None:
    truth, Z, _ = problem(8, 4, 6, 10_000, 12)
    B = np.random.default_rng(13).standard_normal((8, 8)) + 3 * np.eye(8)
    X = Z @ B.T
    truth = truth.replace(weights=truth.weights @ np.linalg.inv(B))
    result = recovered(X, truth(X))
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-9


def test_the_finish_alone_is_exact() -> None:
    truth, X, Y = problem(10, 5, 8, 10_000, 14)
    result = recovered(X, Y, refine=False)
    assert result.network is not None
    assert pn.parameter_error(result.network, truth) < 1e-10


def test_with_noise_the_components_start_least_squares() -> None:
    truth, X, Y = problem(10, 5, 8, 10_000, 15, noise=0.1)
    result = recovered(X, Y)
    assert result.status is pn.Status.WITHIN_NOISE
    # Standard errors are about 0.1 / sqrt(10000 / 2) times the condition of the output weights.
    assert pn.parameter_error(result.network, truth) < 0.05


def test_the_paper_s_road_has_no_answer_for_noise() -> None:
    """Algorithm 3 is for exact labels; nothing of ours follows it."""
    _, X, Y = problem(10, 5, 8, 10_000, 15, noise=0.1)
    result = recovered(X, Y, faithful=True, refine=False)
    assert result.status is pn.Status.FAILED and result.network is None
    assert "Leave out faithful=True" in result.message


# ---------------------------------------------------------------- conditions violated


def test_weights_far_from_orthonormal_are_named() -> None:
    truth = orthonormal(5, 10, 8, 16)
    W = truth.weights + 1.5 * truth.weights[0]  # all within some 60 degrees of the first
    truth = truth.replace(weights=W / np.linalg.norm(W, axis=1, keepdims=True))
    X, Y = pn.sample(truth, 20_000, rng=17)
    result = recovered(X, Y)
    assert result.status is pn.Status.FAILED
    assert "orthonormal" in result.message and '"rectified"' in result.message


def test_more_units_than_outputs_are_named() -> None:
    _, X, Y = problem(10, 6, 4, 10_000, 18)
    result = recovered(X, Y)
    assert result.status is pn.Status.FAILED
    assert result.network is None
