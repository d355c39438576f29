"""Is a success right? Families of problems chosen to mislead, and what became of each.

    python benchmarks/honesty.py --problems 10000 --jobs 2 --out honesty.jsonl --write
    python benchmarks/honesty.py --family integers floored --problems 40
    python benchmarks/honesty.py --family integers --seed 17 --problems 1 --verbose

A family (`honesty_families`) gives a problem for every seed; what counts as wrong is told in
`honesty_families/scoring.py`. `--out` keeps every outcome as it comes, one a line: a run that was
stopped goes on from there. `--write` puts the table into docs/honesty.md.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path

import provenet as pn
from common import machine, markdown_head, markdown_row
from honesty_families import FAMILIES
from honesty_families.scoring import Score, scored
from provenet.data.passes import one_blas_thread
from trials import report

DOCS = Path(__file__).parent.parent / "docs" / "honesty.md"
BEGIN, END = "<!-- table: written by benchmarks/honesty.py --write -->", "<!-- end of table -->"
TITLES = (
    "family",
    "what is unusual",
    "runs",
    "exact",
    "within noise",
    "partial",
    "failed",
    "crashed",
    "wrong",
    "undecided",
    "needless failures",
    "s beyond budget",
    "coverage",
)
CRASHED = "crashed"
SHUTTERS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What limits a new process to one thread of BLAS."""


@dataclass(frozen=True)
class Verdict:
    """What became of one problem."""

    family: str
    seed: int
    status: str
    """Of the result, or "crashed"."""
    message: str
    seconds: float
    beyond: float
    """Seconds beyond the budget."""
    expected: bool = False
    wrong: str = ""
    undecided: str = ""
    covered: int = 0
    intervals: int = 0

    @property
    def success(self) -> bool:
        """Whether it was called one."""
        return self.status in (pn.Status.EXACT, pn.Status.WITHIN_NOISE)

    @property
    def needless(self) -> bool:
        """Whether a success was due and did not come."""
        return self.expected and not self.success

    def __str__(self) -> str:
        """One line, for whoever watches."""
        flags = f"  WRONG: {self.wrong}" if self.wrong else ""
        flags += f"  undecided: {self.undecided}" if self.undecided else ""
        flags += "  needless failure" if self.needless else ""
        return f"{self.family} seed {self.seed}: {self.status}, {self.seconds:.2f} s{flags}"


# ---------------------------------------------------------------- one problem


def verdict(name: str, seed: int, verbose: bool = False) -> Verdict:
    """Run the problem of a seed, and compare what was said with what is true."""
    case = FAMILIES[name].case(seed)
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")
            result = case.ask()
    except pn.InvalidInput as refusal:
        result = pn.Recovery.nothing("none", f"Refused: {refusal}")
    except Exception as error:  # the worst manners, counted
        message = traceback.format_exc() if verbose else f"{type(error).__name__}: {error}"
        return Verdict(name, seed, CRASHED, message, time.perf_counter() - begin, 0.0)
    seconds = time.perf_counter() - begin
    if verbose:
        report(str(result))
    score: Score = scored(case, result)
    return Verdict(
        name,
        seed,
        str(result.status),
        result.message,
        seconds,
        max(0.0, seconds - case.budget),
        case.expected,
        **asdict(score),
    )


# ---------------------------------------------------------------- many


def planned(names: Iterable[str], problems: int, seed: int) -> list[tuple[str, int]]:
    """Families and seeds of a run: each family by its weight, at least one problem."""
    weights = {name: FAMILIES[name].weight for name in names}
    total = sum(weights.values())
    return [
        (name, seed + i)
        for name, weight in weights.items()
        for i in range(max(1, round(problems * weight / total)))
    ]


def run(plan: Sequence[tuple[str, int]], jobs: int, out: Path | None) -> list[Verdict]:
    """All problems of a plan, but those that are in `out` already."""
    done = {(v.family, v.seed): v for v in read(out)} if out else {}
    left = [task for task in plan if task not in done]
    for one in verdicts(left, jobs):
        done[one.family, one.seed] = one
        if out:
            with out.open("a") as file:
                file.write("\n" + json.dumps(asdict(one)))
        report(f"{len(done)} of {len(plan)}: {one}")
    return [done[task] for task in plan]


