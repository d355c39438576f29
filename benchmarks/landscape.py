"""GLM17: where descents on each objective end, and what recovery by them gives from samples.

    python benchmarks/landscape.py conjecture --quick
    python benchmarks/landscape.py conjecture --out conjecture.json     # half an hour
    python benchmarks/landscape.py recovery --list
    python benchmarks/landscape.py recovery --rows F:10,10,1e6 --seeds 3

"conjecture" puts sections 2.1 and 7 to the test: has f2f4 bad minima? Exact populations of random
networks, random starts, the deterministic second-order method; a descent ends at the truth, at a
bad minimum (with the evidence for it), or has not come to rest. "recovery" runs the public
`recover` on samples. Each prints a Markdown table; `--out FILE` also writes every run as JSON.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import provenet as pn
from common import Cost, Record, in_fresh_process, machine, markdown_head, markdown_row, measured
from provenet.common.typing import Array
from provenet.data.passes import one_blas_thread
from provenet.landscape import Objective, SecondOrder, minimise, objective, second_order
from provenet.landscape.constants import constants_for_F
from provenet.landscape.designed import Design
from provenet.landscape.statistics import coefficients, population_statistics
from provenet.networks.canonical import permutation_error
from trials import report, solver_rng

# ---------------------------------------------------------------- networks


def random_rows(rng: np.random.Generator, units: int, features: int, orthogonal: bool) -> Array:
    """Rows of norm 1: Gaussian, and orthogonal to each other if so wanted."""
    W = rng.standard_normal((units, features))
    if orthogonal:
        W = np.linalg.qr(W.T)[0].T
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


def conditioned_rows(
    rng: np.random.Generator, units: int, features: int, condition: float
) -> Array:
    """Rows of norm 1, of a matrix that had geometric singular values before they were scaled."""
    U = random_rows(rng, units, units, orthogonal=True)
    V = random_rows(rng, units, features, orthogonal=True)
    W = (U * np.geomspace(condition, 1.0, units)) @ V
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


@dataclass(frozen=True)
class Ensemble:
    """Networks of one size and kind."""

    features: int
    units: int
    orthogonal: bool
    ratio: float
    """max a / min a; output weights are geometric between."""

    def network(self, seed: int) -> pn.Network:
        """A network of the ensemble."""
        rng = np.random.default_rng([seed, 1])
        W = random_rows(rng, self.units, self.features, self.orthogonal)
        return pn.Network(W, output_weights=np.geomspace(1.0, self.ratio, self.units))

    def start(self, seed: int, number: int) -> Array:
        """Where a descent begins: random rows, which have nothing to do with the network."""
        rng = np.random.default_rng([seed, 2, number])
        return random_rows(rng, self.units, self.features, orthogonal=False)

    @property
    def titles(self) -> tuple[str, ...]:
        """Its cells in the table."""
        kind = "orthogonal" if self.orthogonal else "general position"
        return f"{self.features}, {self.units}", kind, f"{self.ratio:g}"


RATIOS = (1.0, 3.0, 10.0)
RUNS = 10, 10
"""Networks and starts of an ensemble, unless its size says otherwise."""
SIZES = {(5, 5): RUNS, (10, 10): (10, 3), (20, 20): (5, 3), (20, 10): (5, 4), (5, 8): (10, 5)}
"""(features, units), and how many networks and starts for each."""
QUICK, QUICK_RUNS = [(5, 5), (5, 8)], (3, 2)


def ensembles(sizes: Iterable[tuple[int, int]]) -> list[Ensemble]:
    """Every kind that there is of these sizes: at most as many units as features are orthogonal."""
    return [
        Ensemble(d, m, orthogonal, ratio)
        for (d, m), orthogonal, ratio in product(sizes, (True, False), RATIOS)
        if m <= d or not orthogonal
    ]


# ---------------------------------------------------------------- objectives

FIXED = ", a held"
COLUMNS = ("l2", "f2f4", "abs", f"f2f4{FIXED}", "P'", "G", "F")


def is_for(column: str, ensemble: Ensemble) -> bool:
    """P' and G are for as many orthogonal units as features, F for independent ones."""
    if column in ("P'", "G"):
        return ensemble.orthogonal and ensemble.units == ensemble.features
    return column != "F" or ensemble.units <= ensemble.features


