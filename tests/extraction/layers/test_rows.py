"""Rows: from exact pieces, what they predict, which are one, and which are refuted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from deep_searches import deep
from layered_problems import frame_of, kink_of, layers_of, pieces_at, row_of
from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import KnownLayers
from provenet.extraction.layers.lines import Line, traced
from provenet.extraction.layers.looks import look
from provenet.extraction.layers.pieces import Measuring
from provenet.extraction.layers.rows import Row, joined, match, overlap, predicted, row_between
from provenet.extraction.segments import Segment

SEEDS = range(6)
WELL = 1e-9
"""Rows from measured pieces: rounding of 1e-15 over steps of about 1e-3, over jumps of about 1e-1,
with a factor of 100 to spare. From exact pieces `EXACTLY`."""
EXACTLY = 1e-11
"""The jump's own rounding, over a jump that may be 1e-3 of the gradient."""


def beside(net: pn.DeepNetwork, layer: int, unit: int, u: Array) -> Array:
    """Two points on both sides of a kink, within the room there."""
    known = layers_of(net, net.layers)
    room = min(float(known.state(u[None], (layer, unit, s)).room[0]) for s in (False, True))
    below = layers_of(net, layer).state(u[None])
    across = net.weights[layer][unit] @ below.J[0]
    away = 0.5 * room * across / np.linalg.norm(across)
    return np.array([u - away, u + away])


def parts(net: pn.DeepNetwork, layer: int, unit: int, number: int, seed: int) -> list[Row]:
    """Rows of a unit, each from the exact gradients about one of its kinks."""
    rng, found = np.random.default_rng(seed), list[Row]()
    for _ in range(5 * number):
        u = kink_of(net, layer, unit, rng)
        before, after = pieces_at(net, layer, beside(net, layer, unit, u))
        row = row_between(before, after, u, layers_of(net, layer).units)
        if row is not None:
            found.append(row)
        if len(found) == number:
            break
    return found


def off(row: Row, net: pn.DeepNetwork, layer: int, unit: int) -> float:
    """How far a row is from a multiple of the true one in the columns that it knows, relatively."""
    true = row_of(net, layer, unit).v[row.told]
    v = row.v[row.told]
    return float(np.linalg.norm(true - v * (true @ v) / (v @ v)) / np.linalg.norm(true))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_jump_of_exact_gradients_is_the_row(seed: int, outputs: int) -> None:
    net = deep(6, 5, 4, outputs, rng=seed)
    for layer, width in ((0, 6), (1, 5)):
        for unit in range(len(net.weights[layer])):
            for row in parts(net, layer, unit, 3, seed) if shows(net, layer, unit) else []:
                assert len(row.cols) == width and row.cols.any()
                assert off(row, net, layer, unit) < EXACTLY
                assert np.all(row.v[:-1][~row.cols] == 0)


def shows(net: pn.DeepNetwork, layer: int, unit: int) -> bool:
    """Whether a unit switches on for a fair part of all inputs."""
    X = np.random.default_rng(0).standard_normal((500, net.features))
    return bool(0.05 < (net.values(X, layer)[:, unit] > 0).mean() < 0.95)


def test_no_jump_is_no_row() -> None:
    net, rng = deep(6, 5, 4, 1, rng=0), np.random.default_rng(0)
    u = rng.standard_normal(6)
    room = layers_of(net, 2).state(u[None]).room[0]
    before, after = pieces_at(net, 1, np.array([u, u + 0.5 * room * np.eye(6)[0]]))
    assert row_between(before, after, u, 5) is None


def test_a_jump_of_two_units_is_no_row() -> None:
    """Of two outputs it has rank 2."""
    net = deep(6, 5, 4, 2, rng=0)
    W, b = net.weights[0], net.biases[0]
    u = np.linalg.lstsq(W[:2], -b[:2], rcond=None)[0]
    across = np.linalg.lstsq(W[:2], np.ones(2), rcond=None)[0]
    before, after = pieces_at(net, 0, np.array([u - 1e-3 * across, u + 1e-3 * across]))
    assert row_between(before, after, u, 6) is None


