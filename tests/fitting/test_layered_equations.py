"""Sums of several layers against a Jacobian by differences, written out."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import numerical_jacobian
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.layered_equations import (
    LayeredEquations,
    LayeredPoint,
    layered_equations,
    layered_step,
)
from provenet.fitting.model import Parameters
from provenet.fitting.normal_equations import DenseStep, normal_equations
from provenet.networks.activations import get_activation

TANH = get_activation("tanh")
RIDGE = 1e-15
DIFFERENCES = 1e-7
"""Relative: a step of 1e-5 off a smooth function leaves its square, and rounding over the step."""


@pytest.fixture(params=[(3, 2), (3, 4, 2)], ids=["two layers", "three layers"])
def widths(request: pytest.FixtureRequest) -> tuple[int, ...]:
    widths: tuple[int, ...] = request.param
    return widths


@pytest.fixture(params=[None, 2], ids=["one output", "two outputs"])
def network(request: pytest.FixtureRequest, widths: tuple[int, ...]) -> pn.DeepNetwork:
    return pn.random_network(widths, 3, outputs=request.param, activation="tanh", rng=0)


@pytest.fixture
def source(network: pn.DeepNetwork) -> ArraySource:
    """Labels of another network of the same shape: residuals are large."""
    other = pn.random_network(network.widths, 3, outputs=network.outputs, activation="tanh", rng=5)
    return ArraySource(*pn.sample(other, 300, rng=1))


def split(network: pn.DeepNetwork, X: Array) -> tuple[Array, Array]:
    """The Jacobian by the layers, and by beta: output by output, a block of columns each."""
    J = numerical_jacobian(network, X)
    p = Parameters.of_deep(network).nonlinear
    return J[:, :p], J[:, p:]


def residual(network: pn.DeepNetwork, source: ArraySource) -> Array:
    return np.asarray((network(source.X) - source.y).ravel())


def equations(network: pn.DeepNetwork, source: ArraySource) -> LayeredEquations:
    return layered_equations(source, Parameters.of_deep(network), network.activation)


def close(found: Array, wanted: Array, relative: float = DIFFERENCES) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=relative * np.abs(wanted).max())


def test_sums_are_those_of_the_explicit_jacobian(
    network: pn.DeepNetwork, source: ArraySource
) -> None:
    sums, r = equations(network, source), residual(network, source)
    D, B = split(network, source.X)
    outputs, rows = network.outputs or 1, len(Parameters.of_deep(network).beta)
    close(sums.hessian, D.T @ D)
    close(sums.layer_gradient, D.T @ r)
    close(sums.gradient.T.ravel(), B.T @ r)
    for q in range(outputs):
        own = B[:, q * rows : (q + 1) * rows]
        close(sums.gram, own.T @ own)
        close(sums.cross[q], D.T @ own)
    assert sums.cross.shape == (outputs, D.shape[1], rows)
    assert sums.rss == pytest.approx(float(r @ r), rel=1e-12)


def test_eliminating_beta_is_what_lstsq_does(network: pn.DeepNetwork, source: ArraySource) -> None:
    """S and the right-hand side of what is left of D after its best explanation by beta's columns.

    The ridge of 1e-15 is worth less than differences.
    """
    D, B = split(network, source.X)
    left = D - B @ np.linalg.lstsq(B, D, rcond=None)[0]
    r = residual(network, source)
    S, rhs = equations(network, source).eliminated(RIDGE)
    close(S, left.T @ left)
    close(rhs, left.T @ r, 10 * DIFFERENCES)


def test_an_undamped_step_is_the_gauss_newton_step(
    network: pn.DeepNetwork, source: ArraySource
) -> None:
    """Of the full system by lstsq, the layers' part; no two parameters of tanh do the same.

    Differences are off by 1e-7 in J, times a condition number of some hundred.
    """
    J = np.hstack(split(network, source.X))
    full = np.linalg.lstsq(J, residual(network, source), rcond=None)[0]
    step, rss = layered_step(source, Parameters.of_deep(network), TANH, np.float64, RIDGE)
    solved = step.solve(0.0)
    assert solved is not None
    close(solved.move, full[: len(solved.move)], 1e-4)
    assert rss == pytest.approx(float(np.sum(residual(network, source) ** 2)), rel=1e-12)


def test_sums_over_halves_add_up(network: pn.DeepNetwork, source: ArraySource) -> None:
    whole = equations(network, source)
    halves = [
        equations(network, ArraySource(source.X[rows], source.y[rows]))
        for rows in (slice(0, 140), slice(140, None))
    ]
    total = halves[0] + halves[1]
    for name in ("hessian", "cross", "gram", "layer_gradient", "gradient"):
        close(getattr(total, name), getattr(whole, name), 1e-13)
    assert total.rss == pytest.approx(whole.rss, rel=1e-13)


def test_single_precision_is_for_the_matrix_alone(
    network: pn.DeepNetwork, source: ArraySource
) -> None:
    """The matrix is off by some units of 6e-8; what steps lead to, the gradient, is the same."""
    parameters = Parameters.of_deep(network)
    coarse = layered_equations(source, parameters, TANH, np.float32)
    fine = layered_equations(source, parameters, TANH)
    close(coarse.hessian, fine.hessian, 1e-6)
    close(coarse.cross, fine.cross, 1e-6)
    assert np.abs(coarse.hessian - fine.hessian).max() > 0
    np.testing.assert_array_equal(coarse.layer_gradient, fine.layer_gradient)
    np.testing.assert_array_equal(coarse.gradient, fine.gradient)
    np.testing.assert_array_equal(coarse.gram, fine.gram)
    assert coarse.hessian.dtype == float and coarse.rss == fine.rss


@pytest.mark.parametrize("outputs", [None, 2])
def test_of_one_layer_they_are_those_of_one_layer(outputs: int | None) -> None:
    network = pn.random_network(4, 3, outputs=outputs, activation="tanh", rng=0)
    source = ArraySource(*pn.sample(network, 200, noise=1.0, rng=1))
    parameters = Parameters.of(network)
    one = DenseStep.of(normal_equations(source, parameters, network.activation), parameters, RIDGE)
    S, rhs = layered_equations(source, parameters, network.activation).eliminated(RIDGE)
    close(S, one.matrix, 1e-11)
    close(rhs, one.rhs, 1e-11)


def test_pulling_back_sums_the_rows_of_the_jacobian(
    network: pn.DeepNetwork, source: ArraySource
) -> None:
    point = LayeredPoint.at(Parameters.of_deep(network), TANH, source.X)
    top = np.random.default_rng(0).standard_normal((len(source.X), network.widths[-1]))
    close(point.pulled_back(top), point.jacobian(top).sum(axis=0), 1e-12)
