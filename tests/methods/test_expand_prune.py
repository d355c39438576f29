"""Expand and prune with several outputs."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import error_from_truth
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.networks.activations import RELU


@pytest.mark.parametrize("seed", range(4))
def test_fewer_outputs_than_units_on_uniform_inputs(seed: int) -> None:
    truth = pn.random_network(5, 10, outputs=2, rng=seed)
    X = np.random.default_rng([seed, 1]).uniform(-1.7, 1.7, (300, 10))
    result = pn.recover(X, truth(X), method="expand-prune", rng=900 + seed)
    assert result.status is pn.Status.EXACT
    # Over 100 seeds at most 4e-13.
    assert pn.parameter_error(result.network, truth) < 1e-10


def test_noise_ends_at_the_least_squares_error() -> None:
    truth = pn.random_network(4, 6, outputs=3, rng=0)
    X, Y = pn.sample(truth, 3000, noise=0.1, rng=1)
    result = pn.recover(X, Y, method="expand-prune", rng=2)
    assert result.status is pn.Status.WITHIN_NOISE
    error = error_from_truth(truth, X, Y)
    assert pn.parameter_error(result.network, truth) < 1.1 * error
    # Standard errors are those of least squares: errors within five of them.
    found, true = result.network, truth.canonical()
    for name in ("weights", "biases", "output_weights", "output_bias"):
        off = np.abs(getattr(found, name) - getattr(true, name))
        assert np.all(off < 5 * getattr(result.standard_errors, name)), name


def test_outputs_are_weighted_by_their_noise() -> None:
    truth = pn.random_network(4, 6, outputs=3, rng=1).canonical()
    X = np.random.default_rng(2).standard_normal((3000, 6))
    sizes = np.array([0.01, 0.1, 1.0])
    Y = truth(X) + sizes * np.random.default_rng(3).standard_normal((3000, 3))
    result = pn.recover(X, Y, method="expand-prune", rng=4)
    assert result.status is pn.Status.WITHIN_NOISE
    # The root mean square over outputs, 0.58, to 3%: 3000 draws of the largest.
    noise = np.sqrt(np.mean(sizes**2))
    assert result.certificate.noise == pytest.approx(noise, rel=0.06)
    plain = refine(
        ArraySource(X, Y), Parameters.of(truth), RELU, spread=1.0, tolerance=1e-12, damping=1e-6
    )
    # Unweighted least squares lets the noisy output spoil the units: over 20 seeds 5 times or more.
    off = [
        np.abs(network.canonical().weights - truth.weights).max()
        for network in (result.network, plain.parameters.network(RELU))
    ]
    assert 3 * off[0] < off[1]
    assert np.all(np.diff(result.standard_errors.output_bias) > 0)


@pytest.mark.parametrize("activation", ["abs", "leaky_relu(0.3)"])
def test_other_piecewise_linear_units_with_one_output(activation: str) -> None:
    truth = pn.random_network(3, 5, activation=activation, rng=4)
    X, y = pn.sample(truth, 400, rng=5)
    result = pn.recover(X, y, method="expand-prune", activation=activation.partition("(")[0], rng=6)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-10


def test_more_units_than_features_with_two_outputs() -> None:
    """Signs are determined by two outputs where one would leave them open."""
    truth = pn.random_network(6, 4, outputs=2, rng=8)
    X, Y = pn.sample(truth, 800, rng=9)
    result = pn.recover(X, Y, method="expand-prune", rng=10)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-9
