"""Weights that no kink tells, and units that are on everywhere: from exact gradients."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import provenet as pn
from deep_searches import deep
from layered_problems import frame_of, kink_of, layers_of, pieces_at, row_of
from provenet.common.typing import Array
from provenet.extraction.layers.always_on import always_on, may_switch
from provenet.extraction.layers.apart import with_weights_apart
from provenet.extraction.layers.rows import Always, Row

TOLD = 1e-8
"""Of exact gradients."""


def never_together(weight: float, turned: float) -> pn.DeepNetwork:
    """Unit 0 of layer 2 keeps its state, off or on, wherever unit 1 of layer 1 is on.

    That is at x_0 < -1, where unit 0 below is off: unit 0 above is then beyond -0.5 `turned`.
    """
    first = np.array([[1.0, 0, 0, 0], [-1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    side = -0.1 * turned
    second = np.array(
        [
            [turned, weight, side, 2 * side, side],
            [0.3, -0.4, 1, 0.5, 0.2],
            [0.2, 0.6, -0.7, 1, 1],
        ]
    )
    third = np.array([[1.0, 0.5, -0.3], [0.7, -1.0, 0.4]])
    biases = [[0.0, -1.0, 0.1, 0.2, 0.0], [-0.5 * turned, 0.1, -0.2], [0.1, 0.3], [0.0]]
    weights = [first, second, third, np.array([[1.0, -0.8]])]
    return pn.DeepNetwork(weights, [np.array(b) for b in biases])


def lacking(net: pn.DeepNetwork) -> list[Row]:
    """All rows of layer 2, the first of which lacks the weight."""
    cols = np.array([True, False, True, True, True])
    return [row_of(net, 1, 0, cols=cols), row_of(net, 1, 1), row_of(net, 1, 2)]


def with_weights(net: pn.DeepNetwork, rng: np.random.Generator) -> Row:
    """The first row with what is told of its weight, or chosen."""
    pieces = pieces_at(net, 1, 3 * rng.standard_normal((300, 4)))
    known, rows = layers_of(net, 1), lacking(net)
    return with_weights_apart(frame_of(net), known, rows, np.ones(3), pieces, rng)[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_weight_for_a_unit_that_is_never_on_together_is_free_and_keeps_it_off(seed: int) -> None:
    net, rng = never_together(-0.7, 1.0), np.random.default_rng(seed)
    row = with_weights(net, rng)
    assert row.cols.all() and row.free == row.apart == {1}
    h = layers_of(net, 1).h(5 * rng.standard_normal((2000, 4)))
    assert (row.values(h[h[:, 1] > 0]) < 0).all() and (h[:, 1] > 0).any()


@pytest.mark.parametrize("seed", range(3))
def test_a_weight_for_a_unit_with_which_it_is_always_on_is_told_by_gradients(seed: int) -> None:
    net, rng = never_together(0.7, -1.0), np.random.default_rng(seed)
    row = with_weights(net, rng)
    assert row.cols.all() and row.apart == {1} and not row.free
    assert abs(row.v[1] / row.v[0] - -0.7) < TOLD


def test_a_weight_is_left_open_where_the_row_switches_with_the_unit() -> None:
    """Kinks tell it: nothing is chosen."""
    net = deep(6, 5, 4, 1, rng=12)
    cols = np.array([True, True, False, True, True])
    rows = [row_of(net, 1, 0, cols=cols), *(row_of(net, 1, k) for k in (1, 2, 3))]
    rng = np.random.default_rng(0)
    pieces = pieces_at(net, 1, rng.standard_normal((60, 6)))
    found = with_weights_apart(frame_of(net), layers_of(net, 1), rows, np.ones(4), pieces, rng)
    assert not found[0].cols[2] and not found[0].apart


def with_a_unit_always_on() -> pn.DeepNetwork:
    """10-10-5-4-1 with small biases whose second layer's unit 2 has positive weights."""
    rng = np.random.default_rng(0)
    widths = (10, 10, 5, 4, 1)
    weights = [rng.standard_normal((m, n)) for n, m in pairwise(widths)]
    biases = [0.1 * np.abs(rng.standard_normal(m)) for m in widths[1:]]
    weights[1][2] = np.abs(weights[1][2])
    return pn.DeepNetwork(weights, biases)


def but(net: pn.DeepNetwork, unit: int, rng: np.random.Generator) -> tuple[list[Row], Array]:
    """The other rows of the second layer, of any signs, and the true one of the unit."""
    rows = [row_of(net, 1, k) for k in range(5) if k != unit]
    for row in rows:
        row.v *= rng.choice([-1.0, 1.0])
    return rows, row_of(net, 1, unit).v


@pytest.mark.parametrize("seed", range(3))
def test_a_unit_that_is_always_on_is_told_by_gradients(seed: int) -> None:
    net, rng = with_a_unit_always_on(), np.random.default_rng(seed)
    rows, true = but(net, 2, rng)
    pieces = pieces_at(net, 1, 2 * rng.standard_normal((120, 10)))
    found = always_on(layers_of(net, 1), rows, pieces, rng)
    assert found is not None and found.always is Always.IS
    assert np.linalg.norm(found.v[:-1] - true[:-1]) < TOLD
    h = layers_of(net, 1).h(5 * rng.standard_normal((2000, 10)))
    assert (found.values(h) > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_unit_that_switches_is_told_from_one_that_never_does(seed: int) -> None:
    """By the kinks: of those given some are its own."""
    net, rng = with_a_unit_always_on(), np.random.default_rng(seed)
    rows, _ = but(net, 2, rng)
    turned = rows[0].v * np.sign(rows[0].v[:-1] @ row_of(net, 1, 0).v[:-1])
    unit = Row(np.append(turned[:-1], 9.0), rows[0].cols, rows[0].errors, rows[0].place)
    own = np.array([kink_of(net, 1, 0, rng) for _ in range(3)])
    first = may_switch(layers_of(net, 1), unit, np.vstack([own, rng.standard_normal((40, 10))]))[0]
    assert first.always is Always.NOT and np.abs(first.v - turned).max() < 1e-6


def test_nothing_is_told_of_two_units_that_are_missing() -> None:
    net, rng = with_a_unit_always_on(), np.random.default_rng(0)
    rows, _ = but(net, 2, rng)
    pieces = pieces_at(net, 1, 2 * rng.standard_normal((120, 10)))
    assert always_on(layers_of(net, 1), rows[:-1], pieces, rng) is None
