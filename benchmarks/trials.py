"""What the recovery benchmarks share: rows, their trials in fresh processes, table, command line.

A benchmark brings its rows (a subclass of `Row` that knows how to draw a problem) and calls `main`.
"""

from __future__ import annotations

import argparse
import json
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np

import provenet as pn
from common import (
    Cost,
    Line,
    Problem,
    in_fresh_process,
    machine,
    markdown_head,
    markdown_row,
    measured,
)
from provenet.common.typing import AnyArray, Array
from provenet.data.passes import one_blas_thread, workers
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters

EXACT = 1e-8
"""Largest parameter error of a success without noise, unless the row says otherwise."""
AS_GOOD = 1.1
"""With noise: largest parameter error of a success, over that of a refinement from the truth."""
LEAST_SECONDS = 1.0
"""A rival is given as long as provenet took on the same samples, and at least this."""
PEER_SEEDS = 10
"""Seeds of a row on which rivals run."""
LARGEST_FOR_PEERS = 2_000_000
PROVENET = "provenet"
COMMON_STAGES = ("refine", "certify", "total")
"""Those that do not tell which road "auto" took."""

# ---------------------------------------------------------------- what counts as a success


@dataclass(frozen=True)
class Answer:
    """What a solver returned."""

    network: pn.Network | Any
    """None where there is none."""
    cost: Cost
    corrupted: AnyArray | None = None
    status: str = "-"
    message: str = ""
    claimed: bool = False
    stages: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is what the row asks for."""

    recovered: bool
    ratio: float | None = None
    """With noise: how much worse than the best that can be hoped for."""


class Target(Protocol):
    """What a row asks for. A class, since rows are sent to other processes."""

    def __call__(self, problem: Problem, answer: Answer, error: float) -> Verdict:
        """The verdict on an answer whose parameters are off by `error`."""
        ...


@dataclass(frozen=True)
class Exact:
    """The hidden network's own parameters."""

    tolerance: float = EXACT

    def __call__(self, problem: Problem, answer: Answer, error: float) -> Verdict:
        """Compare the error with the tolerance."""
        return Verdict(error <= self.tolerance)


@dataclass(frozen=True)
class AsGoodAsLeastSquares:
    """Parameters as near as those of least squares on these samples, started at the truth."""

    limit: float = AS_GOOD

    def __call__(self, problem: Problem, answer: Answer, error: float) -> Verdict:
        """Compare the error with that of least squares."""
        ratio = error / error_from_truth(problem)
        return Verdict(ratio <= self.limit, ratio)


@overload
def fitted_from(start: pn.DeepNetwork, X: Array, y: Array) -> pn.DeepNetwork: ...


@overload
def fitted_from(start: pn.Network, X: Array, y: Array) -> pn.Network: ...


def fitted_from(start: pn.Network, X: Array, y: Array) -> pn.Network:
    """Least squares on these samples, started at a network."""
    deep = isinstance(start, pn.DeepNetwork)
    with one_blas_thread():
        fit = refine(
            pn.ArraySource(X, y),
            Parameters.of(start),
            start.activation,
            spread=float(np.std(y)),
            iterations=100 if deep else 200,
            tolerance=1e-10 if deep else 1e-13,
            damping=1e-6,
        )
    found = fit.parameters
    return found.deep_network(start.activation) if deep else found.network(start.activation)


def error_from_truth(problem: Problem) -> float:
    """Parameter error of least squares on these samples, started at the hidden network itself."""
    fitted = fitted_from(problem.truth, problem.X, problem.y)
    return pn.parameter_error(fitted, problem.truth)


# ---------------------------------------------------------------- rows and outcomes


