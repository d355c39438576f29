"""How few samples suffice: success rate against samples a parameter, beside what a user would pick.

    python benchmarks/samples.py --units 5 --seeds 20 --budget 10
    python benchmarks/samples.py --out samples.json --plot samples.png       # all: hours
    python benchmarks/samples.py --units 50 --ratios 3 --out samples.json    # adds to the others

What `--out` holds already is kept, and not measured again for as many seeds: a run may be stopped
and go on, and other sizes are added to it. The suite's table is that of `results/samples.json`.

Hidden networks are those of `recovery.py`, with twice as many features as units, and inputs are
Gaussian. Parameters are those that the function determines, `units (features + 1) + 1`. Rivals are
told the true width and get as long as "expand-prune" took on the same samples (at least a second).

The *90% point* is where the rate, linear between neighbouring ratios, rises to 90% and stays there;
its range is where the ends of the rates' 95% intervals (Wilson) do. *Determined* are problems in
which no other networks near the hidden one fit the samples: no method can do better. Prints a
Markdown table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from common import Line, in_fresh_process, machine, markdown_head, markdown_row
from recovery import OneOutput
from trials import (
    LEAST_SECONDS,
    Outcome,
    peer_trial,
    provenet_trial,
    told,
    write_json,
)

METHODS = ("expand-prune", "biased-relu")
PEERS = ("MLPRegressor lbfgs", "Levenberg-Marquardt")
SOLVERS = (*METHODS, *PEERS)
UNITS = (5, 10, 20, 50)
RATIOS = (1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
SUITE = ("expand-prune", "Levenberg-Marquardt")
"""Solvers of the suite's table."""
QUICK_UNITS, QUICK_RATIOS, QUICK_SEEDS = (5,), (3.0, 6.0), 3
RESULTS = Path(__file__).parent / "results" / "samples.json"
BUDGET = 60.0
WANTED = 0.9
TITLES = (
    "units",
    "solver",
    "samples a parameter",
    "samples",
    "recovered",
    "95% interval",
    "of determined",
    "wrong successes",
    "median s",
)


# ---------------------------------------------------------------- problems


def parameters(units: int) -> int:
    """Of a network with twice as many features as units: what the function determines."""
    return units * (2 * units + 1) + 1


def row(units: int, ratio: float, method: str) -> OneOutput:
    """Problems of one size: `ratio` samples a parameter."""
    samples = round(ratio * parameters(units))
    name = f"{units} units, {ratio:g} samples a parameter"
    return OneOutput(name, 2 * units, units, samples, 0, "", method=method)


@dataclass(frozen=True)
class Point:
    """One solver at one size."""

    units: int
    ratio: float
    solver: str
    outcomes: tuple[Outcome, ...]

    @property
    def recovered(self) -> int:
        """How many networks were recovered."""
        return sum(o.recovered for o in self.outcomes)

    @property
    def rate(self) -> float:
        """Share of the networks that were recovered."""
        return self.recovered / len(self.outcomes)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the rate is, with 95% confidence (Wilson)."""
        found = binomtest(self.recovered, len(self.outcomes)).proportion_ci(0.95, "wilson")
        return float(found.low), float(found.high)

    @property
    def determined(self) -> list[Outcome]:
        """Those whose samples tell the network at all."""
        return [o for o in self.outcomes if o.determined]

    @property
    def wrong(self) -> int:
        """How many called themselves a success and were not."""
        return sum(o.wrong_success for o in self.outcomes)

    @property
    def seconds(self) -> float:
        """Median time."""
        return float(np.median([o.seconds for o in self.outcomes]))


Key = tuple[int, float, str]
"""Units, samples a parameter, solver."""


@dataclass(frozen=True)
class Plan:
    """What is to be measured at one size."""

    units: int
    ratio: float
    solvers: tuple[str, ...]
    seeds: int
    budget: float

    def key(self, solver: str) -> Key:
        """Where a solver's point stands."""
        return self.units, self.ratio, solver

    def missing(self, done: Mapping[Key, Point]) -> list[str]:
        """Solvers that have not been measured on as many seeds, the library's first."""
        return [
            solver
            for solver in sorted(self.solvers, key=lambda name: name not in METHODS)
            if len(found.outcomes if (found := done.get(self.key(solver))) else ()) < self.seeds
        ]


def measured(plan: Plan, done: Mapping[Key, Point]) -> dict[Key, Point]:
    """The solvers that are missing, on the same problems, each trial in a fresh process."""
    found = dict(done)
    for solver in plan.missing(done):
        ours = found.get(plan.key(METHODS[0]))
        outcomes = [_trial(plan, solver, seed, ours) for seed in range(plan.seeds)]
        list(told(o for o in outcomes if o.wrong_success or solver in METHODS))
        found[plan.key(solver)] = Point(plan.units, plan.ratio, solver, tuple(outcomes))
    return found


