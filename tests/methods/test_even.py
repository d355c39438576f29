from __future__ import annotations

from itertools import combinations
from math import factorial, sqrt

import numpy as np
import pytest
from scipy.linalg import expm

from helpers import direction_error, is_a_sentence
from provenet.activations import Activation, get_activation
from provenet.exceptions import InvalidInput, NoAnswer
from provenet.hermite import h
from provenet.layered import LayeredNetwork, Polynomial, lowest_layer
from provenet.methods.even import (
    Coefficients,
    EvenMoments,
    Rest,
    Rotated,
    conditions,
    even,
    find_units,
    fit_rotation,
    maxima,
    refuse_misfit,
    sharper_moments,
    turns,
)
from provenet.sources import ArraySource
from provenet.typing import Array

ABS = get_activation("abs")
COS = Activation("cos", np.cos, lambda a: -np.sin(a), even=True, kinked=False)
BUMP = Activation(
    "bump",
    lambda a: a**2 * np.exp(-(a**2) / 2),
    lambda a: (2 * a - a**3) * np.exp(-(a**2) / 2),
    even=True,
    kinked=False,
)
SQUARE = Activation("square", np.square, lambda a: 2 * a, even=True, kinked=False)
QUARTIC = Activation(
    "quartic", lambda a: a**4 - 6 * a**2 + 3, lambda a: 4 * a**3 - 12 * a, even=True, kinked=False
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


def strengths(u: Activation, P: Polynomial) -> tuple[Array, Array]:
    """`C_i` and `C_ij` from the coefficients of P."""
    zero = hat(u, 0)
    C, CC = np.zeros(P.units), np.zeros((P.units, P.units))
    for monomial, c in P.terms.items():
        for i in monomial:
            C[i] += c * zero ** (len(monomial) - 1)
            for j in monomial:
                CC[i, j] += (i != j) * c * zero ** (len(monomial) - 2) if i != j else 0.0
    return C, CC


def exact_moments(u: Activation, P: Polynomial, W: Array) -> EvenMoments:
    """T_2 and T_4 by appendix D.3 with the constants of ERRATA 19."""
    C, CC = strengths(u, P)
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
    return EvenMoments.exact(T2, T4)


def samples(
    u: Activation, P: Polynomial, W: Array, n: int, seed: int, noise: float = 0.0
) -> ArraySource:
    rng = np.random.default_rng([seed, 2])
    X = rng.standard_normal((n, W.shape[1]))
    y = LayeredNetwork(lowest_layer(W, 0.0, u), P)(X)
    return ArraySource(X, y + noise * rng.standard_normal(n))


# ------------------------------------------------- closed forms


@pytest.mark.parametrize("u", [COS, BUMP], ids=lambda u: u.name)
def test_correlation_with_h4_is_the_corrected_polynomial(u: Activation) -> None:
    """`E[f h_4(z.x)]` by quadrature in the plane: sqrt(6), and no beta (ERRATA 19)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    a, b = np.meshgrid(nodes, nodes)
    P = Polynomial(2, {(): 0.4, (0,): 1.0, (1,): 0.6, (0, 1): 0.8})
    f = P(np.column_stack([u(a.ravel()), u(b.ravel())])).reshape(a.shape)
    C, CC = strengths(u, P)
    for angle in (0.0, 0.3, 1.1):
        z = np.array([np.cos(angle), np.sin(angle)])
        by_quadrature = weights @ (f * h(4, z[0] * a + z[1] * b)) @ weights
        gamma = sqrt(6) * hat(u, 2) ** 2 * CC[0, 1]
        expected = hat(u, 4) * C @ z**4 + gamma * z[0] ** 2 * z[1] ** 2
        assert by_quadrature == pytest.approx(expected, abs=1e-9)


def test_samples_have_the_exact_moments() -> None:
    W, P = orthonormal(3, 3, 0), top(3, 0)
    exact = exact_moments(COS, P, W)
    rest = Rest(samples(COS, P, W, 100_000, 0), W)
    sampled = sharper_moments(rest)
    back = sampled.basis.T
    T4 = np.einsum("abcd,ia,jb,kc,ld->ijkl", sampled.T4, back, back, back, back, optimize=True)
    # Z-TENSORS
    assert np.abs(T4 - exact.T4).max() < 0.06
    assert np.abs(back @ sampled.T2 @ back.T - exact.T2).max() < 0.02
    assert np.abs(exact.T4).max() > 0.5 and np.abs(exact.T2).max() > 0.5


# ------------------------------------------------- populations


@pytest.mark.parametrize("u", [ABS, COS, BUMP], ids=lambda u: u.name)
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("faithful", [False, True])
def test_population_is_answered_exactly(u: Activation, equal: bool, faithful: bool) -> None:
    for seed in range(3):
        W, P = orthonormal(5, 5, seed), top(5, seed, equal=equal)
        moments, c = exact_moments(u, P, W), Coefficients.of(u)
        found = find_units(moments, c, np.random.default_rng(seed), faithful=faithful)
        # the power method stops at steps of 1e-9 and converges linearly, least squares does not
        assert direction_error(found.Q, W) < (1e-6 if faithful else 1e-9)
        refuse_misfit(moments, found, c.kappa)
        C, _ = strengths(u, P)
        np.testing.assert_allclose(c.strengths(found), np.sort(C)[::-1], rtol=1e-6)


def test_conditions_are_those_of_theorem_10() -> None:
    W, P = orthonormal(4, 4, 0), top(4, 0, products=0.8)
    moments, u = exact_moments(COS, P, W), Coefficients.of(COS)
    found = find_units(moments, u, np.random.default_rng(0))
    C, CC = strengths(COS, P)
    order = np.argsort(-C)
    alpha, gamma = hat(COS, 4) * C[order], sqrt(6) * hat(COS, 2) ** 2 * CC[order][:, order]
    for c in conditions(found, u.sign(moments), np.zeros((4, 4))):
        i, j = c.units
        assert c.value == pytest.approx(alpha[i] + alpha[j] - gamma[i, j], abs=1e-9)
        # as printed, divided by u_4 / u_0, with sqrt(6) for 6
        ratio = sqrt(6) * hat(COS, 2) ** 2 / hat(COS, 4) * CC[order][:, order][i, j]
        assert c.holds == (C[order][i] + C[order][j] > ratio)


def test_maxima_of_abs_are_minima() -> None:
    W, P = orthonormal(3, 3, 0), top(3, 0)
    moments, u = exact_moments(ABS, P, W), Coefficients.of(ABS)
    assert u.sign(moments) == -1
    assert direction_error(maxima(-moments.T4, np.random.default_rng(0)), W) < 1e-6
    assert all(c.holds for c in conditions(Rotated.of(moments, W), -1.0, np.zeros((3, 3))))


@pytest.mark.parametrize(
    "pairs, units", [([(0, 1)], 2), ([(0, 1), (2, 3)], 4), ([(0, 1), (0, 2), (1, 2)], 3)]
)
def test_pairs_that_break_the_condition_are_found_and_named(
    pairs: list[tuple[int, int]], units: int
) -> None:
    W = orthonormal(units, units, 1)
    terms: dict[tuple[int, ...], float] = {(i,): 1.0 for i in range(units)}
    P = Polynomial(units, terms | dict.fromkeys(pairs, 3.0))
    moments, u = exact_moments(COS, P, W), Coefficients.of(COS)
    rng = np.random.default_rng(0)
    found = find_units(moments, u, rng)
    assert direction_error(found.Q, W) < 1e-7
    broken = [c.units for c in conditions(found, 1.0, np.zeros((units, units))) if not c.holds]
    assert len(broken) == len(pairs)
    # maxima of h_4 alone are mixtures, and that does not go unseen
    mixed = find_units(moments, u, rng, faithful=True)
    assert direction_error(mixed.Q, W) > 0.3
    with pytest.raises(NoAnswer):
        refuse_misfit(moments, mixed, u.kappa)


def test_two_equal_units_that_break_the_condition_seem_to_keep_it() -> None:
    """In the coordinates of the mixtures all odd entries vanish: only kappa tells."""
    W = np.eye(2)
    P = Polynomial(2, {(0,): 1.0, (1,): 1.0, (0, 1): 3.0})
    moments = exact_moments(COS, P, W)
    mixed = Rotated.of(moments, np.array([[1.0, 1.0], [1.0, -1.0]]) / sqrt(2))
    assert abs(mixed.t2[0, 1]) < 1e-12 and abs(mixed.t4[0, 0, 0, 1]) < 1e-12
    assert conditions(mixed, 1.0, np.zeros((2, 2)))[0].holds
    assert not conditions(Rotated.of(moments, W), 1.0, np.zeros((2, 2)))[0].holds
    kappa = Coefficients.of(COS).kappa
    assert kappa is not None
    assert mixed.iiii[0] / mixed.t2[0, 0] != pytest.approx(kappa, rel=0.2)


def test_turns_undo_a_small_rotation() -> None:
    W, P = orthonormal(4, 4, 2), top(4, 2)
    moments = exact_moments(COS, P, W)
    A = np.random.default_rng(0).standard_normal((4, 4))
    small = 1e-4 * (A - A.T)
    angle, _ = turns(Rotated.of(moments, expm(small) @ W), 1.0, 1.0)
    np.testing.assert_allclose(angle, -small, atol=1e-6)  # to second order
    back = fit_rotation(moments, expm(1000 * small) @ W)
    assert back is not None and direction_error(back.Q, W) < 1e-9


# ------------------------------------------------- samples


@pytest.mark.parametrize("u", [ABS, COS, BUMP], ids=lambda u: u.name)
@pytest.mark.parametrize("equal", [False, True])
def test_eight_units_from_ten_thousand_samples(u: Activation, equal: bool) -> None:
    # RATES
    W, P = orthonormal(8, 8, 0), top(8, 0, products=0.15, equal=equal)
    found = even(samples(u, P, W, 10_000, 0), u, rng=0)
    assert direction_error(found.weights, W) < 0.15
    np.testing.assert_allclose(found.weights @ found.weights.T, np.eye(8), atol=1e-9)
    assert len(found.conditions) == 28
    assert "8 orthonormal units" in found.evidence


def test_fewer_units_than_features() -> None:
    # RATES-SPAN
    W, P = orthonormal(4, 10, 0), top(4, 0)
    found = even(samples(COS, P, W, 5000, 0), COS, rng=0)
    assert found.weights.shape == (4, 10)
    assert direction_error(found.weights, W) < 0.1
    C, _ = strengths(COS, P)
    np.testing.assert_allclose(found.strengths, np.sort(C)[::-1], rtol=0.1)


def test_the_default_is_far_sharper_than_maxima_one_by_one() -> None:
    # RATES-SHARP
    W, P = orthonormal(8, 8, 1), top(8, 1, products=0.15)
    source = samples(COS, P, W, 30_000, 1)
    by_paper = direction_error(even(source, COS, faithful=True, rng=0).weights, W)
    by_default = direction_error(even(source, COS, rng=0).weights, W)
    assert by_default < 0.05 and by_default < by_paper / 2


def test_labels_with_noise() -> None:
    # RATES-NOISE
    W, P = orthonormal(4, 4, 2), top(4, 2)
    found = even(samples(COS, P, W, 50_000, 2, noise=0.5), COS, rng=0)
    assert direction_error(found.weights, W) < 0.15


def test_the_same_seed_gives_the_same_answer() -> None:
    W, P = orthonormal(3, 3, 3), top(3, 3)
    source = samples(COS, P, W, 5000, 3)
    first, second = (even(source, COS, rng=7).weights for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_broken_conditions_from_samples() -> None:
    # RATES-BROKEN
    W = orthonormal(4, 4, 1)
    terms: dict[tuple[int, ...], float] = {(i,): 1.0 for i in range(4)}
    P = Polynomial(4, terms | {(0, 1): 3.0, (2, 3): 3.0})
    source = samples(COS, P, W, 20_000, 1)
    found = even(source, COS, rng=0)
    assert direction_error(found.weights, W) < 0.1
    broken = [c for c in found.conditions if not c.holds]
    assert len(broken) == 2 and all(c.clear for c in broken)
    assert "condition fails for units" in found.evidence
    with pytest.raises(NoAnswer) as error:
        even(source, COS, faithful=True, rng=0)
    is_a_sentence(error)


def test_an_activation_without_second_coefficient() -> None:
    W, P = orthonormal(4, 4, 4), top(4, 4, products=0.0)
    source = samples(QUARTIC, P, W, 20_000, 4)
    found = even(source, QUARTIC, units=4, rng=0)
    assert direction_error(found.weights, W) < 0.01
    with pytest.raises(NoAnswer) as error:
        even(source, QUARTIC, rng=0)
    is_a_sentence(error, "units=4")


def test_one_unit() -> None:
    W = orthonormal(1, 5, 5)
    found = even(samples(COS, Polynomial(1, {(0,): 2.0}), W, 3000, 5), COS, rng=0)
    assert direction_error(found.weights, W) < 0.02
    assert found.conditions == ()


# ------------------------------------------------- no answer


def test_activations_that_do_not_serve() -> None:
    source = samples(COS, top(2, 0), orthonormal(2, 2, 0), 1000, 0)
    with pytest.raises(InvalidInput) as error:
        even(source, "relu")
    is_a_sentence(error, "even=True")
    with pytest.raises(NoAnswer) as refused:
        even(source, SQUARE)
    is_a_sentence(refused, "fourth Hermite coefficient of square vanishes")


def test_labels_that_are_not_even() -> None:
    W = orthonormal(3, 3, 0)
    X = np.random.default_rng(0).standard_normal((5000, 3))
    shifted = LayeredNetwork(lowest_layer(W, 0.5, COS), top(3, 0))
    with pytest.raises(NoAnswer) as error:
        even(ArraySource(X, shifted(X)), COS)
    is_a_sentence(error, "not an even function")


def test_a_number_of_units_that_does_not_show() -> None:
    W, P = orthonormal(8, 8, 0), top(8, 0, products=0.15)
    with pytest.raises(NoAnswer) as error:
        even(samples(BUMP, P, W, 2000, 0), BUMP, rng=0)
    is_a_sentence(error, "units=")
    rng = np.random.default_rng(0)
    with pytest.raises(NoAnswer) as error:
        even(ArraySource(rng.standard_normal((2000, 5)), rng.standard_normal(2000)), COS)
    is_a_sentence(error, "No unit stands")


def test_weights_that_are_not_orthonormal() -> None:
    W = orthonormal(4, 4, 0)
    W[1] = 0.8 * W[0] + 0.6 * W[1]
    with pytest.raises(NoAnswer) as error:
        even(samples(COS, top(4, 0), W, 20_000, 0), COS, rng=0)
    is_a_sentence(error, "not orthonormal")


def test_too_few_samples_to_tell_two_units_apart() -> None:
    W, P = orthonormal(8, 8, 0), top(8, 0, products=0.15, equal=True)
    with pytest.raises(NoAnswer) as error:
        even(samples(BUMP, P, W, 1000, 0), BUMP, units=8, rng=0)
    is_a_sentence(error, "samples")
