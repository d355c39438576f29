"""Networks of smooth units, their activation named or open, and what only resembles them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import special

import provenet as pn
from honesty_families.case import FRESH, Case, Draw, Family, Mean, recovery, uniform_in_log
from provenet.common.typing import Array

ODD = ("tanh", "sigmoid", "erf", "sin")
MIRRORED = ("gelu", "gelu_tanh", "silu", "softplus")
SMOOTH = (*ODD, *MIRRORED, "elu")
NEARBY = {"tanh": "erf", "erf": "tanh", "gelu": "gelu_tanh", "gelu_tanh": "gelu", "silu": "gelu"}
"""Activations that are nearly another one."""
SECONDS, SECONDS_TO_FIND = 2.0, 4.0
"""Given to a problem whose activation is named, and to one where it is open."""
MANY = 12
"""Samples a parameter where nothing else is meant to be the difficulty."""

Change = Callable[[np.random.Generator, pn.Network], pn.Network]


def smooth_network(
    rng: np.random.Generator, activation: str, outputs: int | None = None, most: int = 3
) -> pn.Network:
    """1 to 5 features, 1 to `most` units, an output bias."""
    units, features = int(rng.integers(1, most + 1)), int(rng.integers(1, 6))
    made = pn.random_network(units, features, activation=activation, outputs=outputs, rng=rng)
    return made.replace(output_bias=rng.uniform(-1, 1, () if outputs is None else outputs))


def gaussian_inputs(rng: np.random.Generator, features: int, samples: int) -> tuple[Array, Array]:
    X = rng.standard_normal((samples + FRESH, features))
    return X[:samples], X[samples:]


def named(rng: np.random.Generator, seed: int, choices: tuple[str, ...] = SMOOTH) -> str:
    """One activation after the other."""
    return choices[seed % len(choices)]


def asked(
    truth: pn.Network | None,
    X: Array,
    y: Array,
    fresh: Array,
    seed: int,
    activation: str,
    **options: Any,
) -> Case:
    """Samples given with the activation's name, or "auto"."""
    seconds = SECONDS_TO_FIND if activation == "auto" else SECONDS
    return recovery(
        truth, X, y, fresh, seed, activation=activation, **{"budget": seconds, **options}
    )


# ---------------------------------------------------------------- units that hardly show


def changed(change: Change, choices: tuple[str, ...] = SMOOTH, noise: bool = False) -> Draw:
    """A network with something odd about its units."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = change(rng, smooth_network(rng, named(rng, seed, choices)))
        X, fresh = gaussian_inputs(rng, truth.features, MANY * truth.free_parameters)
        y = truth(X)
        if noise:
            y = y + uniform_in_log(rng, 1e-9, 0.1) * np.std(y) * rng.standard_normal(len(y))
        return asked(truth, X, y, fresh, seed, truth.activation.name)

    return draw


def with_unit(net: pn.Network, w: Array, b: float, a: float) -> pn.Network:
    """One unit more."""
    return net.replace(
        weights=np.vstack([net.weights, w]),
        biases=np.append(net.biases, b),
        output_weights=np.append(net.output_weights, a),
    )


def nearly_linear(rng: np.random.Generator, net: pn.Network) -> pn.Network:
    """The last unit has weights of 1e-4 to 0.3, and output weights that make up for them."""
    size = uniform_in_log(rng, 1e-4, 0.3)
    weights, output = net.weights.copy(), net.output_weights.copy()
    weights[-1] *= size
    output[-1] /= size
    return net.replace(weights=weights, output_weights=output)


def saturated(rng: np.random.Generator, net: pn.Network) -> pn.Network:
    """The last unit is far on one side of zero at nearly all inputs."""
    norm = float(np.linalg.norm(net.weights[-1]))
    b = rng.choice([-1, 1]) * rng.uniform(3, 14) * norm
    return net.replace(biases=np.append(net.biases[:-1], b))


def twins(rng: np.random.Generator, net: pn.Network) -> pn.Network:
    """A unit 1e-6 to 0.1 from the last one."""
    apart = uniform_in_log(rng, 1e-6, 0.1) * rng.standard_normal(net.features + 1)
    a = rng.uniform(0.5, 1.5) * rng.choice([-1, 1])
    return with_unit(net, net.weights[-1] + apart[:-1], net.biases[-1] + apart[-1], a)


def opposite_twins(rng: np.random.Generator, net: pn.Network) -> pn.Network:
    """A unit nearly the last one's opposite."""
    apart = rng.choice([0.0, 1e-6, 1e-3, 0.1]) * rng.standard_normal(net.features + 1)
    a = rng.uniform(0.5, 1.5) * rng.choice([-1, 1])
    return with_unit(net, -net.weights[-1] + apart[:-1], 0.5 - net.biases[-1] + apart[-1], a)


