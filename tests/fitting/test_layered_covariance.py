"""Errors of deep networks against full normal equations, and against what noise does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag, null_space

import provenet as pn
from helpers import numerical_jacobian
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.layered_covariance import DeepErrors, deep_covariance
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters

RELATIVE = 1e-4
"""Differences leave 1e-9 of a Jacobian, and the inverse of its square is conditioned by some
thousands."""


def deep(
    widths: tuple[int, ...], activation: str, outputs: int | None = None, seed: int = 0
) -> pn.DeepNetwork:
    net = pn.random_network(widths, 4, outputs=outputs, activation=activation, rng=seed)
    return net.canonical()


def flat(errors: DeepErrors) -> Array:
    """In the order of the columns of a Jacobian."""
    pairs = zip(errors.weights, errors.biases, strict=True)
    return np.concatenate([np.column_stack(pair).ravel() for pair in pairs])


def errors_of(J: Array) -> Array:
    """Roots of the diagonal of `(J^T J)^-1`."""
    return np.asarray(np.linalg.norm(np.linalg.pinv(J), axis=1))


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("widths", [(3, 2), (3, 3, 2)])
def test_errors_are_those_of_the_full_normal_equations(
    widths: tuple[int, ...], outputs: int | None
) -> None:
    network = deep(widths, "tanh", outputs)
    samples = ArraySource(*pn.sample(network, 800, rng=1))
    found = deep_covariance(samples, network)
    assert found.rank_deficiency == 0
    expected = errors_of(numerical_jacobian(network, samples.X))
    np.testing.assert_allclose(flat(found.errors), expected, rtol=RELATIVE)


@pytest.mark.parametrize("outputs", [None, 2])
def test_norms_of_relu_units_are_no_parameters(outputs: int | None) -> None:
    """Units that turn but keep norm 1: the inverse in a basis of their turns and biases."""
    network = deep((4, 2), "relu", outputs)
    samples = ArraySource(*pn.sample(network, 1500, rng=1))
    found = deep_covariance(samples, network)
    assert found.rank_deficiency == 0
    basis = relu_turns(network)
    # A small step, so that hardly a sample changes sides.
    J = numerical_jacobian(network, samples.X, 1e-7) @ basis
    expected = np.linalg.norm(basis @ np.linalg.pinv(J), axis=1)
    np.testing.assert_allclose(flat(found.errors), expected, rtol=0.01)


def relu_turns(network: pn.DeepNetwork) -> Array:
    """A basis of changes: units of norm 1 turn, biases and the last layer are free."""
    hidden = (row for W in network.weights[:-1] for row in W)
    turns = (block_diag(null_space(w[None]), np.eye(1)) for w in hidden)
    last = network.weights[-1].size + network.biases[-1].size
    return np.asarray(block_diag(*turns, np.eye(last)))


@pytest.mark.parametrize("outputs", [None, 2])
def test_an_error_that_labels_share_moves_what_least_squares_says(outputs: int | None) -> None:
    """Labels off by one wherever the network is constant, each output by itself."""
    network = deep((4, 2), "relu", outputs, seed=3)
    b, c, d = network.biases
    network = network.replace(biases=[b, c - 0.4, d])
    samples = ArraySource(*pn.sample(network, 1500, rng=1))
    constant = np.all(network(samples.X).reshape(1500, -1) == d, axis=1)
    assert 100 < constant.sum() < 1400
    basis, outs = relu_turns(network), outputs or 1
    J = numerical_jacobian(network, samples.X, 1e-7) @ basis
    labels = [np.outer(constant, np.arange(outs) == q).ravel() for q in range(outs)]
    moved = [basis @ np.linalg.lstsq(J, e, rcond=None)[0] for e in labels]
    shared = flat(deep_covariance(samples, network).shared)
    np.testing.assert_allclose(shared, np.linalg.norm(moved, axis=0), rtol=0.02, atol=1e-3)


def test_labels_of_a_network_that_is_nowhere_constant_share_nothing() -> None:
    network = deep((3, 2), "tanh")
    samples = ArraySource(*pn.sample(network, 800, rng=1))
    assert not np.any(flat(deep_covariance(samples, network).shared))


def with_a_copy(network: pn.DeepNetwork) -> pn.DeepNetwork:
    """The first unit of the first layer twice, what it feeds shared out unevenly."""
    W, A, *rest = network.weights
    b, *others = network.biases
    twice = np.column_stack([A, 0.3 * A[:, 0]])
    twice[:, 0] *= 0.7
    return network.replace(
        weights=[np.vstack([W, W[:1]]), twice, *rest], biases=[np.append(b, b[0]), *others]
    )


def with_a_unit_of(bias: float, layer: int, network: pn.DeepNetwork) -> pn.DeepNetwork:
    """Another unit of a layer of units of norm 1, whose bias is a number."""
    weights, biases = list(network.weights), list(network.biases)
    direction = np.ones((1, weights[layer].shape[1])) / np.sqrt(weights[layer].shape[1])
    weights[layer] = np.vstack([weights[layer], direction])
    biases[layer] = np.append(biases[layer], bias)
    above = weights[layer + 1]
    weights[layer + 1] = np.column_stack([above, np.ones(len(above))])
    return network.replace(weights=weights, biases=biases).normalised()


def test_two_units_that_are_one_leave_a_direction_of_each_share() -> None:
    """What each of two like units feeds is free, one number a unit above, and both may part ways:

    to first order their weights count only in the sums that are fed, `0.7 w + 0.3 w'`. With beta
    eliminated the weights above are layers' parameters, so all of these are counted.
    """
    network = deep((3, 2), "tanh")
    samples = ArraySource(*pn.sample(network, 800, rng=1))
    free = deep_covariance(samples, with_a_copy(network)).rank_deficiency
    W, b = network.weights[0], network.biases[0]
    assert free == len(network.weights[1]) + W.shape[1] + b[:1].size


@pytest.mark.parametrize(("layer", "free"), [(0, 4 + 2), (1, 4)])
def test_a_dead_unit_leaves_its_parameters_free(layer: int, free: int) -> None:
    """Four inputs: turns of its weights are three, its bias one; the last weights are of no layer.

    In the lower layer both weights by which it feeds others are free as well.
    """
    dead = with_a_unit_of(-100.0, layer, deep((4, 2), "relu"))
    found = deep_covariance(ArraySource(*pn.sample(dead, 1500, rng=1)), dead)
    assert found.rank_deficiency == free


def test_a_unit_that_is_always_on_leaves_its_bias_free() -> None:
    """The outputs' constant does the same."""
    on = with_a_unit_of(10.0, 1, deep((4, 2), "relu"))
    found = deep_covariance(ArraySource(*pn.sample(on, 1500, rng=1)), on)
    assert found.rank_deficiency == 1


