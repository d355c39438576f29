"""The joint fit of a layer and its polynomial: exact near the truth, honest elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import direction_error
from provenet.common.typing import Array
from provenet.datasets import random_layered
from provenet.lowest_layer.fit import fit_layer, fit_monomials
from provenet.lowest_layer.user_layer import with_unit_rows
from provenet.networks.layered import LayeredNetwork, Polynomial, lowest_layer
from provenet.networks.network import Network


def problem(activation: str, n: int, seed: int = 0) -> tuple[LayeredNetwork, Array, Array]:
    network = random_layered(
        3, 4, threshold=0.5, condition=1.5, products=0.5, activation=activation, rng=seed
    )
    X = np.random.default_rng([seed, 1]).standard_normal((n, 4))
    return network, X, network(X)


def near(layer: Network, off: float, seed: int = 0) -> Network:
    """The layer, its weights off by an angle."""
    E = np.random.default_rng([seed, 2]).standard_normal(layer.weights.shape)
    return layer.replace(
        weights=layer.weights + off * E / np.linalg.norm(E, axis=1, keepdims=True),
        biases=layer.biases + off,
    )


@pytest.mark.parametrize("activation", ["relu", "relu2", "abs", "sigmoid", "exp"])
def test_near_the_truth_it_is_exact(activation: str) -> None:
    network, X, y = problem(activation, 1500)
    fit = fit_layer(X, y, near(network.layer, 0.1))
    assert fit is not None and fit.explains and fit.determined
    W = with_unit_rows(fit.network).layer.weights
    assert direction_error(W, network.layer.weights) < 1e-9
    fresh = np.random.default_rng(9).standard_normal((1000, 4))
    # the last digits of sums of seven terms, the largest of the order of 10
    np.testing.assert_allclose(fit.network(fresh), network(fresh), rtol=1e-8, atol=1e-8)


def test_powers_and_triples_are_added_when_needed() -> None:
    network, X, _ = problem("sigmoid", 3000)
    top = Polynomial(3, {(0,): 1.0, (1,): 2.0, (2,): -1.0, (0, 1, 2): 1.5, (0, 0): 0.7})
    truth = LayeredNetwork(network.layer, top)
    fit = fit_layer(X, truth(X), near(network.layer, 0.05))
    assert fit is not None and fit.explains
    assert isinstance(fit.network.top, Polynomial)
    assert fit.network.top.terms[(0, 1, 2)] == pytest.approx(1.5, abs=1e-6)
    assert fit.network.top.terms[(0, 0)] == pytest.approx(0.7, abs=1e-6)
    alone = fit_monomials(X, truth(X), near(network.layer, 0.05), list(top.terms))
    assert alone.explains and len(alone.network.top.terms) == 5  # type: ignore[attr-defined]


def test_errors_are_those_of_repeated_noise() -> None:
    """Over 40 draws of the noise a standard deviation is known to 11%."""
    network, X, y = problem("sigmoid", 2000)
    monomials = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    rng = np.random.default_rng(3)
    fits = [
        fit_monomials(X, y + 0.01 * rng.standard_normal(len(y)), network.layer, monomials)
        for _ in range(40)
    ]
    measured = np.std([fit.network.layer.weights for fit in fits], axis=0)
    stated = np.mean([fit.weight_errors for fit in fits], axis=0)
    assert np.sqrt(np.mean((measured / stated) ** 2)) == pytest.approx(1.0, abs=0.15)
    assert np.mean([fit.residual for fit in fits]) == pytest.approx(0.01, rel=0.03)
    assert not any(fit.explains for fit in fits)


def test_a_unit_without_effect_is_not_determined() -> None:
    network, X, y = problem("sigmoid", 3000)
    extra = network.layer.replace(
        weights=np.vstack([network.layer.weights, [0.5, 0.5, 0.5, 0.5]]),
        biases=np.append(network.layer.biases, 0.0),
        output_weights=np.ones(4),
    )
    fit = fit_layer(X, y, extra)
    assert fit is not None and fit.explains and not fit.determined


def test_too_few_samples_are_not_fitted() -> None:
    network, X, y = problem("sigmoid", 20)
    assert fit_layer(X, y, network.layer) is None


def test_another_activation_does_not_explain_the_labels() -> None:
    network, X, y = problem("sigmoid", 2000)
    other = lowest_layer(network.layer.weights, 0.5, "relu")
    fit = fit_layer(X, y, other)
    assert fit is not None and not fit.explains
