"""One evaluation of samples in memory against passes over them, and against differences."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import NETS, moved, samples
from provenet.fitting import linearised as module
from provenet.fitting.linearised import KeptSamples, Linearised
from provenet.fitting.model import Parameters
from provenet.fitting.normal_equations import inverse_root, normal_equations
from provenet.fitting.output_layer import fit_linear_part
from provenet.networks.conversions import as_absolute

FORMS = ["relu", "abs with a linear part", "tanh"]


@pytest.fixture(params=["one output", "three outputs"])
def truth(request: pytest.FixtureRequest) -> pn.Network:
    return NETS[request.param]


@pytest.fixture(params=FORMS)
def model(truth: pn.Network, request: pytest.FixtureRequest) -> pn.Network:
    near = moved(truth, 0.2)
    if request.param == "tanh":
        return near.replace(activation="tanh")
    return near if request.param == "relu" else as_absolute(near)


def evaluated(truth: pn.Network, model: pn.Network, dtype: type = np.float64, passes: int = 1):
    source, start = samples(noise=0.1, net=truth), Parameters.of(model)
    kept = KeptSamples.of(source, start, dtype)
    assert kept is not None
    return source, Linearised.at(kept, start, model.activation, passes)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_beta_is_the_best_and_r_what_it_leaves(
    truth: pn.Network, model: pn.Network, dtype: type
) -> None:
    source, at = evaluated(truth, model, dtype, passes=2)
    expected, rss = fit_linear_part(source, Parameters.of(model), model.activation, passes=2)
    # In float32 values are known to 6e-8, and so is what a correction of size one leaves.
    exact = 1e-10 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(at.parameters.beta, expected.beta, rtol=0, atol=exact)
    assert at.rss == pytest.approx(rss, rel=exact)
    network = at.parameters.network(model.activation)
    left = (network(source.X) - source.y).reshape(len(source.y), -1)
    np.testing.assert_allclose(at.left, left, rtol=0, atol=exact)


def test_the_system_is_that_of_a_pass(truth: pn.Network, model: pn.Network) -> None:
    source, at = evaluated(truth, model, passes=2)
    expected = normal_equations(source, at.parameters, model.activation)
    found = at.equations(np.float64)
    # Sums over 1500 samples of numbers up to ten.
    np.testing.assert_allclose(found.hessian, expected.hessian, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.theta_gradient, expected.theta_gradient, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=0, atol=1e-8)


def test_the_gradient_is_that_of_the_sum_of_squares_with_beta_eliminated(
    truth: pn.Network, model: pn.Network
) -> None:
    source, at = evaluated(truth, model, passes=2)
    gradient, step = at.theta_gradient(), 1e-5
    for unit, column in ((0, 0), (2, 1), (3, 3)):
        values = []
        for sign in (1, -1):
            theta = at.parameters.theta.copy()
            theta[unit, column] += sign * step
            other = Parameters(theta, at.parameters.beta)
            values.append(fit_linear_part(source, other, model.activation, passes=2)[1])
        # Half of the sum's slope; kinks that pass a sample leave differences of some 1e-4.
        assert (values[0] - values[1]) / (4 * step) == pytest.approx(
            gradient[unit, column], rel=1e-2, abs=1e-2
        )


def test_without_a_correction_beta_stays_and_r_is_what_no_other_explains(
    truth: pn.Network, model: pn.Network
) -> None:
    _, at = evaluated(truth, model, passes=0)
    np.testing.assert_array_equal(at.parameters.beta, Parameters.of(model).beta)
    rest = at.without_explained()
    np.testing.assert_array_equal(rest.parameters.beta, at.parameters.beta)
    assert np.abs(rest.overlap(rest.left)).max() < 1e-8 * np.abs(at.overlap(at.left)).max()


def test_threads_share_large_sums(truth: pn.Network, monkeypatch: pytest.MonkeyPatch) -> None:
    model = moved(truth, 0.2)
    _, alone = evaluated(truth, model)
    monkeypatch.setattr(module, "SHARED_WORK", 0)
    monkeypatch.setattr(module, "ROWS_KEPT", 100)
    _, shared = evaluated(truth, model)
    np.testing.assert_allclose(shared.theta_gradient(), alone.theta_gradient(), atol=1e-9)


def test_the_root_of_an_inverse() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 6)) * 10.0 ** np.arange(6)  # any scales
    root = inverse_root(A.T @ A, 1e-14)
    # Of condition 1e10 in squares, which scaling takes away.
    np.testing.assert_allclose(root.T @ root @ (A.T @ A), np.eye(6), rtol=0, atol=1e-4)
    dependent = np.column_stack([A, A[:, 0]])
    found = inverse_root(dependent.T @ dependent, 1e-14)
    y = rng.standard_normal(30)
    fitted = dependent @ (found.T @ (found @ (dependent.T @ y)))
    expected = A @ np.linalg.lstsq(A, y, rcond=None)[0]
    np.testing.assert_allclose(fitted, expected, rtol=0, atol=1e-4)


def test_units_that_overflow_leave_everything_and_warn_nobody(truth: pn.Network) -> None:
    """Such a step is not taken: what it leaves is more than anything before."""
    far = truth.replace(weights=1e200 * truth.weights, activation="gelu_tanh")
    _, at = evaluated(truth, far)
    assert at.rss == np.inf
