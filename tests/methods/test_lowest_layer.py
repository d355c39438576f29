"""The lowest layer under an unknown top, end to end."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.common.typing import Array
from provenet.data.sources import biased
from provenet.datasets import conditioned_rows, random_layered
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer, sigmoid_of_sum


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


def test_three_layers_end_to_end() -> None:
    """The lowest layer recovered from samples, the two above it learned on what was recovered."""
    rng = np.random.default_rng(2)
    layer = lowest_layer(conditioned_rows(4, 6, 1.5, rng), 1.8)
    network = LayeredNetwork(layer, sigmoid_of_sum([2.0, 1.5, 1.0, 2.5], bias=1.0))
    X, y = samples(network, 100_000, 2)
    result = pn.recover(X, y, method="lowest-layer", rng=3)
    # The top is no polynomial, so units are known from the faces of what fires.
    assert result.status == "within noise" and result.network is not None
    assert result.layer is not None and result.network.units == 4
    error = np.radians(degrees_off(result.network.weights, layer.weights))
    assert error < 4 * result.layer.angle_errors.max() < 4 * np.radians(0.2)
    learned = pn.learn_top(X, y, result.network, degree=4, rng=4)
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


@pytest.mark.parametrize("activation", ["sigmoid", "exp"])
def test_smooth_units_are_exact_with_their_polynomial(activation: str) -> None:
    network = random_layered(4, 5, condition=1.5, products=0.5, activation=activation, rng=21)
    X, y = samples(network, 60_000, 21)
    result = pn.recover(X, y, units=4, method="lowest-layer", activation=activation, rng=22)
    assert result.status == "exact" and result.network is not None and result.layered is not None
    assert degrees_off(result.network.weights, network.layer.weights) < 1e-5
    np.testing.assert_allclose(result.layered(X[:1000]), y[:1000], rtol=1e-8)


def test_low_thresholds_under_a_polynomial_are_exact() -> None:
    """No label is silent: step 1 is rough, and least squares makes it exact all the same."""
    network = random_layered(4, 5, threshold=0.3, products=0.5, rng=23)
    X, y = samples(network, 60_000, 23)
    result = pn.recover(X, y, units=4, method="lowest-layer", rng=24)
    assert result.status == "exact" and result.network is not None
    assert degrees_off(result.network.weights, network.layer.weights) < 1e-5


def test_a_top_that_falls_where_units_fire() -> None:
    """GP19 needs a monotone top; where units fire alone their slope may have either sign."""
    layer = random_layered(4, 5, rng=25).layer
    network = LayeredNetwork(layer, Polynomial(4, {(i,): (-1.0) ** i for i in range(4)}))
    X, y = samples(network, 60_000, 25)
    result = pn.recover(X, y, method="lowest-layer", rng=26)
    assert result.status == "exact" and result.network is not None
    np.testing.assert_allclose(np.sort(result.network.output_weights), [-1, -1, 1, 1], atol=1e-9)


@pytest.mark.parametrize("activation", ["step", "relu2"])
def test_other_units_are_the_faces_of_what_fires(activation: str) -> None:
    network = random_layered(4, 6, condition=1.5, activation=activation, rng=27)
    X, y = samples(network, 60_000, 27)
    result = pn.recover(X, y, method="lowest-layer", activation=activation, rng=28)
    assert result.success and result.network is not None and result.layer is not None
    error = np.radians(degrees_off(result.network.weights, network.layer.weights))
    assert error < 4 * result.layer.angle_errors.max() < 4 * np.radians(0.3)
    # Thresholds are 2, off by no more than a few of their own errors.
    off = np.abs(result.network.biases + 2.0)
    assert np.all(off < 5 * result.layer.threshold_errors)


def test_powers_of_a_unit_in_the_top() -> None:
    """Appendix B.7: degrees above one in a variable."""
    plain = random_layered(4, 5, rng=29)
    assert isinstance(plain.top, Polynomial)
    network = LayeredNetwork(
        plain.layer, Polynomial(4, plain.top.terms | {(i, i): 0.5 for i in range(4)})
    )
    X, y = samples(network, 100_000, 29)
    result = pn.recover(X, y, method="lowest-layer", rng=30)
    assert result.success and result.network is not None
    assert degrees_off(result.network.weights, network.layer.weights) < 0.3


def test_a_queried_function_is_refined_to_any_angle() -> None:
    network = random_layered(3, 5, products=0.5, activation="step", rng=31)
    source = pn.QuerySource(network, 5, 60_000, rng=32)
    result = pn.recover(source, method="lowest-layer", activation="step", rng=33)
    assert result.status == "within noise" and result.network is not None
    # asked for 1e-6 rad; the estimate of the angle reached is good to a few parts in ten
    assert np.radians(degrees_off(result.network.weights, network.layer.weights)) < 2e-6
    np.testing.assert_allclose(result.network.biases, -2.0, atol=1e-5)
    assert source.queries < 300_000


def test_a_top_that_is_not_monotone_cannot_be_refined_by_questions() -> None:
    layer = random_layered(3, 5, activation="step", rng=34).layer
    network = LayeredNetwork(layer, Polynomial(3, {(0,): 1.0, (1,): -1.0, (2,): 1.0}))
    source = pn.QuerySource(network, 5, 60_000, rng=35)
    result = pn.recover(source, method="lowest-layer", activation="step", rng=36)
    assert result.status == "partial" and "monotone" in result.message
    assert result.network is not None  # step 1 stands
    assert degrees_off(result.network.weights, layer.weights) < 10


def test_the_papers_refinement_needs_questions() -> None:
    network = random_layered(3, 5, rng=37)
    X, y = samples(network, 60_000, 37)
    result = pn.recover(X, y, method="lowest-layer", faithful=True, rng=38)
    assert result.status == "partial" and "QuerySource" in result.message


@pytest.mark.parametrize("method", ["lowest-layer", "halfspaces", "gradient-search"])
def test_labels_that_never_fire_are_a_status(method: str) -> None:
    X = np.random.default_rng(0).standard_normal((2000, 3))
    for data in ((X, np.zeros(2000)), (pn.QuerySource(lambda Z: np.zeros(len(Z)), 3, 2000),)):
        result = pn.recover(*data, method=method, activation="step")
        assert result.status == "failed" and result.message.startswith("No unit fires")


def test_thresholds_too_high_say_how_many_samples_it_takes() -> None:
    layer = lowest_layer(conditioned_rows(3, 5, 1.0, np.random.default_rng(39)), 3.3, "step")
    X, y = samples(LayeredNetwork(layer, Polynomial(3, {(i,): 1.0 for i in range(3)})), 10_000, 39)
    assert 0 < np.count_nonzero(y) < 40
    result = pn.recover(X, y, units=3, method="lowest-layer", activation="step", rng=40)
    assert not result.success and "would be needed" in result.message


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
        ({"method": "biased-relu", "threshold": 2.0}, ("lowest-layer, halfspaces",)),
    ],
)
def test_bad_thresholds_are_refused(options: dict[str, object], words: tuple[str, ...]) -> None:
    X = np.random.default_rng(0).standard_normal((100, 3))
    with pytest.raises(pn.InvalidInput) as error:
        pn.recover(X, X[:, 0], **options)
    is_a_sentence(error, *words)


# ------------------------------------------------- what a hostile reviewer found


def test_a_unit_that_fires_on_a_few_samples_is_not_overlooked() -> None:
    """It shows in some forty of 2e5 samples: none of them may be held out, all are looked at."""
    X = np.random.default_rng(0).standard_normal((200_000, 4))
    H = np.maximum(X[:, :3] - [1.5, 1.5, 3.5], 0)
    assert 10 < np.count_nonzero(H[:, 2]) < 100
    result = pn.recover(X, H.sum(axis=1), method="lowest-layer", rng=0)
    assert not (result.status == "exact" and result.network and result.network.units == 2)


def test_a_product_that_hardly_fires_is_not_left_out_of_an_exact_answer() -> None:
    X = np.random.default_rng(8).standard_normal((6000, 3))
    H = np.maximum(X[:, :2] - [1.5, 2.0], 0) ** 2
    y = H[:, 0] + H[:, 1] + 0.5 * H[:, 0] * H[:, 1]
    result = pn.recover(X, y, method="lowest-layer", activation="relu2", rng=8)
    if result.status == "exact":
        assert result.layered is not None
        np.testing.assert_allclose(result.layered(X), y, atol=1e-9)


def test_what_units_and_top_share_is_fixed_and_said() -> None:
    X = np.random.default_rng(1).standard_normal((4000, 1))
    y = 1 / (1 + np.exp(-(X[:, 0] - 1.2)))
    result = pn.recover(X, y, units=1, method="lowest-layer", activation="sigmoid", rng=0)
    assert result.status == "exact" and result.network is not None
    np.testing.assert_allclose([*result.network.weights[0], *result.network.biases], [1, -1.2])
    assert "mirror image" in result.ambiguities[0]
    network = random_layered(2, 3, threshold=1.5, activation="exp", rng=3)
    X, y = samples(network, 20_000, 3)
    result = pn.recover(X, y, units=2, method="lowest-layer", activation="exp", rng=0)
    assert result.status == "exact" and result.network is not None
    np.testing.assert_allclose(result.network.biases, 0.0)
    assert "factors in the top" in result.ambiguities[0]


def test_rounded_labels_are_noticed() -> None:
    network = random_layered(3, 4, activation="relu2", threshold=1.5, rng=5)
    X, y = samples(network, 40_000, 5)
    result = pn.recover(X, np.round(y), method="lowest-layer", activation="relu2", rng=6)
    assert not result.success


def test_labels_in_single_precision_are_within_noise() -> None:
    network = random_layered(3, 4, products=0.5, activation="sigmoid", rng=7)
    X, y = samples(network, 20_000, 7)
    single = y.astype(np.float32).astype(float)
    result = pn.recover(X, single, units=3, method="lowest-layer", activation="sigmoid", rng=8)
    assert result.status == "within noise" and result.network is not None
    assert degrees_off(result.network.weights, network.layer.weights) < 1e-3
