"""Steps by conjugate gradients against the dense normal equations."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import NET, NETS, moved, samples
from provenet.common.ended import Ended
from provenet.data.parallel import one_blas_thread
from provenet.data.sources import ArraySource
from provenet.fitting import iterative_step as module
from provenet.fitting import linearised
from provenet.fitting.iterative_step import Curvature, IterativeStep, PassCurvature, curvature_at
from provenet.fitting.levenberg_marquardt import refine
from provenet.fitting.model import Parameters
from provenet.fitting.normal_equations import DenseStep, normal_equations
from provenet.fitting.output_layer import fit_linear_part
from provenet.networks.activations import ABS
from provenet.networks.conversions import as_absolute


@pytest.fixture(params=["one output", "three outputs"])
def truth(request: pytest.FixtureRequest) -> pn.Network:
    return NETS[request.param]


@pytest.fixture(params=["relu", "abs with a linear part"])
def model(truth: pn.Network, request: pytest.FixtureRequest) -> pn.Network:
    """A network near the truth in either of the two forms that are refined."""
    near = moved(truth, 0.2)
    return near if request.param == "relu" else as_absolute(near)


@pytest.fixture(params=["kept", "read again"])
def in_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether samples are kept in memory between products."""
    if request.param == "read again":
        monkeypatch.setattr(linearised, "MOST_KEPT", 0)
    return bool(request.param == "kept")


def test_products_are_those_of_the_matrix_without_beta(
    truth: pn.Network, model: pn.Network, in_memory: bool
) -> None:
    source, parameters = samples(noise=0.1, net=truth), Parameters.of(model)
    dense = DenseStep.of(
        normal_equations(source, parameters, model.activation), parameters, ridge=1e-14
    )
    step = curvature_at(source, parameters, model.activation, np.float64)
    assert isinstance(step, PassCurvature) != in_memory
    v = np.random.default_rng(0).standard_normal(parameters.theta.size)
    # Sizes up to 1e3; a ridge of 1e-12 on features of condition 1e2 or so.
    np.testing.assert_allclose(step.product(v), dense.matrix @ v, rtol=0, atol=1e-7)
    np.testing.assert_allclose(step.rhs, dense.rhs, rtol=0, atol=1e-7)
    # Both carry 1e-10 of their mean.
    np.testing.assert_allclose(step.diagonal, dense.damping, rtol=1e-9)
    single = curvature_at(source, parameters, model.activation)
    # Float32 has 6e-8, and half of the matrix cancels at most.
    error = np.linalg.norm(single.product(v) - dense.matrix @ v)
    assert error < 1e-5 * np.linalg.norm(dense.matrix @ v)


@pytest.mark.parametrize("damping", [1e-2, 1.0])
def test_conjugate_gradients_take_the_dense_step(
    truth: pn.Network, model: pn.Network, damping: float
) -> None:
    source, parameters = samples(noise=0.1, net=truth), Parameters.of(model)
    equations = normal_equations(source, parameters, model.activation)
    expected = DenseStep.of(equations, parameters, 1e-14).solve(damping)
    step = IterativeStep(curvature_at(source, parameters, model.activation))
    found = step.solve(damping, 1e-5)
    # A relative residual of 1e-5 in a scaled system of condition 100 at most, by the damping.
    assert expected is not None and found.ended is Ended.CONVERGED
    assert np.linalg.norm(found.move - expected.move) < 1e-2 * np.linalg.norm(expected.move)


def test_a_step_that_ran_out_of_products_says_so(
    truth: pn.Network, model: pn.Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, parameters = samples(noise=0.1, net=truth), Parameters.of(model)
    monkeypatch.setattr(module, "MOST_PRODUCTS", 1)
    curvature = curvature_at(source, parameters, model.activation)
    early = IterativeStep(curvature).solve(1e-2, 1e-8)
    assert early.ended is Ended.OUT_OF_STEPS
    assert early.move @ curvature.rhs > 0  # downhill


def test_no_scale_of_labels_is_too_large_for_single_precision() -> None:
    source, near = samples(), moved(NET, 0.2)
    scale = 1e30
    step, large = (
        IterativeStep(
            curvature_at(
                ArraySource(source.X, s * source.y),
                Parameters.of(
                    near.replace(
                        output_weights=s * near.output_weights, output_bias=s * near.output_bias
                    )
                ),
                near.activation,
            )
        ).solve(0.1)
        for s in (1.0, scale)
    )
    np.testing.assert_allclose(large.move, step.move, rtol=0, atol=1e-4 * np.abs(step.move).max())


def test_refinement_of_many_parameters_ends_at_the_truth() -> None:
    """(60, 15), from 0.1 away: 915 nonlinear parameters, so every step is an iterative one."""
    truth = pn.random_network(15, 60, bias_scale=1.5, rng=0)
    X = np.random.default_rng(1).standard_normal((4000, 60))
    source = ArraySource(X, truth(X))
    start = Parameters.of(as_absolute(moved(truth, 0.1)))
    before = fit_linear_part(source, start, ABS)[1]
    with one_blas_thread():
        fit = refine(source, start, ABS, spread=float(source.y.std()), tolerance=1e-9)
    assert before > 1e-3 * np.sum(source.y**2)
    assert fit.rms < 1e-13 * source.y.std() and fit.iterations < 20


def test_units_that_are_alike_do_not_slow_a_step_down(monkeypatch: pytest.MonkeyPatch) -> None:
    # Six units and six near them: the diagonal knows nothing of what they share.
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((6, 21))
    theta = np.vstack([theta, theta + 0.1 * rng.standard_normal(theta.shape)])
    X = rng.standard_normal((1000, 20))
    source = ArraySource(X, np.abs(X @ theta[:6, :-1].T).sum(axis=1))
    parameters, _ = fit_linear_part(source, Parameters(theta, np.zeros(12 + 21)), ABS)
    curvature = curvature_at(source, parameters, ABS, np.float64)
    few = _products(curvature, monkeypatch)
    weights = curvature.diagonal
    monkeypatch.setattr(curvature, "preconditioner", lambda damping: lambda r: r / weights)
    assert few <= 0.7 * _products(curvature, monkeypatch)


def _products(curvature: Curvature, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many products a step of three digits takes."""
    counted, product = [], type(curvature).product
    monkeypatch.setattr(curvature, "product", lambda v: counted.append(1) or product(curvature, v))
    assert IterativeStep(curvature).solve(1e-6, 1e-3).ended is Ended.CONVERGED
    return len(counted)
