"""Where the papers' text would mislead: the right formula holds, and the printed one does not.

The numbers are those of shared/ERRATA.md.
"""

from __future__ import annotations

from math import factorial, pi, sqrt

import numpy as np
import pytest
from scipy.special import factorial2

import provenet as pn
from helpers import exact_tensors, identity_standardisation, special_network
from provenet.fitting.moment_start import algorithm_4
from provenet.moments.decomposition import jennrich
from provenet.moments.population import population_moments
from provenet.moments.scalars import scalars_from_coefficients
from provenet.moments.subspace import span_of_units
from provenet.moments.sums import MomentRequest
from provenet.networks.activations import RELU
from provenet.networks.hermite import h, he, normal_density


def double_factorial(n: int) -> float:
    return 1.0 if n <= 0 else float(factorial2(n))


# ---------------------------------------------------------------- GLM17, 1


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_glm17_1_hermite_coefficients_of_relu(n: int) -> None:
    found = float(RELU.hermite(n, 0.0)) / sqrt(factorial(n))
    right = (-1) ** ((n - 2) // 2) * double_factorial(n - 3) / sqrt(2 * pi * factorial(n))
    printed = double_factorial(n - 3) ** 2 / sqrt(2 * pi * factorial(n))
    assert found == pytest.approx(right, rel=1e-14)
    # The definition itself, by quadrature: no formula of the paper's is involved.
    x, weight = np.polynomial.legendre.leggauss(200)
    x, weight = 6 * (x + 1), 6 * weight  # relu is zero below 0; 12 deviations hold all the mass
    assert found == pytest.approx(weight @ (x * h(n, x) * normal_density(x)), abs=1e-13)
    if n > 2:
        assert abs(found - printed) > 0.05


def test_glm17_1_values() -> None:
    values = [float(RELU.hermite(n, 0.0)) / sqrt(factorial(n)) for n in (2, 4, 6)]
    assert values == pytest.approx([0.28209, -0.08143, 0.0446], abs=5e-5)
    for n in (3, 5, 7):
        assert RELU.hermite(n, 0.0) == 0.0


# ---------------------------------------------------------------- ATV21, 6


def printed_scalars(zeta: np.ndarray, order: int) -> tuple[float, float]:
    """ATV21, Algorithm 2, second branch, letter by letter."""
    q = order + 1 + int(np.argmax(np.abs(zeta[1:3])))
    here, below, above = (zeta[q - order + shift] for shift in (0, -1, 1))
    b = -(above + q * below) / here
    with np.errstate(divide="ignore"):
        return sqrt(2 * pi) * (-1) ** q * here * np.exp(b**2 / 2) / he(q, b), b


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("b", [-1.3, -0.4, 0.6, 1.7])
def test_atv21_6_the_recurrence_has_order_q_minus_2(order: int, b: float) -> None:
    a = -0.8
    zeta = np.array(
        [(-1) ** j * a * float(normal_density(b) * he(j - 2, b)) for j in range(order, order + 4)]
    )
    found_a, found_b = scalars_from_coefficients(zeta[:, None], order)
    # Rounding.
    assert found_b[0] == pytest.approx(b, abs=1e-12) and found_a[0] == pytest.approx(a, abs=1e-12)
    printed_a, printed_b = printed_scalars(zeta, order)
    assert abs(printed_b - b) > 0.1 and not abs(printed_a - a) < 0.1


def test_atv21_6_the_paper_s_lemma_4_5_is_right_in_its_own_indexing() -> None:
    """With `gamma_j = (-1)^j beta He_j(z)`, j from 0, multiplier and polynomial have order q."""
    z, beta = 0.6, -0.8
    gamma = np.array([(-1) ** j * beta * float(he(j, z)) for j in range(2, 6)])
    a, b = printed_scalars(gamma, 2)
    assert b == pytest.approx(z) and a * normal_density(z) == pytest.approx(beta)


# ---------------------------------------------------------------- ATV21, 7


@pytest.mark.parametrize("seed", range(3))
def test_atv21_7_the_flattening_for_the_rank_of_order_4(seed: int) -> None:
    """Order 2l + 2 = 4 flattens to (l, l + 2) = (1, 3): rank 4, two of six units having b = +-1."""
    net = special_network(seed, 7).canonical()
    moments = population_moments(net, MomentRequest(identity_standardisation(7), 4))
    T4 = moments.tensors[4]
    values = np.linalg.svd(T4.reshape(7, 7**3), compute_uv=False)
    assert np.sum(values > 1e-12 * values[0]) == 4
    with pytest.raises(ValueError, match="reshape"):  # (l, l + 1), as printed, has too few entries
        T4.reshape(7, 7**2)
    W, evidence = algorithm_4(moments, None, np.random.default_rng(seed))
    assert "T_3 has rank 4 and T_4 rank 4" in evidence
    assert len(W) == 6


# ---------------------------------------------------------------- ATV21, 8


def test_atv21_8_which_coefficients_vanish_where() -> None:
    b = np.linspace(-4, 4, 161)
    assert (RELU.hermite(2, b) > 0).all()
    np.testing.assert_allclose(RELU.hermite(2, b), normal_density(b), rtol=1e-14)
    assert RELU.hermite(3, 0.0) == 0 and (RELU.hermite(3, b[np.abs(b) > 0.01]) != 0).all()
    assert RELU.hermite(4, np.array([-1.0, 1.0])).tolist() == [0, 0]
    assert (RELU.hermite(4, b[np.abs(np.abs(b) - 1) > 0.01]) != 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_atv21_8_order_2_shows_every_unit_and_orders_3_and_4_miss_different_ones(seed: int) -> None:
    """The proof of Theorem 4.2 names He_1 and He_3: by these a unit with b = 0 would be lost."""
    net = special_network(seed, 7)
    T = exact_tensors(net)
    assert span_of_units(T[2], 0.0).rank == 6

    def strongest(T: np.ndarray, rank: int) -> np.ndarray:
        """For each unit, how nearly one of the terms of T points its way."""
        found = jennrich(T.reshape(7, 7, -1), rank, np.random.default_rng(seed))
        return np.abs(net.weights @ found.T).max(axis=1)

    in_third, in_fourth = strongest(T[3], 4), strongest(T[4], 4)
    # Found to rounding, or not: two random directions in 7 dimensions are not within 1e-3.
    np.testing.assert_array_equal(1 - in_third < 1e-12, net.biases != 0)
    np.testing.assert_array_equal(1 - in_fourth < 1e-12, np.abs(net.biases) != 1)
    assert (in_fourth[net.biases == 0] > 1 - 1e-12).all() and he(3, 0.0) == 0


def test_atv21_8_a_network_without_biases_has_no_third_order() -> None:
    net = pn.random_network(4, 5, bias_scale=0.0, rng=0)
    T = exact_tensors(net)
    assert not T[3].any()
    assert span_of_units(T[2], 0.0).rank == 4
