"""A network's labels with noise of every kind, with widths that noise hides, with false advice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from honesty_families.case import (
    Case,
    Draw,
    Family,
    gaussian,
    network,
    recovery,
    shows,
    small,
    uniform_in_log,
)
from provenet.common.typing import Array

MakeNoise = Callable[[np.random.Generator, Array], Array]
"""Noise of variance about one for inputs X."""
MODERATE = 0.1
"""Noise, over the spread of the labels, at which a success must come."""


def normal(rng: np.random.Generator, X: Array) -> Array:
    return rng.standard_normal(len(X))


def heteroscedastic(rng: np.random.Generator, X: Array) -> Array:
    size = 0.2 + np.abs(X[:, 0])
    return np.asarray(size * rng.standard_normal(len(X)))


def by_label_side(rng: np.random.Generator, X: Array) -> Array:
    """Ten times larger on one side of a plane."""
    return np.asarray(np.where(X[:, 1] > 0.5, 2.0, 0.2) * rng.standard_normal(len(X)))


def correlated(rng: np.random.Generator, X: Array) -> Array:
    """Each is 0.8 of the one before, and something new."""
    fresh, noise = rng.standard_normal(len(X)), np.empty(len(X))
    noise[0] = fresh[0]
    for i in range(1, len(X)):
        noise[i] = 0.8 * noise[i - 1] + 0.6 * fresh[i]
    return noise


def discrete(rng: np.random.Generator, X: Array) -> Array:
    return rng.choice([-1.0, 1.0], len(X))


def mostly_none(rng: np.random.Generator, X: Array) -> Array:
    """Nine of ten labels have none."""
    return np.asarray(rng.standard_normal(len(X)) * (rng.random(len(X)) < 0.1) * np.sqrt(10))


def heavy_tailed(rng: np.random.Generator, X: Array) -> Array:
    return np.asarray(rng.standard_t(3, len(X)) / np.sqrt(3))


def skewed(rng: np.random.Generator, X: Array) -> Array:
    return np.asarray(rng.exponential(1.0, len(X)) - 1.0)


def uniform(rng: np.random.Generator, X: Array) -> Array:
    return rng.uniform(-np.sqrt(3), np.sqrt(3), len(X))


def noisy(make: MakeNoise, low: float, high: float, easy: bool = False) -> Draw:
    """A small network under such noise, its size a share of the labels' spread.

    Where it is `easy` for least squares a success must come if the noise is moderate.
    """

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = small(rng)
        X, fresh = gaussian(rng, truth, int(rng.integers(200, 1000)))
        size = uniform_in_log(rng, low, high)
        y = truth(X) + size * float(np.std(truth(X))) * make(rng, X)
        due = easy and size <= MODERATE and shows(truth, X[::2])
        return recovery(truth, X, y, fresh, seed, expected=due)

    return draw


def plain(rng: np.random.Generator, seed: int) -> Case:
    truth = network(rng, int(rng.integers(3, 9)), int(rng.integers(1, 5)))
    X, fresh = gaussian(rng, truth, 10 * truth.free_parameters)
    return recovery(truth, X, truth(X), fresh, seed, expected=shows(truth, X))


def few_samples(rng: np.random.Generator, seed: int) -> Case:
    truth = small(rng)
    X, fresh = gaussian(rng, truth, int(rng.uniform(1.0, 3.0) * truth.free_parameters) + 2)
    noise = rng.choice([0.0, 0.05, 0.3]) * np.std(truth(X))
    return recovery(truth, X, truth(X) + noise * normal(rng, X), fresh, seed)


def proportional(rng: np.random.Generator, seed: int) -> Case:
    truth = small(rng)
    X, fresh = gaussian(rng, truth, int(rng.integers(200, 1000)))
    factor = 1 + uniform_in_log(rng, 1e-8, 0.3) * normal(rng, X)
    return recovery(truth, X, truth(X) * factor, fresh, seed)


def nothing_but_noise(rng: np.random.Generator, seed: int) -> Case:
    features = int(rng.integers(2, 7))
    X = rng.standard_normal((4500, features))
    n = int(rng.integers(100, 500))
    y = rng.standard_normal(n) + rng.uniform(-1, 1)
    return recovery(None, X[:n], y, X[n:], seed, mean=lambda Z: np.zeros(len(Z)))


def missed_unit(features: int, units: int, noise: float) -> Draw:
    """Many samples, much noise: a unit is easily missed."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = network(rng, features, units)
        X, fresh = gaussian(rng, truth, 5000)
        y = truth(X) + noise * np.std(truth(X)) * normal(rng, X)
        return recovery(truth, X, y, fresh, seed, budget=6.0)

    return draw


def close_pair(rng: np.random.Generator, seed: int) -> Case:
    features = int(rng.integers(3, 6))
    base = network(rng, features, int(rng.integers(1, 3)))
    twin = base.weights[0] + uniform_in_log(rng, 0.1, 0.5) * rng.standard_normal(features)
    twin /= np.linalg.norm(twin)
    truth = base.replace(
        weights=np.vstack([base.weights, twin]),
        biases=np.append(base.biases, base.biases[0] + rng.uniform(-0.3, 0.3)),
        output_weights=np.append(base.output_weights, base.output_weights[0] * rng.uniform(0.5, 1)),
    )
    X, fresh = gaussian(rng, truth, 1000)
    y = truth(X) + uniform_in_log(rng, 0.01, 0.1) * np.std(truth(X)) * normal(rng, X)
    return recovery(truth, X, y, fresh, seed, budget=3.0)


