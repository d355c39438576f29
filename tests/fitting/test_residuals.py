"""What rounding alone leaves: an estimate from weights against what happens."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.residuals import residual_on, rounding_level
from provenet.networks.tolerances import EPS


def in_single(network: pn.DeepNetwork, X: Array) -> Array:
    """The same network, every number and every step rounded to float32."""
    h = X.astype(np.float32)
    *hidden, (A, c) = network.affine_maps
    for W, b in hidden:
        h = network.activation(h @ W.T.astype(np.float32) + b.astype(np.float32)).astype(np.float32)
    return np.asarray(h @ A.T.astype(np.float32) + c.astype(np.float32), float)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("widths", [(8, 5), (10, 10, 10)])
def test_rounding_to_single_precision_stays_below_its_level(
    widths: tuple[int, ...], activation: str
) -> None:
    """Errors of random sign mostly cancel, so that the level, a sum of sizes, is above them; it is
    no idle bound if it is at most a few dozen times as large."""
    network = pn.random_network(widths, 6, outputs=2, activation=activation, rng=0)
    X = np.random.default_rng(0).standard_normal((2000, 6))
    off = in_single(network, X) - network(X)
    level = rounding_level(network, X) * float(np.finfo(np.float32).eps) / EPS
    happened = np.sqrt(np.mean(off**2, axis=0))
    assert level.shape == (2,)
    assert np.all(happened < level) and np.all(level < 60 * happened)


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_of_one_layer_both_formulas_say_about_the_same(
    activation: str, outputs: int | None
) -> None:
    """They differ in whose slope is taken (of a size, or of z) and in counting values twice."""
    network = pn.random_network(6, 4, outputs=outputs, activation=activation, rng=0)
    X = np.random.default_rng(0).standard_normal((500, 4))
    one, deep = rounding_level(network, X), rounding_level(pn.DeepNetwork.of(network), X)
    assert one.shape == deep.shape == (() if outputs is None else (2,))
    assert np.all(deep < 3 * one) and np.all(one < 3 * deep)


def test_a_layer_passes_on_what_those_below_it_round() -> None:
    """Ten times the weights of a ReLU layer, a tenth of the next: the same errors but for biases.

    Cancelling weights of 1000 in the lower layer are felt at the output, small as that is.
    """
    network = pn.random_network((5, 4), 3, activation="relu", rng=0)
    X = np.random.default_rng(0).standard_normal((300, 3))
    W, A, a = network.weights
    cancelling = network.replace(
        weights=[np.vstack([W, W[:1], W[:1]]), np.column_stack([A, [[1e3, -1e3]] * 4]), a],
        biases=[np.append(network.biases[0], [0.1, 0.1]), *network.biases[1:]],
    )
    np.testing.assert_allclose(cancelling(X), network(X), rtol=0, atol=1e-11)
    assert rounding_level(cancelling, X) > 100 * rounding_level(network, X)
    scaled = network.replace(
        weights=[10 * W, A / 10, a], biases=[10 * network.biases[0], *network.biases[1:]]
    )
    assert rounding_level(scaled, X) == pytest.approx(float(rounding_level(network, X)), rel=1e-9)


def test_inputs_far_from_zero_are_felt_through_all_layers() -> None:
    """Inputs near 1e6, taken off again by the first biases: the same values, six digits fewer."""
    network = pn.random_network((5, 4), 3, activation="tanh", rng=0)
    X = np.random.default_rng(0).standard_normal((300, 3))
    W, b = network.affine_maps[0]
    far = network.replace(biases=[b - 1e6 * W.sum(axis=1), *network.biases[1:]])
    assert rounding_level(far, X + 1e6) > 1e4 * rounding_level(network, X)


def test_the_residual_of_a_deep_network() -> None:
    network = pn.random_network((5, 4), 3, rng=0)
    X, y = pn.sample(network, 100, rng=1)
    assert residual_on(ArraySource(X, y), network) < 1e-14
    assert residual_on(ArraySource(X, y + 0.5), network) == pytest.approx(0.5)
