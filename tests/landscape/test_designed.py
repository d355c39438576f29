"""P', G and F: the paper's formulas from samples, their closed forms, derivatives and minima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import direction_error, exact_tensors
from provenet.common.typing import Array
from provenet.landscape.constants import Constants, constants_for_F, constants_for_G
from provenet.landscape.designed import Design, interference
from provenet.landscape.fourth_order import DenseFourth, SumOfFourthPowers
from provenet.landscape.newton import minimise
from provenet.landscape.second_order import second_order
from provenet.landscape.statistics import (
    BatchStatistics,
    Statistics,
    coefficients,
    population_statistics,
)
from provenet.networks.activations import RELU

UNITS, FEATURES = 3, 4
C_2, C_4 = coefficients(RELU)
SIGMA_2, SIGMA_4 = C_2 / sqrt(2), C_4 / sqrt(24)


def a_truth(seed: int, units: int = UNITS, features: int = FEATURES) -> pn.Network:
    """Unit rows, no biases, positive output weights."""
    rng = np.random.default_rng([seed, 1])
    net = pn.random_network(units, features, bias_scale=0.0, rng=rng)
    return net.replace(output_weights=np.abs(net.output_weights))


def orthonormal(seed: int, units: int = 4) -> pn.Network:
    """As many orthonormal units as features."""
    rng = np.random.default_rng([seed, 2])
    Q = np.linalg.qr(rng.standard_normal((units, units)))[0]
    return pn.Network(Q, output_weights=rng.uniform(0.5, 1.5, units))


def tilted(seed: int, units: int = 4) -> pn.Network:
    """Independent units a little off orthogonal: a well-conditioned F."""
    rng = np.random.default_rng([seed, 3])
    truth = orthonormal(seed, units)
    W = truth.weights + 0.25 * rng.standard_normal((units, units))
    return truth.replace(weights=W / np.linalg.norm(W, axis=1, keepdims=True))


def some_rows(seed: int, units: int = UNITS, features: int = FEATURES) -> Array:
    """Rows of norm about 1, not 1."""
    return np.random.default_rng([seed, 4]).standard_normal((units, features)) / sqrt(features)


SOME = Constants(interference=abs(C_4) / 2, attraction=0.7 * abs(C_4) / 24, penalty=0.9, mu=0.7)
"""Not within any theorem's range: all terms count."""


# The paper's definitions, written out


def varphi(v: Array, X: Array) -> Array:
    """(2.9) of every sample."""
    z, size = X @ v, v @ v
    return np.asarray(size**2 / 8 - z**2 * size / 4 + z**4 / 24)


def phi(v: Array, w: Array, X: Array, sign: float = -1.0) -> Array:
    """(2.10) of every sample, with the sign of (4.6) on its mixed term (ERRATA, GLM17 2)."""
    s, t, vv, ww, vw = X @ v, X @ w, v @ v, w @ w, v @ w
    return np.asarray(
        vv * ww / 2
        + vw**2
        - ww * s**2 / 2
        - vv * t**2 / 2
        + sign * 2 * s * t * vw
        + (s * t) ** 2 / 2
    )


def first_terms(X: Array, y: Array, B: Array, mu: float, sign: float = -1.0) -> Array:
    """What (2.8) and (A.1) have the mean of, but for their last term."""
    rows = range(len(B))
    pairs = sum(phi(B[j], B[k], X, sign) for j in rows for k in rows if j != k)
    alone = sum(varphi(b, X) for b in B)
    return np.asarray(np.sign(SIGMA_4) * y * (pairs - mu * alone))


def phi_2(v: Array, X: Array) -> Array:
    """Of (A.1), divided as ERRATA (GLM17 4) says."""
    return np.asarray(((X @ v) ** 2 - v @ v) / (sqrt(2) * SIGMA_2))


