"""Moments of any order: against closed forms, and against the pass for orders up to 4."""

from __future__ import annotations

import numpy as np

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.moments.estimation import estimate_moments
from provenet.moments.high_order import high_moments, memory_needed, population_high_moments
from provenet.moments.sums import MomentRequest
from provenet.moments.symmetric import SymmetricTensor, count, exponents, multiplicities


def test_samples_have_the_populations_moments() -> None:
    """Within five of the stated errors, for all orders up to 8."""
    net = pn.random_network(4, 3, rng=0)
    X = np.random.default_rng(1).standard_normal((40_000, 3))
    source = ArraySource(X, net(X))
    found = high_moments(source, source.standardisation(), 8)
    truth = population_high_moments(net, 8)
    for k in range(2, 9):
        off = found.tensors[k].entries - truth.tensors[k].entries
        size = np.sqrt(off**2 @ multiplicities(exponents(3, k)) / 3**k)
        assert 0.1 * found.errors[k] < size < 5 * found.errors[k], k


def test_orders_three_and_four_are_those_of_the_other_pass() -> None:
    net = pn.random_network(5, 4, rng=2)
    X = np.random.default_rng(3).standard_normal((900, 4)) * 2 + 1  # few: summed in double there
    source = ArraySource(X, net(X))
    s = source.standardisation()
    second = estimate_moments(source, MomentRequest(s, order=2)).tensors[2]
    other = estimate_moments(source, MomentRequest(s, 4, quadratic=second)).tensors
    found = high_moments(source, s, 6)
    for k in (1, 2, 3, 4):
        dense = SymmetricTensor.of_dense(other[k]).entries
        np.testing.assert_allclose(found.tensors[k].entries, dense, atol=1e-10)


def test_a_population_has_no_error_and_a_linear_term_counts() -> None:
    net = pn.random_network(3, 3, rng=4)
    linear = pn.Network(
        net.weights, net.biases, net.output_weights, 0.5, linear=np.array([1.0, 2.0, 3.0])
    )
    plain, moved = (population_high_moments(n, 6) for n in (net, linear))
    assert plain.errors == (0.0,) * 7
    np.testing.assert_allclose(moved.tensors[1].entries - plain.tensors[1].entries, [1, 2, 3])
    np.testing.assert_array_equal(moved.tensors[5].entries, plain.tensors[5].entries)


def test_memory_grows_with_the_square_of_the_monomials() -> None:
    assert memory_needed(10, 6) > 8 * count(11, 3) ** 2
    assert memory_needed(10, 8) > 5 * memory_needed(10, 6)
