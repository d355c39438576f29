"""Networks of several hidden layers, and what only resembles them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import provenet as pn
from honesty_families.case import FRESH, Case, Draw, Family, Mean, recovery, uniform_in_log
from provenet.common.typing import Array

ACTIVATIONS = ("relu", "tanh", "gelu", "sin", "silu", "sigmoid", "softplus", "erf")
MIRRORED = ("relu", "gelu", "silu", "softplus")
TOLD = {
    "tanh": "erf", "erf": "tanh", "gelu": "silu", "silu": "gelu", "softplus": "relu",
    "relu": "softplus", "sin": "tanh", "sigmoid": "erf",
}  # fmt: skip
"""Activations that are told in place of others."""
SECONDS = 8.0
MANY = 20
"""Samples a parameter where nothing else is meant to be the difficulty."""

Change = Callable[[np.random.Generator, pn.DeepNetwork], pn.DeepNetwork]
Spoil = Callable[[np.random.Generator, Array, Array], Array]
Inputs = Callable[[np.random.Generator, int, int], Array]


def teacher(
    rng: np.random.Generator,
    activation: str,
    layers: int = 2,
    outputs: int | None = None,
    most: int = 3,
) -> pn.DeepNetwork:
    """3 to 5 features, 2 to `most` units a layer."""
    widths = tuple(int(w) for w in rng.integers(2, most + 1, layers))
    net = pn.random_network(
        widths, int(rng.integers(3, 6)), activation=activation, outputs=outputs, rng=rng
    )
    assert isinstance(net, pn.DeepNetwork)
    return net


def normal(rng: np.random.Generator, rows: int, features: int) -> Array:
    return rng.standard_normal((rows, features))


def asked(
    truth: Any, X: Array, y: Array, fresh: Array, seed: int, activation: str, **options: Any
) -> Case:
    """Samples given with the activation's name, two layers unless told otherwise."""
    told = {"layers": 2, "budget": SECONDS, **options}
    return recovery(truth, X, y, fresh, seed, activation=activation, **told)


def samples_of(truth: pn.DeepNetwork, a_parameter: float = MANY) -> int:
    return max(300, int(a_parameter * truth.free_parameters))


def drawn(
    change: Change | None = None,
    spoil: Spoil | None = None,
    inputs: Inputs = normal,
    choices: tuple[str, ...] = ACTIVATIONS,
    layers: int = 2,
    outputs: int | None = None,
    told: Callable[[np.random.Generator, pn.DeepNetwork], dict[str, Any]] | None = None,
    a_parameter: tuple[float, float] = (MANY, MANY),
    fewest: int = 300,
    most: int = 3,
    step: float = 0.0,
    **options: Any,
) -> Draw:
    """A teacher, changed; its labels, spoilt; how it is asked."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = teacher(rng, choices[seed % len(choices)], layers, outputs, most)
        if change is not None:
            truth = change(rng, truth)
        n = max(fewest, int(rng.uniform(*a_parameter) * truth.free_parameters))
        X = inputs(rng, n + FRESH, truth.features)
        y = truth(X[:n])
        if spoil is not None:
            y = spoil(rng, X[:n], y)
        more = {} if told is None else told(rng, truth)
        named = more.pop("activation", truth.activation.name)
        return asked(
            truth, X[:n], y, X[n:], seed, named, step=step, **{"layers": layers, **options, **more}
        )

    return draw


def of_no_network(
    make: Callable[[np.random.Generator, int], Mean],
    noise: float = 0.0,
    choices: tuple[str, ...] = ("relu", "tanh", "gelu"),
    **options: Any,
) -> Draw:
    """Labels of something else."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        d = int(rng.integers(3, 6))
        mean = make(rng, d)
        n = int(rng.integers(500, 3000))
        X = rng.standard_normal((n + FRESH, d))
        y = mean(X[:n])
        y = y + noise * max(float(np.std(y)), 1e-3) * rng.standard_normal(y.shape)
        return asked(
            None, X[:n], y, X[n:], seed, choices[seed % len(choices)], mean=mean, **options
        )

    return draw


# ---------------------------------------------------------------- units


def with_layer(net: pn.DeepNetwork, number: int, W: Array, b: Array) -> pn.DeepNetwork:
    """Another layer in place of one."""
    weights, biases = list(net.weights), list(net.biases)
    weights[number], biases[number] = W, b
    return net.replace(weights=weights, biases=biases)


