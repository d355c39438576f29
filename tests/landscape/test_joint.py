"""The squared loss in output weights and rows together."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.landscape.joint import JointLoss
from provenet.landscape.losses import SampleLoss
from provenet.landscape.objectives import sample_objective
from provenet.landscape.second_order import second_order
from provenet.networks.activations import RELU

UNITS, FEATURES = 3, 4


def a_loss(name: str, seed: int = 0) -> tuple[JointLoss, SampleLoss, Array]:
    """The loss on some samples, both ways, and a point `[B | a]`."""
    rng = np.random.default_rng([seed, 1])
    truth = pn.random_network(UNITS, FEATURES, rng=rng)
    X, y = pn.sample(truth, 50, rng=rng)
    loss = sample_objective(name, X, y, UNITS, RELU)
    assert isinstance(loss, SampleLoss)
    joint = JointLoss(loss)
    return joint, loss, joint.retract(rng.standard_normal((UNITS, FEATURES + 1)))


@pytest.mark.parametrize("name", ["l2", "f2f4", "abs"])
def test_it_is_the_loss_with_these_output_weights(name: str) -> None:
    joint, loss, C = a_loss(name)
    B, a = C[:, :-1], C[:, -1]
    assert joint.value(C) == pytest.approx(loss.loss_and_partial(a, B)[0], rel=1e-14)
    # Where output weights are at their best, theirs is no slope, and the other is that of the rest.
    best = np.column_stack([B, loss.output_weights_at(B)])
    slope = joint.gradient(best)
    np.testing.assert_allclose(slope[:, -1], 0, atol=1e-10)
    np.testing.assert_allclose(slope[:, :-1], loss.gradient(B), atol=1e-12)


@pytest.mark.parametrize("name", ["l2", "f2f4", "abs"])
def test_gradient_and_hessian_are_those_of_differences(name: str) -> None:
    """Central differences of 1e-6: the kinks of these few samples are farther away."""
    joint, _, C = a_loss(name)
    V = np.random.default_rng(2).standard_normal(C.shape)
    h = 1e-6
    slope = (joint.value(C + h * V) - joint.value(C - h * V)) / (2 * h)
    assert np.sum(joint.gradient(C) * V) == pytest.approx(slope, rel=1e-6)
    turned = (joint.gradient(C + h * V) - joint.gradient(C - h * V)) / (2 * h)
    np.testing.assert_allclose(joint.hessian_product(C, V), turned, rtol=1e-5, atol=1e-6)


def test_curvature_is_that_along_the_spheres() -> None:
    """The second difference of the value along a path that stays on them."""
    joint, _, C = a_loss("f2f4")
    V = joint.tangent(C, np.random.default_rng(2).standard_normal(C.shape))
    norms = np.linalg.norm(V[:, :-1], axis=1, keepdims=True)

    def at(t: float) -> float:
        B = np.cos(t * norms) * C[:, :-1] + np.sin(t * norms) * V[:, :-1] / norms
        return joint.value(np.column_stack([B, C[:, -1] + t * V[:, -1]]))

    h = 1e-4
    bend = (at(h) - 2 * at(0.0) + at(-h)) / h**2
    assert np.sum(V * joint.curvature(C, V, joint.gradient(C))) == pytest.approx(bend, rel=1e-5)
    retracted = joint.retract(C + V)
    np.testing.assert_allclose(np.linalg.norm(retracted[:, :-1], axis=1), 1, atol=1e-14)
    np.testing.assert_array_equal(retracted[:, -1], (C + V)[:, -1])


def test_the_network_behind_the_labels_is_a_minimum() -> None:
    rng = np.random.default_rng(0)
    truth = pn.Network(np.eye(3), output_weights=[1.0, 2.0, 0.5])
    X, y = pn.sample(truth, 400, rng=rng)
    loss = sample_objective("l2", X, y, 3, RELU)
    assert isinstance(loss, SampleLoss)
    found = second_order(JointLoss(loss), np.column_stack([np.eye(3), [1.0, 2.0, 0.5]]))
    assert found.value < 1e-28 and found.is_minimum and found.lowest > 1e-3
