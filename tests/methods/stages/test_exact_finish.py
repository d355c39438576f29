"""The exact finish, and signs by regression (BJW19, Algorithms 5 and 6), against the truth."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.methods.stages.exact_finish import exact_finish, signs_by_projection
from provenet.networks.activations import get_activation

SOFT = pn.Activation(
    "expm1",
    lambda z: np.expm1(np.maximum(z, 0.0)),
    lambda z: np.where(z > 0, np.exp(np.maximum(z, 0.0)), 0.0),
    inverse=np.log1p,
)


def near_directions(net: pn.Network, angle: float, seed: int) -> Array:
    """Rows of the weights turned by about `angle`, with random signs."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(net.weights.shape) / np.sqrt(net.features)
    return (net.weights + angle * noise) * rng.choice([-1.0, 1.0], net.units)[:, None]


@pytest.mark.parametrize("name", ["relu", "relu2", "relu3"])
@pytest.mark.parametrize("seed", range(4))
def test_linear_solves_finish_from_directions_that_are_a_tenth_off(name: str, seed: int) -> None:
    truth = pn.random_network(5, 10, outputs=7, bias_scale=0.0, activation=name, rng=seed)
    truth = truth.replace(output_bias=np.arange(7.0))
    X, Y = pn.sample(truth, 4000, rng=100 + seed)
    found = exact_finish(X, Y, near_directions(truth, 0.1, 200 + seed), activation=truth.activation)
    # Over 50 seeds: at most 2e-12 (cube roots near zero).
    assert pn.parameter_error(found, truth) < 1e-10


def test_the_finish_takes_approximate_biases() -> None:
    truth = pn.random_network(4, 6, outputs=5, bias_scale=0.8, rng=1)
    X, Y = pn.sample(truth, 4000, rng=2)
    W = near_directions(truth, 0.05, 3)
    signs = np.sign(np.sum(W * truth.weights, axis=1))
    found = exact_finish(X, Y, W, signs * (truth.biases + 0.05))
    assert pn.parameter_error(found, truth) < 1e-11


def test_an_activation_without_degree_is_finished_by_its_inverse() -> None:
    truth = pn.random_network(4, 6, outputs=6, bias_scale=0.0, activation=SOFT, rng=0)
    X, Y = pn.sample(truth, 5000, rng=7)
    found = exact_finish(X, Y, near_directions(truth, 0.1, 8), activation=SOFT)
    assert pn.parameter_error(found, truth) < 1e-9


@pytest.mark.parametrize(
    ("outputs", "noise", "angle", "words"),
    [
        (3, 0.0, 0.05, "rank 3, fewer than 4"),
        (6, 0.01, 0.05, "vanishes"),
        (6, 0.0, 3.0, "vanishes"),
    ],
)
def test_the_finish_says_what_it_lacks(
    outputs: int, noise: float, angle: float, words: str
) -> None:
    truth = pn.random_network(4, 6, outputs=outputs, bias_scale=0.0, rng=3)
    X, Y = pn.sample(truth, 2000, noise=noise, rng=4)
    with pytest.raises(NoAnswer, match=words):
        exact_finish(X, Y, near_directions(truth, angle, 5))


@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("seed", [2, 3, 7, 9])
def test_signs_that_were_reversed_are_found(seed: int, noise: float, outputs: int | None) -> None:
    """Units with biases and their true directions, every one of a sign that was drawn.

    With these seeds some bias is so large that its own sign matters, too.
    """
    truth = pn.random_network(4, 6, outputs=outputs, bias_scale=2.0, rng=seed)
    X, y = pn.sample(truth, 2000, noise=noise, rng=[seed, 2])
    hidden = np.array([1.0, -1.0, *np.random.default_rng([seed, 1]).choice([-1.0, 1.0], 2)])
    W, b = truth.weights * hidden[:, None], truth.biases * hidden
    np.testing.assert_array_equal(signs_by_projection(ArraySource(X, y), W, b), hidden)


def growth_without(phi: Array, y: Array, column: int) -> float:
    """What the sum of squares of a regression gains when a regressor is left out."""

    def left(columns: Array) -> float:
        return float(np.sum((y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]) ** 2))

    return left(np.delete(phi, column, axis=1)) - left(phi)


@pytest.mark.parametrize("activation", ["relu", "relu2"])
@pytest.mark.parametrize("seed", range(4))
def test_the_signs_are_those_of_the_regressions_written_out(seed: int, activation: str) -> None:
    """On directions that are far off too: the definition, regressor by regressor."""
    truth = pn.random_network(3, 5, outputs=2, bias_scale=0.5, activation=activation, rng=seed)
    X, y = pn.sample(truth, 300, noise=0.1, rng=[seed, 3])
    rng = np.random.default_rng(seed)
    W, b = truth.weights + rng.standard_normal((3, 5)), rng.uniform(-1, 1, 3)
    sigma, z = get_activation(activation), X @ W.T + b
    phi = np.column_stack([sigma(z), sigma(-z), np.ones(len(X))])
    expected = [
        1.0 if growth_without(phi, y, i) >= growth_without(phi, y, 3 + i) else -1.0
        for i in range(3)
    ]
    found = signs_by_projection(ArraySource(X, y), W, b, sigma)
    np.testing.assert_array_equal(found, expected)