def biased(size: Callable[[np.random.Generator], float]) -> Change:
    """One unit of some layer has a bias of so many norms."""

    def change(rng: np.random.Generator, net: pn.DeepNetwork) -> pn.DeepNetwork:
        number = int(rng.integers(net.layers))
        W, b = net.affine_maps[number]
        b = b.copy()
        b[-1] = size(rng) * np.linalg.norm(W[-1])
        return with_layer(net, number, W, b)

    return change


def rows_like(way: Callable[[np.random.Generator, Array, float], tuple[Array, float]]) -> Change:
    """In some layer the last unit is made from the first one."""

    def change(rng: np.random.Generator, net: pn.DeepNetwork) -> pn.DeepNetwork:
        number = int(rng.integers(net.layers))
        W, b = (part.copy() for part in net.affine_maps[number])
        W[-1], b[-1] = way(rng, W[0], float(b[0]))
        return with_layer(net, number, W, b)

    return change


def near(rng: np.random.Generator, w: Array, b: float) -> tuple[Array, float]:
    size = uniform_in_log(rng, 1e-4, 0.1)
    return w + size * rng.standard_normal(w.shape), b + size * float(rng.standard_normal())


def no_biases(rng: np.random.Generator, net: pn.DeepNetwork) -> pn.DeepNetwork:
    return net.replace(biases=None)


def scaled_layer(rng: np.random.Generator, net: pn.DeepNetwork) -> pn.DeepNetwork:
    """Weights of a layer 1e-3 to 30 times as large."""
    number = int(rng.integers(net.layers))
    W, b = net.affine_maps[number]
    size = uniform_in_log(rng, 1e-3, 30)
    return with_layer(net, number, size * W, size * b)


def weak_feed(rng: np.random.Generator, net: pn.DeepNetwork) -> pn.DeepNetwork:
    """The last unit of a layer feeds the next 1e-6 to 0.03 as strongly."""
    number = int(rng.integers(1, net.layers + 1))
    W, b = net.affine_maps[number]
    W = W.copy()
    W[:, -1] *= uniform_in_log(rng, 1e-6, 0.03)
    return with_layer(net, number, W, b)


def reversible(rng: np.random.Generator, net: pn.DeepNetwork) -> pn.DeepNetwork:
    """All units of the last layer may be reversed: `sum_i a_i w_i = 0`."""
    W, b = net.affine_maps[-2]
    a = net.weights[-1][0]
    W = W.copy()
    W[-1] = -(a[:-1] @ W[:-1]) / a[-1]
    return with_layer(net, net.layers - 1, W, b)


def next_wave(rng: np.random.Generator, net: pn.DeepNetwork) -> pn.DeepNetwork:
    """The first layer's weights a period larger for steps of 1/2: the same at all multiples."""
    W, b = net.affine_maps[0]
    return with_layer(net, 0, W + 4 * np.pi * rng.integers(-1, 2, W.shape), b)


def of_widths(*widths: int) -> Change:
    def change(rng: np.random.Generator, net: pn.DeepNetwork) -> pn.DeepNetwork:
        other = pn.random_network(widths, net.features, activation=net.activation, rng=rng)
        assert isinstance(other, pn.DeepNetwork)
        return other

    return change


# ---------------------------------------------------------------- labels


def gauss(low: float, high: float) -> Spoil:
    def spoil(rng: np.random.Generator, X: Array, y: Array) -> Array:
        size = uniform_in_log(rng, low, high) * np.std(y)
        return np.asarray(y + size * rng.standard_normal(y.shape))

    return spoil


def heavy(rng: np.random.Generator, X: Array, y: Array) -> Array:
    return np.asarray(y + 0.05 * np.std(y) * rng.standard_t(2.5, y.shape))


def uneven(rng: np.random.Generator, X: Array, y: Array) -> Array:
    size = 0.1 * np.std(y) * np.exp(X[:, 0])
    return np.asarray(y + size * rng.standard_normal(len(y)))


def decimals(rng: np.random.Generator, X: Array, y: Array) -> Array:
    return np.round(y, int(rng.integers(3, 7)))


def single(rng: np.random.Generator, X: Array, y: Array) -> Array:
    return y.astype(np.float32).astype(float)


