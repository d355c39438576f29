"""Where a network of kinked units is linear, and what each unit is worth there.

In a cell every unit of every layer is on or off, and the network is linear. `slopes` are the
derivatives of the outputs by the values of the units, `row_gradients` are those of what goes into a
unit by the inputs, `sum_gradients` those of sums of a layer's values. Along a line the cells are
intervals: `kinks_along` finds their ends a layer at a time. What goes into a layer is linear
between the kinks of the layers below, so each of its units switches at most once between two of
them, where the line through its two values crosses zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.networks.network import Network


def inputs_of_units(network: Network, X: Array) -> list[Array]:
    """What goes into the units of every hidden layer: (n, units) each."""
    found, h = [], np.asarray(X, dtype=float)
    for W, b in network.affine_maps[:-1]:
        found.append(h @ W.T + b)
        h = network.activation(found[-1])
    return found


def slopes(network: Network, z: list[Array]) -> list[Array]:
    """Derivatives of the outputs by the values of every layer's units: (n, outputs, units) each."""
    A, _ = network.affine_maps[-1]
    above = np.broadcast_to(A, (len(z[-1]), *A.shape))
    found = [above]
    for (W, _), own in zip(network.affine_maps[-2:0:-1], z[:0:-1], strict=True):
        above = (above * network.activation.derivative(own)[:, None, :]) @ W
        found.append(above)
    return found[::-1]


def gradient(network: Network, x: Array, output: int) -> Array:
    """Of one output by the inputs, at a point."""
    z = inputs_of_units(network, x[None])
    by_units = slopes(network, z)[0][0, output] * network.activation.derivative(z[0][0])
    linear = 0.0 if network.linear is None else np.atleast_2d(network.linear)[output]
    return np.asarray(by_units @ network.affine_maps[0][0] + linear)


def row_gradients(network: Network, z: list[Array], layer: int, unit: int) -> Array:
    """Of what goes into a unit by the inputs, at points where z goes into all: (n, features)."""
    own = network.affine_maps[layer][0][unit]
    row = np.broadcast_to(own, (len(z[0]), len(own)))
    return row if layer == 0 else sum_gradients(network, z, layer - 1, row)


def sum_gradients(network: Network, z: list[Array], layer: int, weights: Array) -> Array:
    """Of sums of a layer's values, weights (n, units), by the inputs: (n, features)."""
    row = weights
    for number in range(layer, -1, -1):
        row = (row * network.activation.derivative(z[number])) @ network.affine_maps[number][0]
    return np.asarray(row)


@dataclass(frozen=True)
class Kinks:
    """Where units switch along a line, in order."""

    places: Array
    layers: AnyArray
    """Of each, the layer of the unit that switches, counted from 0."""
    units: AnyArray
    """Its number in that layer."""

    def __len__(self) -> int:
        """How many."""
        return len(self.places)


def kinks_along(
    network: Network, origin: Array, direction: Array, low: float, high: float
) -> Kinks:
    """All places where some unit of some layer switches between two places on a line."""
    if not low < high:
        return Kinks(np.empty(0), np.empty(0, dtype=int), np.empty(0, dtype=int))
    T = np.array([low, high])
    found: list[tuple[Array, AnyArray, AnyArray]] = []
    h = np.empty(0)
    for number, (W, b) in enumerate(network.affine_maps[:-1]):
        z = np.outer(T, W @ direction) + (W @ origin + b) if number == 0 else h @ W.T + b
        places, units = _crossings(T, z)
        found.append((places, np.full(len(places), number), units))
        T, z = _refined(T, z, places)
        h = network.activation(z)
    places, layers, units = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(places, kind="stable")
    return Kinks(places[order], layers[order], units[order])


def _crossings(T: Array, z: Array) -> tuple[Array, AnyArray]:
    """Where columns that are linear between the places T change their sign, and which do."""
    rows, units = np.nonzero((z[:-1] > 0) != (z[1:] > 0))
    before, after = z[rows, units], z[rows + 1, units]
    return T[rows] + (T[rows + 1] - T[rows]) * before / (before - after), units


def _refined(T: Array, z: Array, places: Array) -> tuple[Array, Array]:
    """The same columns at further places, too."""
    every = np.unique(np.concatenate([T, places]))
    interval = np.clip(np.searchsorted(T, every, side="right") - 1, 0, len(T) - 2)
    share = (every - T[interval]) / (T[interval + 1] - T[interval])
    return every, z[interval] + share[:, None] * (z[interval + 1] - z[interval])
