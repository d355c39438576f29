"""Networks out of models that may be asked: successes, queries beside parameters, errors.

    python benchmarks/extraction.py                       # every row
    python benchmarks/extraction.py --rows 10,5 --seeds 5
    python benchmarks/extraction.py --rows 20,10,1e-4 trained,float64
    python benchmarks/extraction.py --rows 20,10,tanh --seeds 10
    python benchmarks/extraction.py --rows 20,10,box0.5 20,10,float32 20,10,decimals4
    python benchmarks/extraction.py --rows 20,10,classes 2048,4,classes --seeds 3
    python benchmarks/extraction.py --deep 10-10-10-1,80-40-20-1 --seeds 0:10
    python benchmarks/extraction.py --trained --seeds 3 --seconds 60

A row is named by features and units of the hidden network (that of `common.random_problem`) and, if
there is any, by the noise of its answers, or by the activation of smooth units (then the network
is `random_network`'s with an output bias). A success is an answer that says so, within the queries
allowed: with exact answers 2 a parameter and 600, of smooth units 3 a parameter, all parameters to
1e-9; with noise 400 and 1500 queries, all parameters to 10 times the noise. Prints a Markdown
table.

`trained` rows are ONNX files of an MLPRegressor with 16 units that was fitted to scikit-learn's
diabetes data. In float32 there is no limit on queries, and rounding is the noise.

In a `box` (of inputs up to so far from zero in every feature) the network is `random_network`'s,
and a success is a function that is exact there: 10,000 uniform inputs are predicted to 1e-8 of the
answers' spread. `float32` networks compute in single precision, `decimals` are those of the
answers: all parameters to 10 times their rounding, 10 queries a parameter and 10 seconds at most.
Seconds are those of the processor, and memory is the most that the process has had so far.

`classes` are the signs of the answers and nothing else, of `random_network` with an output bias
halfway between the quantiles of 40% and 60%: all parameters to 1e-6, up to a factor, however many
queries it takes. That there are two units is told, since their boundary does not tell it.

`--deep` and `--trained` print another table instead, of networks with several hidden layers beside
the published attacks: see `extraction_layers.py`.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import provenet as pn
from common import Record, finite, markdown_head, markdown_row, random_problem
from extraction_layers import DEEP, TRAINED, RandomLayers, TrainedLayers, print_layers
from provenet.common.typing import Array
from trials import report

EXACT_ERROR, TIMES_NOISE = 1e-9, 10.0
RELU, SMOOTH_OUTPUT_BIAS = "relu", 0.3
SMOOTH_QUERIES = 3
SLOPED = ("leaky_relu(0.1)", "abs")
"""A parameter, at most, of smooth units."""
NOISES = (1e-8, 1e-4, 1e-2)
TITLES = ("network", "noise", "recovered", "queries a parameter", "median error", "s", "peak MB")
BOX, SINGLE, DECIMALS, CLASSES = "box", "float32", "decimals", "classes"
CLASSES_ERROR, MIDDLE, TOLD = 1e-6, (0.4, 0.6), 2
IN_BOX, BOX_ERROR = 10_000, 1e-8
ROUNDED_QUERIES = 10
"""A parameter, at most, where answers are rounded."""
ROUNDED_SECONDS = 10.0
"""Of the processor, at most, there."""


@dataclass(frozen=True)
class Row:
    """A size, and the noise of the answers."""

    features: int
    units: int
    noise: float = 0.0
    seeds: int = 20
    activation: str = RELU

    @property
    def limit(self) -> float | None:
        """No box."""
        return None

    @property
    def name(self) -> str:
        """In a table."""
        kind = "" if self.activation == RELU else f"{self.activation} "
        return f"{self.features} features, {self.units} {kind}units"

    @property
    def budget(self) -> int | None:
        """A model without noise is asked without a budget: it must be thrifty by itself."""
        if not self.noise:
            return None
        return 400 if self.units <= 5 else 1500

    def truth(self, seed: int) -> pn.Network:
        """The hidden network."""
        if self.activation != RELU:
            network = pn.random_network(
                self.units, self.features, activation=self.activation, rng=seed
            )
            return network.replace(output_bias=SMOOTH_OUTPUT_BIAS)
        return random_problem(self.features, self.units, 10, "gauss", 0.0, seed).truth

    def model(self, truth: pn.Network, seed: int, folder: Path) -> Callable[[Array], Array]:
        """What may be asked."""
        rng = np.random.default_rng([seed, 1])
        if not self.noise:
            return truth
        return lambda X: np.asarray(truth(X) + self.noise * rng.standard_normal(len(X)))


@dataclass(frozen=True)
class OfClasses(Row):
    """A size, where answers are two classes."""

    seeds: int = 10

    @property
    def name(self) -> str:
        """In a table."""
        return f"{super().name}, two classes"

    @property
    def told(self) -> int | None:
        """What the boundary of few units does not tell."""
        return self.units if self.units <= TOLD else None

    def truth(self, seed: int) -> pn.Network:
        """The hidden network, with the factor that is a convention."""
        network = pn.random_network(self.units, self.features, rng=seed).canonical()
        values = network(np.random.default_rng([seed, 3]).standard_normal((4000, self.features)))
        factor = 1 / float(np.linalg.norm(network.output_weights))
        return network.replace(
            output_weights=factor * network.output_weights,
            output_bias=factor * float(network.output_bias - np.mean(np.quantile(values, MIDDLE))),
            link="logit",
        )

    def model(self, truth: pn.Network, seed: int, folder: Path) -> Callable[[Array], Array]:
        """What may be asked."""
        return lambda X: (truth(X) > 0).astype(float)


@dataclass(frozen=True)
class Boxed(Row):
    """A size, and how far inputs may be from zero."""

    half: float = 1.0

    @property
    def name(self) -> str:
        """In a table."""
        return f"{super().name}, inputs up to {self.half:g}"

    @property
    def limit(self) -> float:
        """Of all features."""
        return self.half

    def truth(self, seed: int) -> pn.Network:
        """The hidden network."""
        return pn.random_network(self.units, self.features, rng=seed)

    def error(self, found: pn.Network, truth: pn.Network, seed: int) -> float:
        """The worst of many inputs in the box, beside the answers' spread."""
        rng = np.random.default_rng([seed, 2])
        X = rng.uniform(-self.half, self.half, (IN_BOX, self.features))
        y = truth(X)
        return float(np.abs(found(X) - y).max() / y.std())


