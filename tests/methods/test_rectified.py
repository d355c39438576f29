"""Gaussian inputs and several outputs: BJW19, Algorithms 4 to 6."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import direction_error, error_from_truth
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.context import Options, prepare
from provenet.methods.stages.several_outputs import biases_along, directions
from provenet.moments.decomposition import congruence
from provenet.moments.hermite import MomentRequest, estimate_moments


def problem(
    d: int, k: int, o: int | None, n: int, seed: int, noise: float = 0.0, **options: object
) -> tuple[pn.Network, Array, Array]:
    options = {"bias_scale": 0.0, **options}
    truth = pn.random_network(k, d, outputs=o, rng=seed, **options)  # type: ignore[arg-type]
    return truth, *pn.sample(truth, n, noise=noise, rng=[seed, 1])  # type: ignore[arg-type]


def rectified(X: Array, Y: Array, **options: object) -> pn.Recovery:
    return pn.recover(X, Y, method="rectified", rng=54321, **options)  # type: ignore[arg-type]


def test_second_moments_of_a_population_hold_the_directions() -> None:
    truth = pn.random_network(4, 6, outputs=3, bias_scale=0.8, rng=0)
    source = pn.PopulationSource(truth, rng=1)
    T = estimate_moments(source, MomentRequest(source.standardisation(), order=2)).tensors[2]
    basis = np.linalg.qr(truth.weights.T)[0]
    found = congruence(np.einsum("ai,qab,bj->qij", basis, T, basis)) @ basis.T
    # Fewer outputs than units: the decomposition is unique all the same.
    assert direction_error(found, truth.weights) < 1e-8


def test_second_moments_of_samples_agree_with_the_population() -> None:
    truth, X, Y = problem(5, 3, 4, 200_000, 0)
    source, population = ArraySource(X, Y), pn.PopulationSource(truth, rng=2)
    found = estimate_moments(source, MomentRequest(source.standardisation(), order=2))
    exact = estimate_moments(population, MomentRequest(population.standardisation(), order=2))
    # Five sampling errors of an entry; the error itself is about 2e-3.
    assert found.errors[2] < 5e-3
    np.testing.assert_allclose(found.tensors[2], exact.tensors[2], atol=6 * found.errors[2])


@pytest.mark.parametrize("seed", range(5))
def test_exact_without_noise(seed: int) -> None:
    truth, X, Y = problem(10, 5, 6, 20_000, seed)
    result = rectified(X, Y)
    assert result.status is pn.Status.EXACT
    # Over 50 seeds at most 2e-13.
    assert pn.parameter_error(result.network, truth) < 1e-10


@pytest.mark.parametrize("seed", range(3))
def test_the_paper_s_road_by_itself(seed: int) -> None:
    """Jennrich and the exact finish, no least squares: exact when the directions are near.

    Orthonormal weights, so that what is seen is sampling error and not conditioning.
    """
    truth, _, _ = problem(6, 3, 5, 10, seed)
    truth = truth.replace(weights=np.eye(6)[:3])
    X, Y = pn.sample(truth, 50_000, rng=100 + seed)
    result = rectified(X, Y, faithful=True, refine=False)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-10


@pytest.mark.parametrize("outputs", [2, None])
def test_the_paper_s_road_with_noise_and_few_outputs(outputs: int | None) -> None:
    """Algorithms 4 and 6, for one output of order 4: signs and all, and no search after them.

    Orthonormal weights. A unit of the wrong sign is off by 1 and more.
    """
    truth, _, _ = problem(5, 3, outputs, 10, 1)
    A = np.array([1.0, -1.5, 2.0]) if outputs is None else np.array([[1, 1, 0.5], [1, -1, 2.0]])
    truth = truth.replace(weights=np.eye(5)[:3], output_weights=A)
    X, Y = pn.sample(truth, 50_000, noise=0.05, rng=101)
    result = rectified(X, Y, units=3, faithful=True, refine=False)
    assert pn.parameter_error(result.network, truth) < 0.4


@pytest.mark.parametrize("bias_scale", [0.0, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_with_noise_the_moments_alone_are_near(seed: int, bias_scale: float) -> None:
    """Algorithms 4 and 6 and the biases of order 3, no least squares on the weights.

    Orthonormal weights again. Over 20 seeds the error is 0.02 to 0.28; a unit of the wrong sign, or
    whose bias has the wrong sign, is off by 1 and more.
    """
    truth, _, _ = problem(6, 3, 5, 10, seed, bias_scale=bias_scale)
    truth = truth.replace(weights=np.linalg.qr(truth.weights.T)[0].T)
    X, Y = pn.sample(truth, 50_000, noise=0.1, rng=100 + seed)
    result = rectified(X, Y, units=3, refine=False)
    assert pn.parameter_error(result.network, truth) < 0.4


@pytest.mark.parametrize("seed", range(3))
def test_biases_from_orders_two_and_three(seed: int) -> None:
    """`c_3 / c_2 = -b` along true directions, one of them reversed with its bias."""
    truth, X, Y = problem(6, 4, 3, 100_000, seed, bias_scale=1.0)
    source = ArraySource(X, Y)
    s = source.standardisation()
    context = prepare(
        source,
        Options(),
        s,
        rng=np.random.default_rng(0),
        progress=lambda *_: None,
        deadline=np.inf,
    )
    own = s.network_from_user(truth).canonical()
    W, b = own.weights.copy(), own.biases.copy()
    W[1], b[1] = -W[1], -b[1]
    # Over 20 seeds at most 0.06: sampling error of order 3.
    np.testing.assert_allclose(biases_along(context, W), b, atol=0.1)
    assert np.abs(b).max() > 0.5


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_directions_of_a_population_that_are_not_orthogonal(seed: int, faithful: bool) -> None:
    """Algorithm 4 on exact moments: what is left is the rounding of the decomposition."""
    truth = pn.random_network(4, 6, outputs=5, bias_scale=0.5, rng=seed)
    source = pn.PopulationSource(truth, rng=1)
    s = source.standardisation()
    context = prepare(
        source,
        Options(units=4, faithful=faithful),
        s,
        rng=np.random.default_rng(0),
        progress=lambda *_: None,
        deadline=np.inf,
    )
    W, _ = directions(context, estimate_moments(source, MomentRequest(s, order=2)))
    assert direction_error(W, truth.weights) < 1e-7


@pytest.mark.parametrize("outputs", [2, 3])
def test_fewer_outputs_than_units(outputs: int) -> None:
    truth, X, Y = problem(10, 5, outputs, 20_000, 7)
    result = rectified(X, Y)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-10


def test_one_output_goes_to_order_four() -> None:
    truth, X, y = problem(8, 4, None, 20_000, 3)
    result = rectified(X, y)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-10


def test_biases_and_any_covariance() -> None:
    truth = pn.random_network(5, 8, outputs=6, bias_scale=1.0, rng=5)
    B = np.random.default_rng(6).standard_normal((8, 8))
    X, _ = pn.sample(truth, 20_000, covariance=B @ B.T + 0.3 * np.eye(8), rng=7)
    result = rectified(X + 2.0, truth(X + 2.0))
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-9


@pytest.mark.parametrize("seed", [0])
def test_with_noise_it_is_as_good_as_least_squares_from_the_truth(seed: int) -> None:
    truth, X, Y = problem(10, 5, 6, 5000, seed, noise=0.1)
    result = rectified(X, Y)
    assert result.status is pn.Status.WITHIN_NOISE
    error = error_from_truth(truth, X, Y)
    assert pn.parameter_error(result.network, truth) < 1.1 * error


@pytest.mark.parametrize("activation", ["relu2", "relu3"])
def test_powers_of_relu(activation: str) -> None:
    truth, X, Y = problem(8, 4, 6, 20_000, 1, activation=activation)
    result = rectified(X[:3000], Y[:3000], activation=activation)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-9
    noisy = rectified(
        X, Y + 0.1 * np.random.default_rng(3).standard_normal(Y.shape), activation=activation
    )
    assert noisy.status is pn.Status.WITHIN_NOISE
    # Some five standard errors of 0.1 / sqrt(20000) times the condition of the weights.
    assert pn.parameter_error(noisy.network, truth) < 0.05


def test_a_function_of_the_user_s_own() -> None:
    grows = pn.Activation(
        "expm1",
        lambda z: np.expm1(np.maximum(z, 0.0)),
        lambda z: np.where(z > 0, np.exp(np.maximum(z, 0.0)), 0.0),
        inverse=np.log1p,
    )
    truth, X, Y = problem(6, 3, 5, 20_000, 2, activation=grows)
    result = rectified(X, Y, activation=grows)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-9


# ---------------------------------------------------------------- conditions violated


def test_too_few_samples_for_the_moments_are_named() -> None:
    rng = np.random.default_rng(1)
    result = rectified(rng.standard_normal((300, 20)), rng.standard_normal((300, 2)))
    assert result.status is pn.Status.FAILED and "expand-prune" in result.message


def test_inputs_that_are_not_gaussian_give_no_wrong_success() -> None:
    truth = pn.random_network(4, 6, outputs=5, bias_scale=0.0, rng=1)
    X = np.random.default_rng(2).exponential(size=(5000, 6))
    result = rectified(X, truth(X), refine=False)
    assert not result.success


def test_parallel_output_columns_give_no_wrong_success() -> None:
    truth, X, _ = problem(8, 4, 5, 20_000, 4)
    A = truth.output_weights.copy()
    A[:, 1] = 2 * A[:, 0]
    parallel = truth.replace(output_weights=A)
    result = rectified(X, parallel(X))
    assert result.success == (pn.parameter_error(result.network, parallel) < 1e-8)
    assert not rectified(X, parallel(X), refine=False).success


def test_more_units_than_features_are_refused() -> None:
    with pytest.raises(pn.InvalidInput, match="expand-prune"):
        rectified(np.zeros((100, 3)), np.zeros((100, 5)), units=4)
