"""Untangling: the hidden layers come back from ones in which reversed units are made up for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.fitting.model import Parameters
from provenet.fitting.search.untangling import untangled

FEATURES, WIDTHS = 7, (5, 3)
FAR = 60.0
"""Of a unit's threshold that no sample reaches: it is straight."""


def truth_of(activation: str, outputs: int | None = None) -> pn.DeepNetwork:
    return pn.random_network(WIDTHS, FEATURES, outputs=outputs, activation=activation, rng=6)


def left(parameters: Parameters, truth: pn.DeepNetwork, X: Array) -> float:
    """Root mean square error of the function, over its spread."""
    y = truth(X)
    return float(np.std(parameters.deep_network(truth.activation)(X) - y) / np.std(y))


def lower_reversed(
    parameters: Parameters, which: list[int], rng: np.random.Generator
) -> Parameters:
    """Units of the lowest layer reversed, their arguments carried, mixed, by straight units."""
    (below,), above = parameters.lower, parameters.theta
    mix = rng.standard_normal((len(which), len(which)))
    carriers = mix @ below[which]
    fed = above[:, which] @ np.linalg.inv(mix)
    carriers[:, -1] += FAR
    turned = below.copy()
    turned[which] *= -1
    constant = above[:, -1] - FAR * fed.sum(axis=1)
    theta = np.column_stack([above[:, :-1], fed, constant])
    return replace(parameters, theta=theta, lower=(np.vstack([turned, carriers]),))


def upper_reversed(parameters: Parameters, which: list[int]) -> Parameters:
    """Units of the second layer reversed, their arguments carried by a pair of opposite units."""
    turned, beta = parameters.theta.copy(), parameters.beta
    a = beta[which]
    turned[which] *= -1
    carrier = np.atleast_2d(parameters.theta[which].T @ a)[:1]
    theta = np.vstack([turned, carrier, -carrier])
    return replace(
        parameters, theta=theta, beta=np.concatenate([beta[:-1], [1.0, -1.0], beta[-1:]])
    )


@pytest.mark.parametrize("activation", ["relu", "gelu", "softplus"])
def test_reversed_units_of_both_layers_come_back(activation: str) -> None:
    """Two or three of each layer, so that no drop of one with one reversed leaves little."""
    rng = np.random.default_rng(0)
    truth, X = truth_of(activation), rng.standard_normal((3000, FEATURES))
    tangled = upper_reversed(lower_reversed(Parameters.of(truth), [0, 2, 3], rng), [0, 1])
    assert tangled.widths == (8, 5) and left(tangled, truth, X) < 1e-12
    ways = list(untangled(tangled, truth.activation, X, truth(X).std(), 0.0))
    found = next(way for way in ways if way.widths == WIDTHS)
    assert left(found, truth, X) < 1e-7  # regressions with a ridge
    assert pn.parameter_error(found.deep_network(truth.activation), truth) < 1e-5


def test_several_outputs() -> None:
    rng = np.random.default_rng(1)
    truth, X = truth_of("relu", outputs=2), rng.standard_normal((3000, FEATURES))
    tangled = lower_reversed(Parameters.of(truth), [1, 4], rng)
    found = next(iter(untangled(tangled, truth.activation, X, truth(X).std(), 0.0)))
    assert found.widths == WIDTHS and left(found, truth, X) < 1e-7


def test_nothing_to_untangle_at_the_finest_drops_nothing() -> None:
    """Coarser ways drop units that are needed: whoever takes them refits and judges."""
    rng = np.random.default_rng(2)
    truth, X = truth_of("relu"), rng.standard_normal((3000, FEATURES))
    ways = list(untangled(Parameters.of(truth), truth.activation, X, truth(X).std(), 0.0))
    assert all(sum(way.widths) < sum(WIDTHS) for way in ways)
    assert all(left(way, truth, X) > 1e-4 for way in ways)


def test_ways_finer_than_asked_for_are_left_out() -> None:
    rng = np.random.default_rng(4)
    truth, X = truth_of("relu"), rng.standard_normal((3000, FEATURES))
    tangled = lower_reversed(Parameters.of(truth), [1, 4], rng)
    spread = float(truth(X).std())
    all_ways = [way.widths for way in untangled(tangled, truth.activation, X, spread, 0.0)]
    coarse = [way.widths for way in untangled(tangled, truth.activation, X, spread, 2e-2 * spread)]
    assert len(coarse) <= 1 and set(coarse) <= set(all_ways)
