"""Flips that change nothing but the output bias (ATV21, Theorem 3.4, Claim 4.8)."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import is_a_sentence
from provenet.common.typing import AnyArray, Array
from provenet.datasets.sign_ambiguous import sign_ambiguous_network
from provenet.networks.activations import Activation, get_activation
from provenet.networks.sign_ambiguities import (
    _by_programs,
    _from_null_space,
    _minimal,
    flip_sets,
    flipped,
    odd_slope,
)
from provenet.networks.signs import unit_terms
from provenet.networks.subset_sums import subsets_with_sum

Sets = set[tuple[int, ...]]


def integer_network(seed: int, units: int, features: int, outputs: int | None = None) -> pn.Network:
    """Small whole weights: many sums vanish exactly."""
    rng = np.random.default_rng(seed)
    W = rng.integers(-1, 2, size=(units, features)).astype(float)
    W[~W.any(axis=1)] = 1.0
    shape = units if outputs is None else (outputs, units)
    return pn.Network(W, rng.standard_normal(units), rng.choice([-1.0, 1.0, 2.0], shape))


def by_trying_all(V: Array) -> Sets:
    found: list[frozenset[int]] = []
    for size in range(1, V.shape[1] + 1):
        for units in combinations(range(V.shape[1]), size):
            new = frozenset(units)
            if not any(old <= new for old in found) and np.allclose(V[:, units].sum(axis=1), 0):
                found.append(new)
    return {tuple(sorted(units)) for units in found}


def as_sets(X: AnyArray) -> Sets:
    return {tuple(int(i) for i in np.flatnonzero(x)) for x in X}


@pytest.mark.parametrize(
    ("seed", "units", "features", "outputs"),
    [(0, 8, 2, None), (1, 12, 3, None), (2, 12, 2, 2), (3, 9, 1, None)],
)
def test_three_searches_agree_with_trying_all(
    seed: int, units: int, features: int, outputs: int | None
) -> None:
    net = integer_network(seed, units, features, outputs)
    V = unit_terms(net.output_weights, net.weights)
    expected = by_trying_all(V)
    assert expected
    null = np.linalg.svd(V)[2][np.linalg.matrix_rank(V) :].T
    found, complete = _from_null_space(null, V, 1e-9)
    assert complete and as_sets(_minimal(found)) == expected
    sums = subsets_with_sum(V.T, np.zeros(len(V)), 1e-9)
    assert sums.complete and as_sets(_minimal(sums.masks[sums.masks.any(axis=1)])) == expected
    found, complete = _by_programs(V, 1e-9, 20.0)
    assert complete and as_sets(found) == expected


@pytest.mark.parametrize("outputs", [None, 2])
def test_flips_give_the_same_outputs(outputs: int | None) -> None:
    rng = np.random.default_rng(0)
    net = pn.random_network(7, 4, outputs=outputs, rng=0)
    W, A = net.weights.copy(), net.output_weights.copy()
    # Two sets: units 0, 1, 2 in a plane with one vector of output weights, and units 3, 4, 5.
    for i, j, k in ((0, 1, 2), (3, 4, 5)):
        A[..., j] = A[..., k] = A[..., i]
        W[k] = -W[i] - W[j]
    net = net.replace(weights=W, output_weights=A)
    found = flip_sets(net)
    assert found.sets == ((0, 1, 2), (3, 4, 5)) and found.complete
    X = rng.standard_normal((1000, 4))
    for units in (*found.sets, (0, 1, 2, 3, 4, 5)):
        np.testing.assert_allclose(flipped(net, units)(X), net(X), rtol=0, atol=1e-13)
        assert pn.parameter_error(flipped(net, units), net) > 0.1
    assert np.abs(flipped(net, (0, 1))(X) - net(X)).max() > 0.1


@pytest.mark.parametrize(
    ("units", "features"),
    [(5, 8), (12, 8), (30, 10), (36, 6), (60, 45)],
)
def test_the_set_is_found_among_many_units(units: int, features: int) -> None:
    first, second = sign_ambiguous_network(units, features, rng=1)
    turned = tuple(np.flatnonzero((first.weights != second.weights).any(axis=1)))
    found = flip_sets(first)
    assert found.sets == (turned,) and found.complete


def test_programs_find_the_set_beyond_the_exact_searches() -> None:
    first, second = sign_ambiguous_network(50, 28, rng=0)
    turned = tuple(np.flatnonzero((first.weights != second.weights).any(axis=1)))
    found = flip_sets(first, budget=20.0)
    assert found.sets == (turned,)


def test_a_search_that_runs_out_of_time_says_so() -> None:
    network = pn.random_network(60, 3, rng=0)
    assert not flip_sets(network, budget=0.2).complete


@pytest.mark.parametrize("outputs", [None, 3])
def test_none_for_independent_terms(outputs: int | None) -> None:
    network = pn.random_network(6, 6, outputs=outputs, rng=0)
    assert flip_sets(network).sets == () and flip_sets(network).complete


def test_several_outputs_settle_signs_that_one_does_not() -> None:
    one, _ = sign_ambiguous_network(5, 3, rng=0)
    second = np.random.default_rng(1).standard_normal(5)
    two = one.replace(
        output_weights=np.vstack([one.output_weights, second]), output_bias=[0.0, 0.0]
    )
    assert flip_sets(one).sets and not flip_sets(two).sets


def test_units_without_effect_and_mere_exchanges_are_left_out() -> None:
    W = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    network = pn.Network(W, [0.5, -0.5, 0.1, 1.0], [1.0, 1.0, 0.0, 1.0])
    assert flip_sets(network).sets == ()
    other = network.replace(biases=[0.5, 0.3, 0.1, 1.0])  # now a flip gives another pair of units
    assert flip_sets(other).sets == ((0, 1),)


def test_nearly_is_a_matter_of_tolerance() -> None:
    network, _ = sign_ambiguous_network(6, 4, rng=0)
    moved = network.replace(weights=network.weights + 1e-5)
    assert not flip_sets(moved).sets
    assert flip_sets(moved, tolerance=1e-4).sets == flip_sets(network).sets


@given(st.permutations(range(8)))
def test_the_order_of_units_does_not_matter(order: list[int]) -> None:
    network = integer_network(4, 8, 2)
    names = np.argsort(order)
    expected = {tuple(sorted(int(names[i]) for i in units)) for units in flip_sets(network).sets}
    assert set(flip_sets(network.keep(np.array(order))).sets) == expected


def test_slope_of_the_odd_part() -> None:
    assert odd_slope(get_activation("relu")) == 1.0
    assert odd_slope(get_activation("leaky_relu(0.2)")) == pytest.approx(1.2)
    assert odd_slope(get_activation("abs")) == 0.0
    own = Activation("softplus", lambda z: np.logaddexp(0, z), np.tanh, kinked=False)
    for smooth in (own, *map(get_activation, ("softplus", "gelu", "gelu_tanh", "silu"))):
        assert odd_slope(smooth) == pytest.approx(1.0)
    for name in ("relu2", "sigmoid", "step", "exp", "tanh", "elu"):
        assert odd_slope(get_activation(name)) is None


@pytest.mark.parametrize("activation", ["abs", "relu2"])
def test_other_activations_have_none(activation: str) -> None:
    network, _ = sign_ambiguous_network(6, 4, rng=0)
    assert flip_sets(network.replace(activation=activation)).sets == ()


def test_a_linear_term_changes_no_set() -> None:
    network, _ = sign_ambiguous_network(6, 4, rng=0)
    assert flip_sets(network.replace(linear=np.ones(4))).sets == flip_sets(network).sets != ()


def test_leaky_units_flip_too() -> None:
    network = sign_ambiguous_network(6, 4, rng=0)[0].replace(activation="leaky_relu(0.2)")
    (units,) = flip_sets(network).sets
    X = np.random.default_rng(0).standard_normal((500, 4))
    np.testing.assert_allclose(flipped(network, units)(X), network(X), rtol=0, atol=1e-13)


def test_many_features_and_outputs_take_memory_as_the_weights_do() -> None:
    """3,000 equations for 4 units; all their left singular vectors would be 72 MB."""
    network = pn.random_network(4, 100, outputs=30, rng=0)
    tracemalloc.start()
    try:
        assert flip_sets(network).sets == ()
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


def test_bad_input() -> None:
    network = pn.random_network(3, 3, rng=0)
    with pytest.raises(pn.InvalidInput) as error:
        flip_sets(network, budget=0.0)
    is_a_sentence(error, "positive")
    with pytest.raises(pn.InvalidInput) as error:
        flipped(network.replace(activation="relu2"), [0])
    is_a_sentence(error, "linear")