def closed_form(truth: pn.Network, B: Array, mu: float, norms: Array, penalty: float) -> float:
    """(2.11) with the constants of ERRATA (GLM17 3): sums over units and pairs of rows."""
    total = penalty * sum((b @ norms @ b - 1) ** 2 for b in B)
    for a, unit in zip(truth.output_weights, truth.weights, strict=True):
        t = (B @ unit) ** 2
        pairs = sum(t[j] * t[k] for j, k in permutations(range(len(B)), 2))
        total += a * abs(SIGMA_4) * (sqrt(6) * pairs - mu / sqrt(24) * np.sum(t**2))
    return float(total)


# Values


@given(st.integers(0, 10**6))
def test_G_and_F_of_a_population_are_the_closed_form(seed: int) -> None:
    """Theorem 2.6, and its form for F."""
    truth, B = a_truth(seed), some_rows(seed)
    statistics = population_statistics(truth)
    for euclidean in (True, False):
        norms = np.eye(FEATURES) if euclidean else statistics.norms[0]
        found = Design(statistics, SOME, UNITS, euclidean=euclidean).value(B)
        expected = closed_form(truth, B, SOME.mu, norms, SOME.penalty)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-13)  # rounding


@pytest.mark.parametrize("seed", range(3))
def test_G_on_samples_is_the_mean_of_the_papers_formula(seed: int) -> None:
    """(2.8)-(2.10), sample by sample."""
    rng = np.random.default_rng([seed, 5])
    X, y = pn.sample(a_truth(seed), 500, noise=0.3, rng=rng)
    B = some_rows(seed)
    found = Design(BatchStatistics(X, y, RELU), SOME, UNITS, euclidean=True).value(B)
    norms = SOME.penalty * sum((b @ b - 1) ** 2 for b in B)
    expected = first_terms(X, y, B, SOME.mu).mean() + norms
    assert found == pytest.approx(expected, rel=1e-11)  # rounding


@pytest.mark.parametrize("seed", range(3))
def test_F_on_samples_is_the_mean_of_the_papers_formula(seed: int) -> None:
    """(A.1) with an independent half of the samples for (x', y')."""
    rng = np.random.default_rng([seed, 6])
    X, y = pn.sample(a_truth(seed), 500, noise=0.3, rng=rng)
    B = some_rows(seed)
    found = Design(BatchStatistics(X, y, RELU), SOME, UNITS).value(B)
    one, other = (
        np.array([np.mean(y[half] * phi_2(b, X[half])) - 1 for b in B])
        for half in (slice(250), slice(250, None))
    )
    expected = first_terms(X, y, B, SOME.mu).mean() + SOME.penalty * one @ other
    assert found == pytest.approx(expected, rel=1e-11)  # rounding


def monte_carlo(seed: int, n: int = 200_000) -> dict[str, tuple[float, float]]:
    """Means of the paper's formulas less the closed form, in standard errors, and that error.

    The error is relative to the closed form, so a constant twice too large would show.
    """
    rng = np.random.default_rng([seed, 7])
    truth = a_truth(seed)
    W, a = truth.weights, truth.output_weights
    B = W + 0.2 * rng.standard_normal(W.shape)
    X, y = pn.sample(truth, n, rng=rng)
    # What lower orders explain of y does not correlate with order 4: it only adds variance. With
    # the printed sign it does correlate.
    r = y - C_2 * a.sum() - X @ W.T @ a / 2 - C_2 / 2 * ((X @ W.T) ** 2 - 1) @ a
    terms = {
        "pairs": first_terms(X, r, B, 0.0),
        "as printed": first_terms(X, y, B, 0.0, sign=1.0),
        "alone": first_terms(X, r, B, 1.0) - first_terms(X, r, B, 0.0),
    }
    pairs = closed_form(truth, B, 0.0, np.eye(FEATURES), 0.0)
    alone = closed_form(truth, B, 1.0, np.eye(FEATURES), 0.0) - pairs
    exact = {"pairs": pairs, "as printed": pairs, "alone": alone}
    errors = {name: values.std() / sqrt(n) for name, values in terms.items()}
    return {
        name: ((terms[name].mean() - exact[name]) / errors[name], errors[name] / abs(exact[name]))
        for name in terms
    }


