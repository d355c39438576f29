"""Mean and covariance of the networks inside intervals, against those networks themselves."""

import numpy as np
import pytest

import provenet as pn
from provenet.data.sources import ArraySource
from provenet.fitting.covariance import in_user_coordinates
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.fitting.rounded_labels import Intervals, fit_inside
from provenet.networks.activations import RELU


def rounded(truth, X, step, offset=0.0):
    y = np.round((truth(X) - offset) / step) * step + offset
    start = Parameters.of(truth)
    least_squares = refine(ArraySource(X, y), start, truth.activation, spread=1.0)
    return Intervals.around(X, y, np.full(y.shape, step)), least_squares.parameters


def networks_inside(intervals, centre, wide, rng):
    """(b, a, c) of networks `c + a relu(x + b)` in all intervals, drawn from a box."""
    inside = []
    for _ in range(40):
        b, a, c = (centre + wide * rng.uniform(-1, 1, (100_000, 3))).T
        for x, low, high in zip(intervals.X[:, 0], intervals.low, intervals.high, strict=True):
            f = c + a * np.maximum(x + b, 0)
            kept = (low <= f) & (f <= high)
            b, a, c = b[kept], a[kept], c[kept]
        inside.append(np.column_stack([b, a, c]))
    return np.concatenate(inside)


@pytest.mark.parametrize("bias", [0.2, -0.8])
def test_moments_are_those_of_the_networks_inside(bias):
    """One unit, one feature: networks are drawn until hundreds lie in all intervals.

    With the lower bias two thirds of the labels are one constant.
    """
    rng = np.random.default_rng(0)
    truth = pn.Network([[1.0]], [bias], [1.5], 0.37)
    intervals, start = rounded(truth, rng.uniform(-2, 2, (40, 1)), 0.3)
    fit = fit_inside(intervals, start, RELU)
    assert fit.inside
    centre, wide = np.array([bias, 1.5, 0.37]), np.array([0.25, 0.25, 0.25])
    drawn = networks_inside(intervals, centre, wide, rng)
    assert len(drawn) > 300
    assert np.all(np.abs(drawn - centre).max(axis=0) < 0.97 * wide)  # the box cut nothing off
    mean, spread = drawn.mean(axis=0), drawn.std(axis=0)
    network = fit.parameters.network(RELU).normalised()
    found = [network.biases[0], network.output_weights[0], network.output_bias]
    errors = in_user_coordinates(fit.covariance, fit.parameters, RELU).standard_errors(1.0)
    stated = [errors.biases[0], errors.output_weights[0], errors.output_bias]
    # Edges are softened by 2% of a step, an interval is no Gaussian, and few are drawn.
    assert np.abs(found - mean) / spread == pytest.approx(np.zeros(3), abs=0.4)
    assert stated == pytest.approx(spread, rel=0.3)


@pytest.mark.parametrize("seed", range(5))
def test_the_truth_is_within_the_stated_errors_and_closer_than_least_squares(seed):
    truth = pn.random_network(3, 4, outputs=2, rng=seed).normalised()
    truth = truth.replace(output_bias=np.array([0.23, -0.41]))
    X = np.random.default_rng(seed).standard_normal((400, 4))
    intervals, start = rounded(truth, X, 0.1)
    fit = fit_inside(intervals, start, RELU)
    assert fit.inside
    by_intervals = pn.parameter_error(fit.parameters.network(RELU), truth)
    assert by_intervals < pn.parameter_error(start.network(RELU), truth)
    off = fit.parameters.network(RELU).normalised().output_bias - truth.output_bias
    errors = in_user_coordinates(fit.covariance, fit.parameters, RELU).standard_errors(1.0)
    assert np.all(np.abs(off) < 5 * errors.output_bias)


def test_the_order_of_units_is_a_matter_of_names():
    truth = pn.random_network(3, 4, outputs=2, rng=7).normalised()
    X = np.random.default_rng(7).standard_normal((400, 4))
    intervals, start = rounded(truth, X, 0.1)
    fit = fit_inside(intervals, start, RELU)
    turned = fit.in_order(np.array([2, 0, 1]))
    assert turned.parameters.network(RELU)(X) == pytest.approx(fit.parameters.network(RELU)(X))
    before, after = (
        in_user_coordinates(f.covariance, f.parameters, RELU).standard_errors(1.0)
        for f in (fit, turned)
    )
    assert after.weights[1] == pytest.approx(before.weights[0])
    assert after.output_weights[:, 1] == pytest.approx(before.output_weights[:, 0])
    assert after.output_bias == pytest.approx(before.output_bias)


def test_labels_that_no_such_network_rounds_to_are_not_inside():
    truth = pn.random_network(2, 3, rng=3)
    X = np.random.default_rng(3).standard_normal((300, 3))
    y = np.round(truth(X) + 0.1 * X[:, 0] ** 2, 1)
    fit = fit_inside(Intervals.around(X, y, np.full(300, 0.1)), Parameters.of(truth), RELU)
    assert fit is None or not fit.inside
