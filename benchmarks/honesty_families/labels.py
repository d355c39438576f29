"""Labels that are not a network's own numbers: rounded, clipped, mixed up, of other functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import provenet as pn
from honesty_families.case import (
    FRESH,
    Case,
    Draw,
    Family,
    gaussian,
    network,
    recovery,
    shows,
    small,
    two_layers,
    uniform_in_log,
)
from provenet.common.typing import Array

SMALL_STEP = 0.05
"""Step of rounding, over the spread of the labels, at which a success must come."""

# ---------------------------------------------------------------- rounded


def on_grid(steps: Callable[[np.random.Generator], float], *, floor: bool = False) -> Draw:
    """Labels rounded, or floored, to a multiple of a step."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = small(rng)
        step = steps(rng)
        X, fresh = gaussian(rng, truth, int(rng.integers(200, 900)))
        y = truth(X) / step
        y = np.floor(y) * step if floor else np.round(y) * step
        fine = step < SMALL_STEP * np.std(y) and shows(truth, X)
        return recovery(truth, X, y, fresh, seed, step=step, expected=bool(fine))

    return draw


def integers(rng: np.random.Generator, seed: int) -> Case:
    """Networks large enough for integers to mean something."""
    base = small(rng)
    size = uniform_in_log(rng, 2.0, 30.0)
    truth = base.replace(
        output_weights=size * base.output_weights, output_bias=size * base.output_bias
    )
    X, fresh = gaussian(rng, truth, int(rng.integers(200, 900)))
    return recovery(truth, X, np.round(truth(X)), fresh, seed, step=1.0)


def offset_grid(rng: np.random.Generator, seed: int) -> Case:
    truth = small(rng)
    step = uniform_in_log(rng, 1e-3, 0.2)
    offset = rng.uniform(0, step)
    X, fresh = gaussian(rng, truth, int(rng.integers(200, 900)))
    y = np.round((truth(X) - offset) / step) * step + offset
    return recovery(truth, X, y, fresh, seed, step=step)


def rounded_and_noisy(rng: np.random.Generator, seed: int) -> Case:
    truth = small(rng)
    step = uniform_in_log(rng, 1e-3, 0.3)
    X, fresh = gaussian(rng, truth, int(rng.integers(200, 900)))
    noise = step * uniform_in_log(rng, 0.1, 2.0)
    y = np.round((truth(X) + noise * rng.standard_normal(len(X))) / step) * step
    return recovery(truth, X, y, fresh, seed)


def as_dtype(dtype: type[np.floating]) -> Draw:
    """Labels in short floating point; of single precision with inputs of mixed scale.

    Every other time the large features are all that most labels show.
    """

    def draw(rng: np.random.Generator, seed: int) -> Case:
        base = small(rng)
        scale = 10.0 ** rng.uniform(-3, 3, base.features) if dtype is np.float32 else 1.0
        truth = base.replace(weights=base.weights / scale) if seed % 2 else base
        X, fresh = gaussian(rng, truth, int(rng.integers(200, 900)))
        X, fresh = X * scale, fresh * scale
        y = truth(X).astype(dtype).astype(float)
        due = bool(seed % 2) and shows(truth, X)
        return recovery(truth, X, y, fresh, seed, expected=due)

    return draw


def significant_digits(rng: np.random.Generator, seed: int) -> Case:
    truth = small(rng)
    digits = int(rng.integers(2, 7))
    X, fresh = gaussian(rng, truth, int(rng.integers(200, 900)))
    y = np.array([float(f"{value:.{digits - 1}e}") for value in truth(X)])
    return recovery(truth, X, y, fresh, seed)


# ---------------------------------------------------------------- of other functions


