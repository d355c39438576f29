"""The lowest layer under an unknown top, end to end."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.datasets import conditioned_rows, random_layered
from provenet.layered import LayeredNetwork, Polynomial, lowest_layer, sigmoid_of_sum
from provenet.sources import biased
from provenet.typing import Array


def samples(network: LayeredNetwork, n: int, seed: int) -> tuple[Array, Array]:
    X = np.random.default_rng([seed, 2]).standard_normal((n, network.features))
    return X, network(X)


def degrees_off(found: Array, truth: Array) -> float:
    found = found / np.linalg.norm(found, axis=1, keepdims=True)
    return float(np.degrees(np.arccos(np.clip((found @ truth.T).max(axis=0), -1, 1)).max()))


@pytest.mark.parametrize("condition", [1.0, 3.0])
def test_relu_units_under_products_are_exact(condition: float) -> None:
    network = random_layered(6, 8, condition=condition, rng=0)
    X, y = samples(network, 60_000, 0)
    result = pn.recover(X, y, method="lowest-layer", rng=1)
    assert result.status == "exact" and result.layer is not None and result.layer.exact
    assert result.network is not None and result.network.units == 6
    assert degrees_off(result.network.weights, network.layer.weights) < 1e-5
    # The linear part of the top comes with it: slopes of 1, a silent label of 0.
    np.testing.assert_allclose(result.network.output_weights, 1.0, atol=1e-9)
    np.testing.assert_allclose(result.network.biases, -2.0, atol=1e-9)
    assert abs(float(result.network.output_bias)) < 1e-12


def test_the_rest_of_the_network_can_be_learned() -> None:
    """Three layers: the lowest recovered from samples, the others learned on top of it."""
    rng = np.random.default_rng(2)
    layer = lowest_layer(conditioned_rows(4, 6, 1.5, rng), 1.8)
    network = LayeredNetwork(layer, sigmoid_of_sum([2.0, 1.5, 1.0, 2.5], bias=1.0))
    X, y = samples(network, 100_000, 2)
    result = pn.recover(X, y, method="lowest-layer", rng=3, refine=False)
    assert result.network is not None
    assert degrees_off(result.network.weights, layer.weights) < 10
    learned = pn.learn_top(X, y, layer, degree=4, rng=4)
    assert learned.r2 >= 0.99


def test_inputs_of_any_covariance() -> None:
    network = random_layered(5, 6, rng=4)
    mix = np.random.default_rng(5).standard_normal((6, 6)) + 2 * np.eye(6)
    Z, y = samples(network, 60_000, 4)
    X = Z @ mix.T + 1.0
    result = pn.recover(X, y, method="lowest-layer", rng=6)
    assert result.status == "exact" and result.network is not None
    user = network.layer.weights @ np.linalg.inv(mix)
    user /= np.linalg.norm(user, axis=1, keepdims=True)
    assert degrees_off(result.network.weights, user) < 1e-5


def test_a_unit_that_is_missing_is_noticed() -> None:
    network = random_layered(5, 6, rng=7)
    X, y = samples(network, 60_000, 7)
    result = pn.recover(X, y, units=4, method="lowest-layer", rng=8)
    assert not result.success


def test_step_one_alone_makes_no_claim() -> None:
    network = random_layered(5, 6, rng=9)
    X, y = samples(network, 60_000, 9)
    result = pn.recover(X, y, method="lowest-layer", refine=False, rng=10)
    assert result.status == "partial" and "step 1" in result.message
    assert result.network is not None and result.layer is not None
    error = degrees_off(result.network.weights, network.layer.weights)
    assert error < 12
    # The stated sampling error is of the right size: products may add as much again.
    assert 0.2 * error < np.degrees(result.layer.angle_errors.max()) < 10 * error


def test_thresholds_too_high_for_the_samples_say_how_many_are_needed() -> None:
    network = random_layered(3, 6, threshold=3.5, rng=11)
    X, y = samples(network, 3000, 11)
    result = pn.recover(X, y, units=3, method="lowest-layer", rng=12)
    assert result.status == "failed" and "samples would be needed" in result.message


def test_labels_with_noise_have_no_silent_value() -> None:
    network = random_layered(3, 5, rng=13)
    X, y = samples(network, 20_000, 13)
    noisy = y + 0.01 * np.random.default_rng(14).standard_normal(len(y))
    result = pn.recover(X, noisy, method="lowest-layer", rng=15)
    assert result.status == "failed" and "noise" in result.message


def test_sigmoid_units_from_biased_samples() -> None:
    """Over 12 seeds the worst direction was 5.4 degrees off."""
    rng = np.random.default_rng(16)
    layer = lowest_layer(conditioned_rows(3, 4, 1.0, rng), 4.0, "sigmoid")
    network = LayeredNetwork(layer, Polynomial(3, {(i,): 1.0 for i in range(3)}))
    X, y = samples(network, 600_000, 16)
    source = biased(pn.ArraySource(X, y), rng=17)
    result = pn.recover(
        source, units=3, method="lowest-layer", activation="sigmoid", threshold=4.0, rng=18
    )
    assert result.status == "partial" and result.network is not None
    assert degrees_off(result.network.weights, layer.weights) < 12


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "lowest-layer", "threshold": np.inf}, ("finite",)),
        ({"method": "biased-relu", "threshold": 2.0}, ("lowest layer",)),
    ],
)
def test_bad_thresholds_are_refused(options: dict[str, object], words: tuple[str, ...]) -> None:
    X = np.random.default_rng(0).standard_normal((100, 3))
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(X, X[:, 0], **options)
    is_a_sentence(error, *words)