# ---------------------------------------------------------------- joining


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_one_row_join_and_rows_of_two_units_never(seed: int) -> None:
    net = deep(8, 8, 6, 1, rng=seed)
    units = [unit for unit in range(6) if shows(net, 1, unit)]
    found = {unit: parts(net, 1, unit, 4, seed) for unit in units}
    for unit, rows in found.items():
        whole = row_of(net, 1, unit)
        for row in rows:
            factor = overlap(whole, row)
            if row.cols.sum() >= 3:  # with fewer, chance could make them proportional
                assert (
                    factor is not None and off(joined(whole, row, factor), net, 1, unit) < EXACTLY
                )
            for other in units:
                if other != unit:
                    assert overlap(row_of(net, 1, other), row) is None
                    assert all(overlap(row, part) is None for part in found[other])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_joined_row_knows_what_both_know(seed: int) -> None:
    net = deep(8, 8, 6, 1, rng=seed)
    cols = np.arange(8) < 5
    first, second = row_of(net, 1, 0, cols=cols), row_of(net, 1, 0, cols=cols[::-1])
    assert overlap(first, replace(second, cols=~cols)) is None  # nothing but the bias is shared
    wide = row_of(net, 1, 0, cols=np.arange(8) > 1)
    wide.v *= -3.0
    factor = overlap(first, wide)
    assert factor == pytest.approx(-1 / 3, rel=1e-12)
    row = joined(first, wide, factor)
    assert row.cols.all() and off(row, net, 1, 0) < EXACTLY
    assert row.hits == first.hits + wide.hits


def test_where_both_know_the_better_one_is_believed() -> None:
    net = deep(8, 8, 6, 1, rng=0)
    good, poor = row_of(net, 1, 0, error=1e-14), row_of(net, 1, 0, error=1e-8)
    poor.v = poor.v + 1e-9 * np.random.default_rng(0).standard_normal(9)
    for first, second in ((good, poor), (poor, good)):
        factor = overlap(first, second)
        assert factor is not None
        assert off(joined(first, second, factor), net, 1, 0) < EXACTLY


# ---------------------------------------------------------------- predicting