def false_noise(low: float, high: float) -> Draw:
    """Told a noise that is so many times the true one."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = small(rng)
        X, fresh = gaussian(rng, truth, int(rng.integers(200, 800)))
        noise = uniform_in_log(rng, 1e-3, 0.2) * float(np.std(truth(X)))
        told = noise * uniform_in_log(rng, low, high)
        y = truth(X) + noise * normal(rng, X)
        return recovery(truth, X, y, fresh, seed, noise=told)

    return draw


def false_units(change: int) -> Draw:
    """Told so many units more than there are; without noise every other time."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = network(rng, int(rng.integers(3, 6)), int(rng.integers(2, 4)))
        X, fresh = gaussian(rng, truth, int(rng.integers(200, 800)))
        noise = (seed % 2) * uniform_in_log(rng, 0.01, 0.3) * float(np.std(truth(X)))
        y = truth(X) + noise * normal(rng, X)
        return recovery(truth, X, y, fresh, seed, units=truth.units + change)

    return draw


def true_units(rng: np.random.Generator, seed: int) -> Case:
    truth = small(rng)
    X, fresh = gaussian(rng, truth, 40 * truth.free_parameters)
    y = truth(X) + uniform_in_log(rng, 0.01, MODERATE) * np.std(truth(X)) * normal(rng, X)
    return recovery(truth, X, y, fresh, seed, units=truth.units, expected=shows(truth, X))


def ending(cut: bool) -> Draw:
    """Noisy labels below or above a limit are set to it, or their samples left out."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = small(rng)
        X, fresh = gaussian(rng, truth, 3000)
        y = truth(X)
        y = y + rng.uniform(0.05, 0.5) * y.std() * rng.standard_normal(len(y))
        side = -1 if seed % 2 else 1
        limit = np.quantile(side * y, rng.uniform(0.03, 0.4))
        kept = np.full(len(y), True) if cut else side * y > limit
        return recovery(truth, X[kept], side * np.maximum(side * y, limit)[kept], fresh, seed)

    return draw


FAMILIES = (
    Family("plain", plain, "no noise, ten samples a parameter", 2),
    Family(
        "plain noise", noisy(normal, 0.01, 0.1, easy=True), "Gaussian, 0.01 to 0.1 of the spread", 3
    ),
    Family("much noise", noisy(normal, 0.2, 1.0), "Gaussian, 0.2 to 1 of the spread", 2),
    Family("units told", true_units, "Gaussian noise, the width given"),
    Family("few samples", few_samples, "one to three a parameter, with and without noise", 2),
    Family("noise by inputs", noisy(heteroscedastic, 0.01, 0.3), "heteroscedastic"),
    Family("noise by side", noisy(by_label_side, 0.01, 0.3), "ten times larger on one side"),
    Family("correlated noise", noisy(correlated, 0.01, 0.3), "of 0.8 from row to row"),
    Family("noise of two values", noisy(discrete, 0.01, 0.3), "plus or minus one size"),
    Family("noise on a tenth", noisy(mostly_none, 0.01, 0.3), "the other labels are exact"),
    Family("heavy tails", noisy(heavy_tailed, 0.01, 0.3), "Student's t with 3 degrees"),
    Family("skewed noise", noisy(skewed, 0.01, 0.3), "exponential, of mean zero"),
    Family("uniform noise", noisy(uniform, 0.01, 0.3, easy=True), "within limits"),
    Family("noise of 1e-14", noisy(normal, 5e-15, 5e-14), "about rounding"),
    Family("noise of 1e-10", noisy(normal, 1e-11, 1e-9, easy=True), "of the spread"),
    Family("noise of 1e-6", noisy(normal, 1e-7, 1e-5, easy=True), "of the spread"),
    Family("proportional noise", proportional, "a factor on every label"),
    Family("cut off with noise", ending(cut=True), "noisy labels set to a limit"),
    Family("kept by labels", ending(cut=False), "noisy labels beyond a limit left out"),
    Family("nothing but noise", nothing_but_noise, "labels that no input explains"),
    Family("missed unit 6, 4", missed_unit(6, 4, 0.8), "5000 samples, noise 0.8", 0.3),
    Family("missed unit 4, 6", missed_unit(4, 6, 0.3), "5000 samples, noise 0.3", 0.3),
    Family("close pair", close_pair, "two units hardly apart, under noise"),
    Family("noise told too small", false_noise(0.05, 0.5), "noise= of 0.05 to 0.5 of the true"),
    Family("noise told too large", false_noise(2.0, 20.0), "noise= of 2 to 20 times the true"),
    Family("units told too few", false_units(-1), "units= of one less"),
    Family("units told too many", false_units(1), "units= of one more"),
)
