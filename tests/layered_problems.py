"""What the search for several layers works on, built from the network that it is to find."""

from __future__ import annotations

import numpy as np

import provenet as pn
from provenet.common.exceptions import BudgetSpent
from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.layers.known import Frame, KnownLayer, KnownLayers
from provenet.extraction.layers.pieces import Piece
from provenet.extraction.layers.rows import Row


class Asked:
    """Answers (n, outputs) of a network, counted; none beyond a budget."""

    def __init__(self, net: pn.DeepNetwork, budget: float = np.inf) -> None:
        self.net, self.budget, self.used = net, budget, 0

    def __call__(self, X: Array) -> Array:
        """Answers, if there are enough left."""
        if self.used + len(X) > self.budget:
            raise BudgetSpent(self.used, len(X))
        self.used += len(X)
        return np.asarray(self.net(X).reshape(len(X), -1))


def layers_of(net: pn.DeepNetwork, number: int) -> KnownLayers:
    """The first so many hidden layers, as if they had been found."""
    known = KnownLayers(net.features)
    for W, b in net.affine_maps[:number]:
        known = known.with_layer(KnownLayer.of(W, b))
    return known


def frame_of(net: pn.DeepNetwork) -> Frame:
    """Questions in the features themselves, anywhere."""
    return Frame(Asked(net), np.zeros(net.features), None, Box.of(None, None, net.features))


def pieces_at(net: pn.DeepNetwork, number: int, U: Array) -> list[Piece]:
    """The exact gradients of f in terms of layer `number`'s units at the rows of U."""
    known, found = layers_of(net, number), []
    *hidden, (A, c) = net.affine_maps[number:]
    for u in U:
        h = known.h(u[None])[0]
        on = h > 0 if number else np.ones(len(h), dtype=bool)
        g, k = np.eye(len(h)), np.zeros(len(h))
        for W, b in hidden:
            g, k = W @ g, W @ k + b
            active = g @ h + k > 0
            g, k = g * active[:, None], k * active
        found.append(Piece(u, h, on, (A @ g)[:, on], A @ k + c, 1e-15))
    return found


def row_of(
    net: pn.DeepNetwork,
    layer: int,
    unit: int,
    place: Array | None = None,
    cols: AnyArray | None = None,
    error: float = 1e-15,
) -> Row:
    """A unit's true row of norm 1, in some columns; 0 in the others."""
    W, b = net.affine_maps[layer]
    v = np.append(W[unit], b[unit]) / np.linalg.norm(W[unit])
    cols = np.ones(W.shape[1], dtype=bool) if cols is None else cols
    v[:-1][~cols] = 0.0
    where = np.zeros(net.features) if place is None else place
    return Row(v, cols, np.full(len(v), error), where, hits=10)


def kink_of(
    net: pn.DeepNetwork, layer: int, unit: int, rng: np.random.Generator, scale: float = 1.0
) -> Array:
    """A point where a unit switches, by bisection between two random points."""
    W, b = net.affine_maps[layer]
    known = layers_of(net, layer)

    def z(U: Array) -> Array:
        return np.asarray(known.h(U) @ W[unit] + b[unit])

    while True:
        U = scale * rng.standard_normal((64, net.features))
        values = z(U)
        if (values > 0).any() and (values < 0).any():
            break
    p, q = U[int(np.argmax(values))], U[int(np.argmin(values))]
    for _ in range(60):
        middle = (p + q) / 2
        p, q = (middle, q) if z(middle[None])[0] > 0 else (p, middle)
    return np.asarray((p + q) / 2)
