"""What designed inputs gain for a function that may be asked: errors of its moments, and recovery.

    python benchmarks/designs.py                          # 10 networks, 5 seeds each, 1e4 queries
    python benchmarks/designs.py --recovery --queries 500 --networks 20 --told

The moments are those of the moment route: `T_0 .. T_2` in all of the space, `T_3` and `T_4` in the
span of the units, with control variates and standardised by the samples' own mean and covariance.
Their true values are those of the hidden network in the same coordinates. *Gain* is the root mean
square error of independent inputs over that of the design at as many queries (2: a quarter of the
queries do). *Stated* is the error that the pass itself states, which assumes independent samples,
over the true one: below 1 it claims too much.

Recovery succeeds by search where the moments do not show all units, so what designs gain at the end
is how often it is not needed. Told nothing, the pass keeps the units that stand above the stated
error, whatever the true one is; `--told` gives it their number. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from common import Record, machine, markdown_head, markdown_row, random_problem
from provenet.common.typing import Array
from provenet.data.parallel import one_blas_thread
from provenet.data.sources.designs import DESIGNS
from provenet.moments.estimation import estimate_moments
from provenet.moments.population import population_moments
from provenet.moments.subspace import span_of_units
from provenet.moments.sums import MomentRequest
from trials import EXACT, solver_rng

SIZES = ((10, 5), (20, 10))
QUERIES = 10_000
ORDERS = (0, 1, 2, 3, 4)
PLAIN = "independent"
BUDGET = 20.0
COLOURS = ("#c0392b", "#8e6c1f", "#e59866", "#0b6e4f")


@dataclass(frozen=True)
class Errors:
    """Root mean square errors of an entry of `T_0 .. T_4`: the true ones and those stated."""

    true: Array
    stated: Array


def hidden_network(features: int, units: int, seed: int) -> pn.Network:
    """A network of the table of recoveries."""
    return random_problem(features, units, 1, "gauss", 0.0, seed).truth


def errors_of_moments(truth: pn.Network, queries: int, design: str, seed: int) -> Errors:
    """Those of the two passes that the moment route makes."""
    source = pn.QuerySource(truth, truth.features, queries, design=design, rng=seed)
    s = source.standardisation()
    own = s.network_from_user(truth)
    second = MomentRequest(s, 2)
    found = estimate_moments(source, second)
    span = span_of_units(found.tensors[2], found.errors[2], truth.units)
    fourth = MomentRequest(s, 4, span.basis, span.quadratic)
    passes = ((second, found, ORDERS[:3]), (fourth, estimate_moments(source, fourth), ORDERS[3:]))
    true, stated = [], []
    for request, moments, orders in passes:
        exact = population_moments(own, request)
        for k in orders:
            true.append(np.sqrt(np.mean((moments.tensors[k] - exact.tensors[k]) ** 2)))
            stated.append(moments.errors[k])
    return Errors(np.array(true), np.array(stated))


def mean_errors(
    features: int, units: int, queries: int, design: str, networks: int, seeds: int
) -> Errors:
    """Root mean square over networks and seeds; every design sees the same networks."""
    with one_blas_thread():
        all_errors = [
            errors_of_moments(hidden_network(features, units, network), queries, design, seed)
            for network in range(networks)
            for seed in range(seeds)
        ]
    return Errors(
        *(
            np.sqrt(np.mean([getattr(e, kind) ** 2 for e in all_errors], axis=0))
            for kind in ("true", "stated")
        )
    )


@dataclass(frozen=True)
class Recoveries:
    """How often the moment route recovers from few queries."""

    by_moments: int
    """Right after the refinement of a decomposition, without a search."""
    recovered: int
    wrong: int
    seconds: float
    queries: float
    """Asked in all, those to fit and to judge included; the mean."""


def recoveries(
    features: int, units: int, queries: int, design: str, networks: int, told: bool
) -> Recoveries:
    """`method="biased-relu"` on a source of so many queries, network by network."""
    by_moments = recovered = wrong = asked = 0
    begin = time.perf_counter()
    for seed in range(networks):
        truth = hidden_network(features, units, seed)
        source = pn.QuerySource(truth, features, queries, design=design, rng=1000 + seed)
        result = pn.recover(
            source,
            method="biased-relu",
            units=units if told else None,
            budget=BUDGET,
            rng=solver_rng(seed),
        )
        exact = result.network is not None and pn.parameter_error(result.network, truth) <= EXACT
        by_moments += exact and "search" not in result.timings
        recovered += exact
        wrong += result.success and not exact
        asked += source.queries
    seconds = (time.perf_counter() - begin) / networks
    return Recoveries(by_moments, recovered, wrong, seconds, asked / networks)


# ---------------------------------------------------------------- tables


def error_lines(
    features: int, units: int, queries: int, networks: int, seeds: int
) -> Iterator[str]:
    """A line a design: gain, and in brackets what the pass states, order by order."""
    plain = None
    for design in DESIGNS:
        errors = mean_errors(features, units, queries, design, networks, seeds)
        plain = plain or errors
        cells = (
            f"{gain:.2f} ({stated:.2f})"
            for gain, stated in zip(
                plain.true / errors.true, errors.stated / errors.true, strict=True
            )
        )
        yield markdown_row((f"{features}, {units}, {queries}", design, *cells))


def recovery_lines(
    features: int, units: int, queries: int, networks: int, told: bool
) -> Iterator[str]:
    """A line a design: how many were recovered."""
    for design in DESIGNS:
        r = recoveries(features, units, queries, design, networks, told)
        counts = (f"{n} of {networks}" for n in (r.by_moments, r.recovered))
        cells = (*counts, r.wrong, f"{r.seconds:.2f}", f"{r.queries:.0f}")
        yield markdown_row((f"{features}, {units}, {queries}", design, *cells))


def run(quick: bool) -> list[Record]:
    """For the suite: errors of moments by design, those of independent inputs beside them."""
    networks, seeds = (5, 2) if quick else (10, 5)
    records = []
    for features, units in SIZES[:1] if quick else SIZES:
        plain = mean_errors(features, units, QUERIES, PLAIN, networks, seeds)
        for design in list(DESIGNS)[1:]:
            errors = mean_errors(features, units, QUERIES, design, networks, seeds)
            for k in ORDERS[1:]:
                name = f"{features}, {units}, {QUERIES} queries, {design}: error of T_{k}"
                details = {"size": (features, units), "design": design, "order": k}
                value, reference = float(errors.true[k]), float(plain.true[k])
                records.append(Record(name, value, "", PLAIN + " inputs", reference, details))
    return records


def draw_records(content: Sequence[dict[str, Any]], path: Path) -> None:
    """The suite's records as bars: a panel a size, a group an order, a bar a design."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = list(dict.fromkeys(tuple(record["details"]["size"]) for record in content))
    figure, axes = plt.subplots(
        1, len(sizes), figsize=(5.0 * len(sizes) + 0.6, 3.8), sharey=True, squeeze=False
    )
    for axis, size in zip(axes[0], sizes, strict=True):
        _bars(axis, [r for r in content if tuple(r["details"]["size"]) == size])
        axis.set_title("{} features, {} units".format(*size))
    axes[0, 0].set_ylabel("error over that of independent inputs")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=2 * len(axes[0]), frameon=False)
    figure.tight_layout(rect=(0, 0.14 if len(axes[0]) == 1 else 0.08, 1, 1))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _bars(axis: Any, content: Sequence[dict[str, Any]]) -> None:
    names = list(DESIGNS)[1:]
    width = 0.8 / len(names)
    for i, design in enumerate(names):
        chosen = [r for r in content if r["details"]["design"] == design]
        places = [r["details"]["order"] + (i - (len(names) - 1) / 2) * width for r in chosen]
        heights = [r["ratio"] for r in chosen]
        axis.bar(places, heights, width, label=design, color=COLOURS[i])
    axis.axhline(1.0, color="grey", linewidth=0.8, linestyle=":")
    axis.set_xticks(ORDERS[1:], [f"$T_{k}$" for k in ORDERS[1:]])
    axis.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queries", type=int, nargs="+", default=[QUERIES])
    parser.add_argument("--networks", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5, help="seeds a network")
    parser.add_argument("--features", type=int, nargs="+", default=[10, 20], help="10 or 20")
    parser.add_argument("--recovery", action="store_true", help="recover instead")
    parser.add_argument("--told", action="store_true", help="tell the number of units")
    args = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()) + "\n")
    last = ("by moments alone", "recovered", "wrong successes", "mean s", "queries in all")
    titles = last if args.recovery else tuple(f"T_{k}: gain (stated)" for k in ORDERS)
    print(markdown_head(("features, units, queries", "design", *titles)), flush=True)
    for features, units in (size for size in SIZES if size[0] in args.features):
        for queries in args.queries:
            lines = (
                recovery_lines(features, units, queries, args.networks, args.told)
                if args.recovery
                else error_lines(features, units, queries, args.networks, args.seeds)
            )
            for line in lines:
                print(line, flush=True)


if __name__ == "__main__":
    main()
