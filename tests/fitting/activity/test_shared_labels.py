"""What exact labels say of an output bias."""

from __future__ import annotations

import numpy as np

import provenet as pn
from provenet.fitting.activity.shared_labels import distinct_samples, shared_label, with_constant


def test_the_label_that_samples_without_an_active_unit_share() -> None:
    truth = pn.Network(np.eye(2), [0.3, -0.2], [[1.0, 2.0], [0.5, -1.0]], [0.1, -7.0])
    X = np.random.default_rng(0).standard_normal((50, 2))
    np.testing.assert_array_equal(shared_label(truth(X)), truth.output_bias)
    on = (X @ truth.weights.T + truth.biases > 0).any(axis=1)
    np.testing.assert_array_equal(shared_label(truth(X[on])), [0.0, 0.0])


def test_copies_of_a_sample_share_nothing() -> None:
    X = np.arange(12.0).reshape(6, 2)
    twice = np.vstack([X, X[2:4]])
    Y = twice.sum(axis=1, keepdims=True)
    kept, labels = distinct_samples(twice, Y)
    np.testing.assert_array_equal(kept, X)
    assert shared_label(Y).any() and not shared_label(labels).any()
    assert distinct_samples(X, X)[0] is X


def test_zeros_of_both_signs_are_one_label() -> None:
    labels = np.array([[0.0, 0.0], [-0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [0.0, -0.0]])
    np.testing.assert_array_equal(shared_label(labels), [0.0, 0.0])
    assert shared_label(np.empty((0, 2))).shape == (2,)


def test_a_constant_at_the_end() -> None:
    np.testing.assert_array_equal(with_constant(np.zeros((2, 1))), [[0.0, 1.0], [0.0, 1.0]])