def of(make: Callable[[np.random.Generator, int], Callable[[Array], Array]]) -> Draw:
    """Labels of a function that is no network, with no noise, little or some."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        features = int(rng.integers(2, 6))
        mean = make(rng, features)
        n = int(rng.integers(150, 900))
        X = rng.standard_normal((n + FRESH, features))
        y = mean(X[:n])
        y = y + rng.choice([0.0, 1e-6, 0.05]) * np.std(y) * rng.standard_normal(n)
        return recovery(None, X[:n], y, X[n:], seed, mean=mean)

    return draw


def _smooth_units(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    base = network(rng, features, int(rng.integers(1, 4)))
    functions = (np.tanh, np.sin, lambda z: np.logaddexp(0, z), lambda z: 1 / (1 + np.exp(-z)))
    unit = functions[rng.integers(len(functions))]
    scale = uniform_in_log(rng, 0.3, 5.0)
    return lambda X: unit(scale * (X @ base.weights.T + base.biases)) @ base.output_weights


def _powers_of_units(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    name = str(rng.choice(["relu2", "relu3", "step"]))
    return network(rng, features, int(rng.integers(1, 3))).replace(activation=name)


def _tiny_argument(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    """So near to linear that little else shows."""
    base = network(rng, features, 1)
    scale = uniform_in_log(rng, 1e-5, 0.3)
    return lambda X: np.tanh(scale * (X @ base.weights[0] + base.biases[0])) / scale


def _tree(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    """Constant on either side of thresholds of features, three deep."""
    chosen, cuts = rng.integers(0, features, 3), rng.uniform(-0.7, 0.7, 3)
    leaves = rng.standard_normal(8)
    return lambda X: leaves[(X[:, chosen] > cuts) @ np.array([1, 2, 4])]


def _polynomial(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    linear, square = rng.standard_normal(features), rng.standard_normal((features, features))
    size = uniform_in_log(rng, 1e-3, 1.0)
    return lambda X: X @ linear + size * np.einsum("ni,ij,nj->n", X, square, X)


def _product(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    base = network(rng, features, 2)
    return lambda X: np.prod(np.maximum(X @ base.weights.T + base.biases, 0), axis=1) + X[:, 0]


def _norm(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    return lambda X: np.linalg.norm(X, axis=1) if features % 2 else np.abs(X).max(axis=1)


def _gated(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    """One network here, another there, a jump between."""
    here, there = small_of(rng, features), small_of(rng, features)
    cut = rng.uniform(0.5, 2.5)
    return lambda X: np.where(X[:, 0] > cut, here(X), there(X))


def small_of(rng: np.random.Generator, features: int) -> pn.Network:
    return network(rng, features, int(rng.integers(1, 3)))


def _linear(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    weights, bias = rng.standard_normal(features), rng.uniform(-1, 1)
    return lambda X: X @ weights + bias


def _constant(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    """But for one input in a hundred or none."""
    cut, value = rng.uniform(2.0, 6.0), float(rng.uniform(-1, 1))
    return lambda X: np.where(X[:, 0] > cut, value + 1, value)


def clipped(least_noise: float, most_noise: float) -> Draw:
    """max(network, c), c so that up to half of the labels are clipped."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        base = small(rng)
        X, fresh = gaussian(rng, base, int(rng.integers(300, 1000)))
        level = float(np.quantile(base(X), rng.uniform(0.003, 0.5)))

        def mean(Z: Array) -> Array:
            return np.maximum(base(Z), level)

        noise = uniform_in_log(rng, least_noise, most_noise) if most_noise else 0.0
        y = mean(X) + noise * np.std(base(X)) * rng.standard_normal(len(X))
        return recovery(None, X, y, fresh, seed, mean=mean)

    return draw


def signs_only(rng: np.random.Generator, seed: int) -> Case:
    base = small(rng)
    X, fresh = gaussian(rng, base, int(rng.integers(200, 900)))
    centre = float(np.median(base(X)))

    def mean(Z: Array) -> Array:
        return (base(Z) > centre).astype(float)

    return recovery(None, X, mean(X), fresh, seed, mean=mean)


# ---------------------------------------------------------------- mixed up


def mislabelled(rng: np.random.Generator, seed: int) -> Case:
    truth = small(rng)
    X, fresh = gaussian(rng, truth, int(rng.integers(300, 900)))
    y = truth(X)
    rows = rng.permutation(len(X))[: max(2, int(uniform_in_log(rng, 0.003, 0.2) * len(X)))]
    y[rows] = np.roll(y[rows], 1)
    noise = rng.choice([0.0, 0.05]) * np.std(y)
    return recovery(truth, X, y + noise * rng.standard_normal(len(X)), fresh, seed)


def one_label_off(rng: np.random.Generator, seed: int) -> Case:
    truth = small(rng)
    X, fresh = gaussian(rng, truth, int(rng.integers(200, 900)))
    y = truth(X)
    y[rng.integers(len(X))] += uniform_in_log(rng, 1e-8, 1.0)
    return recovery(truth, X, y, fresh, seed)


def one_label_not_zero(rng: np.random.Generator, seed: int) -> Case:
    X = rng.standard_normal((200 + FRESH, int(rng.integers(2, 6))))
    y = np.zeros(200)
    y[rng.integers(200)] = rng.uniform(0.5, 2.0)
    return recovery(None, X[:200], y, X[200:], seed, mean=lambda Z: np.zeros(len(Z)))


def duplicated(rng: np.random.Generator, seed: int) -> Case:
    """Every sample several times over, its noise the same each time."""
    truth = small(rng)
    X, fresh = gaussian(rng, truth, int(rng.integers(100, 300)))
    y = truth(X) + uniform_in_log(rng, 0.01, 0.2) * np.std(truth(X)) * rng.standard_normal(len(X))
    rows = rng.permutation(np.repeat(np.arange(len(X)), int(rng.integers(4, 12))))
    return recovery(truth, X[rows], y[rows], fresh, seed)


