"""Plain smoothers find structure in what a predictor leaves, and none in noise."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.certify.smoothers import best_smoother
from provenet.certify.tolerances import SMOOTHER_SIGMAS

STRUCTURES = {
    "a product": lambda X: X[:, 0] * X[:, 1],
    "a ripple along a unit": lambda X: np.sin(4 * (X[:, 0] + X[:, 1]) / np.sqrt(2)),
    "a tree": lambda X: np.where(X[:, 0] > 0, X[:, 1] > 0.5, X[:, 2] > 0).astype(float),
    "a quadratic form": lambda X: X[:, 0] ** 2 - X[:, 1] ** 2,
    "a step": lambda X: (X[:, 2] > 0.4).astype(float),
}
ALONG = np.array([[1.0, 1.0, 0.0, 0.0]]) / np.sqrt(2)


@pytest.mark.parametrize("kind", STRUCTURES)
def test_structure_under_as_much_noise_is_found(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4))
    left = STRUCTURES[kind](X)
    left = (left - left.mean()) / left.std()
    found = best_smoother(X, ALONG, left + rng.standard_normal(2000))
    assert found.sigmas > 1.5 * SMOOTHER_SIGMAS
    # Of a structure of size 1 a good part, and not more than there is: five standard errors.
    assert 0.3 < found.explained < 1 + 5 / np.sqrt(found.samples)


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_left_in_peace(seed):
    """Of any shape, larger in places, with repeated inputs: z is about standard normal."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.standard_normal((600, 3)), 2, axis=0)
    noise = (1 + X[:, 0] ** 2) * np.repeat(rng.standard_t(3, 600), 2)
    assert best_smoother(X, np.eye(3)[:1], noise).sigmas < SMOOTHER_SIGMAS


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_predictor_of_what_is_no_network_is_no_success(noise):
    """A ripple: the fitted units leave a part of it, which shows along their directions."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, 4))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + noise * rng.standard_normal(2000)
    result = pn.recover(X, y, method="regression", units=6, rng=0, budget=0.5)
    assert not result.success


def test_the_sentence_names_the_smoother():
    """What four quadrants add to a network is no larger than the noise that was told."""
    truth = pn.random_network(2, 4, bias_scale=0.5, rng=3)
    X, y = pn.sample(truth, 2000, noise=0.2, rng=4)
    y = y + 0.15 * np.sign(X[:, 0] * X[:, 1])
    result = pn.recover(X, y, method="regression", units=2, noise=0.25, rng=0)
    assert result.status == "partial"
    assert "What is left is not noise" in result.message and "standard errors" in result.message


def test_a_network_with_noise_is_still_a_success():
    truth = pn.random_network(3, 4, bias_scale=0.5, rng=3)
    X, y = pn.sample(truth, 2000, noise=0.3, rng=4)
    result = pn.recover(X, y, method="regression", rng=0)
    assert result.status == "within noise"
    assert any("plain smoothers" in check.name for check in result.checks)
