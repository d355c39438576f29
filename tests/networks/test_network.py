"""Networks of any depth: values, shapes, what they refuse, links."""

import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import deep_networks, is_a_sentence, networks
from provenet.common.typing import Array

POINTS = np.random.default_rng(0).uniform(-2, 2, (20, 3))
SOME = ("relu", "abs", "sigmoid", "tanh", "step")


def drawn(units: Any = (4, 3, 5), activation: str = "relu", **options: Any) -> Any:
    return pn.random_network(units, 3, activation=activation, rng=0, **options)


# ---- Values


@given(st.one_of(networks(SOME), deep_networks(SOME[:-1])))
def test_values_are_the_formula(network: pn.Network) -> None:
    X = POINTS[:, : network.features]
    *hidden, (A, c) = network.affine_maps
    for x, y in zip(X, network(X), strict=True):
        h = x
        for W, b in hidden:
            h = network.activation(np.array([w @ h for w in W]) + b)
        expected = A @ h + c
        if network.linear is not None:
            expected = expected + np.atleast_2d(network.linear) @ x
        assert np.shape(y) == (() if network.outputs is None else (network.outputs,))
        # Rounding of sums of numbers below 1e3.
        np.testing.assert_allclose(np.atleast_1d(y), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("units", [4, (4, 3)])
def test_many_rows_are_evaluated_in_blocks_of_any_type(units: Any) -> None:
    net = drawn(units, outputs=2)
    X = np.random.default_rng(1).integers(-3, 4, (20_001, 3))
    whole = net(X)
    assert whole.shape == (20_001, 2) and net(X[:0]).shape == (0, 2)
    np.testing.assert_allclose(whole[8190:8195], net(X[8190:8195].tolist()), rtol=0, atol=1e-13)
    for shape in ((3,), (5, 2), (2, 5, 3)):
        with pytest.raises(pn.InvalidInput) as error:
            net(np.zeros(shape))
        is_a_sentence(error, "(n, 3)", str(shape))


def test_plain_labels_and_rows_of_one() -> None:
    net = drawn()
    rows = net.replace(outputs=1)
    assert net(POINTS).shape == (20,) and rows(POINTS).shape == (20, 1)
    assert (net.outputs, rows.outputs, rows.canonical().outputs) == (None, 1, 1)
    assert pn.parameter_error(rows, net) == 0.0


@pytest.mark.parametrize("outputs", [None, 1, 2])
def test_one_hidden_layer_in_both_forms(outputs: int | None) -> None:
    net = drawn(4, outputs=outputs).replace(output_bias=0.25)
    deep = pn.DeepNetwork.of(net)
    np.testing.assert_array_equal(deep(POINTS), net(POINTS))
    for one in (deep, net):
        assert (one.units, one.widths, one.layers) == (4, (4,), 1)
        assert pn.parameter_error(one, net) == 0.0
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
        drawn().as_one_layer()
    is_a_sentence(error, "3 hidden layers", "layer(0)")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_layer_is_a_network_that_feeds_the_next(number: int) -> None:
    net = drawn(activation="tanh", outputs=2)
    below = POINTS if number == 0 else net.values(POINTS, number - 1)
    fed = net.layer(number)(below)
    expected = net(POINTS) if number == 2 else np.arctanh(net.values(POINTS, number + 1))
    np.testing.assert_allclose(fed, expected, rtol=0, atol=1e-8)  # arctanh near 1 loses digits
    for act in (net.layer, lambda n: net.values(POINTS, n)):
        with pytest.raises(pn.InvalidInput) as error:
            act(number + 3)
        is_a_sentence(error, f"hidden layer {number + 3}", "from 0 to 2")


# ---- The object


def test_sizes_and_repr() -> None:
    one, several = drawn(4), drawn(4, outputs=2, activation="sigmoid")
    assert (one.units, one.features, one.outputs) == (4, 3, None)
    assert repr(one) == "Network(features=3, units=4, activation='relu')"
    assert repr(several) == "Network(features=3, units=4, outputs=2, activation='sigmoid')"
    assert "linear term" in repr(one.replace(linear=[1, 2, 3]))
    deep = drawn()
    assert (deep.features, deep.widths, deep.layers, deep.units) == (3, (4, 3, 5), 3, 12)
    assert repr(deep) == "DeepNetwork(features=3, widths=(4, 3, 5), activation='relu')"


FORMS = {
    "one layer": lambda **o: drawn(4, **o),
    "with a linear term": lambda **o: pn.Network(
        drawn(4, **o).weights,
        drawn(4, **o).biases,
        drawn(4, **o).output_weights,
        activation=o["activation"],
        linear=np.ones((*drawn(4, **o).output_weights.shape[:-1], 3)),
    ),
    "two layers": lambda **o: drawn((4, 3), **o),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("activation", ["tanh", "leaky_relu(0.3)"])
@pytest.mark.parametrize("outputs", [None, 2])
def test_free_parameters_are_the_directions_in_which_the_function_moves(
    form: str, activation: str, outputs: int | None
) -> None:
    """Their number is the rank of the derivatives by all parameters, by differences."""
    net = FORMS[form](activation=activation, outputs=outputs)
    X = np.random.default_rng(2).standard_normal((400, 3))
    names = [n for n in net.argument_names if n not in ("activation", "outputs", "link")]
    columns = []
    for name in names:
        value = getattr(net, name)
        if value is None:
            continue
        arrays = [np.array(a, dtype=float) for a in (value if net.layers > 1 else [value])]
        for array in arrays:
            for place in np.ndindex(array.shape):
                ends = []
                for step in (1e-5, -2e-5):
                    array[place] += step
                    changed = arrays if net.layers > 1 else arrays[0]
                    ends.append(net.replace(**{name: changed})(X).ravel())
                array[place] += 1e-5
                columns.append((ends[0] - ends[1]) / 2e-5)
    J = np.column_stack(columns)
    values = np.linalg.svd(J / np.linalg.norm(J, axis=0), compute_uv=False)
    rank = net.free_parameters
    # Differences are right to some 1e-9 (a kink between the two ends: 1e-5 of the samples).
    assert values[rank - 1] > 1e-4 and (values[rank:] < 1e-6).all()


@pytest.mark.parametrize("net", [pn.Network(np.eye(2)), pn.DeepNetwork([np.eye(2), [[1.0, 1.0]]])])
def test_a_network_does_not_change(net: pn.Network) -> None:
    for array in (array for pair in net.affine_maps for array in pair):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(FrozenInstanceError):
        net.weights = np.eye(2)  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again(POINTS[:, :2]), net(POINTS[:, :2]))
    weights = np.eye(2)
    mine = pn.Network(weights)
    weights[0, 0] = 5.0
    assert mine.weights[0, 0] == 1.0


EYES = [np.eye(2), np.eye(2), np.ones((1, 2))]
BAD: list[tuple[type[pn.Network], dict[str, Any], tuple[str, ...]]] = [
    (pn.Network, {"weights": [1.0, 2.0]}, ("weights", "2 dimensions")),
    (pn.Network, {"weights": [["a", "b"]]}, ("weights", "numbers")),
    (pn.Network, {"weights": [[1.0, np.nan]]}, ("weights", "finite")),
    (pn.Network, {"biases": [0.0]}, ("biases", "(2,)", "(1,)")),
    (pn.Network, {"biases": [0.0, np.inf]}, ("biases", "finite")),
    (pn.Network, {"output_weights": [1.0, 2.0, 3.0]}, ("output_weights", "2 entries")),
    (pn.Network, {"output_weights": np.ones((2, 2, 2))}, ("output_weights", "1 or 2 dimensions")),
    (pn.Network, {"output_bias": [1.0, 2.0]}, ("output_bias", "number")),
    (pn.Network, {"output_bias": "one"}, ("output_bias", "numbers")),
    (pn.Network, {"linear": [1.0]}, ("linear", "(2,)")),
    (pn.Network, {"output_weights": np.ones((3, 2)), "linear": [1.0, 1.0]}, ("linear", "(3, 2)")),
    (pn.Network, {"activation": "mish"}, ("mish", "relu")),
    (pn.Network, {"link": "probit"}, ("identity, logit, softmax", "'probit'")),
    (pn.Network, {"link": "softmax"}, ("one output per class", "'logit'")),
    (pn.DeepNetwork, {"weights": 3.0}, ("weights", "list of matrices", "float")),
    (pn.DeepNetwork, {"weights": "two"}, ("weights", "list of matrices", "str")),
    (pn.DeepNetwork, {"weights": EYES[:1]}, ("weights", "at least two matrices", "not 1")),
    (pn.DeepNetwork, {"weights": [np.eye(2), [1.0, 2.0]]}, ("weights[1]", "2 dimensions")),
    (pn.DeepNetwork, {"weights": [np.eye(2), [[1.0, np.nan]]]}, ("weights[1]", "finite")),
    (pn.DeepNetwork, {"weights": [np.eye(2), np.ones((1, 3))]}, ("weights[1]", "2 columns")),
    (pn.DeepNetwork, {"weights": [np.eye(2), np.ones((0, 2))]}, ("weights", "at least one row")),
    (pn.DeepNetwork, {"biases": [[0.0, 0.0], [0.0, 0.0]]}, ("biases", "3 vectors", "not 2")),
    (pn.DeepNetwork, {"biases": [None, [0.0], None]}, ("biases[1]", "(2,)", "(1,)")),
    (pn.DeepNetwork, {"biases": [None, None, 1.0]}, ("biases[2]", "1 dimensions")),
    (pn.DeepNetwork, {"biases": 1.0}, ("biases", "list of vectors")),
    (pn.DeepNetwork, {"outputs": 2}, ("outputs", "must be 1", "not 2")),
    (pn.DeepNetwork, {"outputs": 0}, ("outputs", "from 1")),
    (pn.DeepNetwork, {"outputs": 1.0}, ("outputs", "whole")),
]


@pytest.mark.parametrize(("kind", "arguments", "words"), BAD)
def test_bad_parameters(
    kind: type[pn.Network], arguments: dict[str, Any], words: tuple[str, ...]
) -> None:
    weights = np.eye(2) if kind is pn.Network else EYES
    with pytest.raises(pn.InvalidInput) as error:
        kind(**{"weights": weights, **arguments})
    is_a_sentence(error, *words)


@given(networks())
def test_keep_and_replace(network: pn.Network) -> None:
    X, mask = POINTS[:, : network.features], np.arange(network.units) % 2 == 0
    rest = network.replace(output_weights=np.zeros_like(network.output_weights))
    # Every unit is in one of the two, the linear part in both. Rounding of numbers below 1e4.
    both = network.keep(mask)(X) + network.keep(~mask)(X) - rest(X)
    np.testing.assert_allclose(both, network(X), rtol=0, atol=1e-10)


# ---- Links

LINKED: dict[str, tuple[str, Any, int | None]] = {
    "logit": ("logit", 4, None),
    "softmax": ("softmax", 4, 3),
    "deep softmax": ("softmax", (4, 3), 3),
    "several logits": ("logit", (4, 3), 3),
    "a logit in rows": ("logit", 4, 1),
}


def classifier(name: str, activation: str = "relu") -> Any:
    link, units, outputs = LINKED[name]
    return drawn(units, activation, outputs=outputs).replace(link=link)


@pytest.mark.parametrize("name", LINKED)
def test_probabilities_are_those_of_the_formula(name: str) -> None:
    net = classifier(name)
    u, p = net(POINTS).reshape(20, -1), net.predict_proba(POINTS)
    if net.link == "softmax":
        expected = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
    else:
        expected = 1 / (1 + np.exp(-u))
        if u.shape[1] == 1:
            expected = np.hstack([1 - expected, expected])
    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-14)
    with pytest.raises(pn.InvalidInput) as error:
        net.replace(link="identity").predict_proba(POINTS)
    is_a_sentence(error, "no probabilities", "link=")
    assert pn.parameter_error(net, net.replace(link="identity")) == np.inf
    assert f"link='{net.link}'" in repr(net)