def cancelling(rng: np.random.Generator, net: pn.Network) -> pn.Network:
    """A pair whose difference is nearly a derivative of the unit."""
    size = uniform_in_log(rng, 1e-4, 0.1)
    direction = rng.standard_normal(net.features)
    w, b, a = net.weights[-1] + size * direction, net.biases[-1], -net.output_weights[-1]
    pair = with_unit(net, w, b, a)
    scale = np.ones(pair.units)
    scale[-2:] = 1 / size
    return pair.replace(output_weights=pair.output_weights * scale)


def reversible(rng: np.random.Generator, net: pn.Network) -> pn.Network:
    """`sum_i a_i w_i` of all units is zero, or nearly: all signs may be reversed."""
    left = net.output_weights @ net.weights
    almost = rng.choice([0.0, 1e-12, 1e-10, 1e-8, 1e-5]) * rng.standard_normal(net.features)
    a = rng.choice([-1, 1]) * rng.uniform(0.5, 1.5)
    return with_unit(net, (almost - left) / a, rng.uniform(-1, 1), a)


def steep(rng: np.random.Generator, net: pn.Network) -> pn.Network:
    """Norms of 3 to 100: nearly steps or kinks, many periods; biases as large."""
    norms = np.exp(rng.uniform(np.log(3), np.log(100), net.units))
    factors = norms / np.linalg.norm(net.weights, axis=1)
    return net.replace(weights=net.weights * factors[:, None], biases=net.biases * factors)


def many_periods(rng: np.random.Generator, net: pn.Network) -> pn.Network:
    """Biases of many periods."""
    return net.replace(biases=rng.uniform(-60, 60, net.units))


def linear_beside(rng: np.random.Generator, net: pn.Network) -> pn.Network:
    """The last unit is on (softplus, GELU, ELU: linear) or off (ELU: exponential) everywhere."""
    size = rng.choice([0.05, 0.3, 1.0])
    w = size * net.weights[-1] / np.linalg.norm(net.weights[-1])
    b = rng.choice([-1, 1]) * rng.uniform(5, 40) * size
    return net.replace(
        weights=np.vstack([net.weights[:-1], w]), biases=np.append(net.biases[:-1], b)
    )


# ---------------------------------------------------------------- inputs


