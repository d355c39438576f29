"""Claim D.14: the same function with fewer units."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.networks.conversions import linear_as_units, merge_linear_units, merge_signs

ROUNDING = 1e-13
X = 2 * np.random.default_rng(0).standard_normal((500, 5))


def random_parts(seed):
    """Units with a linear term, and output weights of the other sign."""
    rng = np.random.default_rng(seed)
    network = pn.random_network(4, 5, bias_scale=2.0, rng=rng)
    return network.replace(linear=rng.standard_normal(5), output_bias=0.7), rng.standard_normal(4)


@pytest.mark.parametrize("seed", range(5))
def test_units_of_both_signs_beside_a_linear_part_are_two_units_more_than_one_sign(seed):
    units, opposite = random_parts(seed)
    both = units(X) + np.maximum(-X @ units.weights.T - units.biases, 0) @ opposite
    merged = linear_as_units(merge_signs(units, opposite))
    assert merged.linear is None
    assert merged.units == units.units + 2
    np.testing.assert_allclose(merged(X), both, rtol=0, atol=ROUNDING * np.abs(both).max())


def test_without_a_linear_term_nothing_is_added():
    network = random_parts(0)[0].replace(linear=None)
    assert linear_as_units(network) is network
    assert linear_as_units(network.replace(linear=np.zeros(5))).units == network.units


def test_a_linear_function_alone_is_two_units():
    network = pn.Network(np.zeros((0, 5)), output_bias=-2.0, linear=np.arange(5.0))
    two = linear_as_units(network)
    assert two.units == 2
    np.testing.assert_allclose(two(X), network(X), rtol=0, atol=ROUNDING * 100)


@pytest.mark.parametrize("linear", [None, np.arange(5.0)])
def test_units_that_never_change_sides_are_linear_or_nothing(linear):
    network = random_parts(1)[0].replace(linear=linear)
    network = network.replace(biases=[0.3, 50.0, -50.0, -0.2])
    merged = merge_linear_units(network, X)
    assert merged.units == 2
    np.testing.assert_allclose(merged(X), network(X), rtol=0, atol=ROUNDING * 100)


def test_units_that_rarely_change_sides_are_merged_without_touching_the_other_samples():
    network = random_parts(2)[0]
    z = np.sort(X @ network.weights[0])
    biases = network.biases.copy()
    biases[0] = -(z[2] + z[3]) / 2  # off on three samples
    network = network.replace(biases=biases)
    assert merge_linear_units(network, X, 3).units == 4
    merged = merge_linear_units(network, X, 4)
    assert merged.units == 3
    on = X @ network.weights[0] + biases[0] > 0
    np.testing.assert_allclose(merged(X[on]), network(X[on]), rtol=0, atol=ROUNDING * 100)
    assert np.all(np.abs(merged(X[~on]) - network(X[~on])) > 1e-6)