class InNormOf(Objective):
    """An objective of B as a function of `C = B M^{1/2}` (Theorem A.1).

    A linear change of variables moves no minimum; in the norm of `M = sum a b b^T` independent
    units are orthogonal, so that how independent they are no longer slows the descent.
    """

    def __init__(self, of: Objective, M: Array) -> None:
        """M may be singular: the space outside its range stays as it is."""
        self.of, self.units, self.features, self.theorem = of, of.units, of.features, of.theorem
        values, vectors = np.linalg.eigh(M)
        shown = np.sort(values)[-of.units]
        self.root = (vectors / np.where(values >= shown, values, 1.0) ** 0.5) @ vectors.T

    def value(self, C: Array) -> float:
        """The objective."""
        return self.of.value(C @ self.root)

    def gradient(self, C: Array) -> Array:
        """Its gradient."""
        return np.asarray(self.of.gradient(C @ self.root) @ self.root)

    def hessian_product(self, C: Array, V: Array) -> Array:
        """Its Hessian applied to V."""
        return np.asarray(self.of.hessian_product(C @ self.root, V @ self.root) @ self.root)


def objective_of(column: str, truth: pn.Network) -> tuple[Objective, Array]:
    """The population's objective of a column, and where the truth is for it.

    F takes its constants from the true output weights: the ranges of the theorems are in these.
    """
    name, _, held = column.partition(FIXED[:1])
    a, W = truth.output_weights, truth.weights
    if name != "F":
        return objective(name, truth, output_weights=a if held else None), W
    statistics = population_statistics(truth)
    c_4 = coefficients(truth.activation)[1]
    fewer = truth.units < truth.features
    constants = constants_for_F(np.sort(a), c_4, truth.features, undercomplete=fewer)
    F = InNormOf(Design(statistics, constants, truth.units), statistics.norms[0])
    return F, np.sqrt(a)[:, None] * W @ F.root


def directions(objective: Objective, B: Array) -> Array:
    """The units that a point stands for: of F, the rows of the inverse (Theorem A.4)."""
    rows = np.linalg.pinv(B @ objective.root).T if isinstance(objective, InNormOf) else B
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def distance(first: Array, second: Array) -> float:
    """Largest `1 - |cos|` between a row of either and the nearest row of the other."""
    cosines = np.abs(first @ second.T)
    return float(1 - min(cosines.max(axis=0).min(), cosines.max(axis=1).min()))


# ---------------------------------------------------------------- one descent

NEAR = 1e-4
"""Largest distance from the truth that counts as there."""
EXCESS = 1e-6
"""Largest value above the global minimum's that counts as there: units may have swapped weights."""
SMALL = 1e-9
ITERATIONS = 2000
CLEAR = 1e-8
"""Slopes and eigenvalues below this count as zero, over the size of the Hessian."""


@dataclass(frozen=True)
class Run:
    """Where one descent ended, and the evidence of what is there."""

    ensemble: Ensemble
    column: str
    seed: int
    start: int
    end: str
    """"truth", "bad minimum", "flat bad minimum" (no strict one) or "not at rest"."""
    distance: float
    excess: float
    """Value above that of the global minimum."""
    slope: float
    lowest: float
    """Smallest eigenvalue of the Hessian."""
    scale: float
    """Size of the Hessian."""
    steps: int


def descend(ensemble: Ensemble, column: str, seed: int, start: int) -> Run:
    """One descent, finished by Newton's method where it did not end at the truth."""
    truth, f, least = problem(ensemble, column, seed)
    slope, curvature = limits(f, truth)
    begin = ensemble.start(seed, start)
    descent = minimise(f, begin, slope=slope, curvature=curvature, iterations=ITERATIONS)
    B = descent.B
    off = distance(directions(f, B), truth.weights)
    if off > NEAR or f.value(B) - least > EXCESS:
        B = at_rest(f, B)
        off = distance(directions(f, B), truth.weights)
    # Near saddles that are almost flat, Lanczos is not sure enough of its smallest eigenvalue.
    lowest = float(np.linalg.eigvalsh(hessian(f, B))[0])
    found = replace(second_order(f, B), lowest=lowest)
    end = kind_of_end(found, off, found.value - least)
    evidence = (off, found.value - least, found.slope, found.lowest, found.scale)
    return Run(ensemble, column, seed, start, end, *evidence, len(descent.path) - 1)


