"""Noise that is like that of the sample before, against its known law and against its effect."""

import numpy as np
import pytest

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.fitting.serial_noise import serial_factor

TRUTH = pn.random_network(2, 3, rng=0)


def noise_of(rho, n, rng):
    """A series of variance one, each value rho times the one before and something new."""
    new = rng.standard_normal(n) * np.sqrt(1 - rho**2)
    values = np.empty(n)
    last = rng.standard_normal()
    for i in range(n):
        last = values[i] = rho * last + new[i]
    return values


@pytest.mark.parametrize("rho", [0.5, 0.8])
def test_the_factor_is_that_of_the_mean(rho):
    """The variance of the mean of such a series is (1 + rho) / (1 - rho) times that of noise."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20_000, 3))
    found = serial_factor(ArraySource(X, TRUTH(X) + 0.1 * noise_of(rho, 20_000, rng)), TRUTH)
    # Correlations under a triangle of 54 lags lose a few percent; so much is also chance.
    assert found == pytest.approx(np.sqrt((1 + rho) / (1 - rho)), rel=0.15)


@pytest.mark.parametrize("seed", range(20))  # 200 seeds were run: all of them
def test_independent_noise_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((500, 3))
    assert serial_factor(ArraySource(X, TRUTH(X) + 0.1 * rng.standard_normal(500)), TRUTH) == 1.0


def test_errors_hold_where_noise_follows_itself():
    """Over 6 series the output bias is within 4 stated errors, and errors are told to be wider."""
    told, off = 0, []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((500, 3))
        y = TRUTH(X) + 0.1 * noise_of(0.8, 500, rng)
        result = pn.recover(X, y, rng=0, units=2, method="expand-prune")
        if result.success:
            error = result.standard_errors.output_bias
            off.append(abs(result.network.output_bias - TRUTH.output_bias) / error)
            told += any("the one before" in warning for warning in result.certificate.warnings)
    assert len(off) >= 4 and told == len(off)
    assert max(off) < 4