@dataclass(frozen=True)
class Rounded(Row):
    """A size, and single precision or so many decimals of the answers."""

    decimals: int | None = None

    @property
    def name(self) -> str:
        """In a table."""
        kind = SINGLE if self.decimals is None else f"{self.decimals} decimals"
        return f"{super().name}, {kind}"

    @property
    def rounding(self) -> float:
        """Of an answer."""
        if self.decimals is not None:
            return float(10.0**-self.decimals)
        return float(np.finfo(np.float32).eps)

    def truth(self, seed: int) -> pn.Network:
        """The hidden network, whose parameters are numbers of single precision."""
        net = pn.random_network(self.units, self.features, rng=seed)
        parts = (net.weights, net.biases, net.output_weights)
        W, b, a = (part.astype(np.float32).astype(float) for part in parts)
        return pn.Network(W, b, a)

    def model(self, truth: pn.Network, seed: int, folder: Path) -> Callable[[Array], Array]:
        """What may be asked."""
        if self.decimals is not None:
            decimals = self.decimals
            return lambda X: np.asarray(np.round(truth(X), decimals))
        parts = (truth.weights, truth.biases, truth.output_weights)
        W, b, a = (part.astype(np.float32) for part in parts)
        return lambda X: np.maximum(X.astype(np.float32) @ W.T + b, 0) @ a


