"""The best output layer: sums over samples and one system of arrays agree."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import samples
from provenet.fitting.model import Parameters
from provenet.fitting.output_layer import fit_linear_part, with_output_layer


@pytest.mark.parametrize("outputs", [None, 3])
def test_both_routes_find_the_same_layer(outputs: int | None) -> None:
    truth = pn.random_network(4, 5, outputs=outputs, rng=0)
    source = samples(500, noise=0.3, net=truth)
    direct = with_output_layer(source.X, source.y, truth.weights, truth.biases)
    start = Parameters.of(truth.replace(output_weights=np.zeros_like(truth.output_weights)))
    summed, rss = fit_linear_part(source, start, truth.activation, passes=2)
    np.testing.assert_allclose(summed.beta[:-1].T, direct.output_weights, rtol=0, atol=1e-12)
    np.testing.assert_allclose(summed.beta[-1], direct.output_bias, rtol=0, atol=1e-12)
    assert rss == pytest.approx(np.sum((direct(source.X) - source.y) ** 2), rel=1e-10)


def test_without_noise_the_layer_is_the_networks_own() -> None:
    truth = pn.random_network(4, 5, outputs=3, rng=0)
    source = samples(500, net=truth)
    found = with_output_layer(source.X, source.y, truth.weights, truth.biases)
    assert pn.parameter_error(found, truth) < 1e-12
