"""Faces, and steps in their own coordinates."""

from __future__ import annotations

import numpy as np

from provenet.lowest_layer.unions.faces import Faces, margin_slopes, step_of, two_largest
from provenet.moments.subspace import complement


def test_own_coordinates_give_the_change_of_a_margin() -> None:
    rng = np.random.default_rng(0)
    w = np.array([0.6, 0.0, 0.8])
    face, X = Faces(w[None], np.array([0.7])), rng.standard_normal((50, 3))
    B, own = complement(w), 1e-6 * rng.standard_normal(3)
    np.testing.assert_allclose(B @ B.T, np.eye(2), atol=1e-14)
    np.testing.assert_allclose(B @ w, 0.0, atol=1e-14)
    moved = face.moved(step_of(own, B)[None])
    assert abs(np.linalg.norm(moved.weights) - 1) < 1e-15
    # The norm's change is of second order, 1e-12.
    change = (moved.margins(X) - face.margins(X))[:, 0]
    np.testing.assert_allclose(change, margin_slopes(X, B) @ own, atol=1e-11)


def test_margins_of_several_faces() -> None:
    faces = Faces(np.eye(2), np.array([1.0, 2.0]))
    X = np.array([[3.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(faces.margins(X), [[2.0, -2.0], [-1.0, -2.0]])
    np.testing.assert_array_equal(faces.deepest(X), [2.0, -1.0])
    np.testing.assert_array_equal(faces.deepest(X, np.array([3.0, 0.1])), [6.0, -0.2])
    assert np.all(Faces.none(2).deepest(X) == -np.inf)
    assert len(faces + faces[1]) == 3 and len(faces.keep(np.array([False, True]))) == 1


def test_the_two_largest_of_each_row() -> None:
    top, first, second = two_largest(np.array([[1.0, 5.0, 3.0], [2.0, 0.0, -1.0]]))
    np.testing.assert_array_equal(top, [1, 0])
    np.testing.assert_array_equal(first, [5.0, 2.0])
    np.testing.assert_array_equal(second, [3.0, 0.0])
    assert np.all(two_largest(np.ones((2, 1)))[2] == -np.inf)
