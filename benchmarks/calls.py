"""Processor time of single calls of `recover`, seed by seed, beside matrix products.

    python benchmarks/calls.py [--seeds N] [--large]

Before every call a few products of square matrices are timed in the same process, and a call's time
is told in such products: that is what stays the same on a busy or a slower machine. The figures of
single seeds are kept, so that two runs can be compared on the same problems (`suite.py --compare`).
A small call, which imports what is needed, comes before and is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

import provenet as pn
from common import Record, machine, markdown_head, markdown_row
from provenet.common.typing import Array
from provenet.data.passes import one_blas_thread

SQUARE, PRODUCTS = 400, 5
"""Side of the square matrices, and how many products stand before a call: some milliseconds."""
BUDGET, BUDGET_OF_LARGE = 60.0, 600.0


@dataclass(frozen=True)
class Call:
    """A size of which every seed is one problem."""

    features: int
    units: int
    samples: int
    activation: str = "relu"
    seeds: int = 20
    budget: float = BUDGET

    @property
    def name(self) -> str:
        """As in the tables."""
        return f"{self.features}, {self.units}, {self.samples}, {self.activation}"

    def problem(self, seed: int) -> tuple[Array, Array]:
        """Samples of a random network."""
        network = pn.random_network(
            self.units, self.features, bias_scale=1.5, activation=self.activation, rng=seed
        )
        return pn.sample(network, self.samples, rng=seed + 1000)


CALLS = (
    Call(10, 5, 300),
    Call(20, 10, 1000),
    Call(8, 12, 2000),
    Call(50, 20, 5000, seeds=5),
    Call(20, 10, 1000, "tanh"),
)
LARGE = (
    Call(100, 50, 25_000, seeds=5, budget=BUDGET_OF_LARGE),
    Call(200, 100, 100_000, seeds=3, budget=BUDGET_OF_LARGE),
)
"""Minutes a seed: not for the suite."""


def processor_time(call: Callable[[], object]) -> float:
    """Of all threads, in seconds."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def measured(call: Call, seeds: int) -> tuple[Record, Record]:
    """The mean over seeds of a call's time beside a matrix product's, and the share recovered."""
    square = np.random.default_rng(0).standard_normal((SQUARE, SQUARE))
    ours, products, found = [], [], 0

    def multiply() -> None:
        for _ in range(PRODUCTS):
            square @ square

    for seed in range(seeds):
        X, y = call.problem(seed)
        with one_blas_thread():
            products.append(processor_time(multiply) / PRODUCTS)
        results: list[pn.Recovery] = []
        ours.append(processor_time(lambda: results.append(_recovered(call, X, y, seed))))  # noqa: B023
        found += results[0].success
    by_seed = [own / product for own, product in zip(ours, products, strict=True)]
    mean, reference = float(np.mean(ours)), float(np.mean(products))
    details = {"by_seed": by_seed}
    return (
        Record(f"{call.name}: time", mean, "s", "a product of matrices", reference, details),
        Record(f"{call.name}: recovered", found / seeds, "share", f"all of {seeds}", 1.0),
    )


def _recovered(call: Call, X: Array, y: Array, seed: int) -> pn.Recovery:
    return pn.recover(X, y, activation=call.activation, rng=seed, budget=call.budget)


def run(quick: bool, calls: Sequence[Call] = CALLS, most: int | None = None) -> Iterator[Record]:
    """What the suite takes."""
    most = most or (5 if quick else 20)
    for call in calls:
        small = replace(CALLS[0], activation=call.activation)
        _recovered(small, *small.problem(0), 0)
        yield from measured(call, min(call.seeds, most))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--large", action="store_true", help="100 and 200 features: minutes each")
    args = parser.parse_args()
    print(machine())
    print(markdown_head(("calls", "value", "unit", "over its reference")))
    for record in run(False, LARGE if args.large else CALLS, args.seeds):
        cells = record.name, f"{record.value:.3g}", record.unit, f"{record.ratio:.3g}"
        print(markdown_row(cells), flush=True)


if __name__ == "__main__":
    main()