@pytest.mark.parametrize("seed", range(3))
def test_the_means_of_the_papers_formulas_are_the_closed_form(seed: int) -> None:
    """Theorems 4.5 and 4.6 with the constants of ERRATA (GLM17 2 and 3)."""
    found = monte_carlo(seed)
    for name in ("pairs", "alone"):
        deviation, error = found[name]
        # A nearly normal number, over 50 seeds up to 2.9; the mean is known to 15 % at worst.
        assert abs(deviation) < 4 and error < 0.2
    assert abs(found["as printed"][0]) > 8


def test_the_mean_of_phi_2_is_the_norm() -> None:
    """`E[y phi_2] = b^T M b`, in standard errors."""
    truth, b = a_truth(0), some_rows(0)[0]
    X, y = pn.sample(truth, 300_000, rng=np.random.default_rng([0, 8]))
    terms = (y - y.mean()) * phi_2(b, X)
    error = terms.std() / sqrt(len(y))
    exact = b @ population_statistics(truth).norms[0] @ b
    assert abs(terms.mean() - exact) < 3 * error and error < 0.02 * exact


def test_P_prime_is_the_first_term_alone() -> None:
    truth, B = a_truth(0), some_rows(0)
    objective = interference(population_statistics(truth), UNITS)
    assert objective.unit_rows and objective.theorem is None
    B = objective.retract(B)
    rows = range(UNITS)
    expected = sum(
        a * (B[j] @ w) ** 2 * (B[k] @ w) ** 2
        for a, w in zip(truth.output_weights, truth.weights, strict=True)
        for j in rows
        for k in rows
        if j != k
    )
    assert objective.value(B) == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 10**6), st.permutations(range(UNITS)), st.booleans())
def test_order_and_signs_of_rows_change_nothing(
    seed: int, order: list[int], euclidean: bool
) -> None:
    weights = replace(SOME, ridge=0.3, decorrelation=0.4)
    objective = Design(population_statistics(a_truth(0)), weights, UNITS, euclidean=euclidean)
    B = some_rows(seed)
    signs = np.where(np.random.default_rng([seed, 9]).random(UNITS) < 0.5, -1.0, 1.0)[:, None]
    value = objective.value(B)
    assert objective.value((signs * B)[order]) == pytest.approx(value, rel=1e-12, abs=1e-13)
    g = objective.gradient(B)
    moved = objective.gradient((signs * B)[order])
    np.testing.assert_allclose(
        moved, (signs * g)[order], rtol=0, atol=1e-12 * (1 + np.abs(g).max())
    )


def test_the_ridge_alone_sees_what_is_across_the_span() -> None:
    """`F(B) = F(B P_S)` (section A.3); the ridge adds half its square."""
    truth, B = a_truth(0), some_rows(0)
    across = np.linalg.svd(truth.weights)[2][UNITS:]
    C = B + np.arange(1.0, UNITS + 1)[:, None] * across
    inside = B - B @ across.T @ across
    statistics = population_statistics(truth)
    plain = Design(statistics, SOME, UNITS)
    assert plain.value(C) == pytest.approx(plain.value(inside), rel=1e-12)
    ridged = Design(statistics, replace(SOME, ridge=0.3), UNITS)
    expected = plain.value(C) + 0.15 * np.sum(C**2)
    assert ridged.value(C) == pytest.approx(expected, rel=1e-12)


# Derivatives


