"""The signs of a layer from exact gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import provenet as pn
from deep_searches import deep
from layered_problems import pieces_at, row_of
from provenet.common.typing import Array
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.signs import LayerSigns, layer_signs

NARROW = (1, 4, 8, 9, 12, 13)
"""Seeds of 6-5-4-1 networks all of whose units are on for a fair part of all inputs."""


def signed_rows(net: pn.DeepNetwork, layer: int, signs: Array) -> list[Row]:
    """A layer's rows as kinks tell them: of any sign."""
    rows = [row_of(net, layer, unit) for unit in range(len(signs))]
    for row, sign in zip(rows, signs, strict=True):
        row.v *= sign
    return rows


def told(
    net: pn.DeepNetwork,
    layer: int,
    signs: Array,
    rng: np.random.Generator,
    leave: Sequence[int] = (),
) -> LayerSigns:
    """What 60 gradients at random points tell of the units that are not left out."""
    rows = [row for i, row in enumerate(signed_rows(net, layer, signs)) if i not in leave]
    return layer_signs(rows, pieces_at(net, layer, rng.standard_normal((60, net.features))))


@pytest.mark.parametrize("seed", NARROW)
def test_signs_of_the_first_layer(seed: int) -> None:
    net, rng = deep(6, 5, 4, 1, rng=seed), np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], 5)
    found = told(net, 0, signs, rng)
    assert found.voted.all() and found.unexplained == 0 and found.asked > 5
    np.testing.assert_array_equal(found.signs, signs)


@pytest.mark.parametrize("seed", range(5))
def test_signs_of_the_second_layer(seed: int) -> None:
    """In columns that are on: those of units that are told at all are right."""
    net, rng = deep(10, 10, 4, 3, 1, rng=seed), np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], 4)
    found = told(net, 1, signs, rng)
    assert found.unexplained == 0 and found.asked > 4
    np.testing.assert_array_equal(found.signs[found.voted], signs[found.voted])
    assert found.voted.sum() >= 3


@pytest.mark.parametrize("seed", NARROW)
def test_a_missing_unit_leaves_gradients_unexplained(seed: int) -> None:
    net, rng = deep(6, 5, 4, 1, rng=seed), np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], 5)
    for unit in range(5):
        assert told(net, 0, signs, rng, leave=[unit]).unexplained > 0


@pytest.mark.parametrize("seed", (8, 11, 13, 15))
def test_signs_of_more_units_than_columns_are_right_where_they_are_told(seed: int) -> None:
    """Any four rows explain any gradient of four inputs: only where fewer are on it can refute."""
    net, rng = deep(4, 7, 5, 1, rng=seed), np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], 7)
    rows, pieces = signed_rows(net, 0, signs), pieces_at(net, 0, rng.standard_normal((200, 4)))
    found = layer_signs(rows, pieces)
    assert found.unexplained == 0
    np.testing.assert_array_equal(found.signs[found.voted], signs[found.voted])


@pytest.mark.parametrize("seed", range(5))
def test_signs_of_a_few_more_units_than_columns_are_told(seed: int) -> None:
    """One sum of ten rows in eight columns makes a gradient of which several vanish."""
    net, rng = deep(8, 10, 5, 1, rng=seed), np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], 10)
    pieces = pieces_at(net, 0, rng.standard_normal((60, 8)))
    found = layer_signs(signed_rows(net, 0, signs), pieces)
    assert found.voted.sum() >= 8
    np.testing.assert_array_equal(found.signs[found.voted], signs[found.voted])


def test_signs_that_are_told_tell_others_in_cells_of_few_dimensions() -> None:
    """Of 14 units and fewer columns that are on; each gradient alone tells 10 of the signs."""
    net, rng = deep(12, 12, 14, 8, 1, rng=0), np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], 14)
    pieces = pieces_at(net, 1, 2 * rng.standard_normal((80, 12)))
    found = layer_signs(signed_rows(net, 1, signs), pieces)
    np.testing.assert_array_equal(found.signs[found.voted], signs[found.voted])
    assert found.voted.sum() >= 12


def test_no_gradient_tells_nothing() -> None:
    net = deep(6, 5, 4, 1, rng=0)
    found = layer_signs(signed_rows(net, 0, np.ones(5)), [])
    assert found.asked == 0 and not found.voted.any()
