from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.common.exceptions import NoAnswer
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.lowest_layer.binary.correlations import correlations, exact_correlations
from provenet.lowest_layer.binary.exponential_top import ExponentialTop, monomials
from provenet.methods.binary_cliques import Cliques, find_cliques, maximal_cliques
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer

Sets = Sequence[Sequence[int]]
FOUR_OF_THREE: Sets = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11)]
CHAIN: Sets = [(0, 1, 2), (2, 3, 4), (4, 5, 6)]
"""Overlapping: features 2 and 4 are in two units each."""
HALVES: Sets = [(0, 1, 2, 3), (2, 3, 4, 5)]
"""The same function as X_1 X_2 + X_2 X_3 over three disjoint pairs of features."""


def problem(
    seed: int,
    sets: Sets = FOUR_OF_THREE,
    features: int = 12,
    rho: float = 0.5,
    t: float = 2.0,
    products: float = 0.3,
) -> LayeredNetwork:
    """Units on renumbered sets; products have coefficients up to `products`, of either sign."""
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(features)
    W = np.zeros((len(sets), features))
    for row, members in zip(W, sets, strict=True):
        row[order[list(members)]] = 1
    terms: dict[tuple[int, ...], float] = {(i,): rng.uniform(0.5, 1.5) for i in range(len(W))}
    for pair in combinations(range(len(W)), 2):
        terms[pair] = products * rng.uniform(0 if products > 0 else -1, 1)
    return LayeredNetwork(lowest_layer(rho * W, rho * t, "exp"), Polynomial(len(W), terms))


def samples(net: LayeredNetwork, n: int, seed: int) -> ArraySource:
    X = np.random.default_rng([seed, 2]).standard_normal((n, net.features))
    return ArraySource(X, net(X))


def from_samples(source: ArraySource, *, faithful: bool = False) -> Cliques:
    """With rho fitted on the same samples."""
    return find_cliques(source, source, faithful=faithful)


def supports(weights: Array) -> set[tuple[int, ...]]:
    return {tuple(np.flatnonzero(w).tolist()) for w in weights}


def truth(net: LayeredNetwork) -> set[tuple[int, ...]]:
    return supports(net.layer.weights)


def shifted_coefficients(net: LayeredNetwork, rho: float, t: float, d: int) -> tuple[Array, Array]:
    """Coefficients of X_p and of X_p X_q in `P(mu (X_1 + 1), ..)`, mu of ERRATA 20."""
    mu = np.exp(-rho * (t - rho * d / 2))
    k = net.units
    single, double = np.zeros(k), np.zeros((k, k))
    for monomial, c in net.top.terms.items():
        for p in monomial:
            single[p] += c * mu ** len(monomial)
            for q in monomial:
                double[p, q] += (p != q) * c * mu ** len(monomial)
    return single, double


# ------------------------------------------------- correlations


def test_correlations_are_appendix_d_with_the_corrected_mu() -> None:
    rho, t, d = 0.7, 1.5, 3
    net = problem(0, rho=rho, t=t)
    single, double = shifted_coefficients(net, rho, t, d)
    unit = np.argmax(net.layer.weights, axis=0)
    M = rho**2 * double[unit][:, unit]
    for i in range(12):
        for j in range(12):
            if unit[i] == unit[j]:
                M[i, j] = rho**2 * single[unit[i]]  # the diagonal too: E[f (x_i^2 - 1)]
    exact = exact_correlations(net)
    np.testing.assert_allclose(exact.matrix, M, rtol=1e-12)
    np.testing.assert_allclose(exact.linear, rho * single[unit], rtol=1e-12)


def test_samples_have_these_correlations() -> None:
    net = problem(1)
    exact, sampled = exact_correlations(net), correlations(samples(net, 50_000, 1))
    # the largest of 78 entries over 50 seeds was 3.4 standard errors
    assert np.all(np.abs(sampled.matrix - exact.matrix) < 5 * sampled.errors)
    assert sampled.errors.max() < 0.1 * exact.matrix.max()


# ------------------------------------------------- cliques


