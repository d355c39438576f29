"""Rows told by walks along a unit's surface, where the units below depend on each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import provenet as pn
from deep_searches import deep
from layered_problems import frame_of, kink_of, layers_of, row_of
from provenet.common.typing import Array
from provenet.extraction.layers.pieces import Measuring
from provenet.extraction.layers.walks import KinkInCell, _goes_through, kink_in_cell, walked_row

WELL = 1e-6
"""Of a direction: slopes are known to 1e-9 and better, and equations tell a row if their second
smallest singular value is 1e-3."""

KINKS_A_UNIT, LEAST_TOLD = 3, 5
"""Kinks that are tried, and how many of those of three networks tell a row at least."""


def kink_between(measuring: Measuring, u: Array, rng: np.random.Generator) -> KinkInCell | None:
    """The kink at a point, from gradients on both sides of it."""
    known = measuring.known
    gap = min(0.01, float(known.state(u[None]).room[0])) / 2
    way = rng.standard_normal(len(u))
    way *= gap / np.linalg.norm(way)
    before, after = (measuring.in_any_cell(u + side * way, gap) for side in (-1, 1))
    if before is None or after is None or before.span is None:
        return None
    return kink_in_cell(known, before, after, u)


def kinks_where_units_depend(
    net: pn.DeepNetwork, layer: int, seed: int
) -> Iterator[tuple[Measuring, int, KinkInCell]]:
    """Kinks of units that switch often, in cells that are not clean."""
    rng, known = np.random.default_rng(seed), layers_of(net, layer)
    measuring = Measuring(frame_of(net), known, rng)
    switches = net.values(rng.standard_normal((500, net.features)), layer) > 0
    for unit in np.flatnonzero(np.abs(switches.mean(axis=0) - 0.5) < 0.45).tolist():
        for _ in range(KINKS_A_UNIT):
            kink = kink_between(measuring, kink_of(net, layer, unit, rng), rng)
            if kink is not None:
                yield measuring, unit, kink


SECRETS = [deep(4, 8, 8, 6, 1, rng=seed) for seed in range(3)]
"""Four coordinates below eight units: a cell with five of them on tells no row by itself."""


def test_walks_tell_rows_where_units_depend_on_each_other() -> None:
    told = 0
    for seed, net in enumerate(SECRETS):
        for measuring, unit, kink in kinks_where_units_depend(net, 2, seed):
            row = walked_row(measuring, kink, measuring.rng)
            if row is None:
                continue
            v, true = row.v[row.told], row_of(net, 2, unit).v[row.told]
            cosine = abs(float(v @ true)) / np.linalg.norm(v) / np.linalg.norm(true)
            assert 1 - cosine < WELL**2
            told += 1
    assert told >= LEAST_TOLD


def test_equations_of_a_kink_hold_for_its_row() -> None:
    seen = 0
    for seed, net in enumerate(SECRETS):
        for _, unit, kink in kinks_where_units_depend(net, 2, seed):
            v = row_of(net, 2, unit).v
            assert np.abs(kink.E @ v).max() < WELL * np.linalg.norm(v)
            assert len(kink.E) < kink.on.sum()
            seen += 1
    assert seen >= LEAST_TOLD


def test_a_surface_goes_through_the_points_on_it_alone() -> None:
    across, along = np.eye(4)[0], np.eye(4)[1]
    kink = KinkInCell(np.zeros(4), across, np.empty((0, 5)), np.ones(4, dtype=bool), 1e-12)
    assert _goes_through(kink, 3 * along)
    assert not _goes_through(kink, 3 * along + 1e-4 * across)
    assert _goes_through(replace(kink, error=1e-4), 3 * along + 1e-4 * across)