def all_designs() -> dict[str, Design]:
    """Every term alone and all together, exact and noisy, with two different estimates of N."""
    rng = np.random.default_rng([0, 10])
    truth = a_truth(0)
    X, y = pn.sample(truth, 400, noise=0.5, rng=rng)
    batch, exact = BatchStatistics(X, y, RELU), population_statistics(truth)
    other = exact_tensors(a_truth(1, units=7))
    noisy = Statistics(exact.norms, DenseFourth(other[4] / C_4), error=0.0)
    names = ("interference", "attraction", "penalty", "ridge", "decorrelation")
    alone = {name: replace(Constants(interference=0.0), **{name: 0.8}) for name in names}
    together = replace(SOME, ridge=0.3, decorrelation=0.4)
    designs = {f"{name} alone": Design(batch, only, UNITS) for name, only in alone.items()}
    designs["batch"] = Design(batch, together, UNITS)
    designs["euclidean"] = Design(batch, together, UNITS, euclidean=True)
    designs["population"] = Design(exact, together, UNITS)
    designs["dense"] = Design(noisy, together, UNITS)
    designs["P'"] = interference(batch, UNITS)
    designs["all on spheres"] = Design(exact, together, UNITS, unit_rows=True)
    return designs


DESIGNS = all_designs()
every_design = pytest.mark.parametrize("name", list(DESIGNS))


def central(f: Callable[[float], float], step: float) -> tuple[float, float]:
    """First and second derivative at 0 of a function of a number, to the fourth order."""
    v = {k: f(k * step) for k in (-2, -1, 0, 1, 2)}
    first = (8 * (v[1] - v[-1]) - (v[2] - v[-2])) / (12 * step)
    second = (16 * (v[1] + v[-1]) - (v[2] + v[-2]) - 30 * v[0]) / (12 * step**2)
    return first, second


@every_design
@pytest.mark.parametrize("seed", range(3))
def test_derivatives_along_the_way_rows_may_move(name: str, seed: int) -> None:
    """Along lines, or along curves on the spheres where rows have norm 1."""
    objective, rng = DESIGNS[name], np.random.default_rng([seed, 11])
    B = objective.retract(some_rows(seed))
    V = objective.tangent(B, rng.standard_normal(B.shape))
    V /= np.linalg.norm(V)
    first, second = central(lambda t: objective.value(objective.retract(B + t * V)), 2e-3)
    g = objective.gradient(B)
    # The function is of order 4: on a line exact but for rounding, 1e-16 / step^2.
    size = 1 + np.abs(g).max()
    assert first == pytest.approx(np.sum(objective.slope(B) * V), abs=1e-8 * size)
    bend = np.sum(V * objective.curvature(B, V, g))
    assert second == pytest.approx(bend, abs=1e-6 * size)
    assert abs(first) + abs(second) > 1e-3  # so that it is not 0 = 0


@every_design
def test_hessian_products_are_differences_of_the_gradient(name: str) -> None:
    objective, rng = DESIGNS[name], np.random.default_rng([0, 12])
    B, V, U = some_rows(0), *rng.standard_normal((2, UNITS, FEATURES))
    step = 1e-4
    numerical = (objective.gradient(B + step * V) - objective.gradient(B - step * V)) / (2 * step)
    found = objective.hessian_product(B, V)
    # A cubic's difference is off by step^2 times its leading coefficient.
    np.testing.assert_allclose(found, numerical, rtol=0, atol=1e-6 * (1 + np.abs(found).max()))
    across = np.sum(U * found), np.sum(V * objective.hessian_product(B, U))
    assert across[0] == pytest.approx(across[1], rel=1e-11)


# Minima


def minimum(objective: Design, seed: int) -> Array:
    """From a random start, as far down as rounding lets it."""
    start = some_rows(seed, objective.units, objective.features)
    found = minimise(objective, start, slope=1e-13, curvature=1e-9)
    assert found.converged
    return found.B


