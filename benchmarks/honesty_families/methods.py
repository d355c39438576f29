"""Every method on samples that violate what it assumes, and on a few that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import provenet as pn
from honesty_families.case import BUDGET, FRESH, Case, Draw, Family, network, recovery
from provenet.common.typing import Array
from provenet.datasets import random_layered
from provenet.methods.options import FAITHFUL
from provenet.networks.layered import union

Violation = Callable[[np.random.Generator, pn.Network, Array], tuple[Array, Array]]
"""Other inputs for a network, and labels that are not quite its own."""

# ---------------------------------------------------------------- what is violated


def none(rng: np.random.Generator, truth: pn.Network, X: Array) -> tuple[Array, Array]:
    return X, truth(X)


def with_noise(rng: np.random.Generator, truth: pn.Network, X: Array) -> tuple[Array, Array]:
    y = truth(X)
    size = rng.choice([1e-8, 1e-3, 0.1]) * np.std(y, axis=0)
    return X, y + size * rng.standard_normal(y.shape)


def with_skew(rng: np.random.Generator, truth: pn.Network, X: Array) -> tuple[Array, Array]:
    y = truth(X)
    return X, y + 0.3 * np.std(y, axis=0) * (rng.exponential(1.0, y.shape) - 1)


def uniform_inputs(rng: np.random.Generator, truth: pn.Network, X: Array) -> tuple[Array, Array]:
    X = rng.uniform(-1, 2, X.shape)
    return X, truth(X)


def lumpy_inputs(rng: np.random.Generator, truth: pn.Network, X: Array) -> tuple[Array, Array]:
    X = rng.integers(-2, 4, X.shape) + (X[:, :1] > 1) * 3.0
    return X, truth(X)


def rounded_labels(rng: np.random.Generator, truth: pn.Network, X: Array) -> tuple[Array, Array]:
    return X, np.round(truth(X), int(rng.integers(0, 4)))


def few_wrong(rng: np.random.Generator, truth: pn.Network, X: Array) -> tuple[Array, Array]:
    y = truth(X)
    rows = rng.integers(0, len(X), max(1, len(X) // 100))
    y[rows] += 1.0
    return X, y


VIOLATIONS: tuple[Violation, ...] = (
    none,
    with_noise,
    with_skew,
    uniform_inputs,
    lumpy_inputs,
    rounded_labels,
    few_wrong,
)


def by(
    method: str,
    *,
    samples: int = 1500,
    outputs: int | None = None,
    budget: float = BUDGET,
    **options: Any,
) -> Draw:
    """A method on a network with biases and mixed signs, one thing violated besides.

    Where the method has it, every fourth problem is left to the paper's algorithm as it stands.
    """

    def draw(rng: np.random.Generator, seed: int) -> Case:
        units = int(rng.integers(1, 4))
        truth = network(rng, int(rng.integers(max(units, 2), 6)), units, outputs)
        if rng.random() < 0.3:
            truth = truth.replace(biases=np.zeros(units), output_bias=0 * truth.output_bias)
        X = rng.standard_normal((samples + FRESH, truth.features))
        violate = VIOLATIONS[rng.integers(len(VIOLATIONS))]
        inputs, y = violate(rng, truth, X[:samples])
        fresh = violate(rng, truth, X[samples:])[0]
        chosen = dict(options)
        if FAITHFUL in pn.METHODS[method].options and seed % 4 == 3:
            chosen["faithful"] = True
        return recovery(truth, inputs, y, fresh, seed, method=method, budget=budget, **chosen)

    return draw


# ---------------------------------------------------------------- labels of no such thing


def _functions(rng: np.random.Generator, features: int) -> Callable[[Array], Array]:
    """One of several that are no layer of the method's and no network."""
    w, v = rng.standard_normal((2, features)) / np.sqrt(features)
    kinds: tuple[Callable[[Array], Array], ...] = (
        lambda X: np.tanh(2 * X @ w),
        lambda X: (X @ w) ** 2 + X @ v,
        lambda X: np.sin(3 * X @ w),
        lambda X: X @ w,
        lambda X: np.exp(0.5 * X @ w) + np.abs(X @ v),
        lambda X: np.linalg.norm(X, axis=1),
        lambda X: (np.linalg.norm(X, axis=1) > np.sqrt(features)).astype(float),
        lambda X: ((X @ w > 0) ^ (X @ v > 0)).astype(float),
        lambda X: np.floor(3 * X @ w) % 2,
        lambda X: np.zeros(len(X)),
    )
    return kinds[rng.integers(len(kinds))]