@dataclass(frozen=True)
class Row(ABC):
    """One line of the table."""

    name: str
    features: int
    units: int
    samples: int
    seeds: int
    must: str
    inputs: str = "gauss"
    method: str = "auto"
    activation: str = "relu"
    target: Target = Exact()
    aim: bool = False
    """Whether the row stands among the aims and not among what must hold."""

    @abstractmethod
    def problem(self, seed: int) -> Problem:
        """The hidden network of a seed and its samples."""

    @property
    def layers(self) -> int:
        """Hidden layers, which `recover` is told."""
        return 1

    @property
    def width(self) -> int | tuple[int, ...]:
        """What rivals are told: the number of units, or the widths of several layers."""
        return getattr(self, "widths", self.units)

    @property
    def told(self) -> str:
        """The activation that `recover` is told: that of the units, without their slope."""
        return self.activation.partition("(")[0]

    def for_peer(self, name: str) -> bool:
        """Whether a rival has such units and the samples are few enough for it."""
        return self.activation == "relu" and self.features * self.samples <= LARGEST_FOR_PEERS

    def error(self, network: pn.Network | Any, truth: pn.Network | Any) -> float:
        """How far parameters are off; infinite where there is no network."""
        return float("inf") if network is None else pn.parameter_error(network, truth)


@dataclass(frozen=True)
class Outcome:
    """What one solver did on the samples of one seed."""

    row: str
    solver: str
    seed: int
    recovered: bool
    """What the row asks for: the hidden parameters, or as good as noise lets them be."""
    claimed: bool
    """The solver says so itself; a rival has no way to."""
    status: str
    message: str
    stages: Mapping[str, float]
    """Seconds of each stage that provenet went through."""
    units: int
    error: float
    ratio: float | None
    """With noise: the error over that of a refinement started at the truth, or the row's own."""
    residual: float
    """On fresh samples without noise, relative to the spread of their labels."""
    seconds: float
    memory: float | None
    """Peak in MB beyond the samples."""
    identifiable: bool
    """Each unit has more samples than features on both sides of its kink."""
    determined: bool
    """Recovered, or no other networks near the hidden one fit the samples."""

    @property
    def wrong_success(self) -> bool:
        """The worst that can happen: a wrong network with a certificate.

        One that is right to EXACT and misses a tighter tolerance of its row is no such thing.
        """
        return self.claimed and not self.recovered and self.error > EXACT


# ---------------------------------------------------------------- one trial, in its own process


def solver_rng(seed: int) -> np.random.Generator:
    """A solver's own randomness: the problem's seed itself would draw the hidden network again."""
    return np.random.default_rng([seed, 0x50])


def provenet_trial(row: Row, seed: int, budget: float) -> Outcome:
    """Recover, told neither the number of units nor the slope of a leaky ReLU."""
    problem = row.problem(seed)
    rng = solver_rng(seed)
    result, cost = measured(lambda: recovery_of(row, problem, budget, rng))
    answer = Answer(
        result.network,
        cost,
        result.corrupted,
        str(result.status),
        result.message,
        result.success,
        {stage: round(seconds, 3) for stage, seconds in result.timings.items()},
    )
    return judged(row, PROVENET, seed, problem, answer)


def recovery_of(row: Row, problem: Problem, budget: float, rng: np.random.Generator) -> pn.Recovery:
    """An exception is a failure that says so: one bad seed must not end a run of hours."""
    try:
        return pn.recover(
            problem.X,
            problem.y,
            layers=row.layers,
            method=row.method,
            activation=row.told,
            budget=budget,
            rng=rng,
        )
    except Exception as error:
        return pn.Recovery(None, pn.Status.FAILED, f"RAISED {error!r}", row.method)


def peer_trial(row: Row, seed: int, name: str, seconds: float) -> Outcome:
    """A rival on the same samples, told the number of units."""
    from peers import PEERS as SOLVERS  # slow to import, and not needed for provenet's own trials

    problem = row.problem(seed)
    rng = solver_rng(seed)
    sigma = problem.truth.activation
    network, cost = measured(
        lambda: SOLVERS[name](problem.X, problem.y, row.width, seconds, rng, sigma)
    )
    return judged(row, name, seed, problem, Answer(network, cost))


