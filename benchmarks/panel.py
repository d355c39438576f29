"""The instrument: a fixed panel of some 300 problems, built from their answers, by the public API.

    python benchmarks/panel.py --out after.json             # all, two processes, 25 minutes
    python benchmarks/panel.py --quick                      # a third of the problems, 4 minutes
    python benchmarks/panel.py --family "two layers"        # families whose name holds the text
    python benchmarks/panel.py --compare benchmarks/panel_reference.json after.json

A trial is *right* if the result is a success and agrees with the truth, *false* if it is a success
and does not, else *missed* (partial, failed or crashed). What "agrees" means is stated where a
family is defined:

- `exact`: same units, every parameter within 1e-6 of the truth (`pn.parameter_error`);
- `least_squares`: same units, and on fresh inputs the root mean square error of the function is at
  most 2 sigma sqrt(p / n). From least squares at the truth it is sigma sqrt(p / n) on average; a
  success beyond 4 of these is false, between them missed.

Hostile problems are those of `honesty_families`, on which only a false success counts.

Seeds begin at 41000: nobody has looked at them, and nobody should mend one. Compare rates.
`--compare` gives for each family the probability, by Fisher's exact test, that fewer are right (or
more are false) by luck alone, and the median ratio of processor times of problems whose outcome is
the same in both.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import fisher_exact
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import provenet as pn
from common import markdown_head, markdown_row
from honesty_families import FAMILIES as HONESTY
from honesty_families.scoring import scored

FIRST_SEED = 41_000
RIGHT, FALSE, MISSED = "right", "false", "missed"
TITLES = ("family", "right", "false", "missed", "median s", "queries a parameter", "score")
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Trial:
    """What became of one problem."""

    family: str
    seed: int
    outcome: str
    status: str
    seconds: float
    """Of the processor, and only of the call."""
    error: float | None = None
    queries: float | None = None
    """A parameter."""
    score: float | None = None
    """R^2 on fresh folds, of estimators."""


@dataclass(frozen=True)
class Verdict:
    """What a family's judge says of a result."""

    right: bool
    false: bool
    error: float | None = None
    queries: float | None = None
    score: float | None = None


@dataclass(frozen=True)
class Problem:
    """A call, and the judge of what it returns."""

    call: Callable[[], Any]
    judge: Callable[[Any], Verdict]


@dataclass(frozen=True)
class Family:
    """Problems of one kind: `problem(seed)`, how many of them, and how many with `--quick`."""

    name: str
    problem: Callable[[int], Problem]
    seeds: int
    quick: int = 1


# ---------------------------------------------------------------- judges


def exact(truth: Any, tolerance: float = 1e-6) -> Callable[[Any], Verdict]:
    """The hidden network with every parameter within `tolerance`.

    A success that claims the lowest layer only is missed if that is right, else false.
    """

    def judge(result: Any) -> Verdict:
        if result.claim == "layer" and truth.layers > 1:
            lowest = directions(truth.layer(0).weights, degrees=1e-4)(result)
            return Verdict(False, lowest.false, lowest.error)
        found, error = result.network, float("inf")
        if found is not None and found.widths == truth.widths and found.linear is None:
            error = float(pn.parameter_error(found, truth))
        near = error <= tolerance
        queries = getattr(result, "queries", None)
        return Verdict(
            result.success and near,
            result.success and not near,
            error if np.isfinite(error) else None,
            None if queries is None else queries / truth.free_parameters,
        )

    return judge


def least_squares(truth: Any, n: int, noise: float, fresh: Array) -> Callable[[Any], Verdict]:
    """The hidden units, and a function as near as least squares from the truth would be."""

    def judge(result: Any) -> Verdict:
        found, error = result.network, float("inf")
        if found is not None and found.widths == truth.widths:
            rms = float(np.sqrt(np.mean((found(fresh) - truth(fresh)) ** 2)))
            error = rms / (noise * np.sqrt(truth.free_parameters / n))
        return Verdict(
            result.success and error <= 2,
            result.success and error > 4,
            error if np.isfinite(error) else None,
        )

    return judge