def on_no_layer(method: str, samples: int = 3000, budget: float = BUDGET, **options: Any) -> Draw:
    """A method on labels of no layer, or on nothing but noise or a single label."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        features = int(rng.integers(2, 5))
        mean = _functions(rng, features)
        X = rng.standard_normal((samples + FRESH, features))
        y = mean(X[:samples])
        spoil = rng.integers(4)
        if spoil == 1:
            y = y + 0.1 * rng.standard_normal(samples)
        elif spoil == 2:
            y[rng.integers(samples)] += 1.0
        elif spoil == 3 and set(np.unique(y)) <= {0.0, 1.0}:
            flips = rng.random(samples) < 0.1
            y = np.where(flips, 1 - y, y)
        chosen = dict(options)
        if FAITHFUL in pn.METHODS[method].options and seed % 4 == 3:
            chosen["faithful"] = True
        return recovery(
            None, X[:samples], y, X[samples:], seed, mean=mean, method=method, budget=budget,
            **chosen,
        )  # fmt: skip

    return draw


def no_network_predicted(rng: np.random.Generator, seed: int) -> Case:
    """ "regression" on what is no network."""
    return on_no_layer("regression", samples=1500)(rng, seed)


# ---------------------------------------------------------------- layers


def layered(
    method: str, activation: str, *, samples: int = 4000, features: int = 5, **options: Any
) -> Draw:
    """Units of high threshold under a polynomial, with noise or rounded labels at times."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        units = int(rng.integers(1, 4))
        truth = random_layered(
            units,
            features,
            threshold=rng.uniform(0.0 if activation == "abs" else 0.8, 2.0),
            condition=rng.choice([1.0, 3.0]),
            products=rng.choice([0.0, 1.0]),
            activation=activation,
            rng=rng,
        )
        X = rng.standard_normal((samples + FRESH, features))
        y = truth(X[:samples])
        spoil = rng.integers(4)
        if spoil == 1:
            y = y + rng.choice([1e-6, 0.05]) * np.std(y) * rng.standard_normal(samples)
        elif spoil == 2:
            y = np.round(y, 2)
        elif spoil == 3:
            y[rng.integers(0, samples, 3)] += 1.0
        return recovery(
            truth, X[:samples], y, X[samples:], seed, method=method, activation=activation,
            budget=3.0, **options,
        )  # fmt: skip

    return draw


def halfspaces(rng: np.random.Generator, seed: int) -> Case:
    """A union of halfspaces, labels flipped near its faces, at random, or not."""
    features, units = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    W = rng.standard_normal((units, features))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    thresholds = rng.uniform(0.5, 1.5, units)
    truth = pn.LayeredNetwork(pn.Network(W, -thresholds, activation="step"), union)
    X = rng.standard_normal((3000 + FRESH, features))
    y = truth(X[:3000])
    rate = rng.choice([0.0, 0.02, 0.2])
    margin = np.abs(X[:3000] @ W.T - thresholds).min(axis=1)
    unsure = margin < 0.1 if seed % 2 else np.full(3000, True)
    flips = unsure & (rng.random(3000) < rate)
    return recovery(
        truth, X[:3000], np.where(flips, 1 - y, y), X[3000:], seed, method="halfspaces", budget=3.0
    )


