"""Symmetric tensors by distinct entries against full ones."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest

from helpers import assert_symmetric, symmetric_tensor, symmetrised
from provenet.common.typing import Array
from provenet.moments.symmetric import (
    SymmetricTensor,
    count,
    monomials,
    multiplicities,
    nearest_direction,
    places,
    positions,
    powers,
)


def vectors(m: int, d: int, seed: int = 0) -> Array:
    W = np.random.default_rng(seed).standard_normal((m, d))
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


@pytest.mark.parametrize(("d", "k"), [(1, 3), (4, 0), (5, 1), (3, 6), (5, 4), (30, 4), (70, 3)])
def test_every_entry_of_the_full_tensor_is_counted_once(d: int, k: int) -> None:
    index = places(d, k)
    expected = list(combinations_with_replacement(range(d), k))
    np.testing.assert_array_equal(index, np.reshape(expected, (count(d, k), k)))
    assert multiplicities(d, k).sum() == d**k
    shuffled = np.random.default_rng(0).permutation(len(index))
    np.testing.assert_array_equal(positions(index[shuffled], d), shuffled)


def test_inner_products_are_those_of_powers() -> None:
    V, W = vectors(3, 4), vectors(5, 4, 1)
    for k in (1, 2, 4, 6):
        np.testing.assert_allclose(powers(V, k) @ powers(W, k).T, (V @ W.T) ** k, atol=1e-14)
    i, j = np.triu_indices(4)
    np.testing.assert_array_equal(monomials(W, 2), W[:, i] * W[:, j])


def test_sums_of_powers_dense_and_by_entries() -> None:
    W, zeta = vectors(4, 3), np.array([[1.0, -2.0, 0.5, 3.0], [0.0, 1.0, 1.0, -1.0]])
    dense = np.einsum("qi,ia,ib,ic,id,ie->qabcde", zeta, W, W, W, W, W)
    np.testing.assert_allclose(symmetric_tensor(zeta, W, 5), dense, atol=1e-14)
    T = SymmetricTensor.of_dense(dense[0])
    np.testing.assert_allclose(
        T.entries, SymmetricTensor.of_terms(zeta[0], W, 5).entries, atol=1e-14
    )
    assert_symmetric(T.dense)
    assert T.isometric @ T.isometric == pytest.approx(np.sum(dense[0] ** 2))
    assert T.squared_norm == pytest.approx(np.sum(dense[0] ** 2))
    np.testing.assert_allclose(T.coefficients(W), zeta[0], atol=1e-10)


def test_flattenings_are_sums_of_products_of_powers() -> None:
    W, zeta = vectors(6, 3, 2), np.arange(1.0, 7.0)
    T = SymmetricTensor.of_terms(zeta, W, 5)
    for left, middle in ((2, 2), (1, 1), (1, 2), (2, 1)):  # ERRATA, ATV21 7: any order may remain
        parts = (powers(W, k) for k in (left, middle, 5 - left - middle))
        expected = np.einsum("i,ia,ib,ic->abc", zeta, *parts)
        np.testing.assert_allclose(T.flattened(left, middle), expected, atol=1e-13)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_direction_of_a_power(k: int) -> None:
    w = vectors(1, 4, 3)
    u = -2.5 * powers(w, k)[0]
    assert abs(nearest_direction(u, 4, k) @ w[0]) == pytest.approx(1.0, abs=1e-12)
    noisy = u + 1e-3 * np.random.default_rng(4).standard_normal(len(u))
    assert abs(nearest_direction(noisy, 4, k) @ w[0]) > 1 - 1e-5


@pytest.mark.parametrize("k", [2, 3, 4])
def test_contractions_are_those_of_the_dense_tensor(k: int) -> None:
    rng = np.random.default_rng(0)
    a, W, V = rng.standard_normal(7), rng.standard_normal((7, 5)), rng.standard_normal((3, 5))
    found = SymmetricTensor.of_terms(a, W, k).contracted(V)
    np.testing.assert_allclose(found, ((V @ W.T) ** (k - 1) * a) @ W, atol=1e-11)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_coefficients_are_least_squares(k: int) -> None:
    rng = np.random.default_rng(k)
    W = vectors(5, 4, k)
    T = symmetrised(rng.standard_normal((4,) * k))
    design = np.column_stack([symmetric_tensor(np.ones(1), w[None], k).ravel() for w in W])
    expected = np.linalg.lstsq(design, T.ravel(), rcond=None)[0]
    found = SymmetricTensor.of_dense(T).coefficients(W)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