def test_maximal_cliques_are_those_of_all_subsets() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(1, 8))
        edges = rng.random((n, n)) < 0.6
        edges = edges | edges.T | np.eye(n, dtype=bool)
        cliques = [
            set(c)
            for size in range(1, n + 1)
            for c in combinations(range(n), size)
            if edges[np.ix_(c, c)].all()
        ]
        maximal = [sorted(c) for c in cliques if not any(c < other for other in cliques)]
        assert maximal_cliques(edges) == sorted(maximal)


def test_monomials_are_all_subsets_while_there_is_room() -> None:
    assert len(monomials(4)) == 16
    assert len({tuple(m) for m in monomials(4)}) == 16
    assert len(monomials(9)) == 1 + 9 + 36  # the 84 triples have no room
    assert len(monomials(100)) == 101


# ------------------------------------------------- populations


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize(
    "sets, features, products",
    [
        (FOUR_OF_THREE, 12, 0.3),
        (FOUR_OF_THREE, 14, -0.1),
        ([(0, 1, 2)], 4, 0.3),
        ([(0,), (1,), (2,)], 4, 0.3),
        (CHAIN, 8, 0.0),
        (HALVES, 6, 0.0),
    ],
    ids=["disjoint", "of either sign", "one unit", "of one feature", "chain", "halves"],
)
def test_population_is_answered_exactly(
    sets: Sets, features: int, products: float, faithful: bool
) -> None:
    rho, t, d = 0.6, 1.0, len(sets[0])
    for seed in range(5):
        net = problem(seed, sets, features, rho, t, products)
        found = find_cliques(net, faithful=faithful)
        assert supports(found.weights) == truth(net)
        assert found.rho == pytest.approx(rho, rel=1e-9)
        single, _ = shifted_coefficients(net, rho, t, d)
        order = [int(np.flatnonzero((net.layer.weights > 0) @ w == d)[0]) for w in found.weights]
        np.testing.assert_allclose(found.coefficients, single[order], rtol=1e-6)


def test_unequal_sizes_are_found_where_features_are_alike() -> None:
    net = problem(0, [(0, 1), (2, 3, 4), (5,)], 7)
    assert supports(find_cliques(net).weights) == truth(net)


def test_ones_is_checked() -> None:
    net = problem(0)
    assert len(find_cliques(net, ones=3).weights) == 4
    with pytest.raises(NoAnswer) as error:
        find_cliques(net, ones=4)
    is_a_sentence(error, "4 features")


# ------------------------------------------------- samples


