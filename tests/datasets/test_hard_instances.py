"""The papers' hard instances are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import provenet as pn
from helpers import direction_error, is_a_sentence
from provenet.common.typing import Array
from provenet.datasets import condition_pair, differing_share, sign_ambiguous_network
from provenet.landscape import Objective, minimise, objective, second_order
from provenet.networks.risk import population_risk
from provenet.networks.signs import flip_sets

# ---------------------------------------------------------------- BJW19, Lemma 16


@pytest.mark.parametrize("a", [0.5, 0.1, 0.01])
def test_a_pair_differs_exactly_on_the_cone_between_the_kinks(a: float) -> None:
    first, second = condition_pair(a)
    n = 200_000
    X = np.random.default_rng(1).standard_normal((n, 2))
    inside = np.abs(X[:, 0]) < 2 * a * np.abs(X[:, 1])
    difference = second(X) - first(X)
    assert np.all(difference[inside] > 0)
    # Values of about 1: what is left outside is rounding.
    np.testing.assert_allclose(difference[~inside], 0, atol=1e-14)
    # A binomial count: chance beyond these bounds is 1e-6, for any seed.
    low, high = stats.binom.ppf([5e-7, 1 - 5e-7], n, differing_share(a))
    assert low <= inside.sum() <= high
    for network, slope in ((first, a), (second, 2 * a)):
        assert np.linalg.cond(network.weights) == pytest.approx(1 / slope, rel=1e-12)
        assert pn.parameter_error(network, network.canonical()) < 1e-15


# ---------------------------------------------------------------- ATV21, Claim 4.8


@pytest.mark.parametrize(("units", "features"), [(3, 2), (3, 10), (6, 4), (12, 8), (20, 3)])
def test_two_networks_one_function(units: int, features: int) -> None:
    first, second = sign_ambiguous_network(units, features, rng=0)
    assert first.weights.shape == second.weights.shape == (units, features)
    assert pn.parameter_error(first, second) > 0.1
    X = np.random.default_rng(1).standard_normal((1000, features))
    # Sums of twenty terms of size 1 at most, of inputs up to 4.
    np.testing.assert_allclose(first(X), second(X), rtol=0, atol=1e-13)
    assert population_risk(first, second) < 1e-13
    turned = tuple(np.flatnonzero((first.weights != second.weights).any(axis=1)))
    assert len(turned) == min(units, features + 1)
    cosines = np.abs(first.weights @ first.weights.T - np.eye(units))
    assert cosines.max() < 0.9999  # no two are parallel
    for network in (first, second):
        np.testing.assert_allclose(np.linalg.norm(network.weights, axis=1), 1, rtol=1e-14)
        assert turned in flip_sets(network).sets


# ---------------------------------------------------------------- GLM17, appendix D

DELTAS = [0.05, 0.5, 2.0]
ACROSS = np.array([0.0, 0.0, 0.0, 1.0])[:, None] * np.array([0.0, 0.0, 1.0, -1.0]) / np.sqrt(2)
"""The direction in which b_4 turns in the plane of e_3 and e_4."""


def the_network(a: Any) -> pn.Network:
    return pn.Network(np.eye(len(a)), output_weights=a)


def turned(B: Array, angle: float) -> Array:
    """B with b_4 at this angle from e_3, towards e_4."""
    C = B.copy()
    C[3, 2:] = np.cos(angle), np.sin(angle)
    return C


def eigenvalues(f: Objective, B: Array) -> Array:
    """Of the Hessian along the spheres, in an orthonormal basis of their tangents."""
    tangents = np.array([f.tangent(B, E.reshape(B.shape)).ravel() for E in np.eye(B.size)])
    u, s, _ = np.linalg.svd(tangents)
    basis, g = u[:, s > 0.5].T, f.gradient(B)
    H = basis @ np.array([f.curvature(B, V.reshape(B.shape), g).ravel() for V in basis]).T
    return np.linalg.eigvalsh((H + H.T) / 2)


def ends_at_the_truth(f: Objective, start: Array, network: pn.Network) -> bool:
    tau = 1e-6 if f.theorem is None else f.theorem.curvature
    descent = minimise(f, start, slope=1e-9, curvature=tau)
    assert descent.converged
    found = descent.B / np.linalg.norm(descent.B, axis=1, keepdims=True)
    # A slope of 1e-9 over curvatures of 0.2 and more; a wrong end is off by 0.5.
    return direction_error(found, network.weights) < 1e-7


@pytest.mark.parametrize("delta", DELTAS)
def test_a_minimum_of_interference_strict_but_for_an_arc(delta: float) -> None:
    example, r = pn.datasets.spurious_minimum(delta), 2 + delta
    network, B = example.network, example.B
    np.testing.assert_array_equal(network.output_weights, [1, r, r, r])
    f = objective("P'", network)
    loads = (B @ network.weights.T) ** 2
    pairs = [(j, k) for j in range(4) for k in range(4) if j != k]
    by_definition = sum(network.output_weights @ (loads[j] * loads[k]) for j, k in pairs)
    assert f.value(B) == pytest.approx(2.0, abs=1e-14) == by_definition
    found = second_order(f, B)
    assert found.is_minimum and found.slope < 1e-14
    expected = [0, *[2 * delta] * 4, *[4 * (r - 1)] * 2, *[2 * r] * 2, 8, 8, 4 * r]
    np.testing.assert_allclose(eigenvalues(f, B), np.sort(expected), rtol=0, atol=1e-12)
    np.testing.assert_allclose(f.curvature(B, ACROSS, f.gradient(B)), 0, atol=1e-14)
    for angle in np.linspace(0, np.pi / 2, 13):
        C = turned(B, angle)
        assert f.value(C) == pytest.approx(2.0, abs=1e-13)
        held = r * min(np.cos(angle) ** 2, np.sin(angle) ** 2) - 1
        assert eigenvalues(f, C)[0] == pytest.approx(min(4 * held, 0), abs=1e-12)


@pytest.mark.parametrize("delta", DELTAS)
def test_for_G_it_is_a_saddle(delta: float) -> None:
    """The term that draws each row to one unit bends the arc down: by `-4 mu beta r |b_4|^2`."""
    example, r = pn.datasets.spurious_minimum(delta), 2 + delta
    G = objective("G", example.network)
    c = G.constants  # type: ignore[attr-defined]
    # The norms of rows at which G has no slope, from its derivative along each row.
    shared = c.penalty / (c.penalty + c.interference - c.attraction)
    alone = c.penalty / (c.penalty - r * c.attraction)
    split = c.penalty / (c.penalty - r / 2 * c.attraction)
    B = example.B * np.sqrt([shared, shared, alone, split])[:, None]
    found = second_order(G, B)
    assert found.slope < 1e-13  # a penalty of 25, to rounding
    assert found.lowest == pytest.approx(-4 * c.attraction * r * float(B[3] @ B[3]), rel=1e-9)
    assert not found.is_minimum and not found.theorem_applies
    assert G.theorem is not None and found.lowest < -G.theorem.curvature  # bullet 2 of Theorem 2.3
    assert ends_at_the_truth(G, B, example.network)


def candidate(a: list[float]) -> Array:
    """Two rows on the least unit, one on the two largest with loads as `1 / a_l`, others alone."""
    order, loads = np.argsort(a), 1 / np.sort(a)[-2:]
    B = np.eye(len(a))[order]
    B[-2], B[-1] = B[0], 0.0
    B[-1, order[-2:]] = np.sqrt(loads / loads.sum())
    return B


@pytest.mark.parametrize("a", [[1, 2.1, 2.1], [1, 1, 1, 2.2, 2.2], [1, 1.1, 1.2, 11.5]])
def test_a_bad_minimum_where_the_two_largest_weights_allow_it(a: list[float]) -> None:
    """1 / a_min > 1 / a' + 1 / a''."""
    found = second_order(objective("P'", the_network(a)), candidate(a))
    assert found.is_minimum and found.value == pytest.approx(2.0, abs=1e-13)


