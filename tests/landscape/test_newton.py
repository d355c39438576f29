"""The deterministic second-order method on functions whose minima are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import provenet as pn
from helpers import direction_error
from provenet.common.typing import Array
from provenet.landscape.newton import Descent, minimise
from provenet.landscape.objective import Objective
from provenet.landscape.objectives import objective


class Quadratic(Objective):
    """`|Q^(1/2) (b - c)|^2 / 2` for every row."""

    def __init__(self, Q: Array, centre: Array) -> None:
        self.Q, self.centre = Q, centre
        self.units, self.features = centre.shape

    def value(self, B: Array) -> float:
        return float(np.sum((B - self.centre) @ self.Q * (B - self.centre)) / 2)

    def gradient(self, B: Array) -> Array:
        return (B - self.centre) @ self.Q

    def hessian_product(self, B: Array, V: Array) -> Array:
        return V @ self.Q


class Separable(Objective):
    """The sum of a function of every entry."""

    def __init__(self, f: Callable[[Array], Array], *derivatives: Callable[[Array], Array]) -> None:
        self.f, (self.first, self.second) = f, derivatives
        self.units, self.features = 2, 3

    def value(self, B: Array) -> float:
        return float(np.sum(self.f(B)))

    def gradient(self, B: Array) -> Array:
        return np.asarray(self.first(B))

    def hessian_product(self, B: Array, V: Array) -> Array:
        return np.asarray(self.second(B) * V)


class RayleighQuotient(Objective):
    """`sum_j b_j^T A b_j` on unit rows: each at its smallest eigenvector."""

    unit_rows = True

    def __init__(self, A: Array, units: int) -> None:
        self.A, self.units, self.features = A, units, len(A)

    def value(self, B: Array) -> float:
        return float(np.sum(B @ self.A * B))

    def gradient(self, B: Array) -> Array:
        return 2 * B @ self.A

    def hessian_product(self, B: Array, V: Array) -> Array:
        return 2 * V @ self.A


WELL = Separable(lambda x: (x**2 - 1) ** 2, lambda x: 4 * x * (x**2 - 1), lambda x: 12 * x**2 - 4)
"""A minimum at every matrix of +-1, a saddle wherever some entries are 0."""


def assert_never_rises(descent: Descent) -> None:
    """But for the last digits of the value."""
    values = np.array([step.value for step in descent.path])
    assert np.all(np.diff(values) <= 1e-14 * np.maximum(np.abs(values[1:]), 1))


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_a_quadratic(condition: float) -> None:
    rng = np.random.default_rng([0, 1])
    U = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    centre = rng.standard_normal((3, 5))
    f = Quadratic(U * np.geomspace(1, condition, 5) @ U.T, centre)
    found = minimise(f, 10 * rng.standard_normal((3, 5)), slope=1e-9, curvature=1e-9)
    assert found.converged and found.saddles == 0
    # The slope over the smallest eigenvalue, 1.
    np.testing.assert_allclose(found.B, centre, rtol=0, atol=1e-9)
    assert_never_rises(found)


def test_a_start_at_a_maximum_is_left() -> None:
    found = minimise(WELL, np.zeros((2, 3)), slope=1e-10, curvature=1e-6)
    assert found.converged and found.saddles >= 1
    np.testing.assert_allclose(np.abs(found.B), 1.0, rtol=0, atol=1e-10)
    assert_never_rises(found)


@pytest.mark.parametrize("zeros", [1, 3, 5])
def test_a_start_exactly_at_a_saddle_is_left(zeros: int) -> None:
    """Gradient 0 there: only the curvature leads away."""
    start = np.ones(6)
    start[:zeros] = 0.0
    found = minimise(WELL, start.reshape(2, 3), slope=1e-10, curvature=1e-6)
    assert found.path[0].slope == 0.0 and found.path[0].kind == "start"
    assert found.path[1].kind == "saddle" and found.saddles >= 1
    assert found.converged and found.path[-1].value == pytest.approx(0.0, abs=1e-20)
    np.testing.assert_allclose(np.abs(found.B), 1.0, rtol=0, atol=1e-10)


def test_a_saddle_of_less_curvature_than_is_allowed_is_an_end() -> None:
    """The eigenvalues at 0 are -4."""
    allowed, not_allowed = (
        minimise(WELL, np.zeros((2, 3)), slope=1e-10, curvature=c) for c in (4.1, 3.9)
    )
    assert allowed.converged and not allowed.B.any()
    assert not_allowed.converged and not_allowed.B.all()


def test_a_flat_quartic_is_followed_to_the_slope_that_is_asked() -> None:
    """`x^4` has no curvature at its minimum: steps shrink by two thirds only."""
    f = Separable(lambda x: x**4, lambda x: 4 * x**3, lambda x: 12 * x**2)
    found = minimise(f, np.full((2, 3), 2.0), slope=1e-6, curvature=1e-9)
    assert found.converged and found.path[-1].slope <= 1e-6
    assert np.abs(found.B).max() < 1e-2  # 4 |x|^3 sqrt(6) <= 1e-6
    assert_never_rises(found)


@pytest.mark.parametrize("start", [1.5, 4.0, 50.0])
def test_a_step_that_leads_up_is_not_taken(start: float) -> None:
    """`sqrt(1 + x^2)`: from |x| > 1 on, Newton's own step goes to `-x^3` and ever further."""
    f = Separable(
        lambda x: np.sqrt(1 + x**2), lambda x: x / np.sqrt(1 + x**2), lambda x: (1 + x**2) ** -1.5
    )
    found = minimise(f, start * np.arange(1.0, 7.0).reshape(2, 3), slope=1e-9, curvature=1e-9)
    assert found.converged
    np.testing.assert_allclose(found.B, 0.0, rtol=0, atol=1e-8)
    assert_never_rises(found)
    values = [step.value for step in found.path]
    assert len(set(values)) < len(values)  # some were refused


