"""Canonical form and the distance of networks: disguises cost nothing, known changes are found."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import provenet as pn
from helpers import ACTIVATIONS, deep_networks, networks, orders, permuted
from provenet.common.typing import Array
from provenet.networks.activations import Symmetry
from provenet.networks.canonical import (
    align_to,
    apply_symmetry,
    match_units,
    unit_distances,
)

POINTS = np.random.default_rng(0).uniform(-2, 2, (20, 3))
ROUNDING = 1e-12  # some thousand roundings, relative to the terms that are added
COS = pn.Activation(
    "cos", np.cos, lambda z: -np.sin(z), symmetry="even", kinked=False, period=2 * np.pi
)
LIFTED = pn.Activation(
    "lifted", lambda z: 1 + np.sin(z), np.cos, symmetry="odd", kinked=False, period=2 * np.pi
)


def size_of(network: pn.Network, X: Array) -> Array:
    """As large as numbers may be on their way to the outputs, for the rows of X."""
    h, sigma = np.abs(X), network.activation
    for W, b in network.affine_maps[:-1]:
        z = h @ np.abs(W).T + np.abs(b)
        h = np.maximum(np.abs(sigma(z)), np.abs(sigma(-z))) + (sigma.degree is None) * z
    W, b = network.affine_maps[-1]
    linear = 0.0 if network.linear is None else np.abs(network.linear).sum() * 2
    return 1 + linear + (h @ np.abs(W).T + np.abs(b)).max(axis=1)


def assert_same_function(first: pn.Network, second: pn.Network) -> None:
    if first.activation.name == "step":  # rounding may move a point across the jump
        return
    X = POINTS[:, : second.features]
    error = np.abs(first(X) - second(X)).reshape(len(X), -1).max(axis=1)
    assert (error <= 10 * ROUNDING * size_of(second, X)).all()


def assert_same_parameters(first: pn.Network, second: pn.Network) -> None:
    assert first.widths == second.widths
    for one, other in zip(first.affine_maps, second.affine_maps, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=ROUNDING, atol=ROUNDING)


def disguised(network: pn.DeepNetwork, seed: int) -> pn.DeepNetwork:
    """The same function: units exchanged, scaled and reversed as far as their activation allows.

    Written out with matrices, without provenet's symmetries. Odd units reversed leave 2 sigma(0).
    """
    rng, sigma = np.random.default_rng(seed), network.activation
    weights, biases = list(network.weights), list(network.biases)
    for i, width in enumerate(network.widths):
        P = np.eye(width)[rng.permutation(width)]
        scales = np.ones(width) if sigma.degree is None else rng.uniform(0.3, 3, width)
        free = sigma.symmetry in (Symmetry.ODD, Symmetry.EVEN)
        signs = rng.choice([-1.0, 1.0], width) if free else np.ones(width)
        back = scales ** -(sigma.degree or 0)
        flips = signs if sigma.symmetry is Symmetry.ODD else np.ones(width)
        A, zero = weights[i + 1], float(sigma(np.zeros(())))
        biases[i + 1] = biases[i + 1] + zero * A @ (1 - flips) if zero else biases[i + 1]
        weights[i + 1] = A * (back * flips) @ P.T
        weights[i] = P @ (weights[i] * (scales * signs)[:, None])
        biases[i] = P @ (biases[i] * scales * signs)
    return network.replace(weights=weights, biases=biases)


def drawn(activation: str, seed: int = 0, widths: Any = (4, 3, 5), **options: Any) -> Any:
    net = pn.random_network(widths, 3, activation=activation, rng=seed, **options)
    # Of exp of exp of exp, some numbers would be infinite.
    return net.replace(weights=[W / 8 for W in net.weights]) if activation == "exp" else net


@given(st.one_of(networks(ACTIVATIONS), deep_networks(ACTIVATIONS)))
def test_canonical_is_the_same_function_in_normal_form(network: pn.Network) -> None:
    canonical = network.canonical()
    assert canonical.outputs == network.outputs and type(canonical) is type(network)
    assert_same_function(network.normalised(), network)
    assert_same_function(canonical, network)
    assert pn.parameter_error(network, network) == 0.0
    for number in range(canonical.layers):
        layer = canonical.layer(number)
        norms = np.linalg.norm(layer.weights, axis=1)
        assert (norms > 0).all()
        if network.activation.degree is not None:
            np.testing.assert_allclose(norms, 1.0, rtol=1e-14)
        if network.activation.symmetry in (Symmetry.ODD, Symmetry.EVEN):
            assert all(w[np.argmax(w != 0)] > 0 for w in layer.weights)
        if network.activation.period is not None:
            assert (layer.biases >= -np.pi / 2).all() and (layer.biases < np.pi / 2).all()
        sizes = np.linalg.norm(np.atleast_2d(layer.output_weights), axis=0)
        assert (np.diff(sizes) <= 1e-8).all()  # the order is by sizes rounded to nine digits


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("widths", [(5,), (4, 3, 5)])
def test_order_scale_and_sign_of_units_do_not_count(activation: str, widths: Any) -> None:
    net = drawn(activation, 1, widths)
    other = disguised(net, 1)
    assert_same_function(other, net)
    assert_same_parameters(other.canonical(), net.canonical())
    assert_same_parameters(net.canonical().canonical(), net.canonical())
    # Rounding of parameters of sizes up to some hundred (norms to the power 3, and of that again).
    scale = max(np.abs(W).max() for W in net.canonical().weights)
    assert pn.parameter_error(other, net) <= ROUNDING * (1 + scale)


@pytest.mark.parametrize("activation", ["relu", "gelu", "softplus"])
def test_signs_of_mirrored_units_are_no_convention(activation: str) -> None:
    net = pn.Network([[-0.6, 0.8]], [0.5], [3.0], 0.25, activation)
    for network in (net, net.replace(linear=[1.0, 2.0])):
        assert_same_parameters(network.canonical(), network)


def test_units_without_weights_move_on() -> None:
    """The first unit of the first layer is 2 always, so the first of the second is 6."""
    net = pn.DeepNetwork(
        [[[0.0, 0.0], [3.0, 4.0]], [[3.0, 0.0], [1.0, 2.0]], [[1.0, 5.0]]],
        [[2.0, 1.0], [0.0, -1.0], [0.5]],
    )
    # The second layer's other unit: 1 * 2 - 1 + 2 * 5 h, of norm 10; it feeds 5.
    expected = pn.DeepNetwork([[[0.6, 0.8]], [[1.0]], [[50.0]]], [[0.2], [0.1], [6.5]])
    assert_same_parameters(net.canonical(), expected)
    constant = net.replace(weights=[np.zeros((2, 2)), *net.weights[1:]]).canonical()
    assert constant.widths == (0, 0) and np.ptp(constant(POINTS[:, :2])) == 0
    one = pn.Network(np.zeros((2, 3)), [1.0, -1.0], [2.0, 5.0], 1.0).canonical()
    assert one.units == 0 and one.output_bias == 3.0


# ---- Symmetries of units


@given(
    networks(ACTIVATIONS),
    hnp.arrays(float, 4, elements=st.sampled_from([-1.0, 1.0])),
    hnp.arrays(float, 4, elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0])),
    orders,
)
def test_symmetries_leave_the_function_and_cost_nothing(
    network: pn.Network, signs: Array, shifts: Array, order: list[int]
) -> None:
    for net in (network, network.replace(activation=COS)):
        sigma, units = net.activation, net.units
        free = sigma.symmetry in (Symmetry.ODD, Symmetry.EVEN)
        free |= sigma.symmetry is Symmetry.MIRROR and net.linear is not None
        own = signs[:units] if free else np.ones(units)
        other = apply_symmetry(net, own, shifts[:units])
        assert (other.linear is None) == (net.linear is None)
        assert_same_function(other, net)
        # Rounding of parameters below 100, and of periods.
        assert pn.parameter_error(permuted(other, order), net) < 1e-10
        assert pn.parameter_error(net, permuted(other, order)) < 1e-10


@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.3)", "gelu"])
def test_mirrored_units_need_a_linear_term(activation: str) -> None:
    """Units with signs of their own beside it are another answer: without one, signs are known."""
    net = pn.random_network(3, 3, activation=activation, rng=0)
    other = apply_symmetry(net, -np.ones(3), np.zeros(3))
    assert other.linear is not None
    assert_same_function(other, net)
    assert pn.parameter_error(other, net) > 1 and pn.parameter_error(net, other) > 1
    both = net.replace(linear=np.ones(3))
    assert pn.parameter_error(apply_symmetry(both, -np.ones(3), np.zeros(3)), both) < 1e-13
    with pytest.raises(ValueError, match="elu have no symmetry"):
        apply_symmetry(net.replace(activation="elu"), -np.ones(3), np.zeros(3))


NEAR = 1e-7
"""On either side of a border: the distance is of this size, not of that of the parameters."""


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "sin", "abs", COS, LIFTED])
def test_a_first_weight_near_zero(activation: str | pn.Activation, layer: int) -> None:
    """Just above zero and just below it: canonical forms are far apart, the networks are not.

    One unit of `LIFTED` that is reversed moves the biases above by twice its weights.
    """

    def beside(small: float) -> pn.DeepNetwork:
        if layer == 0:
            weights = [[[small, 1.0], [0.6, -0.8]], [[9.0, 1.0], [-7.0, 2.0]], [[1.5, -0.7]]]
        else:
            weights = [[[1.0, 0.5], [0.5, -2.0]], [[small, 1.0], [2.0, 1.0]], [[1.5, -0.7]]]
        return pn.DeepNetwork(weights, [[0.1, 0.2], [0.4, 0.3], [0.25]], activation)

    first, second = beside(NEAR), beside(-NEAR)
    norms = np.linalg.norm(first.weights[0], axis=1) if first.activation.degree else np.ones(2)
    if layer == 0:
        forms = first.canonical(), second.canonical()
        assert np.abs(forms[0].weights[0] - forms[1].weights[0]).max() > 1
    expected = 2 * NEAR * (1 if layer == 0 else norms[0] / norms[1])  # of a row of norm 1
    assert pn.parameter_error(first, second) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("activation", "border"), [("sin", np.pi / 2), (COS, np.pi)])
def test_a_bias_at_the_end_of_its_period(activation: str | pn.Activation, border: float) -> None:
    def beside(weight: float, bias: float) -> pn.Network:
        W = [[weight, 1.0], [2.0, 1.0]]
        return pn.Network(W, [bias, 0.3], [[1.5, -0.7]], [0.25], activation)

    first, second = beside(1.0, border + NEAR), beside(1.0, border - NEAR)
    assert np.abs(first.canonical().biases - second.canonical().biases).max() > 2
    assert pn.parameter_error(first, second) == pytest.approx(2 * NEAR, rel=1e-6)
    corners = beside(-NEAR, border + NEAR), beside(NEAR, border - NEAR)
    assert pn.parameter_error(*corners) == pytest.approx(4 * NEAR, rel=1e-6)


# ---- Matching and distance


def test_the_error_of_a_known_change_of_one_layer() -> None:
    """One unit rotated by 0.1, its bias moved by 0.02 and its output weight by 0.003."""
    net = pn.Network(np.eye(3), [0.1, 0.2, 0.3], [1.0, 2.0, -3.0], 0.5)
    weights = np.eye(3)
    weights[1] = [0.0, np.cos(0.1), np.sin(0.1)]
    changed = net.replace(
        weights=weights, biases=[0.1, 0.22, 0.3], output_weights=[1.0, 2.003, -3.0]
    )
    expected = 2 * np.sin(0.05) + 0.02 + 0.003
    # The largest unit counts, not the sum; and the output bias and the linear term count too.
    for other in (changed, changed.replace(biases=[0.11, 0.22, 0.3])):
        assert pn.parameter_error(other, net) == pytest.approx(expected, rel=1e-12)
        assert pn.parameter_error(net, other) == pytest.approx(expected, rel=1e-12)
    assert pn.parameter_error(net.replace(output_bias=1.5), net) == 1.0
    assert pn.parameter_error(net.replace(linear=[0.0, 3.0, 4.0]), pn.DeepNetwork.of(net)) == 5.0
    assert pn.parameter_error(net.replace(linear=np.zeros(3)), net) == 0.0
    slope = net.replace(activation="leaky_relu(0.1)")
    assert pn.parameter_error(slope, net) == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "gelu", "sin"])
@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_the_error_of_a_known_change_in_any_layer(activation: str, layer: int) -> None:
    """Found again behind a disguise. Signs cost nothing: norms of differences do not know them.

    In the canonical form, because reversing a sigmoid moves the biases above it by its weights.
    """
    net = drawn(activation, outputs=2).canonical()
    weights, biases = [np.array(W) for W in net.weights], [np.array(b) for b in net.biases]
    weights[layer][0] += [3e-4, 4e-4, *np.zeros(weights[layer].shape[1] - 2)]
    biases[layer][1] += 2e-4
    error = pn.parameter_error(disguised(net.replace(weights=weights, biases=biases), layer), net)
    # |w-w'| of unit 0 is 5e-4. An output weight counts for its unit: the larger one is 4e-4.
    assert error == pytest.approx(4e-4 if layer == 3 else 5e-4, rel=1e-8)


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_units_of_nearly_the_same_size_are_found_in_another_order(activation: str) -> None:
    """What the first layer feeds is all of one size, up to what orders it one way or the other."""
    net = pn.random_network((5, 4), 3, activation=activation, rng=0)
    columns = net.weights[1] / np.linalg.norm(net.weights[1], axis=0)
    first, second = (
        net.replace(weights=[net.weights[0], columns * (1 + 1e-6 * sizes), net.weights[2]])
        for sizes in (np.arange(5.0), np.array([3.0, 0.0, 4.0, 1.0, 2.0]))
    )
    orders_ = [network.canonical().weights[0] for network in (first, second)]
    assert np.abs(orders_[0] - orders_[1]).max() > 0.1
    expected = np.linalg.norm(first.weights[1] - second.weights[1], axis=1).max()
    assert pn.parameter_error(first, second) == pytest.approx(expected, rel=1e-6)


def test_networks_of_different_kinds_are_infinitely_far() -> None:
    for units in (4, (4, 3)):
        net = pn.random_network(units, 3, rng=0)
        sizes = [((4, 4), 3), ((3, 4), 3), ((4, 3, 3), 3), (5, 3), (7, 3), (units, 2)]
        others = [pn.random_network(own, features, rng=0) for own, features in sizes]
        others += [pn.random_network(units, 3, outputs=2, rng=0), net.replace(activation="abs")]
        for other in (*others, net.replace(link="logit")):
            assert pn.parameter_error(other, net) == pn.parameter_error(net, other) == np.inf


@pytest.mark.parametrize("seed", range(3))
def test_the_matching_is_the_best_of_all(seed: int) -> None:
    first, second = (pn.random_network(4, 2, rng=10 * seed + i).canonical() for i in (1, 2))
    distance = unit_distances(first, second).min(axis=0)
    for i, j in np.ndindex(4, 4):
        explicit = (
            np.linalg.norm(first.weights[i] - second.weights[j])
            + abs(first.output_weights[i] - second.output_weights[j])
            + abs(first.biases[i] - second.biases[j])
        )
        assert distance[i, j] == pytest.approx(explicit, rel=1e-12)
    rows, columns = match_units(first, second)
    best = min(sum(distance[i, p[i]] for i in range(4)) for p in permutations(range(4)))
    assert distance[rows, columns].sum() == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "sin", "gelu"])
def test_units_are_brought_into_the_form_of_their_partners(activation: str) -> None:
    truth = pn.random_network(5, 3, outputs=2, activation=activation, rng=0)
    truth = truth.replace(linear=np.ones((2, 3)), output_bias=[0.1, 0.2])
    rng = np.random.default_rng(1)
    moved = truth.replace(weights=truth.weights + 1e-3 * rng.standard_normal((5, 3)))
    signs, shifts = np.array([1.0, -1, -1, 1, -1]), np.array([0.0, 1, 0, -1, 2])
    other = apply_symmetry(moved, signs, shifts)
    near, plain = align_to(other, truth), truth.canonical()
    assert_same_function(near, moved)
    rows, columns = match_units(other, truth)
    assert np.abs(near.weights[rows] - plain.weights[columns]).max() < 5e-3
    assert np.abs(near.linear - plain.linear).max() < 5e-3
    np.testing.assert_allclose(  # the distance is measured at the aligned form
        unit_distances(other.canonical(), plain).min(axis=0)[rows, columns],
        np.linalg.norm(near.weights[rows] - plain.weights[columns], axis=1)
        + np.linalg.norm(near.output_weights[:, rows] - plain.output_weights[:, columns], axis=0)
        + np.abs(near.biases[rows] - plain.biases[columns]),
        rtol=0,
        atol=1e-14,
    )
