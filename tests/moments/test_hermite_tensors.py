"""Hermite tensors: definition, symmetry, and their norm in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import roots_genlaguerre

from helpers import assert_symmetric, hermite_tensor, numbers
from provenet.moments.hermite_tensors import tensor_norm_squared
from provenet.networks.hermite import he

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
