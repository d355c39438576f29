"""Layers brought to the user's inputs: the same function, errors against draws."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.data.standardisation import Standardisation
from provenet.lowest_layer.user_layer import (
    canonical,
    errors_on_user_inputs,
    on_user_inputs,
    open_top,
    with_unit_rows,
)
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer, union
from provenet.networks.network import Network

MIX = np.random.default_rng(7).standard_normal((3, 3)) + 2 * np.eye(3)
W = np.array([[0.6, 0.0, 0.8], [0.0, -1.0, 0.0], [0.8, 0.6, 0.0]])
P = Polynomial(3, {(): 0.5, (0,): 1.0, (1,): -3.0, (2,): 2.0, (0, 1): 0.7, (2, 2): 0.2})


def inputs(n: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((n, 3))


def standardisation() -> Standardisation:
    X = inputs(2000, 0) @ MIX.T + [1.0, -2.0, 3.0]
    return ArraySource(X, X[:, 0]).standardisation()


@pytest.mark.parametrize("activation", ["relu", "relu2", "abs", "sigmoid", "exp"])
def test_the_function_stays_the_same(activation: str) -> None:
    network = LayeredNetwork(lowest_layer(1.7 * W, [0.5, -0.3, 1.0], activation), P)
    s = standardisation()
    X = inputs(200, 1) @ MIX.T + [1.0, -2.0, 3.0]
    user = on_user_inputs(network, s, np.arange(3.0), np.arange(3.0))
    # rounding of products of up to two units, values up to some hundred
    np.testing.assert_allclose(user.network(X), network(s.apply(X)), rtol=1e-9, atol=1e-9)
    assert np.all(np.diff(np.abs(user.units.output_weights)) <= 1e-9)
    if user.network.layer.activation.degree is not None:
        np.testing.assert_allclose(np.linalg.norm(user.units.weights, axis=1), 1.0)
    assert user.units.output_bias == pytest.approx(0.5)


def test_the_order_of_errors_is_that_of_the_units() -> None:
    network = LayeredNetwork(lowest_layer(W, 0.5), P)
    user = on_user_inputs(network, None, np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0]))
    assert user.order.tolist() == [1, 2, 0]  # -3, 2, 1
    np.testing.assert_array_equal(user.angle_errors, [0.2, 0.3, 0.1])
    np.testing.assert_array_equal(user.threshold_errors, [2.0, 3.0, 1.0])
    np.testing.assert_allclose(user.units.weights, W[user.order])


def test_canonical_form_does_not_depend_on_the_form_given() -> None:
    layer = lowest_layer(W, 0.5, "abs")
    first, _ = canonical(LayeredNetwork(layer, P))
    turned = layer.replace(weights=layer.weights * -2.0, biases=layer.biases * -2.0)
    half = Polynomial(3, {m: c / 2 ** len(m) for m, c in P.terms.items()})
    second, _ = canonical(LayeredNetwork(turned, half))
    np.testing.assert_allclose(second.layer.weights, first.layer.weights, atol=1e-15)
    assert isinstance(first.top, Polynomial) and isinstance(second.top, Polynomial)
    assert second.top.terms == pytest.approx(first.top.terms)


def test_unit_rows_keep_the_order() -> None:
    network = LayeredNetwork(lowest_layer(3 * W, 0.5), P)
    unit = with_unit_rows(network)
    np.testing.assert_allclose(unit.layer.weights, W)
    X = inputs(50, 2)
    np.testing.assert_allclose(unit(X), network(X), rtol=1e-12)
    steps = LayeredNetwork(lowest_layer(3 * W, 0.5, "step"), union)
    np.testing.assert_array_equal(with_unit_rows(steps)(X), steps(X))


def test_an_open_top_is_a_sum() -> None:
    layer = lowest_layer(W, 0.5)
    H = np.maximum(inputs(20, 3) @ W.T - 0.5, 0)
    np.testing.assert_allclose(open_top(layer).top(H), H.sum(axis=1))
    known = open_top(layer, np.array([1.0, 2.0, 3.0]), silent=4.0)
    np.testing.assert_allclose(known.top(H), 4 + H @ [1.0, 2.0, 3.0])


@pytest.mark.parametrize("activation", ["step", "sigmoid"])
def test_errors_are_those_of_moved_units(activation: str) -> None:
    """Against 20,000 units drawn with these errors: a root mean square is right to 1%."""
    s, rng, angle, shift = standardisation(), np.random.default_rng(8), 1e-3, 3e-3
    w, t, n = 1.5 * W[0], 1.2, 20_000
    unit = Network(w[None], [-t], activation=activation)
    angles, thresholds = errors_on_user_inputs(unit, s, np.array([angle]), np.array([shift]))
    turned = rng.standard_normal((n, 3)) * angle * 1.5 / np.sqrt(2)
    V = w + turned - np.outer(turned @ W[0], W[0])
    T = t + shift * rng.standard_normal(n)

    def mapped(V: Array, T: Array) -> tuple[Array, Array]:
        rows, b = s.units_to_user(V, -T)
        norm = np.linalg.norm(rows, axis=1)
        return rows / norm[:, None], -b / (norm if activation == "step" else 1.0)

    (rows, offsets), (v, o) = mapped(V, T), mapped(w[None], np.array([t]))
    measured = np.sqrt(np.mean(np.sum((rows - v) ** 2, axis=1)))
    assert angles[0] == pytest.approx(measured, rel=0.03)
    assert thresholds[0] == pytest.approx(np.sqrt(np.mean((offsets - o) ** 2)), rel=0.03)
