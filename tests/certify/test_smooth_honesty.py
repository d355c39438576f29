"""Smooth units built to fool the certificate: each of these was once a wrong success."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.certify.certificate import clearness
from provenet.certify.smooth_checks import other_waves
from provenet.fitting.covariance import StandardErrors

A_LOOK = 0.002
"""Seconds that pass with every look at the clock: the same on any machine."""


@pytest.mark.parametrize("step", [1.0, 0.5])
def test_waves_of_another_length_pass_through_a_lattice(step, clock):
    """`sin((w + 2 pi / h) x) = sin(w x)` at all multiples x of h."""
    clock.tick = A_LOOK
    truth = pn.random_network(2, 3, activation="sin", rng=2)
    alias = truth.replace(weights=truth.weights + 2 * np.pi / step * np.array([1.0, 0, 0]))
    X = step * np.random.default_rng(0).integers(-5, 6, (300, 3))
    np.testing.assert_allclose(alias(X), truth(X), atol=1e-12)
    result = pn.recover(X, alias(X), activation="sin", rng=2, budget=4)
    assert result.status == "partial" and "equal steps" in result.message
    # Inputs that are merely rounded are no such lattice: the next wave is 2 pi / 0.01 away.
    X = np.round(np.random.default_rng(0).standard_normal((300, 3)), 2)
    result = pn.recover(X, truth(X), activation="sin", rng=2, budget=4)
    assert result.status == "exact" and pn.parameter_error(result.network, truth) < 1e-10


def test_steps_of_inputs():
    rng = np.random.default_rng(0)
    columns = {
        "whole": rng.integers(-5, 6, 200),
        "thirds": rng.integers(0, 9, 200) / 3 + 0.1,
        "two lengths": 0.5 * rng.integers(0, 4, 200) + 0.75 * rng.integers(0, 4, 200),
        "hundredths": np.round(rng.standard_normal(200), 2),
        "any": rng.standard_normal(200),
    }
    X = np.column_stack(list(columns.values())).astype(float)
    network = pn.random_network(1, 5, activation="sin", rng=0)
    assert other_waves(network, X).tolist() == [0, 1, 2]
    assert other_waves(network.replace(activation="tanh"), X).size == 0


@pytest.mark.parametrize("activation", ["softplus", "relu"])
def test_a_set_of_units_that_may_be_reversed_under_noise(activation, clock):
    """`sum_i a_i w_i = 0` over four units: none but all of them may be reversed."""
    clock.tick = A_LOOK
    base = pn.random_network(3, 6, activation=activation, rng=5)
    a = np.append(base.output_weights, 1.1)
    last = -base.output_weights @ base.weights / 1.1
    truth = base.replace(
        weights=np.vstack([base.weights, last]), biases=[0.3, -0.5, 0.1, 0.6], output_weights=a
    )
    other = truth.replace(weights=-truth.weights, biases=-truth.biases)
    X, y = pn.sample(truth, 600, noise=1e-4, rng=1)
    assert np.std(truth(X) - other(X)) < 1e-12  # but for the output bias
    result = pn.recover(X, y, activation=activation, rng=0, budget=4)
    assert result.status == "partial"
    assert any("opposite sign" in text for text in result.ambiguities)


def test_the_output_weight_of_a_nearly_linear_unit_is_not_known(clock):
    """Under noise `a tanh(w x)` shows `a w` and little of `a w^3`: a may be far off its errors."""
    clock.tick = A_LOOK
    rng = np.random.default_rng(0)
    for seed in range(2):
        truth = pn.Network([[0.01, 0.005], [1.5, -0.7]], [0.0, 0.2], [100, 1], activation="tanh")
        X = rng.standard_normal((300, 2))
        y = truth(X) + 1e-3 * rng.standard_normal(300)
        result = pn.recover(X, y, activation="tanh", rng=seed, budget=2)
        assert not (result.success and result.network.units == 2)


def test_how_clear_units_are():
    network = pn.Network([[1.0, 0.0], [1.0, 0.1], [-0.5, 0.5]], [0, 0, 1], [1, 1, 1], 0, "tanh")
    errors = StandardErrors.none(network)
    assert np.all(clearness(network, errors) > 1e9)
    errors = StandardErrors(
        errors.weights + 0.02, errors.biases + 0.02, errors.output_weights, 0.0, None
    )
    # 0.1 apart at 0.02 + 0.02; the third is 25 from nothing, and 1.0 - 0.5 over 0.04 from others.
    np.testing.assert_allclose(clearness(network, errors)[:2], 2.5)
    opposite = network.replace(weights=network.weights * np.array([[1], [-1], [1]]))
    np.testing.assert_allclose(clearness(opposite, errors)[:2], 2.5)
    np.testing.assert_allclose(clearness(network.keep(np.array([2])), errors_of(errors, 2)), 25.0)


def errors_of(errors: StandardErrors, unit: int) -> StandardErrors:
    return StandardErrors(
        errors.weights[[unit]], errors.biases[[unit]], errors.output_weights[[unit]], 0.0, None
    )
