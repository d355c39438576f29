"""Success rate, time and memory of provenet and of what a user would pick instead.

    python benchmarks/recovery.py                         # every row, all its seeds: hours
    python benchmarks/recovery.py --rows 10,5,300 --seeds 5 --peers
    python benchmarks/recovery.py --list

Prints a Markdown table; `--out FILE` also writes every trial as JSON. See README.md beside this.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import provenet as pn
from common import (
    Cost,
    Problem,
    in_fresh_process,
    machine,
    markdown_head,
    markdown_row,
    measured,
    random_problem,
)
from provenet.activations import RELU
from provenet.parallel import one_blas_thread
from provenet.model import Parameters
from provenet.refine import refine

EXACT = 1e-8
"""Largest parameter error of a success without noise."""
AS_GOOD = 1.1
"""With noise: largest parameter error of a success, over that of a refinement from the truth."""
LEAST_SECONDS = 1.0
"""A rival is given as long as provenet took on the same samples, and at least this."""
PEERS = ("MLPRegressor lbfgs", "MLPRegressor adam", "Levenberg-Marquardt")
PROVENET = "provenet"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    features: int
    units: int
    samples: int
    seeds: int
    must: str
    inputs: str = "gauss"
    noise: float = 0.0
    method: str = "auto"
    aim: bool = False
    """Whether the row stands among the aims and not among what must hold."""

    @property
    def for_peers(self) -> bool:
        """Whether the samples are few enough for the rivals."""
        return self.features * self.samples <= 2_000_000

    def problem(self, seed: int) -> Problem:
        """The hidden network of a seed and its samples."""
        return random_problem(
            self.features, self.units, self.samples, self.inputs, self.noise, seed
        )


ROWS = {
    row.name: row
    for row in (
        Row("10,5,300", 10, 5, 300, 100, "99 of 100"),
        Row("10,5,150", 10, 5, 150, 100, "aim: 99 of 100", aim=True),
        Row("20,10,1e3", 20, 10, 1000, 100, "98 of 100, median under 2 s"),
        Row("20,10,500", 20, 10, 500, 100, "aim: 98 of 100", aim=True),
        Row("20,10,2.5e3,uniform", 20, 10, 2500, 100, "98 of 100", "uniform"),
        Row("20,10,2.5e3,student-t", 20, 10, 2500, 100, "98 of 100", "student-t"),
        Row("20,10,2.5e3,integers", 20, 10, 2500, 100, "98 of 100", "integers"),
        Row(
            "20,10,1e5,moments",
            20,
            10,
            100_000,
            100,
            "95 of 100, median under 3 s",
            method="biased-relu",
        ),
        Row("20,10,1e4,moments", 20, 10, 10_000, 100, "aim: all", method="biased-relu", aim=True),
        Row("50,20,5e3", 50, 20, 5000, 20, "18 of 20, median under 40 s"),
        Row("50,20,3e3", 50, 20, 3000, 20, "aim: all, under 10 s", aim=True),
        Row("50,20,1e6", 50, 20, 1_000_000, 20, "18 of 20, median under 40 s, under 1 GB"),
        Row("300,20,5e5", 300, 20, 500_000, 10, "8 of 10"),
        Row("20,10,1e5,noise", 20, 10, 100_000, 20, "19 of 20", noise=0.1),
    )
}


@dataclass(frozen=True)
class Outcome:
    """What one solver did on the samples of one seed."""

    row: str
    solver: str
    seed: int
    recovered: bool
    """The parameters are those of the hidden network (EXACT), or as good as noise lets them be."""
    claimed: bool
    """The solver says so itself; a rival has no way to."""
    status: str
    units: int
    error: float
    ratio: float | None
    """With noise: the error over that of a refinement started at the truth."""
    residual: float
    """On fresh samples without noise, relative to the spread of their labels."""
    seconds: float
    memory: float | None
    """Peak in MB beyond the samples."""
    identifiable: bool
    """Each unit has more samples than features on both sides of its kink."""
    determined: bool
    """No other networks near the hidden one fit the samples."""

    @property
    def wrong_success(self) -> bool:
        """The worst that can happen: a wrong network with a certificate."""
        return self.claimed and not self.recovered


# ---------------------------------------------------------------- one trial, in its own process


def solver_rng(seed: int) -> np.random.Generator:
    """A solver's own randomness: the problem's seed itself would draw the hidden network again."""
    return np.random.default_rng([seed, 0x50])


def provenet_trial(row: Row, seed: int, budget: float) -> Outcome:
    """Recover, the number of units not given."""
    problem = row.problem(seed)
    rng = solver_rng(seed)
    result, cost = measured(
        lambda: pn.recover(problem.X, problem.y, method=row.method, budget=budget, rng=rng)
    )
    return judged(row, PROVENET, seed, problem, result.network, cost, result.status, result.success)


def peer_trial(row: Row, seed: int, name: str, seconds: float) -> Outcome:
    """A rival on the same samples, told the number of units."""
    from peers import PEERS as SOLVERS  # slow to import, and not needed for provenet's own trials

    problem = row.problem(seed)
    rng = solver_rng(seed)
    network, cost = measured(lambda: SOLVERS[name](problem.X, problem.y, row.units, seconds, rng))
    return judged(row, name, seed, problem, network, cost)


def judged(
    row: Row,
    solver: str,
    seed: int,
    problem: Problem,
    network: pn.Network | None,
    cost: Cost,
    status: str = "-",
    claimed: bool = False,
) -> Outcome:
    """Compare what was found with the truth."""
    error = float("inf") if network is None else pn.parameter_error(network, problem.truth)
    ratio = error / error_from_truth(problem) if row.noise else None
    return Outcome(
        row=row.name,
        solver=solver,
        seed=seed,
        recovered=error <= EXACT if ratio is None else ratio <= AS_GOOD,
        claimed=claimed,
        status=str(status),
        units=0 if network is None else network.units,
        error=error,
        ratio=ratio,
        residual=float("inf") if network is None else problem.relative_residual(network),
        seconds=cost.seconds,
        memory=cost.memory,
        identifiable=problem.identifiable,
        determined=problem.determined,
    )


def error_from_truth(problem: Problem) -> float:
    """Parameter error of least squares on these samples, started at the hidden network itself."""
    with one_blas_thread():
        fit = refine(
            pn.ArraySource(problem.X, problem.y),
            Parameters.of(problem.truth),
            RELU,
            spread=float(np.std(problem.y)),
            iterations=200,
            tolerance=1e-13,
            damping=1e-6,
        )
    return pn.parameter_error(fit.parameters.network(RELU), problem.truth)


# ---------------------------------------------------------------- all trials of a row


def trials(row: Row, seeds: range, budget: float, peer_seeds: int) -> Iterator[Outcome]:
    """Every solver on every seed, each in a fresh process, one at a time."""
    for seed in seeds:
        ours = in_fresh_process(provenet_trial, row, seed, budget)
        yield ours
        if row.for_peers and seed - seeds.start < peer_seeds:
            seconds = max(LEAST_SECONDS, ours.seconds)
            for name in PEERS:
                yield in_fresh_process(peer_trial, row, seed, name, seconds)


def told(outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Report each trial on stderr as it ends."""
    for o in outcomes:
        error = f"error {o.error:.1e}" if o.ratio is None else f"ratio {o.ratio:.3f}"
        flag = "  WRONG SUCCESS" if o.wrong_success else ""
        print(
            f"{o.row} seed {o.seed} {o.solver}: {o.status}, {error}, {o.seconds:.2f} s{flag}",
            file=sys.stderr,
            flush=True,
        )
        yield o


