"""Rows told by where their kinks are, and looks far from where a row was met."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from deep_searches import deep
from layered_problems import frame_of, kink_of, layers_of, row_of
from provenet.common.typing import Array
from provenet.extraction.layers.believing import Believing
from provenet.extraction.layers.cells import random_sums
from provenet.extraction.layers.looks import places_on
from provenet.extraction.layers.refining import refined, refined_layers
from provenet.extraction.layers.rows import Row

OFF = 1e-5
"""How far rows are off before: places are found, and kinks lie within what is looked at."""
WELL = 1e-11
"""After: kinks are placed to 1e-14 and better, and equations that tell a row have a condition of
1e3 at most with these networks."""

SECRETS = [deep(6, 6, 5, 4, 1, rng=seed) for seed in (1, 4, 8)]


def switching(number: int, layer: int) -> list[int]:
    """Units that are on at a fair part of all inputs."""
    net = SECRETS[number]
    on = net.values(np.random.default_rng(0).standard_normal((500, 6)), layer) > 0
    return np.flatnonzero(np.abs(on.mean(axis=0) - 0.5) < 0.4).tolist()


def off(row: Row, true: Row) -> float:
    """Of a direction, relatively."""
    v, w = row.v / np.linalg.norm(row.v), true.v / np.linalg.norm(true.v)
    return float(min(np.linalg.norm(v - w), np.linalg.norm(v + w)))


def shaken(row: Row, rng: np.random.Generator) -> Row:
    """The row, known poorly."""
    v = row.v + OFF * np.linalg.norm(row.v) * rng.standard_normal(len(row.v)) / np.sqrt(len(row.v))
    return Row(v, row.cols, np.full(len(v), OFF * np.linalg.norm(row.v)), row.place)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_row_is_told_by_where_its_kinks_are(layer: int) -> None:
    """But for those whose weights do not all show, since units below are seldom on."""
    told = 0
    for number, net in enumerate(SECRETS):
        rng = np.random.default_rng(number)
        for unit in switching(number, layer):
            true = row_of(net, layer, unit, kink_of(net, layer, unit, rng))
            better = refined(frame_of(net), layers_of(net, layer), shaken(true, rng), rng)
            if better is None:
                continue
            size = float(np.linalg.norm(better.v))
            assert off(better, true) < WELL
            assert off(better, true) < 10 * np.linalg.norm(better.errors) / size
            told += 1
    assert told > 1


def test_a_row_that_is_no_units_is_not_told() -> None:
    net, rng = SECRETS[0], np.random.default_rng(0)
    wrong = row_of(net, 1, 0, kink_of(net, 1, 0, rng))
    wrong.v = rng.standard_normal(len(wrong.v))
    assert refined(frame_of(net), layers_of(net, 1), wrong, rng) is None


def test_layers_are_refined_from_below_with_norms_and_signs() -> None:
    net, rng = SECRETS[0], np.random.default_rng(0)
    known, rows = layers_of(net, 2), list[list[Row]]()
    for layer in (0, 1):
        own = known.layers[layer]
        rows.append(
            [row_of(net, layer, unit, kink_of(net, layer, unit, rng)) for unit in range(len(own.W))]
        )
        for row in rows[-1]:
            row.errors = np.full(len(row.v), OFF)
        W = own.W + OFF / 10 * rng.standard_normal(own.W.shape)
        known = known.with_at(layer, replace(own, W=W))
    better = refined_layers(frame_of(net), known, rows, 0, rng)
    for layer in (0, 1):
        told = [unit for unit, row in enumerate(rows[layer]) if row.error < OFF / 10]
        before, after = known.layers[layer], better.layers[layer]
        assert len(told) > 0
        np.testing.assert_allclose(
            np.linalg.norm(after.W, axis=1), np.linalg.norm(before.W, axis=1), rtol=1e-12
        )
        ratio = after.W[told] / net.weights[layer][told]
        ratio /= ratio[0]  # the units below may be larger or smaller by their norms
        assert np.ptp(ratio, axis=1).max() < 1e-8 and (ratio > 0).all()


# ---------------------------------------------------------------- far away


def as_seen_below(net: pn.DeepNetwork, unit: int, u: Array) -> Row:
    """What a unit of the third layer looks like in the second about one of its kinks."""
    on = layers_of(net, 2).state(u[None]).h[0] > 0
    w = net.weights[2][unit] * on
    v = np.append(w @ net.weights[1], w @ net.biases[1] + net.biases[2][unit])
    return Row(v, np.ones(6, dtype=bool), np.full(7, 1e-12), u)


@pytest.mark.parametrize("number", [0, 1])
def test_rows_of_deeper_units_fail_far_from_where_they_were_met(number: int) -> None:
    net, rng = SECRETS[number], np.random.default_rng(number)
    units = switching(number, 1)
    own = [row_of(net, 1, unit, kink_of(net, 1, unit, rng)) for unit in units]
    deeper = [as_seen_below(net, k, kink_of(net, 2, k, rng)) for k in switching(number, 2)]
    others = [row_of(net, 1, units[0]) for _ in range(7)]  # more than there are units below
    for row in (*own, *deeper, *others):
        row.hits = 3
    believing = Believing(frame_of(net), layers_of(net, 1), rng)
    believing.confirm([*own, *deeper, *others])
    assert all(row.anywhere.seen and row.confirmed for row in own)
    assert not any(row.confirmed for row in deeper) and any(row.refuted for row in deeper)


def test_places_lie_on_the_rows_surface() -> None:
    net, rng = SECRETS[0], np.random.default_rng(0)
    known, row = layers_of(net, 2), row_of(net, 2, switching(0, 2)[0])
    row.place = kink_of(net, 2, switching(0, 2)[0], rng)
    for anywhere in (False, True):
        found = places_on(frame_of(net), known, row, rng, anywhere=anywhere)
        assert len(found.U) > 0
        assert np.abs(row.values(known.h(found.U))).max() < 1e-6
        np.testing.assert_allclose(np.linalg.norm(found.across, axis=1), 1.0)


def test_every_second_sum_has_few_columns_of_the_other_sign() -> None:
    R = random_sums(400, 50, np.random.default_rng(0))
    assert (R[::2] < 0).mean() < 0.4 and 0.4 < (R[1::2] < 0).mean() < 0.6
