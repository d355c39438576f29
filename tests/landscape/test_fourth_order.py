"""Fourth-order tensors: three ways to hold one, against each other and against dense sums."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import hermite_tensor, symmetric_tensor
from provenet.common.typing import Array, row_blocks
from provenet.landscape.fourth_order import (
    BatchFourth,
    DenseFourth,
    FourthOrder,
    SumOfFourthPowers,
    Transformed,
    eigenvalues,
)

seeds, sizes = st.integers(0, 10**6), st.integers(1, 5)


def symmetric_matrix(rng: np.random.Generator, d: int) -> Array:
    S = rng.standard_normal((d, d))
    return S + S.T


def mean_of_hermite_tensors(X: Array, labels: Array) -> Array:
    return np.asarray(
        sum(y * hermite_tensor(4, x) for x, y in zip(X, labels, strict=True)) / len(labels)
    )


def assert_contracts_as(fourth: FourthOrder, T: Array, rng: np.random.Generator) -> None:
    """Both contractions are those of the dense tensor T."""
    d = len(T)
    S = symmetric_matrix(rng, d)
    B, C = rng.standard_normal((2, 3, d))
    # Rounding of sums of at most d^3 terms; samples may reach 4^4 in size and cancel.
    allowed = 1e-11 * (1 + np.abs(T).max())
    expected = np.einsum("abcd,ab->cd", T, S)
    np.testing.assert_allclose(fourth.matrix(S), expected, rtol=0, atol=allowed)
    expected = np.einsum("abcd,ja,jb,jc->jd", T, B, B, C)
    np.testing.assert_allclose(fourth.cubes(B, C), expected, rtol=0, atol=10 * allowed)


@given(seeds, sizes)
def test_a_dense_tensor(seed: int, d: int) -> None:
    rng = np.random.default_rng([seed, 1])
    terms = 2 * d * d  # more than a tensor of this size needs: nothing special about it
    T = symmetric_tensor(rng.standard_normal(terms), rng.standard_normal((terms, d)), 4)
    assert_contracts_as(DenseFourth(T), T, rng)


@given(seeds, sizes, st.integers(1, 6))
def test_a_sum_of_fourth_powers(seed: int, d: int, terms: int) -> None:
    """Coefficients of both signs, also more terms than features."""
    rng = np.random.default_rng([seed, 2])
    a, V = rng.standard_normal(terms), rng.standard_normal((terms, d))
    assert_contracts_as(SumOfFourthPowers(a, V), symmetric_tensor(a, V, 4), rng)


@given(seeds, sizes)
def test_a_batch_is_the_mean_of_hermite_tensors(seed: int, d: int) -> None:
    """Labels with a mean: the terms with the identity must not be lost."""
    rng = np.random.default_rng([seed, 3])
    X, labels = rng.standard_normal((7, d)), 1 + rng.standard_normal(7)
    assert_contracts_as(BatchFourth(X, labels), mean_of_hermite_tensors(X, labels), rng)


def test_a_batch_of_more_than_a_block_of_rows() -> None:
    """The same few samples over and over: more rows, the same mean."""
    rng = np.random.default_rng([0, 4])
    X, labels = rng.standard_normal((31, 3)), rng.standard_normal(31)
    many = BatchFourth(np.tile(X, (601, 1)), np.tile(labels, 601))
    assert len(list(row_blocks(len(many.X)))) > 2
    assert_contracts_as(many, mean_of_hermite_tensors(X, labels), rng)


def test_a_unit_vector_sees_the_hermite_polynomial() -> None:
    """`T(b, b, b, b) = E[y He_4(b.x)]` for |b| = 1, without any tensor."""
    rng = np.random.default_rng([0, 5])
    X, labels = rng.standard_normal((50, 4)), rng.standard_normal(50)
    b = rng.standard_normal((1, 4))
    b /= np.linalg.norm(b)
    z = X @ b[0]
    expected = np.mean(labels * (z**4 - 6 * z**2 + 3))
    assert np.sum(BatchFourth(X, labels).cubes(b, b) * b) == pytest.approx(expected, rel=1e-11)


@given(seeds, sizes, sizes)
def test_a_tensor_in_other_coordinates(seed: int, d: int, r: int) -> None:
    """Also in fewer of them, or more."""
    rng = np.random.default_rng([seed, 7])
    T = symmetric_tensor(rng.standard_normal(6), rng.standard_normal((6, d)), 4)
    E = rng.standard_normal((r, d))
    expected = np.einsum("abcd,ia,jb,kc,ld->ijkl", T, E, E, E, E)
    assert_contracts_as(Transformed(DenseFourth(T), E), expected, rng)


@given(seeds, sizes)
def test_eigenvalues_on_symmetric_matrices(seed: int, d: int) -> None:
    """Those of the d^2 x d^2 matrix, whose other d (d - 1) / 2 belong to skew ones and are 0."""
    rng = np.random.default_rng([seed, 8])
    T = symmetric_tensor(rng.standard_normal(6), rng.standard_normal((6, d)), 4)
    found = eigenvalues(DenseFourth(T), d)
    padded = np.sort(np.append(found, np.zeros(d * (d - 1) // 2)))
    flat = np.linalg.eigvalsh(T.reshape(d * d, d * d))
    np.testing.assert_allclose(padded, flat, rtol=0, atol=1e-12 * (1 + np.abs(T).max()))


def test_eigenvalues_of_orthonormal_terms_are_their_coefficients() -> None:
    V = np.linalg.qr(np.random.default_rng([0, 9]).standard_normal((4, 4)))[0][:3]
    found = eigenvalues(SumOfFourthPowers(np.array([0.5, 2.0, 1.0]), V), 4)
    np.testing.assert_allclose(found[-3:], [0.5, 1.0, 2.0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(found[:-3], 0.0, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["batch", "powers"])
def test_no_tensor_is_formed(kind: str) -> None:
    """In 60 features it would hold 104 MB."""
    rng = np.random.default_rng([0, 6])
    X, labels = rng.standard_normal((500, 60)), rng.standard_normal(500)
    fourth = BatchFourth(X, labels) if kind == "batch" else SumOfFourthPowers(labels, X)
    B, S = X[:5], symmetric_matrix(rng, 60)
    tracemalloc.start()
    try:
        fourth.matrix(S)
        fourth.cubes(B, B)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3e6


def test_a_dense_tensor_is_held_once_for_each_pair_of_pairs() -> None:
    """A quarter of features^4, as the docstring says, and no copy of the caller's array."""
    d = 20
    T = np.zeros((d,) * 4)
    tracemalloc.start()
    try:
        DenseFourth(T)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 0.3 * T.nbytes


@pytest.mark.parametrize(("precision", "allowed"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_a_batch_gives_both_contractions_of_a_gradient_at_once(precision, allowed):
    """As one after the other; in single precision to what that resolves."""
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((3000, 4)), rng.standard_normal(3000)
    B = rng.standard_normal((3, 4))
    batch = BatchFourth(X.astype(precision), labels.astype(precision))
    exact = BatchFourth(X, labels)
    turned, cubes = batch.at(B)
    assert turned.dtype == cubes.dtype == float
    for found, expected in ((turned, B @ exact.matrix(B.T @ B)), (cubes, exact.cubes(B, B))):
        np.testing.assert_allclose(found, expected, rtol=0, atol=allowed * np.abs(expected).max())
