"""Deep networks: values, canonical form, and the distance between two of them."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import provenet as pn
from helpers import ACTIVATIONS, deep_networks, is_a_sentence
from provenet.common.typing import Array
from provenet.networks.activations import Symmetry
from provenet.networks.piecewise import in_relu_units

POINTS = np.random.default_rng(0).uniform(-2, 2, (20, 3))
ROUNDING = 1e-12
"""Some thousand roundings, relatively to the terms that are added."""


def size_of(network: pn.DeepNetwork, X: Array) -> Array:
    """As large as numbers may be on their way to the outputs, for the rows of X."""
    h, sigma = np.abs(X), network.activation
    for W, b in network.affine_maps[:-1]:
        z = h @ np.abs(W).T + np.abs(b)
        h = np.maximum(np.abs(sigma(z)), np.abs(sigma(-z))) + (sigma.degree is None) * z
    W, b = network.affine_maps[-1]
    return 1 + (h @ np.abs(W).T + np.abs(b)).max(axis=1)


def assert_same_function(first: pn.DeepNetwork, second: pn.DeepNetwork) -> None:
    X = POINTS[:, : second.features]
    off = np.abs(first(X) - second(X)).reshape(len(X), -1).max(axis=1)
    assert (off <= 10 * ROUNDING * size_of(second, X)).all()


def assert_same_parameters(first: pn.DeepNetwork, second: pn.DeepNetwork) -> None:
    assert first.widths == second.widths
    for name in ("weights", "biases"):
        for found, truth in zip(getattr(first, name), getattr(second, name), strict=True):
            np.testing.assert_allclose(found, truth, rtol=ROUNDING, atol=ROUNDING, err_msg=name)


def disguised(network: pn.DeepNetwork, seed: int) -> pn.DeepNetwork:
    """The same function: units exchanged, scaled and reversed as far as their activation allows.

    Written out with matrices, without provenet's own turns. Odd units reversed leave `2 sigma(0)`.
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


def random_deep(activation: str, seed: int = 0, **options: Any) -> pn.DeepNetwork:
    net = pn.random_network((4, 3, 5), 3, activation=activation, rng=seed, **options)
    # Of exp of exp of exp, some numbers would be infinite.
    return net.replace(weights=[W / 8 for W in net.weights]) if activation == "exp" else net


# ---------------------------------------------------------------- values


@given(deep_networks(("relu", "abs", "sigmoid", "tanh")))
def test_values_are_the_formula(network: pn.DeepNetwork) -> None:
    X = POINTS[:, : network.features]
    for x, y in zip(X, network(X), strict=True):
        h = x
        for W, b in zip(network.weights[:-1], network.biases[:-1], strict=True):
            h = network.activation(np.array([w @ h for w in W]) + b)
        expected = network.weights[-1] @ h + network.biases[-1]
        assert np.shape(y) == (() if network.outputs is None else (network.outputs,))
        # Rounding of sums of numbers below 1e3.
        np.testing.assert_allclose(np.atleast_1d(y), expected, rtol=0, atol=1e-11)


def test_one_hidden_layer_is_a_network() -> None:
    for outputs in (None, 1, 2):
        net = pn.random_network(4, 3, outputs=outputs, rng=0).replace(output_bias=0.25)
        deep = pn.DeepNetwork.of(net)
        np.testing.assert_allclose(deep(POINTS), net(POINTS), rtol=0, atol=1e-14)
        assert (deep.units, deep.widths, deep.layers) == (4, (4,), 1)
        assert (net.units, net.widths, net.layers) == (4, (4,), 1)
        assert deep.free_parameters == net.free_parameters
        back = deep.as_one_layer()
        np.testing.assert_array_equal(back.output_weights, net.output_weights)
        assert back.outputs == net.outputs and np.all(back.output_bias == 0.25)
        assert net.layer(0) is net


def test_what_is_no_network_of_the_other_kind() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.DeepNetwork.of(pn.Network(np.eye(2), linear=[1.0, 2.0]))
    is_a_sentence(error, "linear term", "linear=None")
    with pytest.raises(pn.InvalidInput) as error:
        random_deep("relu").as_one_layer()
    is_a_sentence(error, "3 hidden layers", "layer(0)")