def a_line(known: KnownLayers, rng: np.random.Generator, kinks: Array) -> Line:
    origin, direction = rng.standard_normal((2, known.coordinates))
    switches = known.switches(origin, direction, -5.0, 5.0)
    nobody = np.full(len(kinks), -1)
    old: AnyArray = np.zeros(len(kinks), dtype=bool)
    return Line(origin, direction, -5.0, 5.0, 1.0, switches, kinks, old, nobody, True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_row_predicts_where_its_unit_switches(seed: int) -> None:
    """Where all is known, these are the switches of the layer above, by another function."""
    net, rng = deep(6, 5, 4, 1, rng=seed), np.random.default_rng(seed)
    line = a_line(layers_of(net, 1), rng, np.empty(0))
    every = layers_of(net, 2).switches(line.origin, line.direction, -5.0, 5.0)
    rows = [row_of(net, 1, unit) for unit in range(4)]
    found = np.concatenate([predicted(row, layers_of(net, 1), line)[0] for row in rows])
    np.testing.assert_allclose(np.sort(np.append(found, line.switches)), every, atol=1e-12)


def test_a_row_predicts_nothing_where_a_column_is_missing() -> None:
    net, rng = deep(6, 5, 4, 1, rng=3), np.random.default_rng(3)
    known, cols = layers_of(net, 1), np.arange(5) != 2
    for _ in range(20):
        line = a_line(known, rng, np.empty(0))
        t, _ = predicted(row_of(net, 1, 0, cols=cols), known, line)
        true, _ = predicted(row_of(net, 1, 0), known, line)
        off_there = known.h(line.at(true))[:, 2] == 0
        np.testing.assert_allclose(t, true[off_there], atol=1e-12)


def test_hits_and_misses_are_counted() -> None:
    net, rng = deep(6, 5, 4, 1, rng=3), np.random.default_rng(1)
    known, row = layers_of(net, 1), row_of(net, 1, 0)
    empty = a_line(known, rng, np.empty(0))
    t, _ = predicted(row, known, empty)
    assert len(t) > 0
    line = replace(
        empty, kinks=t[:-1], old=np.zeros(len(t) - 1, bool), owner=np.full(len(t) - 1, -1)
    )
    row.hits = row.misses = 0
    match(row, 7, known, line)
    assert (row.hits, row.misses) == (len(t) - 1, 1)
    assert (line.owner == 7).all()
    row.hits = row.misses = 0
    match(row, 7, known, replace(empty, complete=False))
    assert row.misses == 0  # a kink may have been overlooked there


def test_a_place_among_crowded_kinks_is_no_miss() -> None:
    """Three kinks close together may have been taken for two."""
    net, rng = deep(6, 5, 4, 1, rng=3), np.random.default_rng(1)
    known, row = layers_of(net, 1), row_of(net, 1, 0)
    empty = a_line(known, rng, np.empty(0))
    t = float(predicted(row, known, empty)[0][0])
    for apart, misses in ((1e-5, 0), (0.3, 1)):
        kinks = t + apart * np.array([-1.0, 1.0])
        line = replace(empty, kinks=kinks, old=np.zeros(2, bool), owner=np.full(2, -1))
        assert line.is_crowded(t) == (misses == 0)
        one = replace(row, hits=0, misses=0)
        match(one, 7, known, line)
        assert (one.misses > 0) == (misses > 0)


def test_what_cannot_be_seen_is_no_miss() -> None:
    """Where all units of layer 2 are off, f is flat: true rows below predict in vain there."""
    net, rng = deep(6, 5, 4, 1, rng=10), np.random.default_rng(0)
    frame, nothing, flat = frame_of(net), layers_of(net, 0), 0
    rows = [row_of(net, 0, unit) for unit in range(5)]
    for _ in range(10):
        origin, direction = rng.standard_normal((2, 6))
        line = traced(frame, nothing, Segment(origin, direction, (-5.0, 5.0), 1.0))
        for i in np.flatnonzero(line.flat):
            places = np.linspace(*line.edges[i : i + 2], 12)[1:-1]
            assert (net.values(line.at(places), 1) == 0).all()
            flat += 1
        for number, row in enumerate(rows):
            match(row, number, nothing, line)
    assert flat > 5 and all(row.misses == 0 and row.hits > 3 for row in rows)


# ---------------------------------------------------------------- measured


@pytest.mark.parametrize("seed", SEEDS)
def test_measured_pieces_are_the_exact_ones(seed: int) -> None:
    net, rng = deep(6, 5, 4, 2, rng=seed), np.random.default_rng(seed)
    frame, number = frame_of(net), 0
    for layer in (0, 1):
        known = layers_of(net, layer)
        measuring = Measuring(frame, known, rng)
        for u in rng.standard_normal((10, 6)):
            room = float(layers_of(net, 2).state(u[None]).room[0])
            piece, (exact,) = measuring.at(u, room), pieces_at(net, layer, u[None])
            if piece is None:
                continue
            number += 1
            np.testing.assert_array_equal(piece.on, exact.on)
            assert np.abs(piece.g - exact.g).max() < 10 * piece.error + 1e-13
            there = piece.g @ piece.h[piece.on] + piece.k
            np.testing.assert_allclose(there, net(u[None])[0], atol=1e-12)
    assert number >= 10


def test_a_traced_line_has_the_kinks_of_all_layers() -> None:
    """And tells those of known units; a kink is placed to about 1e-9 of the line's scale."""
    net, rng, new = deep(6, 5, 4, 1, rng=1), np.random.default_rng(1), 0
    for _ in range(6):
        origin, direction = rng.standard_normal((2, 6))
        direction /= np.linalg.norm(direction)
        segment = Segment(origin, direction, (-5.0, 5.0), 1.0)
        line = traced(frame_of(net), layers_of(net, 1), segment)
        every = layers_of(net, 2).switches(origin, direction, -5.0, 5.0)
        known = layers_of(net, 1).switches(origin, direction, -5.0, 5.0)
        assert line.complete and line.old.any()
        new += int((~line.old).sum())
        for t in line.kinks:
            assert np.abs(every - t).min() < 1e-8
        for t in line.kinks[line.old]:
            assert np.abs(known - t).min() < 1e-8
        assert all(np.abs(known - t).min() > 1e-6 for t in line.kinks[~line.old])
    assert new > 0


# ---------------------------------------------------------------- looking


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wrong_row_is_refuted_and_a_true_one_is_not(seed: int) -> None:
    """The wrong one goes through a place beside a kink, turned: a kink there would be chance."""
    net, rng = deep(6, 5, 4, 1, rng=seed), np.random.default_rng(seed)
    frame, known = frame_of(net), layers_of(net, 1)
    for unit in range(4):
        if not shows(net, 1, unit):
            continue
        row = row_of(net, 1, unit, kink_of(net, 1, unit, rng))
        seen = [look(frame, known, row, rng) for _ in range(6)]
        assert seen.count(True) >= 3 and seen.count(False) <= 1
        place = row.place + 0.1 * rng.standard_normal(6)
        v = row.v + 0.3 * rng.standard_normal(len(row.v))
        v[-1] = -known.h(place[None])[0] @ v[:-1]
        seen = [look(frame, known, replace(row, v=v, place=place), rng) for _ in range(6)]
        assert seen.count(False) >= 3 and seen.count(True) <= 1
