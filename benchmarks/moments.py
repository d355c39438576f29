"""The moment pass against plain matrix multiplication, on the same machine in the same run.

    python benchmarks/moments.py [--samples N] [--repeats N]

Both are measured in processor time, so a busy machine disturbs them little: matrix multiplication
(large square matrices) on one BLAS thread, the pass on provenet's threads over blocks of samples,
one BLAS thread each, as inside `recover`. They take turns, and of each the best time counts.

What counts as the pass's work: `2 d (k + 1)` operations a sample for its k coordinates and its
linear part, and two for each distinct entry of `T_0 .. T_order`, of which there are
`binomial(k + order, order)`. Orders 3 and 4 are summed in single precision (see `moments`); the
rate of dgemm is the yardstick all the same, because that is what a pass in double could reach.

What the pass does beyond that (forming factors, control variates, sampling errors) counts as time
and not as work.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import comb

import numpy as np

import provenet as pn
from common import Record, machine, markdown_head, markdown_row
from provenet.common.typing import Array
from provenet.data.passes import one_blas_thread
from provenet.moments.hermite import MomentRequest, estimate_moments
from provenet.moments.subspace import span_of_units

AIM = 0.5
SIZES = ((20, 10), (20, 20), (50, 20), (50, 50))
SQUARE = 1500
"""Large enough for the highest rate of matrix multiplication."""
TITLES = (
    "features, units, samples",
    "pass",
    "processor seconds",
    "dgemm GFLOP/s",
    "pass GFLOP/s",
    "of dgemm",
)


@dataclass(frozen=True)
class Work:
    """Something to time, and how many floating-point operations of it are useful."""

    run: Callable[[], object]
    operations: float

    def seconds(self) -> float:
        """Processor time of one run."""
        begin = time.process_time()
        with one_blas_thread():
            self.run()
        return time.process_time() - begin


def operations(features: int, k: int, order: int) -> float:
    """Operations a sample, each distinct entry once; see the top of this file."""
    return 2.0 * (features * (k + 1) + comb(k + order, order))


def product(A: Array, B: Array) -> Work:
    """A plain matrix product."""
    return Work(lambda: A @ B, 2.0 * A.shape[0] * A.shape[1] * B.shape[1])


def moment_pass(source: pn.Source, request: MomentRequest) -> Work:
    """One pass over all samples, as inside `recover`."""
    s = request.standardisation
    coordinates = s.features if request.basis is None else len(request.basis)
    work = operations(s.features, coordinates, request.order)
    return Work(partial(estimate_moments, source, request), source.size * work)


def best_rates(works: list[Work], repeats: int) -> list[float]:
    """Operations a second of each, its best of several turns; the first turn warms up."""
    turns = np.array([[work.seconds() for work in works] for _ in range(repeats + 1)])
    best = turns[1:].min(axis=0)
    return [work.operations / seconds for work, seconds in zip(works, best, strict=True)]


def requests(source: pn.Source, units: int) -> dict[str, MomentRequest]:
    """The two passes of the moment route: `T_2` in all of the space, `T_4` in the units' span."""
    s = source.standardisation()
    second = MomentRequest(s, 2)
    found = estimate_moments(source, second)
    span = span_of_units(found.tensors[2], found.errors[2], units)
    return {
        "order 2": second,
        f"order 4 in {units} dimensions": MomentRequest(s, 4, span.basis, span.quadratic),
    }


@dataclass(frozen=True)
class Rates:
    """Operations a second of a pass and of matrix multiplication, taking turns."""

    name: str
    seconds: float
    ours: float
    dgemm: float


def rates(features: int, units: int, samples: int, repeats: int) -> Iterator[Rates]:
    """Both passes at one size."""
    rng = np.random.default_rng(0)
    network = pn.random_network(units, features, bias_scale=1.5, rng=rng)
    source = pn.ArraySource(*pn.sample(network, samples, rng=rng))
    square = product(*rng.standard_normal((2, SQUARE, SQUARE)))
    for name, request in requests(source, units).items():
        work = moment_pass(source, request)
        ours, dgemm = best_rates([work, square], repeats)
        yield Rates(name, work.operations / ours, ours, dgemm)


def table_line(features: int, units: int, samples: int, found: Rates) -> str:
    """One pass at one size."""
    cells = (
        f"{features}, {units}, {samples:.0e}",
        found.name,
        f"{found.seconds:.3f}",
        f"{found.dgemm / 1e9:.1f}",
        f"{found.ours / 1e9:.1f}",
        f"{found.ours / found.dgemm:.2f}",
    )
    return markdown_row(cells)


def run(quick: bool) -> list[Record]:
    """For the suite: rates of the passes beside that of matrix multiplication."""
    samples, repeats = (300_000, 5) if quick else (1_000_000, 7)
    return [
        Record(
            f"{features}, {units}, {samples:.0e}, pass of {found.name}",
            found.ours / 1e9,
            "GFLOP/s",
            "dgemm",
            found.dgemm / 1e9,
        )
        for features, units in (SIZES[:3] if quick else SIZES)
        for found in rates(features, units, samples, repeats)
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()) + "\n")
    print(markdown_head(TITLES), flush=True)
    for features, units in SIZES:
        for found in rates(features, units, args.samples, args.repeats):
            print(table_line(features, units, args.samples, found), flush=True)
    print(f"\nThe aim: {AIM} of the rate of dgemm in 20 dimensions and more.")


if __name__ == "__main__":
    main()
