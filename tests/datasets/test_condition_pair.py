"""Two networks that agree on almost all inputs (BJW19, Lemma 16)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import provenet as pn
from helpers import is_a_sentence
from provenet.datasets.condition_pair import condition_pair, differing_share

SLOPES = [1.0, 0.5, 0.1, 0.01]


@pytest.mark.parametrize("a", SLOPES)
def test_the_networks_differ_exactly_on_the_cone_between_the_kinks(a: float) -> None:
    first, second = condition_pair(a)
    X = np.random.default_rng(1).standard_normal((20_000, 2))
    inside = np.abs(X[:, 0]) < 2 * a * np.abs(X[:, 1])
    difference = second(X) - first(X)
    assert inside.any()
    assert np.all(difference[inside] > 0)
    # Values of about 1: what is left outside is rounding.
    np.testing.assert_allclose(difference[~inside], 0, atol=1e-14)


@pytest.mark.parametrize("a", SLOPES)
def test_share_of_inputs_that_differ(a: float) -> None:
    first, second = condition_pair(a)
    n = 400_000
    X = np.random.default_rng(2).standard_normal((n, 2))
    counted = int(np.sum(np.abs(second(X) - first(X)) > 1e-12))
    # A binomial count: chance beyond these bounds is 1e-6, for any seed.
    low, high = stats.binom.ppf([5e-7, 1 - 5e-7], n, differing_share(a))
    assert low <= counted <= high


def test_share_by_integration() -> None:
    """Two routes: the angle of the cone, and the density of the first input given the second."""
    a = 0.3
    by_integral = integrate.quad(
        lambda t: 2 * stats.norm.pdf(t) * (2 * stats.norm.cdf(2 * a * t) - 1), 0, np.inf
    )[0]
    assert differing_share(a) == pytest.approx(by_integral, abs=1e-10)


def test_share_is_proportional_to_a() -> None:
    assert differing_share(1e-3) == pytest.approx(4e-3 / np.pi, rel=1e-5)  # next term a^3


@pytest.mark.parametrize("a", [0.5, 0.1, 0.01])
def test_condition_numbers_and_canonical_form(a: float) -> None:
    for network, slope in zip(condition_pair(a), (a, 2 * a), strict=True):
        np.testing.assert_allclose(np.linalg.norm(network.weights, axis=1), 1, rtol=1e-15)
        assert np.linalg.cond(network.weights) == pytest.approx(1 / slope, rel=1e-12)
        assert pn.parameter_error(network, network.canonical()) < 1e-15


@pytest.mark.parametrize("a", [0.0, -0.1, 1.5, np.nan, np.inf])
def test_a_out_of_range(a: float) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        condition_pair(a)
    is_a_sentence(error, "above 0")
