"""BJW19, Algorithm 6: each sign by what the labels could more easily do without."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.signs_by_projection import signs_by_projection
from provenet.networks.activations import get_activation


def hidden_signs(units: int, seed: int) -> Array:
    """Signs of both kinds."""
    signs = np.random.default_rng([seed, 1]).choice([-1.0, 1.0], units)
    signs[:2] = 1.0, -1.0
    return signs


@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_signs_that_were_reversed_are_found(seed: int, noise: float, outputs: int | None) -> None:
    """Units with biases and their true directions, every one of a sign that was drawn.

    2000 samples: without its true side a unit of output weight 0.5 costs a sum of squares some
    hundred times that of the noise, 0.3^2; over 200 seeds all signs are right.
    """
    truth = pn.random_network(4, 6, outputs=outputs, bias_scale=1.0, rng=seed)
    X, y = pn.sample(truth, 2000, noise=noise, rng=[seed, 2])
    hidden = hidden_signs(4, seed)
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
