"""Units and their scales from hyperplanes of pieces, which networks give without any question."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from provenet.common.typing import AnyArray, Array
from provenet.extraction.classes.bends import Bends, units_met
from provenet.extraction.classes.scales import (
    Equations,
    equations_to_spare,
    fitted,
    with_free_scales,
    without_linear_term,
)


def problem(units: int, dimensions: int, seed: int = 0) -> tuple[Array, Array, AnyArray]:
    """Units V, a linear part L, and all patterns of units that may be on."""
    rng = np.random.default_rng(seed)
    V, L = rng.standard_normal((units, dimensions + 1)), rng.standard_normal(dimensions + 1)
    return V, L, np.array(list(product((False, True), repeat=units)))


def normed(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=1)[:, None])


def bends_of(V: Array, L: Array, on: AnyArray) -> Bends:
    """All pairs of patterns that differ in one unit, as if each met at a bend."""
    pairs = [(i, j) for i in range(len(on)) for j in range(i) if np.sum(on[i] != on[j]) == 1]
    return Bends(normed(on @ V + L), np.array(pairs))


@pytest.mark.parametrize("dimensions", [3, 6])
def test_units_are_what_their_bends_share(dimensions: int) -> None:
    V, L, on = problem(4, dimensions)
    met = units_met(bends_of(V, L, on))
    cosines = np.abs(met.V @ normed(V).T)
    assert len(met.V) == 4 and (met.unit_of >= 0).all()
    assert np.sort(cosines.max(axis=0)).min() > 1 - 1e-12


def test_in_two_dimensions_two_bends_tell_nothing() -> None:
    V, L, on = problem(2, 2)
    bends = bends_of(V, L, on)
    assert len(units_met(bends).V) == 0


def test_a_single_bend_tells_no_unit() -> None:
    V, L, on = problem(3, 4)
    bends = bends_of(V, L, on)
    alone = Bends(bends.hyperplanes, bends.pairs[:1])
    assert units_met(alone).unit_of.tolist() == [-1]


def equations_of(V: Array, L: Array, on: AnyArray) -> Equations:
    """Hyperplanes with a point of each: not of the cell, which only `without_linear_term` asks."""
    N = normed(on @ V + L)
    return Equations(N, np.ones_like(N), np.full(len(N), 1e-15))


def test_scales_are_found_up_to_one_factor() -> None:
    V, L, on = problem(4, 5)
    found = fitted(equations_of(V, L, on), on, linear=True)
    assert found is not None and found.explains
    factor = found.L[0] / L[0]
    assert factor > 0 and found.errors.max() < 1e-12
    np.testing.assert_allclose(found.V, factor * V, atol=1e-13)
    np.testing.assert_allclose(found.L, factor * L, atol=1e-13)


def test_pieces_of_no_such_sum_are_not_explained() -> None:
    V, L, on = problem(4, 5)
    equations = equations_of(V, L, on)
    other = equations.hyperplanes.copy()
    other[3] = normed(other[3:4] + 1e-3)[0]
    found = fitted(Equations(other, equations.places, equations.errors), on, linear=True)
    assert found is None or not found.explains


def two_units() -> tuple[Equations, AnyArray, Array]:
    """relu(x) + relu(y) - 1: pieces where x, both or y are on, each unit met at one bend."""
    V, c = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), np.array([0.0, 0.0, -1.0])
    on = np.array([[True, False], [True, True], [False, True]])
    places = np.array([[1.0, -1.0, 1.0], [0.5, 0.5, 1.0], [-1.0, 1.0, 1.0]])
    N = normed(on @ V + c)
    return Equations(N, places, np.full(3, 1e-15)), on, V


def test_two_units_are_told_by_there_being_no_linear_term() -> None:
    equations, on, V = two_units()
    solutions = without_linear_term(equations, ~on)  # sides are known up to a flip
    assert len(solutions) == 1
    np.testing.assert_allclose(normed(solutions[0].V), V, atol=1e-13)
    assert equations_to_spare(equations, on) == 0


def test_with_a_linear_term_two_units_met_once_are_open() -> None:
    equations, on, _ = two_units()
    found = with_free_scales(equations, on)
    assert found is not None and found.open == 2
    across = np.sum((on @ found.V + found.L) * equations.hyperplanes, axis=1)
    np.testing.assert_allclose(across, 1, atol=1e-12)