# ---------------------------------------------------------------- the table

TITLES = (
    "features, units, samples",
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


def table_line(row: Row, solver: str, outcomes: list[Outcome]) -> str:
    """One line of the table: one solver on the samples of one row."""
    ours = solver == PROVENET
    seconds = [o.seconds for o in outcomes]
    memory = [o.memory for o in outcomes if o.memory is not None]
    cells = (
        row.name,
        solver,
        f"{sum(o.recovered for o in outcomes)} of {len(outcomes)}",
        row.must if ours else "",
        sum(o.status == pn.Status.EXACT for o in outcomes) if ours else "",
        sum(o.wrong_success for o in outcomes) if ours else "",
        f"{np.median(seconds):.2f}",
        f"{max(seconds):.2f}",
        f"{max(memory):.0f}" if memory else "-",
        f"{np.median([o.error for o in outcomes]):.0e}",
        f"{np.median([o.residual for o in outcomes]):.0e}",
        remarks(outcomes),
    )
    return markdown_row(cells)


def remarks(outcomes: list[Outcome]) -> str:
    """What only some rows have: error ratios with noise, networks that the samples do not show."""
    parts = []
    ratios = [o.ratio for o in outcomes if o.ratio is not None]
    if ratios:
        parts.append(f"error ratio median {np.median(ratios):.3f}, max {max(ratios):.3f}")
    for name, shown in (
        ("identifiable", [o for o in outcomes if o.identifiable]),
        ("determined", [o for o in outcomes if o.determined]),
    ):
        if len(shown) < len(outcomes):
            parts.append(
                f"{len(shown)} {name}, {sum(o.recovered for o in shown)} of them recovered"
            )
    return "; ".join(parts)


def table_lines(row: Row, outcomes: list[Outcome]) -> Iterator[str]:
    """The lines of a row, provenet first."""
    for solver in (PROVENET, *PEERS):
        own = [o for o in outcomes if o.solver == solver]
        if own:
            yield table_line(row, solver, own)


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


def chosen_rows(names: list[str]) -> list[Row]:
    """Rows by name, or the groups must, aims and all."""
    groups = {
        "all": list(ROWS),
        "must": [name for name, row in ROWS.items() if not row.aim],
        "aims": [name for name, row in ROWS.items() if row.aim],
    }
    return [ROWS[n] for name in names for n in groups.get(name, [name])]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--rows",
        nargs="+",
        default=["all"],
        choices=[*ROWS, "all", "must", "aims"],
        metavar="ROW",
        help="rows by name (see --list), or must, aims, all",
    )
    parser.add_argument("--seeds", type=int, help="seeds a row (default: as many as the row says)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for a recovery")
    parser.add_argument("--peers", action="store_true", help="run the rivals too, on small rows")
    parser.add_argument("--peer-seeds", type=int, default=10, help="seeds a row for the rivals")
    parser.add_argument("--out", type=Path, help="write every trial to this JSON file")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    return parser.parse_args()


def main() -> None:
    """Run the chosen rows; each prints as soon as it is done."""
    args = arguments()
    if args.list:
        print("\n".join(f"{row.name:24} {row.seeds:3} seeds  {row.must}" for row in ROWS.values()))
        return
    print(markdown_head(TITLES), flush=True)
    everything: list[Outcome] = []
    for row in chosen_rows(args.rows):
        seeds = range(args.first_seed, args.first_seed + (args.seeds or row.seeds))
        peer_seeds = args.peer_seeds if args.peers else 0
        outcomes = list(told(trials(row, seeds, args.budget, peer_seeds)))
        print("\n".join(table_lines(row, outcomes)), flush=True)
        everything += outcomes
        if args.out:
            write_json(args.out, everything, args.budget)


if __name__ == "__main__":
    main()