def kind_of_end(found: SecondOrder, off: float, excess: float) -> str:
    """The truth, a bad minimum that is clear or flat, or no minimum yet."""
    if off <= NEAR and excess <= EXCESS:
        return "truth"
    zero = CLEAR * found.scale
    if found.slope > zero or found.lowest < -zero or excess <= EXCESS:
        return "not at rest"
    return "bad minimum" if found.lowest > zero else "flat bad minimum"


@lru_cache(1)
def problem(ensemble: Ensemble, column: str, seed: int) -> tuple[pn.Network, Objective, float]:
    """A network, its objective, and the least value that this has."""
    truth = ensemble.network(seed)
    f, solution = objective_of(column, truth)
    return truth, f, f.value(at_rest(f, solution))


def limits(f: Objective, truth: pn.Network) -> tuple[float, float]:
    """Slope and curvature that end a descent: those of the theorem where there is one."""
    if f.theorem is None:
        small = SMALL * float(np.sum(truth.output_weights**2))
        return small, small
    return max(f.theorem.slope, 1e-12), f.theorem.curvature


def at_rest(f: Objective, B: Array, steps: int = 20) -> Array:
    """Newton's method on the whole Hessian, as long as it lessens the slope and adds no value."""
    B = f.retract(B)
    for _ in range(steps):
        slope = f.slope(B)
        step = np.linalg.lstsq(hessian(f, B), -slope.ravel(), rcond=1e-12)[0].reshape(B.shape)
        trial = f.retract(np.asarray(B + f.tangent(B, np.asarray(step))))
        if np.linalg.norm(f.slope(trial)) >= np.linalg.norm(slope):
            break
        if f.value(trial) > f.value(B) + 1e-12 * max(1.0, abs(f.value(B))):
            break
        B = trial
    return B


def hessian(f: Objective, B: Array) -> Array:
    """The whole Hessian, directions across the spheres put above the others."""
    gradient = f.gradient(B)
    lift = 1.0 + float(np.linalg.norm(gradient))

    def product(v: Array) -> Array:
        E = v.reshape(B.shape)
        V = f.tangent(B, E)
        return np.asarray((f.curvature(B, V, gradient) + lift * (E - V)).ravel())

    H = np.array([product(v) for v in np.eye(B.size)])
    return np.asarray((H + H.T) / 2)


# ---------------------------------------------------------------- the conjecture


def conjecture(args: argparse.Namespace) -> None:
    """Print a line an ensemble, the bad minima of f2f4, and write the runs."""
    columns = args.objectives or COLUMNS
    print(markdown_head(("features, units", "B*", "max a / min a", *columns)), flush=True)
    runs: list[Run] = []
    for ensemble in ensembles(args.sizes or (QUICK if args.quick else SIZES)):
        size = ensemble.features, ensemble.units
        networks, starts = QUICK_RUNS if args.quick else SIZES.get(size, RUNS)
        tasks = list(product(range(args.networks or networks), range(args.starts or starts)))
        cells = ["-"] * len(columns)
        for k, column in enumerate(columns):
            if is_for(column, ensemble):
                of_cell = descents(ensemble, column, tasks)
                cells[k] = cell(of_cell)
                runs += of_cell
                report(f"{', '.join(ensemble.titles)}; {column}: {cells[k]}")
        print(markdown_row((*ensemble.titles, *cells)), flush=True)
        write(args.out, runs)
    print("\n" + "\n".join(evidence(runs)))


def descents(ensemble: Ensemble, column: str, tasks: Iterable[tuple[int, int]]) -> list[Run]:
    """One from every start of every network."""
    with one_blas_thread():
        return [descend(ensemble, column, *task) for task in tasks]


