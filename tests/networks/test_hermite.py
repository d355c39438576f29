"""Hermite polynomials and tensors: definition, recurrence, quadrature and closed forms agree."""

from __future__ import annotations

from math import factorial, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from scipy.special import roots_genlaguerre

from helpers import assert_symmetric, hermite_tensor, numbers
from provenet.moments.hermite_tensors import tensor_norm_squared
from provenet.networks.hermite import h, he, normal_cdf, normal_density, quadrature_coefficient

X = np.linspace(-4, 4, 33)


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (0, np.ones_like(X)),
        (1, X),
        (2, X**2 - 1),
        (3, X**3 - 3 * X),
        (4, X**4 - 6 * X**2 + 3),
        (5, X**5 - 10 * X**3 + 15 * X),
    ],
)
def test_the_first_polynomials(k: int, expected: np.ndarray) -> None:
    # Rounding of terms as large as 4^5.
    np.testing.assert_allclose(he(k, X), expected, rtol=0, atol=1e-12)


@given(st.integers(1, 10), st.floats(-5, 5))
def test_recurrence(k: int, x: float) -> None:
    terms = x * he(k, x), k * he(k - 1, x)
    # Rounding relative to the terms, which may cancel.
    assert he(k + 1, x) == pytest.approx(
        terms[0] - terms[1], abs=1e-12 * (1 + max(map(abs, terms)))
    )


@pytest.mark.parametrize("j", range(7))
@pytest.mark.parametrize("k", range(7))
def test_h_is_orthonormal(j: int, k: int) -> None:
    inner = quadrature_coefficient(lambda g: h(j, g), k) / sqrt(factorial(k))
    # The quadrature of a polynomial times the density is exact to rounding.
    assert inner == pytest.approx(float(j == k), abs=1e-12)


def test_density_and_distribution() -> None:
    np.testing.assert_allclose(normal_density(X), stats.norm.pdf(X), rtol=1e-14)
    np.testing.assert_allclose(normal_cdf(X), stats.norm.cdf(X), rtol=1e-14)


@pytest.mark.parametrize(("power", "moment"), [(0, 1), (2, 1), (4, 3), (6, 15), (8, 105)])
def test_quadrature_of_moments(power: int, moment: int) -> None:
    found = quadrature_coefficient(lambda g: g**power, 0)
    assert found == pytest.approx(moment, rel=1e-13)


def test_quadrature_needs_the_kink_and_takes_several() -> None:
    def function(g: np.ndarray) -> np.ndarray:
        return np.abs(g - 0.3) + (g > -1.0)

    exact = (2 * stats.norm.cdf(0.3) - 1) * 0.3 + 2 * stats.norm.pdf(0.3) + stats.norm.cdf(1.0)
    assert quadrature_coefficient(function, 0, (0.3, -1.0)) == pytest.approx(exact, abs=1e-13)
    # Points beyond the reach carry no mass and are left out.
    assert quadrature_coefficient(function, 0, (0.3, -1.0, 40.0)) == pytest.approx(exact, abs=1e-13)
    assert abs(quadrature_coefficient(function, 0) - exact) > 1e-4


def test_monte_carlo_agrees_with_quadrature() -> None:
    g = np.random.default_rng(0).standard_normal(200_000)
    for k in range(5):
        values = np.tanh(g + 0.5) * he(k, g)
        exact = quadrature_coefficient(lambda g: np.tanh(g + 0.5), k)
        # Five standard errors of the mean: held for each of 200 seeds.
        assert abs(values.mean() - exact) < 5 * values.std() / sqrt(len(g))


points = st.integers(1, 4).flatmap(lambda d: hnp.arrays(float, d, elements=numbers))


@given(st.integers(0, 5), points, st.integers(0, 10**6))
def test_the_tensor_along_a_unit_vector_is_the_polynomial(k: int, x: np.ndarray, seed: int) -> None:
    w = np.random.default_rng(seed).standard_normal(len(x))
    w /= np.linalg.norm(w)
    contracted = hermite_tensor(k, x)
    for _ in range(k):
        contracted = contracted @ w
    # Rounding of sums of up to 4^5 terms as large as 3^5.
    assert contracted == pytest.approx(float(he(k, x @ w)), abs=1e-10)


@given(st.integers(2, 5), points)
def test_tensors_are_symmetric(k: int, x: np.ndarray) -> None:
    assert_symmetric(hermite_tensor(k, x))


def test_low_tensors() -> None:
    x = np.array([1.0, -2.0, 0.5])
    assert hermite_tensor(0, x) == 1.0
    np.testing.assert_array_equal(hermite_tensor(1, x), x)
    np.testing.assert_array_equal(hermite_tensor(2, x), np.outer(x, x) - np.eye(3))
    # Entries are products of one-dimensional polynomials.
    fourth = hermite_tensor(4, x)
    assert fourth[0, 0, 1, 1] == pytest.approx(float(he(2, x[0]) * he(2, x[1])))
    assert fourth[0, 0, 0, 2] == pytest.approx(float(he(3, x[0]) * he(1, x[2])))


@given(st.integers(0, 4), points)
def test_norm_from_the_norm_of_the_point(k: int, x: np.ndarray) -> None:
    explicit = np.sum(hermite_tensor(k, x) ** 2)
    found = tensor_norm_squared(k, np.array([x @ x]), len(x))[0]
    # Rounding of a polynomial whose terms reach |x|^8 = 36^4.
    assert found == pytest.approx(explicit, rel=1e-10, abs=1e-9)


@pytest.mark.parametrize("k", range(5))
@pytest.mark.parametrize("d", [1, 3, 10])
def test_mean_norm(k: int, d: int) -> None:
    """`E ||He_k(x)||^2 = d (d+1) .. (d+k-1)`: k! times the dimension of symmetric tensors."""
    t, weight = roots_genlaguerre(8, d / 2 - 1)  # |x|^2 / 2 has a Gamma(d/2) distribution
    mean = weight @ tensor_norm_squared(k, 2 * t, d) / weight.sum()
    # Gauss quadrature is exact for polynomials; rounding of the cancelling terms is left.
    assert mean == pytest.approx(np.prod(np.arange(d, d + k)), rel=1e-10)


def test_the_norm_of_higher_tensors_is_not_known() -> None:
    with pytest.raises(ValueError, match="k <= 4"):
        tensor_norm_squared(5, np.ones(3), 2)
