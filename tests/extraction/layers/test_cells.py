"""Clean cells, their corners, and the places from which lines are sent."""

from __future__ import annotations

import numpy as np
import pytest

from deep_searches import deep
from layered_problems import layers_of
from provenet.extraction.layers.cells import CleanCell, climbed, rich_places
from provenet.extraction.layers.known import KnownLayer, KnownLayers
from provenet.extraction.layers.tolerances import CELL_STARTS, INNER, SCALES


@pytest.mark.parametrize("seed", range(5))
def test_corners_lie_in_the_cell(seed: int) -> None:
    """They are a little inside (`NEARLY_A_CORNER`), so that rounding does not matter."""
    rng, known = np.random.default_rng(seed), layers_of(deep(6, 5, 4, 1, rng=seed), 2)
    cells = 0
    for u in rich_places(known, 4, rng):
        cell = CleanCell.of(known, u)
        assert cell is not None and cell.on.any()
        corners = np.array(cell.corners(u, 4, rng)).reshape(-1, 6)
        assert (corners @ cell.M.T + cell.m > 0).all()
        np.testing.assert_allclose(known.h(corners), corners @ cell.J.T + cell.c, atol=1e-11)
        np.testing.assert_allclose(cell.V @ cell.V.T, np.eye(int(cell.on.sum())), atol=1e-12)
        np.testing.assert_allclose(cell.J @ cell.V.T @ cell.V, cell.J, atol=1e-12)
        cells += len(corners) > 2
    assert cells > 0


def test_corners_reach_farther_than_random_directions() -> None:
    """Of the cell's width in a unit's own direction they have more than any random segment."""
    rng, known = np.random.default_rng(0), layers_of(deep(6, 5, 4, 1, rng=1), 1)
    u = rich_places(known, 1, rng)[0]
    cell = CleanCell.of(known, u)
    assert cell is not None
    corners = known.h(np.array(cell.corners(u, 8, rng)))[:, cell.on]
    ways = rng.standard_normal((2000, 6))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    room = known.state(u[None]).room[0]
    near = known.h(u + room * ways)[:, cell.on]
    assert (np.ptp(corners, axis=0) > np.ptp(near, axis=0)).all()


def test_cells_where_units_depend_on_each_other_are_not_clean() -> None:
    W = np.array([[1.0, 0.0], [1.0, 1e-9], [0.0, 1.0]])
    known = KnownLayers(2, (KnownLayer.of(W, np.zeros(3)),))
    assert CleanCell.of(known, np.array([1.0, 1.0])) is None  # three units of two coordinates
    assert CleanCell.of(known, np.array([1.0, -1.0])) is None  # two that are nearly the same
    assert CleanCell.of(known, np.array([-1.0, -1.0])) is None  # none is on
    alone = CleanCell.of(known, np.array([-1.0, 1.0]))
    assert alone is not None
    np.testing.assert_array_equal(alone.on, [False, False, True])


@pytest.mark.parametrize("seed", range(5))
def test_rich_places_are_clean_different_and_richest_first(seed: int) -> None:
    known = layers_of(deep(6, 5, 4, 1, rng=seed), 2)
    U = rich_places(known, 6, np.random.default_rng(seed))
    on = known.patterns(U)[-1]
    assert 0 < len(U) <= 6 and len(np.unique(on, axis=0)) == len(on)
    assert (np.diff(on.sum(axis=1)) <= 0).all()
    assert (known.state(U).room >= INNER).all()
    assert all(CleanCell.of(known, u) is not None for u in U)


@pytest.mark.parametrize("seed", range(5))
def test_climbing_switches_units_on(seed: int) -> None:
    """Never fewer than before; all of a first layer of independent rows, which is linear."""
    known, rng = layers_of(deep(6, 5, 4, 1, rng=seed), 2), np.random.default_rng(seed)
    U = rng.standard_normal((100, 6))
    before = (known.h(U) > 0).sum(axis=1)
    after = (known.h(climbed(known, U, rng)) > 0).sum(axis=1)
    assert (after >= before).all() and after.mean() > before.mean()
    first = known.below(1)
    assert (first.h(climbed(first, U, rng)) > 0).all()
    nothing = KnownLayers(6)
    np.testing.assert_array_equal(climbed(nothing, U, rng), U)


def test_places_are_the_same_for_the_same_seed() -> None:
    known = layers_of(deep(6, 5, 4, 1, rng=0), 2)
    first, second = (rich_places(known, 6, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(first) <= CELL_STARTS * len(SCALES)
