"""A predictor for units of small and of large bias, beside scikit-learn's MLPRegressor.

    python benchmarks/regression.py                       # 3 seeds, with and without noise
    python benchmarks/regression.py --seeds 5 --samples 50000

The hidden network has 8 features, 4 units with |b| <= 1 and 3 units of bias 3, -4.5 and 6, |a| in
[0.5, 1.5]. MLPRegressor gets five times the width and stops early on a tenth of the samples, with
its own settings otherwise. Errors are root mean squares on 100,000 fresh samples without noise,
over the labels' spread: on all of them, and their median, which the few samples beyond the kink of
the unit of bias -4.5 do not move. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import provenet as pn
from common import Record, machine, markdown_head, markdown_row
from provenet.common.typing import Array

FEATURES, SMALL, LARGE = 8, 4, (3.0, -4.5, 6.0)
WIDER = 5
FRESH = 100_000
TITLES = ("seed", "noise", "predictor", "status", "units", "error", "median error", "seconds")


@dataclass(frozen=True)
class Answer:
    """A predictor, what it says of itself, and how many units it has."""

    predict: Callable[[Array], Array]
    status: str
    units: int


def hidden_network(seed: int) -> pn.Network:
    network = pn.random_network(SMALL + len(LARGE), FEATURES, rng=seed)
    biases = np.append(network.biases[:SMALL], LARGE)
    return network.replace(biases=biases, output_bias=0.3)


def by_regression(X: Array, y: Array, noise: float, faithful: bool) -> Answer:
    result = pn.recover(X, y, method="regression", noise=noise or None, faithful=faithful, rng=0)
    assert result.network is not None
    return Answer(result.network, str(result.status), result.network.units)


def by_perceptron(X: Array, y: Array, seed: int) -> Answer:
    units = WIDER * (SMALL + len(LARGE))
    model = MLPRegressor(
        hidden_layer_sizes=(units,), early_stopping=True, max_iter=1000, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return Answer(model.predict, "-", units)


@dataclass(frozen=True)
class Result:
    """Errors of a predictor on fresh samples over their spread: root mean square, and median."""

    answer: Answer
    error: float
    median: float
    seconds: float


def result(truth: pn.Network, seed: int, solve: Callable[[], Answer]) -> Result:
    begin = time.perf_counter()
    answer = solve()
    seconds = time.perf_counter() - begin
    X, y = pn.sample(truth, FRESH, rng=10_000 + seed)
    error = np.abs(answer.predict(X) - y) / np.std(y)
    return Result(answer, float(np.sqrt(np.mean(error**2))), float(np.median(error)), seconds)


def table_line(seed: int, noise: float, name: str, found: Result) -> str:
    cells = (
        seed,
        noise,
        name,
        found.answer.status,
        found.answer.units,
        f"{found.error:.1e}",
        f"{found.median:.1e}",
        f"{found.seconds:.1f}",
    )
    return markdown_row(cells)


def results(seed: int, samples: int, noise: float) -> Iterator[tuple[str, Result]]:
    """Every way, on the same samples."""
    truth = hidden_network(seed)
    X, y = pn.sample(truth, samples, noise=noise, rng=seed)
    ways = {
        "regression": partial(by_regression, X, y, noise, False),
        "faithful": partial(by_regression, X, y, noise, True),
        "MLPRegressor": partial(by_perceptron, X, y, seed),
    }
    for name, solve in ways.items():
        yield name, result(truth, seed, solve)


def run(quick: bool) -> list[Record]:
    """For the suite: errors and times beside those of the perceptron."""
    records = []
    for noise in (0.0, 0.1):
        for seed in range(1 if quick else 3):
            found = dict(results(seed, 20_000, noise))
            theirs = found.pop("MLPRegressor")
            for name, ours in found.items():
                title = f"{name}, noise {noise:g}, seed {seed}"
                for what, unit in (("error", ""), ("seconds", "s")):
                    values = getattr(ours, what), unit, "MLPRegressor", getattr(theirs, what)
                    records.append(Record(f"{title}: {what}", *values))
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.0, 0.1])
    chosen = parser.parse_args()
    print(machine())
    print(markdown_head(TITLES))
    for noise in chosen.noise:
        for seed in range(chosen.seeds):
            for name, found in results(seed, chosen.samples, noise):
                print(table_line(seed, noise, name, found), flush=True)


if __name__ == "__main__":
    main()
