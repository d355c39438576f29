"""Features of the inputs that show what a fitted network misses; `score` tests them.

What a map is for: *polynomials* and *waves* are smooth departures of any kind; *random units* are
what a missing unit looks like; *along units* are values of a unit's argument, where another
activation, a jump or two units in one show, and of the predictions, where clipped labels do; *near
kinks* is what two units leave that were taken for one; *linear regions* are where the fit has its
pieces; *places* are neighbourhoods, in few dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np

from provenet.certify.score import Features
from provenet.common.typing import TINY, AnyArray, Array
from provenet.networks.hermite import hermite_rows
from provenet.networks.network import Network


def features_of(network: Network, X: Array, rng: np.random.Generator) -> Features:
    """All maps of a network on standardised inputs: 100 to 1000 features, 100 MB at most."""
    most = int(np.clip(2e6 / len(X), 20, 200))
    maps: list[Callable[[Network, Array, np.random.Generator, int], Features]]
    maps = [polynomials, waves, random_units, along_units, near_kinks, linear_regions, places]
    return Features.joined([of(network, X, rng, most) for of in maps])


def polynomials(network: Network, X: Array, rng: np.random.Generator, most: int) -> Features:
    """Hermite polynomials of as high a degree as that allows, of many inputs some products."""
    d = X.shape[1]
    degree = max((k for k in (2, 3) if comb(k + d, d) <= most), default=1)
    rows = hermite_rows(X, degree)[1:].T
    parts = [Features([f"a polynomial of degree {degree}"] * rows.shape[1], rows)]
    if degree == 1:
        first, second = rng.integers(d, size=(2, most))
        product = X[:, first] * X[:, second]
        parts += [Features([f"x{i} x{j}" for i, j in zip(first, second, strict=True)], product)]
        parts += [Features([f"x{i}^2" for i in range(d)], X**2)]
    if degree < 3:
        parts.append(Features([f"x{i}^3" for i in range(d)], X**3))
    return Features.joined(parts)


def waves(network: Network, X: Array, rng: np.random.Generator, most: int) -> Features:
    """Two frequencies of each input."""
    which = rng.permutation(X.shape[1])[: max(1, most // 4)]
    parts = [
        Features([f"{wave.__name__}({k} x{i})" for i in which], wave(k * X[:, which]))
        for wave in (np.sin, np.cos)
        for k in (2, 4)
    ]
    return Features.joined(parts)


def random_units(network: Network, X: Array, rng: np.random.Generator, most: int) -> Features:
    """ReLU units in random directions, with their critical points at random samples."""
    count = max(1, most // 5)
    W = rng.standard_normal((count, X.shape[1]))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    b = -np.einsum("kd,kd->k", W, X[rng.integers(len(X), size=count)])
    return Features(["a further unit"] * count, np.maximum(X @ W.T + b, 0))


def along_units(network: Network, X: Array, rng: np.random.Generator, most: int) -> Features:
    """Bumps at seven quantiles of each unit's argument, and of the predictions; their tails."""
    columns = {
        f"along unit {name}": z for name, z in _arguments(network, X, rng, max(1, most // 8))
    }
    values = network(X).reshape(len(X), -1)
    columns |= {f"along the predictions of output {q}": v for q, v in enumerate(values.T)}
    names, parts = list[str](), list[Array]()
    for name, z in columns.items():
        size = max(float(z.std()), TINY)
        for quantile in np.quantile(z, (0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99)):
            names.append(name)
            parts.append(np.exp(-0.5 * ((z - quantile) / (0.4 * size)) ** 2))
        for tail in (z <= np.quantile(z, 0.02), z >= np.quantile(z, 0.98)):
            names.append(name)
            parts.append(tail.astype(float))
    return Features(names, np.column_stack(parts))


def near_kinks(network: Network, X: Array, rng: np.random.Generator, most: int) -> Features:
    """Bumps of two widths at each critical point, and the wider times each input."""
    if not network.activation.kinked:
        return Features([], np.empty((len(X), 0)))
    names, parts = list[str](), list[Array]()
    for name, z in _arguments(network, X, rng, max(1, most // (X.shape[1] + 2))):
        size = max(float(z.std()), TINY)
        wide, narrow = (np.exp(-0.5 * (z / (width * size)) ** 2) for width in (0.3, 0.05))
        names += [f"near the kink of unit {name}"] * (X.shape[1] + 2)
        parts += [wide[:, None], narrow[:, None], wide[:, None] * X]
    return Features(names, np.column_stack([np.empty((len(X), 0)), *parts]))


def linear_regions(
    network: Network, X: Array, rng: np.random.Generator, most: int, fewest: int = 16
) -> Features:
    """The largest regions in which the network is linear."""
    if not (network.activation.kinked and network.units):
        return Features([], np.empty((len(X), 0)))
    Z = np.column_stack([z for _, z in _arguments(network, X, rng, network.units)])
    _, region, count = np.unique(Z > 0, axis=0, return_inverse=True, return_counts=True)
    large = [k for k in np.argsort(-count)[: most // 4] if count[k] >= fewest]
    members = region.ravel()[:, None] == np.array(large, dtype=int)
    return Features(["a linear region"] * len(large), members.astype(float))


def places(
    network: Network, X: Array, rng: np.random.Generator, most: int, dimensions: int = 4
) -> Features:
    """Bumps at random samples, in few dimensions."""
    count = most // 5
    if X.shape[1] > dimensions:
        return Features([], np.empty((len(X), 0)))
    centres = X[rng.integers(len(X), size=count)]
    squares = np.sum((X[:, None] - centres) ** 2, axis=2)
    return Features(["a neighbourhood"] * count, np.exp(-0.5 * squares / 0.4**2))


def _arguments(
    network: Network, X: Array, rng: np.random.Generator, most: int
) -> list[tuple[str, AnyArray]]:
    """Arguments of some units of every layer, with their names."""
    found: list[tuple[str, AnyArray]] = []
    for number in range(network.layers):
        h = X if number == 0 else network.values(X, number - 1)
        W, b = network.affine_maps[number]
        layer = f" of layer {number + 1}" if network.layers > 1 else ""
        found += [(f"{i}{layer}", z) for i, z in enumerate((h @ W.T + b).T)]
    chosen = rng.permutation(len(found))[:most]
    return [found[i] for i in sorted(chosen)]