def run(quick: bool) -> list[Record]:
    """For the suite: how often descents end at the truth, beside those on the squared loss."""
    networks, starts = (3, 2) if quick else (10, 3)
    tasks = list(product(range(networks), range(starts)))
    records = []
    for size in QUICK[:1] if quick else ((5, 5), (10, 10)):
        for ensemble in (e for e in ensembles([size]) if e.ratio == 3):
            reached = {
                column: sum(r.end == "truth" for r in descents(ensemble, column, tasks))
                / len(tasks)
                for column in ("l2", "f2f4", "F")
            }
            reference = reached.pop("l2")
            for column, share in reached.items():
                name = f"{'; '.join(ensemble.titles)}; {column}: at the truth"
                records.append(Record(name, share, "share", "the squared loss", reference))
    return records


def cell(runs: Sequence[Run]) -> str:
    """`93/100 (2)`: ended at the truth, and in brackets those that were not at rest."""
    ends = Counter(run.end for run in runs)
    restless = f" ({ends['not at rest']})" if ends["not at rest"] else ""
    return f"{ends['truth']}/{len(runs)}{restless}"


def evidence(runs: Iterable[Run]) -> Iterator[str]:
    """The bad minima of f2f4, one a line."""
    yield markdown_head(
        ("bad minimum of f2f4", "seed", "start", "1 - abs(cos)", "value above", "slope", "lowest")
    )
    for r in runs:
        if r.end == "bad minimum" and r.column == "f2f4":
            numbers = (f"{x:.1e}" for x in (r.distance, r.excess, r.slope, r.lowest))
            yield markdown_row(("; ".join(r.ensemble.titles), r.seed, r.start, *numbers))


def write(path: Path | None, runs: Sequence[Any]) -> None:
    """Every run so far, and where it was measured."""
    if path is not None:
        content = {"machine": machine(), "runs": [asdict(run) for run in runs]}
        path.write_text(json.dumps(content, indent=1) + "\n")


# ---------------------------------------------------------------- recovery from samples


@dataclass(frozen=True)
class Row:
    """One line of the table of recoveries."""

    objective: str
    features: int
    units: int
    samples: int
    """0 for the population."""
    must: str
    condition: float = 1.0
    """Of the weights' singular values; 1 takes the identity, the paper's problem."""
    ratio: float = 1.0
    """max a / min a."""
    refine: bool = False
    seeds: int = 1

    @property
    def name(self) -> str:
        """What `--rows` takes."""
        samples = f"{self.samples:.0e}".replace("+0", "") if self.samples else "population"
        refined = ",refined" if self.refine else ""
        return f"{self.objective}:{self.features},{self.units},{samples}{refined}"

    def network(self, seed: int) -> pn.Network:
        """The hidden network."""
        if self.condition == 1:
            return pn.Network(np.eye(self.units, self.features))
        rng = np.random.default_rng([seed, 1])
        W = conditioned_rows(rng, self.units, self.features, self.condition)
        return pn.Network(W, output_weights=np.geomspace(1.0, self.ratio, self.units))


HARDER = {"condition": 3.0, "ratio": 3.0, "seeds": 10}
ROWS = {
    row.name: row
    for row in (
        *(Row(name, 50, 50, 0, "e(Q) <= 1e-6") for name in ("G", "F", "f2f4")),
        *(
            Row(name, 50, 50, n, "e(Q), time")
            for n, name in product((100_000, 1_000_000), ("G", "F", "f2f4"))
        ),
        *(
            Row(name, d, 10, 1_000_000, must, refine=refine, **HARDER)  # type: ignore[arg-type]
            for (name, d), (refine, must) in product(
                (("F", 10), ("F-undercomplete", 30)),
                ((False, "error <= 0.1 in 9 of 10"), (True, "exact")),
            )
        ),
    )
}


@dataclass(frozen=True)
class Trial:
    """What one recovery gave."""

    row: str
    seed: int
    status: str
    message: str
    error: float
    """Of the parameters."""
    permutation: float
    """e(Q) of equation (6.1)."""
    cost: Cost


