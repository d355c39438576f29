"""Weights told by walks along a surface, and signs told by the surfaces above."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from deep_searches import deep
from layered_problems import frame_of, kink_of, layers_of, pieces_at, row_of
from provenet.common.typing import Array
from provenet.extraction.layers.filling import completed
from provenet.extraction.layers.known import KnownLayers
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.surfaces import Surface, agreeing, signs_from, surface_through

WELL = 1e-8
"""A weight filled: the kink's place, to 1e-13, over how far beyond the crossing it lies (1e-4 at
least), with a factor of 10; and each unit passed on the way may add as much."""


def partial(net: pn.DeepNetwork, unit: int, rng: np.random.Generator) -> Row | None:
    """A row of layer 2 that lacks what its kink does not tell: the units that are off there."""
    for _ in range(20):
        u = kink_of(net, 1, unit, rng)
        cols = layers_of(net, 1).h(u[None])[0] > 0
        if 1 < cols.sum() < len(cols):
            return row_of(net, 1, unit, u, cols)
    return None


@pytest.mark.parametrize("seed", range(6))
def test_a_filled_weight_is_the_true_one(seed: int) -> None:
    net, rng = deep(6, 5, 4, 1, rng=seed), np.random.default_rng(seed)
    frame, known, filled = frame_of(net), layers_of(net, 1), 0
    for unit in range(4):
        switches = net.values(rng.standard_normal((500, 6)), 1)[:, unit] > 0
        row = partial(net, unit, rng) if 0.05 < switches.mean() < 0.95 else None
        if row is None:
            continue
        wider = completed(frame, known, row, rng, 20)
        filled += int(wider.cols.sum() - row.cols.sum())
        true = row_of(net, 1, unit).v
        told = wider.told
        assert np.abs(wider.v - true)[told].max() < WELL
        assert (wider.v[~told] == 0).all()
        assert np.abs(wider.values(known.h(wider.place[None]))) < WELL  # it is on its surface
    assert filled > 0


def test_nothing_is_filled_along_a_surface_that_is_not_there() -> None:
    """Beyond a crossing no kink confirms the weight."""
    net, rng = deep(6, 5, 4, 1, rng=1), np.random.default_rng(1)
    frame, known = frame_of(net), layers_of(net, 1)
    for unit in range(4):
        row = partial(net, unit, rng)
        if row is None:
            continue
        v = row.v + 0.3 * rng.standard_normal(len(row.v)) * row.told
        v[-1] = -known.h(row.place[None])[0] @ v[:-1]
        wrong = replace(row, v=v)
        np.testing.assert_array_equal(completed(frame, known, wrong, rng, 10).cols, row.cols)


# ---------------------------------------------------------------- surfaces

EXPANDING = [deep(4, 7, 5, 1, rng=seed) for seed in (8, 11, 13, 15)]
"""More units than inputs, each on for a fair part of them."""


def turned(net: pn.DeepNetwork, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """The first layer's rows of norm 1 with random signs, their biases, and the true signs."""
    (W, b), size = net.affine_maps[0], np.linalg.norm(net.weights[0], axis=1)
    sigma = rng.choice([-1.0, 1.0], len(W))
    return sigma[:, None] * W / size[:, None], sigma * b / size, sigma


def surface_row(net: pn.DeepNetwork, unit: int, rng: np.random.Generator) -> Row:
    """What one kink of layer 2 tells in terms of the inputs: the row where no unit switches."""
    u = kink_of(net, 1, unit, rng)
    state = layers_of(net, 1).state(u[None])
    r = net.weights[1][unit] @ state.J[0]
    v = np.append(r, -r @ u) / np.linalg.norm(r)
    return Row(v, np.ones(4, dtype=bool), np.full(5, 1e-15), u)


def surfaces(
    net: pn.DeepNetwork, R: Array, b: Array, rng: np.random.Generator
) -> list[tuple[int, Surface]]:
    """Those that could be followed, and the units whose they are."""
    frame, nothing, found = frame_of(net), KnownLayers(4), []
    for unit in range(5):
        surface = surface_through(frame, nothing, R, b, surface_row(net, unit, rng), rng)
        if surface is not None:
            found.append((unit, surface))
    return found


@pytest.mark.parametrize("number", range(4))
def test_surfaces_above_tell_signs_and_rows(number: int) -> None:
    net, rng = EXPANDING[number], np.random.default_rng(number)
    R, b, sigma = turned(net, rng)
    followed = surfaces(net, R, b, rng)
    found = [surface for _, surface in followed]
    assert len(found) >= 2
    told = signs_from(found, R)
    assert told is not None
    np.testing.assert_array_equal(told, sigma)
    assert agreeing(found, R, sigma).all()
    size = np.linalg.norm(net.weights[0], axis=1)
    for unit, surface in followed:
        row = surface.row(b, sigma).v
        true = np.append(net.weights[1][unit] * size, net.biases[1][unit])
        assert abs(abs(row @ true) / (np.linalg.norm(row) * np.linalg.norm(true)) - 1) < WELL
        np.testing.assert_allclose(
            row / np.linalg.norm(row), np.sign(row @ true) * true / np.linalg.norm(true), atol=1e-7
        )


def test_wrong_signs_or_too_few_surfaces_do_not_agree() -> None:
    net, rng = EXPANDING[0], np.random.default_rng(0)
    R, b, sigma = turned(net, rng)
    found = [surface for _, surface in surfaces(net, R, b, rng)]
    assert signs_from(found[:1], R) is None  # 4 equations for 7 signs
    for unit in range(7):
        wrong = sigma.copy()
        wrong[unit] *= -1
        matters = np.array([abs(f.c[unit]) > 0.05 for f in found])
        assert not agreeing(found, R, wrong)[matters].any()
    strange = replace(found[0], r=found[0].r + 0.3 * rng.standard_normal(4))
    assert signs_from([strange, found[1]], R) is None


def test_pieces_of_the_problem_are_consistent() -> None:
    """The tests' own kinks are kinks: the exact gradients on both sides differ."""
    net, rng = EXPANDING[0], np.random.default_rng(0)
    row = surface_row(net, 0, rng)
    step = 1e-7 * row.v[:-1]
    before, after = pieces_at(net, 0, np.array([row.place - step, row.place + step]))
    jump = (after.g - before.g)[0]
    assert abs(abs(jump @ row.v[:-1]) / np.linalg.norm(jump) - 1) < 1e-9
