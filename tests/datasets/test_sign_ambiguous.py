"""Two different networks with the same function (ATV21, Claim 4.8)."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.datasets.sign_ambiguous import sign_ambiguous_network
from provenet.networks.risk import population_risk
from provenet.networks.signs import flip_sets

SIZES = [(3, 2), (3, 10), (6, 4), (12, 8), (20, 3)]


@pytest.mark.parametrize(("units", "features"), SIZES)
def test_two_networks_one_function(units: int, features: int) -> None:
    first, second = sign_ambiguous_network(units, features, rng=0)
    assert first.weights.shape == second.weights.shape == (units, features)
    assert pn.parameter_error(first, second) > 0.1
    X = np.random.default_rng(1).standard_normal((1000, features))
    # Sums of twenty terms of size 1 at most, of inputs up to 4.
    np.testing.assert_allclose(first(X), second(X), rtol=0, atol=1e-13)
    assert population_risk(first, second) < 1e-13


@pytest.mark.parametrize(("units", "features"), SIZES)
def test_the_set_is_named(units: int, features: int) -> None:
    first, second = sign_ambiguous_network(units, features, rng=0)
    turned = tuple(np.flatnonzero((first.weights != second.weights).any(axis=1)))
    assert len(turned) == min(units, features + 1)
    for network in (first, second):
        assert turned in flip_sets(network).sets


def test_no_two_units_are_parallel_and_weights_have_norm_one() -> None:
    for seed in range(20):
        W = sign_ambiguous_network(5, 4, rng=seed)[0].weights
        np.testing.assert_allclose(np.linalg.norm(W, axis=1), 1, rtol=1e-14)
        cosines = np.abs(W @ W.T - np.eye(5))
        assert cosines.max() < 0.999


def test_the_same_seed_gives_the_same_pair() -> None:
    one, two = (sign_ambiguous_network(4, 3, rng=7) for _ in range(2))
    assert pn.parameter_error(one[0], two[0]) == pn.parameter_error(one[1], two[1]) == 0


@pytest.mark.parametrize(("units", "features"), [(2, 3), (5, 1)])
def test_too_small(units: int, features: int) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        sign_ambiguous_network(units, features)
    is_a_sentence(error, "three units")