def test_the_largest_error_is_of_a_unit_and_errors_scale() -> None:
    errors = DeepErrors(
        (np.array([[3.0, 0.0], [1.0, 1.0]]), np.array([[0.1, 0.2]])),
        (np.array([4.0, 0.0]), np.array([0.1])),
    )
    assert errors.largest == 5.0
    assert errors.times(2.0).largest == 10.0
    np.testing.assert_array_equal(errors.times(2.0).biases[0], [8.0, 0.0])
    np.testing.assert_array_equal(errors.beside(errors.times(0.75)).biases[0], [5.0, 0.0])


@pytest.mark.parametrize(("activation", "widths"), [("tanh", (3, 2)), ("relu", (3, 2))])
def test_errors_cover_what_noise_does(activation: str, widths: tuple[int, ...]) -> None:
    """Least squares from the truth, 60 draws of noise: standardised errors have size about 1.

    The mean square of 60 draws is within 1 +- 5 sqrt(2/60) for each parameter, and the mean over
    all of them closer: 0.85 to 1.15 in root mean square. Noise of 0.3% keeps the bends small.
    """
    network, noise = deep(widths, activation), 3e-3
    X, y = pn.sample(network, 1000, rng=1)
    expected = noise * flat(deep_covariance(ArraySource(X, y), network).errors)
    rng, truth = np.random.default_rng(2), Parameters.of_deep(network)
    deviations = []
    for _ in range(60):
        labels = y + noise * rng.standard_normal(len(y))
        fit = refine(
            ArraySource(X, labels), truth, network.activation, spread=1.0, tolerance=1e-9
        ).parameters.normalised(network.activation)
        matrices = (*fit.layers, np.atleast_2d(fit.beta.T))
        own = (*truth.layers, np.atleast_2d(truth.beta.T))
        deviations.append(
            np.concatenate([(a - b).ravel() for a, b in zip(matrices, own, strict=True)])
        )
    standardised = np.array(deviations) / expected
    each = np.mean(standardised**2, axis=0)
    assert 0.85 < np.sqrt(np.mean(each)) < 1.15
    assert np.all(np.abs(each - 1) < 5 * np.sqrt(2 / 60))
