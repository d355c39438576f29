"""What a family is: a function of a seed that gives one problem and what is true of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

import provenet as pn
from provenet.common.typing import Array

Mean = Callable[[Array], Array]
"""What labels are on average, at any inputs."""

FRESH = 4000
"""Inputs that no solver sees, on which predictions are judged."""
BUDGET, ENOUGH = 1.0, 4.0
"""Seconds a recovery is given: unless its family says otherwise, and where a success must come."""

SAMPLES_A_PARAMETER = 10
"""At least, where a success must come; with noise twice as many."""


@dataclass(frozen=True)
class Case:
    """One problem: how provenet is asked, and what only the benchmark knows."""

    ask: Callable[[], pn.Recovery]
    truth: pn.Network | pn.DeepNetwork | pn.LayeredNetwork | None
    """What made the labels; None if no such network did."""
    mean: Mean
    fresh: Array
    budget: float
    """Seconds that were allowed."""
    X: Array | None = None
    y: Array | None = None
    """The samples; None where a model is asked."""
    expected: bool = False
    """Whether a success must come: samples abound, noise is moderate, the truth shows."""
    step: float = 0.0
    """Of the grid that labels were rounded to: then intervals, not squares, tell what fits."""
    activation: str = ""
    """The one that was named, or "auto"; empty for the default."""


Draw = Callable[[np.random.Generator, int], Case]


@dataclass(frozen=True)
class Family:
    """Problems with something in common that may mislead."""

    name: str
    draw: Draw
    what: str
    """What is unusual, as a phrase."""
    weight: float = 1.0
    """Its share of the problems of a run: less where one takes long."""

    def case(self, seed: int) -> Case:
        """The problem of a seed."""
        return self.draw(np.random.default_rng([seed, crc32(self.name.encode())]), seed)


def recovery(
    truth: pn.Network | pn.DeepNetwork | pn.LayeredNetwork | None,
    X: Array,
    y: Array,
    fresh: Array,
    seed: int,
    *,
    mean: Mean | None = None,
    expected: bool = False,
    budget: float | None = None,
    step: float = 0.0,
    **options: Any,
) -> Case:
    """Samples given to `recover`."""
    if mean is None:
        assert truth is not None
        mean = truth
    if budget is None:
        budget = ENOUGH if expected else BUDGET
    ask = partial(pn.recover, X, y, rng=seed, budget=budget, **options)
    named = str(options.get("activation", ""))
    return Case(ask, truth, mean, fresh, budget, X, y, expected, step, named)


def network(
    rng: np.random.Generator, features: int, units: int, outputs: int | None = None
) -> pn.Network:
    """A random network with an output bias whose units fire on a fair share of Gaussian inputs."""
    made = pn.random_network(units, features, outputs=outputs, bias_scale=1.0, rng=rng)
    return made.replace(output_bias=rng.uniform(-1, 1, () if outputs is None else outputs))


def small(rng: np.random.Generator) -> pn.Network:
    """3 to 6 features, 1 to 3 units."""
    return network(rng, int(rng.integers(3, 7)), int(rng.integers(1, 4)))


def two_layers(rng: np.random.Generator, features: int) -> Mean:
    """A network of a network's outputs, each of its units on for a fair share of the inputs."""
    first = network(rng, features, int(rng.integers(1, 4)), outputs=2)
    top = network(rng, 2, int(rng.integers(1, 3)))
    middle = first(rng.standard_normal((1000, features)))
    levels = [np.quantile(middle @ w, rng.uniform(0.2, 0.8)) for w in top.weights]
    placed = top.replace(biases=-np.array(levels))
    return lambda X: placed(first(X))


def gaussian(rng: np.random.Generator, truth: Any, samples: int) -> tuple[Array, Array]:
    """Standard normal inputs, and fresh ones."""
    X = rng.standard_normal((samples + FRESH, truth.features))
    return X[:samples], X[samples:]


def shows(truth: pn.Network, X: Array) -> bool:
    """Whether least squares must find it: samples abound, no unit is rare or much like another."""
    on = X @ truth.weights.T + truth.biases > 0
    share = np.minimum(on.mean(axis=0), 1 - on.mean(axis=0)).min()
    W = truth.weights * np.std(X, axis=0)
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    cosines = np.abs(W @ W.T) - np.eye(truth.units)
    many = len(X) >= SAMPLES_A_PARAMETER * truth.free_parameters
    return bool(many and share > 0.15 and cosines.max() < 0.8)


def uniform_in_log(rng: np.random.Generator, low: float, high: float) -> float:
    """Between two positive numbers, every factor alike."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