def time_stamped(rng: np.random.Generator, seed: int) -> Case:
    """A drift from row to row; its mean is part of the output bias."""
    base = small(rng)
    X, fresh = gaussian(rng, base, int(rng.integers(300, 900)))
    spread = float(np.std(base(X)))
    drift = uniform_in_log(rng, 1e-6, 0.5) * spread
    truth = base.replace(output_bias=base.output_bias + drift / 2)
    noise = rng.choice([0.0, 0.05]) * spread
    y = base(X) + drift * np.linspace(0, 1, len(X)) + noise * rng.standard_normal(len(X))
    return recovery(truth, X, y, fresh, seed)


def two_models(rng: np.random.Generator, seed: int) -> Case:
    """The first rows are of one network, the last of another with one weight changed."""
    first = small(rng)
    output_weights = first.output_weights.copy()
    output_weights[0] *= 1 + uniform_in_log(rng, 1e-5, 1.0)
    second = first.replace(output_weights=output_weights)
    X, fresh = gaussian(rng, first, int(rng.integers(300, 900)))
    share = rng.uniform(0.5, 0.98)
    early = np.arange(len(X)) < share * len(X)
    y = np.where(early, first(X), second(X))

    def mean(Z: Array) -> Array:
        return share * first(Z) + (1 - share) * second(Z)

    return recovery(None, X, y, fresh, seed, mean=mean)


def scaled_labels(rng: np.random.Generator, seed: int) -> Case:
    """Very large labels, or very small, with and without noise."""
    base = small(rng)
    size = 10.0 ** rng.choice([-12, -6, 6, 12])
    truth = base.replace(
        output_weights=size * base.output_weights, output_bias=size * base.output_bias
    )
    X, fresh = gaussian(rng, truth, 300)
    noise = rng.choice([0.0, 0.02]) * np.std(truth(X))
    y = truth(X) + noise * rng.standard_normal(300)
    return recovery(truth, X, y, fresh, seed, expected=shows(truth, X))


def large_offset(rng: np.random.Generator, seed: int) -> Case:
    """A spread that is small beside the mean: rounding is larger than it seems."""
    base = small(rng)
    truth = base.replace(output_bias=10.0 ** rng.integers(3, 12))
    X, fresh = gaussian(rng, truth, 400)
    return recovery(truth, X, truth(X), fresh, seed)


def _two_decimals(rng: np.random.Generator) -> float:
    return 0.01


def _some_decimals(rng: np.random.Generator) -> float:
    return float(10.0 ** -rng.integers(3, 7))


def _any_step(rng: np.random.Generator) -> float:
    return uniform_in_log(rng, 1e-5, 0.5)


FAMILIES = (
    Family("integers", integers, "labels rounded to whole numbers", 2),
    Family("2 decimals", on_grid(_two_decimals), "labels rounded", 2),
    Family("3 to 6 decimals", on_grid(_some_decimals), "labels rounded", 2),
    Family("any step", on_grid(_any_step), "rounded to a multiple of some step"),
    Family("floored", on_grid(_any_step, floor=True), "cut off, not rounded", 2),
    Family("offset grid", offset_grid, "rounded to a grid without zero"),
    Family("rounded and noisy", rounded_and_noisy, "noise of 0.1 to 2 steps before rounding"),
    Family("float16", as_dtype(np.float16), "labels in half precision"),
    Family("float32", as_dtype(np.float32), "single precision, inputs of mixed scale"),
    Family("significant digits", significant_digits, "2 to 6 of them"),
    Family("smooth units", of(_smooth_units), "tanh, sin, softplus, sigmoid"),
    Family("other powers", of(_powers_of_units), "squared, cubed and step units"),
    Family("almost linear", of(_tiny_argument), "tanh of a small argument"),
    Family("two layers", of(two_layers), "a deeper network"),
    Family("tree", of(_tree), "constant on boxes"),
    Family("polynomial", of(_polynomial), "of degree two"),
    Family("product", of(_product), "of two units"),
    Family("norm", of(_norm), "infinitely many kinks, or a deeper network's"),
    Family("gated", of(_gated), "two networks with a jump between"),
    Family("linear", of(_linear), "no kink"),
    Family("constant", of(_constant), "but for a few labels or none"),
    Family("clipped", clipped(0.0, 0.0), "max(network, c)"),
    Family("clipped and noisy", clipped(0.01, 0.3), "max(network, c) plus noise", 2),
    Family("signs only", signs_only, "0 or 1 by the side of the median"),
    Family("mislabelled", mislabelled, "up to a fifth of the labels exchanged"),
    Family("one label off", one_label_off, "by 1e-8 to 1"),
    Family("one label not zero", one_label_not_zero, "of 200"),
    Family("duplicated", duplicated, "every noisy sample 4 to 11 times"),
    Family("time-stamped", time_stamped, "a drift from row to row"),
    Family("two models", two_models, "the last rows are of a changed network"),
    Family("scaled labels", scaled_labels, "1e-12 to 1e12"),
    Family("large offset", large_offset, "an output bias of 1e3 to 1e11"),
)
