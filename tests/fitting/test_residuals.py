"""Residuals: what rounding leaves, and errors under uneven, serial noise and a curved model."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import identity_standardisation
from provenet.common.typing import EPS, Array
from provenet.data.sources import ArraySource
from provenet.fitting.covariance import StandardErrors, covariance
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.fitting.residuals import (
    autocorrelation_factor,
    directions_are_uncertain,
    is_heteroscedastic,
    residual_on,
    rounding_level,
    wild_bootstrap,
)

FEATURES, SAMPLES = 3, 2000
PLAIN = identity_standardisation(FEATURES)


# ---------------------------------------------------------------- rounding


def in_single(network: pn.Network, X: Array) -> Array:
    """The same network, every number and every step rounded to float32."""
    h = X.astype(np.float32)
    *hidden, (A, c) = network.affine_maps
    for W, b in hidden:
        h = network.activation(h @ W.T.astype(np.float32) + b.astype(np.float32)).astype(np.float32)
    return np.asarray(h @ A.T.astype(np.float32) + c.astype(np.float32), float)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("widths", [6, (8, 5), (10, 10, 10)])
def test_rounding_to_single_precision_stays_below_its_level(widths, activation):
    """Errors of random sign mostly cancel, so the level, a sum of sizes, is a few dozen larger."""
    network = pn.random_network(widths, 6, outputs=2, activation=activation, rng=0)
    X = np.random.default_rng(0).standard_normal((2000, 6))
    happened = np.sqrt(np.mean((in_single(network, X) - network(X)) ** 2, axis=0))
    level = rounding_level(network, X) * float(np.finfo(np.float32).eps) / EPS
    assert level.shape == (2,) and np.all(happened < level) and np.all(level < 60 * happened)


def test_a_layer_passes_on_what_those_below_it_round():
    """Cancelling weights of 1000 in the lower layer are felt at the output, as are far inputs."""
    network = pn.random_network((5, 4), 3, rng=0)
    X, y = pn.sample(network, 300, rng=0)
    W, A, a = network.weights
    cancelling = network.replace(
        weights=[np.vstack([W, W[:1], W[:1]]), np.column_stack([A, [[1e3, -1e3]] * 4]), a],
        biases=[np.append(network.biases[0], [0.1, 0.1]), *network.biases[1:]],
    )
    assert residual_on(ArraySource(X, y), cancelling) < 1e-11
    assert rounding_level(cancelling, X) > 100 * rounding_level(network, X)
    far = network.replace(biases=[network.biases[0] - 1e6 * W.sum(axis=1), *network.biases[1:]])
    assert rounding_level(far, X + 1e6) > 1e4 * rounding_level(network, X)


# ---------------------------------------------------------------- noise that is not even


def samples_of(network, size, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((SAMPLES, network.features))
    e = rng.standard_normal((SAMPLES, *np.shape(network.output_bias)))
    return ArraySource(X, network(X) + (size(X) * e.T).T)


def fitted(samples, network):
    """Least squares from the truth, rows of weights of norm 1."""
    fit = refine(samples, Parameters.of(network), network.activation, spread=1.0, iterations=30)
    return fit.parameters.network(network.activation).normalised(), fit.rss


def linearised(samples, network, rss):
    return covariance(samples, network, PLAIN).standard_errors(np.sqrt(rss / samples.labels))


def even(X):
    return np.full(len(X), 0.1)


def uneven(X):
    return 0.1 * np.sum(X**2, axis=1) / X.shape[1]


@pytest.mark.parametrize("outputs", [None, 2])
def test_with_even_noise_both_ways_to_errors_agree(outputs):
    """Squared residuals of 2000 samples give variances to some per cent."""
    truth = pn.random_network(2, FEATURES, outputs=outputs, rng=0).normalised()
    samples = samples_of(truth, even, 1)
    network, rss = fitted(samples, truth)
    usual = linearised(samples, network, rss)
    found = covariance(samples, network, PLAIN, heteroscedastic=True).standard_errors(1.0)
    for name in ("weights", "biases", "output_weights", "output_bias"):
        np.testing.assert_allclose(getattr(found, name), getattr(usual, name), rtol=0.15)


def test_errors_under_uneven_noise_are_the_scatter_of_estimates():
    """The mean square of errors over standard errors of 60 problems is 1 to about a tenth.

    Noise that grows outwards makes it 1.5 and more with the errors of even noise; the test sees it.
    """
    truth = pn.random_network(2, FEATURES, rng=0).normalised()
    squares, usual_squares = [], []
    for seed in range(60):
        samples = samples_of(truth, uneven, seed)
        network, rss = fitted(samples, truth)
        if seed < 5:
            calm = samples_of(truth, even, seed)
            assert is_heteroscedastic(samples, network) and not is_heteroscedastic(
                calm, fitted(calm, truth)[0]
            )
        usual = linearised(samples, network, rss)
        found = covariance(samples, network, PLAIN, heteroscedastic=True).standard_errors(1.0)
        off = (network.biases - truth.biases, network.output_weights - truth.output_weights)
        squares += [off[0] / found.biases, off[1] / found.output_weights]
        usual_squares += [off[0] / usual.biases, off[1] / usual.output_weights]
    assert 0.75 < np.mean(np.square(squares)) < 1.3
    assert np.mean(np.square(usual_squares)) > 1.4


# ---------------------------------------------------------------- noise that follows itself


def series(rho, n, rng):
    """Noise of variance one, each value rho times the one before and something new."""
    new = rng.standard_normal(n) * np.sqrt(1 - rho**2)
    values = np.empty(n)
    last = rng.standard_normal()
    for i in range(n):
        last = values[i] = rho * last + new[i]
    return values


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_the_factor_is_that_of_the_mean(rho):
    """The variance of the mean of such a series is (1 + rho) / (1 - rho) times that of noise."""
    truth, rng = pn.random_network(2, 3, rng=0), np.random.default_rng(1)
    X = rng.standard_normal((20_000, 3))
    found = autocorrelation_factor(ArraySource(X, truth(X) + 0.1 * series(rho, 20_000, rng)), truth)
    # Correlations under a triangle of 54 lags lose a few percent; so much is also chance.
    assert found == pytest.approx(np.sqrt((1 + rho) / (1 - rho)), rel=0.15 if rho else 0)


def test_errors_hold_where_noise_follows_itself():
    """Over 6 series the output bias is within 4 stated errors, and errors are said to be wider."""
    truth, told, off = pn.random_network(2, 3, rng=0), 0, []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((500, 3))
        y = truth(X) + 0.1 * series(0.8, 500, rng)
        result = pn.recover(X, y, rng=0, units=2, method="expand-prune")
        if result.success:
            error = result.standard_errors.output_bias
            off.append(abs(result.network.output_bias - truth.output_bias) / error)
            told += any("the one before" in warning for warning in result.certificate.warnings)
    assert len(off) >= 4 and told == len(off) and max(off) < 4


# ---------------------------------------------------------------- a model that is curved


def test_errors_of_a_straight_model_stay_and_those_of_a_curved_one_grow():
    rng = np.random.default_rng(0)
    straight = pn.random_network(2, FEATURES, rng=0).normalised()
    w = np.vstack([straight.weights[0], straight.weights[0] + 0.25 * straight.weights[1]])
    curved = straight.replace(weights=w, output_weights=np.array([1.0, 1.0])).normalised()
    widest = []
    for truth in (straight, curved):
        samples = samples_of(truth, lambda X: 3 * even(X), 3)
        network, rss = fitted(samples, truth)
        errors = linearised(samples, network, rss)
        wider, factors = wild_bootstrap(samples, network, PLAIN, errors, rng)
        assert np.all(wider.weights >= errors.weights)
        widest.append(factors.max())
        assert directions_are_uncertain(network, errors) == (truth is curved)
    assert widest[0] < 1.4 < widest[1]  # a spread of 30 refits is known to 0.13, the largest to 0.3
    none = StandardErrors.none(straight)
    assert wild_bootstrap(samples, straight, PLAIN, none, rng, work=0.0) is None