def same_function(truth: Any, fresh: Array, tolerance: float) -> Callable[[Any], Verdict]:
    """Values on fresh inputs within `tolerance` of their spread, root mean square."""

    def judge(result: Any) -> Verdict:
        if result.network is None:
            return Verdict(False, result.success)
        y = truth(fresh)
        error = float(np.sqrt(np.mean((result.network(fresh) - y) ** 2)) / np.std(y))
        near, queries = error <= tolerance, getattr(result, "queries", None)
        return Verdict(
            result.success and near,
            result.success and not near,
            error,
            None if queries is None else queries / truth.free_parameters,
        )

    return judge


def directions(W: Array, degrees: float = 1.0) -> Callable[[Any], Verdict]:
    """Units of a lowest layer: as many, each normal within an angle of the truth, either sign."""

    def judge(result: Any) -> Verdict:
        found, error = result.network, float("inf")
        if found is not None and found.weights.shape == W.shape:
            V = found.weights / np.linalg.norm(found.weights, axis=1, keepdims=True)
            U = W / np.linalg.norm(W, axis=1, keepdims=True)
            angles = np.degrees(np.arccos(np.clip(np.abs(V @ U.T), 0, 1)))
            error = float(angles[linear_sum_assignment(angles)].max())
        near = error <= degrees
        return Verdict(
            result.success and near,
            result.success and not near,
            error if np.isfinite(error) else None,
        )

    return judge


# ---------------------------------------------------------------- samples


