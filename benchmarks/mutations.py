"""Break it on purpose: does some test fail when one step of an algorithm is wrong?

    python benchmarks/mutations.py                    # all of them, a few minutes
    python benchmarks/mutations.py --list
    python benchmarks/mutations.py --only "ATV21 Algorithm 2" --jobs 1

A mutation (`mutants`) is one small error in one stage: a reversed sign, a dropped step, a swapped
index, a constant as the paper misprints it (ERRATA). The package is copied to a temporary
directory, the copy is edited, and the tests named for the mutation run against it; the project's
own files stay as they are. It is *killed* if one of these tests fails, and *survives* if all pass:
then a test is missing. A mutation whose text no longer stands exactly once in its function, or
whose tests cannot be run, is *stale*, and must be written anew. First the named tests run on an
unchanged copy: a test that fails there proves nothing.

Leaves with 1 if one survives or is stale, else with 0.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mutants import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "provenet"
_SECONDS = 300.0
"""A mutation may also make a loop endless: that is noticed, too."""
_TESTS_PASSED, _TESTS_FAILED = 0, 1
"""pytest's exit codes; all others say that the tests could not be run."""
_PROCESSES = get_context("forkserver")
_PROCESSES.set_forkserver_preload(["pytest", "scipy.stats", "sklearn.decomposition"])
"""What every run needs of other packages is imported once: that takes longer than most tests."""


class Verdict(StrEnum):
    """What the tests said of a mutation."""

    KILLED = "killed"
    SURVIVED = "survived"
    STALE = "stale"


@dataclass(frozen=True)
class Outcome:
    """A mutation and what became of it."""

    mutation: Mutation
    verdict: Verdict
    why: str = ""


def home_of(mutation: Mutation) -> Path | None:
    """The one file in which the mutation's function holds its text, exactly once; else None."""
    homes = []
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text()
        if mutation.old not in text:
            continue
        own = text if mutation.function == "*" else _source_of(mutation.function, text)
        homes += [file.relative_to(PACKAGE)] * own.count(mutation.old)
    return homes[0] if len(homes) == 1 and _once(homes[0], mutation.old) else None


def _source_of(name: str, text: str) -> str:
    """The functions and classes of that name."""
    definitions = (ast.FunctionDef, ast.ClassDef)
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, definitions) and n.name == name]
    return "\n".join(ast.get_source_segment(text, node) or "" for node in nodes)


def _once(file: Path, text: str) -> bool:
    return (PACKAGE / file).read_text().count(text) == 1


@contextmanager
def copied_package(mutation: Mutation | None = None) -> Iterator[Path]:
    """A directory that holds a copy of the package, with the mutation in it."""
    with TemporaryDirectory(prefix="provenet-mutation-") as name:
        copy = Path(name) / "provenet"
        shutil.copytree(PACKAGE, copy)  # compiled files too: they serve for all that is unchanged
        if mutation is not None:
            home = home_of(mutation)
            assert home is not None
            file = copy / home
            file.write_text(file.read_text().replace(mutation.old, mutation.new))
        yield Path(name)


def run_tests(source: Path, tests: Sequence[str]) -> tuple[int | None, str]:
    """pytest's exit code on the package in `source`, None if it did not end, and its last words."""
    said = source / "said.txt"
    child = _PROCESSES.Process(target=_pytest_on, args=(str(source), tuple(tests), str(said)))
    child.start()
    child.join(_SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
        return None, f"no end after {_SECONDS:.0f} s"
    lines = said.read_text().strip().splitlines() if said.exists() else []
    return child.exitcode, lines[-1] if lines else ""


def _pytest_on(source: str, tests: tuple[str, ...], said: str) -> None:
    """In a process of its own: the tests with the package in `source`, output to a file."""
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = source
    sys.path.insert(0, source)
    file = os.open(said, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    plain = ("-x", "-q", "-n0", "-p", "no:cacheprovider", "--no-header", "--tb=line")
    sys.exit(pytest.main([*plain, *(f"tests/{test}" for test in tests)]))


def outcome_of(mutation: Mutation) -> Outcome:
    """Apply one mutation and run its tests."""
    if home_of(mutation) is None:
        return Outcome(mutation, Verdict.STALE, f"its text is not once in {mutation.function}")
    with copied_package(mutation) as source:
        code, words = run_tests(source, mutation.tests)
    if code in (_TESTS_FAILED, None):
        return Outcome(mutation, Verdict.KILLED)
    return Outcome(mutation, Verdict.SURVIVED if code == _TESTS_PASSED else Verdict.STALE, words)


def chosen(only: str) -> list[Mutation]:
    """The mutations whose stage or function holds a text."""
    return [m for m in MUTATIONS if only.lower() in f"{m.stage} {m.function}".lower()]


def report(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Print a line a mutation, as they come; return those that no test noticed."""
    bad = []
    for outcome in outcomes:
        print(f"{outcome.verdict:<9} {outcome.mutation.stage}", flush=True)
        if outcome.verdict is not Verdict.KILLED:
            bad.append(outcome)
            print(f"          {outcome.mutation.function}: {outcome.why}", flush=True)
    return bad


def sound_tests(mutations: Sequence[Mutation]) -> bool:
    """Whether all the tests that are named pass on an unchanged copy."""
    tests = sorted({test for mutation in mutations for test in mutation.tests})
    with copied_package() as source:
        code, words = run_tests(source, tests)
    if code != _TESTS_PASSED:
        print(f"The tests do not pass on the package as it is: {words}")
    return code == _TESTS_PASSED


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="stages or functions that hold this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="name the mutations and leave")
    options = parser.parse_args(arguments)
    mutations = chosen(options.only)
    if options.list:
        print("\n".join(f"{m.stage} ({m.function})" for m in mutations))
        return 0
    if not sound_tests(mutations):
        return 1
    with ThreadPoolExecutor(options.jobs) as pool:
        bad = report(pool.map(outcome_of, mutations))
    print(f"{len(mutations) - len(bad)} of {len(mutations)} mutations were killed.")
    return int(bool(bad) or not mutations)


if __name__ == "__main__":
    sys.exit(main())
