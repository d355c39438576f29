"""Joint diagonalisation by congruence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import direction_error
from provenet.common.typing import Array
from provenet.moments.congruence import congruence


def unit_rows(V: Array) -> Array:
    return V / np.linalg.norm(V, axis=1, keepdims=True)


def problem(
    units: int, matrices: int, noise: float = 0.0, seed: int = 0, V: Array | None = None
) -> tuple[Array, Array]:
    """Rows V and symmetric matrices `V^T D_j V`, with relative noise."""
    rng = np.random.default_rng(seed)
    V = unit_rows(rng.standard_normal((units, units))) if V is None else V
    D = rng.standard_normal((matrices, units))
    M = (V.T * D[:, None, :]) @ V
    E = rng.standard_normal(M.shape)
    E = E + E.transpose(0, 2, 1)
    return V, M + noise * np.linalg.norm(M) / np.linalg.norm(E) * E


@pytest.mark.parametrize(
    ("units", "matrices", "tolerance"),
    # Two matrices at 20 units: eigenvalue ratios come close, which costs digits (1e-10 at worst
    # over 50 seeds); with more matrices no direction is left to chance.
    [(1, 2, 1e-15), (5, 2, 1e-10), (20, 2, 1e-7), (5, 5, 1e-12), (20, 40, 1e-13), (50, 60, 1e-13)],
)
def test_exact_matrices_give_the_rows_to_rounding(
    units: int, matrices: int, tolerance: float
) -> None:
    V, M = problem(units, matrices, seed=1)
    found = congruence(M)
    assert direction_error(found.rows, V) < tolerance
    assert found.residual < 1e-13
    assert found.converged


@pytest.mark.parametrize(
    ("units", "matrices", "noise", "tolerance"),
    # Twice the largest error over 20 seeds (10 at 50 units).
    [(5, 60, 0.1, 0.25), (20, 20, 0.1, 0.12), (50, 60, 0.05, 0.02), (50, 10, 0.02, 0.04)],
)
def test_noise_costs_its_own_size(
    units: int, matrices: int, noise: float, tolerance: float
) -> None:
    V, M = problem(units, matrices, noise, seed=2)
    found = congruence(M)
    assert np.isrealobj(found.rows)
    assert direction_error(found.rows, V) < tolerance
    # A least-squares fit leaves less than the truth does, and the noise cannot be fitted away.
    assert 0.8 * noise < found.residual < noise


def test_nearly_parallel_rows() -> None:
    rng = np.random.default_rng(5)
    V = unit_rows(rng.standard_normal((8, 8)))
    V[1] = V[0] + 1e-3 * V[1]
    V, M = problem(8, 12, V=unit_rows(V))
    found = congruence(M)
    assert found.residual < 1e-12
    # Rounding times the condition squared is 1e-10; the rows are 1e-3 apart.
    assert direction_error(found.rows, V) < 1e-8


def test_matrices_that_share_nothing_leave_a_residual() -> None:
    rng = np.random.default_rng(7)
    M = rng.standard_normal((30, 6, 6))
    assert congruence(M + M.transpose(0, 2, 1)).residual > 0.3


def test_zero_matrices() -> None:
    found = congruence(np.zeros((3, 4, 4)))
    assert np.array_equal(found.rows, np.eye(4))
    assert found.residual == 0.0


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), units=st.integers(1, 8))
def test_random_rows_are_recovered_and_follow_a_change_of_coordinates(
    seed: int, units: int
) -> None:
    V, M = problem(units, units + 2, 0.0, seed)
    C = np.random.default_rng(seed + 1).standard_normal((units, units)) + 3 * np.eye(units)
    assert direction_error(congruence(M).rows, V) < 1e-8
    assert direction_error(congruence(C.T @ M @ C).rows, unit_rows(V @ C)) < 1e-6
