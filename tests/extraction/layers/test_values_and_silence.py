"""Missing weights told by answers; missing units by directions in which nothing may change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from deep_searches import deep
from layered_problems import frame_of, kink_of, layers_of, pieces_at, row_of
from provenet.extraction.layers.looks import look
from provenet.extraction.layers.pieces import seen_above
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.silence import asked_for_silence
from provenet.extraction.layers.stage import Stage
from provenet.extraction.layers.tolerances import HITS
from provenet.extraction.layers.top import TopFit
from provenet.extraction.layers.values import _linear_rest, rest_of_answers, told_by_values

SEEDS = range(6)
WELL = 1e-9
"""Weights from exact answers: rounding over values of at least 1e-4."""


def answered(net: pn.DeepNetwork, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    U = np.vstack([s * rng.standard_normal((300, net.features)) for s in (0.5, 1.0, 3.0)])
    return U, np.asarray(net(U)).reshape(len(U), -1)


def true_fit(net: pn.DeepNetwork, missing: tuple[int, int], *, taken: bool = False) -> TopFit:
    """The last layer for rows of norm 1, one of which lacks a weight; L may have taken it."""
    known = net.weights[1].copy()
    known[missing] = 0.0
    size = np.linalg.norm(known, axis=1)
    A, c = net.affine_maps[2]
    L = np.zeros((net.weights[1].shape[1], len(A)))
    if taken:
        i, j = missing
        L[j] = A[:, i] * net.weights[1][i, j]
    rows = known / size[:, None], net.biases[1] / size
    return TopFit(None, np.ones(1, dtype=bool), (A * size).T, L, np.asarray(c), *rows)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("taken", [False, True])
def test_a_missing_weight_is_told_by_answers(seed: int, taken: bool) -> None:
    """By units that are on where the weight matters, or by those that are off if L has it."""
    net, rng, told = deep(6, 5, 4, 1, rng=seed), np.random.default_rng(seed), 0
    U, Y = answered(net, rng)
    for unit in range(4):
        rows = [row_of(net, 1, k) for k in range(4)]
        true = rows[unit].v[2]
        rows[unit].v[2], rows[unit].cols[2] = 0.0, False
        fit = true_fit(net, (unit, 2), taken=taken)
        wider = told_by_values(layers_of(net, 1), rows, fit, U, Y)[unit]
        if wider.cols[2]:
            told += 1
            assert abs(wider.v[2] - true) < WELL * np.linalg.norm(wider.v)
    assert told > 0


def test_answers_that_do_not_agree_tell_nothing() -> None:
    """Another unit is missing as a whole: what it leaves is no multiple of the weight's unit."""
    net, rng = deep(6, 5, 4, 1, rng=1), np.random.default_rng(1)
    U, Y = answered(net, rng)
    rows = [row_of(net, 1, k) for k in range(4)]
    rows[0].v[2], rows[0].cols[2] = 0.0, False
    fit = true_fit(net, (0, 2))
    fit.A[1:] = 0.0
    wider = told_by_values(layers_of(net, 1), rows, fit, U, Y)[0]
    true = row_of(net, 1, 0).v[2]
    assert not wider.cols[2] or abs(wider.v[2] - true) < WELL


@pytest.mark.parametrize("seed", SEEDS)
def test_all_units_are_silent_and_a_missing_one_is_not(seed: int) -> None:
    net, rng = deep(8, 5, 4, 1, rng=seed), np.random.default_rng(seed)
    frame, known = frame_of(net), layers_of(net, 0)
    rows = [row_of(net, 0, k) for k in range(5)]
    U = rng.standard_normal((60, 8))
    assert asked_for_silence(frame, known, rows, np.ones(5), U, rng).silent.all()
    for unit in range(5):
        few = [row for k, row in enumerate(rows) if k != unit]
        found = asked_for_silence(frame, known, few, np.ones(4), U, rng)
        on = net.values(found.U, 0)[:, unit] > 0
        assert found.silent[~on].mean() > 0.8  # it may switch on within the step
        assert found.silent[on].mean() < 0.8


def deeper_row(net: pn.DeepNetwork, unit: int, rng: np.random.Generator) -> Row:
    """What a kink of layer 3 looks like from layer 1: it holds while layer 2 keeps still."""
    u = kink_of(net, 2, unit, rng)
    h = layers_of(net, 1).h(u[None])[0]
    on = net.values(u[None], 1)[0] > 0
    W, b = net.weights[2][unit] * on, net.biases[2][unit]
    v = np.append(W @ net.weights[1], b + W @ net.biases[1])
    assert abs(h @ v[:-1] + v[-1]) < 1e-9
    return replace(row_of(net, 1, 0), v=v, place=u)


def switching(net: pn.DeepNetwork, layer: int, rng: np.random.Generator) -> list[int]:
    """Units that are on for a fair part of the inputs."""
    on = net.values(rng.standard_normal((300, net.features)), layer) > 0
    return [int(k) for k in np.flatnonzero((on.mean(axis=0) > 0.1) & (on.mean(axis=0) < 0.9))]


def test_rows_of_deeper_units_fail_where_others_have_switched() -> None:
    """Nearly always: a unit that has switched may not reach the deeper one."""
    seen, vain = [], []
    for seed in SEEDS:
        net, rng = deep(8, 6, 5, 4, 1, rng=seed), np.random.default_rng(seed)
        frame, known = frame_of(net), layers_of(net, 1)
        rows = [row_of(net, 1, k, kink_of(net, 1, k, rng)) for k in switching(net, 1, rng)]
        for row in rows:
            others = [other for other in rows if other is not row]
            seen += [look(frame, known, row, rng, others, 1) for _ in range(3)]
        deeper = [deeper_row(net, k, rng) for k in switching(net, 2, rng)]
        vain += [look(frame, known, row, rng, rows, 1) for row in deeper]
    assert seen.count(True) > 20 * max(1, seen.count(False))
    assert vain.count(False) > 5 * max(1, vain.count(True))


