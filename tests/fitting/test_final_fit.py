"""The last fits: signs are settled, every sample counts, and errors are those of all samples."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.fitting.context import Context, Options, prepare
from provenet.fitting.final_fit import covariance_of_all, polish, refit_on_all

TRUTH = pn.random_network(6, 5, rng=0)
ONE = np.ones(())


def context_of(
    network: pn.Network, samples: int, noise: object = 0.0, deadline: float = np.inf
) -> Context:
    X, y = pn.sample(network, samples, rng=1)
    e = np.random.default_rng(2).standard_normal(y.shape)
    source = ArraySource(X, y + np.asarray(noise) * e)
    return prepare(
        source,
        Options(activation=network.activation),
        source.standardisation(),
        rng=np.random.default_rng(0),
        progress=lambda *_: None,
        deadline=deadline,
    )


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("activation", ["relu", "softplus"])
def test_signs_are_settled_from_wherever_units_look(activation: str, noise: float) -> None:
    """All units reversed, what that adds in a linear term: the truth comes back without one."""
    truth = pn.random_network(4, 5, activation=activation, rng=1)
    space = context_of(truth, 2000, noise)
    own = space.standardisation.network_from_user(truth)
    turned = own.replace(
        weights=-own.weights,
        biases=-own.biases,
        linear=own.output_weights @ own.weights,
        output_bias=own.output_bias + own.output_weights @ own.biases,
    )
    found = polish(space, turned)
    assert found.network.linear is None and not found.ambiguities
    error = pn.parameter_error(space.standardisation.network_to_user(found.network), truth)
    # Least squares: sigma sqrt(p / n) for kinks, several times that for smooth units, much alike.
    assert error < (1e-9 if noise == 0 else 0.1 if activation == "relu" else 0.5)


def test_a_noisy_output_does_not_spoil_the_others() -> None:
    """Noise of 1 and 0.001: units are known by the second output as if the first were not there."""
    truth = pn.random_network(4, 5, outputs=2, rng=0)
    space = context_of(truth, 2000, [1.0, 1e-3])
    fit = refit_on_all(space, space.standardisation.network_from_user(truth))
    np.testing.assert_allclose(fit.scale * fit.noise, [1.0, 1e-3], rtol=0.1)
    user = space.standardisation.network_to_user(fit.network).canonical()
    assert np.abs(user.weights - truth.canonical().weights).max() < 1e-2


def test_so_many_parameters_or_so_little_time_have_bounds_of_their_errors() -> None:
    space = context_of(TRUTH, 3000, 0.1)
    exact = covariance_of_all(space, TRUTH, ONE)
    bound = covariance_of_all(space, TRUTH, ONE, largest=10)
    assert bound.bounds and not exact.bounds
    # Within 1.2 of a bound, as in test_covariance, and the bound is from 9 of 10 samples.
    ratio = bound.variances.ravel() / exact.variances.ravel()
    assert np.all(ratio > 1 / 1.2**2) and np.all(ratio < 30**2)
    assert not covariance_of_all(space, TRUTH, ONE, in_haste=10).bounds
    late = context_of(TRUTH, 3000, 0.1, deadline=0.0)
    assert covariance_of_all(late, TRUTH, ONE, in_haste=10).bounds
