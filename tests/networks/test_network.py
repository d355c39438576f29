"""Networks: values, canonical form, files."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import provenet as pn
from helpers import ACTIVATIONS, is_a_sentence, networks, orders, permuted
from provenet.common.blocks import row_blocks
from provenet.networks.activations import Symmetry

POINTS = np.random.default_rng(0).uniform(-3, 3, (20, 3))


def values(network: pn.Network) -> np.ndarray:
    """The network at twenty fixed points: what "the same function" is judged by."""
    return network(POINTS[:, : network.features])


def assert_same_function(first: pn.Network, second: pn.Network) -> None:
    # Rounding: outputs of these small networks are below 1e4.
    np.testing.assert_allclose(values(first), values(second), rtol=1e-12, atol=1e-10)


def assert_same_parameters(first: pn.Network, second: pn.Network) -> None:
    for name in ("weights", "biases", "output_weights", "output_bias"):
        # Rounding of parameters below 100 (norms squared times weights).
        np.testing.assert_allclose(
            getattr(first, name), getattr(second, name), rtol=1e-12, atol=1e-12, err_msg=name
        )
    assert (first.linear is None) == (second.linear is None)
    if first.linear is not None:
        np.testing.assert_array_equal(first.linear, second.linear)


# ---------------------------------------------------------------- values


@given(networks(("relu", "abs", "sigmoid", "step")))
def test_values_are_the_formula(network: pn.Network) -> None:
    for x, y in zip(POINTS[:, : network.features], values(network), strict=True):
        units = network.activation(np.array([w @ x for w in network.weights]) + network.biases)
        expected = np.dot(network.output_weights, units) + network.output_bias
        if network.linear is not None:
            expected = expected + network.linear @ x
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-12)  # rounding of numbers below 100


def test_defaults() -> None:
    net = pn.Network([[1.0, 0.0], [0.0, -2.0]])
    np.testing.assert_array_equal(net(np.array([[3.0, -1.0]])), [5.0])
    assert net.activation.name == "relu" and net.output_bias == 0.0 and net.linear is None


def test_many_rows_are_evaluated_in_blocks_of_any_type() -> None:
    net = pn.random_network(4, 3, outputs=2, rng=0)
    X = np.random.default_rng(1).integers(-3, 4, (20_001, 3))
    whole = net(X)
    assert whole.shape == (20_001, 2)
    np.testing.assert_allclose(whole[8190:8195], net(X[8190:8195].tolist()), rtol=0, atol=1e-14)


@pytest.mark.parametrize("shape", [(3,), (5, 2), (5, 4), (2, 5, 3)])
def test_inputs_of_the_wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.random_network(4, 3, rng=0)(np.zeros(shape))
    is_a_sentence(error, "(n, 3)", str(shape))


@given(st.integers(0, 50), st.integers(1, 20))
def test_row_blocks_cover_everything_once(n: int, rows: int) -> None:
    blocks = list(row_blocks(n, rows))
    assert [i for block in blocks for i in range(n)[block]] == list(range(n))
    assert all(block.stop - block.start <= rows for block in blocks)


# ---------------------------------------------------------------- the object


def test_sizes_and_repr() -> None:
    one = pn.random_network(4, 3, rng=0)
    several = pn.random_network(4, 3, outputs=2, activation="sigmoid", rng=0)
    assert (one.units, one.features, one.outputs) == (4, 3, None)
    assert (several.units, several.features, several.outputs) == (4, 3, 2)
    assert repr(one) == "Network(features=3, units=4, activation='relu')"
    assert repr(several) == "Network(features=3, units=4, outputs=2, activation='sigmoid')"
    assert "linear term" in repr(one.replace(linear=[1, 2, 3]))


def test_free_parameters() -> None:
    """Each unit has features - 1 (a direction) + 1 (bias) + outputs; then c and the linear term."""
    one, several = pn.random_network(4, 3, rng=0), pn.random_network(4, 3, outputs=2, rng=0)
    assert one.free_parameters == 4 * (2 + 1 + 1) + 1
    assert one.replace(linear=np.ones(3)).free_parameters == 4 * (2 + 1 + 1) + 1 + 3
    assert several.free_parameters == 4 * (2 + 1 + 2) + 2


@pytest.mark.parametrize("activation", ["tanh", "gelu", "sigmoid", "sin"])
def test_the_norm_of_weights_is_free_where_it_counts(activation: str) -> None:
    one = pn.random_network(4, 3, activation=activation, rng=0)
    several = pn.random_network(4, 3, outputs=2, activation=activation, rng=0)
    assert one.free_parameters == 4 * (3 + 1 + 1) + 1
    assert one.replace(linear=np.ones(3)).free_parameters == 4 * (3 + 1 + 1) + 1 + 3
    assert several.free_parameters == 4 * (3 + 1 + 2) + 2


def test_a_network_does_not_change() -> None:
    weights = np.eye(2)
    net = pn.Network(weights, [0.0, 1.0])
    weights[0, 0] = 5.0
    assert net.weights[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        net.biases[0] = 1.0
    with pytest.raises(FrozenInstanceError):
        net.weights = np.eye(2)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"weights": [1.0, 2.0]}, ("weights", "2 dimensions")),
        ({"weights": [["a", "b"]]}, ("weights", "numbers")),
        ({"weights": [[1.0, np.nan]]}, ("weights", "finite")),
        ({"biases": [0.0]}, ("biases", "(2,)", "(1,)")),
        ({"biases": [0.0, np.inf]}, ("biases", "finite")),
        ({"output_weights": [1.0, 2.0, 3.0]}, ("output_weights", "2 entries")),
        ({"output_weights": np.ones((2, 2, 2))}, ("output_weights", "1 or 2 dimensions")),
        ({"output_bias": [1.0, 2.0]}, ("output_bias", "number")),
        ({"output_bias": "one"}, ("output_bias", "numbers")),
        ({"linear": [1.0]}, ("linear", "(2,)")),
        ({"output_weights": np.ones((3, 2)), "linear": [1.0, 1.0]}, ("linear", "(3, 2)")),
        ({"activation": "mish"}, ("mish", "relu")),
    ],
)
def test_bad_parameters(arguments: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.Network(**{"weights": np.eye(2), **arguments})
    is_a_sentence(error, *words)


@given(networks())
def test_keep_and_replace(network: pn.Network) -> None:
    mask = np.arange(network.units) % 2 == 0
    kept, dropped = network.keep(mask), network.keep(~mask)
    rest = network.replace(output_weights=np.zeros_like(network.output_weights))
    # Every unit is in one of the two, the linear part in both. Rounding of numbers below 1e4.
    np.testing.assert_allclose(
        values(kept) + values(dropped) - values(rest), values(network), rtol=0, atol=1e-10
    )


# ---------------------------------------------------------------- canonical form


@given(networks(ACTIVATIONS))
def test_canonical_is_the_same_function_in_normal_form(network: pn.Network) -> None:
    canonical = network.canonical()
    if network.activation.name != "step":  # rounding may move a point across the jump
        assert_same_function(canonical, network)
    norms = np.linalg.norm(canonical.weights, axis=1)
    if network.activation.degree is not None:
        np.testing.assert_allclose(norms, 1.0, rtol=1e-14)
    else:
        np.testing.assert_allclose(
            np.sort(norms), np.sort(_norms_of_units(network)), rtol=1e-14, atol=0
        )
    assert (norms > 0).all()
    if network.activation.symmetry in (Symmetry.ODD, Symmetry.EVEN):
        assert all(w[np.argmax(w != 0)] > 0 for w in canonical.weights)
    if network.activation.period is not None:
        assert (canonical.biases >= -np.pi / 2).all() and (canonical.biases < np.pi / 2).all()
    sizes = np.linalg.norm(np.atleast_2d(canonical.output_weights), axis=0)
    assert (np.diff(sizes) <= 1e-8).all()  # the order is by sizes rounded to nine digits


def _norms_of_units(network: pn.Network) -> np.ndarray:
    norms = np.linalg.norm(network.weights, axis=1)
    return norms[norms > 0]


@given(networks(ACTIVATIONS))
def test_canonical_is_idempotent(network: pn.Network) -> None:
    once = network.canonical()
    assert_same_parameters(once.canonical(), once)


@given(networks(ACTIVATIONS), orders)
@example(pn.Network([[1.0], [1.0]], [1.0, -1.0]), [1, 0])
@example(pn.Network([[1.0], [1.0]], [0.0, 0.0], [1.0, -1.0]), [1, 0])
def test_canonical_ignores_the_order_of_units(network: pn.Network, order: list[int]) -> None:
    """Also of units that differ only in their bias, or only in the sign of their output weight."""
    assert_same_parameters(permuted(network, order).canonical(), network.canonical())


@given(st.data(), networks(("relu", "abs", "relu2", "relu3")))
def test_canonical_ignores_the_scale_of_units(data: st.DataObject, network: pn.Network) -> None:
    # Powers of two are exact, so ties stay ties.
    scale = np.array([2.0 ** data.draw(st.integers(-3, 3)) for _ in range(network.units)])
    live = np.linalg.norm(network.weights, axis=1) > 0  # a constant moves into the output bias
    scale[~live] = 1.0
    degree = network.activation.degree
    scaled = network.replace(
        weights=network.weights * scale[:, None],
        biases=network.biases * scale,
        output_weights=network.output_weights / scale**degree,
    )
    assert_same_parameters(scaled.canonical(), network.canonical())


@given(networks(("abs",)))
def test_canonical_ignores_the_sign_of_even_units(network: pn.Network) -> None:
    signs = np.where(np.arange(network.units) % 2 == 0, -1.0, 1.0)
    flipped = network.replace(
        weights=network.weights * signs[:, None], biases=network.biases * signs
    )
    assert_same_parameters(flipped.canonical(), network.canonical())


@pytest.mark.parametrize("turn", [-np.pi / 2, np.pi / 2, np.pi, 3 * np.pi / 2, 100.0])
def test_biases_of_sines_are_within_half_a_half_period(turn: float) -> None:
    net = pn.Network([[1.0, 2.0]], [turn], [3.0], 0.5, "sin")
    once = net.canonical()
    assert -np.pi / 2 <= once.biases[0] < np.pi / 2
    assert_same_function(once, net)
    assert_same_parameters(once.canonical(), once)


def test_reversing_a_sigmoid_moves_the_output_bias() -> None:
    canonical = pn.Network([[-1.0, 2.0]], [0.5], [3.0], 0.25, "sigmoid").canonical()
    np.testing.assert_array_equal(canonical.weights, [[1.0, -2.0]])
    assert (canonical.biases, canonical.output_weights) == ([-0.5], [-3.0])
    assert canonical.output_bias == 3.25


@pytest.mark.parametrize("activation", ["relu", "gelu", "softplus"])
def test_signs_of_mirrored_units_are_what_they_are(activation: str) -> None:
    """Beside a linear term, too: which sign a unit has is not the canonical form's to say."""
    net = pn.Network([[-0.6, 0.8]], [0.5], [3.0], 0.25, activation)
    for network in (net, net.replace(linear=[1.0, 2.0])):
        assert_same_parameters(network.canonical(), network)