def test_many_rows_are_evaluated_in_blocks_of_any_type() -> None:
    net = random_deep("relu", outputs=2)
    X = np.random.default_rng(1).integers(-3, 4, (20_001, 3))
    whole = net(X)
    assert whole.shape == (20_001, 2) and net(X[:0]).shape == (0, 2)
    np.testing.assert_allclose(whole[8190:8195], net(X[8190:8195].tolist()), rtol=0, atol=1e-13)


def test_plain_labels_and_rows_of_one() -> None:
    net = random_deep("tanh")
    rows = net.replace(outputs=1)
    assert net(POINTS).shape == (20,) and rows(POINTS).shape == (20, 1)
    assert (net.outputs, rows.outputs, rows.canonical().outputs) == (None, 1, 1)
    assert net.canonical().outputs is None and random_deep("tanh", outputs=2).outputs == 2


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_layer_is_a_network_that_feeds_the_next(number: int) -> None:
    net = random_deep("tanh", outputs=2)
    below = POINTS if number == 0 else net.values(POINTS, number - 1)
    fed = net.layer(number)(below)
    expected = net(POINTS) if number == 2 else np.arctanh(net.values(POINTS, number + 1))
    # arctanh of numbers near 1 loses digits.
    np.testing.assert_allclose(fed, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("number", [-1, 3])
def test_layers_that_are_not_there(number: int) -> None:
    for act in (random_deep("relu").layer, lambda n: random_deep("relu").values(POINTS, n)):
        with pytest.raises(pn.InvalidInput) as error:
            act(number)
        is_a_sentence(error, f"hidden layer {number}", "from 0 to 2")


@pytest.mark.parametrize("shape", [(3,), (5, 2), (5, 4)])
def test_inputs_of_the_wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        random_deep("relu")(np.zeros(shape))
    is_a_sentence(error, "(n, 3)", str(shape))


# ---------------------------------------------------------------- the object


def test_sizes_and_repr() -> None:
    net = random_deep("relu")
    assert (net.features, net.widths, net.layers, net.units) == (3, (4, 3, 5), 3, 12)
    assert net.linear is None
    assert repr(net) == "DeepNetwork(features=3, widths=(4, 3, 5), activation='relu')"
    assert "outputs=2, activation='tanh'" in repr(random_deep("tanh", outputs=2))


@pytest.mark.parametrize("activation", ["tanh", "leaky_relu(0.3)"])
@pytest.mark.parametrize("outputs", [None, 2])
def test_free_parameters_are_the_directions_in_which_the_function_moves(
    activation: str, outputs: int | None
) -> None:
    """Their number is the rank of the derivatives by all parameters, by differences."""
    net = pn.random_network((4, 3), 3, outputs=outputs, activation=activation, rng=1)
    X = np.random.default_rng(2).standard_normal((400, 3))
    columns = []
    for field in ("weights", "biases"):
        for i, array in enumerate(getattr(net, field)):
            for place in np.ndindex(array.shape):
                ends = []
                for step in (1e-5, -1e-5):
                    arrays = [np.array(a) for a in getattr(net, field)]
                    arrays[i][place] += step
                    ends.append(net.replace(**{field: arrays})(X).ravel())
                columns.append((ends[0] - ends[1]) / 2e-5)
    J = np.column_stack(columns)
    values = np.linalg.svd(J / np.linalg.norm(J, axis=0), compute_uv=False)
    rank = net.free_parameters
    # Differences are right to some 1e-9 (a kink between the two ends: 1e-5 of the samples).
    assert values[rank - 1] > 1e-4 and (values[rank:] < 1e-6).all()
    everything = sum(a.size for a in (*net.weights, *net.biases))
    assert rank == everything - (7 if activation != "tanh" else 0)


def test_a_network_does_not_change() -> None:
    weights = [np.eye(2), np.ones((1, 2))]
    net = pn.DeepNetwork(weights)
    weights[0][0, 0] = 5.0
    assert net.weights[0][0, 0] == 1.0
    for array in (*net.weights, *net.biases):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(FrozenInstanceError):
        net.weights = ()  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again(POINTS[:, :2]), net(POINTS[:, :2]))


