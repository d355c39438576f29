"""Random layers, wider and narrower ones: what changes the function, and what must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import Ended, Fit
from provenet.fitting.model import Parameters
from provenet.fitting.output_layer import fit_linear_part
from provenet.fitting.search.layers import SeveralLayers, random_layer, without
from provenet.fitting.search.moves import moves_of
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.pruning import prune
from provenet.fitting.search.tolerances import FOLD_ROWS, LAYER_SPREADS
from provenet.fitting.search.units import OneLayer
from provenet.networks.activations import Activation

MOVES = SeveralLayers()
FOLDED = 1e-9
"""Of the labels: what a regression by normal equations, with a ridge of 1e-12, leaves of values
that it could explain exactly."""


def deep(
    widths: tuple[int, ...] = (4, 3),
    activation: str = "tanh",
    outputs: int | None = None,
    seed: int = 0,
) -> pn.DeepNetwork:
    return pn.random_network(widths, 5, outputs=outputs, activation=activation, rng=seed)


def problem_of(network: pn.DeepNetwork, n: int = 800, noise: float = 0.0) -> Problem:
    X, y = pn.sample(network, n, noise=noise, rng=1)
    return Problem(
        ArraySource(X, y), float(y.std()), activation=network.activation, layers=network.layers
    )


def values(parameters: Parameters, activation: Activation, X: Array) -> Array:
    return parameters.deep_network(activation)(X)


def left_by(problem: Problem, parameters: Parameters) -> float:
    """Root mean square of what is left of the labels, of their spread."""
    r = values(parameters, problem.activation, problem.samples.X) - problem.samples.y
    return float(np.sqrt(np.mean(r**2))) / problem.spread


def fit_of(problem: Problem, parameters: Parameters) -> Fit:
    size = left_by(problem, parameters) * problem.spread
    return Fit(parameters, size**2 * problem.samples.labels, problem.samples.labels, 0, Ended.ZERO)


def with_unit(
    network: pn.DeepNetwork, layer: int, weights: Array, bias: float, fed: Array
) -> pn.DeepNetwork:
    """A further unit of a layer, and what it feeds."""
    W, b = list(network.weights), list(network.biases)
    W[layer], b[layer] = np.vstack([W[layer], weights]), np.append(b[layer], bias)
    W[layer + 1] = np.column_stack([W[layer + 1], fed])
    return network.replace(weights=W, biases=b)


def with_a_copy(network: pn.DeepNetwork, layer: int) -> pn.DeepNetwork:
    W, b = network.affine_maps[layer]
    fed = np.linspace(0.5, 1.0, len(network.weights[layer + 1]))
    return with_unit(network, layer, W[0], b[0], fed)


# ---------------------------------------------------------------- random layers


def test_random_units_bend_on_the_inputs_given() -> None:
    """Arguments of the spread that was drawn, and both sides of the threshold seen by each unit."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((4000, 3)) * [1e-3, 1.0, 1e3] + [5.0, 0.0, -7.0]
    theta = random_layer(inputs, 200, rng)
    assert theta.shape == (200, 4)
    spread = (inputs @ theta[:, :-1].T).std(axis=0)
    low, high = LAYER_SPREADS
    assert np.all((spread > low - 1e-9) & (spread < high + 1e-9))
    # A unit counts on no feature more than on another, whatever their sizes: thirds of 200.
    shares = (theta[:, :-1] * inputs.std(axis=0)) ** 2
    shares = np.mean(shares / shares.sum(axis=1, keepdims=True), axis=0)
    np.testing.assert_allclose(shares, 1 / 3, atol=5 * 0.3 / np.sqrt(200))


def test_thresholds_lie_half_way_to_a_sample() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((500, 3))
    theta = random_layer(inputs, 50, rng)
    z = inputs @ theta[:, :-1].T
    gaps = np.abs(0.5 * z + theta[:, -1]).min(axis=0)
    np.testing.assert_allclose(gaps, 0.0, atol=1e-12)


@pytest.mark.parametrize("constant", [0.0, 1.0, 1.0 - 1e-12])
def test_inputs_that_do_not_vary_get_no_weight(constant: float) -> None:
    """Of units that are dead or saturated, up to rounding."""
    rng = np.random.default_rng(0)
    inputs = np.column_stack([rng.standard_normal(100), np.full(100, constant)])
    inputs[0, 1] = 1.0 if constant else 0.0
    theta = random_layer(inputs, 10, rng)
    assert np.all(theta[:, 1] == 0.0) and np.all(np.abs(theta[:, 0]) > 0.1)
    none = random_layer(np.ones((100, 2)), 4, rng)
    np.testing.assert_array_equal(none, 0.0)


# ---------------------------------------------------------------- starting and growing


@pytest.mark.parametrize(
    ("units", "layers", "widths"), [(6, 2, (3, 3)), (7, 3, (3, 2, 2)), (1, 2, (1, 1))]
)
def test_a_start_shares_units_out(units: int, layers: int, widths: tuple[int, ...]) -> None:
    problem = replace(problem_of(deep(outputs=2)), layers=layers)
    start = MOVES.start(problem, units, np.random.default_rng(0))
    assert start.widths == widths and start.beta.shape == (widths[-1] + 1, 2)
    assert not start.beta.any()
    shapes = [layer.shape[1] - 1 for layer in start.layers]
    assert shapes == [5, *widths[:-1]]