def test_a_descent_past_a_quartic_saddle() -> None:
    """`x^4 / 4 - x^2 / 2` in the first column, started exactly on its ridge line x = 0."""

    def first(B: Array) -> Array:
        return np.concatenate([B[:, :1] ** 3 - B[:, :1], B[:, 1:]], axis=1)

    def second(B: Array) -> Array:
        return np.concatenate([3 * B[:, :1] ** 2 - 1, np.ones_like(B[:, 1:])], axis=1)

    def value(B: Array) -> Array:
        x, rest = B[:, :1], B[:, 1:]
        return np.concatenate([x**4 / 4 - x**2 / 2, rest**2 / 2], axis=1)

    start = np.array([[0.0, 3.0, -2.0], [0.0, 1.0, 5.0]])
    found = minimise(Separable(value, first, second), start, slope=1e-10, curvature=1e-8)
    assert found.converged and found.saddles >= 1
    np.testing.assert_allclose(np.abs(found.B), [[1, 0, 0]] * 2, rtol=0, atol=1e-9)


@pytest.mark.parametrize("start", ["random", "largest", "middle"])
def test_rows_on_spheres_find_the_smallest_eigenvector(start: str) -> None:
    """Every other eigenvector is a saddle."""
    rng = np.random.default_rng([0, 2])
    U = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    f = RayleighQuotient(U * [-1.0, 0.5, 1.0, 2.0, 3.0, 9.0] @ U.T, units=2)
    first = {
        "random": rng.standard_normal((2, 6)),
        "largest": U[:, [5, 5]].T,
        "middle": 7 * U[:, [2, 3]].T,
    }[start]
    found = minimise(f, first, slope=1e-9, curvature=1e-6)
    assert found.converged
    np.testing.assert_allclose(np.linalg.norm(found.B, axis=1), 1.0, rtol=0, atol=1e-14)
    # The slope over the gap, 2 (0.5 + 1) = 3.
    np.testing.assert_allclose(np.abs(found.B @ U[:, 0]), 1.0, rtol=0, atol=1e-12)
    assert found.path[-1].value == pytest.approx(-2.0, abs=1e-12)
    assert (found.saddles > 0) == (start != "random")
    assert_never_rises(found)