def judged(row: Row, solver: str, seed: int, problem: Problem, answer: Answer) -> Outcome:
    """Compare what was found with the truth."""
    network = answer.network
    error = row.error(network, problem.truth)
    verdict = row.target(problem, answer, error)
    return Outcome(
        row=row.name,
        solver=solver,
        seed=seed,
        recovered=verdict.recovered,
        claimed=answer.claimed,
        status=answer.status,
        message=answer.message,
        stages=answer.stages,
        units=0 if network is None else network.units,
        error=error,
        ratio=verdict.ratio,
        residual=float("inf") if network is None else problem.relative_residual(network),
        seconds=answer.cost.seconds,
        memory=answer.cost.memory,
        identifiable=problem.identifiable,
        determined=verdict.recovered or problem.determined,
    )


# ---------------------------------------------------------------- all trials of a row


def trials(
    row: Row, seeds: range, budget: float, peers: Iterable[str], peer_seeds: int, jobs: int = 1
) -> Iterator[Outcome]:
    """Every solver on every seed, each in a fresh process, so many seeds at a time."""

    def of_seed(seed: int) -> list[Outcome]:
        outcomes = [in_fresh_process(provenet_trial, row, seed, budget)]
        if seed - seeds.start < peer_seeds:
            seconds = max(LEAST_SECONDS, outcomes[0].seconds)
            rivals = filter(row.for_peer, peers)
            outcomes += [in_fresh_process(peer_trial, row, seed, name, seconds) for name in rivals]
        return outcomes

    with ThreadPoolExecutor(jobs) as pool:
        for outcomes in pool.map(of_seed, seeds):
            yield from outcomes


