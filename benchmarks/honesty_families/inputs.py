"""A network's own labels, or with plain noise, on inputs of every kind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import provenet as pn
from honesty_families.case import FRESH, Case, Draw, Family, recovery, small
from provenet.common.typing import Array

MakeInputs = Callable[[np.random.Generator, int, int], Array]
"""So many inputs of so many features."""


def on(make: MakeInputs, *, move: bool = False) -> Draw:
    """A small network on such inputs; every other time with noise of 0.05 of the spread.

    `move` places the kinks where the inputs are: else units may be always on.
    """

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = small(rng)
        n = int(rng.integers(200, 700))
        X = make(rng, n + FRESH, truth.features)
        if move:
            truth = _moved(truth, X[:n], rng)
        y = truth(X[:n])
        noise = 0.05 * (seed % 2) * float(np.std(y))
        return recovery(truth, X[:n], y + noise * rng.standard_normal(n), X[n:], seed)

    return draw


def _moved(truth: pn.Network, X: Array, rng: np.random.Generator) -> pn.Network:
    """The same directions on these inputs' scale, each on for a fair share of them."""
    scale = np.std(X, axis=0)
    weights = truth.weights / np.where(scale > 0, scale, 1.0)
    levels = [np.quantile(X @ w, rng.uniform(0.2, 0.8)) for w in weights]
    return truth.replace(weights=weights, biases=-np.array(levels))


def sphere(rng: np.random.Generator, n: int, features: int) -> Array:
    X = rng.standard_normal((n, features))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True) * 1.5)


def curve(rng: np.random.Generator, n: int, features: int) -> Array:
    """A closed curve through all features."""
    t = rng.uniform(0, 2 * np.pi, n)
    waves = 1 + np.arange(features) // 2
    return np.asarray(1.5 * np.cos(np.outer(t, waves) - np.pi / 2 * (np.arange(features) % 2)))


def plane(rng: np.random.Generator, n: int, features: int) -> Array:
    """In a subspace of one dimension less."""
    return np.asarray(
        rng.standard_normal((n, features - 1)) @ rng.standard_normal((features - 1, features))
    )


def almost_plane(rng: np.random.Generator, n: int, features: int) -> Array:
    thickness = float(10.0 ** rng.uniform(-9, -2))
    return plane(rng, n, features) + thickness * rng.standard_normal((n, features))


def one_hot(rng: np.random.Generator, n: int, features: int) -> Array:
    return np.eye(features)[rng.integers(0, features, n)].copy()


def one_hot_and_number(rng: np.random.Generator, n: int, features: int) -> Array:
    X = one_hot(rng, n, features)
    X[:, -1] = rng.standard_normal(n)
    return X


def binary(rng: np.random.Generator, n: int, features: int) -> Array:
    return rng.integers(0, 2, (n, features)).astype(float)


def mixed_scale(rng: np.random.Generator, n: int, features: int) -> Array:
    return np.asarray(rng.standard_normal((n, features)) * 10.0 ** rng.uniform(-6, 6, features))


def far_from_zero(rng: np.random.Generator, n: int, features: int) -> Array:
    centre = 10.0 ** rng.uniform(2, 8) * rng.choice([-1, 1], features)
    return np.asarray(centre + rng.standard_normal((n, features)))


def clusters(rng: np.random.Generator, n: int, features: int) -> Array:
    centres = 3 * rng.standard_normal((int(rng.integers(2, 6)), features))
    size = 10.0 ** rng.uniform(-4, 0)
    return np.asarray(
        centres[rng.integers(0, len(centres), n)] + size * rng.standard_normal((n, features))
    )


def repeats(rng: np.random.Generator, n: int, features: int) -> Array:
    """Few different inputs, each asked again and again."""
    kinds = rng.standard_normal((int(rng.integers(5, 120)), features))
    return np.asarray(kinds[rng.integers(0, len(kinds), n)])


def few_levels(rng: np.random.Generator, n: int, features: int) -> Array:
    return rng.integers(-1, 2, (n, features)).astype(float)


def heavy_tails(rng: np.random.Generator, n: int, features: int) -> Array:
    return rng.standard_t(1.5, (n, features))


def almost_equal(rng: np.random.Generator, n: int, features: int) -> Array:
    """Features that are copies of the first, but for a little."""
    apart = 10.0 ** rng.uniform(-6, -1)
    return np.asarray(rng.standard_normal((n, 1)) + apart * rng.standard_normal((n, features)))


def one_feature_constant(rng: np.random.Generator, n: int, features: int) -> Array:
    X = rng.standard_normal((n, features))
    X[:, 0] = 1.0
    return X


def walk(rng: np.random.Generator, n: int, features: int) -> Array:
    """Each row near to the one before, and fresh rows from anywhere on the way."""
    X = np.cumsum(rng.standard_normal((n, features)), axis=0) / np.sqrt(n) * 3
    return np.asarray(rng.permutation(X))


def rounded(rng: np.random.Generator, n: int, features: int) -> Array:
    return np.round(rng.standard_normal((n, features)), int(rng.integers(0, 3)))


def rounded_inputs_only(rng: np.random.Generator, seed: int) -> Case:
    """The labels are those of the inputs before they were rounded."""
    truth = small(rng)
    n = int(rng.integers(200, 700))
    X = rng.standard_normal((n + FRESH, truth.features))
    y = truth(X[:n])
    X = np.round(X, int(rng.integers(1, 7)))
    return recovery(truth, X[:n], y, X[n:], seed)


def positive(rng: np.random.Generator, n: int, features: int) -> Array:
    """Units of positive weights are always on."""
    return rng.exponential(1.0, (n, features))


FAMILIES = (
    Family("sphere", on(sphere), "inputs of one length"),
    Family("curve", on(curve), "inputs on a closed curve"),
    Family("plane", on(plane), "inputs in a subspace"),
    Family("almost a plane", on(almost_plane), "1e-9 to 1e-2 thick"),
    Family("one-hot", on(one_hot), "inputs of one 1"),
    Family("one-hot and a number", on(one_hot_and_number), "the number in the last feature"),
    Family("binary inputs", on(binary), "0 or 1"),
    Family("mixed scale", on(mixed_scale, move=True), "features of size 1e-6 to 1e6"),
    Family("far from zero", on(far_from_zero, move=True), "1e2 to 1e8 away"),
    Family("clusters", on(clusters, move=True), "2 to 5, of size 1e-4 to 1"),
    Family("repeats", on(repeats), "5 to 120 different inputs"),
    Family("few levels", on(few_levels), "-1, 0 or 1"),
    Family("heavy-tailed inputs", on(heavy_tails), "Student's t with 1.5 degrees"),
    Family("almost equal features", on(almost_equal), "1e-6 to 0.1 apart"),
    Family("constant feature", on(one_feature_constant), "the first is 1"),
    Family("walk", on(walk, move=True), "each input near another"),
    Family("rounded inputs", on(rounded), "0 to 2 decimals"),
    Family("inputs rounded later", rounded_inputs_only, "labels of inputs before rounding"),
    Family("positive inputs", on(positive), "exponential"),
)
