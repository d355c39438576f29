"""Every loop of a fit looks at the clock: a clock that ticks when it is looked at shows it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import provenet as pn
from provenet.estimators import deadlines, fit_halfspaces, fit_width
from provenet.estimators.penalised import Penalised
from provenet.networks.activations import RELU

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 4))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * RNG.standard_normal(400)
FIRED = np.sum(X**2, axis=1) > 4


class Ticking:
    """A clock that goes on by a second whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    ticking = Ticking()
    monkeypatch.setattr(deadlines, "working_time", ticking)
    return ticking


def counted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[int]:
    """How often a function is called, as a list that grows."""
    calls: list[int] = []
    original: Callable[..., object] = getattr(owner, name)

    def counting(*args: object, **options: object) -> object:
        calls.append(1)
        return original(*args, **options)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_a_width_is_fitted_until_the_deadline(
    clock: Ticking, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = counted(monkeypatch, Penalised, "minimise")
    found = fit_width.fit_width(X, Y, activation=RELU, rng=np.random.default_rng(0), deadline=50.0)
    # All in all it looks more than 1000 times. After the deadline there are: the five folds of the
    # width under way, and one fit of each width of the path and the last one, a look each.
    assert clock.now < 50.0 + 5 + len(fit_width.WIDTHS) + 5
    assert len(steps) < 40 and found.network.features == 4


def test_a_given_width_is_fitted_at_once_when_there_is_no_time(clock: Ticking) -> None:
    found = fit_width.fit_width(
        X, Y, activation=RELU, units=8, rng=np.random.default_rng(0), deadline=0.0
    )
    assert found.network.units == 8
    # Four widths of the path, on five folds and at last on all samples, and the last fit.
    assert clock.now < 4 * 5 + 4 + 10


def test_halfspaces_are_fitted_until_the_deadline(
    clock: Ticking, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = counted(monkeypatch, fit_halfspaces, "_fit")
    found = fit_halfspaces.fit_halfspaces(X, FIRED, rng=np.random.default_rng(0), deadline=30.0)
    # Five folds of the number under way, five of the other kind, and the last fit.
    assert clock.now < 30.0 + 5 + 5 + 5
    assert len(fits) < 30 and len(found.thresholds) >= 1


def test_without_a_deadline_more_is_tried(clock: Ticking, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the tests above would show nothing."""
    fits = counted(monkeypatch, fit_halfspaces, "_fit")
    fit_halfspaces.fit_halfspaces(X, FIRED, rng=np.random.default_rng(0))
    assert len(fits) > 30
    fit_width.fit_width(X, Y, activation=RELU, rng=np.random.default_rng(0))
    assert clock.now > 500


def test_a_fit_has_what_the_search_leaves_and_never_nothing(clock: Ticking) -> None:
    assert deadlines.fit_deadline(0.0, 60.0) == 60.0
    clock.now = 100.0
    assert deadlines.fit_deadline(0.0, 60.0) == 101.0 + deadlines.LEAST_SHARE_TO_FIT * 60.0


@pytest.mark.parametrize("budget", [0.01, 25.0])
def test_estimators_hand_their_budget_on(
    budget: float, clock: Ticking, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    budgets: list[float] = []

    def remembered(*args: object, deadline: float, **options: object) -> None:
        seen.append(deadline)
        raise RuntimeError("far enough")

    from provenet.estimators import classifier, regressor

    monkeypatch.setattr(regressor, "fit_width", remembered)
    monkeypatch.setattr(classifier, "fit_halfspaces", remembered)
    for module in (regressor, classifier):
        monkeypatch.setattr(module, "working_time", clock)
        failed = pn.Recovery(None, pn.Status.FAILED, "Not looked for.", "auto")
        monkeypatch.setattr(
            module,
            "recover",
            lambda *args, failed=failed, **options: budgets.append(options["budget"]) or failed,
        )
    for model, labels in (
        (pn.NetworkRegressor(budget=budget), Y),
        (pn.HalfspaceClassifier(budget=budget), FIRED),
    ):
        clock.now = 0.0
        with pytest.raises(RuntimeError, match="far enough"):
            model.fit(X, labels)
        assert seen.pop() == max(1.0 + budget, 2.0 + deadlines.LEAST_SHARE_TO_FIT * budget)
        assert budgets.pop() == deadlines.SEARCH_SHARE * budget
