"""Layers under a top: values, polynomials, the tops of the theory."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.datasets import random_layered
from provenet.networks.layered import (
    LayeredNetwork,
    Polynomial,
    intersection,
    lowest_layer,
    sigmoid_of_sum,
    union,
    unit_values,
)


def test_the_gradient_of_a_polynomial_is_that_of_differences() -> None:
    """Of a polynomial of degree 3, so that central differences of 1e-4 are off by 1e-8."""
    top = Polynomial(
        3, {(): 0.3, (0,): 2.0, (2, 0): -1.0, (1, 1): 0.5, (0, 1, 2): 0.7, (2,) * 3: 1}
    )
    H, step = np.random.default_rng(0).standard_normal((20, 3)), 1e-4
    found = top.gradient(H)
    for i, e in enumerate(step * np.eye(3)):
        np.testing.assert_allclose(
            found[:, i], (top(H + e) - top(H - e)) / (2 * step), rtol=0, atol=1e-7
        )


def test_a_layered_network_is_the_top_of_its_units() -> None:
    rng = np.random.default_rng(0)
    W, t = rng.standard_normal((3, 4)), np.array([0.5, -0.2, 1.0])
    top = Polynomial(3, {(): 0.3, (0,): 2.0, (2, 0): -1.0, (1, 1): 0.5})
    network = LayeredNetwork(lowest_layer(W, t), top)
    x = rng.standard_normal(4)
    h = [max(float(W[i] @ x) - t[i], 0.0) for i in range(3)]
    by_hand = 0.3 + 2 * h[0] - h[2] * h[0] + 0.5 * h[1] ** 2
    assert network(x[None])[0] == pytest.approx(by_hand, rel=1e-14)
    np.testing.assert_allclose(network.thresholds, t)


def test_blocks_do_not_change_the_values() -> None:
    network = random_layered(3, 4, rng=1)
    X = np.random.default_rng(2).standard_normal((20_000, 4))
    np.testing.assert_array_equal(network(X), network.top(unit_values(network.layer, X)))


def test_union_and_intersection_are_or_and_and() -> None:
    H = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=float)
    assert union(H).tolist() == [0, 1, 1, 1]
    assert intersection(H).tolist() == [0, 0, 0, 1]


def test_the_sigmoid_top_is_zero_where_nothing_fires() -> None:
    top = sigmoid_of_sum([1.0, 2.0], bias=0.5)
    values = top(np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert values[0] == 0
    assert values[1] == pytest.approx(1 / (1 + np.exp(-2.5)) - 1 / (1 + np.exp(0.5)))


def test_a_monomial_of_a_missing_unit_is_refused() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        Polynomial(2, {(0, 2): 1.0})
    is_a_sentence(error)


def test_the_random_weights_have_the_condition_that_was_asked_for() -> None:
    orthonormal = random_layered(4, 6, rng=3).layer.weights
    np.testing.assert_allclose(orthonormal @ orthonormal.T, np.eye(4), atol=1e-12)
    harder = random_layered(4, 6, condition=3.0, rng=3).layer.weights
    assert 1.5 < np.linalg.cond(harder) <= 3.0 + 1e-9  # rows of norm 1 can only help
    with pytest.raises(pn.InvalidInput):
        random_layered(5, 4)
