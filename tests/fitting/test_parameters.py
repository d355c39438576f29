"""The parameters of several layers: there and back, steps, norms and caps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import provenet as pn
from helpers import ROUNDING, deep_networks
from provenet.common.typing import Array
from provenet.fitting.parameters import Parameters, layer_inputs, model_features
from provenet.networks.activations import RELU, get_activation

TANH = get_activation("tanh")
ROWS = np.random.default_rng(0).standard_normal((20, 3))


def deep(
    widths: tuple[int, ...], activation: str = "tanh", outputs: int | None = None
) -> pn.DeepNetwork:
    return pn.random_network(widths, 3, outputs=outputs, activation=activation, rng=0)


def flat(parameters: Parameters) -> Array:
    return np.concatenate([layer.ravel() for layer in parameters.layers])


@given(deep_networks())
def test_parameters_are_the_deep_network_s_own(network: pn.DeepNetwork) -> None:
    again = Parameters.of_deep(network).deep_network(network.activation)
    assert again.outputs == network.outputs and again.widths == network.widths
    for mine, theirs in zip(again.affine_maps, network.affine_maps, strict=True):
        np.testing.assert_array_equal(mine[0], theirs[0])
        np.testing.assert_array_equal(mine[1], theirs[1])


def test_one_layer_is_read_as_it_was() -> None:
    network = pn.random_network(4, 3, outputs=2, rng=0)
    one, deep_one = Parameters.of(network), Parameters.of_deep(pn.DeepNetwork.of(network))
    np.testing.assert_array_equal(one.theta, deep_one.theta)
    np.testing.assert_array_equal(one.beta, deep_one.beta)
    assert deep_one.lower == () and deep_one.widths == (4,)


def test_layers_widths_and_counts() -> None:
    parameters = Parameters.of_deep(deep((4, 2, 3)))
    assert parameters.widths == (4, 2, 3) and parameters.units == 3
    assert parameters.nonlinear == 4 * 4 + 2 * 5 + 3 * 3
    assert len(parameters.lower) == 2 and parameters.layers[-1] is parameters.theta
    assert not parameters.has_linear and parameters.linear.shape == (1,)


def test_with_layers_leaves_the_outputs() -> None:
    first, second = Parameters.of_deep(deep((4, 2))), Parameters.of_deep(deep((3, 2)))
    mixed = first.with_layers(second.layers)
    assert mixed.widths == (3, 2)
    np.testing.assert_array_equal(mixed.beta, first.beta)


def test_a_step_is_taken_off_the_layers_the_lowest_first() -> None:
    parameters = Parameters.of_deep(deep((4, 2, 3)))
    step = np.arange(parameters.nonlinear, dtype=float)
    moved = parameters.moved(step)
    np.testing.assert_array_equal(flat(moved), flat(parameters) - step)
    np.testing.assert_array_equal(moved.beta, parameters.beta)
    np.testing.assert_array_equal(moved.lower[0], parameters.lower[0] - step[:16].reshape(4, 4))
    assert moved.widths == parameters.widths


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize(("activation", "degree"), [("relu", 1), ("relu2", 2)])
def test_norms_of_every_layer_move_into_the_outputs(
    activation: str, degree: int, outputs: int | None
) -> None:
    """Values grow like products of norms, so the function stays to rounding of its own size."""
    network = deep((4, 3, 2), activation, outputs)
    assert network.activation.degree == degree
    normal = Parameters.of_deep(network).normalised(network.activation)
    for layer in normal.layers:
        np.testing.assert_allclose(np.linalg.norm(layer[:, :-1], axis=1), 1.0, rtol=1e-14)
    expected = network(ROWS)
    np.testing.assert_allclose(
        normal.deep_network(network.activation)(ROWS),
        expected,
        rtol=0,
        atol=ROUNDING * np.abs(expected).max(),
    )


def test_units_without_weights_stay_as_they_are() -> None:
    network = deep((4, 3), "relu")
    W, *above = network.weights
    blank = network.replace(weights=[np.vstack([W[:3], np.zeros(3)]), *above])
    normal = Parameters.of_deep(blank).normalised(RELU)
    np.testing.assert_array_equal(normal.layers[0][3, :-1], 0.0)
    found = normal.deep_network(RELU)(ROWS)
    np.testing.assert_allclose(found, blank(ROWS), rtol=0, atol=100 * ROUNDING)


def test_norms_that_count_stay() -> None:
    parameters = Parameters.of_deep(deep((4, 2)))
    assert parameters.normalised(TANH) is parameters


def test_caps_hold_in_every_layer_and_leave_kinks_where_they_are() -> None:
    parameters = Parameters.of_deep(deep((4, 3)))
    capped = parameters.capped(TANH, 1.0)
    for mine, theirs in zip(capped.layers, parameters.layers, strict=True):
        norms = np.linalg.norm(theirs[:, :-1], axis=1)
        shrunk = np.linalg.norm(mine[:, :-1], axis=1)
        np.testing.assert_allclose(shrunk, np.minimum(norms, 1.0), rtol=1e-14)
        np.testing.assert_allclose(mine * norms[:, None], theirs * shrunk[:, None], rtol=1e-14)
    assert max(np.linalg.norm(layer[:, :-1], axis=1).max() for layer in parameters.layers) > 1
    assert parameters.capped(TANH, np.inf) is parameters
    assert parameters.capped(RELU, 1.0) is parameters


def test_layers_are_given_what_those_below_say() -> None:
    network = deep((4, 3, 2))
    parameters = Parameters.of_deep(network)
    inputs = layer_inputs(parameters, TANH, ROWS)
    assert len(inputs) == 3
    np.testing.assert_array_equal(inputs[0], ROWS)
    for number in (0, 1):
        np.testing.assert_allclose(
            inputs[number + 1], network.values(ROWS, number), rtol=0, atol=ROUNDING
        )
    _, phi = model_features(parameters, TANH, ROWS)
    np.testing.assert_allclose(phi @ parameters.beta, network(ROWS), rtol=0, atol=ROUNDING)


def test_widened_and_kept_units_are_those_of_the_highest_layer() -> None:
    parameters = Parameters.of_deep(deep((4, 2)))
    wider = parameters.widened(np.ones((3, 5)))
    assert wider.widths == (4, 5)
    kept = wider.keep(np.arange(5) < 2)
    np.testing.assert_array_equal(kept.theta, parameters.theta)
    np.testing.assert_array_equal(kept.beta, parameters.beta)
    np.testing.assert_array_equal(kept.lower[0], parameters.lower[0])
