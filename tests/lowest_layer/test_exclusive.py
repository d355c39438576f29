"""ReLU units from the samples on which they fire alone."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.common.typing import Array
from provenet.datasets import random_layered
from provenet.lowest_layer.exclusive import exclusive_units
from provenet.networks.layered import LayeredNetwork, Polynomial


def firing(network: LayeredNetwork, n: int, seed: int) -> tuple[Array, Array]:
    X = np.random.default_rng([seed, 2]).standard_normal((n, network.features))
    y = network(X)
    return X[y != 0], y[y != 0]


def turned(W: Array, degrees: float, seed: int) -> Array:
    """Unit rows, each turned by an angle in a random direction."""
    side = np.random.default_rng([seed, 3]).standard_normal(W.shape)
    side -= np.sum(side * W, axis=1, keepdims=True) * W
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    angle = np.radians(degrees)
    return np.asarray(np.cos(angle) * W + np.sin(angle) * side)


@pytest.mark.parametrize("condition", [1.0, 3.0])
def test_units_five_degrees_off_become_exact(condition: float) -> None:
    network = random_layered(6, 8, condition=condition, rng=0)
    X, y = firing(network, 40_000, 0)
    W, t = network.layer.weights, network.thresholds
    found = exclusive_units(X, y, turned(W, 5.0, 0), t + 0.1)
    assert found.exact.all()
    # Least squares on some hundred exact samples: rounding times a condition number of about 10.
    np.testing.assert_allclose(found.weights, W, atol=1e-11)
    np.testing.assert_allclose(found.thresholds, t, atol=1e-11)
    np.testing.assert_allclose(found.coefficients, 1.0, atol=1e-11)


def test_a_negative_product_does_no_harm() -> None:
    base = random_layered(5, 6, rng=1)
    top = Polynomial(5, {**{(i,): 1.0 for i in range(5)}, (0, 1): -8.0, (2, 3): -8.0})
    network = LayeredNetwork(base.layer, top)
    X, y = firing(network, 40_000, 1)
    found = exclusive_units(X, y, turned(base.layer.weights, 4.0, 1), base.thresholds)
    assert found.exact.all()
    np.testing.assert_allclose(found.weights, base.layer.weights, atol=1e-11)


def test_a_square_in_the_top_is_not_called_exact() -> None:
    base = random_layered(4, 6, rng=2)
    network = LayeredNetwork(base.layer, Polynomial(4, {(i, i): 1.0 for i in range(4)}))
    X, y = firing(network, 40_000, 2)
    found = exclusive_units(X, y, base.layer.weights, base.thresholds)
    assert not found.exact.any()


def test_labels_with_noise_are_not_called_exact() -> None:
    network = random_layered(4, 6, rng=3)
    X, y = firing(network, 40_000, 3)
    noisy = y + 1e-3 * np.random.default_rng(4).standard_normal(len(y))
    assert not exclusive_units(X, noisy, network.layer.weights, network.thresholds).exact.any()


def test_too_few_samples_change_nothing() -> None:
    network = random_layered(4, 6, rng=5)
    X, y = firing(network, 100, 5)
    start = turned(network.layer.weights, 3.0, 5)
    found = exclusive_units(X[:15], y[:15], start, network.thresholds)
    assert not found.exact.any()
    np.testing.assert_array_equal(found.weights, start)