@pytest.mark.parametrize("seed", range(4))
def test_the_minimum_of_G_has_rows_of_the_norm_of_theorem_5_1(seed: int) -> None:
    """Footnote 5 with the constants of ERRATA: `D_ii^2 = 1 / (1 - mu beta_i / lambda)`."""
    truth = orthonormal(seed)
    a = truth.output_weights
    # The least lambda of the theorem, and ten times its largest mu, so that D_ii is not 1.
    mu = 10 * constants_for_G(np.sort(a), C_4, 4).mu
    beta = abs(SIGMA_4) / sqrt(24) * a
    lam = 4 * sqrt(6) * abs(SIGMA_4) * a.max()
    constants = Constants(abs(C_4) / 2, mu * abs(C_4) / 24, lam, mu=mu)
    B = minimum(Design(population_statistics(truth), constants, 4, euclidean=True), seed)
    assert direction_error(B / np.linalg.norm(B, axis=1, keepdims=True), truth.weights) < 1e-8
    owner = np.argmax(np.abs(B @ truth.weights.T), axis=1)
    expected = np.sqrt(1 / (1 - mu * beta[owner] / lam))
    assert expected.min() > 1 + 1e-3
    np.testing.assert_allclose(np.linalg.norm(B, axis=1), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_F_is_G_of_the_whitened_units(seed: int) -> None:
    """Theorem A.2: `F_a(calB W^T) = G_{1/a}(calB)` of the orthonormal `o_i = W^T sqrt(a_i) b_i`."""
    truth = tilted(seed)
    a = truth.output_weights
    exact = population_statistics(truth)
    values, U = np.linalg.eigh(exact.norms[0])
    W = U / np.sqrt(values)
    O = np.sqrt(a)[:, None] * truth.weights @ W
    np.testing.assert_allclose(O @ O.T, np.eye(4), rtol=0, atol=1e-12)
    B = some_rows(seed, 4, 4)
    F = Design(exact, SOME, 4)
    whitened = Statistics((np.eye(4),) * 2, SumOfFourthPowers(1 / a, O), error=0.0)
    G = Design(whitened, SOME, 4, euclidean=True)
    assert F.value(B @ W.T) == pytest.approx(G.value(B), rel=1e-11)
    # Theorem A.1: the gradients are the chain rule's.
    np.testing.assert_allclose(F.gradient(B @ W.T) @ W, G.gradient(B), rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_the_minimum_of_F_inverts_to_the_units(seed: int) -> None:
    """Theorem A.4: `B^{-T} = P D Gamma B*`, here with D of Theorem 5.1 for weights 1 / a."""
    truth = tilted(seed)
    a = truth.output_weights
    statistics = population_statistics(truth)
    constants = constants_for_F(statistics.spectrum, C_4, 4)
    B = minimum(Design(statistics, constants, 4), seed)
    dual = np.linalg.inv(B).T
    rows = dual / np.linalg.norm(dual, axis=1, keepdims=True)
    # Rounding over the smallest curvature: over 50 seeds 1e-13, where D is off 1 by 4e-5.
    assert direction_error(rows, truth.weights) < 1e-10
    owner = np.argmax(np.abs(rows @ truth.weights.T), axis=1)
    beta = abs(SIGMA_4) / sqrt(24) / a
    D = np.sqrt(1 - constants.mu * beta / constants.penalty)
    expected = (D * np.sqrt(a))[owner]
    np.testing.assert_allclose(np.linalg.norm(dual, axis=1), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_fewer_units_than_features_and_a_small_ridge(seed: int) -> None:
    """Theorem A.5: the transposed pseudo-inverse is near `P D Gamma B*`, with no part across."""
    truth = tilted(seed, 6).keep(np.arange(3))
    statistics = population_statistics(truth)
    constants = constants_for_F(statistics.spectrum[-3:], C_4, 6, undercomplete=True)
    B = minimum(Design(statistics, constants, 3), seed)
    across = np.linalg.svd(truth.weights)[2][3:]
    # Lemma A.6: at most the slope over delta; over 50 seeds 2e-16 over it.
    assert np.linalg.norm(B @ across.T) < 1e-13 / constants.ridge
    dual = np.linalg.pinv(B).T
    rows = dual / np.linalg.norm(dual, axis=1, keepdims=True)
    assert direction_error(rows, truth.weights) < 2e-6  # the ridge: over 50 seeds 3e-7
    owner = np.argmax(np.abs(rows @ truth.weights.T), axis=1)
    expected = np.sqrt(truth.output_weights[owner])
    np.testing.assert_allclose(np.linalg.norm(dual, axis=1), expected, rtol=5e-4)  # D: 1e-4


def test_the_safeguard_leaves_the_truth_where_it_is() -> None:
    """Rows that are orthogonal in the norm of N do not feel it, and it is never below 0."""
    truth = tilted(0)
    statistics = population_statistics(truth)
    constants = constants_for_F(statistics.spectrum, C_4, 4)
    plain = Design(statistics, constants, 4)
    guarded = Design(statistics, replace(constants, decorrelation=5.0), 4)
    B = minimum(plain, 0)
    assert guarded.value(B) == pytest.approx(plain.value(B), abs=1e-12)
    np.testing.assert_allclose(guarded.gradient(B), plain.gradient(B), rtol=0, atol=1e-10)
    V = np.random.default_rng([0, 13]).standard_normal((4, 4))
    bends = [np.sum(V * f.hessian_product(B, V)) for f in (guarded, plain)]
    assert bends[0] > bends[1] + 1e-3
    near = some_rows(0, 4, 4)
    assert guarded.value(near) > plain.value(near)


def test_the_bad_minimum_of_P_prime_is_no_minimum_of_G() -> None:
    """Appendix D: two rows on the light unit, one between two others; a = (1, 2.5, 2.5, 2.5)."""
    truth = pn.Network(np.eye(4), output_weights=[1.0, 2.5, 2.5, 2.5])
    statistics = population_statistics(truth)
    h = sqrt(0.5)
    B = np.array([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, h, h]])
    P = interference(statistics, 4)
    assert P.value(B) == pytest.approx(2.0, rel=1e-12)  # the pair (1, 2) in both orders
    assert P.value(np.eye(4)) == 0.0
    assert second_order(P, B).is_minimum
    constants = constants_for_G(np.sort(truth.output_weights), C_4, 4)
    G = Design(statistics, constants, 4, euclidean=True)
    # With any curvature allowed the descent comes to rest near B: at a saddle of G.
    found = second_order(G, minimise(G, B, slope=1e-11, curvature=np.inf).B)
    assert found.slope < 1e-10 and found.lowest < -100 * theorem_curvature(constants)
    assert not found.is_minimum and not found.theorem_applies
    down = minimise(G, B, slope=1e-12, curvature=theorem_curvature(constants))
    assert down.converged
    rows = down.B / np.linalg.norm(down.B, axis=1, keepdims=True)
    assert direction_error(rows, truth.weights) < 1e-6


def theorem_curvature(constants: Constants) -> float:
    assert constants.theorem is not None
    return constants.theorem.curvature


# Sampling error


@pytest.mark.parametrize("seed", range(3))
def test_sampling_error_bounds_the_move_of_the_gradient_of_G(seed: int) -> None:
    truth = orthonormal(seed)
    X, y = pn.sample(truth, 20_000, rng=np.random.default_rng([seed, 14]))
    B = some_rows(seed, 4, 4)
    sampled, exact = (
        Design(statistics, SOME, 4, euclidean=True)
        for statistics in (BatchStatistics(X, y, RELU), population_statistics(truth))
    )
    move = np.linalg.norm(sampled.gradient(B) - exact.gradient(B))
    # Over 50 seeds between 0.05 and 0.37 of the bound.
    assert 0.02 * sampled.sampling_error(B) < move < sampled.sampling_error(B)
    assert exact.sampling_error(B) == 0.0