def told(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Report each trial on stderr as it ends."""
    for o in outcomes:
        error = f"error {o.error:.1e}" if o.ratio is None else f"ratio {o.ratio:.3f}"
        flag = "  WRONG SUCCESS" if o.wrong_success else ""
        why = f"  {o.message}" if o.solver == PROVENET and not o.claimed else ""
        done = f"{o.status}, {error}, {o.seconds:.2f} s"
        report(f"{o.row} seed {o.seed} {o.solver}: {done}{flag}{why}")
        yield o


def report(line: str) -> None:
    """Tell whoever watches; the table alone goes to stdout."""
    print(line, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- the table

TITLES = (
    "solver",
    "recovered",
    "must",
    "said exact",
    "wrong successes",
    "median s",
    "max s",
    "peak MB",
    "median error",
    "median residual",
    "remarks",
)


def table_cells(row: Row, solver: str, outcomes: list[Outcome]) -> tuple[str, ...]:
    """One line of the table: one solver on the samples of one row."""
    ours = solver == PROVENET
    seconds = [o.seconds for o in outcomes]
    memory = [o.memory for o in outcomes if o.memory is not None]
    return (
        row.name,
        solver,
        f"{sum(o.recovered for o in outcomes)} of {len(outcomes)}",
        row.must if ours else "",
        str(sum(o.status == pn.Status.EXACT for o in outcomes)) if ours else "",
        str(sum(o.wrong_success for o in outcomes)) if ours else "",
        f"{np.median(seconds):.2f}",
        f"{max(seconds):.2f}",
        f"{max(memory):.0f}" if memory else "-",
        f"{np.median([o.error for o in outcomes]):.0e}",
        f"{np.median([o.residual for o in outcomes]):.0e}",
        remarks(outcomes, which_road=ours and row.method == "auto"),
    )


def remarks(outcomes: list[Outcome], which_road: bool) -> str:
    """What only some rows have: roads taken, ratios with noise, networks not in the samples."""
    roads = Counter("+".join(s for s in o.stages if s not in COMMON_STAGES) for o in outcomes)
    parts = [f"{count} by {road}" for road, count in roads.most_common() if which_road and road]
    ratios = [o.ratio for o in outcomes if o.ratio is not None]
    if ratios:
        parts.append(f"ratio median {np.median(ratios):.3f}, max {max(ratios):.3f}")
    for name, shown in (
        ("identifiable", [o for o in outcomes if o.identifiable]),
        ("determined", [o for o in outcomes if o.determined]),
    ):
        if len(shown) < len(outcomes):
            parts.append(
                f"{len(shown)} {name}, {sum(o.recovered for o in shown)} of them recovered"
            )
    return "; ".join(parts)


def table_lines(row: Row, outcomes: list[Outcome]) -> Iterator[tuple[str, ...]]:
    """The lines of a row, provenet first."""
    for solver in dict.fromkeys(o.solver for o in outcomes):
        yield table_cells(row, solver, [o for o in outcomes if o.solver == solver])


def write_json(path: Path, outcomes: list[Outcome], budget: float) -> None:
    """Every trial so far, and where it was measured; written whole or not at all."""
    records = [{k: _finite(v) for k, v in asdict(o).items()} for o in outcomes]
    content = {"machine": machine(), "budget": budget, "trials": records}
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    partial.replace(path)


def _finite(value: object) -> object:
    """JSON has no infinity."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


# ---------------------------------------------------------------- the suite


def suite_lines(
    columns: str,
    rows: Iterable[Row],
    peers: tuple[str, ...],
    rivalled: Collection[str],
    *,
    seeds: int | None = None,
    budget: float = 60.0,
) -> Iterator[Line]:
    """The table of rows, a line a solver, on every core a trial at a time.

    Rivals run on the rows that are named; all rows have the seeds that they ask for, or so many.
    """
    for row in rows:
        of_peers = PEER_SEEDS if row.name in rivalled else 0
        done = trials(row, range(seeds or row.seeds), budget, peers, of_peers, jobs=workers())
        for cells in table_lines(row, list(told(done))):
            yield Line((columns, *TITLES), cells)


# ---------------------------------------------------------------- the command line


def groups_of(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by what `--rows` takes: a name, a method, or must, aims and all."""
    groups: dict[str, list[Row]] = {"all": [], "must": [], "aims": []}
    for row in rows:
        for name in ("all", "aims" if row.aim else "must", row.method, row.name):
            groups.setdefault(name, []).append(row)
    return groups


def arguments(title: str, choices: Iterable[str], budget: float) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument(
        "--rows",
        nargs="+",
        default=["all"],
        choices=list(choices),
        metavar="ROW",
        help="rows by name or method (see --list), or must, aims, all",
    )
    parser.add_argument("--seeds", type=int, help="seeds a row (default: as many as the row says)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=budget, help="seconds for a recovery")
    parser.add_argument("--peers", action="store_true", help="run the rivals too, on small rows")
    parser.add_argument(
        "--peer-seeds", type=int, default=PEER_SEEDS, help="seeds a row for the rivals"
    )
    parser.add_argument("--out", type=Path, help="write every trial to this JSON file")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    return parser.parse_args()


def main(
    title: str,
    columns: str,
    rows: Mapping[str, Row],
    peers: tuple[str, ...],
    budget: float = 60.0,
) -> None:
    """Run the chosen rows; each prints as soon as it is done."""
    groups = groups_of(rows.values())
    args = arguments(title, groups, budget)
    if args.list:
        width = max(map(len, rows))
        for row in rows.values():
            print(f"{row.name:{width}} {row.seeds:3} seeds  {row.must}")
        return
    print(markdown_head((columns, *TITLES)), flush=True)
    everything: list[Outcome] = []
    for row in dict.fromkeys(row for name in args.rows for row in groups[name]):
        if row.method not in pn.METHODS:
            report(f"{row.name}: skipped, this provenet has no method {row.method!r}")
            continue
        seeds = range(args.first_seed, args.first_seed + (args.seeds or row.seeds))
        peer_seeds = args.peer_seeds if args.peers else 0
        outcomes = list(told(trials(row, seeds, args.budget, peers, peer_seeds)))
        print("\n".join(map(markdown_row, table_lines(row, outcomes))), flush=True)
        everything += outcomes
        if args.out:
            write_json(args.out, everything, args.budget)
