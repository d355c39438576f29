"""The soft fit of all faces on labels drawn from its own model."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.common.typing import Array
from provenet.lowest_layer.unions.faces import Faces, Flags
from provenet.lowest_layer.unions.noisy_or import Blur, fit_faces, log_likelihood, soft_errors

TRUTH = Faces(np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]), np.array([0.8, 1.2]))
BLUR = Blur(np.array([6.0, 10.0]), 0.02, 0.05)


def drawn(n: int, seed: int) -> tuple[Array, Flags]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, rng.random(n) < BLUR.probabilities(TRUTH.margins(X))[0]


def near_truth(seed: int) -> Faces:
    return TRUTH.moved(0.1 * np.random.default_rng(seed).standard_normal((2, 4)))


def test_the_slope_is_the_derivative() -> None:
    M, h = np.random.default_rng(0).standard_normal((20, 2)), 1e-6
    silent = BLUR.probabilities(M)[1]
    for face in range(2):
        step = h * (np.arange(2) == face)
        high, low = BLUR.probabilities(M + step)[0], BLUR.probabilities(M - step)[0]
        # Central differences err by h^2 and by rounding over h: below 1e-9 beside slopes of 1.
        slope = BLUR.slope(M[:, face], silent, face)
        np.testing.assert_allclose(slope, (high - low) / (2 * h), atol=1e-8)


def test_the_fit_is_a_maximum_of_the_likelihood() -> None:
    X, fired = drawn(20_000, 1)
    fit = fit_faces(X, fired, near_truth(1), BLUR)
    best = log_likelihood(X, fired, fit, BLUR)
    assert best >= log_likelihood(X, fired, TRUTH, BLUR)
    for seed in range(10):  # steps of more than a standard error lose likelihood
        away = fit.moved(0.05 * np.random.default_rng(seed).standard_normal((2, 4)))
        assert log_likelihood(X, fired, away, BLUR) < best


def test_standard_errors_are_those_of_repeated_samples() -> None:
    """Root mean squares over 40 draws vary by 11% at most; three times that is allowed."""
    angles, offsets, claimed = [], [], []
    for seed in range(40):
        X, fired = drawn(4000, seed)
        fit = fit_faces(X, fired, near_truth(seed), BLUR)
        angles.append(np.linalg.norm(fit.weights - TRUTH.weights, axis=1))
        offsets.append(fit.thresholds - TRUTH.thresholds)
        claimed.append(soft_errors(X, fired, fit, BLUR))
    claims = np.sqrt(np.mean(np.square(claimed), axis=0))
    np.testing.assert_allclose(
        np.sqrt(np.mean(np.square(angles), axis=0)) / claims[0], 1, atol=0.33
    )
    np.testing.assert_allclose(
        np.sqrt(np.mean(np.square(offsets), axis=0)) / claims[1], 1, atol=0.33
    )


def test_flip_rates_are_kept_from_certainty() -> None:
    blur = Blur.of(np.ones(1), 0.0, 0.9)
    assert 0 < blur.false_positives < 0.01 and blur.false_negatives < 0.5
    X = np.array([[50.0], [-50.0]])
    face = Faces(np.ones((1, 1)), np.zeros(1))
    assert np.isfinite(log_likelihood(X, np.array([False, True]), face, blur))


def test_a_face_without_samples_has_no_error_bound() -> None:
    X = np.full((5, 3), -30.0)
    angles, _ = soft_errors(X, np.zeros(5, bool), TRUTH, BLUR)
    assert np.all(angles == np.inf)


@pytest.mark.parametrize("seed", range(3))
def test_the_fit_ends_near_the_truth(seed: int) -> None:
    X, fired = drawn(20_000, seed + 10)
    fit = fit_faces(X, fired, near_truth(seed), BLUR)
    angles, offsets = soft_errors(X, fired, fit, BLUR)
    # A chi with two degrees of freedom over its root mean square: 3 in 1e-4 of all cases.
    assert np.all(np.linalg.norm(fit.weights - TRUTH.weights, axis=1) < 3 * angles)
    assert np.all(np.abs(fit.thresholds - TRUTH.thresholds) < 4 * offsets)