def test_growing_leaves_old_units_what_they_were_given_and_outputs_near() -> None:
    """New units of the highest layer feed nothing yet, those below it feed a little."""
    network = deep()
    problem, parameters = problem_of(network), Parameters.of(network)
    grown = MOVES.grown(problem, parameters, 4, np.random.default_rng(0))
    assert grown.widths == (6, 5)
    np.testing.assert_array_equal(grown.layers[0][:4], parameters.layers[0])
    np.testing.assert_array_equal(grown.theta[:3, :4], parameters.theta[:, :-1])
    np.testing.assert_array_equal(grown.theta[:3, -1], parameters.theta[:, -1])
    assert np.all(grown.theta[:3, 4:6] != 0)
    np.testing.assert_array_equal(grown.beta[:3], parameters.beta[:3])
    np.testing.assert_array_equal(grown.beta[3:5], 0.0)
    assert grown.beta[-1] == parameters.beta[-1]
    silent = grown.theta.copy()
    silent[:3, 4:6] = 0.0
    assert left_by(problem, replace(grown, theta=silent)) < 1e-14


def test_growing_only_one_layer_is_possible() -> None:
    network = deep()
    grown = MOVES.grown(problem_of(network), Parameters.of(network), 1, np.random.default_rng(0))
    assert grown.widths == (5, 3)


@pytest.mark.parametrize("failures", [0, 2])
def test_swaps_exchange_the_least_useful_units(failures: int) -> None:
    """One unit a layer; of a unit and its copy, which cost nothing, or of more after failures."""
    network = with_a_copy(with_a_copy(deep(), 0), 1)
    problem, parameters = problem_of(network), Parameters.of(network)
    old, copies_left = parameters.layers[0], set()
    for seed in range(8):
        swapped = MOVES.swapped(problem, parameters, failures, np.random.default_rng(seed))
        assert swapped.widths == network.widths
        kept = [unit for unit in swapped.layers[0] if np.any(np.all(old == unit, axis=1))]
        assert len(kept) == network.widths[0] - 1
        copies_left.add(sum(bool(np.all(unit == old[0])) for unit in kept))
    assert copies_left == ({1, 2} if failures else {1})


# ---------------------------------------------------------------- folding


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_dropping_one_of_two_like_units_changes_nothing(layer: int, outputs: int | None) -> None:
    network = with_a_copy(deep((4, 3, 3), outputs=outputs), layer)
    problem = problem_of(network)
    for unit in (0, network.widths[layer] - 1):
        narrower = without(problem, Parameters.of(network), layer, np.array([unit]))
        assert sum(narrower.widths) == network.units - 1
        assert left_by(problem, narrower) < FOLDED
    other = without(problem, Parameters.of(network), layer, np.array([1]))
    assert left_by(problem, other) > 1e-3  # this one is no copy


@pytest.mark.parametrize("layer", [0, 1])
def test_dropping_a_combination_of_others_changes_nothing(layer: int) -> None:
    """ReLU units of w and of -w, and one that is on for all samples: each is made of the others.

    The last has values of some 30, whose squares make its regression lose three digits.
    """
    network = deep((4, 3), "relu")
    W, b = network.affine_maps[layer]
    fed = np.linspace(0.5, 1.0, len(network.weights[layer + 1]))
    network = with_unit(network, layer, -W[0], -b[0], fed)
    network = with_unit(network, layer, W[0], 30.0, fed)
    problem = problem_of(network)
    last = network.widths[layer] - 1
    for unit in (0, last - 1, last):
        narrower = without(problem, Parameters.of(network), layer, np.array([unit]))
        assert left_by(problem, narrower) < 1e3 * FOLDED
    other = without(problem, Parameters.of(network), layer, np.array([1]))
    assert left_by(problem, other) > 1e-2


def test_a_constant_unit_is_folded_into_the_biases_above() -> None:
    network = with_unit(deep(), 0, np.zeros(5), 0.7, np.array([1.0, -2.0, 0.5]))
    problem = problem_of(network)
    narrower = without(problem, Parameters.of(network), 0, np.array([4]))
    assert left_by(problem, narrower) < FOLDED
    moved = narrower.theta[:, -1] - network.biases[1]
    np.testing.assert_allclose(moved, np.tanh(0.7) * np.array([1.0, -2.0, 0.5]), atol=1e-9)


# ---------------------------------------------------------------- narrower ones


def test_the_cheapest_drop_comes_first() -> None:
    network = with_a_copy(deep(), 0)
    problem = problem_of(network)
    first = next(MOVES.narrower(problem, fit_of(problem, Parameters.of(network))))
    assert first.widths == (4, 3) and left_by(problem, first) < FOLDED