def cliques(method: str) -> Draw:
    """Exponential units of sets of features; in half of the problems weights are not 0/1."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        W = np.zeros((2, 6))
        W[0, :2], W[1, 2:4] = 1.0, 1.0
        W *= 0.5
        if seed % 2:
            W += 0.1 * rng.standard_normal(W.shape)
        truth = pn.Network(W, np.zeros(2), np.array([1.0, rng.uniform(0.5, 1.0)]), 0.0, "exp")
        X = rng.standard_normal((4000 + FRESH, 6))
        noise = rng.choice([0.0, 0.1])
        y = truth(X[:4000]) + noise * rng.standard_normal(4000)
        return recovery(truth, X[:4000], y, X[4000:], seed, method=method, budget=3.0)

    return draw


# ---------------------------------------------------------------- by themselves


def lifting(rng: np.random.Generator, seed: int) -> Case:
    """What lifting is made for; units that are never on together, at times."""
    units = int(rng.integers(1, 4))
    truth = network(rng, int(rng.integers(3, 6)), units, outputs=units + int(rng.integers(0, 3)))
    if units > 1 and seed % 2:
        weights, biases = truth.weights.copy(), truth.biases.copy()
        weights[1], biases[1] = -weights[0], -biases[0] - rng.uniform(0.05, 0.5)
        truth = truth.replace(weights=weights, biases=biases)
    samples = 40 * truth.free_parameters
    X = rng.standard_normal((samples + FRESH, truth.features))
    on = X[:samples] @ truth.weights.T + truth.biases > 0
    shows = np.minimum(on.mean(axis=0), 1 - on.mean(axis=0)).min() > 0.1
    conditioned = np.linalg.cond(truth.output_weights) < 20
    return recovery(
        truth, X[:samples], truth(X[:samples]), X[samples:], seed, method="lifting",
        expected=bool(shows and conditioned and truth.outputs != 1),
    )  # fmt: skip


def arbitrary_noise_one_label(rng: np.random.Generator, seed: int) -> Case:
    features = int(rng.integers(2, 5))
    X = rng.standard_normal((200 + FRESH, features))
    outputs = int(rng.integers(1, 3))
    y = np.zeros((200, outputs)) if outputs > 1 else np.zeros(200)
    y[rng.integers(200)] = 0.9
    shape = y.shape[1:]
    return recovery(
        None, X[:200], y, X[200:], seed, method="arbitrary-noise",
        mean=lambda Z: np.zeros((len(Z), *shape)),
    )  # fmt: skip


def arbitrary_noise_skewed(rng: np.random.Generator, seed: int) -> Case:
    """Noise of mean zero whose centre is not."""
    units = int(rng.integers(1, 4))
    truth = network(rng, int(rng.integers(units, 6)), units, outputs=int(rng.integers(2, 4)))
    X = rng.standard_normal((2000 + FRESH, truth.features))
    y = truth(X[:2000])
    y = y + rng.uniform(0.1, 0.5) * np.std(y, axis=0) * (rng.exponential(1.0, y.shape) - 1)
    return recovery(truth, X[:2000], y, X[2000:], seed, method="arbitrary-noise", budget=4.0)


def own_activation(rng: np.random.Generator, seed: int) -> Case:
    """ "rectified" with the user's own log(1 + x)."""
    log = pn.Activation(
        "log(1+x)",
        lambda z: np.log1p(np.maximum(z, 0.0)),
        lambda z: (z > 0) / (1 + np.maximum(z, 0.0)),
        inverse=np.expm1,
    )
    truth = network(rng, 4, 2, outputs=int(rng.integers(2, 4))).replace(
        biases=np.zeros(2), output_bias=0.0, activation=log
    )
    X = rng.standard_normal((2000 + FRESH, 4))
    return recovery(
        truth, X[:2000], truth(X[:2000]), X[2000:], seed, method="rectified", activation=log
    )


def _title(method: str) -> str:
    return f"by {method}"


_PLAIN = {
    "auto": {"outputs": 2, "samples": 400},
    "expand-prune": {"samples": 400},
    "lifting": {"outputs": 4, "samples": 300},
    "rectified": {"outputs": 4},
    "ica": {"outputs": 4},
    "symmetric-inputs": {"outputs": 4},
    "rank-deficient": {"outputs": 3, "samples": 600},
    "sparse-noise": {"outputs": 6},
    "arbitrary-noise": {"outputs": 3},
    "arbitrary-inputs": {"outputs": 3, "samples": 50},
    "biased-relu": {},
    "overcomplete": {},
    "regression": {},
    "landscape": {},
}
"""Methods for networks, and what is particular to each."""
_LAYERS = ("lowest-layer", "halfspaces", "gradient-search", "even", "binary-cliques", "exponential")

FAMILIES = (
    *(
        Family(_title(method), by(method, **options), "one assumption violated")
        for method, options in _PLAIN.items()
    ),
    *(
        Family(f"{_title(method)} on no layer", on_no_layer(method), "labels of none")
        for method in (*_LAYERS, "likelihood")
    ),
    Family("by lowest-layer", layered("lowest-layer", "relu"), "spoilt labels", 0.5),
    Family("by lowest-layer, steps", layered("lowest-layer", "step"), "spoilt labels", 0.5),
    Family("by even", layered("even", "abs"), "not orthonormal, thresholds", 0.5),
    Family(
        "by gradient-search", layered("gradient-search", "relu", features=3), "spoilt labels", 0.5),
    Family("by halfspaces", halfspaces, "labels flipped at random or near faces", 0.5),
    Family("by binary-cliques", cliques("binary-cliques"), "weights not 0/1", 0.5),
    Family("by exponential", cliques("exponential"), "weights not 0/1", 0.5),
    Family("lifting as it should be", lifting, "units never on together", 1),
    Family("arbitrary-noise, one label", arbitrary_noise_one_label, "of 200 is not zero"),
    Family("arbitrary-noise, skewed", arbitrary_noise_skewed, "exponential noise"),
    Family("regression of no network", no_network_predicted, "values of others"),
    Family("rectified, own activation", own_activation, "log(1 + x)", 0.5),
)  # fmt: skip
