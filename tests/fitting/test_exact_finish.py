"""The exact finish against the truth."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.fitting.exact_finish import exact_finish

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
    # Over 50 seeds: at most 2e-12 (cube roots near zero); null vectors of ratio 1e-14.
    assert pn.parameter_error(found.network, truth) < 1e-10
    assert found.margins.max() < 1e-12


def test_the_finish_takes_approximate_biases() -> None:
    truth = pn.random_network(4, 6, outputs=5, bias_scale=0.8, rng=1)
    X, Y = pn.sample(truth, 4000, rng=2)
    W = near_directions(truth, 0.05, 3)
    signs = np.sign(np.sum(W * truth.weights, axis=1))
    found = exact_finish(X, Y, W, signs * (truth.biases + 0.05))
    assert pn.parameter_error(found.network, truth) < 1e-11


def test_an_activation_without_degree_is_finished_by_its_inverse() -> None:
    truth = pn.random_network(4, 6, outputs=6, bias_scale=0.0, activation=SOFT, rng=0)
    X, Y = pn.sample(truth, 5000, rng=7)
    found = exact_finish(X, Y, near_directions(truth, 0.1, 8), activation=SOFT)
    # The scale is found by a scalar search, to the square root of rounding.
    assert pn.parameter_error(found.network, truth) < 1e-6


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


def test_dependent_output_weights_have_no_finish() -> None:
    truth = pn.random_network(4, 6, outputs=6, bias_scale=0.0, rng=3)
    A = truth.output_weights.copy()
    A[:, 3] = A[:, 0] - 2 * A[:, 1]
    X, Y = pn.sample(truth.replace(output_weights=A), 2000, rng=4)
    with pytest.raises(NoAnswer, match="dependent"):
        exact_finish(X, Y, truth.weights)
