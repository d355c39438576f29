"""Huber fits through pseudo-labels, robust scales and whitening."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize

import provenet as pn
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.covariance import StandardErrors
from provenet.fitting.huber import (
    HUBER,
    RobustFit,
    corrected_residuals,
    evened,
    huber_network,
    huber_weighted,
    robust_scale,
    scatter,
    usual_size,
    whitening,
)
from provenet.fitting.least_squares import Ended, refine
from provenet.fitting.model import Parameters
from provenet.networks.activations import RELU


def line(seed: int, noise: str, n: int = 2000) -> tuple[Array, Array, Array]:
    """Inputs, coefficients with a constant for two outputs, and labels with noise."""
    rng = np.random.default_rng(seed)
    X, B = rng.standard_normal((n, 3)), rng.standard_normal((4, 2))
    e = {
        "cauchy": rng.standard_cauchy((n, 2)),
        "skewed": rng.exponential(size=(n, 2)) ** 3,
        "gaussian": rng.standard_normal((n, 2)),
    }[noise]
    return X, B, X @ B[:3] + B[3] + e


def regression(X: Array, Y: Array, tolerance: float = 1e-4, **options: Any) -> RobustFit:
    """A network without units: its linear part is Huber's linear regression."""
    start = Parameters(np.empty((0, X.shape[1] + 1)), np.zeros((X.shape[1] + 1, Y.shape[1])))
    return huber_network(X, Y, start, RELU, tolerance=tolerance, **options)


def test_scale_of_gaussian_and_of_outliers() -> None:
    R = np.random.default_rng(0).standard_normal((100_000, 2))
    np.testing.assert_allclose(robust_scale(R), 1, atol=0.02)  # five standard errors
    R[:30_000] = 1e9
    assert np.all(robust_scale(R) < 3)
    assert np.all(usual_size(R) < 3)


@pytest.mark.parametrize("noise", ["cauchy", "skewed", "gaussian"])
def test_pseudo_labels_lead_to_the_minimum_of_the_loss(noise: str) -> None:
    """Two routes: rounds of least squares, and direct minimisation of Huber's objective."""
    X, _, Y = line(1, noise)
    scale = np.array([1.0, 2.0])
    found = regression(X, Y, scale=scale, tolerance=1e-9, iterations=500)
    assert found.ended is Ended.CONVERGED
    Phi = np.column_stack([X, np.ones(len(X))])

    def objective(b: Array) -> tuple[float, Array]:
        R = (Y - Phi @ b.reshape(4, 2)) / scale
        psi = np.clip(R, -HUBER, HUBER)
        return float(np.sum(psi * (R - psi / 2))), -(Phi.T @ (psi / scale)).ravel()

    direct = optimize.minimize(objective, np.zeros(8), jac=True, tol=1e-12)
    np.testing.assert_allclose(found.model.beta.ravel(), direct.x, atol=1e-5)
    assert found.loss == pytest.approx(direct.fun / Y.size)


@pytest.mark.parametrize("noise", ["cauchy", "skewed"])
def test_slopes_are_consistent_without_symmetry_or_variance(noise: str) -> None:
    X, B, Y = line(2, noise, n=40_000)
    found = regression(X, Y).model.beta
    plain = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), Y, rcond=None)[0]
    # Sampling errors of about 0.01; the constant absorbs the noise's location.
    np.testing.assert_allclose(found[:3], B[:3], atol=0.05)
    assert np.abs(plain[:3] - B[:3]).max() > 2 * np.abs(found[:3] - B[:3]).max()


def test_corrected_residuals_give_the_variance_of_the_estimate() -> None:
    """Slopes of many samples of Cauchy noise: their spread is the one each sample predicts."""
    rng = np.random.default_rng(5)
    repeats, n = 1000, 400
    Y, X = rng.standard_cauchy((n, repeats)), rng.choice([-1.0, 1.0], (n, 1))
    found = regression(X, Y)
    corrected = corrected_residuals(Y - found.predicted, found.scale)
    predicted = np.sqrt(np.mean(corrected**2) / n)
    # A standard deviation from 1000 values: 2.2%; four of these.
    assert np.std(found.model.beta[0]) == pytest.approx(predicted, rel=0.09)


def test_scatter_of_elliptical_noise_without_moments() -> None:
    rng = np.random.default_rng(6)
    B = np.array([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.5, 3.0]])
    R = (rng.standard_normal((20_000, 3)) * rng.standard_cauchy((20_000, 1))) @ B
    truth = B.T @ B
    # Entries of about 3 with sampling errors of about 0.02.
    np.testing.assert_allclose(scatter(R), truth * 3 / np.trace(truth), atol=0.12)