def test_of_many_useless_units_half_go_at_once() -> None:
    """Four that feed nothing, two a layer: the first way is without two of them."""
    network, rng = deep(), np.random.default_rng(0)
    for layer in (0, 1, 0, 1):
        W, A = network.weights[layer : layer + 2]
        network = with_unit(network, layer, rng.standard_normal(W.shape[1]), 0.1, np.zeros(len(A)))
    problem = problem_of(network)
    first, second, *_ = MOVES.narrower(problem, fit_of(problem, Parameters.of(network)))
    assert sum(first.widths) == network.units - 2 and left_by(problem, first) < FOLDED
    assert sum(second.widths) == network.units - 1 and left_by(problem, second) < FOLDED


def test_no_layer_is_left_without_units() -> None:
    network = deep((1, 2))
    problem = problem_of(network)
    found = list(MOVES.narrower(problem, fit_of(problem, Parameters.of(network))))
    assert [way.widths for way in found] == [(1, 1), (1, 1)]
    single = deep((1, 1))
    problem = problem_of(single)
    assert not list(MOVES.narrower(problem, fit_of(problem, Parameters.of(single))))


def carried(network: pn.DeepNetwork, layer: int) -> pn.DeepNetwork:
    """The first ReLU unit of a layer reversed, the difference, `z`, carried by one further unit.

    `max(z, 0) = max(-z, 0) + z`, and a unit that is on for all samples is z and a constant.
    """
    far = 30.0
    W, b = [w.copy() for w in network.weights], [v.copy() for v in network.biases]
    w, bias, fed = W[layer][0].copy(), b[layer][0], W[layer + 1][:, 0].copy()
    W[layer][0], b[layer][0] = -w, -bias
    b[layer + 1] -= far * fed
    return with_unit(network.replace(weights=W, biases=b), layer, w, bias + far, fed)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_reversed_unit_that_others_carry_is_found(layer: int) -> None:
    """None can be dropped alone, as costs say; dropped with the other reversed, nothing is lost."""
    truth = deep((4, 3), "relu")
    problem, wide = problem_of(truth), carried(truth, layer)
    parameters = Parameters.of(wide)
    assert left_by(problem, parameters) < 1e-12
    found = list(MOVES.narrower(problem, fit_of(problem, parameters)))
    left = []
    for way in found:
        refitted, _ = fit_linear_part(problem.samples, way, problem.activation)
        left.append(left_by(problem, refitted))
    assert min(left) < 1e3 * FOLDED
    assert found[int(np.argmin(left))].widths == truth.widths


def test_odd_units_are_not_reversed() -> None:
    """Of tanh each unit is its own opposite: single drops are all."""
    network = deep((3, 2))
    problem = problem_of(network)
    ways = list(MOVES.narrower(problem, fit_of(problem, Parameters.of(network))))
    assert len(ways) == network.units


def test_costs_are_compared_on_a_few_samples_only() -> None:
    """Labels of later samples, however wrong, do not change what is tried."""
    network = with_a_copy(deep(), 0)
    problem = problem_of(network, FOLD_ROWS + 500)
    fit = fit_of(problem, Parameters.of(network))
    y = problem.samples.y.copy()
    y[FOLD_ROWS:] = 1e6
    spoilt = replace(problem, samples=ArraySource(problem.samples.X, y))
    first, second = (next(MOVES.narrower(p, fit)) for p in (problem, spoilt))
    np.testing.assert_array_equal(first.theta, second.theta)


# ---------------------------------------------------------------- moves and pruning


def test_each_model_has_its_moves() -> None:
    problem = problem_of(deep())
    assert isinstance(moves_of(problem), SeveralLayers)
    assert isinstance(moves_of(replace(problem, layers=1)), OneLayer)


@pytest.mark.parametrize(("activation", "n"), [("tanh", 500), ("relu", 1500)])
def test_pruning_ends_at_the_true_widths(activation: str, n: int) -> None:
    """From a copy of a unit in every layer, which share what they feed; one unit less leaves much.

    What counts as zero is 1e-10 of the labels' spread.
    """
    truth = deep((3, 2), activation)
    problem, wide = problem_of(truth, n), truth
    for layer in (0, 1):
        wide = with_a_copy(wide, layer)
        W = [w.copy() for w in wide.weights]
        W[layer + 1][:, 0] -= W[layer + 1][:, -1]
        wide = wide.replace(weights=W)
    fit = fit_of(problem, Parameters.of(wide))
    assert problem.is_zero(fit) and wide.widths == (4, 3)
    narrow, rejected = prune(problem.searching().with_free_norms(), fit)
    assert narrow.parameters.widths == truth.widths and problem.is_zero(narrow)
    assert rejected is not None and sum(rejected.parameters.widths) == truth.units - 1
    assert rejected.rms > 1e-4 * problem.spread


def test_pruning_goes_down_to_what_was_asked_whatever_it_costs() -> None:
    truth = deep((3, 3))
    problem = problem_of(truth, 500)
    fit = problem.refine(Parameters.of(truth), 5, 1e-6)
    assert problem.is_zero(fit)
    narrow, _ = prune(problem.searching().with_free_norms(), fit, most=5)
    assert sum(narrow.parameters.widths) == 5
