"""Random networks and samples from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence


def test_a_random_network_is_what_it_says() -> None:
    net = pn.random_network(500, 4, bias_scale=1.5, rng=0)
    np.testing.assert_allclose(np.linalg.norm(net.weights, axis=1), 1.0, rtol=1e-14)
    sizes = np.abs(net.output_weights)
    assert sizes.min() >= 0.5 and sizes.max() <= 1.5 and np.abs(net.biases).max() <= 1.5
    # Ranges are filled and signs and directions balanced: five standard errors of a mean of 500.
    assert sizes.min() < 0.52 and sizes.max() > 1.48 and np.abs(net.biases).max() > 1.45
    assert abs(np.sign(net.output_weights).mean()) < 5 / np.sqrt(500)
    assert np.abs(net.weights.mean(axis=0)).max() < 5 / np.sqrt(500 * 4)
    assert net.output_bias == 0.0 and net.linear is None


@pytest.mark.parametrize("activation", ["tanh", "gelu", "elu", "sigmoid"])
def test_norms_of_smooth_units_differ(activation: str) -> None:
    """Directions, biases and output weights are those of any other activation."""
    net, relu = (pn.random_network(500, 4, activation=a, rng=0) for a in (activation, "relu"))
    norms = np.linalg.norm(net.weights, axis=1)
    assert 0.5 <= norms.min() < 0.52 and 2.98 < norms.max() <= 3.0
    np.testing.assert_allclose(net.weights, norms[:, None] * relu.weights, rtol=1e-14)
    np.testing.assert_array_equal(net.biases, relu.biases)
    np.testing.assert_array_equal(net.output_weights, relu.output_weights)


def test_several_outputs_and_other_activations() -> None:
    net = pn.random_network(3, 4, outputs=2, activation="sigmoid", rng=0)
    assert net.output_weights.shape == (2, 3) and net.activation.name == "sigmoid"


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_deep_random_network_is_what_it_says(activation: str) -> None:
    net = pn.random_network((500, 400), 4, outputs=300, activation=activation, rng=0)
    assert isinstance(net, pn.DeepNetwork) and net.activation.name == activation
    assert (net.features, net.widths, net.outputs) == (4, (500, 400), 300)
    for W, b in net.affine_maps:
        norms = np.linalg.norm(W, axis=1)
        # Ranges are filled, and directions balanced: five standard errors of a mean of units.
        assert 0.8 <= norms.min() < 0.82 and 2.48 < norms.max() <= 2.5
        assert np.abs(b).max() <= 0.5 and b.min() < -0.48 and b.max() > 0.48
        spread = 2.5 / np.sqrt(W.size)
        assert np.abs(W.mean(axis=0)).max() < 5 * spread
    wide = pn.random_network([50, 50], 4, bias_scale=3.0, rng=0)
    assert 1.3 < max(np.abs(b).max() for b in wide.biases[:2]) <= 1.5


def test_a_width_in_a_tuple_is_a_deep_network_of_one_layer() -> None:
    net = pn.random_network((5,), 3, outputs=1, rng=0)
    assert isinstance(net, pn.DeepNetwork) and (net.widths, net.outputs) == ((5,), 1)
    assert pn.random_network((5,), 3, rng=0).outputs is None
    assert isinstance(pn.random_network(np.int64(5), 3, rng=0), pn.Network)


def test_samples_of_a_deep_network() -> None:
    net = pn.random_network((5, 4), 3, outputs=2, rng=0)
    X, y = pn.sample(net, 50, rng=1)
    assert X.shape == (50, 3) and y.shape == (50, 2)
    np.testing.assert_array_equal(y, net(X))
    again = pn.random_network((5, 4), 3, outputs=2, rng=0)
    np.testing.assert_array_equal(again(X), y)


@pytest.mark.parametrize("seed", [3, np.random.SeedSequence(3)])
def test_the_same_seed_gives_the_same_network_and_samples(seed: Any) -> None:
    def draw() -> list[np.ndarray]:
        rng = np.random.default_rng(seed) if not isinstance(seed, int) else seed
        net = pn.random_network(3, 4, rng=rng)
        return [net.weights, *pn.sample(net, 10, noise=0.1, rng=rng)]

    for first, second in zip(draw(), draw(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_a_generator_goes_on() -> None:
    rng = np.random.default_rng(0)
    first, second = pn.random_network(3, 4, rng=rng), pn.random_network(3, 4, rng=rng)
    assert not np.allclose(first.weights, second.weights)


def test_labels_are_the_networks_own() -> None:
    net = pn.random_network(3, 4, rng=0)
    X, y = pn.sample(net, 100, rng=1)
    assert X.shape == (100, 4)
    np.testing.assert_array_equal(y, net(X))
    several = pn.random_network(3, 4, outputs=2, rng=0)
    X, y = pn.sample(several, 100, noise=0.1, rng=1)
    assert y.shape == (100, 2)


def test_noise_and_covariance() -> None:
    net = pn.random_network(3, 3, rng=0)
    C = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.5]])
    n = 40_000
    X, y = pn.sample(net, n, noise=0.25, covariance=C, rng=1)
    # Five standard errors: sqrt((C_ii C_jj + C_ij^2) / n), sqrt(C_ii / n) and 0.25 / sqrt(2 n).
    error = np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / n)
    assert (np.abs(X.T @ X / n - C) < 5 * error).all()
    assert (np.abs(X.mean(axis=0)) < 5 * np.sqrt(np.diag(C) / n)).all()
    assert abs((y - net(X)).std() - 0.25) < 5 * 0.25 / np.sqrt(2 * n)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        *(((0, 3), {}), ((3, 0), {}), ((-1, 3), {}), ((3, 3), {"outputs": 0})),
        *((((), 3), {}), (((3, 0), 3), {}), (((3, 3), 0), {}), (((3, 3), 3), {"outputs": 0})),
    ],
)
def test_sizes_that_make_no_network(sizes: tuple[Any, int], options: dict[str, int]) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.random_network(*sizes, **options)
    is_a_sentence(error, "at least one unit")


@pytest.mark.parametrize(
    ("n", "options", "word"),
    [
        (0, {}, "at least 1"),
        (5, {"noise": -0.1}, "standard deviation"),
        (5, {"noise": np.nan}, "standard deviation"),
        (5, {"covariance": np.eye(2)}, "3 x 3"),
        (5, {"covariance": np.triu(np.ones((3, 3)))}, "symmetric"),
        (5, {"covariance": np.ones((3, 3))}, "positive definite"),
        (5, {"covariance": np.full((3, 3), np.nan)}, "symmetric"),
    ],
)
def test_samples_that_cannot_be_drawn(n: int, options: dict[str, Any], word: str) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.sample(pn.random_network(2, 3, rng=0), n, **options)
    is_a_sentence(error, word)
