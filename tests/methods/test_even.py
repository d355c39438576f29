"""Even units under a polynomial: moments against closed forms, exact recovery, what is said."""

from __future__ import annotations

from itertools import combinations
from math import factorial, sqrt

import numpy as np
import pytest
from scipy.linalg import expm

import provenet as pn
from helpers import direction_error, is_a_sentence
from provenet.certify.result import Recovery
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.methods.even import (
    EvenMoments,
    _alpha_gamma,
    _notes,
    broken_conditions,
    fit_rotation,
    maxima,
    strengths,
    turns,
)
from provenet.networks.activations import Activation, get_activation
from provenet.networks.hermite import h
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer

ABS = get_activation("abs")
COS = Activation("cos", np.cos, lambda a: -np.sin(a), symmetry="even", kinked=False)
BUMP = Activation(
    "bump",
    lambda a: a**2 * np.exp(-(a**2) / 2),
    lambda a: (2 * a - a**3) * np.exp(-(a**2) / 2),
    symmetry="even",
    kinked=False,
)
SQUARE = Activation("square", np.square, lambda a: 2 * a, symmetry="even", kinked=False)
QUARTIC = Activation(
    "quartic",
    lambda a: a**4 - 6 * a**2 + 3,
    lambda a: 4 * a**3 - 12 * a,
    symmetry="even",
    kinked=False,
)
"""He_4: its second coefficient vanishes."""


def hat(u: Activation, k: int) -> float:
    """The paper's normalised coefficient."""
    return float(u.hermite(k, 0.0)) / sqrt(factorial(k))


def orthonormal(units: int, features: int, seed: int) -> Array:
    rng = np.random.default_rng([seed, 0])
    return np.asarray(np.linalg.qr(rng.standard_normal((features, units)))[0].T)


def top(units: int, seed: int, products: float = 0.3, equal: bool = False) -> Polynomial:
    """Sum and products of pairs, with equal or random coefficients."""
    rng = np.random.default_rng([seed, 1])

    def draw(low: float, high: float) -> float:
        return (low + high) / 2 if equal else rng.uniform(low, high)

    terms: dict[tuple[int, ...], float] = {(i,): draw(0.5, 1.5) for i in range(units)}
    terms |= {pair: draw(0, 2 * products) for pair in combinations(range(units), 2)}
    return Polynomial(units, terms)


def exact_moments(u: Activation, P: Polynomial, W: Array) -> EvenMoments:
    """T_2 and T_4 by appendix D.3 with the constants of ERRATA 19."""
    C, CC = strengths(P, hat(u, 0))
    k = P.units
    alpha, gamma = hat(u, 4) * C, sqrt(6) * hat(u, 2) ** 2 * CC
    t4 = np.zeros((k,) * 4)
    for i in range(k):
        t4[i, i, i, i] = sqrt(24) * alpha[i]
        for j in range(k):
            if i != j:
                t4[i, i, j, j] = t4[i, j, i, j] = t4[i, j, j, i] = gamma[i, j] / sqrt(1.5)
    T2 = (W.T * (sqrt(2) * hat(u, 2) * C)) @ W
    T4 = np.einsum("ijkl,ia,jb,kc,ld->abcd", t4, W, W, W, W, optimize=True)
    return EvenMoments(T2, T4, 1.0, 1.0, np.eye(k))


def recovered(
    u: Activation,
    P: Polynomial,
    W: Array,
    n: int,
    seed: int,
    sigma: float = 0.0,
    **options: object,
) -> tuple[Recovery, Array, Array]:
    rng = np.random.default_rng([seed, 2])
    X = rng.standard_normal((n, W.shape[1]))
    y = LayeredNetwork(lowest_layer(W, 0.0, u), P)(X) + sigma * rng.standard_normal(n)
    result = pn.recover(X, y, method="even", activation=u, rng=seed, **options)  # type: ignore[arg-type]
    return result, X, y


# ------------------------------------------------- closed forms


