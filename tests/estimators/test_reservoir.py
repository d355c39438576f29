"""Samples that come in batches."""

from __future__ import annotations

import numpy as np

from provenet.data.sources import ArraySource
from provenet.estimators.reservoir import ReservoirSource


def numbered(first, last):
    """Samples that carry their number, so that a row can be told from every other."""
    rows = np.arange(first, last, dtype=float)
    return np.column_stack([rows, rows**2]), -rows


def filled(batches, capacity, seed=0):
    rng = np.random.default_rng(seed)
    source = None
    for first, last in batches:
        batch = numbered(first, last)
        source = (
            ReservoirSource.of(*batch, capacity, rng)
            if source is None
            else source.merged(*batch, rng)
        )
    return source


def test_all_samples_are_kept_while_there_is_room():
    source = filled([(0, 30), (30, 31), (31, 90)], capacity=90)
    X, y = numbered(0, 90)
    assert np.array_equal(source.X, X) and np.array_equal(source.y, y)


def test_the_reservoir_is_a_uniform_draw_of_whole_rows():
    n, capacity = 20_000, 2000
    batches = [(i, i + 1000) for i in range(0, n, 1000)]
    source = filled(batches, capacity)
    assert source.size == capacity and source.seen == n
    kept = source.X[:, 0]
    assert len(np.unique(kept)) == capacity
    assert np.array_equal(source.X[:, 1], kept**2) and np.array_equal(source.y, -kept)
    # Each batch keeps a hypergeometric number of mean 100 and standard deviation below 10.
    counts = np.bincount((kept // 1000).astype(int), minlength=20)
    assert np.abs(counts - 100).max() < 50
    assert np.sum((counts - 100.0) ** 2) > 20  # a draw, not every tenth row


def test_standardisation_is_that_of_all_samples():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((500, 3)) * [1.0, 5.0, 0.1] + 3
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(500)
    source = ReservoirSource.of(X[:200], y[:200], 50, rng).merged(X[200:], y[200:], rng)
    found, expected = source.standardisation(), ArraySource(X, y).standardisation()
    for name in ("mean", "whiten", "linear", "label_mean", "label_spread"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-10
        )
    part = source.columns(np.array([0, 2])).standardisation()
    expected = ArraySource(X[:, [0, 2]], y).standardisation()
    np.testing.assert_allclose(part.whiten, expected.whiten, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(part.linear, expected.linear, rtol=1e-10, atol=1e-10)
