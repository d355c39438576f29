"""Moves of the search: what changes the function, and what must not.

Networks at any depth are built from their answer, so that labels are explained to rounding. A layer
that is replaced by regression, with a ridge of 1e-12, leaves at most 1e-9 of the labels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import Fit
from provenet.fitting.model import Parameters, model_features
from provenet.fitting.search.moves import (
    costs_without_each,
    drops,
    promising_units,
    random_start,
    random_units,
    swapped,
    widened,
    with_layer,
    without,
)
from provenet.fitting.search.problem import Problem
from provenet.networks.piecewise import as_absolute

REGRESSED = 1e-9


def hidden(widths: tuple[int, ...], activation: str = "tanh", outputs: int | None = None):
    units = widths[0] if len(widths) == 1 else widths
    return pn.random_network(
        units, 5, outputs=outputs, activation=activation, bias_scale=1.0, rng=0
    )


def problem_of(network: pn.Network, n: int = 800) -> Problem:
    X, y = pn.sample(network, n, rng=1)
    activation = parameters_of(network)[1]
    return Problem(ArraySource(X, y), float(y.std()), np.inf, activation, layers=network.layers)


def parameters_of(network: pn.Network):
    """The model that is fitted, and its activation."""
    if network.layers == 1 and network.activation.slope is not None:
        network = as_absolute(network)
    return Parameters.of(network), network.activation


def residual(problem: Problem, parameters: Parameters) -> float:
    """Root mean square, of the labels' spread."""
    phi = model_features(parameters, problem.activation, problem.samples.X)[1]
    return (
        float(np.sqrt(np.mean((phi @ parameters.beta - problem.samples.y) ** 2))) / problem.spread
    )


def fit_at(problem: Problem, parameters: Parameters) -> Fit:
    return problem.refine(parameters, 0, 1.0)


def with_unit(parameters: Parameters, k: int, unit: Array, fed: Array) -> Parameters:
    """A further unit of layer k, and what it feeds."""
    layers = list(parameters.layers)
    layers[k] = np.vstack([layers[k], unit])
    if k == len(layers) - 1:
        m = parameters.units
        beta = np.insert(parameters.beta, m, fed, axis=0)
        return replace(parameters, beta=beta).with_layers(tuple(layers))
    layers[k + 1] = np.insert(layers[k + 1], -1, fed, axis=1)
    return parameters.with_layers(tuple(layers))


def with_a_copy(parameters: Parameters, k: int) -> Parameters:
    """The first unit of layer k twice, the copy feeding something of its own."""
    top = k == len(parameters.layers) - 1
    count = np.size(parameters.beta[0]) if top else len(parameters.layers[k + 1])
    fed = np.linspace(0.5, 1.0, count)
    fed = fed.reshape(parameters.beta.shape[1:]) if top else fed
    return with_unit(parameters, k, parameters.layers[k][0], fed)


# ---------------------------------------------------------------- new units


