"""The indefinite power iteration on exact tensors: every unit, whatever its bias and sign."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import direction_error, exact_tensors, in_span, special_network, symmetrised
from provenet.common.typing import Array
from provenet.moments.decomposition import power_directions

EXACT = 1e-8
"""Rounding times the condition of T_2, and what 40 iterations leave."""

# Among many iterates those that have not settled must not be chosen: of order 3 where only units
# with b = 0 are left, of order 4 where only b = +-1 are. With output weights of both signs they are
# easily the largest by any measure relative to u T_2 u, which they can bring near zero.


def find(net: pn.Network, seed: int, weights: tuple[float, float] = (1.0, 1.0)) -> Array:
    T = exact_tensors(net)
    return power_directions(T[2], T[3], T[4], np.random.default_rng(seed), weights)


@pytest.mark.parametrize("trust", [(1.0, 1.0), (3.0, 1.0), (1.0, 3.0)])
@pytest.mark.parametrize("seed", range(5))
def test_all_units_with_biases_at_the_roots_among_them(
    seed: int, trust: tuple[float, float]
) -> None:
    net = in_span(special_network(seed, 20))
    assert direction_error(find(net, seed, trust), net.weights) < EXACT


@pytest.mark.parametrize("units", [1, 2, 5, 10])
@pytest.mark.parametrize("seed", range(3))
def test_few_units_and_many(units: int, seed: int) -> None:
    net = in_span(pn.random_network(units, 20, rng=seed))
    assert direction_error(find(net, seed), net.weights) < EXACT


@pytest.mark.parametrize("bias", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("seed", range(3))
def test_one_order_alone(bias: float, seed: int) -> None:
    """Biases all at 0 leave the fourth order alone, all at 1 or -1 the third: the other is zero."""
    net = in_span(special_network(seed, 20)).replace(biases=np.full(6, bias))
    assert direction_error(find(net, 0), net.weights) < EXACT


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("biases", ["roots", "zero", "any"])
def test_errors_of_the_tensors_move_the_directions_in_proportion(seed: int, biases: str) -> None:
    if biases == "roots":
        net = in_span(special_network(seed, 20))
    else:
        scale = 0.0 if biases == "zero" else 1.0
        net = in_span(pn.random_network(6, 20, bias_scale=scale, rng=seed))
    T = exact_tensors(net)
    rng = np.random.default_rng(seed)
    E = [symmetrised(rng.standard_normal(t.shape)) for t in T[2:]]

    def error(size: float) -> float:
        noisy = [t + size * e for t, e in zip(T[2:], E, strict=True)]
        found = power_directions(*noisy, np.random.default_rng(1), (2.0, 1.0))
        return direction_error(found, net.weights)

    # To first order, times the condition of the problem: over 50 seeds below 300.
    assert error(1e-7) < 1e-4
    assert error(1e-9) < 1e-6