@pytest.mark.parametrize("u", [COS, BUMP], ids=lambda u: u.name)
def test_correlation_with_h4_is_the_corrected_polynomial(u: Activation) -> None:
    """`E[f h_4(z.x)]` by quadrature in the plane: sqrt(6), and no beta (ERRATA 19)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    a, b = np.meshgrid(nodes, nodes)
    P = Polynomial(2, {(): 0.4, (0,): 1.0, (1,): 0.6, (0, 1): 0.8})
    f = P(np.column_stack([u(a.ravel()), u(b.ravel())])).reshape(a.shape)
    C, CC = strengths(P, hat(u, 0))
    for angle in (0.0, 0.3, 1.1):
        z = np.array([np.cos(angle), np.sin(angle)])
        by_quadrature = weights @ (f * h(4, z[0] * a + z[1] * b)) @ weights
        gamma = sqrt(6) * hat(u, 2) ** 2 * CC[0, 1]
        expected = hat(u, 4) * C @ z**4 + gamma * z[0] ** 2 * z[1] ** 2
        assert by_quadrature == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("u", [ABS, COS, BUMP], ids=lambda u: u.name)
def test_alpha_and_gamma_of_the_moments_are_those_of_the_polynomial(u: Activation) -> None:
    W, P = orthonormal(4, 4, 0), top(4, 0)
    alpha, gamma = _alpha_gamma(exact_moments(u, P, W), W)
    C, CC = strengths(P, hat(u, 0))
    np.testing.assert_allclose(alpha, hat(u, 4) * C, rtol=0, atol=1e-12)
    others = ~np.eye(4, dtype=bool)
    expected = sqrt(6) * hat(u, 2) ** 2 * CC
    np.testing.assert_allclose(gamma[others], expected[others], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("size", "holds"), [(2.3, False), (2.6, True), (5.0, True)])
def test_the_condition_of_a_polynomial_has_the_corrected_constant(size: float, holds: bool) -> None:
    """`alpha_i + alpha_j` is `size` times `u_2^2 C_ij`: enough from sqrt(6) = 2.45 on, not from 6.

    For abs the alpha are negative, so both sides are negated, and the product's coefficient is.
    """
    zero, two, four = (hat(ABS, k) for k in (0, 2, 4))
    c = -2 * abs(four) / (size * two**2 + 2 * abs(four) * zero)
    P = Polynomial(2, {(0,): 1.0, (1,): 1.0, (0, 1): c})
    (note,) = _notes(LayeredNetwork(lowest_layer(np.eye(2), 0.0, ABS), P))
    assert ("holds for every pair" in note) == holds and ("fails for 1 pair" in note) != holds


@pytest.mark.parametrize("u", [ABS, COS, BUMP], ids=lambda u: u.name)
@pytest.mark.parametrize("equal", [False, True])
def test_maxima_of_a_population_are_the_units(u: Activation, equal: bool) -> None:
    for seed in range(3):
        W, P = orthonormal(5, 5, seed), top(5, seed, equal=equal)
        moments = exact_moments(u, P, W)
        sign = np.sign(hat(u, 4))  # all C are positive; those of abs are minima
        found = maxima(sign * moments.T4, np.random.default_rng(seed))
        # the power method stops at steps of 1e-9 and converges linearly, least squares does not
        assert direction_error(found, W) < 1e-6
        assert direction_error(fit_rotation(moments, found), W) < 1e-9


def test_turns_undo_a_small_rotation() -> None:
    W, P = orthonormal(4, 4, 2), top(4, 2)
    moments = exact_moments(COS, P, W)
    A = np.random.default_rng(0).standard_normal((4, 4))
    small = 1e-4 * (A - A.T)
    angle, _ = turns(moments, expm(small) @ W)
    np.testing.assert_allclose(angle, -small, atol=1e-6)  # to second order
    assert direction_error(fit_rotation(moments, expm(1000 * small) @ W), W) < 1e-9


def test_maxima_are_mixtures_where_the_condition_fails() -> None:
    W = np.eye(2)
    P = Polynomial(2, {(0,): 1.0, (1,): 1.0, (0, 1): 3.0})
    C, CC = strengths(P, hat(COS, 0))
    alpha, gamma = hat(COS, 4) * C, sqrt(6) * hat(COS, 2) ** 2 * CC
    assert len(broken_conditions(alpha, gamma, 1.0)) == 1
    found = maxima(exact_moments(COS, P, W).T4, np.random.default_rng(0))
    mixed = np.array([[1.0, 1.0], [1.0, -1.0]]) / sqrt(2)
    assert direction_error(found, mixed) < 1e-6


def products_of_all(units: int, seed: int) -> Polynomial:
    """Sum, products of pairs and the product of all units."""
    P = top(units, seed, products=0.15)
    return Polynomial(units, P.terms | {tuple(range(units)): 0.6})


def test_h4_does_not_see_products_of_more_than_two_but_in_their_strengths() -> None:
    """`E[f h_4(z.x)]` of a product of four by quadrature in four dimensions."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(16)
    x = np.stack(np.meshgrid(*[nodes] * 4), axis=-1).reshape(-1, 4)
    w = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * 4), axis=-1), axis=-1).ravel()
    P = products_of_all(4, 0)
    C, CC = strengths(P, hat(COS, 0))
    z = np.array([0.5, -0.1, 0.7, 0.5])
    by_quadrature = w @ (P(COS(x)) * h(4, x @ z))
    pairs = sqrt(6) * hat(COS, 2) ** 2 * (z**2) @ CC @ (z**2) / 2
    # 16 nodes integrate cos times a quartic to 1e-9
    assert by_quadrature == pytest.approx(hat(COS, 4) * C @ z**4 + pairs, abs=1e-8)


