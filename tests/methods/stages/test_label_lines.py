"""Parallel labels are found by sorting; equal ones tell the output bias."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.methods.stages.label_lines import distinct_samples, label_lines, shared_label


@pytest.mark.parametrize("outputs", [2, 3, 7])
@pytest.mark.parametrize("seed", range(5))
def test_lines_among_labels_in_general_position(outputs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((3, outputs))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    multiples = [rng.uniform(0.1, 3, 40), rng.uniform(0.1, 3, 30), rng.uniform(-3, 3, 20)]
    Y = np.vstack(
        [
            *(np.outer(t, u) for t, u in zip(multiples, directions, strict=True)),
            rng.standard_normal((500, outputs)),
            np.zeros((10, outputs)),
        ]
    )
    order = rng.permutation(len(Y))
    lines = label_lines(Y[order], 10, np.random.default_rng(seed + 100))
    assert [len(line.samples) for line in lines] == [40, 30, 20]
    assert [line.both_ways for line in lines] == [False, False, True]
    for line, u in zip(lines, directions, strict=True):
        assert abs(line.direction @ u) == pytest.approx(1.0, abs=1e-14)
        own = Y[order][line.samples]
        np.testing.assert_allclose(np.outer(line.multiples, line.direction), own, atol=1e-13)


def test_nearly_parallel_labels_chains_and_zeros_are_no_lines() -> None:
    for step, n in ((1e-6, 50), (5e-13, 5000)):
        angles = 1.0 + step * np.arange(n)
        Y = np.column_stack([np.cos(angles), np.sin(angles)])
        assert label_lines(Y, 2, np.random.default_rng(0)) == []
    for Y in (np.empty((0, 3)), np.zeros((5, 3))):
        assert label_lines(Y, 2, np.random.default_rng(0)) == []


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