@pytest.mark.parametrize("name", ["softmax", "deep softmax"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_what_softmax_leaves_open_changes_nothing(name: str, activation: str) -> None:
    """The same function added to all outputs: the probabilities are the same network's."""
    net = classifier(name, activation)
    added: Array = np.arange(1.0, 1 + net.widths[-1])
    if net.layers == 1:
        V = np.random.default_rng(1).standard_normal((3, 3))
        net = net.replace(linear=V)
        other = net.replace(
            output_weights=net.output_weights + added,
            output_bias=net.output_bias + 2.0,
            linear=V + np.arange(3.0),
        )
    else:
        other = net.replace(
            weights=[*net.weights[:-1], net.weights[-1] + added],
            biases=[*net.biases[:-1], net.biases[-1] + 2.0],
        )
    spare = len(added) + 1 + (3 if net.layers == 1 else 0)
    assert net.free_parameters == net.replace(link="identity").free_parameters - spare
    np.testing.assert_allclose(other.predict_proba(POINTS), net.predict_proba(POINTS), atol=1e-13)
    assert pn.parameter_error(other, net) < 1e-13
    assert pn.parameter_error(other.replace(link="identity"), net.replace(link="identity")) > 1
    np.testing.assert_allclose(other.canonical()(POINTS).sum(axis=1), 0, atol=1e-13)
