"""Models of several hidden layers that may be asked, and what only resembles them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

import provenet as pn
from honesty_families.case import Case, Family
from honesty_families.models import asked
from provenet.common.typing import Array


def two_layers(rng: np.random.Generator) -> pn.DeepNetwork:
    """6 to 8 features, two hidden layers that become narrower."""
    features = int(rng.integers(6, 9))
    widths = features, features - 2, features - 3, 1
    weights = [
        rng.standard_normal((above, below)) / np.sqrt(below) for below, above in pairwise(widths)
    ]
    biases = [0.3 * rng.standard_normal(above) for above in widths[1:]]
    return pn.DeepNetwork(weights, biases, "relu")


def _changed(
    rng: np.random.Generator, change: Callable[[list[Array], list[Array]], None]
) -> pn.DeepNetwork:
    net = two_layers(rng)
    weights, biases = [W.copy() for W in net.weights], [b.copy() for b in net.biases]
    change(weights, biases)
    return net.replace(weights=tuple(weights), biases=tuple(biases))


def plain(rng: np.random.Generator, seed: int) -> Case:
    """Anywhere, and in a box."""
    net = two_layers(rng)
    return asked(None, net, net.features, rng, seed, boxed=bool(seed % 2))


def odd_units(rng: np.random.Generator, seed: int) -> Case:
    """Units of the second layer that are dead, always on, twins, tiny, or switch far out."""

    def change(W: list[Array], b: list[Array]) -> None:
        kind = seed % 6
        if kind == 0:
            b[1][1] = -50.0
        elif kind == 1:
            b[1][1] = 50.0
        elif kind == 2:
            W[1][2], b[1][2] = W[1][1], b[1][1] + 10.0 ** rng.uniform(-9, -3)
        elif kind == 3:
            W[1][2] = W[1][1] + 10.0 ** rng.uniform(-9, -3) * rng.standard_normal(W[1].shape[1])
        elif kind == 4:
            W[2][:, 1] *= 10.0 ** rng.uniform(-12, -4)
        else:
            W[1][1], b[1][1] = -np.abs(W[1][1]), rng.uniform(0.01, 0.3)

    net = _changed(rng, change)
    return asked(None, net, net.features, rng, seed)


def _below(net: pn.DeepNetwork, X: Array) -> Array:
    return np.maximum(X @ net.weights[0].T + net.biases[0], 0.0)


def _above(net: pn.DeepNetwork, h: Array, activation: Callable[[Array], Array]) -> Array:
    z = h @ net.weights[1].T + net.biases[1]
    return np.asarray(activation(z) @ net.weights[2][0] + net.biases[2][0])


def _relu(z: Array) -> Array:
    return np.maximum(z, 0.0)


def not_layered(rng: np.random.Generator, seed: int) -> Case:
    """Skips, maxima, slopes below zero and clipped answers in and about a second layer."""
    net = two_layers(rng)
    v, slope = rng.standard_normal(net.features), 10.0 ** rng.uniform(-5, -1)
    kinds: tuple[Callable[[Array], Array], ...] = (
        lambda X: net(X) + X @ v,
        lambda X: net(X) + _relu(X @ v + 0.2),
        lambda X: net(X) + np.maximum(X[:, 0], X[:, 1]),
        lambda X: np.clip(net(X), -0.5, 0.5),
        lambda X: _above(net, _below(net, X), lambda z: np.where(z > 0, z, slope * z)),
        lambda X: _above(net, _below(net, X), lambda z: np.clip(z, -1.0, 1.0)),
        lambda X: _above(net, np.maximum(_below(net, X), _below(net, -X)), _relu),
    )
    return asked(None, kinds[seed % len(kinds)], net.features, rng, seed)


FAMILIES = (
    Family("deep model", plain, "two hidden layers, anywhere or in a box", 0.5),
    Family("odd units of a deep model", odd_units, "dead, always on, twins, tiny", 0.5),
    Family("nearly a deep model", not_layered, "skips, maxima, other slopes, clipped", 0.5),
)
