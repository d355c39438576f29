"""Standard errors are the scatter of estimates: of even noise, of uneven noise, of a bent model."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import identity_standardisation
from provenet.data.sources import ArraySource
from provenet.fitting.bent_errors import may_be_bent, widened
from provenet.fitting.covariance import StandardErrors, covariance
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.fitting.uneven_noise import is_uneven, uneven_errors

FEATURES, SAMPLES = 3, 2000


def samples_of(network, sizes, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((SAMPLES, network.features))
    e = rng.standard_normal((SAMPLES, *np.shape(network.output_bias)))
    return ArraySource(X, network(X) + (sizes(X) * e.T).T)


def fitted(samples, network):
    """Least squares from the truth, rows of weights of norm 1."""
    fit = refine(samples, Parameters.of(network), network.activation, spread=1.0, iterations=30)
    return fit.parameters.network(network.activation).normalised(), fit.rss


def even(X):
    return np.full(len(X), 0.1)


def uneven(X):
    return 0.1 * np.sum(X**2, axis=1) / X.shape[1]


@pytest.mark.parametrize("outputs", [None, 2])
def test_with_even_noise_both_ways_to_errors_agree(outputs):
    # Squared residuals of 2000 samples give variances to some per cent.
    truth = pn.random_network(2, FEATURES, outputs=outputs, rng=0).normalised()
    samples = samples_of(truth, even, 1)
    network, rss = fitted(samples, truth)
    plain = identity_standardisation(FEATURES)
    usual = covariance(samples, network, plain).standard_errors(np.sqrt(rss / samples.labels))
    found = uneven_errors(samples, network, plain)
    for name in ("weights", "biases", "output_weights", "output_bias"):
        np.testing.assert_allclose(getattr(found, name), getattr(usual, name), rtol=0.15)


def test_noise_is_called_uneven_where_it_is():
    truth = pn.random_network(2, FEATURES, rng=0).normalised()
    several = [samples_of(truth, how, seed) for how in (even, uneven) for seed in range(5)]
    seen = [is_uneven(samples, fitted(samples, truth)[0]) for samples in several]
    assert seen == [False] * 5 + [True] * 5


def test_errors_under_uneven_noise_are_the_scatter_of_estimates():
    # Of 60 problems with 11 parameters each the mean square of errors over standard errors is 1 to
    # about a tenth; noise that grows outwards makes it 1.5 and more with the errors of even noise.
    truth = pn.random_network(2, FEATURES, rng=0).normalised()
    plain = identity_standardisation(FEATURES)
    squares, usual_squares = [], []
    for seed in range(60):
        samples = samples_of(truth, uneven, seed)
        network, rss = fitted(samples, truth)
        usual = covariance(samples, network, plain).standard_errors(np.sqrt(rss / samples.labels))
        found = uneven_errors(samples, network, plain)
        off = (network.biases - truth.biases, network.output_weights - truth.output_weights)
        squares += [off[0] / found.biases, off[1] / found.output_weights]
        usual_squares += [off[0] / usual.biases, off[1] / usual.output_weights]
    assert 0.75 < np.mean(np.square(squares)) < 1.3
    assert np.mean(np.square(usual_squares)) > 1.4


def test_errors_of_a_straight_model_stay_and_those_of_a_bent_one_grow():
    rng = np.random.default_rng(0)
    plain = identity_standardisation(FEATURES)
    straight = pn.random_network(2, FEATURES, rng=0).normalised()
    w = np.vstack([straight.weights[0], straight.weights[0] + 0.25 * straight.weights[1]])
    bent = straight.replace(weights=w, output_weights=np.array([1.0, 1.0])).normalised()
    widest = []
    for truth in (straight, bent):
        samples = samples_of(truth, lambda X: 3 * even(X), 3)
        network, rss = fitted(samples, truth)
        errors = covariance(samples, network, plain).standard_errors(np.sqrt(rss / samples.labels))
        widest.append(widened(samples, network, plain, errors, rng).units.max())
        assert may_be_bent(network, errors) == (truth is bent)
    assert widest[0] < 1.4 < widest[1]  # a spread of 30 refits is known to 0.13, the largest to 0.3


def test_refits_of_many_samples_are_left_out():
    network = pn.random_network(40, 30, rng=0).normalised()
    samples = ArraySource(np.zeros((5000, 30)), np.zeros(5000))
    rng, none = np.random.default_rng(0), StandardErrors.none(network)
    assert widened(samples, network, identity_standardisation(30), none, rng) is None