@pytest.mark.parametrize("a", [[1, 1.9, 1.9], [1, 1, 1, 1, 100], [1, 1.1, 1.05, 10]])
def test_no_bad_minimum_where_they_do_not(a: list[float]) -> None:
    """Neither the candidate nor the end of a descent from anywhere."""
    B, network = candidate(a), the_network(a)
    f, rng = objective("P'", network), np.random.default_rng(4)
    assert second_order(f, B).lowest < -0.01  # 4 (1 / (1 / a' + 1 / a'') - a_min), or lower
    assert ends_at_the_truth(f, B, network)
    for _ in range(10):
        assert ends_at_the_truth(f, f.retract(rng.standard_normal(B.shape)), network)


# ---------------------------------------------------------------- what has no instance


@pytest.mark.parametrize(
    ("make", "arguments", "word"),
    [
        *((condition_pair, (a,), "above 0") for a in (0.0, 1.5, np.nan, np.inf)),
        *((sign_ambiguous_network, sizes, "three units") for sizes in ((2, 3), (5, 1))),
        *((pn.datasets.spurious_minimum, (d,), "delta") for d in (0.0, -0.5, np.nan, "0.5", True)),
    ],
)
def test_arguments_that_make_no_instance(make: Any, arguments: Any, word: str) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        make(*arguments)
    is_a_sentence(error, word)