def test_rows_of_deeper_units_are_not_confirmed_beside_each_other() -> None:
    """Each holds where another deeper one changes, so it must be looked at where many have."""
    true, deeper = [], []
    for seed in range(8):
        net, rng = deep(8, 6, 5, 4, 1, rng=seed), np.random.default_rng(seed)
        own = [row_of(net, 1, k, kink_of(net, 1, k, rng)) for k in switching(net, 1, rng)]
        others = [deeper_row(net, k, rng) for k in 2 * switching(net, 2, rng)]
        rows = [replace(row, hits=HITS) for row in (*own, *others)]
        stage = Stage(frame_of(net), layers_of(net, 1), rng, rows=rows)
        stage.confirm()
        true += [row.confirmed for row in rows[: len(own)]]
        deeper += [row.confirmed for row in rows[len(own) :]]
    assert np.mean(true) > 0.8
    assert np.mean(deeper) < 0.05


def test_a_look_for_a_row_that_is_known_poorly_does_not_refute_it() -> None:
    """Where the kink may lie beyond the points that are asked, nothing is seen and nothing said."""
    net, rng = deep(8, 6, 5, 1, rng=0), np.random.default_rng(0)
    frame, known = frame_of(net), layers_of(net, 1)
    row = row_of(net, 1, switching(net, 1, rng)[0])
    v = row.v * (1 + 1e-2 * rng.standard_normal(len(row.v)))
    seen = [look(frame, known, replace(row, v=v), rng) for _ in range(20)]
    unsure = replace(row, v=v, errors=np.full(len(v), 1e-2))
    assert seen.count(False) > 10
    assert [look(frame, known, unsure, rng) for _ in range(20)].count(False) == 0


def without(net: pn.DeepNetwork, units: list[int]) -> TopFit:
    """The true outputs of two hidden layers, if units of the second are missing."""
    A, c = net.affine_maps[-1]
    width = net.widths[0]
    kept = np.delete(np.arange(net.widths[1]), units)
    R, b = net.weights[1][kept], net.biases[1][kept]
    size = np.linalg.norm(R, axis=1)
    A, L = A[:, kept] * size, np.zeros((width, len(A)))
    return TopFit(None, np.ones(0, dtype=bool), A.T, L, np.asarray(c), R / size[:, None], b / size)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_unit_that_is_missing_is_told_by_the_rest_of_the_answers(seed: int, outputs: int) -> None:
    """All its weights, to rounding over what the answers leave."""
    net, rng = deep(5, 7, 4, outputs, rng=seed), np.random.default_rng(seed)
    unit = switching(net, 1, rng)[0]
    U, Y = answered(net, rng)
    off = net.values(U, 1)[:, unit] > 0
    fit = replace(without(net, [unit]), explained=~off)
    rows = [row_of(net, 1, k) for k in range(4) if k != unit]
    found, true = rest_of_answers(layers_of(net, 1), rows, fit, U, Y), row_of(net, 1, unit)
    assert found is not None
    v = true.v / np.linalg.norm(true.v)
    assert np.abs(found.v * np.sign(found.v @ v) / np.linalg.norm(found.v) - v).max() < WELL
    few = np.flatnonzero(off)[:4]  # nothing confirms what they tell
    fit = replace(fit, explained=np.zeros(4, dtype=bool))
    assert rest_of_answers(layers_of(net, 1), rows, fit, U[few], Y[few]) is None


def test_where_no_unit_below_is_on_nothing_is_told() -> None:
    """A constant that is left there is no row; it was an error once."""
    rng = np.random.default_rng(0)
    assert _linear_rest(np.zeros((40, 5)), np.ones((40, 1)), rng.standard_normal((40, 5))) is None


def test_what_two_units_make_together_has_no_kink() -> None:
    """Where both are on their sum is linear, too: a candidate, and looks refute it."""
    net, rng = deep(5, 7, 4, 1, rng=1), np.random.default_rng(1)
    missing = switching(net, 1, rng)[:2]
    U, Y = answered(net, rng)
    both = (net.values(U, 1)[:, missing] > 0).all(axis=1)
    rows = [row_of(net, 1, k) for k in range(4) if k not in missing]
    fit = replace(without(net, missing), explained=~both)
    found = rest_of_answers(layers_of(net, 1), rows, fit, U, Y)
    assert found is not None
    seen = [look(frame_of(net), layers_of(net, 1), found, rng) for _ in range(10)]
    assert seen.count(False) > 3 * seen.count(True)


@pytest.mark.parametrize("seed", SEEDS)
def test_pieces_measured_below_are_those_of_the_next_layer(seed: int) -> None:
    """The same gradients in other units, where the cell is clean; rounding over the condition."""
    net, rng = deep(8, 6, 5, 4, 2, rng=seed), np.random.default_rng(seed)
    U = rng.standard_normal((50, 8))
    lower, upper = pieces_at(net, 1, U), pieces_at(net, 2, U)
    clean = 0
    for before, after in zip(lower, upper, strict=True):
        found = seen_above(before, layers_of(net, 1), layers_of(net, 2), None)
        if found is None:
            continue
        clean += 1
        assert np.array_equal(found.on, after.on)
        assert np.allclose(found.g, after.g, rtol=0, atol=1e-8)
        assert np.allclose(found.k, after.k, rtol=0, atol=1e-8)
    assert clean > 5
    assert seen_above(None, layers_of(net, 1), layers_of(net, 2), None) is None