def trial(row: Row, seed: int, budget: float) -> Trial:
    """Recover once; to be run in a process of its own."""
    truth = row.network(seed)
    rng = np.random.default_rng([seed, 3])
    data: tuple[Any, ...] = (pn.PopulationSource(truth, rng=rng),)
    if row.samples:
        data = pn.sample(truth, row.samples, rng=rng)
    result, cost = measured(
        lambda: pn.recover(
            *data,
            units=row.units,
            method="landscape",
            objective=row.objective,
            refine=row.refine,
            budget=budget,
            rng=solver_rng(seed),
        )
    )
    network, error, permutation = result.network, float("inf"), 1.0
    if network is not None:
        error = pn.parameter_error(network, truth)
        permutation = permutation_error(network.weights, truth.weights)
    return Trial(row.name, seed, str(result.status), result.message, error, permutation, cost)


TITLES = (
    "objective: features, units, samples",
    "asked for",
    "status",
    "error <= 0.1",
    "error: median, max",
    "e(Q): median, max",
    "s: median, max",
    "peak MB",
)


def recovery(args: argparse.Namespace) -> None:
    """Print a line a row, and write the trials."""
    if args.list:
        print("\n".join(f"{name:35} {row.seeds:3} seeds  {row.must}" for name, row in ROWS.items()))
        return
    print(markdown_head(TITLES), flush=True)
    trials: list[Trial] = []
    quick = [name for name, row in ROWS.items() if row.features < 50] if args.quick else None
    for name in args.rows or quick or ROWS:
        row = ROWS[name]
        seeds = args.seeds or (1 if args.quick else row.seeds)
        of_row = []
        for seed in range(seeds):
            of_row.append(in_fresh_process(trial, row, seed, args.budget))
            t = of_row[-1]
            report(f"{name} seed {seed}: {t.status}, error {t.error:.1e}, e(Q) {t.permutation:.1e}")
        print(table_line(row, of_row), flush=True)
        trials += of_row
        write(args.out, trials)


def table_line(row: Row, trials: Sequence[Trial]) -> str:
    """One line of the table."""
    errors = [t.error for t in trials]
    memory = [t.cost.memory for t in trials if t.cost.memory is not None]
    statuses = Counter(t.status for t in trials)
    return markdown_row(
        (
            row.name,
            row.must,
            ", ".join(f"{count} {status}" for status, count in statuses.most_common()),
            f"{sum(error <= 0.1 for error in errors)} of {len(trials)}",
            _spread(errors, ".1e"),
            _spread([t.permutation for t in trials], ".1e"),
            _spread([t.cost.seconds for t in trials], ".1f"),
            f"{max(memory):.0f}" if memory else "-",
        )
    )


def _spread(values: Sequence[float], form: str) -> str:
    return f"{np.median(values):{form}}, {max(values):{form}}"


# ---------------------------------------------------------------- the command line


def size(text: str) -> tuple[int, int]:
    """Features and units, with a comma between."""
    features, units = map(int, text.split(","))
    return features, units


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(required=True, dest="part")
    first = parts.add_parser("conjecture", help="descents on exact populations")
    first.add_argument("--sizes", nargs="+", type=size, metavar="D,M", help="such as 5,5 20,10")
    first.add_argument("--networks", type=int, help="networks an ensemble")
    first.add_argument("--starts", type=int, help="starts a network")
    first.add_argument("--objectives", nargs="+", choices=COLUMNS, metavar="NAME")
    second = parts.add_parser("recovery", help="the public `recover` on samples")
    second.add_argument("--rows", nargs="+", choices=list(ROWS), metavar="ROW")
    second.add_argument("--seeds", type=int, help="seeds a row (default: as many as the row says)")
    second.add_argument("--budget", type=float, default=600.0, help="seconds for a recovery")
    second.add_argument("--list", action="store_true", help="list the rows and stop")
    for part, main in ((first, conjecture), (second, recovery)):
        part.set_defaults(main=main)
        part.add_argument("--quick", action="store_true", help="a minute or two: few and small")
        part.add_argument("--out", type=Path, help="write every run to this JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    args = arguments()
    args.main(args)
