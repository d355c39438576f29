"""mu, lambda and delta: within the ranges of the theorems, whatever the spectrum."""

from __future__ import annotations

from math import factorial, sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import provenet as pn
from helpers import networks
from provenet.common.typing import Array
from provenet.landscape.constants import (
    SMALL,
    Constants,
    constants_for_F,
    constants_for_G,
    constants_for_whitened_F,
)
from provenet.landscape.objective import Theorem
from provenet.networks.activations import get_activation

C_4 = float(get_activation("relu").hermite(4, 0.0))
spectra = st.lists(st.floats(0.01, 100), min_size=1, max_size=6).map(sorted).map(np.array)
coefficients = st.floats(0.01, 10) | st.floats(-10, -0.01)
MARGIN = 1 + 1e-12  # rounding


def theorem_of(constants: Constants) -> Theorem:
    assert constants.theorem is not None
    return constants.theorem


def assert_within_theorem_5_1(
    constants: Constants, a: Array, c_4: float, d: int, slope: float, curvature: float
) -> None:
    """The conditions on mu, lambda, tau_0 and epsilon, letter by letter, for output weights a."""
    sigma_4 = c_4 / sqrt(factorial(4))
    alpha, beta = sqrt(6) * abs(sigma_4) * a, abs(sigma_4) / sqrt(24) * a
    mu, lam = constants.mu, constants.penalty
    assert constants.interference == pytest.approx(sqrt(6) * abs(sigma_4), rel=1e-12)
    assert constants.attraction == pytest.approx(mu * abs(sigma_4) / sqrt(24), rel=1e-12)
    kappa = alpha.max() / alpha.min()
    assert 0 < mu <= SMALL * alpha.min() / beta.max() * MARGIN
    assert lam >= 4 * max(mu * beta.max(), alpha.max()) / MARGIN
    tau = min(mu * beta.min() / (kappa * d), mu * beta.min() ** 2 / beta.max(), lam)
    assert 0 < curvature <= SMALL * tau * MARGIN
    # Proposition 5.6, whose lemmas are stated for mu beta.
    epsilon = min(alpha.min(), sqrt(curvature**3 / (mu * beta.min())))
    assert 0 < slope <= SMALL * epsilon * MARGIN


@given(spectra, coefficients, st.integers(1, 50))
def test_G_is_within_the_ranges_of_theorem_5_1(a: Array, c_4: float, d: int) -> None:
    constants = constants_for_G(a, c_4, d)
    theorem = theorem_of(constants)
    assert theorem.name == "Theorem 5.1"
    assert_within_theorem_5_1(constants, a, c_4, d, theorem.slope, theorem.curvature)
    assert constants.ridge == constants.decorrelation == 0.0


@given(spectra, coefficients, st.integers(1, 50))
def test_F_is_within_the_same_ranges_for_one_over_a(m: Array, c_4: float, d: int) -> None:
    """Theorem A.2, and A.1 for the gradient and the curvature on the way back."""
    constants = constants_for_F(m, c_4, d)
    theorem = theorem_of(constants)
    assert theorem.name == "Theorem A.4"
    slope, curvature = theorem.slope / sqrt(m[0]), theorem.curvature / m[0]
    assert_within_theorem_5_1(constants, 1 / m, c_4, d, slope, curvature)
    # Nor do the weights themselves break them: they lie between the eigenvalues.
    inside = np.linspace(1 / m[-1], 1 / m[0], 3)
    assert_within_theorem_5_1(constants, inside, c_4, d, slope, curvature)
    assert constants.ridge == constants.decorrelation == 0.0


@given(spectra, coefficients, st.integers(1, 50))
def test_whitened_F_is_within_them_as_it_stands(weights: Array, c_4: float, d: int) -> None:
    """Corollary A.3: nothing is lost on a way back."""
    constants = constants_for_whitened_F(weights, c_4, d)
    theorem = theorem_of(constants)
    assert theorem.name == "Corollary A.3"
    assert_within_theorem_5_1(constants, weights, c_4, d, theorem.slope, theorem.curvature)


