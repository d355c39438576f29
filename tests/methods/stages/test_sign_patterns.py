"""Sign patterns of a span: the enumeration of BJW19, Lemma 1, against trying every subset."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from provenet.methods.stages.sign_patterns import (
    distinct_directions,
    most_patterns,
    sign_patterns,
    span_basis,
    supports,
)


def as_set(patterns):
    return {tuple(bool(on) for on in pattern) for pattern in patterns}


def occurs(V, pattern):
    """The linear program of Lemma 1 itself, for one subset of the samples."""
    on = np.array(pattern)
    A, b = np.where(on[:, None], -V, V), np.where(on, -1.0, 0.0)
    return linprog(np.zeros(V.shape[1]), A, b, bounds=(None, None), method="highs").status == 0


def every_pattern(V):
    return {p for p in product([False, True], repeat=len(V)) if any(p) and occurs(V, p)}


def degenerate(k, seed):
    """Small integers: zero rows, parallel and opposite ones, many in one plane."""
    V = np.random.default_rng(seed).integers(-1, 2, (8, k)).astype(float)
    V[-2:] = -V[0], 2 * V[1]
    return V if np.linalg.matrix_rank(V) == k else degenerate(k, seed + 100)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_all_patterns_in_general_position(k, seed):
    V = np.random.default_rng(seed).standard_normal((7, k))
    assert as_set(sign_patterns(V)) == every_pattern(V)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_all_patterns_of_degenerate_rows(k, seed):
    V = degenerate(k, seed)
    assert as_set(sign_patterns(V)) == every_pattern(V)


def test_each_pattern_once_largest_first_and_within_the_bound():
    V = np.random.default_rng(3).standard_normal((20, 3))
    patterns = sign_patterns(V)
    assert len(as_set(patterns)) == len(patterns)
    assert np.all(np.diff(patterns.sum(axis=1)) <= 0)
    # In general position all faces with zeros have the pattern of a cell: count the cells.
    assert len(patterns) == 2 * (1 + 19 + 19 * 18 // 2)
    assert len(patterns) <= most_patterns(20, 3)


@pytest.mark.parametrize("seed", range(3))
def test_neither_the_basis_nor_the_size_of_samples_matters(seed):
    rng = np.random.default_rng(seed)
    V = degenerate(3, seed)
    size = 10.0 ** rng.uniform(-5, 5, (len(V), 1))
    other = size * (V @ (np.eye(3) + 0.3 * rng.standard_normal((3, 3))))
    assert as_set(sign_patterns(other)) == as_set(sign_patterns(V))


def test_samples_of_one_direction_are_looked_at_once():
    V = np.array([[1.0, 2.0], [0.1, 0.2], [0.0, 0.0], [-3.0, -6.0], [1.0, 0.0]])
    D, member = distinct_directions(V)
    assert member.tolist() == [0, 0, -1, 1, 2]
    np.testing.assert_allclose(D[member[:2]], V[:1] / np.linalg.norm(V[0]) * np.ones((2, 1)))


def test_supports_are_what_nonnegative_vectors_of_the_span_have():
    # Columns that are rectified values: each column's own support must pass, few others do.
    rng = np.random.default_rng(5)
    H = np.maximum(rng.standard_normal((30, 3)), 0.0)
    V = span_basis(H @ rng.standard_normal((3, 3)))
    patterns = sign_patterns(V)
    kept = supports(V, patterns)
    assert as_set(H.T > 0) <= as_set(kept)
    assert len(kept) < len(patterns) / 5
    for on in kept:
        assert np.linalg.matrix_rank(V[~on], tol=1e-8) < 3


def test_rank_is_a_ratio_of_singular_values():
    rng = np.random.default_rng(6)
    M = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 5))
    for scale in (1e-30, 1.0, 1e30):
        assert span_basis(scale * M).shape == (20, 2)
    assert span_basis(M + 1e-6 * rng.standard_normal((20, 5))).shape == (20, 5)
    assert span_basis(np.zeros((4, 3))).shape == (4, 0)
