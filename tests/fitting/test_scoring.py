"""Fisher's scoring: the information, the best output layer, and the maximum that it ends at."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from provenet.data.sources import ArraySource
from provenet.fitting.levenberg_marquardt import refine
from provenet.fitting.losses import LOGISTIC, SOFTMAX
from provenet.fitting.model import Parameters
from provenet.fitting.scoring import Scoring, information
from provenet.networks.activations import get_activation

TANH = get_activation("tanh")


def problem(outputs=1, n=400, seed=0):
    rng = np.random.default_rng(seed)
    X, theta = rng.standard_normal((n, 2)), rng.standard_normal((2, 3))
    beta = rng.standard_normal((3, outputs) if outputs > 1 else 3)
    F = np.tanh(X @ theta[:, :-1].T + theta[:, -1]) @ beta[:2] + beta[2]
    if outputs == 1:
        y = (rng.random(n) < expit(F)).astype(float)
    else:
        y = np.eye(outputs)[(F + rng.gumbel(size=F.shape)).argmax(axis=1)]
    return ArraySource(X, y), Parameters(theta, beta)


@pytest.mark.parametrize(("loss", "outputs"), [(LOGISTIC, 1), (SOFTMAX, 3)])
def test_gradient_by_all_parameters(loss, outputs):
    source, at = problem(outputs, n=30)

    def deviance(flat):
        beta = flat[at.theta.size :].reshape(at.beta.shape[::-1]).T
        moved = Parameters(flat[: at.theta.size].reshape(at.theta.shape), beta)
        return information(source, moved, TANH, loss).deviance

    flat = np.concatenate([at.theta.ravel(), at.beta.T.ravel()])
    numeric = approx_fprime(flat, deviance, 1e-6)
    sums = information(source, at, TANH, loss)
    # Differences of step 1e-6 are right to about 1e-6 of the second derivative, some tens here.
    np.testing.assert_allclose(2 * sums.gradient, numeric, rtol=0, atol=1e-3)
    assert np.linalg.eigvalsh(sums.matrix).min() > -1e-9


def test_without_units_it_is_logistic_regression():
    source, _ = problem()
    nothing = Parameters(np.empty((0, 3)), np.zeros(3))
    found = Scoring(source, TANH, LOGISTIC).evaluate(nothing, passes=5)
    rival = LogisticRegression(C=np.inf, tol=1e-10).fit(source.X, source.y)
    expected = np.append(rival.coef_[0], rival.intercept_)
    # What the penalty moves: 1e-6 of the weights over an information of some tenths a sample.
    np.testing.assert_allclose(found.parameters.beta, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("loss", "outputs"), [(LOGISTIC, 1), (SOFTMAX, 3)])
def test_it_ends_where_the_gradient_vanishes_below_the_truth(loss, outputs):
    source, truth = problem(outputs)
    fit = refine(source, truth, TANH, spread=1.0, tolerance=1e-12, iterations=60, loss=loss)
    start = information(source, truth, TANH, loss)
    end = information(source, fit.parameters, TANH, loss)
    assert end.deviance < start.deviance
    t = truth.theta.size
    # Scoring ends linearly: a hundredth is far below what chance moves the maximum by.
    assert np.abs(end.gradient[:t]).max() < 1e-2 * np.abs(start.gradient[:t]).max()


def test_log_odds_of_separable_labels_stay_bounded():
    X = np.random.default_rng(0).standard_normal((200, 2))
    source = ArraySource(X, (X[:, 0] > 0).astype(float))
    nothing = Parameters(np.empty((0, 3)), np.zeros(3))
    found = Scoring(source, TANH, LOGISTIC).evaluate(nothing, passes=20)
    assert np.isfinite(found.parameters.beta).all() and np.abs(found.parameters.beta).max() < 1e3