def test_the_path_is_watched_and_told() -> None:
    seen: list[Array] = []
    found = minimise(
        WELL,
        np.full((2, 3), 0.3),
        slope=1e-10,
        curvature=1e-6,
        watch=lambda B: seen.append(B.copy()),
    )
    assert len(seen) == len(found.path) == found.steps + 1 > 3
    np.testing.assert_array_equal(seen[-1], found.B)
    for B, step in zip(seen, found.path, strict=True):
        assert step.value == WELL.value(B)
        assert step.slope == pytest.approx(np.linalg.norm(WELL.gradient(B)), rel=1e-12)
        assert step.samples == 0
    assert [step.kind for step in found.path] == ["start"] + ["newton"] * (len(seen) - 1)


@pytest.mark.parametrize("iterations", [1, 2, 4])
def test_running_out_of_iterations_is_no_convergence(iterations: int) -> None:
    start = np.full((2, 3), 30.0)
    found = minimise(WELL, start, slope=1e-10, curvature=1e-6, iterations=iterations)
    assert not found.converged
    assert len(found.path) == iterations
    assert WELL.value(found.B) <= found.path[0].value  # and what was reached is kept


def test_running_out_of_time_is_no_convergence() -> None:
    start = np.full((2, 3), 30.0)
    found = minimise(WELL, start, slope=1e-10, curvature=1e-6, deadline=-np.inf)
    assert not found.converged and len(found.path) == 1
    np.testing.assert_array_equal(found.B, start)


def test_a_saddle_that_cannot_be_left_is_no_convergence() -> None:
    """A drop of 1e-11 beside a value of 1e8 is lost in its last digit: that is not a minimum."""

    def value(B: Array) -> Array:
        return np.where(np.arange(6).reshape(2, 3) == 0, 1e8, 0.0) - 1e-5 * B**2 / 2 + B**4

    f = Separable(value, lambda x: -1e-5 * x + 4 * x**3, lambda x: -1e-5 + 12 * x**2)
    found = minimise(f, np.zeros((2, 3)), slope=1e-9, curvature=1e-6)
    assert not found.converged


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_scale_of_the_function_does_not_matter(scale: float) -> None:
    """Here a start of value 1: nothing is measured against the number 1."""
    f = Separable(
        lambda x: scale * (x**2 - 1) ** 2,
        lambda x: scale * 4 * x * (x**2 - 1),
        lambda x: scale * (12 * x**2 - 4),
    )
    start = np.array([[0.1, -0.2, 0.0], [0.3, 0.0, -0.1]])
    found = minimise(f, start, slope=1e-10 * scale, curvature=1e-6 * scale)
    assert found.converged
    np.testing.assert_allclose(np.abs(found.B), 1.0, rtol=0, atol=1e-9)


def test_a_slope_below_rounding_ends_where_it_is_smallest() -> None:
    """No slope of exactly 0 is met, yet the descent comes to rest, soon and at the minimum."""
    centre = np.random.default_rng([0, 3]).standard_normal((3, 4))
    f = Quadratic(np.diag([1.0, 2.0, 3.0, 4.0]) / 7, centre)
    found = minimise(f, np.zeros((3, 4)), slope=0.0, curvature=1e-9)
    assert found.converged and len(found.path) < 60
    np.testing.assert_allclose(found.B, centre, rtol=0, atol=1e-7)


@pytest.mark.parametrize("units", [3, 8])
def test_G_from_the_worst_start(units: int) -> None:
    """B = 0: a maximum of the penalty, where all rows are alike; below and above 40 parameters."""
    rng = np.random.default_rng([0, 4])
    Q = np.linalg.qr(rng.standard_normal((units, units)))[0]
    truth = pn.Network(Q, output_weights=rng.uniform(0.5, 1.5, units))
    G = objective("G", truth)
    assert G.theorem is not None
    found = minimise(
        G, np.zeros((units, units)), slope=G.theorem.slope, curvature=G.theorem.curvature
    )
    assert found.converged and found.saddles >= 1
    rows = found.B / np.linalg.norm(found.B, axis=1, keepdims=True)
    assert direction_error(rows, Q) < 1e-8
