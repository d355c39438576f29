"""The losses against their definitions: derivatives, Fisher information, working labels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from provenet.fitting.losses import LOGISTIC, SOFTMAX, SQUARES, loss_of_classes, working_labels


def labels(loss, n, outputs, rng):
    if loss is SQUARES:
        return rng.standard_normal((n, outputs))
    if loss is LOGISTIC:
        return rng.integers(0, 2, (n, 1)).astype(float)
    return np.eye(outputs)[rng.integers(0, outputs, n)]


CASES = [(SQUARES, 2), (LOGISTIC, 1), (SOFTMAX, 3)]


@pytest.mark.parametrize(("loss", "outputs"), CASES)
def test_excess_is_half_the_gradient_of_the_deviance(loss, outputs):
    rng = np.random.default_rng(0)
    F, Y = rng.standard_normal((4, outputs)), labels(loss, 4, outputs, rng)

    def total(flat):
        return float(loss.deviance(flat.reshape(F.shape), Y).sum())

    numeric = approx_fprime(F.ravel(), total, 1e-6).reshape(F.shape)
    # Differences of step 1e-6 are right to about 1e-6 of the second derivative.
    np.testing.assert_allclose(2 * loss.excess(F, Y), numeric, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("loss", "outputs"), [(LOGISTIC, 1), (SOFTMAX, 3)])
def test_root_is_that_of_the_variance_of_the_excess(loss, outputs):
    """The Fisher information is the variance of the excess, summed over all labels."""
    F = np.random.default_rng(1).standard_normal((1, outputs))
    every = np.eye(outputs) if outputs > 1 else np.array([[0.0], [1.0]])
    r = loss.excess(np.repeat(F, len(every), axis=0), every)
    chances = np.exp(-loss.deviance(np.repeat(F, len(every), axis=0), every) / 2)
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    expected = np.einsum("n,ni,nj->ij", chances, r, r)
    R = loss.root(F)[0]
    np.testing.assert_allclose(R.T @ R, expected, rtol=0, atol=1e-12)


def test_least_squares_of_working_labels_is_a_step_of_newton():
    rng = np.random.default_rng(2)
    P, y = rng.standard_normal((50, 3)), rng.integers(0, 2, (50, 1)).astype(float)
    beta = 0.3 * rng.standard_normal((3, 1))
    root, T = working_labels(LOGISTIC, P @ beta, y)
    step = np.linalg.solve((root * P).T @ (root * P), P.T @ LOGISTIC.excess(P @ beta, y))
    found = np.linalg.lstsq(root * P, T, rcond=None)[0]
    np.testing.assert_allclose(found, beta - step, rtol=0, atol=1e-10)


def test_plain_labels_are_left_as_they_are():
    y = np.random.default_rng(3).standard_normal((5, 2))
    root, T = working_labels(SQUARES, 1e9 + y, y)
    assert (root == 1).all() and T is y


def test_which_labels_are_classes():
    assert loss_of_classes(np.array([0.0, 1.0, 1.0])) is LOGISTIC
    assert loss_of_classes(np.eye(3)) is SOFTMAX
    assert loss_of_classes(np.array([0.0, 0.5])) is None
    assert loss_of_classes(np.array([[1.0, 1.0], [0.0, 1.0]])) is None


@pytest.mark.parametrize(("loss", "outputs"), CASES)
def test_a_loss_is_itself_in_another_process(loss, outputs):
    """Code asks which one it is."""
    assert pickle.loads(pickle.dumps(loss)) is loss
