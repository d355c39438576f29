"""Units turned: the same function, and the same network to `parameter_error`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import provenet as pn
from helpers import ACTIVATIONS, networks, orders, permuted
from provenet.common.typing import Array
from provenet.networks.activations import Symmetry
from provenet.networks.canonical import (
    align_to,
    apply_symmetry,
    match_units,
    unit_distances,
    unit_symmetries,
)

POINTS = np.random.default_rng(0).uniform(-3, 3, (20, 3))
COS = pn.Activation(
    "cos", np.cos, lambda z: -np.sin(z), symmetry="even", kinked=False, period=2 * np.pi
)
ramps = hnp.arrays(float, 4, elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0]))
signs_of_units = hnp.arrays(float, 4, elements=st.sampled_from([-1.0, 1.0]))


def rewritten(network: pn.Network, signs: Array, steps: Array) -> pn.Network:
    """Turned in every unit that may be; a network without a linear term stays without one."""
    sigma, units = network.activation, network.units
    free = sigma.symmetry in (Symmetry.ODD, Symmetry.EVEN) or (
        sigma.symmetry is Symmetry.MIRROR and network.linear is not None
    )
    return apply_symmetry(network, signs[:units] if free else np.ones(units), steps[:units])


def assert_same_function(first: pn.Network, second: pn.Network) -> None:
    X = POINTS[:, : second.features]
    # Rounding: outputs of these small networks are below 1e4.
    np.testing.assert_allclose(first(X), second(X), rtol=1e-12, atol=1e-10)


@given(networks(ACTIVATIONS), signs_of_units, ramps)
def test_a_turned_network_is_the_same_function(
    network: pn.Network, signs: Array, steps: Array
) -> None:
    for net in (network, network.replace(activation=COS)):
        other = rewritten(net, signs, steps)
        assert (other.linear is None) == (net.linear is None)
        assert_same_function(other, net)


@given(networks(ACTIVATIONS), signs_of_units, ramps, orders)
def test_turned_and_permuted_networks_are_at_no_distance(
    network: pn.Network, signs: Array, steps: Array, order: list[int]
) -> None:
    for net in (network, network.replace(activation=COS)):
        other = permuted(rewritten(net, signs, steps), order)
        # Rounding of parameters below 100, and of periods.
        assert pn.parameter_error(other, net) < 1e-10
        assert pn.parameter_error(net, other) < 1e-10


@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.3)", "gelu", "softplus"])
def test_mirrored_units_need_a_linear_term(activation: str) -> None:
    """Units with signs of their own beside it are another answer: without one, signs are told."""
    net = pn.random_network(3, 4, activation=activation, rng=0)
    other = apply_symmetry(net, -np.ones(3), np.zeros(3))
    assert other.linear is not None
    X = np.random.default_rng(1).standard_normal((50, 4))
    np.testing.assert_allclose(other(X), net(X), rtol=0, atol=1e-13)
    assert pn.parameter_error(other, net) > 1 and pn.parameter_error(net, other) > 1
    both = net.replace(linear=np.ones(4))
    assert pn.parameter_error(apply_symmetry(both, -np.ones(3), np.zeros(3)), both) < 1e-13


def test_some_units_have_no_other_form() -> None:
    net = pn.random_network(3, 4, activation="elu", rng=0)
    with pytest.raises(ValueError, match="elu have no symmetry"):
        apply_symmetry(net, -np.ones(3), np.zeros(3))


@pytest.mark.parametrize(
    ("activation", "linear", "number"),
    [
        ("tanh", False, 2),
        ("sin", False, 6),
        ("relu", False, 1),
        ("silu", True, 2),
        ("elu", True, 1),
    ],
)
def test_in_how_many_ways_a_unit_may_be_turned(activation: str, linear: bool, number: int) -> None:
    ways = unit_symmetries(pn.Network([[1.0]], activation=activation).activation, linear)
    assert len(set(ways)) == number and ways[0] == (1.0, 0)


# ---------------------------------------------------------------- borders of conventions


NEAR = 1e-7
"""On either side of a border: the distance is of this size, not of that of the parameters."""


def beside(activation: str | pn.Activation, weights: Array, bias: float) -> pn.Network:
    return pn.Network([weights, [2.0, 1.0]], [bias, 0.3], [[1.5, -0.7]], [0.25], activation)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "sin", "abs", COS])
def test_a_first_weight_near_zero(activation: str | pn.Activation) -> None:
    """Just above zero and just below it: canonical forms are far apart, the networks are not."""
    first, second = (beside(activation, np.array([s * NEAR, 1.0]), 0.4) for s in (1, -1))
    gap = np.abs(first.canonical().weights - second.canonical().weights).max()
    assert gap > 1
    # Two weights 2 NEAR apart; a sigmoid's output bias moves back by what its unit took.
    assert pn.parameter_error(first, second) == pytest.approx(2 * NEAR, rel=1e-6)


@pytest.mark.parametrize(("activation", "border"), [("sin", np.pi / 2), (COS, np.pi)])
def test_a_bias_at_the_end_of_its_period(activation: str | pn.Activation, border: float) -> None:
    first, second = (
        beside(activation, np.array([1.0, 1.0]), border + s * NEAR) for s in (1.0, -1.0)
    )
    both = beside(activation, np.array([-NEAR, 1.0]), border + NEAR)
    assert np.abs(first.canonical().biases - second.canonical().biases).max() > 2
    assert pn.parameter_error(first, second) == pytest.approx(2 * NEAR, rel=1e-6)
    other = beside(activation, np.array([NEAR, 1.0]), border - NEAR)
    assert pn.parameter_error(both, other) == pytest.approx(4 * NEAR, rel=1e-6)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "sin", "gelu"])
def test_units_are_turned_like_their_partners(activation: str) -> None:
    truth = pn.random_network(5, 3, outputs=2, activation=activation, rng=0)
    truth = truth.replace(linear=np.ones((2, 3)), output_bias=[0.1, 0.2])
    rng = np.random.default_rng(1)
    moved = truth.replace(weights=truth.weights + 1e-3 * rng.standard_normal((5, 3)))
    other = rewritten(moved, np.array([1.0, -1, -1, 1, -1]), np.array([0.0, 1, 0, -1, 2]))
    near = align_to(other, truth)
    assert_same_function(near, moved)
    rows, columns = match_units(other, truth)
    plain = truth.canonical()
    for name in ("weights", "biases"):
        off = getattr(near, name)[rows] - getattr(plain, name)[columns]
        assert np.abs(off).max() < 5e-3
    np.testing.assert_allclose(near.linear, plain.linear, rtol=0, atol=5e-3)
    distance = unit_distances(other.canonical(), plain)[rows, columns]
    # The turned form is what the distance is measured at.
    np.testing.assert_allclose(
        distance,
        np.linalg.norm(near.weights[rows] - plain.weights[columns], axis=1)
        + np.linalg.norm((near.output_weights[:, rows] - plain.output_weights[:, columns]), axis=0)
        + np.abs(near.biases[rows] - plain.biases[columns]),
        rtol=0,
        atol=1e-14,
    )


def test_an_output_bias_that_is_wrong_is_seen_beside_sigmoids() -> None:
    net = pn.random_network(3, 4, activation="sigmoid", rng=0)
    other = apply_symmetry(net, np.array([-1.0, 1.0, -1.0]), np.zeros(3))
    assert abs(other.output_bias) > 0.1
    wrong = other.replace(output_bias=other.output_bias + 0.01)
    assert pn.parameter_error(wrong, net) == pytest.approx(0.01, rel=1e-9)