def _trial(plan: Plan, solver: str, seed: int, ours: Point | None) -> Outcome:
    """Under the solver's own name; a rival gets as long as the first method took on the samples."""
    problem = row(plan.units, plan.ratio, solver if solver in METHODS else METHODS[0])
    if solver in METHODS:
        return replace(in_fresh_process(provenet_trial, problem, seed, plan.budget), solver=solver)
    taken = [o.seconds for o in ours.outcomes if o.seed == seed] if ours else [plan.budget]
    return in_fresh_process(peer_trial, problem, seed, solver, max(LEAST_SECONDS, *taken))


def kept(path: Path) -> dict[Key, Point]:
    """The points of an earlier run; none if there was none."""
    if not path.exists():
        return {}
    found: dict[Key, list[Outcome]] = {}
    for trial in json.loads(path.read_text())["trials"]:
        units, _, ratio, *_ = trial["row"].split()
        finite = {k: np.inf if trial[k] is None else trial[k] for k in ("error", "residual")}
        key = int(units), float(ratio), trial["solver"]
        found.setdefault(key, []).append(Outcome(**{**trial, **finite}))
    return {key: Point(*key, tuple(outcomes)) for key, outcomes in found.items()}


def all_measured(plans: Iterable[Plan], path: Path | None) -> Iterator[dict[Key, Point]]:
    """All points so far, after each size; written as they are made."""
    done = kept(path) if path else {}
    for plan in plans:
        done = measured(plan, done)
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            outcomes = [o for point in done.values() for o in point.outcomes]
            write_json(path, outcomes, plan.budget)
        yield done


# ---------------------------------------------------------------- the 90% point


def crossing(ratios: Sequence[float], rates: Sequence[float]) -> float:
    """From which ratio on the rate is at least 90%; infinite if it never is.

    The first ratio that was tried if the rate is that high from there on.
    """
    below = [k for k, rate in enumerate(rates) if rate < WANTED]
    if not below:
        return ratios[0]
    k = below[-1]
    if k == len(rates) - 1:
        return float("inf")
    share = (WANTED - rates[k]) / (rates[k + 1] - rates[k])
    return float(ratios[k] + share * (ratios[k + 1] - ratios[k]))


@dataclass(frozen=True)
class Sufficient:
    """How many samples a parameter suffice for 90%, and from where to where that may be."""

    point: float
    low: float
    high: float


def sufficient(line: Sequence[Point], value: Callable[[Point], float] | None = None) -> Sufficient:
    """The 90% point of one solver at one width."""
    ratios = [p.ratio for p in line]
    rates = [value(p) if value else p.rate for p in line]
    low, high = ([p.interval[end] for p in line] for end in (0, 1))
    return Sufficient(*(crossing(ratios, r) for r in (rates, high, low)))


def lines_of(measured: Iterable[Point]) -> dict[tuple[int, str], list[Point]]:
    """Points by width and solver, ratios rising."""
    lines: dict[tuple[int, str], list[Point]] = {}
    for point in sorted(measured, key=lambda p: p.ratio):
        lines.setdefault((point.units, point.solver), []).append(point)
    return lines


# ---------------------------------------------------------------- table and picture


def table_line(p: Point) -> str:
    """One line of the table."""
    determined = p.determined
    of_determined = f"{sum(o.recovered for o in determined)} of {len(determined)}"
    low, high = p.interval
    cells = (
        p.units,
        p.solver,
        f"{p.ratio:g}",
        round(p.ratio * parameters(p.units)),
        f"{p.recovered} of {len(p.outcomes)}",
        f"{low:.2f} to {high:.2f}",
        of_determined,
        p.wrong if p.solver in METHODS else "",
        f"{p.seconds:.2f}",
    )
    return markdown_row(cells)


def share_of_determined(p: Point) -> float:
    """Recovered among the problems that can be: 1 if there are none."""
    determined = p.determined
    return sum(o.recovered for o in determined) / len(determined) if determined else 1.0


def summary(measured: Sequence[Point]) -> Iterator[str]:
    """The 90% points, a line a width and solver."""
    yield markdown_head(("units", "solver", "90% point", "range", "among determined", "wrong"))
    for (units, solver), line in lines_of(measured).items():
        found, of_determined = sufficient(line), sufficient(line, share_of_determined)
        wrong = sum(p.wrong for p in line) if solver in METHODS else ""
        tell = partial(_told_ratio, line)
        span = f"{tell(found.low)} to {tell(found.high)}"
        yield markdown_row(
            (units, solver, tell(found.point), span, tell(of_determined.point), wrong)
        )


def _told_ratio(line: Sequence[Point], ratio: float) -> str:
    """A ratio within those that were tried, or on which side of them it is."""
    if not np.isfinite(ratio):
        return f"above {line[-1].ratio:g}"
    return f"{'at most ' if ratio == line[0].ratio else ''}{ratio:.1f}"


SUITE_TITLES = (
    "units",
    "samples a parameter",
    "samples",
    "provenet",
    "Levenberg-Marquardt, width told",
    "kinks seen on both sides",
    "determined",
    "wrong successes",
    "median s",
)