@pytest.mark.parametrize("rho", [0.5, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_few_thousand_samples_show_the_units(seed: int, rho: float) -> None:
    # 50 of 50 seeds for both; with 2000 samples 50 and 45, the others refused
    net = problem(seed, rho=rho)
    found = from_samples(samples(net, 4000, seed))
    assert supports(found.weights) == truth(net)
    # all sixteen monomials of four units are tried, so rho is the one that leaves nothing
    assert found.unexplained < 1e-6
    assert found.rho == pytest.approx(rho, rel=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_single_features_take_ten_times_as_many(seed: int) -> None:
    # 50 of 50 seeds with 20000 or 40000 samples; with 3000 only 29, the others refused
    net = problem(seed)
    found = from_samples(samples(net, 40_000, seed), faithful=True)
    assert supports(found.weights) == truth(net)
    assert found.margin >= 2
    assert "12 features" in found.evidence


@pytest.mark.parametrize("sets, features", [(CHAIN, 8), (HALVES, 6)], ids=["chain", "halves"])
def test_overlapping_units_from_samples(sets: Sets, features: int) -> None:
    # 50 of 50 seeds for both
    net = problem(0, sets, features, products=0.0)
    found = from_samples(samples(net, 40_000, 0))
    assert supports(found.weights) == truth(net)


def test_labels_of_either_sign() -> None:
    # 50 of 50 seeds
    net = problem(0, FOUR_OF_THREE[:2], 6, products=-1.0, t=1.0)
    negative = LayeredNetwork(net.layer, Polynomial(2, {**net.top.terms, (): -0.5, (0, 1): -0.05}))
    source = samples(negative, 40_000, 0)
    assert source.y.min() < 0
    found = from_samples(source)
    assert supports(found.weights) == truth(net)
    assert found.rho == pytest.approx(0.5, rel=1e-6)


def test_rho_is_the_one_that_explains_the_labels() -> None:
    net = problem(3)
    W = (net.layer.weights > 0).astype(float)
    source = samples(net, 2000, 3)
    top = ExponentialTop(source.X, source.y, W)
    for start in (0.3, 0.5, 0.9):
        rho = top.best_rho(start)
        assert rho == pytest.approx(0.5, rel=1e-7) and top.solved(rho)[1] < 1e-8
    wrong = W.copy()
    wrong[[0, 1], :] = np.where(np.arange(12) == np.argmax(W[0]), W[[1, 0]], W[[0, 1]])
    mixed = ExponentialTop(source.X, source.y, wrong)
    assert mixed.solved(mixed.best_rho(0.5))[1] > 1e-3


# ------------------------------------------------- no answer


def test_large_products_are_named() -> None:
    """C(1, 2) > C(3): the graph would join units 1 and 2."""
    net = problem(0, [(0, 1), (2, 3), (4, 5)], 6)
    terms = {(0,): 1.0, (1,): 1.0, (2,): 1.0, (0, 1): 8.0, (1, 2): 0.5}
    with pytest.raises(NoAnswer) as error:
        find_cliques(LayeredNetwork(net.layer, Polynomial(3, terms)))
    is_a_sentence(error, "Theorem 8", "exponential")
    weakest = np.flatnonzero(net.layer.weights[2])[0]
    assert f"within the unit of feature {weakest}" in str(error.value)


def test_too_few_samples_for_a_gap() -> None:
    # 50 of 50 seeds are refused
    with pytest.raises(NoAnswer) as error:
        from_samples(samples(problem(0, rho=1.0), 3000, 0), faithful=True)
    is_a_sentence(error, "samples")


def test_negative_terms_of_the_sum_are_named() -> None:
    net = problem(0, [(0, 1), (2, 3)], 4)
    with pytest.raises(NoAnswer) as error:
        find_cliques(LayeredNetwork(net.layer, Polynomial(2, {(0,): 1.0, (1,): -1.0})))
    is_a_sentence(error, "positive coefficients")


def test_labels_that_do_not_depend_on_the_inputs() -> None:
    rng = np.random.default_rng(0)
    source = ArraySource(rng.standard_normal((2000, 4)), rng.standard_normal(2000))
    for faithful in (False, True):
        with pytest.raises(NoAnswer) as error:
            find_cliques(source, faithful=faithful)
        is_a_sentence(error, "more samples")


# ------------------------------------------------- through recover


@pytest.mark.parametrize("sets, features", [(FOUR_OF_THREE, 12), (CHAIN, 8)], ids=["four", "chain"])
def test_units_rho_and_polynomial_are_exact(sets: Sets, features: int) -> None:
    net = problem(0, sets, features, products=0.3 if sets is FOUR_OF_THREE else 0.0)
    result = pn.recover(samples(net, 40_000, 0), method="binary-cliques", rng=0)
    assert result.status == "exact" and result.network is not None and result.layered is not None
    assert supports(result.network.weights) == truth(net)
    np.testing.assert_allclose(result.network.weights.max(axis=1), 0.5, rtol=1e-12)
    fresh = samples(net, 1000, 99)
    np.testing.assert_allclose(result.layered(fresh.X), fresh.y, rtol=1e-9)


def test_the_papers_cliques_alone_are_no_success() -> None:
    """Theorem 8 gives weights; rho is as rough as the moments (0.3 over 20 seeds)."""
    net = problem(0, FOUR_OF_THREE, 12, products=0.3)
    result = pn.recover(samples(net, 40_000, 0), method="binary-cliques", faithful=True, rng=0)
    assert result.status == "partial" and "no polynomial was fitted" in result.message
    assert result.network is not None and result.layered is None
    assert supports(result.network.weights) == truth(net)
    np.testing.assert_allclose(result.network.weights.max(axis=1), 0.5, rtol=0.5)


def test_too_few_samples_are_a_status() -> None:
    source = samples(problem(0, rho=1.0), 3000, 0)
    result = pn.recover(source, method="binary-cliques", faithful=True, rng=0)
    assert result.status == "failed" and "samples" in result.message