def clipped(rng: np.random.Generator, X: Array, y: Array) -> Array:
    return np.minimum(y, np.quantile(y, rng.uniform(0.8, 0.99)))


def some_off(rng: np.random.Generator, X: Array, y: Array) -> Array:
    y = y.copy()
    y[rng.integers(len(y), size=max(1, len(y) // 100))] += np.std(y)
    return y


# ---------------------------------------------------------------- inputs


def whole(rng: np.random.Generator, rows: int, features: int) -> Array:
    return rng.integers(-3, 4, (rows, features)).astype(float)


def halves(rng: np.random.Generator, rows: int, features: int) -> Array:
    return rng.integers(-6, 7, (rows, features)) / 2.0


def repeated(rng: np.random.Generator, rows: int, features: int) -> Array:
    few = rng.standard_normal((80, features))
    return few[rng.integers(len(few), size=rows)]


def flat(rng: np.random.Generator, rows: int, features: int) -> Array:
    """Near a plane."""
    thick = rng.choice([0.0, 1e-6, 1e-3])
    X = rng.standard_normal((rows, features))
    X[:, -1] = X[:, 0] - X[:, 1] + thick * X[:, -1]
    return X


def clusters(rng: np.random.Generator, rows: int, features: int) -> Array:
    centres = 2 * rng.standard_normal((4, features))
    return centres[rng.integers(4, size=rows)] + 0.2 * rng.standard_normal((rows, features))


def far(rng: np.random.Generator, rows: int, features: int) -> Array:
    """Of mixed scale and away from zero, but a network's own biases are not."""
    return rng.standard_normal((rows, features)) * np.geomspace(0.1, 3, features) + 1.0


# ---------------------------------------------------------------- what is told


def other_activation(rng: np.random.Generator, net: pn.DeepNetwork) -> dict[str, Any]:
    return {"activation": TOLD[net.activation.name]}


def widths_told(by: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Any:
    return lambda rng, net: {"units": by(net.widths)}


def one_fewer(widths: tuple[int, ...]) -> tuple[int, ...]:
    return (*widths[:-1], max(1, widths[-1] - 1))


def one_more(widths: tuple[int, ...]) -> tuple[int, ...]:
    return (widths[0] + 1, *widths[1:])


def total_told(rng: np.random.Generator, net: pn.DeepNetwork) -> dict[str, Any]:
    return {"units": net.units + int(rng.integers(-1, 2))}


def noise_told(rng: np.random.Generator, net: pn.DeepNetwork) -> dict[str, Any]:
    return {"noise": float(uniform_in_log(rng, 1e-3, 1.0))}


# ---------------------------------------------------------------- labels of something else


def one_layer(noise: float = 0.0, **options: Any) -> Draw:
    """One hidden layer, where two are asked for."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        name = ACTIVATIONS[seed % len(ACTIVATIONS)]
        units, d = int(rng.integers(1, 4)), int(rng.integers(3, 6))
        truth = pn.random_network(units, d, activation=name, rng=rng)
        X = rng.standard_normal((800 + FRESH, d))
        y = truth(X[:800])
        y = y + noise * np.std(y) * rng.standard_normal(800)
        return asked(truth, X[:800], y, X[800:], seed, name, **options)

    return draw


def three_layers(noise: float = 0.0) -> Draw:
    """Three hidden layers, where two are asked for."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = teacher(rng, ACTIVATIONS[seed % len(ACTIVATIONS)], layers=3)
        n = samples_of(truth)
        X = rng.standard_normal((n + FRESH, truth.features))
        y = truth(X[:n])
        y = y + noise * np.std(y) * rng.standard_normal(n)
        return asked(truth, X[:n], y, X[n:], seed, truth.activation.name)

    return draw


def wave(rng: np.random.Generator, d: int) -> Mean:
    return lambda X: np.sin(X.sum(axis=1))


def product(rng: np.random.Generator, d: int) -> Mean:
    return lambda X: X[:, 0] * X[:, 1]


def largest(rng: np.random.Generator, d: int) -> Mean:
    return lambda X: X.max(axis=1)


def norm(rng: np.random.Generator, d: int) -> Mean:
    return lambda X: np.linalg.norm(X, axis=1)


def residual(rng: np.random.Generator, d: int) -> Mean:
    """A network beside what it is given."""
    net = pn.random_network((3, 2), d, activation=str(rng.choice(["relu", "tanh"])), rng=rng)
    w = rng.standard_normal(d)
    return lambda X: net(X) + X @ w


def skipping(rng: np.random.Generator, d: int) -> Mean:
    """The second layer is given the inputs too."""
    first = pn.random_network(3, d, outputs=2, rng=rng)
    top = pn.random_network(2, d + 2, rng=rng)
    return lambda X: top(np.column_stack([first(X), X]))


def leaky(rng: np.random.Generator, d: int) -> Mean:
    return pn.random_network((3, 2), d, activation=f"leaky_relu({rng.uniform(0.01, 0.3)})", rng=rng)


def mixed(rng: np.random.Generator, d: int) -> Mean:
    """Units of one activation under units of another."""
    first = pn.random_network(3, d, outputs=3, activation="tanh", rng=rng)
    top = pn.random_network(2, 3, activation="relu", rng=rng)
    return lambda X: top(first(X))


def nothing(rng: np.random.Generator, d: int) -> Mean:
    return lambda X: np.zeros(len(X))


def linear(rng: np.random.Generator, d: int) -> Mean:
    w = rng.standard_normal(d)
    return lambda X: X @ w + 0.3


def two_outputs(second: str) -> Draw:
    """Of two outputs one is constant, or the first again, or noise."""

    def draw(rng: np.random.Generator, seed: int) -> Case:
        truth = teacher(rng, ACTIVATIONS[seed % len(ACTIVATIONS)])
        n = samples_of(truth)
        X = rng.standard_normal((n + FRESH, truth.features))
        A, c = truth.affine_maps[-1]
        row = {"constant": 0 * A, "equal": A}[second]
        both = truth.replace(
            weights=[*truth.weights[:-1], np.vstack([A, row])],
            biases=[*truth.biases[:-1], np.append(c, c)],
        )
        return asked(both, X[:n], both(X[:n]), X[n:], seed, truth.activation.name)

    return draw


def family(name: str, draw: Draw, what: str, weight: float = 0.25) -> Family:
    return Family(f"deep, {name}", draw, what, weight)


FAMILIES = (
    family("plain", drawn(), "two layers, 20 samples a parameter"),
    family("three", drawn(layers=3), "three layers"),
    family("noise of 1e-6", drawn(spoil=gauss(1e-7, 1e-5)), "of the spread"),
    family("noise", drawn(spoil=gauss(0.005, 0.05)), "0.005 to 0.05 of the spread"),
    family("much noise", drawn(spoil=gauss(0.1, 1), a_parameter=(20, 60)), "0.1 to 1"),
    family("heavy tails", drawn(spoil=heavy), "Student's t with 2.5 degrees"),
    family("uneven noise", drawn(spoil=uneven), "by the first feature"),
    family("some off", drawn(spoil=some_off), "a hundredth of the labels"),
    family("few samples", drawn(a_parameter=(1.2, 3), fewest=30), "1.2 to 3 a parameter"),
    family("few noisy", drawn(spoil=gauss(0.01, 0.1), a_parameter=(3, 9), fewest=30), "3 to 9"),
    family("never on", drawn(biased(lambda rng: -8.0), choices=MIRRORED), "a unit"),
    family("always on", drawn(biased(lambda rng: 8.0), choices=MIRRORED), "a unit"),
    family(
        "rarely on", drawn(biased(lambda rng: -rng.uniform(1.5, 3.5)), choices=MIRRORED), "a unit"
    ),
    family("saturated", drawn(biased(lambda rng: rng.choice([-1, 1]) * rng.uniform(1.5, 5)),
           choices=("tanh", "sigmoid", "erf")), "a unit"),
    family("twins", drawn(rows_like(near)), "two units 1e-4 to 0.1 apart"),
    family("duplicate", drawn(rows_like(lambda rng, w, b: (w, b))), "a unit twice"),
    family("opposite", drawn(rows_like(lambda rng, w, b: (-w, -b))), "relu(z) and relu(-z)"),
    family("parallel", drawn(rows_like(lambda rng, w, b: (w, b + 0.7))), "of one direction"),
    family("no biases", drawn(no_biases), "all zero"),
    family("reversible", drawn(reversible, choices=("gelu", "relu", "silu")), "the last layer"),
    family("scaled layer", drawn(scaled_layer), "weights 1e-3 to 30 times as large"),
    family("weak feed", drawn(weak_feed), "a unit that hardly feeds any"),
    family("weak feed, noise", drawn(weak_feed, gauss(1e-4, 0.03)), "a unit that hardly feeds any"),
    family("one and one", drawn(of_widths(1, 1)), "widths 1"),
    family("one below", drawn(of_widths(1, 3)), "widths 1 and 3"),
    family("one above", drawn(of_widths(3, 1)), "widths 3 and 1"),
    family("bottleneck", drawn(of_widths(2, 5)), "widths 2 and 5"),
    family("wide below", drawn(of_widths(6, 2)), "widths 6 and 2"),
    family("decimals", drawn(spoil=decimals), "labels rounded to 3 to 6"),
    family("float32", drawn(spoil=single), "labels in single precision"),
    family("whole inputs", drawn(inputs=whole), "-3 to 3"),
    family("waves on a lattice", drawn(next_wave, inputs=halves, choices=("sin",)), "of 1/2"),
    family("repeats", drawn(inputs=repeated), "80 different inputs"),
    family("flat", drawn(inputs=flat), "inputs near a plane"),
    family("clusters", drawn(inputs=clusters), "4 of them"),
    family("far", drawn(inputs=far), "inputs away from zero"),
    family("other activation", drawn(told=other_activation), "tanh told as erf and such"),
    family("other activation, noise", drawn(told=other_activation, spoil=gauss(0.01, 0.1)), ""),
    family("too few told", drawn(told=widths_told(one_fewer)), "units="),
    family("too few told, noise", drawn(spoil=gauss(0.01, 0.1), told=widths_told(one_fewer)), ""),
    family("too many told", drawn(told=widths_told(one_more)), "units="),
    family("too many told, noise", drawn(spoil=gauss(0.01, 0.1), told=widths_told(one_more)), ""),
    family("swapped told", drawn(told=widths_told(lambda w: w[::-1])), "units="),
    family("total told", drawn(told=total_told), "units= one number, maybe wrong"),
    family("noise told", drawn(spoil=gauss(0.01, 0.1), told=noise_told), "noise= any"),
    family("one second", drawn(budget=1.0, spoil=gauss(1e-9, 0.1)), "of time"),
    family("auto", drawn(layers=2, told=lambda rng, net: {"layers": "auto"}), "depth open"),
    family("auto, three", drawn(layers=3, told=lambda rng, net: {"layers": "auto"}), "depth open"),
    family("auto, noise", drawn(spoil=gauss(0.01, 0.1), told=lambda rng, net: {"layers": "auto"}),
           "depth open"),
    family("auto, one layer", one_layer(layers="auto"), "depth open"),
    family("auto, one layer, noise", one_layer(0.05, layers="auto"), "depth open"),
    family("auto, nothing", of_no_network(nothing, 1.0, layers="auto"), "noise alone"),
    family("one layer", one_layer(), "where two are asked for"),
    family("one layer, noise", one_layer(0.03), "where two are asked for"),
    family("one layer, much noise", one_layer(0.3), "where two are asked for"),
    family("one layer of three", one_layer(layers=3), "where three are asked for"),
    family("three as two", three_layers(), "three layers told as two"),
    family("three as two, noise", three_layers(0.05), "three layers told as two"),
    family("constant output", two_outputs("constant"), "beside another"),
    family("equal outputs", two_outputs("equal"), "two"),
    family("three outputs", drawn(outputs=3), ""),
    family("clipped", drawn(spoil=clipped), "min(network, c)"),
    *(
        family(f"{name}{noisy}", of_no_network(make, noise), what)
        for noisy, noise in (("", 0.0), (", noise", 0.1))
        for name, make, what in (
            ("wave", wave, "sin(sum x)"),
            ("product", product, "of two features"),
            ("largest", largest, "the largest feature"),
            ("norm", norm, "of the inputs"),
            ("residual", residual, "a linear term beside two layers"),
            ("skipping", skipping, "the second layer is given the inputs too"),
            ("leaky", leaky, "units told as relu"),
            ("mixed", mixed, "relu of tanh"),
            ("linear", linear, "no unit"),
        )
    ),
)  # fmt: skip
