"""The same function in other units; Claim D.14: with fewer of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import networks
from provenet.networks.activations import get_activation
from provenet.networks.piecewise import (
    as_absolute,
    as_rectified,
    in_relu_units,
    linear_as_units,
    merge_linear_units,
    merge_signs,
)

ROUNDING = 1e-13
X = 2 * np.random.default_rng(0).standard_normal((500, 5))


def random_parts(seed):
    """Units with a linear term, and output weights of the other sign."""
    rng = np.random.default_rng(seed)
    network = pn.random_network(4, 5, bias_scale=2.0, rng=rng)
    return network.replace(linear=rng.standard_normal(5), output_bias=0.7), rng.standard_normal(4)


def assert_same_function(found, network):
    inputs = X[:50, : network.features]
    expected = network(inputs)
    scale = 1 + np.abs(expected).max()
    np.testing.assert_allclose(found(inputs), expected, rtol=0, atol=ROUNDING * 10 * scale)


PIECEWISE = ("relu", "leaky_relu(0.3)", "abs")


@given(networks(PIECEWISE))
def test_absolute_values_and_a_linear_part_are_the_same_function(network):
    absolute = as_absolute(network)
    assert absolute.activation.name == "abs" and absolute.linear is not None
    assert_same_function(absolute, network)


@given(networks(PIECEWISE), st.randoms(use_true_random=False))
def test_units_of_any_signs_and_a_linear_part_are_the_same_function(network, random):
    """Absolute values do not know a unit's sign: what another sign changes stays linear."""
    signs = np.array([random.choice((-1.0, 1.0)) for _ in range(network.units)])
    again = as_rectified(as_absolute(network), signs, network.activation)
    np.testing.assert_array_equal(again.weights, network.weights * signs[:, None])
    assert_same_function(again, network)


@given(networks(PIECEWISE))
def test_their_own_signs_give_the_units_back(network):
    again = as_rectified(as_absolute(network), activation=network.activation)
    np.testing.assert_allclose(again.output_weights, network.output_weights, rtol=1e-14)
    own = 0.0 if network.linear is None else network.linear
    scale = 1 + np.abs(network.output_weights) @ np.abs(network.weights)
    assert np.all(np.abs(again.linear - own) <= ROUNDING * scale)


@given(networks(PIECEWISE))
def test_relu_units_alone_are_the_same_function(network):
    alone = in_relu_units(network)
    assert alone.linear is None and alone.activation.name == "relu"
    assert_same_function(alone, network)


def test_units_that_are_not_piecewise_linear_have_no_relu_units():
    assert in_relu_units(pn.random_network(3, 4, activation="sigmoid", rng=0)) is None


@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.3)", "gelu", "softplus"])
def test_every_output_with_a_linear_term_takes_two_units(activation):
    network = pn.random_network(4, 5, outputs=3, activation=activation, rng=0)
    linear = np.random.default_rng(1).standard_normal((3, 5))
    linear[1] = 0.0
    network = network.replace(linear=linear)
    assert linear_as_units(network).units == 4 + 2 * 2
    assert_same_function(linear_as_units(network), network)


@pytest.mark.parametrize("activation", ["abs", "tanh", "elu"])
def test_units_that_are_not_mirrored_cannot_stand_for_a_linear_term(activation):
    network = pn.Network(np.eye(3), linear=np.ones(3), activation=get_activation(activation))
    assert linear_as_units(network) is network


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
