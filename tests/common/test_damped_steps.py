"""The loop of damped steps on problems whose minimum is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import least_squares

from provenet.common.damped_steps import Damping, damped_steps
from provenet.common.ended import Ended
from provenet.common.typing import Array


@dataclass(frozen=True)
class Rosenbrock:
    """Residuals `(10 (y - x^2), 1 - x)`: zero at (1, 1) at the end of a bent valley."""

    x: Array
    value: float = np.inf
    forecast: float = 1.0
    """By how much a forecast of the value is off."""

    def residuals(self) -> Array:
        return np.array([10 * (self.x[1] - self.x[0] ** 2), 1 - self.x[0]])

    def arrived(self) -> Rosenbrock:
        return replace(self, value=float(np.sum(self.residuals() ** 2)))

    def attempt(self, damping: float) -> Rosenbrock | None:
        J = np.array([[-20 * self.x[0], 10.0], [-1.0, 0.0]])
        H = J.T @ J
        H[np.diag_indices(2)] *= 1 + damping
        moved = replace(self, x=self.x - np.linalg.solve(H, J.T @ self.residuals())).arrived()
        return replace(moved, value=self.forecast * moved.value)


START = Rosenbrock(np.array([-1.2, 1.0]))


def at_zero(before: float, point: Rosenbrock) -> Ended | None:
    return Ended.ZERO if point.value < 1e-24 else None


def test_it_goes_round_the_bend() -> None:
    found = damped_steps(START, at_zero, 100)
    rival = least_squares(lambda x: Rosenbrock(x).residuals(), START.x, method="lm")
    assert found.ended is Ended.ZERO and found.steps < 100
    np.testing.assert_allclose(found.point.x, rival.x, rtol=0, atol=1e-10)


def test_every_step_lowers_the_value() -> None:
    values = []

    def watched(before: float, point: Rosenbrock) -> Ended | None:
        assert point.value < before
        values.append(point.value)
        return at_zero(before, point)

    found = damped_steps(START, watched, 100)
    assert len(values) == found.steps + 1


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_steps_that_run_out_are_told(steps: int) -> None:
    found = damped_steps(START, at_zero, steps)
    assert found.ended is Ended.OUT_OF_STEPS and found.steps == steps
    assert found.point.value == pytest.approx(np.sum(found.point.residuals() ** 2))


def test_at_a_minimum_no_step_is_found() -> None:
    found = damped_steps(Rosenbrock(np.ones(2)), lambda before, point: None, 10)
    assert found.ended is Ended.STUCK and found.steps == 0


def test_forecasts_that_do_not_come_true_are_not_taken() -> None:
    """The first step leads far across the valley: only what is lower on arrival is kept."""
    misled = replace(START, forecast=-1.0)
    found = damped_steps(misled, lambda before, point: None, 100, Damping(first=1e-9))
    assert found.ended is Ended.STUCK and found.steps == 0
    np.testing.assert_array_equal(found.point.x, START.x)


def test_without_any_step_it_is_stuck_where_it_began() -> None:
    class Nowhere(Rosenbrock):
        def attempt(self, damping: float) -> Rosenbrock | None:
            return None

    found = damped_steps(Nowhere(START.x), at_zero, 5, Damping(attempts=2))
    assert found.ended is Ended.STUCK and found.steps == 0
