"""Passes over labels that are read as fired or not."""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.lowest_layer.unions.faces import Flags
from provenet.lowest_layer.unions.samples import Samples

N = 30_000
NUMBERS = np.arange(N, dtype=float)[:, None]
LABELS = (np.arange(N) % 10 == 0).astype(float)


def seen(X: Array, fired: Flags) -> list[Array]:
    return [X[fired, 0]]


def test_labels_are_read_by_level_and_complement() -> None:
    source = ArraySource(NUMBERS, 2 * LABELS - 1)
    fired = np.sort(np.concatenate(Samples(source, above=0.0).over(seen)))
    np.testing.assert_array_equal(fired, np.flatnonzero(LABELS))
    others = np.sort(np.concatenate(Samples(source, above=0.0, complement=True).over(seen)))
    np.testing.assert_array_equal(others, np.flatnonzero(LABELS == 0))


def test_hidden_samples_are_never_seen() -> None:
    hidden = np.array([0, 10, 4095, 4096, 20_000, N - 1])
    samples = Samples(ArraySource(NUMBERS, LABELS), hidden=hidden)
    everything = np.concatenate(samples.over(lambda X, fired: [X[:, 0]]))
    np.testing.assert_array_equal(np.sort(everything), np.setdiff1d(np.arange(N), hidden))
    assert samples.size == N - len(hidden)
    fired = np.concatenate(samples.over(seen))
    np.testing.assert_array_equal(np.sort(fired), np.setdiff1d(np.flatnonzero(LABELS), hidden))


def test_gathered_samples_stand_for_all() -> None:
    """Every tenth fires, in every block alike, so counts are right to a block's remainder."""
    n = 400_000
    source = ArraySource(np.zeros((n, 1)), (np.arange(n) % 10 == 0).astype(float))
    rows = Samples(source).gather(lambda X, fired: fired, most=5000)
    assert rows.stride > 1 and rows.fired.all()
    assert len(rows.X) < 2 * 5000
    assert abs(rows.count - n / 10) < 0.1 * n / 10
    every = Samples(source).gather(lambda X, fired: fired, most=n)
    assert every.stride == 1 and len(every.X) == n // 10