@pytest.mark.parametrize("units", [4, 5])
def test_maxima_of_a_population_under_the_product_of_all(units: int) -> None:
    W = orthonormal(units, units, 1)
    moments = exact_moments(COS, products_of_all(units, 1), W)
    found = maxima(moments.T4, np.random.default_rng(0))
    assert direction_error(fit_rotation(moments, found), W) < 1e-9


# ------------------------------------------------- samples


@pytest.mark.parametrize("units", [4, 5])
def test_a_product_of_all_units_is_exact(units: int) -> None:
    """50 of 50 seeds each."""
    W, P = orthonormal(units, units, 0), products_of_all(units, 0)
    result, _, _ = recovered(BUMP, P, W, 2000, 0, units=units)
    assert result.status == "exact" and result.network is not None and result.layered is not None
    assert direction_error(result.network.weights, W) < 1e-9
    assert isinstance(result.layered.top, Polynomial)
    assert result.layered.top.terms[tuple(range(units))] == pytest.approx(0.6, abs=1e-9)


def test_samples_that_do_not_reach_the_degree_are_a_status() -> None:
    """99 samples to fit do for 49 parameters: 5 units with their pairs have 46, with triples 56."""
    W, P = orthonormal(5, 5, 0), products_of_all(5, 0)
    result, _, _ = recovered(BUMP, P, W, 110, 0, units=5, budget=1.0)
    assert not result.success
    assert "products of up to 2 units (there may be products of up to 5)" in result.message


@pytest.mark.parametrize(("u", "equal"), [(ABS, False), (BUMP, True)], ids=["abs", "bump"])
def test_eight_units_and_their_polynomial_are_exact(u: Activation, equal: bool) -> None:
    W, P = orthonormal(8, 8, 0), top(8, 0, products=0.15, equal=equal)
    result, X, y = recovered(u, P, W, 5000, 0, units=8)
    assert result.status == "exact" and result.network is not None
    assert direction_error(result.network.weights, W) < 1e-9
    assert result.layered is not None
    # eight units summed up to pairs: errors of 36 rounded products
    np.testing.assert_allclose(result.layered(X), y, atol=1e-11)
    found = np.sort(result.network.output_weights)
    np.testing.assert_allclose(found, np.sort(P.linear), atol=1e-10)
    assert result.layer is not None and "holds for every pair" in result.layer.notes[0]


def test_fewer_units_than_features_are_counted() -> None:
    W, P = orthonormal(4, 10, 0), top(4, 0)
    result, _, _ = recovered(COS, P, W, 5000, 0)
    assert result.status == "exact" and result.network is not None
    assert result.network.weights.shape == (4, 10)
    assert direction_error(result.network.weights, W) < 1e-9


def test_the_paper_alone_is_partial_and_its_error_is_of_the_size_it_says() -> None:
    W, P = orthonormal(6, 6, 1), top(6, 1, products=0.15)
    result, _, _ = recovered(ABS, P, W, 50_000, 1, units=6, faithful=True)
    assert result.status == "partial" and "not refined" in result.message
    assert result.network is not None and result.layer is not None
    error = direction_error(result.network.weights, W)
    assert 1e-4 < error < 5 * float(result.layer.angle_errors.max())
    refined, _, _ = recovered(ABS, P, W, 50_000, 1, units=6, faithful=True, refine=True)
    assert refined.status == "exact" and "refine" not in result.timings


def test_pairs_that_break_the_condition_are_found_and_named() -> None:
    W = orthonormal(4, 4, 1)
    terms: dict[tuple[int, ...], float] = {(i,): 1.0 for i in range(4)}
    P = Polynomial(4, terms | {(0, 1): 3.0, (2, 3): 3.0})
    result, _, _ = recovered(COS, P, W, 5000, 1, units=4)
    assert result.status == "exact" and result.network is not None and result.layer is not None
    assert direction_error(result.network.weights, W) < 1e-9
    assert "fails for 2 pairs by the polynomial found" in result.layer.notes[0]


