"""Deep networks built to fool the certificate: once wrong successes, or crashes."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.certify.deep import crossings
from provenet.certify.deep_signs import reversals
from provenet.fitting.search.moves import random_units

A_LOOK = 0.002
"""Seconds that pass with every look at the clock: the same on any machine."""


def test_waves_of_another_length_pass_through_a_lattice(clock):
    """The first layer's weights may differ by `2 pi / h` where inputs are multiples of h."""
    clock.tick = A_LOOK
    truth = pn.random_network((2, 2), 3, activation="sin", rng=2)
    longer = truth.weights[0] + 2 * np.pi * np.array([1.0, 0, 0])
    alias = truth.replace(weights=[longer, *truth.weights[1:]])
    X = 1.0 * np.random.default_rng(2).integers(-4, 5, (600, 3))
    np.testing.assert_allclose(alias(X), truth(X), atol=1e-12)
    result = pn.recover(X, alias(X), layers=2, activation="sin", rng=0, budget=2)
    assert result.status == "partial" and "equal steps" in result.message


def reversible(activation, rng):
    """All units of the last layer may be reversed: `sum_i a_i w_i = 0`. And the reversed one."""
    net = pn.random_network((3, 3), 4, activation=activation, rng=rng)
    W, a = net.weights[1].copy(), net.weights[2]
    W[2] = -(a[0, :2] @ W[:2]) / a[0, 2]
    net = net.replace(weights=[net.weights[0], W, a])
    b = net.biases
    other = net.replace(weights=[net.weights[0], -W, a], biases=[b[0], -b[1], b[2] + a @ b[1]])
    return net, other


def test_units_that_may_be_reversed_are_told(clock):
    clock.tick = A_LOOK
    rng = np.random.default_rng(2)
    truth, other = reversible("gelu", rng)
    X = rng.standard_normal((1000, 4))
    np.testing.assert_allclose(other(X), truth(X), atol=1e-12)
    result = pn.recover(X, truth(X), layers=2, activation="gelu", rng=0, budget=12)
    assert result.status == "partial"
    assert [check.name for check in result.checks if not check.holds] == ["signs are determined"]
    assert min(pn.parameter_error(result.network, net) for net in (truth, other)) < 1e-9
    assert len(result.ambiguities) == 1
    assert "Units [0, 1, 2] of layer 2" in result.ambiguities[0]


@pytest.mark.parametrize("activation", ["relu", "silu"])
@pytest.mark.parametrize("noise", [0.0, 0.001])
def test_reversals_are_those_that_explain_the_samples(activation, noise):
    rng = np.random.default_rng(0)
    net, _ = reversible(activation, rng)
    X = rng.standard_normal((2000, 4))

    def told(network):
        y = network(X) + noise * rng.standard_normal(len(X))
        return reversals(network, pn.ArraySource(X, y), 1e-9, np.inf)

    assert len(told(net)) == 1 and "[0, 1, 2] of layer 2" in told(net)[0]
    W = net.weights[1].copy()
    W[2] *= 1.05  # what is left linear is small, and seen
    assert told(net.replace(weights=[net.weights[0], W, net.weights[2]])) == ()
    assert told(pn.random_network((3, 3), 4, activation="tanh", rng=0)) == ()


def test_units_above_one_that_is_off_everywhere_have_finite_weights():
    """A spread of zero was divided by: weights of 1e300, whose squares overflowed."""
    inputs = np.random.default_rng(0).standard_normal((50, 3))
    inputs[:, 1] = 0.0
    assert np.abs(random_units(inputs, 4, np.random.default_rng(1))).max() < 1e3
    assert np.abs(random_units(0 * inputs, 4, np.random.default_rng(1))).max() < 1e3


def test_a_kink_that_is_seen_within_one_piece_may_be_of_another_layer():
    """Where no sample shows a kink bend at another, the unit may be of another layer."""
    rng = np.random.default_rng(0)
    upper = np.array([[1.0, -1.0], [-1.0, 1.0]])
    net = pn.DeepNetwork([np.eye(2, 3), upper, [[1.0, 0.7]]], [np.zeros(2), [0.5, 0.5], [0.0]])
    X = rng.standard_normal((2000, 3))
    assert min(counts.min() for counts in crossings(net, X)) > 20
    h = net.values(X, 0)
    within = X[(h[:, 1] == 0) | (h[:, 0] < 0.5 + h[:, 1])]  # unit 1 switches where one is off
    lower, above = crossings(net, within)
    assert lower.min() > 20 and above[0] > 20 and above[1] == 0