def gaussian(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_normal(shape)


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_t(4, shape)


def integers(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.integers(-3, 4, shape).astype(float)


def hidden(seed: int, features: int, units: int | tuple[int, ...], **options: Any) -> Any:
    """A random network with an output bias."""
    outputs = options.get("outputs")
    net = pn.random_network(units, features, rng=seed, **options)
    if isinstance(units, int):
        bias = np.random.default_rng([seed, 1]).uniform(-1, 1, () if outputs is None else outputs)
        net = net.replace(output_bias=bias)
    return net


def recovery(
    features: int,
    units: int | tuple[int, ...],
    n: int,
    *,
    noise: float = 0.0,
    decimals: int | None = None,
    inputs: Callable[[np.random.Generator, tuple[int, int]], Array] = gaussian,
    activation: str = "relu",
    outputs: int | None = None,
    bias_scale: float = 1.0,
    orthonormal: bool = False,
    positive: bool = False,
    corrupt: float = 0.0,
    tolerance: float = 1e-6,
    function_only: bool = False,
    **options: Any,
) -> Callable[[int], Problem]:
    """`pn.recover` on samples of a random network."""

    def problem(seed: int) -> Problem:
        net = hidden(
            seed, features, units, activation=activation, outputs=outputs, bias_scale=bias_scale
        )
        if orthonormal:
            net = net.replace(weights=np.linalg.qr(net.weights.T)[0].T)
        if positive:
            net = net.replace(output_weights=np.abs(net.output_weights))
        if not bias_scale and isinstance(units, int):
            net = net.replace(output_bias=0 * net.output_bias)
        rng = np.random.default_rng([seed, 2])
        X, fresh = inputs(rng, (n, features)), inputs(rng, (4000, features))
        y = net(X)
        y = y + noise * rng.standard_normal(y.shape)
        if decimals is not None:
            y = np.round(y, decimals)
        if corrupt:
            wrong = rng.random(y.shape) < corrupt
            y = np.where(wrong, rng.choice([-100.0, 100.0], y.shape), y)
        layers = 1 if isinstance(units, int) else len(units)
        model: dict[str, Any] = {"activation": activation, "layers": layers}
        judge = exact(net, tolerance)
        if decimals is not None:  # rounding is noise of variance step^2 / 12
            judge = least_squares(net, n, 10.0**-decimals / np.sqrt(12), fresh)
        elif noise:
            judge = least_squares(net, n, noise, fresh)
        elif function_only:
            judge = same_function(net, fresh, tolerance)
        return Problem(lambda: pn.recover(X, y, rng=seed, **(model | options)), judge)

    return problem


def population(features: int, units: int, **options: Any) -> Callable[[int], Problem]:
    """`pn.recover` with infinite data: the exact moments of a network."""

    def problem(seed: int) -> Problem:
        net = hidden(seed, features, units)
        source = pn.PopulationSource(net)
        return Problem(lambda: pn.recover(source, rng=seed, **options), exact(net))

    return problem


def layer(
    method: str,
    draw: Callable[[np.random.Generator], tuple[Array, Callable[[Array], Array]]],
    n: int,
    **options: Any,
) -> Callable[[int], Problem]:
    """`pn.recover` of units under a top: `draw` gives their weights and the labels."""

    def problem(seed: int) -> Problem:
        rng = np.random.default_rng([seed, 3])
        W, labels = draw(rng)
        X = rng.standard_normal((n, W.shape[1]))
        y = labels(X)
        return Problem(lambda: pn.recover(X, y, method=method, rng=seed, **options), directions(W))

    return problem


def _rows(rng: np.random.Generator, units: int, features: int) -> Array:
    return np.linalg.qr(rng.standard_normal((features, units)))[0].T


def high_thresholds(rng: np.random.Generator) -> tuple[Array, Callable[[Array], Array]]:
    """ReLUs beyond 2, summed, with products."""
    W = _rows(rng, 5, 7)

    def labels(X: Array) -> Array:
        H: Array = np.maximum(X @ W.T - 2, 0)
        return np.asarray(H.sum(axis=1) + H[:, 0] * H[:, 1])

    return W, labels


def union(rng: np.random.Generator) -> tuple[Array, Callable[[Array], Array]]:
    """Halfspaces."""
    W = _rows(rng, 3, 4) + 0.2 * rng.standard_normal((3, 4))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    t = rng.uniform(0.8, 1.5, 3)
    return W, lambda X: np.any(t < X @ W.T, axis=1).astype(float)


def product(rng: np.random.Generator) -> tuple[Array, Callable[[Array], Array]]:
    """Two ReLUs multiplied: no linear term."""
    W = _rows(rng, 2, 3)
    return W, lambda X: np.prod(np.maximum(X @ W.T, 0), axis=1)


def even_units(rng: np.random.Generator) -> tuple[Array, Callable[[Array], Array]]:
    """Absolute values, summed, with a product."""
    W = _rows(rng, 4, 6)

    def labels(X: Array) -> Array:
        H: Array = np.abs(X @ W.T)
        return np.asarray(H.sum(axis=1) + 0.2 * H[:, 0] * H[:, 1])

    return W, labels


def exponential_sets(rho: float, t: float) -> Callable[[np.random.Generator], Any]:
    """exp(rho (x_S - t)) on disjoint sets of three features, with products."""

    def draw(rng: np.random.Generator) -> tuple[Array, Callable[[Array], Array]]:
        W = np.repeat(np.eye(4), 3, axis=1)[:, rng.permutation(12)]
        c, e = rng.uniform(0.5, 1.5, 4), rng.uniform(0, 0.3)

        def labels(X: Array) -> Array:
            H = np.exp(rho * (X @ W.T - t))
            return H @ c + e * H[:, 0] * H[:, 1]

        return W, labels

    return draw


def classes(features: int, units: int, n: int) -> Callable[[int], Problem]:
    """0/1 labels drawn with the probabilities of a network, by maximum likelihood."""

    def problem(seed: int) -> Problem:
        net = hidden(seed, features, units).replace(link="logit")
        net = net.replace(output_weights=3 * net.output_weights)
        rng = np.random.default_rng([seed, 4])
        X, fresh = rng.standard_normal((n, features)), rng.standard_normal((4000, features))
        y = (rng.random(n) < net.predict_proba(X)[:, 1]).astype(float)
        p = net.predict_proba(fresh)[:, 1]
        # The information of a label is p (1 - p): so the log-odds of least squares' analogue.
        noise = 1 / np.sqrt(np.mean(p * (1 - p)))
        judge = least_squares(net, n, float(noise), fresh)
        return Problem(lambda: pn.recover(X, y, link="logit", rng=seed), judge)

    return problem


def unnamed(seed: int) -> Problem:
    """Samples whose activation is to be found."""
    name = ("tanh", "softplus", "relu", "gelu")[seed % 4]
    net = hidden(seed, 10, 4, activation=name)
    X = np.random.default_rng([seed, 2]).standard_normal((800, 10))
    y = net(X)
    return Problem(lambda: pn.recover(X, y, activation="auto", rng=seed), exact(net))


# ---------------------------------------------------------------- queries


def extraction(
    features: int,
    units: int,
    *,
    box: float | None = None,
    single: bool = False,
    decimals: int | None = None,
    link: str = "identity",
    labels: bool = False,
    tolerance: float = 1e-8,
    **options: Any,
) -> Callable[[int], Problem]:
    """`pn.extract` of one hidden layer."""

    def problem(seed: int) -> Problem:
        activation = options.get("activation", "relu")
        net = pn.random_network(units, features, activation=activation, rng=seed)
        model: Any = net
        inside = np.random.default_rng([seed, 5]).uniform(-1, 1, (10_000, features))
        if single:
            W, b, a = (p.astype(np.float32) for p in (net.weights, net.biases, net.output_weights))
            net = pn.Network(W.astype(float), b.astype(float), a.astype(float))
            model = lambda X: np.maximum(X.astype(np.float32) @ W.T + b, 0) @ a  # noqa: E731
        if decimals is not None:
            model = lambda X, exact=net: np.round(exact(X), decimals)  # noqa: E731
        if link != "identity":
            net = net.replace(link=link)
            model = net.predict_proba
        if labels:  # the scale of the outputs is a convention of the classes
            y = net(np.random.default_rng([seed, 6]).standard_normal((4000, features)))
            scale = 1 / float(np.linalg.norm(net.canonical().output_weights))
            net = net.replace(
                output_weights=scale * net.output_weights,
                output_bias=scale * float(net.output_bias - np.median(y)),
                link="logit",
            )
            model = lambda X, exact=net: (exact(X) > 0).astype(float)  # noqa: E731
        limits: dict[str, Any] = {} if box is None else {"low": -box, "high": box}
        judge = exact(net, tolerance)
        if box is not None:
            judge = same_function(net, box * inside, tolerance)
        return Problem(lambda: pn.extract(model, features, rng=seed, **limits, **options), judge)

    return problem


def deep_extraction(*widths: int, outputs: int | None = None) -> Callable[[int], Problem]:
    """`pn.extract` of several hidden layers: weights N(0, 1 / fan-in), biases N(0, 0.3^2)."""

    def problem(seed: int) -> Problem:
        rng = np.random.default_rng([seed, 7])
        sizes = list(zip(widths, (*widths[1:], outputs or 1), strict=True))
        W = [rng.standard_normal((above, below)) / np.sqrt(below) for below, above in sizes]
        b = [0.3 * rng.standard_normal(above) for _, above in sizes]
        net = pn.DeepNetwork(W, b)
        fresh = rng.standard_normal((5000, widths[0]))
        judge = same_function(net, fresh, 1e-8)
        return Problem(lambda: pn.extract(net, widths[0], rng=seed), judge)

    return problem


def trained_extraction(hidden_layers: tuple[int, ...]) -> Callable[[int], Problem]:
    """`pn.extract` of an MLPRegressor trained on the diabetes data."""

    def problem(seed: int) -> Problem:
        X, y = load_diabetes(return_X_y=True)
        X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
        fitted = MLPRegressor(hidden_layer_sizes=hidden_layers, max_iter=200, random_state=seed)
        fitted.fit(X, y)
        net = pn.DeepNetwork.from_mlp_regressor(fitted)
        judge = same_function(net, np.random.default_rng(seed).standard_normal((5000, 10)), 1e-8)
        return Problem(lambda: pn.extract(net, 10, rng=seed), judge)

    return problem


# ---------------------------------------------------------------- estimators and hostile problems


def estimator(name: str) -> Callable[[int], Problem]:
    """R^2 of NetworkRegressor on three fresh folds; right within 0.05 of ridge regression's."""

    def samples() -> tuple[Array, Array]:
        if name == "diabetes":
            X, y = load_diabetes(return_X_y=True)
            return X, y
        data, column = (load_wine().data, 0) if name == "wine" else (load_iris().data, 3)
        return np.delete(data, column, axis=1), data[:, column]

    def mean_score(model: Any, seed: int) -> float:
        X, y = samples()
        scores = []
        for fit, test in KFold(3, shuffle=True, random_state=seed).split(X):
            scale = StandardScaler().fit(X[fit])
            model.fit(scale.transform(X[fit]), y[fit])
            scores.append(r2_score(y[test], model.predict(scale.transform(X[test]))))
        return float(np.mean(scores))

    def problem(seed: int) -> Problem:
        def judge(score: float) -> Verdict:
            ridge = mean_score(RidgeCV(tuple(10.0 ** np.arange(-3, 4))), seed)
            return Verdict(score >= ridge - 0.05, False, score=score)

        return Problem(lambda: mean_score(pn.NetworkRegressor(random_state=seed), seed), judge)

    return problem


def hostile(names: Sequence[str]) -> Callable[[int], Problem]:
    """A problem of `honesty_families`, on which only a false success counts."""

    def problem(seed: int) -> Problem:
        case = HONESTY[names[(seed - FIRST_SEED) % len(names)]].case(seed)

        def call() -> Any:
            try:
                return case.ask()
            except pn.InvalidInput as refusal:
                return pn.Recovery.nothing("none", f"Refused: {refusal}")

        def judge(result: Any) -> Verdict:
            wrong = bool(scored(case, result).wrong)
            return Verdict(not wrong, wrong)

        return Problem(call, judge)

    return problem


# ---------------------------------------------------------------- the panel

NOISE_FAMILIES = (
    "proportional noise",
    "cut off with noise",
    "nothing but noise",
    "close pair",
    "noise told too small",
    "units told too few",
    "noise of 1e-10",
    "kept by labels",
)
LABEL_FAMILIES = (
    "floored",
    "rounded and noisy",
    "clipped and noisy",
    "one label off",
    "two models",
    "time-stamped",
    "mislabelled",
    "signs only",
    "duplicated",
    "integers",
)
MODEL_FAMILIES = (
    "smooth units",
    "two layers",
    "polynomial",
    "product",
    "norm",
    "gated",
    "almost linear",
    "tree",
    "almost a plane",
    "repeats",
    "clusters",
    "inputs rounded later",
)
QUERY_FAMILIES = (
    "clipped region",
    "corner",
    "unit far out",
    "tiny output",
    "discontinuous",
    "rounded answers",
    "deeper model",
    "smooth model",
    "odd units of a deep model",
    "nearly a deep model",
)

FAMILIES = (
    # One output, no noise, width not given.
    Family("relu 10-5, 300 samples", recovery(10, 5, 300), 16, 2),
    Family("relu 20-10, 1000 samples", recovery(20, 10, 1000), 16, 2),
    Family("relu 8-12, 2000 samples", recovery(8, 12, 2000), 8, 2),
    Family("relu 50-20, 5000 samples", recovery(50, 20, 5000), 6, 1),
    Family("relu 100-50, 25000 samples", recovery(100, 50, 25_000), 2, 0),
    Family(
        "few samples: 10-5, 200; 20-10, 600",
        lambda seed: (recovery(10, 5, 200) if seed % 2 else recovery(20, 10, 600))(seed),
        16,
        2,
    ),
    Family(
        "inputs heavy-tailed, integers",
        lambda seed: (recovery(20, 10, 2500, inputs=heavy_tailed if seed % 2 else integers))(seed),
        8,
        1,
    ),
    Family(
        "leaky relu, abs",
        lambda seed: recovery(10, 5, 400, activation="leaky_relu(0.2)" if seed % 2 else "abs")(
            seed
        ),
        8,
        1,
    ),
    Family("fewer samples: 10-5, 150", recovery(10, 5, 150), 8, 1),
    # Noise.
    Family("noise 0.1, 10-5, 3000 samples", recovery(10, 5, 3000, noise=0.1), 8, 2),
    Family("noise 0.1, 20-10, 5000 samples", recovery(20, 10, 5000, noise=0.1), 3, 1),
    Family("labels of 2 decimals", recovery(6, 3, 1000, decimals=2), 8, 2),
    Family("class labels by likelihood", classes(5, 2, 4000), 6, 1),
    # Several outputs, and the papers' methods.
    Family("lifting", recovery(10, 5, 150, outputs=6, inputs=integers, method="lifting"), 6, 1),
    Family("several outputs, auto", recovery(10, 5, 2000, outputs=3), 6, 1),
    Family(
        "rectified", recovery(10, 5, 20_000, outputs=6, bias_scale=0.0, method="rectified"), 3, 1
    ),
    Family(
        "ica",
        recovery(6, 4, 20_000, outputs=5, bias_scale=0.0, orthonormal=True, method="ica"),
        2,
        1,
    ),
    Family(
        "symmetric-inputs",
        recovery(6, 3, 20_000, outputs=4, bias_scale=0.0, method="symmetric-inputs"),
        2,
        1,
    ),
    Family(
        "rank-deficient",
        recovery(5, 3, 1500, outputs=2, bias_scale=0.0, method="rank-deficient"),
        2,
        1,
    ),
    Family(
        "sparse-noise",
        recovery(6, 3, 4000, outputs=20, bias_scale=0.0, corrupt=0.05, method="sparse-noise"),
        2,
        1,
    ),
    Family(
        "arbitrary-noise",
        recovery(5, 3, 4000, outputs=3, bias_scale=0.0, noise=0.2, method="arbitrary-noise"),
        2,
        1,
    ),
    Family(
        "arbitrary-inputs",
        recovery(3, 2, 40, outputs=3, bias_scale=0.0, method="arbitrary-inputs"),
        2,
        1,
    ),
    Family("biased-relu, 1e5 samples", recovery(20, 10, 100_000, method="biased-relu"), 3, 1),
    Family(
        "biased-relu faithful, population",
        population(8, 5, method="biased-relu", faithful=True),
        3,
        1,
    ),
    Family(
        "overcomplete faithful, population",
        population(5, 8, method="overcomplete", faithful=True),
        3,
        1,
    ),
    Family(
        "regression",
        recovery(6, 4, 20_000, method="regression", function_only=True, tolerance=0.05),
        2,
        1,
    ),
    Family(
        "landscape", recovery(8, 5, 50_000, bias_scale=0.0, positive=True, method="landscape"), 3, 1
    ),
    Family("lowest-layer", layer("lowest-layer", high_thresholds, 60_000), 4, 1),
    Family("halfspaces", layer("halfspaces", union, 10_000), 4, 1),
    Family("gradient-search", layer("gradient-search", product, 40_000), 2, 1),
    Family("even", layer("even", even_units, 30_000, activation="abs"), 2, 1),
    Family("binary-cliques", layer("binary-cliques", exponential_sets(0.5, 2.0), 60_000), 2, 1),
    Family("exponential", layer("exponential", exponential_sets(1.0, 0.0), 60_000), 2, 1),
    # Smooth units, and several layers.
    *(
        Family(f"{name} 20-10, 1000 samples", recovery(20, 10, 1000, activation=name), 4, 1)
        for name in ("tanh", "gelu", "softplus", "elu", "silu", "sin")
    ),
    Family("activation found", unnamed, 8, 1),
    Family("two layers, tanh 10-5-3", recovery(10, (5, 3), 1000, activation="tanh"), 8, 1),
    Family("two layers, relu 10-5-3", recovery(10, (5, 3), 2000), 10, 1),
    Family("two layers, relu 10-8-4", recovery(10, (8, 4), 6000), 4, 0),
    Family("two layers, noise", recovery(6, (4, 2), 4000, activation="tanh", noise=0.02), 2, 0),
    Family("three layers, tanh 6-4-3-2", recovery(6, (4, 3, 2), 2000, activation="tanh"), 2, 0),
    # Queries.
    Family("extract 10-5", extraction(10, 5), 8, 2),
    Family("extract 20-10", extraction(20, 10), 8, 1),
    Family("extract 784-32", extraction(784, 32), 1, 1),
    Family("extract many units: 10-60", extraction(10, 60), 2, 0),
    Family("extract in a box", extraction(20, 10, box=1.0), 8, 1),
    Family("extract float32", extraction(20, 10, single=True, tolerance=1.2e-6), 6, 1),
    Family("extract 4 decimals", extraction(10, 16, decimals=4, tolerance=1e-3), 6, 1),
    Family("extract probabilities", extraction(10, 5, link="logit", tolerance=1e-6), 6, 1),
    Family("extract from classes only", extraction(10, 5, labels=True, tolerance=1e-6), 2, 0),
    Family(
        "extract smooth units",
        lambda seed: extraction(10, 5, activation="tanh" if seed % 2 else "gelu")(seed),
        3,
        1,
    ),
    Family("extract 10-10-10-1", deep_extraction(10, 10, 10), 12, 1),
    Family("extract 40-20-10-10-1", deep_extraction(40, 20, 10, 10), 4, 0),
    Family("extract 80-40-20-1", deep_extraction(80, 40, 20), 1, 0),
    Family("extract trained 10-16-8-1", trained_extraction((16, 8)), 3, 1),
    # Estimators: R^2 on real data.
    *(
        Family(f"regressor on {name}", estimator(name), 2, 1)
        for name in ("diabetes", "wine", "iris")
    ),
    # Hostile: only a false success counts.
    Family("hostile noise", hostile(NOISE_FAMILIES), len(NOISE_FAMILIES), 4),
    Family("hostile labels", hostile(LABEL_FAMILIES), len(LABEL_FAMILIES), 4),
    Family("hostile models and inputs", hostile(MODEL_FAMILIES), len(MODEL_FAMILIES), 4),
    Family("hostile queries", hostile(QUERY_FAMILIES), len(QUERY_FAMILIES), 4),
)


# ---------------------------------------------------------------- running


def trial(name: str, seed: int) -> Trial:
    """One problem: processor time of the call, then the judge."""
    family = next(family for family in FAMILIES if family.name == name)
    problem = family.problem(seed)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = problem.call()
        except Exception as error:
            traceback.print_exc()
            seconds = time.process_time() - begin
            return Trial(name, seed, MISSED, f"crashed: {type(error).__name__}: {error}", seconds)
        seconds = time.process_time() - begin
        verdict = problem.judge(result)
    outcome = RIGHT if verdict.right else FALSE if verdict.false else MISSED
    status = str(getattr(result, "status", ""))
    return Trial(
        name,
        seed,
        outcome,
        status,
        round(seconds, 3),
        verdict.error,
        verdict.queries,
        verdict.score,
    )


def run(
    plan: Sequence[tuple[str, int]], jobs: int, prepare: Callable[[], None] | None = None
) -> Iterator[Trial]:
    """All problems, in processes of one thread each, in the order in which they end.

    `prepare` is called once in each process, before its first problem.
    """
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # inherited by the processes, which import NumPy afresh
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=prepare) as pool:
        for future in as_completed(pool.submit(trial, *task) for task in plan):
            yield future.result()


def planned(quick: bool, family: str = "") -> list[tuple[str, int]]:
    """Families and seeds, the largest problems first so that the last do not run alone."""
    chosen = [f for f in FAMILIES if family.lower() in f.name.lower()]
    slow = ("relu 100-50", "extract many", "extract 784", "two layers, relu", "noise 0.1, 20-10")
    chosen.sort(key=lambda f: not f.name.startswith(slow))
    return [(f.name, FIRST_SEED + k) for f in chosen for k in range(f.quick if quick else f.seeds)]


# ---------------------------------------------------------------- tables


def by_family(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    groups: dict[str, list[Trial]] = {family.name: [] for family in FAMILIES}
    for one in trials:
        groups.setdefault(one.family, []).append(one)
    return {name: group for name, group in groups.items() if group}


def _counts(trials: Sequence[Trial]) -> tuple[int, int, int]:
    right, false, missed = (sum(t.outcome == o for t in trials) for o in (RIGHT, FALSE, MISSED))
    return right, false, missed


def _median(values: Iterable[float | None]) -> str:
    known = [v for v in values if v is not None]
    return f"{np.median(known):.3g}" if known else "-"


def table(trials: Sequence[Trial]) -> str:
    """A row a family, and one of all."""
    rows = [markdown_head(TITLES)]
    for name, group in [*by_family(trials).items(), ("**all**", list(trials))]:
        seconds = f"{np.median([t.seconds for t in group]):.2f}"
        queries, score = _median(t.queries for t in group), _median(t.score for t in group)
        if name == "**all**":
            seconds, queries, score = f"{sum(t.seconds for t in group):.0f} in all", "", ""
        rows.append(markdown_row((name, *_counts(group), seconds, queries, score)))
    return "\n".join(rows)


def compared(before: Sequence[Trial], after: Sequence[Trial]) -> str:
    """What moved: a row a family with other outcomes or times, and all problems together."""
    rows = [markdown_head(("family", "right", "false", "luck", "time ratio"))]
    old, new = by_family(before), by_family(after)
    for name in [*(n for n in old if n in new), "**all**"]:
        a = list(before) if name == "**all**" else old[name]
        b = list(after) if name == "**all**" else new[name]
        (right, false, _), (right_after, false_after, _) = _counts(a), _counts(b)
        luck = min(
            probability_of_luck(right_after, len(b), right, len(a), "less"),
            probability_of_luck(false_after, len(b), false, len(a), "greater"),
        )
        ratio = time_ratio(a, b)
        moved = (right, false) != (right_after, false_after) or not 1 / 1.2 <= ratio <= 1.2
        if moved or name == "**all**":
            rows.append(
                markdown_row(
                    (
                        name,
                        f"{right} -> {right_after} of {len(b)}",
                        f"{false} -> {false_after}",
                        f"{luck:.2g}",
                        f"{ratio:.2f}",
                    )
                )
            )
    return "\n".join(rows)


def probability_of_luck(k: int, n: int, k0: int, n0: int, alternative: str) -> float:
    """The probability of k of n or worse if both rates are the same."""
    return float(fisher_exact([[k, n - k], [k0, n0 - k0]], alternative=alternative)[1])


def time_ratio(before: Sequence[Trial], after: Sequence[Trial]) -> float:
    """The median over problems with the same outcome in both of the ratio of times."""
    old = {(t.family, t.seed): t for t in before}
    ratios = [
        t.seconds / max(old[t.family, t.seed].seconds, 1e-3)
        for t in after
        if (t.family, t.seed) in old and old[t.family, t.seed].outcome == t.outcome
    ]
    return float(np.median(ratios)) if ratios else float("nan")


def read(path: Path) -> list[Trial]:
    return [Trial(**row) for row in json.loads(path.read_text())["trials"]]


def write(trials: Sequence[Trial], path: Path) -> None:
    ordered = sorted(trials, key=lambda t: (t.family, t.seed))
    rows = ",\n".join(json.dumps(asdict(t)) for t in ordered)
    path.write_text(f'{{"date": "{date.today().isoformat()}", "trials": [\n{rows}\n]}}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a third of the problems")
    parser.add_argument("--family", default="", help="only families whose name holds this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write the trials as JSON")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    args = parser.parse_args()
    if args.compare:
        print(compared(*map(read, args.compare)))
        return
    trials = []
    for done in run(planned(args.quick, args.family), args.jobs):
        trials.append(done)
        print(
            f"{done.family}, seed {done.seed}: {done.outcome}, {done.status}, {done.seconds:.1f} s",
            flush=True,
        )
    print(table(trials))
    if args.out:
        write(trials, args.out)


if __name__ == "__main__":
    main()