def test_a_unit_without_weights_becomes_a_constant() -> None:
    net = pn.Network([[0.0, 0.0], [3.0, 4.0]], [2.0, 1.0], [[1.0, 1.0], [-1.0, 2.0]], [0.5, 0.0])
    canonical = net.canonical()
    assert canonical.units == 1
    np.testing.assert_array_equal(canonical.output_bias, [2.5, -2.0])
    np.testing.assert_allclose(canonical.weights, [[0.6, 0.8]])
    np.testing.assert_allclose(canonical.biases, [0.2])
    np.testing.assert_allclose(canonical.output_weights, [[5.0], [10.0]])


def test_a_network_of_constants_has_no_units() -> None:
    canonical = pn.Network(np.zeros((2, 3)), [1.0, -1.0], [2.0, 5.0], 1.0).canonical()
    assert canonical.units == 0 and canonical.output_bias == 3.0
    np.testing.assert_array_equal(canonical(np.ones((4, 3))), np.full(4, 3.0))


# ---------------------------------------------------------------- files


@given(networks(ACTIVATIONS))
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, network: pn.Network
) -> None:
    path = tmp_path_factory.mktemp("networks") / "net.npz"
    network.save(path)
    loaded = pn.load_network(path)
    assert loaded.activation.name == network.activation.name and loaded.outputs == network.outputs
    for name in ("weights", "biases", "output_weights", "output_bias", "linear"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(network, name))
    assert type(loaded.output_bias) is type(network.output_bias)


def test_a_file_that_is_no_network_says_what_it_lacks(tmp_path: Path) -> None:
    np.savez(tmp_path / "samples.npz", X=np.ones(3), biases=np.ones(3))
    with pytest.raises(pn.InvalidInput) as error:
        pn.load_network(tmp_path / "samples.npz")
    is_a_sentence(error, "samples.npz", "activation", "Network.save")
    assert "biases" not in str(error.value)


def test_an_activation_that_is_not_known_cannot_be_loaded_by_name(tmp_path: Path) -> None:
    net = pn.Network(np.eye(2))
    names = ("weights", "biases", "output_weights", "output_bias")
    arrays = {name: np.asarray(getattr(net, name)) for name in names}
    np.savez(tmp_path / "net.npz", **arrays, activation="mine")
    with pytest.raises(pn.InvalidInput) as error:
        pn.load_network(tmp_path / "net.npz")
    is_a_sentence(error, "net.npz", "mine")
