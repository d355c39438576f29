"""Points beside the kinks of a deep network's units.

A unit of a deeper layer switches on a bent surface, another piece of a hyperplane in every cell of
the layers below. Its points are found along random lines (`cells.kinks_along`), near ones first:
where the outputs depend on the unit, one on the surface and one to either side, along the gradient
of what goes into the unit. A unit is asked about in several cells. Those for which no such place is
found are never seen to switch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.tolerances import (
    CELLS_A_KINK,
    CLEARLY,
    FAR_LINES,
    FARTHEST_BESIDE,
    NEAR_LINES,
    REACH_OF_REST,
    TINIEST,
)
from provenet.networks.any_network import AnyNetwork
from provenet.networks.cells import inputs_of_units, kinks_along, row_gradient, slopes

Line = tuple[Array, Array, float, float]
"""An origin, a direction of norm 1, and two places on it."""


def points_beside_kinks(
    network: AnyNetwork, allowed: Array, box: Box, rng: np.random.Generator
) -> tuple[Array, AnyArray]:
    """Points on every unit's bent surface and beside it, and whose they are.

    Units are counted through all layers from the inputs on.
    """
    first = np.cumsum([0, *network.widths])
    cells = np.zeros(network.units, dtype=int)
    points, units = [np.empty((0, network.features))], list[int]()
    for line in chain(near_lines(box, rng), _far(box, rng)):
        if cells.min(initial=CELLS_A_KINK) >= CELLS_A_KINK:
            break
        kinks = kinks_along(network, *line)
        switching = first[kinks.layers] + kinks.units
        _, once = np.unique(switching, return_index=True)  # one cell a line
        for k in once[cells[switching[once]] < CELLS_A_KINK]:
            x = line[0] + kinks.places[k] * line[1]
            own = _around(network, x, int(kinks.layers[k]), int(kinks.units[k]), allowed, box)
            if len(own) == 0:
                continue
            cells[switching[k]] += 1
            points.append(own)
            units += [int(switching[k])] * len(own)
    return np.vstack(points), np.array(units, dtype=int)


def near_lines(box: Box, rng: np.random.Generator) -> Iterator[Line]:
    """Segments between random points."""
    for _ in range(NEAR_LINES):
        a, b = box.sample(2, rng)
        length = float(np.linalg.norm(b - a))
        yield a, (b - a) / length, 0.0, length


def _far(box: Box, rng: np.random.Generator) -> Iterator[Line]:
    """Lines through random points that go far beyond them, or to the sides of the box."""
    for _ in range(FAR_LINES):
        a = box.sample(1, rng)[0]
        direction = rng.standard_normal(len(a)) * box.width
        direction /= np.linalg.norm(direction)
        far = REACH_OF_REST * float(np.linalg.norm(box.width))
        yield a, direction, *box.reach(a, direction, far)


def _around(
    network: AnyNetwork, x: Array, layer: int, unit: int, allowed: Array, box: Box
) -> Array:
    """A point of a unit's surface and one to either side; none where the unit does not show.

    Those beside it are as far as makes a unit that is not there show clearly, beyond the error
    allowed, in one output at least.
    """
    uphill = row_gradient(network, x, layer, unit)
    steepness = float(np.linalg.norm(uphill))
    z = inputs_of_units(network, x[None])
    worth = np.abs(slopes(network, z)[layer][0, :, unit])
    with np.errstate(divide="ignore"):
        beside = CLEARLY * float(np.min((allowed + TINIEST) / (worth * steepness)))
    if not beside <= FARTHEST_BESIDE * float(np.linalg.norm(box.width)):
        return np.empty((0, len(x)))
    x = x - float(z[layer][0, unit]) / steepness * (uphill / steepness)
    moved = x + np.array([0.0, -beside, beside])[:, None] * (uphill / steepness)
    return moved if box.contains(moved).all() else np.empty((0, len(x)))