@dataclass(frozen=True)
class Trained:
    """A network that was fitted to data, in a file of some precision."""

    dtype: str
    seeds: int = 3
    features: int = 10
    budget: None = None
    activation: str = RELU

    @property
    def limit(self) -> float | None:
        """No box."""
        return None

    @property
    def name(self) -> str:
        """In a table."""
        return f"trained, {self.dtype}"

    @property
    def noise(self) -> float:
        """Rounding."""
        return float(np.finfo(np.float32).eps) if self.dtype == "float32" else 0.0

    def truth(self, seed: int) -> pn.Network:
        """Fitted to standardised inputs and labels."""
        X, y = load_diabetes(return_X_y=True)
        fit = MLPRegressor(hidden_layer_sizes=(16,), max_iter=500, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit.fit(StandardScaler().fit_transform(X), (y - y.mean()) / y.std())
        (W, A), (b, c) = fit.coefs_, fit.intercepts_
        return pn.Network(W.T, b, A[:, 0], c[0])

    def model(self, truth: pn.Network, seed: int, folder: Path) -> Path:
        """What may be asked."""
        path = folder / f"{self.dtype}-{seed}.onnx"
        path.write_bytes(truth.to_onnx(dtype=self.dtype).SerializeToString())
        return path


AnyRow = Row | Trained
ROUNDED = ((10, 16), (20, 10), (50, 20))

ROWS: tuple[AnyRow, ...] = (
    *(Row(*size) for size in ((10, 5), (20, 10), (50, 20), (100, 50), (784, 32))),
    *(Row(*size, noise, seeds=5) for size in ((10, 5), (20, 10)) for noise in NOISES),
    Trained("float64"),
    Trained("float32"),
    *(Row(20, 10, seeds=10, activation=name) for name in ("tanh", "gelu")),
    *(Row(*size, activation=name) for name in SLOPED for size in ((10, 5), (20, 10), (50, 20))),
    *(Boxed(*size, half=half) for size in ((20, 10), (30, 16)) for half in (0.5, 1.0, 2.0)),
    *(OfClasses(*size) for size in ((10, 5), (20, 10))),
    *(OfClasses(*size, seeds=3) for size in ((512, 2), (512, 4), (2048, 4), (3072, 2))),
    *(Rounded(*size, decimals=k) for size in ROUNDED for k in (None, 4, 5, 6)),
)
QUICK: tuple[AnyRow, ...] = (Row(10, 5), Row(20, 10), Row(50, 20), Trained("float64"))


def allowed_error(row: AnyRow) -> float:
    """Parameters may be off by this; in a box the function."""
    if isinstance(row, Boxed):
        return BOX_ERROR
    if isinstance(row, OfClasses):
        return CLASSES_ERROR
    if isinstance(row, Rounded):
        return TIMES_NOISE * row.rounding
    return TIMES_NOISE * row.noise or EXACT_ERROR


def allowed_queries(row: AnyRow, truth: pn.Network) -> float:
    """What a success may cost."""
    if row.noise:
        return row.budget or float("inf")
    if isinstance(row, Rounded):
        return ROUNDED_QUERIES * truth.free_parameters
    if isinstance(row, Boxed | OfClasses):
        return float("inf")
    if row.activation not in (RELU, *SLOPED):
        return SMOOTH_QUERIES * truth.free_parameters
    return 2 * truth.free_parameters + 600


@dataclass(frozen=True)
class Trial:
    """What one extraction gave."""

    recovered: bool
    queries_a_parameter: float
    error: float
    seconds: float
    megabytes: float


def trial(row: AnyRow, seed: int) -> Trial:
    """Extract one network."""
    truth = row.truth(seed)
    with tempfile.TemporaryDirectory() as folder:
        model: Any = row.model(truth, seed, Path(folder))
        begin = time.process_time()
        result = pn.extract(
            model,
            row.features,
            activation=row.activation,
            budget=row.budget,
            units=row.told if isinstance(row, OfClasses) else None,
            rng=seed,
            low=None if row.limit is None else -row.limit,
            high=row.limit,
        )
        seconds = time.process_time() - begin
    found, queries = result.network, result.queries or 0
    error = float("inf")
    if found is not None:
        error = (
            row.error(found, truth, seed)
            if isinstance(row, Boxed)
            else pn.parameter_error(found, truth)
        )
    within = error <= allowed_error(row) and queries <= allowed_queries(row, truth)
    within = within and (not isinstance(row, Rounded) or seconds <= ROUNDED_SECONDS)
    recovered = within and (result.success or isinstance(row, Boxed))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Trial(recovered, queries / truth.free_parameters, error, seconds, peak)


def cells(row: AnyRow, trials: list[Trial]) -> list[str]:
    """A line of the table."""
    queries = [done.queries_a_parameter for done in trials]
    return [
        row.name,
        f"{row.noise:.2g}",
        f"{sum(done.recovered for done in trials)} of {len(trials)}",
        f"{np.mean(queries):.2f} ({max(queries):.2f} at most)",
        f"{np.median([done.error for done in trials]):.1e}",
        f"{np.mean([done.seconds for done in trials]):.2f}",
        f"{max(done.megabytes for done in trials):.0f}",
    ]


def run(quick: bool) -> list[Record]:
    """For the suite: the share recovered beside all, and queries beside parameters."""
    found: list[Record] = []
    for row in QUICK if quick else ROWS:
        trials = [trial(row, seed) for seed in range(min(5, row.seeds) if quick else row.seeds)]
        name = f"{row.name}, noise {row.noise:.2g}"
        report(markdown_row(cells(row, trials)))
        share = float(np.mean([done.recovered for done in trials]))
        queries = float(np.mean([done.queries_a_parameter for done in trials]))
        error = finite(float(np.median([done.error for done in trials])))
        found += [
            Record(f"{name}: recovered", share, "share", "all", 1.0),
            Record(f"{name}: queries", queries, "a parameter", "one a parameter", 1.0),
            Record(f"{name}: median error", error, "", "allowed", allowed_error(row)),
        ]
    return found


def parsed(text: str) -> AnyRow:
    """A row from the command line."""
    if text.startswith("trained,"):
        return Trained(text.partition(",")[2])
    features, units, *more = text.split(",")
    kind = more[0] if more else ""
    if kind.startswith(BOX):
        return Boxed(int(features), int(units), half=float(kind.removeprefix(BOX)))
    if kind == CLASSES:
        return OfClasses(int(features), int(units))
    if kind == SINGLE or kind.startswith(DECIMALS):
        decimals = None if kind == SINGLE else int(kind.removeprefix(DECIMALS))
        return Rounded(int(features), int(units), decimals=decimals)
    if kind[:1].isalpha():
        return Row(int(features), int(units), activation=more[0])
    return Row(int(features), int(units), float(more[0]) if more else 0.0)


def parsed_seeds(text: str) -> range:
    """Seeds from the command line: how many, from 0 on, or first and end."""
    first, colon, end = text.partition(":")
    return range(int(first), int(end)) if colon else range(int(text))


def parsed_deep(text: str) -> tuple[RandomLayers, ...]:
    """Widths from the command line: "10-10-10-1,80-40-20-1"."""
    return tuple(RandomLayers(tuple(map(int, row.split("-")))) for row in text.split(","))


def parsed_trained(text: str) -> tuple[TrainedLayers, ...]:
    """Names of data from the command line, separated by commas."""
    return tuple(row for row in TRAINED if row.data in text.split(","))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", nargs="+", type=parsed, default=ROWS, metavar="ROW")
    parser.add_argument("--deep", nargs="?", type=parsed_deep, const=DEEP, metavar="WIDTHS")
    parser.add_argument("--trained", nargs="?", type=parsed_trained, const=TRAINED, metavar="DATA")
    parser.add_argument("--seeds", type=parsed_seeds, help="20; 3 of trained networks; 5 or 5:10")
    parser.add_argument("--seconds", type=float, help="at most, an extraction of several layers")
    args = parser.parse_args()
    if args.deep or args.trained:
        rows = (*(args.deep or ()), *(args.trained or ()))
        print_layers(rows, args.seeds or range(3), args.seconds)
        return
    print(markdown_head(TITLES))
    for row in args.rows:
        trials = [trial(row, seed) for seed in args.seeds or range(row.seeds)]
        print(markdown_row(cells(row, trials)), flush=True)


if __name__ == "__main__":
    main()