def test_random_units_bend_on_their_inputs() -> None:
    """Arguments of the spreads that were drawn, each zero at a sample, whatever the inputs' sizes;
    features that do not vary get no weight."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((500, 4)) * [1e-3, 1.0, 1e3, 0.0] + [5.0, 0.0, -7.0, 2.0]
    theta = random_units(inputs, 200, rng, spreads=(0.5, 2.0))
    z = inputs @ theta[:, :-1].T + theta[:, -1]
    assert np.abs(z).min(axis=0).max() < 1e-9 and np.all(theta[:, 3] == 0.0)
    sizes = np.linalg.norm(theta[:, :-1] * inputs.std(axis=0), axis=1)
    assert sizes.min() > 0.5 - 1e-9 and sizes.max() < 2 + 1e-9
    shares = np.mean((theta[:, :3] * inputs.std(axis=0)[:3] / sizes[:, None]) ** 2, axis=0)
    np.testing.assert_allclose(shares, 1 / 3, atol=5 * 0.3 / np.sqrt(200))


@pytest.mark.parametrize("outputs", [None, 3])
def test_promising_units_beat_random_ones(outputs: int | None) -> None:
    network = hidden((4,), "relu", outputs)
    problem, rng = problem_of(network, 600), np.random.default_rng(3)
    two = parameters_of(network)[0].keep(np.arange(4) < 2)

    def left(new: Array) -> float:
        return problem.refine(two.widened(new), 1, 1e-3).rss

    chance = np.median([left(random_units(problem.samples.X, 2, rng)) for _ in range(20)])
    assert left(promising_units(problem, two, 2, rng)) < chance


@pytest.mark.parametrize("widths", [(4,), (4, 3), (3, 3, 2)])
@pytest.mark.parametrize("outputs", [None, 2])
def test_growing_keeps_old_units_and_the_output(widths, outputs) -> None:
    """New units of the highest layer feed nothing yet; those below feed the next layer weakly."""
    network = hidden(widths, "tanh", outputs)
    problem, old = problem_of(network), parameters_of(network)[0]
    counts = tuple(range(2, 2 + len(widths)))
    new = widened(problem, old, counts, np.random.default_rng(0), feed=0.0)
    assert new.widths == tuple(w + c for w, c in zip(widths, counts, strict=True))
    assert residual(problem, new) < 1e-14
    fed = widened(problem, old, counts, np.random.default_rng(0))
    assert len(widths) == 1 or np.all(fed.theta[: widths[-1], widths[-2] : -1] != 0)


def test_a_start_has_the_widths_that_are_asked_for() -> None:
    problem = replace(problem_of(hidden((4, 3), outputs=2)), layers=3)
    start = random_start(problem, (3, 2, 2), np.random.default_rng(0))
    assert start.widths == (3, 2, 2) and start.beta.shape == (3, 2) and not start.beta.any()
    assert [layer.shape[1] for layer in start.layers] == [6, 4, 3]


@pytest.mark.parametrize("failures", [0, 3])
def test_swaps_exchange_the_least_useful_units(failures: int) -> None:
    """Four units that matter among twelve: two of the eight others go."""
    network = hidden((4,), "relu")
    problem, rng = problem_of(network, 600), np.random.default_rng(5)
    own = parameters_of(network)[0]
    wide = fit_at(problem, own.widened(random_units(problem.samples.X, 8, rng))).parameters
    other = swapped(problem, wide, failures, rng)
    kept = [i for i, unit in enumerate(wide.theta) if unit in other.theta]
    assert other.units == 12 and len(kept) == 10 and kept[:4] == [0, 1, 2, 3]


# ---------------------------------------------------------------- fewer units


@pytest.mark.parametrize(("widths", "outputs"), [((4,), None), ((4,), 2), ((4, 3), 2)])
def test_costs_are_what_dropping_a_unit_adds(widths, outputs) -> None:
    """By least squares without its column, written out."""
    network = hidden(widths, "relu", outputs)
    problem, parameters = problem_of(network, 600), parameters_of(network)[0]
    top = len(widths) - 1
    phi = model_features(parameters, problem.activation, problem.samples.X)[1]
    y = problem.samples.y
    for i, cost in enumerate(costs_without_each(problem, parameters, top)):
        rest = np.delete(phi, i, axis=1)
        direct = np.sum((y - rest @ np.linalg.lstsq(rest, y, rcond=None)[0]) ** 2)
        assert cost == pytest.approx(direct, rel=1e-6)


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_dropping_one_of_two_like_units_changes_nothing(layer: int, outputs: int | None) -> None:
    network = hidden((4, 3, 3), outputs=outputs)
    wide = with_a_copy(parameters_of(network)[0], layer)
    X, activation = pn.sample(network, 800, rng=1)[0], network.activation
    phi = model_features(wide, activation, X)[1]
    problem = replace(problem_of(network), samples=ArraySource(X, phi @ wide.beta))
    for unit in (0, wide.widths[layer] - 1):
        assert residual(problem, without(problem, wide, layer, np.array([unit]))) < REGRESSED
    assert residual(problem, without(problem, wide, layer, np.array([1]))) > 1e-3  # no copy


@pytest.mark.parametrize("layer", [0, 1])
def test_a_flip_with_a_unit_for_the_linear_term_changes_nothing(layer: int) -> None:
    """`max(z, 0) = max(-z, 0) + z`: a layer with a unit that is on for all samples may have any of
    its units reversed. Values of some 30 make the regression lose three digits."""
    network = hidden((4, 3), "relu")
    problem, parameters = problem_of(network), parameters_of(network)[0]
    theta, X = parameters.layers[layer], problem.samples.X
    on = theta[0] + np.append(np.zeros(theta.shape[1] - 1), 30.0)
    signs = np.where(np.arange(len(theta)) == 0, -1.0, 1.0)[:, None]
    flipped = np.vstack([theta * signs, on])
    moved = with_layer(parameters, layer, flipped, problem.activation, X)
    assert residual(problem, moved) < 1e3 * REGRESSED
    # None can be dropped alone, but the drop move finds the way back.
    ways = list(drops(problem, fit_at(problem, moved)))
    left = [fit_at(problem, way).rms / problem.spread for way in ways]
    assert min(left) < 1e3 * REGRESSED
    assert ways[int(np.argmin(left))].widths == network.widths


@pytest.mark.parametrize(
    ("widths", "activation"), [((4,), "relu"), ((4,), "tanh"), ((4, 3), "tanh")]
)
def test_all_useless_units_go_at_once_and_no_other(widths, activation) -> None:
    """Units that feed nothing: of one layer all, of several half of those that may go alone."""
    network = hidden(widths, activation)
    problem, wide = problem_of(network), parameters_of(network)[0]
    rng = np.random.default_rng(0)
    for k in range(len(widths)):
        for unit in random_units(rng.standard_normal((50, wide.layers[k].shape[1] - 1)), 3, rng):
            wide = with_unit(wide, k, unit, np.zeros(()))
    first, *others = drops(problem, fit_at(problem, wide))
    assert residual(problem, fit_at(problem, first).parameters) < REGRESSED
    assert sum(first.widths) == (sum(widths) if len(widths) == 1 else sum(wide.widths) - 3)
    assert all(sum(way.widths) < sum(wide.widths) for way in others)


def test_no_layer_of_several_is_left_without_units() -> None:
    problem = problem_of(hidden((1, 1)))
    fit = fit_at(problem, parameters_of(hidden((1, 1)))[0])
    assert not list(drops(problem, fit))


def test_odd_units_are_not_flipped() -> None:
    """Of tanh each unit is its own opposite: single drops are all."""
    problem = problem_of(hidden((3, 2)))
    ways = list(drops(problem, fit_at(problem, parameters_of(hidden((3, 2)))[0])))
    assert sorted(way.widths for way in ways) == [(2, 2)] * 3 + [(3, 1)] * 2
