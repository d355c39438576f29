"""Deep networks that are nearly right: Gauss-Newton steps with one matrix, and its covariance."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.data.sources.arrays import ArraySource
from provenet.fitting.layered_covariance import deep_covariance
from provenet.fitting.layered_newton import NearlyExact, Newton, WeightedSamples


def normalised(outputs: int, seed: int) -> pn.DeepNetwork:
    """A 5-4-3 network in canonical form, its outputs in rows."""
    net = pn.random_network(units=(4, 3), features=5, outputs=outputs, rng=seed).canonical()
    return pn.DeepNetwork(net.weights, net.biases, outputs=outputs)


def samples_of(net: pn.DeepNetwork, n: int, rng: np.random.Generator) -> WeightedSamples:
    """Answers at random inputs."""
    X = 2 * rng.standard_normal((n, 5))
    Y = net(X).reshape(n, -1)
    return WeightedSamples(X, Y, np.ones(n))


def changed(net: pn.DeepNetwork, off: float, rng: np.random.Generator) -> pn.DeepNetwork:
    """All parameters off by so much."""
    weights = [W + off * rng.standard_normal(W.shape) for W in net.weights]
    biases = [b + off * rng.standard_normal(b.shape) for b in net.biases]
    return net.replace(weights=weights, biases=biases)


def fitted(
    net: pn.DeepNetwork, unsure: float, noise: float, samples: WeightedSamples
) -> NearlyExact:
    """All samples at once."""
    fits = Newton(net, unsure, noise)
    fits.add(samples)
    return fits.fitted(samples)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_exact_answers_give_the_network_to_rounding(outputs: int, seed: int) -> None:
    net, rng = normalised(outputs, seed), np.random.default_rng(seed)
    samples = samples_of(net, 400, rng)
    fit = fitted(changed(net, 1e-8, rng), 1e-7, 1e-16, samples)
    assert pn.parameter_error(fit.network, net) < 1e-11 and fit.rms < 1e-14


@pytest.mark.parametrize("seed", [0, 1, 4, 7])
def test_from_further_away_the_matrix_is_formed_anew(seed: int) -> None:
    """One matrix ends between 5e-10 and 9e-5 here; rounding is 1e-15."""
    net, rng = normalised(1, seed), np.random.default_rng(seed)
    samples = samples_of(net, 400, rng)
    fit = fitted(changed(net, 1e-3, rng), 1e-2, 1e-16, samples)
    assert fit.rms < 1e-13


def test_the_errors_are_those_of_the_covariance_of_layers() -> None:
    """Two routes: beta kept as parameters and norms held, or eliminated and projected."""
    net, rng = normalised(2, 0), np.random.default_rng(0)
    samples = samples_of(net, 500, rng)
    fit = fitted(net, 1e3, 1e-16, samples)
    other = deep_covariance(ArraySource(samples.X, samples.Y), fit.network)
    assert other.rank_deficiency == 0
    for own, its in zip(fit.errors.weights, other.errors.weights, strict=True):
        np.testing.assert_allclose(own, its, rtol=1e-4)
    for own, its in zip(fit.errors.biases, other.errors.biases, strict=True):
        np.testing.assert_allclose(own, its, rtol=1e-4)


def test_what_answers_leave_open_keeps_the_error_it_had() -> None:
    net, rng = normalised(1, 0), np.random.default_rng(0)
    dead = net.biases[0].copy()
    dead[0] = -1e4
    net = net.replace(biases=(dead, *net.biases[1:]))
    samples = samples_of(net, 400, rng)
    fit = fitted(net, 1e-3, 1e-12, samples)
    assert 1e-12 * fit.errors.weights[0][0].max() == pytest.approx(1e-3, rel=0.5)


def test_samples_may_come_one_part_after_the_other() -> None:
    net, rng = normalised(1, 1), np.random.default_rng(0)
    start = changed(net, 1e-8, rng)
    first, more = samples_of(net, 100, rng), samples_of(net, 200, rng)
    fits = Newton(start, 1e-7, 1e-16)
    fits.add(first)
    fits.fitted(first)
    fits.add(more)
    fit = fits.fitted(first + more)
    at_once = fitted(start, 1e-7, 1e-16, first + more)
    assert pn.parameter_error(fit.network, net) < 1e-11
    for own, its in zip(fit.errors.weights, at_once.errors.weights, strict=True):
        np.testing.assert_allclose(own, its, rtol=1e-4)


@pytest.mark.parametrize("outputs", [1, 3])
def test_changes_along_a_step_are_those_of_a_network_that_took_it(outputs: int) -> None:
    """Two routes: along all parameters at once, and by the derivatives of every answer."""
    net, rng = normalised(outputs, 0), np.random.default_rng(0)
    samples = samples_of(net, 100, rng)
    fit = fitted(net, 1e-3, 1e-12, samples)
    steps, X = rng.standard_normal((3, len(fit.rows))), rng.standard_normal((7, 5))
    by_derivatives = np.einsum("nop,sp->sno", fit.derivatives(X), steps)
    np.testing.assert_allclose(fit.changes(X, steps), by_derivatives, atol=1e-12)


def slopes_of(net: pn.DeepNetwork, n: int, rng: np.random.Generator) -> WeightedSamples:
    """Slopes along all axes at random inputs, a hundred times less sure than answers."""
    (W, b), (V, c), (A, _) = net.affine_maps
    X, axes = 2 * rng.standard_normal((n, 5)), np.tile(np.eye(5), (n, 1))
    on = X @ W.T + b > 0
    above = (X @ W.T + b) * on @ V.T + c > 0
    Y = np.einsum("oj,nj,ji,ni,ik->nko", A, above, V, on, W).reshape(5 * n, -1)
    of = np.column_stack([axes, np.zeros(5 * n)])
    return WeightedSamples(np.repeat(X, 5, axis=0), Y, np.full(5 * n, 0.01), of)


@pytest.mark.parametrize("outputs", [1, 3])
def test_slopes_are_explained_by_the_network_beside_answers(outputs: int) -> None:
    net, rng = normalised(outputs, 0), np.random.default_rng(0)
    both = samples_of(net, 4, rng) + slopes_of(net, 3, rng)
    np.testing.assert_allclose(both.residuals(net), 0.0, atol=1e-13)
    np.testing.assert_array_equal(both[4:].of, slopes_of(net, 3, np.random.default_rng(0)).of)


@pytest.mark.parametrize("seed", [1, 4, 10, 13])  # of others units show nowhere
def test_slopes_tell_what_few_answers_leave_open(seed: int) -> None:
    """43 parameters, 20 answers, and 300 slopes, off by rounding alone."""
    net, rng = normalised(1, seed), np.random.default_rng(seed)
    few, start = samples_of(net, 20, rng), changed(net, 1e-7, rng)
    alone = fitted(start, 1e-6, 1e-15, few)
    beside = fitted(start, 1e-6, 1e-15, few + slopes_of(net, 60, rng))
    assert pn.parameter_error(alone.network, net) > 1e-8
    assert pn.parameter_error(beside.network, net) < 1e-10


def test_parameters_belong_to_the_rows_whose_errors_are_told() -> None:
    net, rng = normalised(2, 0), np.random.default_rng(0)
    fit = fitted(net, 1e-3, 1e-12, samples_of(net, 100, rng))
    of_rows = np.sqrt(np.bincount(fit.rows, fit.covariance.variances))
    np.testing.assert_allclose(of_rows, fit.errors.of_rows)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_matrix_in_single_precision_leads_to_the_same_network(seed: int) -> None:
    """The gradient is exact: what the matrix lacks costs steps."""
    net, rng = normalised(1, seed), np.random.default_rng(seed)
    samples, near = samples_of(net, 400, rng), changed(net, 1e-8, rng)
    double, single = fitted(near, 1e-7, 1e-16, samples), Newton(near, 1e-7, 1e-16, single=True)
    single.add(samples)
    found = single.fitted(samples)
    assert not single.hides and pn.parameter_error(found.network, net) < 1e-11
    np.testing.assert_allclose(found.errors.of_rows, double.errors.of_rows, rtol=0.05)


def test_what_single_precision_hides_double_precision_tells() -> None:
    """Two units that are alike to 1e-3: answers tell their sum, and hardly their difference."""
    net, rng = normalised(1, 0), np.random.default_rng(0)
    W, b = net.weights[0].copy(), net.biases[0].copy()
    W[1], b[1] = W[0] + 1e-3 * W[1], b[0] + 1e-3
    W[1] /= np.linalg.norm(W[1])
    net = net.replace(weights=(W, *net.weights[1:]), biases=(b, *net.biases[1:]))
    samples = samples_of(net, 4000, rng)
    fits = Newton(net, 1e-3, 1e-16, single=True)
    fits.add(samples)
    assert fits.hides and 1e-16 * fits.as_it_is().errors.largest > 1e-5
    fits.in_double(samples)
    assert not fits.hides and 1e-16 * fits.as_it_is().errors.largest < 1e-8
