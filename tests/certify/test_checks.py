"""The judge: the worst that a failed check leaves is the status, its advice the message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenet.certify.checks import Check, Claim, Status, asked, judge
from provenet.certify.result import Recovery

STATUSES = list(Status)


def check(holds: bool, otherwise: Status = Status.FAILED, name: str = "it is so") -> Check:
    return Check(name, holds, 1.0, "2", f"{name} is not so.", otherwise)


def test_nothing_failed() -> None:
    assert judge([check(True), check(True, Status.PARTIAL)], Status.EXACT, "fine") == (
        Status.EXACT,
        "fine",
    )


def test_the_worst_decides_and_the_first_of_the_worst_speaks() -> None:
    checks = [
        check(False, Status.PARTIAL, "a"),
        check(False, Status.FAILED, "b"),
        check(True, Status.FAILED, "c"),
        check(False, Status.FAILED, "d"),
    ]
    assert judge(checks, Status.EXACT, "") == (Status.FAILED, "b is not so.")
    assert judge(checks[:1], Status.EXACT, "") == (Status.PARTIAL, "a is not so.")


def test_a_check_may_leave_the_best_as_it_is() -> None:
    mild = check(False, Status.WITHIN_NOISE)
    assert judge([mild], Status.WITHIN_NOISE, "fine") == (Status.WITHIN_NOISE, "fine")
    assert judge([mild], Status.EXACT, "fine")[0] is Status.WITHIN_NOISE


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(STATUSES)), max_size=6),
    st.sampled_from(STATUSES),
)
def test_no_status_is_better_than_any_failed_check_allows(checks, best) -> None:
    made = [check(holds, otherwise) for holds, otherwise in checks]
    status, _ = judge(made, best, "")
    assert status.rank <= best.rank
    assert all(status.rank <= c.otherwise.rank for c in made if not c.holds)
    assert status is best or any(not c.holds and c.otherwise is status for c in made)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(STATUSES)), max_size=6))
def test_what_comes_after_a_failure_is_not_asked_and_changes_nothing(checks) -> None:
    made = [check(holds, otherwise) for holds, otherwise in checks]
    kept = asked(made)
    assert kept == tuple(made[: len(kept)])
    assert judge(kept, Status.EXACT, "")[0] is judge(made, Status.EXACT, "")[0]


def test_questions_stop_at_the_first_that_leaves_nothing() -> None:
    def questions():
        yield check(False, Status.PARTIAL)
        yield check(False)
        raise AssertionError("asked on")

    assert len(asked(questions())) == 2


def test_a_check_on_no_sample_has_failed() -> None:
    empty = Check("labels are predicted", True, 0.0, "0", samples=0)
    assert not empty.holds and "no sample" in empty.advice
    assert Check("labels are predicted", True, 0.0, "0", samples=1).holds


@pytest.mark.parametrize(
    ("measured", "shown"), [("two", "two"), (1234567, "1,234,567"), (1.23456e-9, "1.23e-09")]
)
def test_figures(measured, shown) -> None:
    assert Check("", True, measured, "").figure == shown


def test_a_recovery_is_what_its_checks_say() -> None:
    found = Recovery.judged(None, [check(True)], Status.EXACT, "fine", method="m")
    assert found.success and found.message == "fine" and found.claim is Claim.NETWORK
    worse = found.with_checks(check(True), check(False, Status.PARTIAL, "b"))
    assert worse.status is Status.PARTIAL and worse.message == "b is not so."
    assert len(worse.checks) == 3 and not worse.success
    stopped = worse.stopped_by("No more.")
    assert stopped.status is Status.FAILED and stopped.message == "No more."
    assert not stopped.checks[0].holds


def test_nothing_found_is_a_failed_check() -> None:
    nothing = Recovery.nothing("m", "No luck.")
    assert nothing.status is Status.FAILED and nothing.network is None
    assert nothing.message == "No luck." and not nothing.checks[0].holds
    assert "nothing was found by m" in str(nothing)
