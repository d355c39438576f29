"""A bad local minimum of P' (GLM17, appendix D): the spectrum, the arc, and the way out by G."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import provenet as pn
from helpers import direction_error, is_a_sentence
from provenet.common.typing import Array
from provenet.landscape import Objective, minimise, objective, second_order

DELTAS = [0.05, 0.5, 2.0]
ACROSS = np.array([0.0, 0.0, 0.0, 1.0])[:, None] * np.array([0.0, 0.0, 1.0, -1.0]) / np.sqrt(2)
"""The direction in which b_4 turns in the plane of e_3 and e_4."""


def the_network(a: Any) -> pn.Network:
    return pn.Network(np.eye(len(a)), output_weights=a)


def interference(network: pn.Network, B: Array) -> float:
    """P' by its definition, one pair of rows at a time."""
    loads = (B @ network.weights.T) ** 2
    rows = range(len(B))
    return float(
        sum(network.output_weights @ (loads[j] * loads[k]) for j in rows for k in rows if j != k)
    )


def turned(B: Array, angle: float) -> Array:
    """B with b_4 at this angle from e_3, towards e_4."""
    C = B.copy()
    C[3, 2:] = np.cos(angle), np.sin(angle)
    return C


def hessian(f: Objective, B: Array) -> Array:
    """Along the spheres, in an orthonormal basis of their tangents: (12, 12) for four rows."""
    tangents = np.array([f.tangent(B, E.reshape(B.shape)).ravel() for E in np.eye(B.size)])
    u, s, _ = np.linalg.svd(tangents)
    basis, g = u[:, s > 0.5].T, f.gradient(B)
    H = basis @ np.array([f.curvature(B, V.reshape(B.shape), g).ravel() for V in basis]).T
    np.testing.assert_allclose(H, H.T, rtol=0, atol=1e-12)  # products of entries up to 20
    return H


def rescaled(f: Objective, r: float, B: Array) -> Array:
    """B with the norms of rows at which G has no slope, from its derivative along each row."""
    c = f.constants  # type: ignore[attr-defined]
    shared = c.penalty / (c.penalty + c.interference - c.attraction)
    alone = c.penalty / (c.penalty - r * c.attraction)
    split = c.penalty / (c.penalty - r / 2 * c.attraction)
    return B * np.sqrt([shared, shared, alone, split])[:, None]


def ends_at_the_truth(f: Objective, start: Array, network: pn.Network) -> bool:
    tau = 1e-6 if f.theorem is None else f.theorem.curvature
    descent = minimise(f, start, slope=1e-9, curvature=tau)
    assert descent.converged
    found = descent.B / np.linalg.norm(descent.B, axis=1, keepdims=True)
    # A slope of 1e-9 over curvatures of 0.2 and more; a wrong end is off by 0.5.
    return direction_error(found, network.weights) < 1e-7


