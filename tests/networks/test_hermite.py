"""Hermite polynomials: definition, recurrence, quadrature and closed forms agree."""

from __future__ import annotations

from math import factorial, sqrt

import numpy as np
import pytest
from scipy import stats

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