EYES = [np.eye(2), np.eye(2), np.ones((1, 2))]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"weights": 3.0}, ("weights", "list of matrices", "float")),
        ({"weights": "two"}, ("weights", "list of matrices", "str")),
        ({"weights": EYES[:1]}, ("weights", "at least two matrices", "not 1")),
        ({"weights": [np.eye(2), [1.0, 2.0]]}, ("weights[1]", "2 dimensions")),
        ({"weights": [np.eye(2), [["a", "b"]]]}, ("weights[1]", "numbers")),
        ({"weights": [np.eye(2), [[1.0, np.nan]]]}, ("weights[1]", "finite")),
        ({"weights": [np.eye(2), np.ones((1, 3))]}, ("weights[1]", "2 columns", "(1, 3)")),
        ({"weights": [np.eye(2), np.ones((0, 2))]}, ("weights", "at least one row")),
        ({"biases": [[0.0, 0.0], [0.0, 0.0]]}, ("biases", "3 vectors", "not 2")),
        ({"biases": [None, [0.0], None]}, ("biases[1]", "(2,)", "(1,)")),
        ({"biases": [None, None, 1.0]}, ("biases[2]", "1 dimensions")),
        ({"biases": [None, [0.0, np.inf], None]}, ("biases[1]", "finite")),
        ({"biases": 1.0}, ("biases", "list of vectors")),
        ({"outputs": 2}, ("outputs", "must be 1", "not 2")),
        ({"outputs": 0}, ("outputs", "from 1")),
        ({"outputs": 1.0}, ("outputs", "whole")),
        ({"activation": "mish"}, ("mish", "relu")),
    ],
)
def test_bad_parameters(arguments: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.DeepNetwork(**{"weights": EYES, **arguments})
    is_a_sentence(error, *words)


# ---------------------------------------------------------------- canonical form


@given(deep_networks(ACTIVATIONS))
def test_canonical_is_the_same_function_in_normal_form(network: pn.DeepNetwork) -> None:
    canonical = network.canonical()
    assert canonical.outputs == network.outputs
    if network.activation.name != "step":  # rounding may move a point across the jump
        assert_same_function(network.normalised(), network)
        assert_same_function(canonical, network)
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
        sizes = np.linalg.norm(layer.output_weights, axis=0)
        assert (np.diff(sizes) <= 1e-8).all()  # the order is by sizes rounded to nine digits


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_canonical_ignores_order_scale_and_sign_of_units(activation: str, seed: int) -> None:
    net = random_deep(activation, seed)
    other = disguised(net, seed)
    if activation != "step":
        assert_same_function(other, net)
    assert_same_parameters(other.canonical(), net.canonical())
    assert_same_parameters(net.canonical().canonical(), net.canonical())


@pytest.mark.parametrize("activation", ["relu", "gelu", "softplus"])
def test_signs_of_mirrored_units_are_what_they_are(activation: str) -> None:
    """Their reversal needs a linear term, which has no place between layers."""
    signs = np.sign(random_deep(activation).canonical().weights[1])
    net = random_deep(activation)
    assert (np.sort(signs, axis=None) == np.sort(np.sign(net.weights[1]), axis=None)).all()
    assert (signs < 0).any() and (signs > 0).any()


def test_units_without_weights_move_on() -> None:
    """The first unit of the first layer is 2 always, so the first of the second is 6."""
    net = pn.DeepNetwork(
        [[[0.0, 0.0], [3.0, 4.0]], [[3.0, 0.0], [1.0, 2.0]], [[1.0, 5.0]]],
        [[2.0, 1.0], [0.0, -1.0], [0.5]],
    )
    canonical = net.canonical()
    assert canonical.widths == (1, 1)
    np.testing.assert_allclose(canonical.weights[0], [[0.6, 0.8]], rtol=1e-15)
    np.testing.assert_allclose(canonical.biases[0], [0.2], rtol=1e-15)
    # The second layer's other unit: 1 * 2 - 1 + 2 * 5 h, of norm 10; it feeds 5.
    np.testing.assert_allclose(canonical.weights[1], [[1.0]], rtol=1e-15)
    np.testing.assert_allclose(canonical.biases[1], [0.1], rtol=1e-15)
    np.testing.assert_allclose(canonical.weights[2], [[50.0]], rtol=1e-15)
    np.testing.assert_allclose(canonical.biases[2], [6.5], rtol=1e-15)


def test_a_network_of_constants_has_no_units() -> None:
    net = pn.DeepNetwork([np.zeros((2, 3)), np.eye(2), [[2.0, 5.0]]], [[1.0, -1.0], None, [1.0]])
    canonical = net.canonical()
    assert canonical.widths == (0, 0) and canonical.units == 0
    np.testing.assert_array_equal(canonical(POINTS), np.full(20, 3.0))
    assert pn.parameter_error(canonical, net) == 0.0


@pytest.mark.parametrize("activation", ["abs", "leaky_relu(0.3)", "relu"])
def test_relu_units_alone_are_the_same_function(activation: str) -> None:
    net = random_deep(activation, outputs=2)
    alone = in_relu_units(net)
    assert isinstance(alone, pn.DeepNetwork) and alone.activation.name == "relu"
    assert alone.widths == (net.widths if activation == "relu" else (8, 6, 10))
    assert_same_function(alone, net)
    assert in_relu_units(random_deep("tanh")) is None


# ---------------------------------------------------------------- distances


@given(deep_networks(ACTIVATIONS))
def test_a_network_is_at_no_distance_from_itself(network: pn.DeepNetwork) -> None:
    assert pn.parameter_error(network, network) == 0.0


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_order_scale_and_sign_of_units_do_not_count(activation: str, seed: int) -> None:
    net = random_deep(activation, seed, outputs=2)
    other = disguised(net, seed)
    # Rounding of parameters of sizes up to some hundred (norms to the power 3, and of that again).
    scale = max(np.abs(W).max() for W in net.canonical().weights)
    assert pn.parameter_error(other, net) <= ROUNDING * (1 + scale)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "gelu", "sin"])