@given(spectra, coefficients, st.integers(1, 50))
def test_F_undercomplete_is_within_the_ranges_of_theorem_A_5(m: Array, c_4: float, d: int) -> None:
    """For the accuracy epsilon_0 that its delta allows; m units in d features."""
    constants = constants_for_F(m, c_4, d, undercomplete=True)
    theorem = theorem_of(constants)
    # delta <= c sigma_4 epsilon_0 / (a_max m sqrt(d) kappa(M)^(1/2)), so epsilon_0 is at least
    hardness = m[-1] * len(m) * sqrt(d) * sqrt(m[-1] / m[0])
    accuracy = constants.ridge * hardness / (SMALL * abs(c_4) / sqrt(24))
    epsilon = min(
        constants.penalty * sqrt(m[0]),
        SMALL * constants.ridge / sqrt(m[-1]),
        SMALL * accuracy * constants.ridge * m[0],
    )
    assert 0 < theorem.slope <= epsilon * MARGIN


@given(spectra, coefficients, st.integers(1, 50))
def test_the_ridge_of_A_5_takes_its_half(m: Array, c_4: float, d: int) -> None:
    square, fewer = constants_for_F(m, c_4, d), constants_for_F(m, c_4, d, undercomplete=True)
    tau = theorem_of(square).curvature
    theorem = theorem_of(fewer)
    assert theorem.name == "Theorem A.5"
    assert 0 < fewer.ridge <= tau / 2 * MARGIN
    assert theorem.curvature <= tau - fewer.ridge + 1e-12 * tau
    assert theorem.slope <= theorem_of(square).slope * MARGIN
    assert (fewer.mu, fewer.penalty) == (square.mu, square.penalty)


@given(spectra, st.floats(0.1, 10))
def test_the_safeguard_is_as_large_as_the_error(a: Array, error: float) -> None:
    for constants_for, unit in ((constants_for_G, 1.0), (constants_for_F, a[0] ** -2)):
        one, two = (constants_for(a, C_4, 5, e).decorrelation for e in (error, 2 * error))
        assert two == pytest.approx(2 * one, rel=1e-12)
        # At least the sampling error of the first term itself: with less, rows collapse.
        assert one >= abs(C_4) / 2 * error * unit


def test_a_given_mu_is_taken() -> None:
    a = np.array([0.5, 1.0, 2.0])
    own = constants_for_G(a, C_4, 3).mu
    given_mu = constants_for_G(a, C_4, 3, mu=own / 10)
    assert given_mu.mu == own / 10
    theorem = theorem_of(given_mu)
    assert_within_theorem_5_1(given_mu, a, C_4, 3, theorem.slope, theorem.curvature)


@pytest.mark.parametrize("factor", [1.01, 1e3, 0.0, -1.0])
def test_no_theorem_speaks_of_a_mu_beyond_its_range(factor: float) -> None:
    a = np.array([0.5, 1.0, 2.0])
    for constants_for in (constants_for_G, constants_for_F, constants_for_whitened_F):
        mu = factor * constants_for(a, C_4, 3).mu
        beyond = constants_for(a, C_4, 3, mu=mu)
        assert beyond.theorem is None and beyond.mu == mu
    assert constants_for_F(a, C_4, 3, mu=mu, undercomplete=True).theorem is None


@given(networks(activations=("relu",), outputs=False))
def test_output_weights_lie_between_the_eigenvalues(network: pn.Network) -> None:
    """`b_i^T M^+ b_i = 1 / a_i` for independent rows."""
    W = network.canonical().weights
    assume(0 < len(W) <= network.features)
    assume(np.linalg.svd(W)[1][-1] > 1e-3)
    a = np.random.default_rng([len(W), 1]).uniform(0.1, 3.0, len(W))
    values = np.linalg.eigvalsh((W.T * a) @ W)[-len(W) :]
    assert values[0] <= a.min() * (1 + 1e-9) and a.max() <= values[-1] * (1 + 1e-9)
