"""The inverse beside its matrix in one square, against the matrix inverted by itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space

from provenet.common.typing import Array
from provenet.fitting.large_inverse import LargeInverse, LargeMatrix, Reflection, reflection
from provenet.fitting.tolerances import MIRRORED_ROWS, SINGLE_RIDGE

RIDGE = 1e-15
ALLOWED = 1e-9
"""Rounding of 1e-16 by the condition of the matrices, 1e4 at most, with a margin."""
AFTER_BLOCKS = MIRRORED_ROWS + 30


def vectors(n: int, rng: np.random.Generator) -> tuple[list[Reflection], Array]:
    """Two of them, one in a block of rows, and what is at right angles to both."""
    first, second = rng.standard_normal(4), rng.standard_normal(5)
    W = np.zeros((2, n))
    W[0, 1:5], W[1, n - 7 : n - 2] = first, second
    return [reflection(1, first), reflection(n - 7, second)], null_space(W)


def by_itself(H: Array, Z: Array) -> Array:
    """The inverse in the space of the columns of Z."""
    return np.asarray(Z @ np.linalg.inv(Z.T @ H @ Z) @ Z.T)


def assert_is(found: LargeInverse, expected: Array) -> None:
    n, size = len(expected), np.abs(expected).max()
    np.testing.assert_allclose(found.times(np.eye(n)), expected, atol=ALLOWED * size)
    np.testing.assert_allclose(found.variances, np.diag(expected), atol=ALLOWED * size)


@pytest.mark.parametrize("n", [20, AFTER_BLOCKS])
def test_it_is_inverted_at_right_angles_to_vectors(n: int) -> None:
    rng = np.random.default_rng(0)
    left_out, Z = vectors(n, rng)
    matrix, D = LargeMatrix(np.full(n, 0.5)), rng.standard_normal((2 * n, n))
    matrix.add(D)
    found = matrix.inverse(left_out, RIDGE)
    expected = by_itself(D.T @ D + 0.5 * np.eye(n), Z)
    assert_is(found, expected)
    assert found.rank == n - 2
    root = found.draws(np.eye(n))
    np.testing.assert_allclose(root.T @ root, expected, atol=ALLOWED)


def test_the_matrix_goes_on_beside_its_inverse() -> None:
    n, rng = 20, np.random.default_rng(1)
    left_out, Z = vectors(n, rng)
    matrix, D, more = LargeMatrix(np.ones(n)), rng.standard_normal((30, n)), np.ones((1, n))
    matrix.add(D)
    before = matrix.inverse(left_out, RIDGE)
    matrix.add(more)
    assert_is(before, by_itself(D.T @ D + np.eye(n), Z))
    with_more = by_itself(D.T @ D + more.T @ more + np.eye(n), Z)
    assert_is(before.with_rows(more), with_more)
    assert_is(matrix.inverse(left_out, RIDGE), with_more)


def test_more_rows_may_come_several_times_and_tell_the_same() -> None:
    n, rng = 20, np.random.default_rng(2)
    left_out, Z = vectors(n, rng)
    matrix, D = LargeMatrix(np.full(n, 1e-2)), rng.standard_normal((6, n))
    found = matrix.inverse(left_out, RIDGE).with_rows(D[:4]).with_rows(D[[4, 5, 5]])
    all_rows = D[[0, 1, 2, 3, 4, 5, 5]]
    assert_is(found, by_itself(all_rows.T @ all_rows + 1e-2 * np.eye(n), Z))


def test_what_is_left_of_a_variance_is_not_less_than_its_rounding() -> None:
    """A parameter told to 1e-12 of what it was: no row makes it surer than 1e-6 of that."""
    found = LargeMatrix(np.ones(3)).inverse([], RIDGE).with_rows(np.array([[1e12, 0.0, 0.0]]))
    assert found.variances[0] == pytest.approx(1e-12) and found.variances[1] == pytest.approx(1.0)


def test_a_matrix_that_is_not_definite_gets_a_larger_ridge() -> None:
    """Three equal columns, and a ridge far below rounding: the next ones, a thousandfold, count."""
    matrix = LargeMatrix(np.zeros(3))
    matrix.add(np.ones((2, 3)))
    assert (matrix.inverse([], 1e-21).variances > 1e10).all()


def test_what_no_row_tells_keeps_the_variance_that_was_held() -> None:
    """One direction of many parameters, each of which all rows tell by itself, a thousandfold."""
    n, held, rng = 60, 1e-14, np.random.default_rng(3)
    d = rng.standard_normal(n)
    d /= np.linalg.norm(d)
    D = 1e3 * rng.standard_normal((3 * n, n))
    matrix = LargeMatrix(np.full(n, held))
    matrix.add(D - np.outer(D @ d, d))
    found = matrix.inverse([], RIDGE).variances
    np.testing.assert_allclose(found, d**2 / held, rtol=0.01, atol=1e-6)


def test_in_single_precision_it_is_the_same_to_a_few_digits() -> None:
    """Rounding of 6e-8 by a condition of 30; columns may be larger than its largest number."""
    n, rng = 40, np.random.default_rng(4)
    left_out, Z = vectors(n, rng)
    matrix, D = LargeMatrix(np.full(n, 0.5), np.float32), rng.standard_normal((4 * n, n))
    matrix.add(D)
    found, expected = matrix.inverse(left_out, 0.0), by_itself(D.T @ D + 0.5 * np.eye(n), Z)
    np.testing.assert_allclose(found.times(1e40 * np.eye(n)), 1e40 * expected, atol=1e35)
    np.testing.assert_allclose(found.variances, np.diag(expected), rtol=1e-4)


def test_what_single_precision_hides_keeps_the_variance_that_was_held() -> None:
    """A direction told a ten-thousandth as well as others: double precision tells it."""
    n, held, rng = 60, 1e-14, np.random.default_rng(5)
    d = rng.standard_normal(n)
    d /= np.linalg.norm(d)
    D = rng.standard_normal((3 * n, n))
    D -= (1 - 1e-4) * np.outer(D @ d, d)
    found = []
    for dtype, ridge in ((np.float32, SINGLE_RIDGE), (np.float64, RIDGE)):
        matrix = LargeMatrix(np.full(n, held), dtype)
        matrix.add(D)
        found.append(matrix.inverse([], ridge).variances)
    np.testing.assert_allclose(found[0], d**2 / held, rtol=0.01)
    np.testing.assert_allclose(found[1], np.diag(np.linalg.inv(D.T @ D)), rtol=1e-3)