def verdicts(plan: Sequence[tuple[str, int]], jobs: int) -> Iterator[Verdict]:
    """In processes of one BLAS thread each, in the order in which they end."""
    os.environ.update(dict.fromkeys(SHUTTERS, "1"))
    if jobs == 1:
        yield from (verdict(*task) for task in plan)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed(pool.submit(verdict, *task) for task in plan):
            yield future.result()


def read(path: Path) -> Iterator[Verdict]:
    """The outcomes kept in a file; a line that was cut off is left out."""
    if not path.exists():
        return
    for line in path.read_text().splitlines():
        try:
            yield Verdict(**json.loads(line))
        except json.JSONDecodeError:
            continue


# ---------------------------------------------------------------- the table


def table(outcomes: Sequence[Verdict]) -> str:
    """One row a family, and one of all."""
    rows = [markdown_head(TITLES)]
    for name, family in FAMILIES.items():
        own = [v for v in outcomes if v.family == name]
        if own:
            rows.append(markdown_row((name, family.what, *_cells(own))))
    rows.append(markdown_row(("**all**", "", *_cells(outcomes))))
    return "\n".join(rows)


def _cells(outcomes: Sequence[Verdict]) -> Iterator[object]:
    status = Counter(v.status for v in outcomes)
    yield len(outcomes)
    yield from (status[str(s)] for s in pn.Status)
    yield status[CRASHED]
    yield sum(bool(v.wrong) for v in outcomes)
    yield sum(bool(v.undecided) for v in outcomes)
    expected = sum(v.expected for v in outcomes)
    yield f"{sum(v.needless for v in outcomes)} of {expected}" if expected else "-"
    yield f"{max(v.beyond for v in outcomes):.1f}"
    intervals = sum(v.intervals for v in outcomes)
    yield f"{sum(v.covered for v in outcomes) / intervals:.1%}" if intervals else "-"


def faults(outcomes: Iterable[Verdict]) -> Iterator[str]:
    """Each wrong success and each crash, with what runs it again."""
    for v in outcomes:
        if v.wrong or v.status == CRASHED:
            why = v.wrong or v.message.splitlines()[-1]
            yield f"- {v.family}, seed {v.seed}: {v.status}; {why}"


def as_markdown(outcomes: Sequence[Verdict], seed: int) -> str:
    """The table with its date, seeds and surroundings, and the list of faults."""
    where = ", ".join(f"{name} {value}" for name, value in machine().items())
    listed = list(faults(outcomes))
    return "\n".join(
        (
            f"{len(outcomes):,} problems of {len({v.family for v in outcomes})} families, seeds "
            f"from {seed} on, {date.today().isoformat()}; {where}.",
            "",
            table(outcomes),
            "",
            "Wrong successes and crashes:" if listed else "No wrong success and no crash.",
            *(["", *listed] if listed else []),
        )
    )


def write(text: str, page: Path = DOCS) -> None:
    """Put the table between the markers of the page."""
    old = page.read_text()
    head, tail = old.partition(BEGIN)[0], old.partition(END)[2]
    page.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}")


# ---------------------------------------------------------------- the command line


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--problems", type=int, default=1000, help="in all, by families' weights")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--family", nargs="+", choices=list(FAMILIES), metavar="NAME")
    parser.add_argument("--seed", type=int, default=0, help="the first of each family")
    parser.add_argument("--out", type=Path, help="keep outcomes here, and go on from it")
    parser.add_argument("--write", action="store_true", help="put the table into docs/honesty.md")
    parser.add_argument("--verbose", action="store_true", help="print every result, in one process")
    parser.add_argument("--list", action="store_true", help="list the families and stop")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.list:
        for family in FAMILIES.values():
            print(f"{family.name:28} weight {family.weight:<4} {family.what}")
        return
    plan = planned(args.family or FAMILIES, args.problems, args.seed)
    if args.verbose:
        outcomes = [verdict(*task, verbose=True) for task in plan]
        report("\n".join(f"{one}\n{one.message}" for one in outcomes))
    else:
        outcomes = run(plan, args.jobs, args.out)
    text = as_markdown(outcomes, args.seed)
    print(text)
    if args.write:
        write(text)


if __name__ == "__main__":
    main()
