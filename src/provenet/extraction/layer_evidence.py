"""What a model says of its first layers, where the layers above them were not found."""

from __future__ import annotations

import numpy as np

from provenet.certify.asked_layers import LayersCandidate
from provenet.certify.layers_found import LayersFound
from provenet.common.exceptions import Spent
from provenet.common.typing import AnyArray, Array
from provenet.extraction.beside import near_lines
from provenet.extraction.box import Box
from provenet.extraction.questions import Ask
from provenet.extraction.tolerances import (
    BEND_SHOWS,
    BENDS_ASKED,
    CELLS_A_KINK,
    EPS,
    FLAT_ASKED,
    FLAT_SHOWS,
    RECURRING_STEP,
)
from provenet.networks.network import DeepNetwork
from provenet.networks.piecewise import inputs_of_units, kinks_along, row_gradients


def evidence_for_layers(
    found: LayersFound, ask: Ask, box: Box, rng: np.random.Generator, stopped: str
) -> LayersCandidate:
    """Whether answers bend where units switch, and stay where none changes."""
    bends = flat = np.empty(0, dtype=bool)
    network = found.network
    if network is not None and not stopped:
        try:
            bends, flat = _bends(network, ask, box, rng), _flat(network, ask, box, rng)
        except Spent:
            stopped = "Queries or time were over before the layers found were confirmed."
    return LayersCandidate(found, bends, flat, stopped)


def _bends(network: DeepNetwork, ask: Ask, box: Box, rng: np.random.Generator) -> AnyArray:
    """For some units, at a few places each: whether answers bend where they switch."""
    first = np.cumsum([0, *network.widths])
    some = rng.permutation(network.units)[:BENDS_ASKED]
    looks, bent = np.zeros(network.units, dtype=int), np.zeros(network.units, dtype=bool)
    for line in near_lines(box, rng):
        kinks = kinks_along(network, *line)
        switching = first[kinks.layers] + kinks.units
        asked = np.isin(switching, some) & ~bent[switching] & (looks[switching] < CELLS_A_KINK)
        _, once = np.unique(switching, return_index=True)
        chosen = [k for k in once if asked[k]]
        if not chosen:
            continue
        X = line[0] + kinks.places[chosen][:, None] * line[1]
        z = inputs_of_units(network, X)
        uphill = np.array(
            [
                row_gradients(network, z, kinks.layers[k], kinks.units[k])[place]
                for place, k in enumerate(chosen)
            ]
        )
        looks[switching[chosen]] += 1
        bent[switching[chosen]] |= _bend(ask, X, uphill, box)
    return np.asarray(bent[some[looks[some] > 0]])


def _bend(ask: Ask, X: Array, uphill: Array, box: Box) -> AnyArray:
    """Whether second differences along the gradients stand clear of rounding."""
    length = np.maximum(np.linalg.norm(uphill, axis=1, keepdims=True), EPS)
    step = RECURRING_STEP * uphill / length * box.width
    points = np.stack([box.nearest(X - step), X, box.nearest(X + step)], axis=1)
    values = ask(points.reshape(-1, X.shape[1])).reshape(len(X), 3, -1)
    left = np.abs(values[:, 0] - 2 * values[:, 1] + values[:, 2]).max(axis=1)
    return np.asarray(left > BEND_SHOWS * EPS * np.abs(values).max(axis=(1, 2)))


def _flat(network: DeepNetwork, ask: Ask, box: Box, rng: np.random.Generator) -> AnyArray:
    """For steps that change no unit of the last layer: whether they change no answer either."""
    found = []
    for x in box.sample(FLAT_ASKED, rng):
        past = _past_all_units(network, x, rng.standard_normal(len(x)))
        if past is None:
            continue
        step = RECURRING_STEP * float(box.width.min())
        other = rng.standard_normal(len(x))
        moves = step * np.array([0 * x, past, other / np.linalg.norm(other)])
        values = ask(box.nearest(x + moves)).reshape(3, -1)
        change, ordinary = np.abs(values[1:] - values[0]).max(axis=1)
        rounding = BEND_SHOWS * EPS * float(np.abs(values).max())
        found.append(change <= FLAT_SHOWS * ordinary + rounding)
    return np.array(found, dtype=bool)


def _past_all_units(network: DeepNetwork, x: Array, direction: Array) -> Array | None:
    """A direction in which no unit of the last layer changes; None where every one does."""
    z = inputs_of_units(network, x[None])
    J = network.affine_maps[0][0]
    for (W, _), below in zip(network.affine_maps[1:-1], z, strict=False):
        J = W[:, below[0] > 0] @ J[below[0] > 0]
    J = J[z[-1][0] > 0]
    if len(J) >= len(x):
        return None
    Q, _ = np.linalg.qr(J.T)
    past = direction - Q @ (Q.T @ direction)
    past -= Q @ (Q.T @ past)
    return np.asarray(past / np.linalg.norm(past))
