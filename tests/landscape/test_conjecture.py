"""Where descents on exact populations end (GLM17, sections 2.1, 3.2 and 7): small, fixed seeds.

`benchmarks/landscape.py conjecture` does the same at length. Over 50 seeds G, F, F with its l2
term, f2f4 and abs went to the truth of these small networks from all 250 starts each, at most 1e-15
off; l2 had bad minima with 44 of the 50 seeds and P' with 32.
"""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.landscape import Objective, SecondOrder, minimise, objective, second_order
from provenet.landscape.second_order import smallest_eigenvalue

STARTS = 5
NEAR = 1e-6
"""Largest `1 - |cos|` at the truth: descents end within 1e-10 of a minimum or far from it."""
CLEARLY = 1e-3
"""A bad minimum's smallest eigenvalue and its value above the truth's; rounding is 1e-13."""


def orthogonal(seed: int, units: int, ratio: float) -> pn.Network:
    Q = np.linalg.qr(np.random.default_rng([seed, 1]).standard_normal((units, units)))[0]
    return pn.Network(Q, output_weights=np.geomspace(1.0, ratio, units))


def independent(seed: int, units: int, features: int, ratio: float) -> pn.Network:
    """Singular values between 1 and 2 before rows are scaled to norm 1."""
    rng = np.random.default_rng([seed, 1])
    U, _, V = np.linalg.svd(rng.standard_normal((units, features)), full_matrices=False)
    W = (U * np.geomspace(2.0, 1.0, units)) @ V
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return pn.Network(W, output_weights=np.geomspace(1.0, ratio, units))


def general(seed: int, units: int, features: int) -> pn.Network:
    W = np.random.default_rng([seed, 1]).standard_normal((units, features))
    return pn.Network(W / np.linalg.norm(W, axis=1, keepdims=True))


def ends(function: Objective, seed: int, starts: int = STARTS) -> list[Array]:
    """Where the second-order method ends, from random rows of norm 1."""
    theorem = function.theorem
    slope, curvature = (1e-9, 1e-9) if theorem is None else (theorem.slope, theorem.curvature)
    points = []
    for start in range(starts):
        rng = np.random.default_rng([seed, 2, start])
        B = rng.standard_normal((function.units, function.features))
        B /= np.linalg.norm(B, axis=1, keepdims=True)
        points.append(minimise(function, B, slope=slope, curvature=curvature).B)
    return points


def distance(rows: Array, truth: pn.Network) -> float:
    """Largest `1 - |cos|` between a unit of either and the nearest of the other."""
    cosines = np.abs(rows @ truth.weights.T) / np.linalg.norm(rows, axis=1, keepdims=True)
    return float(1 - min(cosines.max(axis=0).min(), cosines.max(axis=1).min()))


def bad_minima(function: Objective, points: list[Array], truth: pn.Network) -> list[SecondOrder]:
    """The second-order condition of those points that are not at the truth."""
    return [second_order(function, B) for B in points if distance(B, truth) > NEAR]


# ---------------------------------------------------------------- no bad minima


def test_every_descent_on_G_ends_at_the_truth() -> None:
    truth = orthogonal(0, 5, ratio=3.0)
    assert all(distance(B, truth) <= NEAR for B in ends(objective("G", truth), seed=0))


@pytest.mark.parametrize(("name", "features"), [("F", 5), ("F-undercomplete", 8)])
def test_every_descent_on_F_ends_at_the_inverse_of_the_truth(name: str, features: int) -> None:
    truth = independent(0, 5, features, ratio=3.0)
    points = ends(objective(name, truth), seed=0)
    assert all(distance(np.linalg.pinv(B).T, truth) <= NEAR for B in points)


@pytest.mark.parametrize("name", ["f2f4", "abs"])
def test_losses_of_even_orders_end_at_the_truth_where_no_more_units_than_features(
    name: str,
) -> None:
    truth = independent(0, 5, 5, ratio=3.0)
    assert all(distance(B, truth) <= NEAR for B in ends(objective(name, truth), seed=0))


