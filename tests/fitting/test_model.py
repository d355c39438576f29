"""The model: parameters there and back, steps, norms, caps; derivatives by differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import provenet as pn
from helpers import ROUNDING, deep_networks
from provenet.common.typing import Array
from provenet.fitting.model import Linearisation, Parameters, layer_inputs, model_features
from provenet.networks.activations import RELU, Activation, get_activation

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
    again = Parameters.of(network).deep_network(network.activation)
    assert again.outputs == network.outputs and again.widths == network.widths
    for mine, theirs in zip(again.affine_maps, network.affine_maps, strict=True):
        np.testing.assert_array_equal(mine[0], theirs[0])
        np.testing.assert_array_equal(mine[1], theirs[1])


def test_one_layer_is_read_as_it_was() -> None:
    network = pn.random_network(4, 3, outputs=2, rng=0)
    one, deep_one = Parameters.of(network), Parameters.of(pn.DeepNetwork.of(network))
    np.testing.assert_array_equal(one.theta, deep_one.theta)
    np.testing.assert_array_equal(one.beta, deep_one.beta)
    assert deep_one.lower == () and deep_one.widths == (4,)


def test_layers_widths_and_counts() -> None:
    parameters = Parameters.of(deep((4, 2, 3)))
    assert parameters.widths == (4, 2, 3) and parameters.units == 3
    assert parameters.nonlinear == 4 * 4 + 2 * 5 + 3 * 3
    assert len(parameters.lower) == 2 and parameters.layers[-1] is parameters.theta
    assert not parameters.has_linear and parameters.linear.shape == (1,)


def test_with_layers_leaves_the_outputs() -> None:
    first, second = Parameters.of(deep((4, 2))), Parameters.of(deep((3, 2)))
    mixed = first.with_layers(second.layers)
    assert mixed.widths == (3, 2)
    np.testing.assert_array_equal(mixed.beta, first.beta)


def test_a_step_is_taken_off_the_layers_the_lowest_first() -> None:
    parameters = Parameters.of(deep((4, 2, 3)))
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
    normal = Parameters.of(network).normalised(network.activation)
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
    normal = Parameters.of(blank).normalised(RELU)
    np.testing.assert_array_equal(normal.layers[0][3, :-1], 0.0)
    found = normal.deep_network(RELU)(ROWS)
    np.testing.assert_allclose(found, blank(ROWS), rtol=0, atol=100 * ROUNDING)


def test_norms_that_count_stay() -> None:
    parameters = Parameters.of(deep((4, 2)))
    assert parameters.normalised(TANH) is parameters


def test_layers_are_given_what_those_below_say() -> None:
    network = deep((4, 3, 2))
    parameters = Parameters.of(network)
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
    parameters = Parameters.of(deep((4, 2)))
    wider = parameters.widened(np.ones((3, 5)))
    assert wider.widths == (4, 5)
    kept = wider.keep(np.arange(5) < 2)
    np.testing.assert_array_equal(kept.theta, parameters.theta)
    np.testing.assert_array_equal(kept.beta, parameters.beta)
    np.testing.assert_array_equal(kept.lower[0], parameters.lower[0])


# ---------------------------------------------------------------- derivatives

DEPTHS = [(4,), (4, 3), (3, 2, 4)]
DIFFERENCE = 1e-5
"""Central differences are off by its square times a third derivative, and by rounding over it: some
1e-9 of numbers near 1; relu2 of several layers has far larger ones."""


def model(widths: tuple[int, ...], outputs: int | None, activation: str) -> Parameters:
    return Parameters.of(deep(widths, activation, outputs))


def with_linear_part(parameters: Parameters) -> Parameters:
    """One more row of beta for each of the three inputs."""
    m, beta = parameters.units, parameters.beta
    linear = np.ones((3, *beta.shape[1:]))
    return replace(parameters, beta=np.concatenate([beta[:m], linear, beta[m:]]))


CASES = [
    pytest.param(
        model(widths, outputs, name), get_activation(name), id=f"{widths} {name} {outputs}"
    )
    for widths in DEPTHS
    for outputs in (None, 1, 3)
    for name in ("relu", "abs", "tanh", "gelu", "relu2")
] + [
    pytest.param(with_linear_part(model((4,), outputs, "tanh")), TANH, id=f"linear part {outputs}")
    for outputs in (None, 3)
]


def explicit(at: Linearisation) -> Array:
    """The Jacobian by all parameters, (samples, outputs, parameters)."""
    n, outputs = at.values.shape
    J = np.zeros((n, outputs, at.parameters.ravel().size))
    for q, (own, columns) in enumerate(at.jacobians()):
        J[:, q, columns] = own
    return J


@pytest.mark.parametrize(("parameters", "activation"), CASES)
def test_derivatives_are_those_of_differences(
    parameters: Parameters, activation: Activation
) -> None:
    """No row is so near a kink that a difference would cross it."""
    at, flat = Linearisation.of(parameters, activation, ROWS), parameters.ravel()

    def values(moved: Array) -> Array:
        return Linearisation.of(parameters.unravel(moved), activation, ROWS).values

    numeric = [
        (values(flat + step) - values(flat - step)) / (2 * DIFFERENCE)
        for step in DIFFERENCE * np.eye(len(flat))
    ]
    np.testing.assert_allclose(explicit(at), np.stack(numeric, axis=-1), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("parameters", "activation"), CASES)
def test_products_are_those_of_the_explicit_jacobian(
    parameters: Parameters, activation: Activation
) -> None:
    at, rng, p = (
        Linearisation.of(parameters, activation, ROWS),
        np.random.default_rng(1),
        parameters,
    )
    J, outputs = explicit(at), at.values.shape[1]
    step, R = rng.standard_normal(p.nonlinear), rng.standard_normal((len(ROWS), outputs))
    np.testing.assert_allclose(at.forward(step), J[..., : p.nonlinear] @ step, atol=1e-12)
    back = np.einsum("nq,nqp->p", R, J)
    found = np.concatenate([at.backward(R), at.overlap(R).T.ravel()])
    np.testing.assert_allclose(found, back, atol=1e-12)
    beta = p.beta.reshape(len(p.beta), -1)
    np.testing.assert_allclose(at.combined(beta), J[..., p.nonlinear :] @ p.beta.T.ravel())
    root = rng.standard_normal((len(ROWS), 2, outputs))
    for k, (mixed, columns) in enumerate(at.jacobians(root)):
        expected = np.einsum("nq,nqp->np", root[:, k], J)
        np.testing.assert_allclose(mixed, expected[:, columns], atol=1e-12)
    single, fed = at.astype(np.float32), R @ p.output_weights
    change, pulled = (
        single.top_change(step.astype(np.float32)),
        single.pulled_back(fed.astype(np.float32)),
    )
    assert change.dtype == pulled.dtype == np.float32
    np.testing.assert_allclose(pulled, at.backward(R), atol=1e-3)


@pytest.mark.parametrize(("parameters", "activation"), CASES)
def test_all_parameters_in_one_vector_and_back(
    parameters: Parameters, activation: Activation
) -> None:
    again = parameters.unravel(parameters.ravel())
    for mine, theirs in zip(again.layers, parameters.layers, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(again.beta, parameters.beta)