def test_noise_that_is_given_is_recognised() -> None:
    W, P = orthonormal(4, 4, 2), top(4, 2)
    result, _, _ = recovered(COS, P, W, 1500, 2, sigma=0.1, units=4, noise=0.1)
    assert result.status == "within noise" and result.network is not None
    assert result.layer is not None
    error = direction_error(result.network.weights, W)
    assert 1e-5 < error < 5 * float(result.layer.angle_errors.max())
    # without it, what is left might be that of a bad minimum: the search goes on to its end
    unknown, _, _ = recovered(COS, P, W, 1500, 2, sigma=0.1, units=4, budget=0.5)
    assert unknown.status == "partial"
    wrong, _, _ = recovered(COS, P, W, 1500, 2, sigma=0.1, units=4, noise=0.05, budget=0.5)
    assert wrong.status == "partial"


def test_an_activation_without_second_coefficient() -> None:
    W, P = orthonormal(4, 4, 4), top(4, 4, products=0.0)
    result, X, y = recovered(QUARTIC, P, W, 20_000, 4, units=4)
    assert result.status == "exact" and result.network is not None
    assert direction_error(result.network.weights, W) < 1e-7
    unknown = pn.recover(X, y, method="even", activation=QUARTIC, rng=0)
    assert unknown.status == "failed" and "units=4" in unknown.message


def test_one_unit_under_a_polynomial_with_powers() -> None:
    W = orthonormal(1, 5, 5)
    result, _, _ = recovered(COS, Polynomial(1, {(0,): 2.0, (0, 0): 1.0}), W, 3000, 5)
    assert result.status == "exact" and result.network is not None
    assert direction_error(result.network.weights, W) < 1e-9


def test_inputs_of_any_covariance() -> None:
    W, P = orthonormal(3, 4, 6), top(3, 6)
    mix = np.random.default_rng(6).standard_normal((4, 4)) + 2 * np.eye(4)
    Z = np.random.default_rng(7).standard_normal((5000, 4))
    y = LayeredNetwork(lowest_layer(W, 0.0, COS), P)(Z)
    result = pn.recover(Z @ mix.T + 1.0, y, method="even", activation=COS, rng=0)
    assert result.status == "exact" and result.network is not None
    back = result.network.weights @ mix  # on Z again
    assert direction_error(back, W) < 1e-8
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1.0, atol=1e-8)


@pytest.mark.parametrize("seed", range(8, 16))
def test_few_samples_do_not_excuse_other_weights(seed: int) -> None:
    """`cos a + cos b = 2 cos p cos m` with `p, m = (a +- b) / 2`, which are not orthonormal."""
    X = np.random.default_rng(seed).standard_normal((100, 2))
    y = np.cos(X).sum(axis=1)
    result = pn.recover(X, y, method="even", activation=COS, units=2, rng=seed)
    if result.success:
        assert result.network is not None
        assert direction_error(result.network.weights, np.eye(2)) < 1e-8


# ------------------------------------------------- no answer


def test_activations_that_do_not_serve() -> None:
    W, P = orthonormal(2, 2, 0), top(2, 0)
    with pytest.raises(InvalidInput) as error:
        recovered(get_activation("sigmoid"), P, W, 1000, 0)
    is_a_sentence(error, "abs")
    result, _, _ = recovered(SQUARE, P, W, 1000, 0)
    assert result.status == "failed"
    assert "fourth Hermite coefficient of square vanishes" in result.message


@pytest.mark.parametrize("u", [COS, ABS], ids=lambda u: u.name)
def test_one_unit_too_few_is_no_success(u: Activation) -> None:
    W, P = orthonormal(4, 4, 0), top(4, 0)
    result, _, _ = recovered(u, P, W, 1500, 0, units=3, budget=1.0)
    assert not result.success


def test_one_unit_too_many_is_no_success() -> None:
    W, P = orthonormal(3, 5, 0), top(3, 0)
    result, _, _ = recovered(COS, P, W, 1500, 0, units=4)
    assert not result.success


def test_labels_of_another_activation_are_no_success() -> None:
    W, P = orthonormal(3, 3, 0), top(3, 0)
    X = np.random.default_rng(0).standard_normal((1500, 3))
    y = LayeredNetwork(lowest_layer(W, 0.0, BUMP), P)(X)
    assert not pn.recover(X, y, method="even", activation=COS, units=3, rng=0).success


def test_labels_without_a_network() -> None:
    rng = np.random.default_rng(0)
    result = pn.recover(
        rng.standard_normal((2000, 5)), rng.standard_normal(2000), method="even", activation=COS
    )
    assert result.status == "failed" and "more samples" in result.message
