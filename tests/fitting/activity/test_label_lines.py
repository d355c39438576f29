"""Parallel labels are found by sorting."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.fitting.activity.label_lines import label_lines


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


def test_nearly_parallel_is_not_parallel() -> None:
    rng = np.random.default_rng(0)
    angles = 1.0 + 1e-6 * np.arange(50)
    Y = np.column_stack([np.cos(angles), np.sin(angles)]) * rng.uniform(1, 2, (50, 1))
    assert label_lines(Y, 2, rng) == []


def test_a_chain_of_labels_is_no_line() -> None:
    angles = 1.0 + 5e-13 * np.arange(5000)
    Y = np.column_stack([np.cos(angles), np.sin(angles)])
    assert label_lines(Y, 2, np.random.default_rng(0)) == []


def test_no_labels_and_zero_labels_have_no_lines() -> None:
    rng = np.random.default_rng(0)
    assert label_lines(np.empty((0, 3)), 2, rng) == []
    assert label_lines(np.zeros((5, 3)), 2, rng) == []
