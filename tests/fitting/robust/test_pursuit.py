"""Principal component pursuit on matrices built from their parts."""

from __future__ import annotations

import numpy as np
import pytest

from provenet.common.typing import AnyArray, Array
from provenet.fitting.least_squares import Ended
from provenet.fitting.robust.pursuit import principal_component_pursuit


def parts(n: int, columns: int, rank: int, share: float, seed: int) -> tuple[Array, Array]:
    """A matrix of low rank, incoherent, and a sparse one of the same size."""
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, columns))
    hit = rng.random(L.shape) < share
    return L, np.where(hit, 5 * rng.standard_normal(L.shape), 0.0)


def wrong(found: Array, truth: Array) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


@pytest.mark.parametrize("seed", range(5))
def test_exact_where_the_theorem_holds(seed: int) -> None:
    """Rank 3 of 100 columns and 5% corrupted: well inside the region of exact recovery."""
    L, S = parts(200, 100, 3, 0.05, seed)
    found = principal_component_pursuit(L + S)
    assert found.ended is Ended.CONVERGED and found.rank == 3
    # The augmented Lagrangian stops at 1e-7 of the labels; over 20 seeds the worst was 1e-7.
    assert wrong(found.low_rank, L) < 1e-5
    np.testing.assert_array_equal(np.abs(found.sparse) > 1e-3, np.abs(S) > 1e-3)


def test_missing_entries_cost_nothing() -> None:
    """Entries that are not usable may hold anything: the same answer, whatever is in them."""
    L, S = parts(200, 100, 3, 0.05, 7)
    usable: AnyArray = S == 0
    found = principal_component_pursuit(L + 1e6 * S, usable)
    assert found.rank == 3 and wrong(found.low_rank, L) < 1e-4
    other = principal_component_pursuit(np.where(usable, L, np.pi), usable)
    np.testing.assert_array_equal(found.low_rank, other.low_rank)


def test_parts_add_up_even_without_low_rank() -> None:
    Y = np.random.default_rng(0).standard_normal((300, 10))
    found = principal_component_pursuit(Y)
    assert wrong(found.low_rank + found.sparse, Y) < 1e-6


def test_zero_matrix() -> None:
    found = principal_component_pursuit(np.zeros((20, 4)))
    assert found.ended is Ended.CONVERGED and not found.low_rank.any() and not found.sparse.any()


def test_time_that_is_over_stops_it() -> None:
    L, S = parts(200, 100, 3, 0.05, 0)
    found = principal_component_pursuit(L + S, out_of_time=lambda: True)
    assert found.ended is Ended.OUT_OF_TIME and found.iterations == 1
