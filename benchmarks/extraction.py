"""Networks out of models that may be asked: successes, queries beside parameters, errors.

    python benchmarks/extraction.py                       # every row: about half an hour
    python benchmarks/extraction.py --rows 10,5 --seeds 5
    python benchmarks/extraction.py --rows 20,10,1e-4 --seeds 5

A row is named by features and units of the hidden network (that of `common.random_problem`) and, if
there is any, by the noise of its answers. A success is an answer that says so, within the queries
allowed: with exact answers 2 a parameter and 200, all parameters to 1e-9; with noise 400 and 1500
queries, all parameters to 10 times the noise. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

import provenet as pn
from common import Record, finite, markdown_head, markdown_row, random_problem
from provenet.typing import Array
from trials import report

EXACT_ERROR, TIMES_NOISE = 1e-9, 10.0
NOISES = (1e-8, 1e-4, 1e-2)
TITLES = ("features, units", "noise", "recovered", "queries a parameter", "median error", "s")


@dataclass(frozen=True)
class Row:
    """A size, the noise of the answers, and the queries allowed with noise."""

    features: int
    units: int
    noise: float = 0.0

    @property
    def allowed_error(self) -> float:
        """Parameters may be off by this."""
        return TIMES_NOISE * self.noise or EXACT_ERROR

    def allowed_queries(self, network: pn.Network) -> int:
        """What a success may cost."""
        if self.noise:
            return 400 if self.units <= 5 else 1500
        return 2 * network.free_parameters + 200


ROWS = (
    *(Row(*size) for size in ((10, 5), (20, 10), (50, 20), (100, 50), (784, 32))),
    *(Row(*size, noise) for size in ((10, 5), (20, 10)) for noise in NOISES),
)
QUICK = (Row(10, 5), Row(20, 10), Row(50, 20))


@dataclass(frozen=True)
class Trial:
    """What one extraction gave."""

    recovered: bool
    queries_a_parameter: float
    error: float
    seconds: float


def trial(row: Row, seed: int) -> Trial:
    """Extract one network."""
    truth = random_problem(row.features, row.units, 10, "gauss", 0.0, seed).truth
    rng = np.random.default_rng([seed, 1])

    def model(X: Array) -> Array:
        return truth(X) + row.noise * rng.standard_normal(len(X))

    allowed = row.allowed_queries(truth)
    begin = time.perf_counter()
    # A model without noise is asked without a budget: it must be thrifty by itself.
    result = pn.extract(
        model if row.noise else truth,
        row.features,
        budget=allowed if row.noise else None,
        rng=seed,
    )
    seconds = time.perf_counter() - begin
    found, queries = result.network, result.queries or 0
    error = float("inf") if found is None else pn.parameter_error(found, truth)
    recovered = result.success and error <= row.allowed_error and queries <= allowed
    return Trial(recovered, queries / truth.free_parameters, error, seconds)


def cells(row: Row, trials: list[Trial]) -> list[str]:
    """A line of the table."""
    queries = [done.queries_a_parameter for done in trials]
    return [
        f"{row.features}, {row.units}",
        f"{row.noise:g}",
        f"{sum(done.recovered for done in trials)} of {len(trials)}",
        f"{np.mean(queries):.2f} ({max(queries):.2f} at most)",
        f"{np.median([done.error for done in trials]):.1e}",
        f"{np.mean([done.seconds for done in trials]):.2f}",
    ]


def run(quick: bool) -> list[Record]:
    """For the suite: the share recovered beside all, and queries beside parameters."""
    found: list[Record] = []
    for row in QUICK if quick else ROWS:
        trials = [trial(row, seed) for seed in range(5 if quick else 20)]
        name = f"{row.features} features, {row.units} units, noise {row.noise:g}"
        report(markdown_row(cells(row, trials)))
        share = float(np.mean([done.recovered for done in trials]))
        queries = float(np.mean([done.queries_a_parameter for done in trials]))
        error = finite(float(np.median([done.error for done in trials])))
        found += [
            Record(f"{name}: recovered", share, "share", "all", 1.0),
            Record(f"{name}: queries", queries, "a parameter", "one a parameter", 1.0),
            Record(f"{name}: median error", error, "", "allowed", row.allowed_error),
        ]
    return found


def parsed(text: str) -> Row:
    """A row from the command line."""
    features, units, *noise = text.split(",")
    return Row(int(features), int(units), *map(float, noise))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", nargs="+", type=parsed, default=ROWS, metavar="ROW")
    parser.add_argument("--seeds", type=int, default=20)
    args = parser.parse_args()
    print(markdown_head(TITLES))
    for row in args.rows:
        trials = [trial(row, seed) for seed in range(args.seeds)]
        print(markdown_row(cells(row, trials)), flush=True)


if __name__ == "__main__":
    main()
