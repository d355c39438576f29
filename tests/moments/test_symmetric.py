"""Symmetric tensors by distinct entries against full ones."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from provenet.common.typing import Array
from provenet.moments.population import symmetric_tensor
from provenet.moments.symmetric import (
    SymmetricTensor,
    count,
    direction_of,
    exponents,
    monomials,
    multiplicities,
    places,
    positions,
    powers,
)


def vectors(m: int, d: int, seed: int = 0) -> Array:
    W = np.random.default_rng(seed).standard_normal((m, d))
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


@pytest.mark.parametrize("k", [0, 1, 2, 3, 5])
def test_every_entry_of_the_full_tensor_is_counted_once(k: int) -> None:
    d = 3
    assert len(places(d, k)) == count(d, k) == len(exponents(d, k))
    full = {index for row in places(d, k).tolist() for index in permutations(row)}
    assert len(full) == d**k == multiplicities(exponents(d, k)).sum()
    np.testing.assert_array_equal(positions(exponents(d, k)), np.arange(count(d, k)))


def test_inner_products_are_those_of_powers() -> None:
    V, W = vectors(3, 4), vectors(5, 4, 1)
    for k in (1, 2, 4, 6):
        np.testing.assert_allclose(powers(V, k) @ powers(W, k).T, (V @ W.T) ** k, atol=1e-14)


def test_entries_are_those_of_the_dense_tensor() -> None:
    W, zeta = vectors(4, 3), np.array([1.0, -2.0, 0.5, 3.0])
    dense = symmetric_tensor(zeta, W, 5)
    T = SymmetricTensor.of_terms(zeta, W, 5)
    np.testing.assert_allclose(T.entries, SymmetricTensor.of_dense(dense).entries, atol=1e-14)
    assert T.isometric @ T.isometric == pytest.approx(np.sum(dense**2))
    np.testing.assert_allclose(T.coefficients(W), zeta, atol=1e-10)
    np.testing.assert_allclose(monomials(W, 1), W)


def test_flattenings_are_sums_of_products_of_powers() -> None:
    W, zeta = vectors(6, 3, 2), np.arange(1.0, 7.0)
    T = SymmetricTensor.of_terms(zeta, W, 5)
    two = powers(W, 2)
    expected = np.einsum("i,ia,ib,ic->abc", zeta, two, two, W)
    np.testing.assert_allclose(T.flattened(2, 2), expected, atol=1e-13)
    for left, middle in ((1, 1), (1, 2), (2, 1)):  # ERRATA, ATV21 7: the rest may be of any order
        parts = (powers(W, k) for k in (left, middle, 5 - left - middle))
        expected = np.einsum("i,ia,ib,ic->abc", zeta, *parts)
        np.testing.assert_allclose(T.flattened(left, middle), expected, atol=1e-13)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_direction_of_a_power(k: int) -> None:
    w = vectors(1, 4, 3)
    rng = np.random.default_rng(4)
    u = -2.5 * powers(w, k)[0]
    assert abs(direction_of(u, 4, k) @ w[0]) == pytest.approx(1.0, abs=1e-12)
    near = u + 1e-3 * rng.standard_normal(len(u))
    assert abs(direction_of(near, 4, k) @ w[0]) > 1 - 1e-5


@pytest.mark.parametrize(("d", "k"), [(1, 3), (4, 0), (3, 6), (5, 4), (30, 4), (70, 3)])
def test_every_entry_is_found_at_its_place(d: int, k: int) -> None:
    """Also where the exponents as digits of one number would not fit into 64 bits."""
    e = exponents(d, k)
    np.testing.assert_array_equal(positions(e), np.arange(len(e)))
    shuffled = np.random.default_rng(0).permutation(len(e))
    np.testing.assert_array_equal(positions(e[shuffled]), shuffled)
