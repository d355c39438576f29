"""Inputs at which given units of a network are on, or off, as far as that can be had.

What goes into a unit is linear in every cell. From random inputs the one of the aims that is
farthest from being granted is granted in turn, by a step along its gradient that would just do (the
relaxation method for linear inequalities); cells change on the way, and the steps go on from there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.tolerances import (
    AIM_ENOUGH,
    AIM_ROOM,
    AIM_STEPS,
    AIM_STRETCH,
    ALONE,
    ALONE_LENGTHS,
    ALONE_STARTS,
    EPS,
    TINIEST,
)
from provenet.networks.network import Network
from provenet.networks.piecewise import inputs_of_units, row_gradients, sum_gradients


@dataclass(frozen=True)
class Aim:
    """A unit of a layer, counted from 0, that is to be on, or off."""

    layer: int
    unit: int
    on: bool = True


def aimed(network: Network, aims: list[Aim], starts: Array, box: Box) -> Array:
    """Those of the starting points that reach inputs where all aims are granted."""
    X = starts.copy()
    room = AIM_ROOM * float(np.linalg.norm(box.width)) / np.sqrt(X.shape[1])
    for _ in range(AIM_STEPS):
        lacking, steps = _nearest_grants(network, aims, X, room)
        open_ = np.flatnonzero(lacking.max(axis=1) > 0)
        if len(X) - len(open_) >= min(len(X), AIM_ENOUGH):
            break
        worst = lacking[open_].argmax(axis=1)
        X[open_] = box.nearest(X[open_] + AIM_STRETCH * steps[open_, worst])
    lacking, _ = _nearest_grants(network, aims, X, 0.0)
    return np.asarray(X[lacking.max(axis=1) <= 0])


def _nearest_grants(
    network: Network, aims: list[Aim], X: Array, room: float
) -> tuple[Array, Array]:
    """For each point and aim: how far it is from being granted, and the step that would do."""
    z = inputs_of_units(network, X)
    lacking, steps = [], []
    for aim in aims:
        sign = 1.0 if aim.on else -1.0
        uphill = sign * row_gradients(network, z, aim.layer, aim.unit)
        steepness = np.linalg.norm(uphill, axis=1)
        flat = steepness <= EPS * np.linalg.norm(network.affine_maps[aim.layer][0][aim.unit])
        steepness = np.where(flat, 1.0, steepness)
        away = room - sign * z[aim.layer][:, aim.unit] / steepness
        lacking.append(away)
        steps.append(np.where(flat, 0.0, away / steepness)[:, None] * uphill)
    return np.column_stack(lacking), np.stack(steps, axis=1)


def best_starts(network: Network, aims: list[Aim], X: Array, number: int) -> Array:
    """The points at which aims are nearest to being granted, beside what units usually get.

    So many of these, and as many from all others evenly.
    """
    z = inputs_of_units(network, X)
    levels = []
    for aim in aims:
        own = z[aim.layer][:, aim.unit]
        levels.append((1.0 if aim.on else -1.0) * own / (np.abs(own).mean() + TINIEST))
    order: AnyArray = np.argsort(-np.min(levels, axis=0))
    even = np.linspace(0, len(order) - 1, number).astype(int)
    return np.asarray(X[np.concatenate([order[:number], order[even]])])


def alone(network: Network, X: Array) -> Array:
    """Inputs at which units are on with as little else as can be, one for every unit.

    A further unit that feeds on some unit is on where that one alone is large, however rarely usual
    inputs switch it on. Where the first layer has no more units than features such inputs solve a
    linear system; else the best of X are led on to where more of the layer is the unit's.
    """
    parts = []
    for layer, z in enumerate(inputs_of_units(network, X)):
        if layer == 0 and z.shape[1] <= network.features:
            parts.append(_solved(*network.affine_maps[0]))
        else:
            best = np.argsort(-_shares(z), axis=0)[:ALONE_STARTS]
            parts.append(_led_on(network, layer, X[best]))
    return np.vstack(parts)


def _solved(W: Array, b: Array) -> Array:
    """Inputs at which one unit is far inside of its halfspace, and all others as far outside."""
    wanted = ALONE * (2 * np.eye(len(W)) - 1) * np.linalg.norm(W, axis=1)
    return np.asarray(np.linalg.lstsq(W, (wanted - b).T, rcond=None)[0].T)


def _led_on(network: Network, layer: int, starts: Array) -> Array:
    """From starts (number, units, features) up the units' shares of the layer: the best of each."""
    number, units, _ = starts.shape
    X, own = starts.reshape(number * units, -1), np.tile(np.arange(units), number)
    rows, best, highest = np.arange(len(X)), X.copy(), np.full(len(X), -1.0)
    size = np.linalg.norm(X, axis=1, keepdims=True)
    for length in (*ALONE_LENGTHS, 0.0):
        z = inputs_of_units(network, X)
        h = np.maximum(z[layer], 0.0)
        share = _shares(z[layer])[rows, own]
        better = share > highest
        best[better], highest[better] = X[better], share[better]
        weights = np.repeat(-1 / (h.sum(axis=1, keepdims=True) + TINIEST), units, axis=1)
        weights[rows, own] += 1 / (h[rows, own] + TINIEST)
        uphill = sum_gradients(network, z, layer, weights)
        X = X + length * size * uphill / (np.linalg.norm(uphill, axis=1, keepdims=True) + TINIEST)
        X *= size / (np.linalg.norm(X, axis=1, keepdims=True) + TINIEST)
    winners = highest.reshape(number, units).argmax(axis=0) * units + np.arange(units)
    return np.asarray(best[winners])


def _shares(z: Array) -> Array:
    """What each unit is of its layer's values together, where z goes into them."""
    h = np.maximum(z, 0.0)
    return np.asarray(h / (h.sum(axis=1, keepdims=True) + TINIEST))
