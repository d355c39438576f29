"""Points beside the kinks of a deep network's units.

A unit of a deeper layer switches on a bent surface, another piece of a hyperplane in every cell of
the layers below. Its points are found along random lines (`cells.kinks_along`), near ones first:
where the outputs depend on the unit, one on the surface and one to either side, along the gradient
of what goes into the unit. A unit is asked about in several cells. One that is met too rarely is
aimed at: between an input where it is on and one where it is off it switches. Those for which no
such place is found either are never seen to switch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.aiming import Aim, aimed, best_starts
from provenet.extraction.box import Box
from provenet.extraction.questions import most_rows
from provenet.extraction.tolerances import (
    AIM_AMONG,
    AIM_STARTS,
    CELLS_A_KINK,
    CLEARLY,
    FAR_LINES,
    FARTHEST_BESIDE,
    NEAR_LINES,
    REACH_OF_REST,
    TINIEST,
)
from provenet.networks.network import Network
from provenet.networks.piecewise import inputs_of_units, kinks_along, row_gradients, slopes

Line = tuple[Array, Array, float, float]
"""An origin, a direction of norm 1, and two places on it."""


def points_beside_kinks(
    network: Network,
    allowed: Array,
    box: Box,
    rng: np.random.Generator,
    between: Callable[[], None] = lambda: None,
) -> tuple[Array, AnyArray]:
    """Points on every unit's bent surface and beside it, and whose they are.

    Units are counted through all layers from the inputs on. `between` is called before each line:
    it may raise.
    """
    found = _BesideKinks(network, allowed, box)
    for line in chain(near_lines(box, rng), _far(box, rng)):
        if not found.open.any():
            break
        between()
        found.look_along(line)
    starts = (
        box.sample(most_rows(AIM_AMONG, network.features), rng) if found.open.any() else np.empty(0)
    )
    for unit in np.flatnonzero(found.open):
        between()
        for line in _through(network, int(unit), starts, box):
            found.look_along(line)
    return np.vstack(found.points), np.array(found.units, dtype=int)


class _BesideKinks:
    """Points beside kinks, as lines are looked along."""

    def __init__(self, network: Network, allowed: Array, box: Box) -> None:
        self.network, self.allowed, self.box = network, allowed, box
        self.first = np.cumsum([0, *network.widths])
        self.cells = np.zeros(network.units, dtype=int)
        self.points, self.units = [np.empty((0, network.features))], list[int]()

    @property
    def open(self) -> AnyArray:
        """Which units are to be looked for in further cells."""
        return np.asarray(self.cells < CELLS_A_KINK)

    def look_along(self, line: Line) -> None:
        """Take at most one place of every unit that is open."""
        kinks = kinks_along(self.network, *line)
        switching = self.first[kinks.layers] + kinks.units
        _, once = np.unique(switching, return_index=True)
        for k in once[self.open[switching[once]]]:
            x = line[0] + kinks.places[k] * line[1]
            unit = int(kinks.layers[k]), int(kinks.units[k])
            own = _around(self.network, x, *unit, self.allowed, self.box)
            if len(own):
                self.cells[switching[k]] += 1
                self.points.append(own)
                self.units += [int(switching[k])] * len(own)


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


def _through(network: Network, unit: int, X: Array, box: Box) -> Iterator[Line]:
    """Segments on which a unit switches, between inputs that are aimed at."""
    layer = int(np.searchsorted(np.cumsum(network.widths), unit, side="right"))
    number = unit - int(np.sum(network.widths[:layer]))
    sides = []
    for on in (True, False):
        aims = [Aim(layer, number, on)]
        sides.append(aimed(network, aims, best_starts(network, aims, X, AIM_STARTS), box))
    for a, b in zip(*sides, strict=False):
        length = float(np.linalg.norm(b - a))
        yield a, (b - a) / length, 0.0, length


def _around(network: Network, x: Array, layer: int, unit: int, allowed: Array, box: Box) -> Array:
    """A point of a unit's surface and one to either side; none where the unit does not show.

    Those beside it are as far as makes a unit that is not there show clearly, beyond the error
    allowed, in one output at least.
    """
    z = inputs_of_units(network, x[None])
    uphill = row_gradients(network, z, layer, unit)[0]
    steepness = float(np.linalg.norm(uphill))
    worth = np.abs(slopes(network, z)[layer][0, :, unit])
    with np.errstate(divide="ignore"):
        beside = CLEARLY * float(np.min((allowed + TINIEST) / (worth * steepness)))
    if not beside <= FARTHEST_BESIDE * float(np.linalg.norm(box.width)):
        return np.empty((0, len(x)))
    x = x - float(z[layer][0, unit]) / steepness * (uphill / steepness)
    moved = x + np.array([0.0, -beside, beside])[:, None] * (uphill / steepness)
    return moved if box.contains(moved).all() else np.empty((0, len(x)))
