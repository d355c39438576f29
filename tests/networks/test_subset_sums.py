"""Subsets with a given sum: all of them, against trying every one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from provenet.networks.subset_sums import subsets_with_sum


def test_all_subsets_are_found() -> None:
    """Whole numbers, so that many sums coincide."""
    rng = np.random.default_rng(0)
    for m in (1, 2, 5, 9):
        V = rng.integers(-2, 3, (m, 2)).astype(float)
        target = V[: m // 2 + 1].sum(axis=0)
        every = np.array(list(product((False, True), repeat=m)))
        expected = {tuple(s) for s in every if np.allclose(s @ V, target)}
        found = subsets_with_sum(V, target, 1e-9)
        assert found.complete and {tuple(mask) for mask in found.masks.tolist()} == expected


def test_one_subset_of_thirty_vectors() -> None:
    rng = np.random.default_rng(1)
    V = rng.standard_normal((30, 3))
    members = rng.random(30) < 0.5
    found = subsets_with_sum(V, V[members].sum(axis=0), 1e-9)
    np.testing.assert_array_equal(found.masks, members[None])
    assert len(subsets_with_sum(V, V[members].sum(axis=0) + 1e-3, 1e-9).masks) == 0


def test_a_limit_is_told() -> None:
    found = subsets_with_sum(np.zeros((6, 1)), np.zeros(1), 1e-9, most=10)
    assert len(found.masks) == 10 and not found.complete


def test_too_many_vectors() -> None:
    with pytest.raises(ValueError, match="41 vectors"):
        subsets_with_sum(np.zeros((41, 1)), np.zeros(1), 1e-9)