# ---------------------------------------------------------------- bad minima


def test_the_plain_loss_has_bad_minima_even_for_orthogonal_units_of_equal_weight() -> None:
    truth = orthogonal(8, 10, ratio=1.0)
    function = objective("l2", truth)
    bad = bad_minima(function, ends(function, seed=8), truth)
    assert bad
    for found in bad:
        assert found.is_minimum
        assert found.lowest > CLEARLY
        assert found.value > CLEARLY  # the truth has loss 0


def test_interference_alone_has_bad_minima_where_output_weights_differ() -> None:
    truth = orthogonal(33, 10, ratio=10.0)
    function = objective("P'", truth)
    bad = bad_minima(function, ends(function, seed=33), truth)
    assert bad
    for found in bad:
        assert found.is_minimum
        # Two rows share the weakest unit, a = 1, as in appendix D; the truth has 0.
        assert found.value == pytest.approx(2.0)


def test_f2f4_has_a_bad_minimum_for_three_independent_units() -> None:
    """A counterexample to the conjecture of section 7: the truth is in general position.

    The minimum is strict, so nearby networks have one too.
    """
    W = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [10.0, 10.0, 1.0]])
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    truth = pn.Network(W, output_weights=[1.0, 1.0, 4.0])
    near = [[0.60, 0.60, -0.52], [0.93, 0.37, 0.05], [0.37, 0.93, 0.05]]
    function = objective("f2f4", truth)
    B = minimise(function, np.array(near), slope=1e-12, curvature=1e-12).B
    check_strict_minimum(function, B, truth)


def test_f2f4_has_a_bad_minimum_of_positive_weights_where_units_outnumber_features() -> None:
    truth = general(0, units=8, features=5)
    function = objective("f2f4", truth)
    (B,) = ends(function, seed=0, starts=1)
    check_strict_minimum(function, B, truth)
    assert np.all(function.output_weights_at(B) > 0)  # type: ignore[attr-defined]


def check_strict_minimum(function: Objective, B: Array, truth: pn.Network) -> None:
    """A bad minimum of f2f4, by its Hessian and by the tensors themselves."""

    def loss(B: Array) -> float:
        a = function.output_weights_at(B)  # type: ignore[attr-defined]
        return tensor_loss(a, B, truth)

    found = second_order(function, B)
    assert distance(B, truth) > 0.05
    assert found.is_minimum
    assert found.lowest > 1e-5
    # The objective has a ridge of 1e-12 on a; the truth has loss 0.
    assert loss(B) == pytest.approx(found.value - function.value(truth.weights), abs=1e-11)
    assert loss(B) > 1e-5
    # Up on both sides of the softest direction, by half its eigenvalue times the square.
    lowest, V = smallest_eigenvalue(function, B)
    for step in (-0.02, 0.02):
        rise = loss(function.retract(B + step * V)) - loss(B)
        assert rise == pytest.approx(lowest * step**2 / 2, rel=0.15)  # third order: 7 per cent


def tensor_loss(a: Array, B: Array, truth: pn.Network) -> float:
    """`sigma_2^2 f_2 + sigma_4^2 f_4`, for ReLU `(f_2 / 2 + f_4 / 24) / (2 pi)`, from (2.4)."""

    def tensor(order: int, weights: Array, rows: Array) -> Array:
        letters = "abcd"[:order]
        terms = ",".join("m" + letter for letter in letters)
        return np.asarray(np.einsum(f"m,{terms}->{letters}", weights, *[rows] * order))

    total = 0.0
    for order, factor in ((2, 2), (4, 24)):
        difference = tensor(order, a, B)
        difference -= tensor(order, truth.output_weights, truth.weights)
        total += float(np.sum(difference**2)) / factor / (2 * np.pi)
    return total
