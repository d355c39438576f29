"""Piecewise linear networks: other units for the same function; derivatives and kinks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from deep_searches import deep
from helpers import deep_networks, networks
from provenet.networks.network import Network
from provenet.networks.piecewise import (
    as_absolute,
    as_rectified,
    gradient,
    in_relu_units,
    inputs_of_units,
    kinks_along,
    linear_as_units,
    merge_linear_units,
    merge_signs,
    row_gradients,
    slopes,
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


@given(st.one_of(networks(PIECEWISE), deep_networks(PIECEWISE)))
def test_relu_units_alone_are_the_same_function(network):
    alone = in_relu_units(network)
    assert alone.linear is None and alone.activation.name == "relu"
    assert_same_function(alone, network)
    assert in_relu_units(network.replace(activation="tanh")) is None


@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.3)", "gelu", "softplus"])
def test_every_output_with_a_linear_term_takes_two_units(activation):
    network = pn.random_network(4, 5, outputs=3, activation=activation, rng=0)
    linear = np.random.default_rng(1).standard_normal((3, 5))
    linear[1] = 0.0
    network = network.replace(linear=linear)
    assert linear_as_units(network).units == 4 + 2 * 2
    assert_same_function(linear_as_units(network), network)


@pytest.mark.parametrize("seed", range(5))
def test_units_of_both_signs_beside_a_linear_part_are_two_units_more_than_one_sign(seed):
    units, opposite = random_parts(seed)
    both = units(X) + np.maximum(-X @ units.weights.T - units.biases, 0) @ opposite
    merged = linear_as_units(merge_signs(units, opposite))
    assert merged.linear is None
    assert merged.units == units.units + 2
    np.testing.assert_allclose(merged(X), both, rtol=0, atol=ROUNDING * np.abs(both).max())


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


# ---- Linear regions

NETS: dict[str, Network] = {
    "one layer": pn.random_network(5, 4, rng=0),
    "a linear term": pn.random_network(5, 4, rng=0).replace(linear=np.arange(4.0)),
    "two layers": deep(4, 6, 5, 1),
    "four layers, outputs": deep(4, 6, 5, 7, 3, 2),
}
STEP = 1e-7
FEW = np.random.default_rng(1).standard_normal((6, 4))


@pytest.mark.parametrize("name", NETS)
def test_gradients_are_differences(name: str) -> None:
    net = NETS[name]
    for x in FEW:
        moved = net(x + STEP * np.eye(4)).reshape(4, -1) - net(x[None]).reshape(1, -1)
        for output in range(moved.shape[1]):
            own = gradient(net, x, output)
            np.testing.assert_allclose(own, moved[:, output] / STEP, atol=1e-6)  # eps / STEP


@pytest.mark.parametrize("name", NETS)
def test_row_gradients_are_differences_of_what_goes_into_units(name: str) -> None:
    net = NETS[name]
    z = inputs_of_units(net, FEW)
    for layer, width in enumerate(net.widths):
        for unit in range(width):
            rows = row_gradients(net, z, layer, unit)
            for x, own, at in zip(FEW, rows, z[layer][:, unit], strict=True):
                moved = inputs_of_units(net, x + STEP * np.eye(4))[layer][:, unit]
                np.testing.assert_allclose(own, (moved - at) / STEP, atol=1e-6)


def test_slopes_say_what_a_unit_is_worth() -> None:
    """A bias of a unit that is on moves the outputs by the slope."""
    net = deep(4, 6, 5, 7, 3, 2)
    z = inputs_of_units(net, FEW)
    for layer, by_units in enumerate(slopes(net, z)):
        for unit in range(net.widths[layer]):
            biases = [b.copy() for b in net.biases]
            biases[layer][unit] += STEP
            moved = (net.replace(biases=biases)(FEW) - net(FEW)) / STEP
            on = z[layer][:, unit, None] > 0
            np.testing.assert_allclose(moved, by_units[:, :, unit] * on, atol=1e-6)


@pytest.mark.parametrize("name", NETS)
def test_between_kinks_every_unit_stays_as_it_is(name: str) -> None:
    net = NETS[name]
    rng = np.random.default_rng(0)
    for _ in range(5):
        origin, direction = rng.standard_normal((2, 4))
        kinks = kinks_along(net, origin, direction, -5.0, 5.0)
        dense = np.linspace(-5, 5, 20_001)
        z = inputs_of_units(net, origin + dense[:, None] * direction)
        patterns = np.hstack(z) > 0
        changes = np.flatnonzero((patterns[1:] != patterns[:-1]).any(axis=1))
        between = [np.searchsorted(dense, t) - 1 for t in kinks.places]
        assert set(changes) <= set(between)  # no switch is missed
        first = np.cumsum([0, *net.widths])
        at = inputs_of_units(net, origin + kinks.places[:, None] * direction)
        own = np.hstack(at)[np.arange(len(kinks)), first[kinks.layers] + kinks.units]
        assert len(kinks) and np.abs(own).max() < 1e-12  # each is where its unit is zero