@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_the_error_of_a_known_change(activation: str, layer: int) -> None:
    """Found again behind a disguise. Signs cost nothing: norms of differences do not know them.

    In the canonical form, because reversing a sigmoid moves the biases above it by its weights.
    """
    net = random_deep(activation, outputs=2).canonical()
    weights, biases = [np.array(W) for W in net.weights], [np.array(b) for b in net.biases]
    weights[layer][0] += [3e-4, 4e-4, *np.zeros(weights[layer].shape[1] - 2)]
    biases[layer][1] += 2e-4
    error = pn.parameter_error(disguised(net.replace(weights=weights, biases=biases), layer), net)
    # |w-w'| of unit 0 is 5e-4. An output weight counts for its unit: the larger one is 4e-4.
    assert error == pytest.approx(4e-4 if layer == 3 else 5e-4, rel=1e-8)
    assert error == pytest.approx(
        pn.parameter_error(net, net.replace(weights=weights, biases=biases)), rel=1e-8
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_error_of_scaled_units(seed: int) -> None:
    """Leaky units of all layers moved, compared in the order they had, norms divided by hand."""
    net = random_deep("leaky_relu(0.2)", seed)
    rng = np.random.default_rng(seed)
    near = net.replace(
        weights=[W + 1e-6 * rng.standard_normal(W.shape) for W in net.weights],
        biases=[b + 1e-6 * rng.standard_normal(b.shape) for b in net.biases],
    )
    scaled = []
    for one in (net, near):
        weights, biases = [np.array(W) for W in one.weights], [np.array(b) for b in one.biases]
        for i in range(3):
            norms = np.linalg.norm(weights[i], axis=1)
            weights[i], biases[i] = weights[i] / norms[:, None], biases[i] / norms
            weights[i + 1] = weights[i + 1] * norms
        scaled.append((weights, biases))
    (W, b), (V, c) = scaled
    units = [np.linalg.norm(W[i] - V[i], axis=1) + np.abs(b[i] - c[i]) for i in range(3)]
    units[2] = units[2] + np.abs(W[3] - V[3])[0]
    expected = max(*np.concatenate(units), *np.abs(b[3] - c[3]))
    assert pn.parameter_error(disguised(near, seed), net) == pytest.approx(expected, rel=1e-6)
    other = near.replace(activation="leaky_relu(0.3)")
    assert pn.parameter_error(other, net) == pytest.approx(0.1, rel=1e-6)  # the slope


def test_networks_of_different_kinds_are_infinitely_far() -> None:
    net = pn.random_network((4, 3), 3, rng=0)
    others = [
        pn.random_network((4, 4), 3, rng=0),
        pn.random_network((3, 4), 3, rng=0),
        pn.random_network((4, 3, 3), 3, rng=0),
        pn.random_network((4,), 3, rng=0),
        pn.random_network(4, 3, rng=0),
        pn.random_network(7, 3, rng=0),
        pn.random_network((4, 3), 2, rng=0),
        pn.random_network((4, 3), 3, outputs=2, rng=0),
        net.replace(activation="abs"),
    ]
    for other in others:
        assert pn.parameter_error(other, net) == pn.parameter_error(net, other) == np.inf
    assert pn.parameter_error(net.replace(outputs=1), net) == 0.0


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_one_hidden_layer_compares_as_a_network(activation: str) -> None:
    first, second = (pn.random_network(4, 3, activation=activation, rng=i) for i in (0, 1))
    expected = pn.parameter_error(first, second)
    deep = pn.DeepNetwork.of(first), pn.DeepNetwork.of(second)
    for pair in ((deep[0], second), (first, deep[1]), deep):
        assert pn.parameter_error(*pair) == pytest.approx(expected, rel=1e-14)
    beside = second.replace(linear=[3.0, 0.0, 4.0])
    assert pn.parameter_error(deep[1], beside) == pytest.approx(5.0, rel=1e-14)


@pytest.mark.parametrize("activation", ["tanh", "abs"])
def test_a_first_weight_near_zero_in_the_second_layer(activation: str) -> None:
    """Just above zero and just below it: canonical forms are far apart, the networks are not."""

    def beside(small: float) -> pn.DeepNetwork:
        weights = [[[1.0, 0.5], [0.5, -2.0]], [[small, 1.0], [2.0, 1.0]], [[1.5, -0.7]]]
        return pn.DeepNetwork(weights, [[0.1, 0.2], [0.4, 0.3], [0.25]], activation)

    first, second = beside(1e-7), beside(-1e-7)
    degree = first.activation.degree or 0
    moved = 2e-7 * np.linalg.norm([1.0, 0.5]) ** degree / np.linalg.norm([0.5, 2.0]) ** degree
    assert pn.parameter_error(first, second) == pytest.approx(moved, rel=1e-5)


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_units_of_nearly_the_same_size_are_found_in_another_order(activation: str) -> None:
    """What the first layer feeds is all of one size, up to what orders it one way or the other."""
    net = pn.random_network((5, 4), 3, activation=activation, rng=0)
    columns = net.weights[1] / np.linalg.norm(net.weights[1], axis=0)
    first, second = (
        net.replace(weights=[net.weights[0], columns * (1 + 1e-6 * sizes), net.weights[2]])
        for sizes in (np.arange(5.0), np.array([3.0, 0.0, 4.0, 1.0, 2.0]))
    )
    orders = [network.canonical().weights[0] for network in (first, second)]
    assert np.abs(orders[0] - orders[1]).max() > 0.1
    expected = np.linalg.norm(first.weights[1] - second.weights[1], axis=1).max()
    assert pn.parameter_error(first, second) == pytest.approx(expected, rel=1e-6)


LIFTED = pn.Activation(
    "lifted", lambda z: 1 + np.sin(z), np.cos, symmetry="odd", kinked=False, period=2 * np.pi
)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "abs", LIFTED])
def test_a_first_weight_near_zero_in_the_first_layer(activation: str | pn.Activation) -> None:
    """Units are turned like their partners before the next layer is looked at.

    One of `LIFTED` that is reversed moves the biases above by twice its weights: many periods.
    """

    def beside(small: float) -> pn.DeepNetwork:
        weights = [[[small, 1.0], [0.6, -0.8]], [[9.0, 1.0], [-7.0, 2.0]], [[1.5, -0.7]]]
        return pn.DeepNetwork(weights, [[0.1, 0.2], [0.4, 0.3], [0.25]], activation)

    first, second = beside(1e-7), beside(-1e-7)
    forms = first.canonical(), second.canonical()
    assert np.abs(forms[0].weights[0] - forms[1].weights[0]).max() > 1
    assert pn.parameter_error(first, second) == pytest.approx(2e-7, rel=1e-5)


@given(st.integers(0, 10_000), hnp.arrays(float, 4, elements=st.floats(-3, 3)))
def test_a_wrong_last_bias_is_seen_whatever_the_disguise(seed: int, change: Array) -> None:
    net = random_deep("sigmoid", outputs=4)
    other = disguised(net, seed)
    wrong = other.replace(biases=[*other.biases[:-1], other.biases[-1] + change])
    expected = np.linalg.norm(change)
    assert pn.parameter_error(wrong, net) == pytest.approx(expected, rel=1e-9, abs=1e-12)