@pytest.mark.parametrize("delta", DELTAS)
def test_the_network_and_the_matrix_of_the_paper(delta: float) -> None:
    example = pn.datasets.spurious_minimum(delta)
    network, B = example.network, example.B
    np.testing.assert_array_equal(network.output_weights, [1, 2 + delta, 2 + delta, 2 + delta])
    np.testing.assert_array_equal(network.weights, np.eye(4))
    np.testing.assert_allclose(B @ B.T, [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    f = objective("P'", network)
    assert f.value(B) == pytest.approx(2.0, abs=1e-14)
    assert interference(network, B) == pytest.approx(2.0, abs=1e-14)
    assert interference(network, network.weights) == 0.0
    other = f.retract(np.random.default_rng(0).standard_normal((4, 4)))
    assert f.value(other) == pytest.approx(interference(network, other), rel=1e-13)


@pytest.mark.parametrize("delta", DELTAS)
def test_a_minimum_of_interference_strict_but_for_one_direction(delta: float) -> None:
    example = pn.datasets.spurious_minimum(delta)
    f, B, r = objective("P'", example.network), example.B, 2 + delta
    found = second_order(f, B)
    assert found.is_minimum and found.slope < 1e-14
    expected = [0, *[2 * delta] * 4, *[4 * (r - 1)] * 2, *[2 * r] * 2, 8, 8, 4 * r]
    values = np.linalg.eigvalsh(hessian(f, B))
    np.testing.assert_allclose(values, np.sort(expected), rtol=0, atol=1e-12)
    np.testing.assert_allclose(f.curvature(B, ACROSS, f.gradient(B)), 0, atol=1e-14)


@pytest.mark.parametrize("delta", DELTAS)
def test_the_flat_direction_is_an_arc_of_minima(delta: float) -> None:
    """Constant all along; across the arc the curvature is positive while both loads keep it up."""
    example = pn.datasets.spurious_minimum(delta)
    f, r = objective("P'", example.network), 2 + delta
    for angle in np.linspace(0, np.pi / 2, 13):
        B = turned(example.B, angle)
        assert f.value(B) == pytest.approx(2.0, abs=1e-13)
        assert np.linalg.norm(f.slope(B)) < 1e-13
        values = np.linalg.eigvalsh(hessian(f, B))
        held = r * min(np.cos(angle) ** 2, np.sin(angle) ** 2) - 1
        assert values[0] == pytest.approx(min(4 * held, 0), abs=1e-12)
        if held > 0:
            assert values[1] == pytest.approx(4 * held, abs=1e-12)


def test_no_small_change_lowers_interference() -> None:
    """The increase is the second-order term, so at least half the least eigenvalue off the arc."""
    example = pn.datasets.spurious_minimum(0.5)
    f, B = objective("P'", example.network), example.B
    rng, g = np.random.default_rng(1), f.gradient(B)
    for _ in range(300):
        V = f.tangent(B, rng.standard_normal((4, 4)))
        V *= 1e-3 / np.linalg.norm(V)
        gained = f.value(f.retract(B + V)) - 2.0
        off = V - np.sum(V * ACROSS) * ACROSS
        # Third order: b_4 turned by t lowers the eigenvalue 2 delta = 1 by 4 r t, 1% at t = 1e-3.
        assert gained >= 0.98 * 0.5 * 1.0 * float(np.sum(off * off))
        second = 0.5 * float(np.sum(V * f.curvature(B, V, g)))
        assert gained == pytest.approx(second, rel=0.02)
    for _ in range(300):  # larger: until b_4 has turned by 0.1 no eigenvalue is negative
        V = rng.standard_normal((4, 4))
        moved = f.retract(B + 0.05 * V / np.linalg.norm(V))
        assert f.value(moved) > 2.0


def test_a_descent_on_interference_comes_back_and_one_on_G_leaves() -> None:
    example = pn.datasets.spurious_minimum(0.5)
    network, B = example.network, example.B
    P, G = (objective(name, network) for name in ("P'", "G"))
    rng = np.random.default_rng(2)
    for _ in range(5):
        near = P.retract(B + 0.01 * rng.standard_normal((4, 4)))
        back = minimise(P, near, slope=1e-9, curvature=1e-6)
        # On the arc again: within the change, and interference is all that is left of it.
        assert back.converged and np.linalg.norm(back.B - near) < 0.1
        assert P.value(back.B) == pytest.approx(2.0, abs=1e-12)
        assert not ends_at_the_truth(P, near, network)
        assert ends_at_the_truth(G, near, network)


@pytest.mark.parametrize("delta", DELTAS)
def test_for_G_it_is_a_saddle(delta: float) -> None:
    """The term that draws each row to one unit bends the arc down: by `-4 mu beta r |b_4|^2`."""
    example = pn.datasets.spurious_minimum(delta)
    network, r = example.network, 2 + delta
    G = objective("G", network)
    B = rescaled(G, r, example.B)
    found = second_order(G, B)
    assert found.slope < 1e-13  # a penalty of 25, to rounding
    attraction = G.constants.attraction  # type: ignore[attr-defined]
    down = -4 * attraction * r * float(B[3] @ B[3])
    assert found.lowest == pytest.approx(down, rel=1e-9)
    assert not found.is_minimum and not found.theorem_applies
    assert G.theorem is not None and found.lowest < -G.theorem.curvature  # bullet 2 of Theorem 2.3
    bent = G.curvature(B, ACROSS, G.gradient(B))
    np.testing.assert_allclose(bent, down * ACROSS, rtol=0, atol=1e-12)
    descent = minimise(G, B, slope=G.theorem.slope, curvature=G.theorem.curvature)
    assert descent.saddles >= 1 and second_order(G, descent.B).theorem_applies
    assert ends_at_the_truth(G, B, network)


@pytest.mark.parametrize("delta", [-0.9, -0.5, -0.05])
def test_below_two_it_is_a_saddle_of_interference(delta: float) -> None:
    B = pn.datasets.spurious_minimum(0.5).B
    network = the_network([1, 2 + delta, 2 + delta, 2 + delta])
    f = objective("P'", network)
    found = second_order(f, B)
    assert found.slope < 1e-14
    assert found.lowest == pytest.approx(2 * delta, abs=1e-12)
    assert ends_at_the_truth(f, B, network)


def test_at_two_it_is_no_minimum_either() -> None:
    """No eigenvalue is negative, yet b_1 towards e_3 while b_4 leaves it descends: third order."""
    B, f = pn.datasets.spurious_minimum(0.5).B, objective("P'", the_network([1, 2, 2, 2]))
    assert second_order(f, B).lowest == pytest.approx(0, abs=1e-13)
    for t in (0.1, 0.01, 0.001):
        C = turned(B, np.pi / 4 + t)
        C[0, [0, 2]] = np.cos(t), np.sin(t)
        assert f.value(C) - 2 == pytest.approx(-2 * np.sin(t) ** 2 * np.sin(2 * t), rel=1e-4)


def test_the_curvature_changes_sign_at_two() -> None:
    """By search, not by formula: the smallest of the eleven eigenvalues across the arc."""
    B = pn.datasets.spurious_minimum().B

    def smallest(r: float) -> float:
        f = objective("P'", the_network([1, r, r, r]))
        values = np.linalg.eigvalsh(hessian(f, B))
        return float(np.delete(values, np.argmin(np.abs(values)))[0])

    assert brentq(smallest, 1.6, 2.7) == pytest.approx(2.0, abs=1e-9)


A_BAD_ONE = [
    [1, 2.1, 2.1],
    [1, 1, 1, 2.2, 2.2],
    [1, 1.6, 3, 1.2],
    [1, 1.1, 1.2, 11.5],
]
NONE = [
    [1, 1.9, 1.9],
    [1, 1, 1, 1, 100],
    [1, 1.4, 3, 1.2],
    [1, 1.1, 1.05, 10],
]


def candidate(a: list[float]) -> Array:
    """Two rows on the least unit, one on the two largest with loads as `1 / a_l`, others alone."""
    order, loads = np.argsort(a), 1 / np.sort(a)[-2:]
    B = np.eye(len(a))[order]
    B[-2], B[-1] = B[0], 0.0
    B[-1, order[-2:]] = np.sqrt(loads / loads.sum())
    return B


@pytest.mark.parametrize("a", A_BAD_ONE)
def test_a_bad_minimum_where_the_two_largest_weights_allow_it(a: list[float]) -> None:
    """1 / a_min > 1 / a' + 1 / a''."""
    B, f = candidate(a), objective("P'", the_network(a))
    found = second_order(f, B)
    assert found.is_minimum and found.value == pytest.approx(2.0, abs=1e-13)
    rng = np.random.default_rng(3)
    # Until the row on two units turns by 0.01 both of its loads are large enough.
    for _ in range(200):
        V = rng.standard_normal(B.shape)
        moved = f.retract(B + 5e-3 * V / np.linalg.norm(V))
        assert f.value(moved) >= 2 - 1e-13


@pytest.mark.parametrize("a", NONE)
def test_no_bad_minimum_where_they_do_not(a: list[float]) -> None:
    """Neither the candidate nor the end of a descent from anywhere."""
    B, network = candidate(a), the_network(a)
    f, rng = objective("P'", network), np.random.default_rng(4)
    assert second_order(f, B).lowest < -0.01  # 4 (1 / (1 / a' + 1 / a'') - a_min), or lower
    assert ends_at_the_truth(f, B, network)
    for _ in range(20):
        assert ends_at_the_truth(f, f.retract(rng.standard_normal(B.shape)), network)


@pytest.mark.parametrize("delta", [0.0, -0.5, np.nan, np.inf, "0.5", None, True])
def test_delta_that_is_not_positive(delta: Any) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.datasets.spurious_minimum(delta)
    is_a_sentence(error, "positive")
