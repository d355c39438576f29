"""Points of a boundary, pieces of it and walks along them, of networks whose boundary is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.extraction.box import Box
from provenet.extraction.classes.bisection import between, heights
from provenet.extraction.classes.pieces import NormalSpan, measured
from provenet.extraction.classes.sides import OtherAnswer, Sides
from provenet.extraction.classes.walks import Ray, next_ray
from provenet.extraction.oracle import open_oracle

CLASSES = np.array([[0.0], [1.0]])
LOCATED = 1e-13
"""Bisection ends at some 1e-14 near 1; sums over units are as far off again."""


def sides_of(f: Callable[[Array], Array], features: int) -> Sides:
    oracle = open_oracle(lambda X: (f(X) > 0).astype(int), features)
    return Sides(oracle, Box.of(None, None, features), CLASSES)


def corner(X: Array) -> Array:
    """Two half planes: the boundary comes from the right and folds back by 45 degrees at zero."""
    return np.asarray(np.minimum(X[:, 1], X[:, 0] - X[:, 1]))


def test_points_between_two_classes() -> None:
    w = np.array([1.0, -2.0, 0.5])
    sides, rng = sides_of(lambda X: X @ w - 0.3, 3), np.random.default_rng(0)
    A, B = rng.standard_normal((2, 20, 3))
    below = (A @ w < 0.3) & (B @ w > 0.3)
    X = between(sides, A[below], B[below])
    assert len(X) > 2 and np.abs(X @ w - 0.3).max() < LOCATED


def test_bisection_ends_where_no_number_is_left_between() -> None:
    """Of a long segment the part to which the boundary can be located is below the last bit."""
    sides = sides_of(lambda X: X[:, 0] - 0.3, 2000)
    x = between(sides, np.full((1, 2000), -3.0), np.full((1, 2000), 3.0))
    assert abs(x[0, 0] - 0.3) < LOCATED


def test_heights_are_found_further_than_they_are_looked_for_and_nowhere_if_there_are_none() -> None:
    sides = sides_of(lambda X: X[:, 1] - 10 * X[:, 0], 2)
    X, up = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([0.0, 1.0])
    np.testing.assert_allclose(heights(sides, X, up, np.full(2, 0.5)), [10, 0], atol=LOCATED)
    across = np.array([1.0, 10.0]) / 101**0.5  # along the boundary
    assert np.isnan(heights(sides, X[:1], across, np.ones(1))).all()


def test_a_third_answer_is_no_class() -> None:
    oracle = open_oracle(lambda X: np.round(X[:, 0]), 1)
    with pytest.raises(OtherAnswer):
        Sides(oracle, Box.of(None, None, 1), CLASSES)(np.array([[0.0], [2.0]]))


def test_the_normal_of_a_piece() -> None:
    net = pn.random_network(6, 8, rng=0)
    sides, rng = sides_of(net, 8), np.random.default_rng(1)
    X = rng.standard_normal((50, 8))
    low, high = X[net(X) < 0][0], X[net(X) > 0][0]
    x = between(sides, low[None], high[None])[0]
    piece = measured(sides, x, (high - low) / np.linalg.norm(high - low), 0.25, NormalSpan(8), rng)
    on = net.weights @ x + net.biases > 0
    gradient = (net.output_weights * on) @ net.weights
    assert piece is not None
    off = np.linalg.norm(piece.normal - gradient / np.linalg.norm(gradient))
    assert off < 10 * piece.error < 1e-10


def test_a_curved_boundary_has_no_pieces() -> None:
    sides, rng = sides_of(lambda X: np.sum(X**2, axis=1) - 1, 3), np.random.default_rng(0)
    x = np.array([0.0, 0.6, 0.8])
    assert measured(sides, x, x, 0.25, NormalSpan(3), rng) is None


def test_a_span_that_lacks_a_direction_is_noticed() -> None:
    w = np.array([1.0, 1.0, 1.0, 1.0])
    sides, rng = sides_of(lambda X: X @ w, 4), np.random.default_rng(0)
    span = NormalSpan(4)
    for row in np.eye(4)[:2]:
        span.add(row, 0.0)
    piece = measured(sides, np.zeros(4), w / 2, 0.25, span, rng)
    assert piece is not None
    np.testing.assert_allclose(piece.normal, w / 2, atol=1e-11)


def test_a_walk_goes_round_a_sharp_fold() -> None:
    """From (1, 0) to the left until the boundary turns back at zero, on to (t, t)."""
    sides = sides_of(corner, 2)
    ray = next_ray(sides, Ray(np.array([1.0, 0.0]), np.array([-1.0, 0.0]), np.array([0.0, 1.0])))
    assert ray is not None
    np.testing.assert_allclose(ray.t, np.full(2, 0.5**0.5), atol=1e-11)
    assert abs(ray.x[0] - ray.x[1]) < LOCATED and corner(ray.x[None] + 0.01 * ray.n)[0] > 0


def test_a_walk_ends_where_nothing_bends() -> None:
    sides = sides_of(lambda X: X[:, 1], 2)
    assert next_ray(sides, Ray(np.zeros(2), np.array([1.0, 0.0]), np.array([0.0, 1.0]))) is None
