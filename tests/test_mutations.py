"""Errors on purpose are noticed: a few of `benchmarks/mutations.py`, which has them all."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import mutations
from mutants import MUTATIONS, Mutation
from mutations import PACKAGE, ROOT, Verdict, chosen, home_of, outcome_of

FAST = [mutation for mutation in MUTATIONS if mutation.fast]
RIGHT = Mutation(
    "nothing changes but the order of a product",
    "scalars_from_coefficients",
    "(q - 2) * below",
    "below * (q - 2)",
    ("moments/test_decomposition.py::test_the_recurrence_gives_back_any_unit",),
)


@pytest.mark.parametrize("mutation", FAST, ids=lambda mutation: mutation.stage)
def test_an_error_on_purpose_is_noticed(mutation: Mutation) -> None:
    home = home_of(mutation)
    assert home is not None
    before = (PACKAGE / home).read_text()
    assert outcome_of(mutation).verdict is Verdict.KILLED
    assert (PACKAGE / home).read_text() == before


def test_what_is_no_error_survives_and_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutations, "MUTATIONS", (RIGHT,))
    assert mutations.main(["--jobs", "1"]) == 1
    shown = capsys.readouterr().out
    assert "survived" in shown and "0 of 1 mutations were killed" in shown


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.stage)
def test_mutations_are_up_to_date(mutation: Mutation) -> None:
    """Their text stands once in the function, and their tests are there."""
    assert home_of(mutation) is not None and mutation.new != mutation.old
    for test in mutation.tests:
        file, _, name = test.partition("::")
        text = (ROOT / "tests" / file).read_text()
        assert not name or f"def {name.partition('[')[0]}(" in text


def test_a_stale_mutation_is_said_to_be_stale() -> None:
    gone = Mutation("", RIGHT.function, "no such text", "", RIGHT.tests)
    assert outcome_of(gone).verdict is Verdict.STALE


def test_every_paper_has_its_mutations() -> None:
    """At least 40 in all, each of its own; those that run here are a handful."""
    papers = Counter(paper for m in MUTATIONS for paper in PAPERS if paper in m.stage)
    assert all(papers[paper] >= 15 for paper in PAPERS)
    assert len({(m.function, m.old, m.new) for m in MUTATIONS}) == len(MUTATIONS) >= 40
    assert len({m.stage for m in MUTATIONS}) == len(MUTATIONS)
    assert 4 <= len(FAST) <= 6
    assert chosen("BJW19 Algorithm 6") and not chosen("no such stage")


PAPERS = ("ATV21", "BJW19", "GLM17", "GP19")
