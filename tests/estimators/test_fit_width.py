"""Fitting networks and halfspaces to data that none of them made."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from provenet.estimators import fit_halfspaces, fit_width
from provenet.estimators.penalised import Penalised
from provenet.fitting.model import Parameters
from provenet.networks.activations import get_activation


def data(n=120, features=3, outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, features))
    Y = np.column_stack([np.sin(X[:, 0] + k) + X[:, 1] for k in range(outputs)])
    return X, (Y - Y.mean(axis=0)) / Y.std(axis=0)


@pytest.mark.parametrize("activation", ["abs", "sigmoid"])
@pytest.mark.parametrize("linear", [True, False])
def test_gradient_of_the_penalised_loss(activation, linear):
    X, Y = data()
    rng = np.random.default_rng(1)
    rows = 4 + (4 if linear else 1)
    like = Parameters(rng.standard_normal((4, 4)), rng.standard_normal((rows, 2)))
    penalised = Penalised(X, Y, 0.1, get_activation(activation))
    packed = np.concatenate([like.theta.ravel(), like.beta.ravel()])
    _, gradient = penalised._value_and_gradient(packed, like)
    numeric = approx_fprime(packed, lambda p: penalised._value_and_gradient(p, like)[0], 1e-7)
    # Differences of step 1e-7 are right to about 1e-7 of the second derivative, and to a kink that
    # a step happens to cross.
    np.testing.assert_allclose(gradient, numeric, rtol=0, atol=1e-5)


def test_minimising_ends_where_the_gradient_vanishes():
    X, Y = data()
    penalised = Penalised(X, Y, 0.05, get_activation("sigmoid"))
    rng = np.random.default_rng(2)
    start = Parameters(rng.standard_normal((3, 4)), np.zeros((4, 2)))
    found = penalised.minimise(start, 500, 1e-14)
    packed = np.concatenate([found.theta.ravel(), found.beta.ravel()])
    _, gradient = penalised._value_and_gradient(packed, found)
    _, at_start = penalised._value_and_gradient(
        np.concatenate([start.theta.ravel(), start.beta.ravel()]), start
    )
    assert np.abs(gradient).max() < 1e-4 * np.abs(at_start).max()


def test_a_mean_of_fits_is_one_network():
    rng = np.random.default_rng(4)
    fits = [
        Parameters(rng.standard_normal((m, 4)), rng.standard_normal((m + 4, 2))) for m in (2, 3)
    ]
    X = rng.standard_normal((10, 3))
    relu = get_activation("relu")
    mean = np.mean([fit.network(relu)(X) for fit in fits], axis=0)
    np.testing.assert_allclose(fit_width._mean(fits).network(relu)(X), mean, rtol=0, atol=1e-13)


def test_pruning_changes_no_value():
    X, Y = data()
    rng = np.random.default_rng(5)
    beta = rng.standard_normal((9, 2))
    beta[1] = 1e-9
    theta = rng.standard_normal((5, 4))
    theta[3, :-1] = 0.0  # a constant
    fit = Parameters(theta, beta)
    pruned = fit_width._pruned(Penalised(X, Y, 0.1, get_activation("abs")), fit)
    assert pruned.units == 3
    values = (p.network(get_activation("abs"))(X) for p in (fit, pruned))
    np.testing.assert_allclose(*values, rtol=0, atol=1e-7)


def test_labels_of_any_scale_and_inputs_of_any_scale_give_the_same_fit():
    X, Y = data(outputs=1)
    y = Y[:, 0]
    options = {"activation": get_activation("relu"), "units": 2}
    fit = fit_width.fit_width(X, y, rng=np.random.default_rng(0), **options)
    stretch = np.array([2.0**10, 2.0**-10, 1.0])  # exact in binary, so all steps are the same
    scaled = fit_width.fit_width(X * stretch, 2.0**20 * y, rng=np.random.default_rng(0), **options)
    np.testing.assert_allclose(scaled.network(X * stretch) / 2.0**20, fit.network(X), atol=1e-9)
    assert scaled.error == pytest.approx(fit.error, rel=1e-9)


def test_noise_is_left_to_linear_regression_and_curvature_is_not():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((150, 3))
    noise = rng.standard_normal(150)
    fits = [
        fit_width.fit_width(X, y, activation=get_activation("relu"), rng=np.random.default_rng(0))
        for y in (X[:, 0] + noise, 3 * np.abs(X[:, 0]) + 0.3 * noise)
    ]
    flat, kinked = fits
    # Of the first, half is noise and no network can do better; of the second, 0.09 of 3.3.
    assert 0.4 < flat.error <= flat.linear_error < 0.65
    assert kinked.width >= 1 and kinked.error < 0.06 < 0.5 < kinked.linear_error
    assert min(kinked.errors.values()) == kinked.error


def test_one_sample_is_its_own_constant():
    fit = fit_width.fit_width(
        np.ones((1, 2)), np.array([4.0]), activation=get_activation("relu"),
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert fit.network(np.zeros((3, 2))).tolist() == [4.0] * 3


# ---------------------------------------------------------------- halfspaces


def test_gradient_of_the_loss_of_halfspaces():
    rng = np.random.default_rng(7)
    inputs, sign = rng.standard_normal((80, 4)), rng.choice([-1.0, 1.0], 80)
    packed = rng.standard_normal(12)
    _, gradient = fit_halfspaces._loss(packed, inputs, sign, 3)
    numeric = approx_fprime(packed, lambda p: fit_halfspaces._loss(p, inputs, sign, 3)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, rtol=0, atol=1e-5)


@pytest.mark.parametrize("intersection", [True, False])
def test_halfspaces_around_a_square_are_an_intersection(intersection):
    rng = np.random.default_rng(8)
    X = rng.uniform(-2, 2, (1500, 2)) * [1.0, 30.0] + [0.0, 500.0]
    square = np.max(np.abs((X - [0.0, 500.0]) / [1.0, 30.0]), axis=1) < 1
    fired = square if intersection else ~square
    found = fit_halfspaces.fit_halfspaces(X, fired, rng=np.random.default_rng(0))
    assert found.intersection == intersection and len(found.thresholds) >= 4
    assert np.mean(found(X) != fired) < 0.03 and found.error < 0.05
    # The faces of the square are among the halfspaces, each to a few degrees in its own scale.
    own = found.weights * [1.0, 30.0]
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    faces = np.vstack([np.eye(2), -np.eye(2)])
    assert np.all((faces @ own.T).max(axis=1) > 0.98)
