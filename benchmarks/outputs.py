"""Success rate and time with several outputs, beside scikit-learn's MLPRegressor.

    python benchmarks/outputs.py                          # every row, all its seeds: hours
    python benchmarks/outputs.py --rows lifting --seeds 3 --peers
    python benchmarks/outputs.py --rows rectified:10,5,6,2e4
    python benchmarks/outputs.py --list

A row is named by its method and by features, units, outputs and samples. The hidden network has
random unit vectors as weights (orthonormal ones for "ica"), standard normal output weights, and
biases uniform within the row's limits; a network with biases has a random output bias too. Prints a
Markdown table; `--out FILE` also writes every trial as JSON. See README.md beside this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import provenet as pn
from common import INPUTS, Line, Problem
from provenet.common.typing import Array
from trials import Answer, AsGoodAsLeastSquares, Exact, Row, Target, Verdict, main, suite_lines

NOISE = 0.1
CORRUPTED_SHARE = 0.1
CORRUPTED_SIZE = 100.0
FRESH = 5000
PEERS = ("MLPRegressor lbfgs",)


# ---------------------------------------------------------------- labels


def heavy_noise(rng: np.random.Generator, y: Array) -> Array:
    """Student-t noise of 2 degrees of freedom, of the labels' own median size.

    Not of their standard deviation: this noise has none.
    """
    noise = rng.standard_t(2, y.shape)
    signal = np.abs(y - np.median(y, axis=0))
    return np.asarray(y + noise * (np.median(signal) / np.median(np.abs(noise))))


def corrupted(rng: np.random.Generator, y: Array) -> Array:
    """A random tenth of the entries replaced by large values of either sign."""
    chosen = rng.random(y.shape) < CORRUPTED_SHARE
    return np.where(chosen, rng.choice([-CORRUPTED_SIZE, CORRUPTED_SIZE], y.shape), y)


LABELS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "exact": lambda rng, y: y,
    "noise": lambda rng, y: y + NOISE * rng.standard_normal(y.shape),
    "heavy noise": heavy_noise,
    "corrupted": corrupted,
}


# ---------------------------------------------------------------- what counts as a success


@dataclass(frozen=True)
class LossOfNoise:
    """A loss on the samples little above that of the noise itself.

    Both the squared loss (BJW19, Theorem 12) and the absolute one: a few outliers make up most of
    the squares, so that even no network at all comes close to the first.
    """

    limit: float = 1.1

    def __call__(self, problem: Problem, answer: Answer, error: float) -> Verdict:
        """Compare the losses of the network found and of the hidden one."""
        if answer.network is None:
            return Verdict(False, float("inf"))
        left = np.abs(problem.y - answer.network(problem.X))
        noise = np.abs(problem.y - problem.truth(problem.X))
        ratio = max(left.mean() / noise.mean(), np.mean(left**2) / np.mean(noise**2))
        return Verdict(bool(ratio <= self.limit), float(ratio))


@dataclass(frozen=True)
class Repaired:
    """The hidden parameters, and every corrupted label named with no other."""

    tolerance: float

    def __call__(self, problem: Problem, answer: Answer, error: float) -> Verdict:
        """Compare the error with the tolerance and the labels set aside with those replaced."""
        found, spoilt = answer.corrupted, problem.spoilt
        named = found is not None and spoilt is not None and np.array_equal(found, spoilt)
        return Verdict(error <= self.tolerance and named)


# ---------------------------------------------------------------- the rows


@dataclass(frozen=True)
class SeveralOutputs(Row):
    """One line of the table."""

    outputs: int = 2
    bias_scale: float = 0.0
    labels: str = "exact"
    orthonormal: bool = False

    def problem(self, seed: int) -> Problem:
        """The hidden network of a seed and its samples."""
        rng = np.random.default_rng([seed, self.features, self.units, self.samples, self.outputs])
        truth = self._network(seed, rng)
        X = INPUTS[self.inputs](rng, (self.samples, self.features))
        y = truth(X)
        labels = LABELS[self.labels](rng, y)
        return Problem(
            truth, X, labels, INPUTS[self.inputs](rng, (FRESH, self.features)), labels != y
        )

    def _network(self, seed: int, rng: np.random.Generator) -> pn.Network:
        network = pn.random_network(
            self.units,
            self.features,
            outputs=self.outputs,
            bias_scale=self.bias_scale,
            activation=self.activation,
            rng=seed,
        )
        if self.orthonormal:
            network = network.replace(weights=np.linalg.qr(network.weights.T)[0].T)
        if self.bias_scale:
            network = network.replace(output_bias=rng.uniform(-1.0, 1.0, self.outputs))
        return network


def short(n: int) -> str:
    """20000 as 2e4, and 1900 as it is."""
    exponent = len(str(n)) - 1
    return f"{n // 10**exponent}e{exponent}" if n >= 1000 and n % 10**exponent == 0 else str(n)


def line(
    method: str,
    sizes: tuple[int, int, int, int],
    seeds: int,
    must: str,
    target: Target,
    note: str = "",
    *,
    inputs: str = "gauss",
    activation: str = "relu",
    bias_scale: float = 0.0,
    labels: str = "exact",
    orthonormal: bool = False,
    aim: bool = False,
) -> SeveralOutputs:
    """A row of (features, units, outputs, samples), named by these, its method and a note."""
    features, units, outputs, samples = sizes
    parts = f"{features},{units},{outputs},{short(samples)}"
    return SeveralOutputs(
        f"{method}:{parts}" + (f",{note}" if note else ""),
        features,
        units,
        samples,
        seeds,
        must,
        inputs,
        method,
        activation,
        target,
        aim,
        outputs,
        bias_scale,
        labels,
        orthonormal,
    )


def lifting(
    sizes: tuple[int, int, int, int],
    must: str,
    note: str,
    inputs: str = "gauss",
    activation: str = "relu",
) -> SeveralOutputs:
    """A row of the lifting: exact labels, any inputs, biases."""
    return line(
        "lifting",
        sizes,
        20,
        must,
        Exact(1e-9),
        note,
        inputs=inputs,
        activation=activation,
        bias_scale=0.7,
    )


LEAST_SQUARES = AsGoodAsLeastSquares()
ROWS: dict[str, SeveralOutputs] = {
    row.name: row
    for row in (
        lifting((10, 5, 5, 105), "20 of 20", "integers", "integers"),
        lifting((50, 20, 20, 1900), "20 of 20, under 5 s", "uniform", "cube"),
        lifting((100, 50, 60, 9500), "20 of 20, under 60 s", "student-t", "student-t3"),
        lifting((10, 5, 6, 200), "20 of 20", "leaky", activation="leaky_relu(0.2)"),
        lifting((10, 5, 6, 200), "20 of 20", "abs", activation="abs"),
        line(
            "expand-prune",
            (10, 5, 2, 300),
            100,
            "98 of 100",
            Exact(),
            inputs="cube",
            bias_scale=1.0,
        ),
        line(
            "expand-prune",
            (20, 10, 3, 1000),
            100,
            "98 of 100",
            Exact(),
            inputs="cube",
            bias_scale=1.0,
        ),
        line(
            "expand-prune",
            (10, 5, 2, 3000),
            20,
            "ratio <= 1.1",
            LEAST_SQUARES,
            "noise",
            inputs="cube",
            bias_scale=1.0,
            labels="noise",
        ),
        line("rectified", (10, 5, 6, 20_000), 50, "50 of 50", Exact(1e-10)),
        line("rectified", (50, 20, 30, 100_000), 10, "10 of 10, under 20 s", Exact(1e-10)),
        line("rectified", (100, 50, 60, 200_000), 2, "aim: all", Exact(1e-10), aim=True),
        line(
            "rectified",
            (200, 100, 120, 500_000),
            1,
            "aim: all",
            Exact(1e-10),
            bias_scale=0.7,
            aim=True,
        ),
        line(
            "rectified",
            (10, 5, 6, 20_000),
            20,
            "ratio <= 1.1",
            LEAST_SQUARES,
            "noise",
            labels="noise",
        ),
        line(
            "rectified",
            (10, 5, 6, 20_000),
            10,
            "all",
            Exact(1e-10),
            "relu2",
            activation="relu2",
        ),
        line(
            "rectified",
            (10, 5, 6, 20_000),
            10,
            "all",
            Exact(1e-10),
            "relu3",
            activation="relu3",
        ),
        line("ica", (20, 10, 15, 100_000), 20, "20 of 20", Exact(), orthonormal=True),
        line("rank-deficient", (3, 3, 2, 200_000), 10, "all", Exact()),
        line("rank-deficient", (6, 4, 2, 400_000), 10, "all", Exact()),
        line(
            "arbitrary-noise",
            (8, 2, 4, 20_000),
            10,
            "losses <= 1.1 x the noise's own",
            LossOfNoise(),
            labels="heavy noise",
        ),
        line(
            "sparse-noise",
            (20, 5, 40, 20_000),
            10,
            "all, to 1e-6, corruptions named",
            Repaired(1e-6),
            labels="corrupted",
        ),
        line("arbitrary-inputs", (3, 2, 3, 50), 20, "all", Exact(), "lumpy", inputs="lumpy"),
        line(
            "symmetric-inputs",
            (10, 5, 8, 200_000),
            10,
            "ratio <= 1.1",
            LEAST_SQUARES,
            "noise",
            inputs="cube",
            labels="noise",
        ),
        line("symmetric-inputs", (10, 5, 8, 200_000), 10, "all", Exact(), inputs="cube"),
        line("auto", (10, 5, 6, 300), 20, "all, by lifting", Exact(), bias_scale=0.7),
        line("auto", (10, 5, 3, 1000), 20, "all", Exact(), bias_scale=0.7),
    )
}


COLUMNS = "method: features, units, outputs, samples"
RIVALLED = (
    "lifting:10,5,5,105,integers",
    "rectified:10,5,6,2e4",
    "expand-prune:10,5,2,300",
    "lifting:50,20,20,1900,uniform",
    "expand-prune:20,10,3,1e3",
    "ica:20,10,15,1e5",
    "rank-deficient:3,3,2,2e5",
    "sparse-noise:20,5,40,2e4",
)


def run(quick: bool) -> list[Line]:
    """For the suite: all that must hold, on as many seeds as it must hold for."""
    if quick:
        rows = [ROWS[name] for name in RIVALLED[:3]]
        return list(suite_lines(COLUMNS, rows, PEERS, RIVALLED, seeds=2, budget=120.0))
    rows = [row for row in ROWS.values() if not row.aim]
    return list(suite_lines(COLUMNS, rows, PEERS, RIVALLED, budget=120.0))


if __name__ == "__main__":
    main(__doc__.partition("\n")[0], COLUMNS, ROWS, PEERS, budget=120.0)
