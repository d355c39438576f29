"""How few samples suffice: success rate against samples a parameter, beside what a user would pick.

    python benchmarks/samples.py --units 5 --seeds 20 --budget 10
    python benchmarks/samples.py --out samples.json --plot samples.png       # all: hours

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from common import in_fresh_process, machine, markdown_head, markdown_row
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
UNITS = (5, 10, 20)
RATIOS = (1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0)
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


def points(units: int, ratio: float, seeds: int, budget: float) -> list[Point]:
    """Every solver on the same problems, each trial in a fresh process."""
    outcomes: dict[str, list[Outcome]] = {solver: [] for solver in (*METHODS, *PEERS)}
    for seed in range(seeds):
        for method in METHODS:
            problem = row(units, ratio, method)
            outcomes[method].append(in_fresh_process(provenet_trial, problem, seed, budget))
        seconds = max(LEAST_SECONDS, outcomes[METHODS[0]][-1].seconds)
        for name in PEERS:
            problem = row(units, ratio, METHODS[0])
            outcomes[name].append(in_fresh_process(peer_trial, problem, seed, name, seconds))
    for solver, done in outcomes.items():
        list(told(o for o in done if o.wrong_success or solver in METHODS))
    return [Point(units, ratio, solver, tuple(done)) for solver, done in outcomes.items()]


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
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for a recovery")
    parser.add_argument("--out", type=Path, help="write every trial to this JSON file")
    parser.add_argument("--plot", type=Path, help="draw the picture into this file")
    args = parser.parse_args()
    print(", ".join(f"{name} {value}" for name, value in machine().items()) + "\n")
    print(markdown_head(TITLES), flush=True)
    measured: list[Point] = []
    for units in args.units:
        for ratio in sorted(args.ratios):
            found = points(units, ratio, args.seeds, args.budget)
            print("\n".join(map(table_line, found)), flush=True)
            measured += found
            if args.out:
                outcomes = [o for p in measured for o in p.outcomes]
                write_json(args.out, outcomes, args.budget)
            if args.plot:
                draw(curves(measured), args.plot)
    print("\n" + "\n".join(summary(measured)))


if __name__ == "__main__":
    main()