def lattice(rng: np.random.Generator, seed: int) -> Case:
    """Inputs are whole numbers, or multiples of a step: waves of other lengths look the same."""
    name = "sin" if seed % 2 else named(rng, seed // 2)
    truth = smooth_network(rng, name)
    size = rng.choice([1.0, 4.0])
    truth = truth.replace(weights=truth.weights * size)
    n = MANY * truth.free_parameters
    step = rng.choice([1.0, 0.5, 0.25])
    X = step * rng.integers(-5, 6, (n + FRESH, truth.features))
    return asked(truth, X[:n], truth(X[:n]), X[n:], seed, name)


def far_inputs(rng: np.random.Generator, seed: int) -> Case:
    """Of mean 1e2 to 1e5, with and without noise."""
    name = named(rng, seed)
    base = smooth_network(rng, name)
    centre = uniform_in_log(rng, 1e2, 1e5) * rng.choice([-1, 1], base.features)
    truth = base.replace(biases=base.biases - base.weights @ centre)
    X, fresh = gaussian_inputs(rng, base.features, MANY * base.free_parameters)
    y = truth(X + centre)
    y = y + rng.choice([0.0, 0.01]) * np.std(y) * rng.standard_normal(len(y))
    return asked(truth, X + centre, y, fresh + centre, seed, name)


def repeated_inputs(rng: np.random.Generator, seed: int) -> Case:
    """Few different inputs, each several times."""
    name = named(rng, seed)
    truth = smooth_network(rng, name)
    n = int(rng.uniform(0.8, 3.0) * truth.free_parameters) + 2
    X, fresh = gaussian_inputs(rng, truth.features, n)
    X = np.repeat(X, 5, axis=0)
    y = truth(X) + rng.choice([0.0, 0.02]) * rng.standard_normal(len(X))
    return asked(truth, X, y, fresh, seed, name)


def few_smooth(rng: np.random.Generator, seed: int) -> Case:
    """One to three samples a parameter."""
    name = named(rng, seed)
    truth = smooth_network(rng, name)
    n = int(rng.uniform(1.0, 3.0) * truth.free_parameters) + 2
    X, fresh = gaussian_inputs(rng, truth.features, n)
    y = truth(X) + rng.choice([0.0, 1e-6, 0.05]) * np.std(truth(X)) * rng.standard_normal(n)
    return asked(truth, X, y, fresh, seed, name)


# ---------------------------------------------------------------- noise and rounding


def noisy_smooth(low: float, high: float, kind: str = "normal", **options: Any) -> Draw:
    def draw(rng: np.random.Generator, seed: int) -> Case:
        name = named(rng, seed)
        truth = smooth_network(rng, name)
        X, fresh = gaussian_inputs(rng, truth.features, 3 * MANY * truth.free_parameters)
        noise = rng.standard_normal(len(X))
        if kind == "heavy":
            noise = rng.standard_t(3, len(X)) / np.sqrt(3)
        elif kind == "uneven":
            noise = (0.2 + np.abs(X[:, 0])) * noise
        size = uniform_in_log(rng, low, high) * float(np.std(truth(X)))
        told = {key: value * size for key, value in options.items()}
        return asked(truth, X, truth(X) + size * noise, fresh, seed, name, **told)

    return draw


def false_width(by: tuple[int, ...]) -> Draw:
    def draw(rng: np.random.Generator, seed: int) -> Case:
        name = named(rng, seed)
        truth = smooth_network(rng, name)
        X, fresh = gaussian_inputs(rng, truth.features, 2 * MANY * truth.free_parameters)
        y = truth(X) + rng.choice([0.0, 0.02]) * np.std(truth(X)) * rng.standard_normal(len(X))
        units = max(1, truth.units + int(rng.choice(by)))
        return asked(truth, X, y, fresh, seed, name, units=units)

    return draw


def single(rng: np.random.Generator, seed: int) -> Case:
    """Labels in single precision, or rounded."""
    name = named(rng, seed)
    truth = smooth_network(rng, name)
    X, fresh = gaussian_inputs(rng, truth.features, 2 * MANY * truth.free_parameters)
    if seed % 2:
        y = truth(X).astype(np.float32).astype(float)
        return asked(truth, X, y, fresh, seed, name)
    step = float(10.0 ** -rng.integers(1, 7))
    return asked(truth, X, np.round(truth(X) / step) * step, fresh, seed, name, step=step)


def scaled(rng: np.random.Generator, seed: int) -> Case:
    """Labels of size 1e-8 or 1e8, or features of different size."""
    name = named(rng, seed)
    base = smooth_network(rng, name)
    size, sizes = 10.0 ** rng.choice([-8, 0, 8]), 10.0 ** rng.integers(-4, 5, base.features)
    truth = base.replace(
        weights=base.weights / sizes,
        output_weights=size * base.output_weights,
        output_bias=size * base.output_bias,
    )
    X, fresh = gaussian_inputs(rng, truth.features, MANY * truth.free_parameters)
    X, fresh = X * sizes, fresh * sizes
    y = truth(X) + rng.choice([0.0, 0.01]) * np.std(truth(X)) * rng.standard_normal(len(X))
    return asked(truth, X, y, fresh, seed, name)


def dead_outputs(rng: np.random.Generator, seed: int) -> Case:
    """Three outputs, one constant or nearly."""
    name = named(rng, seed)
    truth = smooth_network(rng, name, outputs=3)
    A = truth.output_weights.copy()
    A[1] *= rng.choice([0.0, 1e-12, 1e-6])
    truth = truth.replace(output_weights=A)
    X, fresh = gaussian_inputs(rng, truth.features, MANY * truth.free_parameters)
    y = truth(X) + rng.choice([0.0, 0.01]) * rng.standard_normal((len(X), 3))
    return asked(truth, X, y, fresh, seed, name)


# ---------------------------------------------------------------- no such network


def _polynomial(rng: np.random.Generator, d: int) -> Mean:
    w, v = rng.standard_normal((2, d))
    return lambda X: (X @ w) ** 2 + 0.3 * (X @ v) ** 3


def _rational(rng: np.random.Generator, d: int) -> Mean:
    w, v = rng.standard_normal((2, d))
    return lambda X: (X @ w) / (1 + (X @ v) ** 2)


def _one_bump(rng: np.random.Generator, d: int) -> Mean:
    w = rng.standard_normal(d)
    return lambda X: np.exp(-((X @ w - 0.3) ** 2))


def _deep(rng: np.random.Generator, d: int) -> Mean:
    first = pn.random_network(2, d, outputs=2, activation="tanh", rng=rng)
    top = pn.random_network(2, 2, activation="tanh", rng=rng)
    return lambda X: top(first(X))


def _one_feature_sum(rng: np.random.Generator, d: int) -> Mean:
    a, b = rng.uniform(0.5, 2, 2)
    return lambda X: np.exp(-a * X[:, 0] ** 2) + np.cos(b * X[:, 0])


def _mixture(rng: np.random.Generator, d: int) -> Mean:
    first, second = rng.choice(("tanh", "erf", "sin", "silu", "softplus", "relu"), 2, replace=False)
    one = pn.random_network(1, d, activation=str(first), rng=rng)
    other = pn.random_network(int(rng.integers(1, 3)), d, activation=str(second), rng=rng)
    return lambda X: one(X) + other(X)


def _nearly_tanh(rng: np.random.Generator, d: int) -> Mean:
    """tanh and a little of something else."""
    net = pn.random_network(int(rng.integers(1, 4)), d, activation="tanh", rng=rng)
    size, w = uniform_in_log(rng, 1e-11, 1e-4), rng.standard_normal(d)
    return lambda X: net(X) + size * np.cos(X @ w)


def _arctangent(rng: np.random.Generator, d: int) -> Mean:
    net = pn.random_network(int(rng.integers(1, 3)), d, activation="tanh", rng=rng)
    curve = (np.arctan, lambda z: z / np.sqrt(1 + z * z), special.ndtr)[int(rng.integers(3))]
    return lambda X: curve(X @ net.weights.T + net.biases) @ net.output_weights


FUNCTIONS = (
    _polynomial,
    _rational,
    _one_bump,
    _deep,
    _one_feature_sum,
    _mixture,
    _nearly_tanh,
    _arctangent,
)


def no_network(choices: tuple[str, ...]) -> Draw:
    """A smooth function that is no network of one layer."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        d = int(rng.integers(1, 4))
        mean = FUNCTIONS[seed % len(FUNCTIONS)](rng, d)
        X, fresh = gaussian_inputs(rng, d, int(rng.integers(100, 500)))
        y = mean(X) + rng.choice([0.0, 0.0, 0.05]) * np.std(mean(X)) * rng.standard_normal(len(X))
        name = named(rng, seed // len(FUNCTIONS), choices)
        return asked(None, X, y, fresh, seed, name, mean=mean)

    return draw


def other_name(rng: np.random.Generator, seed: int) -> Case:
    """Labels of one activation, another named."""
    name = named(rng, seed, tuple(NEARBY))
    truth = smooth_network(rng, NEARBY[name])
    X, fresh = gaussian_inputs(rng, truth.features, MANY * truth.free_parameters)
    y = truth(X) + rng.choice([0.0, 1e-8, 0.01]) * np.std(truth(X)) * rng.standard_normal(len(X))
    return asked(truth, X, y, fresh, seed, name)


# ---------------------------------------------------------------- the activation open


def open_activation(rng: np.random.Generator, seed: int) -> Case:
    """Nothing, rounding or noise of 1e-9 to 0.1 beside a network; units nearly linear or not."""
    name = named(rng, seed, (*SMOOTH, "relu", "leaky_relu(0.1)"))
    truth = smooth_network(rng, name)
    if truth.activation.smooth:
        truth = truth.replace(weights=truth.weights * rng.choice([0.2, 0.5, 1.0, 3.0]))
    X, fresh = gaussian_inputs(rng, truth.features, 2 * MANY * truth.free_parameters)
    size = rng.choice([0.0, uniform_in_log(rng, 1e-9, 1e-4), uniform_in_log(rng, 1e-4, 0.1)])
    y = truth(X) + size * np.std(truth(X)) * rng.standard_normal(len(X))
    return asked(truth, X, y, fresh, seed, "auto")


# ---------------------------------------------------------------- models


def _asked_model(
    truth: pn.Network | None, model: Mean, features: int, seed: int, activation: str
) -> Case:
    fresh = np.random.default_rng(seed).standard_normal((FRESH, features))
    ask = partial(
        pn.extract, model, features, activation=activation, rng=seed, seconds=SECONDS_TO_FIND
    )
    return Case(ask, truth, model, fresh, SECONDS_TO_FIND)


def smooth_model(rng: np.random.Generator, seed: int) -> Case:
    """Of smooth units, changed or as they are; activation named or open."""
    name = named(rng, seed)
    changes = (lambda r, n: n, nearly_linear, saturated, twins, opposite_twins, steep)
    truth = changes[int(rng.integers(len(changes)))](rng, smooth_network(rng, name))
    return _asked_model(truth, truth, truth.features, seed, name if seed % 2 else "auto")


def no_smooth_model(rng: np.random.Generator, seed: int) -> Case:
    """A smooth function that is no network of one layer."""
    d = int(rng.integers(1, 4))
    mean = FUNCTIONS[seed % len(FUNCTIONS)](rng, d)
    return _asked_model(None, mean, d, seed, ("auto", "tanh", "silu")[seed % 3])


FAMILIES = (
    Family("smooth", changed(lambda rng, net: net), "smooth units, no noise"),
    Family("smooth, nearly linear", changed(nearly_linear), "weights of 1e-4 to 0.3"),
    Family("smooth, nearly linear, noise", changed(nearly_linear, noise=True), "and noise"),
    Family("smooth, saturated", changed(saturated), "3 to 14 deviations off zero"),
    Family("smooth, saturated, noise", changed(saturated, noise=True), "and noise"),
    Family("smooth, twins", changed(twins), "units 1e-6 to 0.1 apart"),
    Family("smooth, twins, noise", changed(twins, noise=True), "and noise"),
    Family("smooth, opposite twins", changed(opposite_twins), "units nearly opposite"),
    Family("smooth, cancelling", changed(cancelling), "pairs nearly a derivative"),
    Family("smooth, cancelling, noise", changed(cancelling, noise=True), "and noise"),
    Family("smooth, reversible", changed(reversible, MIRRORED), "signs open, or nearly"),
    Family("smooth, reversible, noise", changed(reversible, MIRRORED, noise=True), "and noise"),
    Family("smooth, steep", changed(steep), "weights of norm 3 to 100"),
    Family("smooth, steep, noise", changed(steep, noise=True), "and noise"),
    Family("sin, many periods", changed(many_periods, ("sin",), noise=True), "large biases"),
    Family("smooth, linear beside", changed(linear_beside, (*MIRRORED, "elu")), "a unit always on"),
    Family("smooth, lattice", lattice, "whole numbers as inputs"),
    Family("smooth, far from zero", far_inputs, "inputs 1e2 to 1e5 away"),
    Family("smooth, repeats", repeated_inputs, "few inputs, five times each"),
    Family("smooth, few samples", few_smooth, "one to three a parameter"),
    Family("smooth, noise", noisy_smooth(1e-3, 0.5), "Gaussian"),
    Family("smooth, tiny noise", noisy_smooth(1e-12, 1e-5), "1e-12 to 1e-5 of the spread"),
    Family("smooth, heavy tails", noisy_smooth(1e-6, 0.2, "heavy"), "Student's t"),
    Family("smooth, uneven noise", noisy_smooth(1e-6, 0.2, "uneven"), "heteroscedastic"),
    Family("smooth, noise told", noisy_smooth(1e-6, 0.2, noise=1.0), "noise= given"),
    Family("smooth, too much told", noisy_smooth(1e-6, 0.1, noise=5.0), "noise= five times"),
    Family("smooth, too few told", false_width((-1, -2)), "units= too small"),
    Family("smooth, too many told", false_width((1, 2)), "units= too large"),
    Family("smooth, rounded labels", single, "single precision, or 1 to 6 decimals"),
    Family("smooth, scaled", scaled, "labels of 1e-8 to 1e8, mixed features"),
    Family("smooth, dead output", dead_outputs, "one of three"),
    Family("no smooth network", no_network(SMOOTH), "polynomials, quotients, deeper, mixtures", 2),
    Family("no network, auto", no_network(("auto",)), "polynomials, quotients, mixtures", 2),
    Family("another smooth name", other_name, "labels of a nearby activation"),
    Family("auto", open_activation, "the activation open", 2),
    Family("asked smooth", smooth_model, "a model of smooth units"),
    Family("asked, no smooth network", no_smooth_model, "a smooth model that is none"),
)
