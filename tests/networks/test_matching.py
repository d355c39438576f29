"""Matching of units and the distance between networks."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import provenet as pn
from helpers import networks, orders, permuted
from provenet.networks.canonical import match_units, unit_distances


@given(networks())
def test_a_network_is_at_no_distance_from_itself(network: pn.Network) -> None:
    assert pn.parameter_error(network, network) == 0.0


@given(
    networks(("relu", "abs", "relu2", "sigmoid")),
    orders,
    hnp.arrays(float, 4, elements=st.floats(0.1, 10)),
)
def test_order_and_scale_of_units_do_not_count(
    network: pn.Network, order: list[int], scale: np.ndarray
) -> None:
    other = permuted(network, order)
    degree, scale = network.activation.degree, scale[: network.units]
    if degree is not None:
        scale[np.linalg.norm(other.weights, axis=1) == 0] = 1.0
        other = other.replace(
            weights=other.weights * scale[:, None],
            biases=other.biases * scale,
            output_weights=other.output_weights / scale**degree,
        )
    # Rounding of parameters below 100.
    assert pn.parameter_error(other, network) <= 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_the_distance_is_symmetric(seed: int) -> None:
    first, second = pn.random_network(5, 3, rng=seed), pn.random_network(5, 3, rng=seed + 100)
    there, back = pn.parameter_error(first, second), pn.parameter_error(second, first)
    assert there == pytest.approx(back, rel=1e-12) and there > 0.1


def test_the_error_of_a_known_change() -> None:
    """One unit turned by 0.1, its bias moved by 0.02 and its output weight by 0.003."""
    net = pn.Network(np.eye(3), [0.1, 0.2, 0.3], [1.0, 2.0, -3.0], 0.5)
    weights = np.eye(3)
    weights[1] = [0.0, np.cos(0.1), np.sin(0.1)]
    changed = net.replace(
        weights=weights, biases=[0.1, 0.22, 0.3], output_weights=[1.0, 2.003, -3.0]
    )
    expected = 2 * np.sin(0.05) + 0.02 + 0.003
    assert pn.parameter_error(changed, net) == pytest.approx(expected, rel=1e-12)
    # The largest unit counts, not the sum; and the output bias and the linear term count too.
    worse = changed.replace(biases=[0.11, 0.22, 0.3])
    assert pn.parameter_error(worse, net) == pytest.approx(expected, rel=1e-12)
    assert pn.parameter_error(net.replace(output_bias=1.5), net) == 1.0
    assert pn.parameter_error(net.replace(linear=[0.0, 3.0, 4.0]), net) == 5.0
    assert pn.parameter_error(net.replace(linear=np.zeros(3)), net) == 0.0


def test_the_error_of_several_outputs() -> None:
    net = pn.random_network(4, 3, outputs=2, rng=0)
    change = np.zeros((2, 4))
    change[:, 2] = [3e-3, 4e-3]
    changed = net.replace(output_weights=net.output_weights + change)
    assert pn.parameter_error(changed, net) == pytest.approx(5e-3, rel=1e-9)


def test_networks_of_different_kinds_are_infinitely_far() -> None:
    net = pn.random_network(4, 3, rng=0)
    others = [
        pn.random_network(5, 3, rng=0),
        pn.random_network(4, 2, rng=0),
        pn.random_network(4, 3, outputs=2, rng=0),
        net.replace(activation="abs"),
        net.keep(np.arange(3)),
    ]
    assert all(pn.parameter_error(other, net) == np.inf for other in others)


@pytest.mark.parametrize("seed", range(5))
def test_the_matching_is_the_best_of_all(seed: int) -> None:
    first, second = (pn.random_network(4, 2, rng=10 * seed + i).canonical() for i in (1, 2))
    distance = unit_distances(first, second)
    for i, j in np.ndindex(4, 4):
        explicit = (
            np.linalg.norm(first.weights[i] - second.weights[j])
            + abs(first.output_weights[i] - second.output_weights[j])
            + abs(first.biases[i] - second.biases[j])
        )
        assert distance[i, j] == pytest.approx(explicit, rel=1e-12)
    rows, columns = match_units(first, second)
    best = min(sum(distance[i, p[i]] for i in range(4)) for p in permutations(range(4)))
    assert distance[rows, columns].sum() == pytest.approx(best, rel=1e-12)


def test_units_are_found_again() -> None:
    net = pn.random_network(6, 4, rng=3).canonical()
    near = permuted(net, [3, 1, 5, 0, 2, 4]).replace(output_weights=np.ones(6))
    rows, columns = match_units(near, net)
    # Distances between these units are above 0.5 in their weights and biases alone.
    near = near.canonical()
    np.testing.assert_array_equal(near.weights[rows], net.weights[columns])