def test_scatter_follows_linear_maps() -> None:
    rng = np.random.default_rng(7)
    R, B = rng.standard_normal((500, 3)) ** 3, rng.standard_normal((3, 3))
    mapped = B.T @ scatter(R) @ B
    np.testing.assert_allclose(scatter(R @ B), mapped * 3 / np.trace(mapped), atol=1e-4)


def test_labels_far_off_one_by_one_are_not_mixed() -> None:
    rng = np.random.default_rng(18)
    R = rng.standard_normal((5000, 3))
    R[rng.random(R.shape) < 0.25] += 1e6
    white = whitening(R)
    np.testing.assert_array_equal(white.forward, np.diag(np.diag(white.forward)))
    assert np.all(np.diag(white.forward) > 0.3)


def test_a_shared_offset_is_taken_out() -> None:
    rng = np.random.default_rng(19)
    R = rng.standard_normal((5000, 3)) + 1e4 * rng.standard_cauchy((5000, 1))
    levels = np.linalg.svd(whitening(R).backward, compute_uv=False)
    assert levels[0] > 5e3 and levels[1] < 2


def test_whitening_of_networks_and_back() -> None:
    rng = np.random.default_rng(10)
    network = pn.random_network(3, 4, outputs=2, rng=11).replace(linear=rng.standard_normal((2, 4)))
    white = whitening(rng.standard_normal((500, 2)) @ rng.standard_normal((2, 2)) + 3)
    X = rng.standard_normal((50, 4))
    np.testing.assert_allclose(white.whitened(network)(X), white.apply(network(X)), atol=1e-12)
    back = white.restored(white.whitened(network))
    np.testing.assert_allclose(back(X), network(X), atol=1e-12)


def test_uneven_noise_is_whitened_and_even_noise_left_alone() -> None:
    rng = np.random.default_rng(13)
    predicted = rng.standard_normal((5000, 3))
    assert evened(predicted, rng.standard_normal((5000, 3)))[1] is None
    R = rng.standard_normal((5000, 3)) + 100 * rng.standard_normal((5000, 1))
    labels, white, unevenness = evened(predicted, R)
    assert white is not None and unevenness > 50
    left = labels - white.apply(predicted)
    covariance = left.T @ left / len(left)
    np.testing.assert_allclose(covariance, covariance[0, 0] * np.eye(3), atol=1e-6)


def test_a_network_and_its_errors_are_mapped_back_unit_by_unit() -> None:
    """Units keep the order they have, also where the canonical order would be another."""
    labels = whitening(np.random.default_rng(14).standard_normal((500, 2)) * [10.0, 0.1])
    truth = pn.Network(np.eye(2), [0.1, 0.2], [[9.0, 1.0], [0.1, 2.0]], [0.0, 0.0]).canonical()
    found = labels.whitened(truth).canonical()
    assert not np.array_equal(found.weights, truth.weights)  # another order of units
    errors = StandardErrors(
        weights=np.abs(found.weights) + 1,
        biases=found.biases,
        output_weights=np.ones((2, 2)),
        output_bias=np.ones(2),
        linear=None,
    )
    network, moved = labels.restored_errors(found, errors)
    assert pn.parameter_error(network, truth) < 1e-12
    np.testing.assert_allclose(network.weights, found.weights)
    np.testing.assert_array_equal(moved.weights, errors.weights)
    np.testing.assert_array_equal(moved.biases, errors.biases)
    # One whitened unit is about 10 units of the first output and 0.1 of the second.
    np.testing.assert_allclose(moved.output_weights[0], 10, rtol=0.2)
    np.testing.assert_allclose(moved.output_weights[1], 0.1, rtol=0.2)


def test_weighting_removes_offsets_that_drown_least_squares() -> None:
    truth = pn.random_network(2, 5, outputs=3, bias_scale=0.0, rng=15)
    rng = np.random.default_rng(16)
    X = rng.standard_normal((5000, 5))
    Y = truth(X) + 0.1 * rng.standard_normal((5000, 3)) + 100 * rng.standard_cauchy((5000, 1))
    found = huber_weighted(X, Y, truth)
    assert found.fit.ended is Ended.CONVERGED and found.white is not None
    weights = found.network.canonical().weights
    angle = np.arccos(np.max(weights @ truth.weights.T, axis=1)).max()
    plain = refine(ArraySource(X, Y), Parameters.of(truth), RELU, spread=1.0).parameters
    lost = np.arccos(np.clip(np.max(plain.theta[:, :-1] @ truth.weights.T, axis=1), -1, 1)).max()
    # 0.003 to 0.012 over 20 seeds, against about 1 radian.
    assert angle < 0.03 < 10 * 0.03 < lost