def suite_lines(done: Mapping[Key, Point]) -> Iterator[Line]:
    """A line a size: the search, its rival, and what the samples themselves allow."""
    for units, ratio in sorted({(units, ratio) for units, ratio, _ in done}):
        ours, theirs = (done.get((units, ratio, solver)) for solver in SUITE)
        if ours is None:
            continue
        of = len(ours.outcomes)
        cells = (
            units,
            f"{ratio:g}",
            round(ratio * parameters(units)),
            f"{ours.recovered} of {of}",
            f"{theirs.recovered} of {len(theirs.outcomes)}" if theirs else "-",
            f"{sum(o.identifiable for o in ours.outcomes)} of {of}",
            f"{len(ours.determined)} of {of}",
            ours.wrong,
            f"{ours.seconds:.2f}",
        )
        yield Line(SUITE_TITLES, tuple(map(str, cells)))


def run(quick: bool) -> Iterator[Line]:
    """What the suite takes: a few points if it must be quick, else all that were measured and are
    missing in `RESULTS`."""
    units, ratios = (QUICK_UNITS, QUICK_RATIOS) if quick else (UNITS, RATIOS)
    seeds = QUICK_SEEDS if quick else 20
    plans = [Plan(u, ratio, SUITE, seeds, BUDGET) for u in units for ratio in ratios]
    *_, done = all_measured(plans, None if quick else RESULTS)
    yield from suite_lines(done)


@dataclass(frozen=True)
class Curve:
    """What the picture shows of one solver at one width."""

    units: int
    solver: str
    ratios: list[float]
    rates: list[float]
    intervals: list[tuple[float, float]]


def curves(measured: Iterable[Point]) -> list[Curve]:
    """A curve a width and solver."""
    return [
        Curve(
            units,
            solver,
            [p.ratio for p in line],
            [p.rate for p in line],
            [p.interval for p in line],
        )
        for (units, solver), line in lines_of(measured).items()
    ]


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Success against samples a parameter: a panel a width, a line a solver."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    widths = sorted({curve.units for curve in curves})
    figure, axes = plt.subplots(
        1, len(widths), figsize=(4.2 * len(widths) + 0.6, 3.8), sharey=True, squeeze=False
    )
    for axis, units in zip(axes[0], widths, strict=True):
        _panel(axis, [curve for curve in curves if curve.units == units])
        axis.set_title(f"{units} units, {2 * units} features, {parameters(units)} parameters")
        axis.set_xlabel("samples a parameter")
    axes[0, 0].set_ylabel("recovered exactly")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=2 * len(axes[0]), frameon=False)
    figure.tight_layout(rect=(0, 0.14 if len(axes[0]) == 1 else 0.08, 1, 1))
    figure.savefig(path, dpi=150)
    plt.close(figure)


STYLES = {
    "expand-prune": ("#0b6e4f", "o", "-"),
    "biased-relu": ("#1f5fbf", "s", "-"),
    "MLPRegressor lbfgs": ("#c0392b", "^", "--"),
    "Levenberg-Marquardt": ("#8e6c1f", "v", "--"),
}


def _panel(axis: Any, curves: Sequence[Curve]) -> None:
    ticks = sorted({ratio for curve in curves for ratio in curve.ratios})
    for i, curve in enumerate(curves):
        colour, marker, style = STYLES[curve.solver]
        # Side by side, so that equal rates do not hide each other.
        places = np.array(curve.ratios) * (1 + 0.015 * (i - (len(curves) - 1) / 2))
        low, high = np.transpose(curve.intervals)
        axis.vlines(places, low, high, color=colour, alpha=0.35, linewidth=1.2)
        axis.plot(places, curve.rates, style, color=colour, marker=marker, ms=5, label=curve.solver)
    axis.axhline(WANTED, color="grey", linewidth=0.8, linestyle=":")
    axis.set_xscale("log")
    axis.set_xticks(ticks, [f"{ratio:g}" for ratio in ticks])
    axis.minorticks_off()
    axis.set_ylim(-0.03, 1.03)
    axis.spines[["top", "right"]].set_visible(False)


# ---------------------------------------------------------------- the command line


def main() -> None:
    """Print the tables; write and draw after every size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--units", type=int, nargs="+", default=UNITS)
    parser.add_argument("--ratios", type=float, nargs="+", default=RATIOS)
    parser.add_argument("--solvers", nargs="+", default=SOLVERS, choices=SOLVERS)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds for a recovery")
    parser.add_argument("--out", type=Path, help="keep every trial in this JSON file, or add to it")
    parser.add_argument("--plot", type=Path, help="draw the picture into this file")
    args = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()) + "\n")
    print(markdown_head(TITLES), flush=True)
    plans = [
        Plan(units, ratio, tuple(args.solvers), args.seeds, args.budget)
        for units in args.units
        for ratio in sorted(args.ratios)
    ]
    done: dict[Key, Point] = {}
    for plan, done in zip(plans, all_measured(plans, args.out), strict=True):
        print("\n".join(table_line(done[plan.key(solver)]) for solver in plan.solvers), flush=True)
        if args.plot:
            draw(curves(done.values()), args.plot)
    print("\n" + "\n".join(summary(list(done.values()))))


if __name__ == "__main__":
    main()
