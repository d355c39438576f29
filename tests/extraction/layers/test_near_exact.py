"""Deep networks that are nearly right: the packed inverse against dense algebra, and the fits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag, null_space

import provenet as pn
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.extraction.layers.near_exact import (
    Newton,
    PackedCovariance,
    PackedMatrix,
    WeightedSamples,
    norms_kept,
)
from provenet.fitting.covariance import covariance


def normalised(outputs: int, seed: int) -> pn.DeepNetwork:
    """A 5-4-3 network in canonical form, its outputs in rows."""
    net = pn.random_network(units=(4, 3), features=5, outputs=outputs, rng=seed).canonical()
    return pn.DeepNetwork(net.weights, net.biases, outputs=outputs)


def samples_of(net: pn.DeepNetwork, n: int, rng: np.random.Generator) -> WeightedSamples:
    X = 2 * rng.standard_normal((n, 5))
    return WeightedSamples.values(X, net(X).reshape(n, -1), np.ones(n))


def slopes_of(net: pn.DeepNetwork, n: int, rng: np.random.Generator) -> WeightedSamples:
    """Slopes along all axes at random inputs, by differences within a linear region."""
    X, step = 2 * rng.standard_normal((n, 5)), 1e-6
    Y = np.stack([net(X + step * e) - net(X - step * e) for e in np.eye(5)], axis=1) / (2 * step)
    of = np.column_stack([np.tile(np.eye(5), (n, 1)), np.zeros(5 * n)])
    return WeightedSamples(np.repeat(X, 5, axis=0), Y.reshape(5 * n, -1), np.full(5 * n, 1e-2), of)


def changed(net: pn.DeepNetwork, by: float, rng: np.random.Generator) -> pn.DeepNetwork:
    weights = [W + by * rng.standard_normal(W.shape) for W in net.weights]
    biases = [b + by * rng.standard_normal(b.shape) for b in net.biases]
    return net.replace(weights=weights, biases=biases)


# ---------------------------------------------------------------- the matrix and its inverse


def basis_of(net: pn.DeepNetwork) -> Array:
    """Z as a dense matrix: weights of hidden units turn, everything else is free."""
    units = (null_space(w[None]) for W in net.weights[:-1] for w in W)
    rest = net.weights[-1].size + net.biases[-1].size
    return np.asarray(block_diag(*(block_diag(Z, 1.0) for Z in units), np.eye(rest)))


def assert_is(found: PackedCovariance, expected: Array, rtol: float) -> None:
    size = np.abs(expected).max()
    np.testing.assert_allclose(found.times(np.eye(len(expected))), expected, atol=rtol * size)
    np.testing.assert_allclose(found.variances, np.diag(expected), atol=rtol * size)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-9), (np.float32, 1e-3)])
@pytest.mark.parametrize("units", [(4, 3), (12, 20)])  # 43 parameters; 353, in two blocks
def test_the_packed_inverse_is_the_dense_one_and_takes_more_rows(
    units: tuple[int, ...], dtype: type[np.floating], rtol: float
) -> None:
    """Rounding times the condition of H, 1e3 at most."""
    rng = np.random.default_rng(0)
    net = pn.random_network(units=units, features=5, rng=0)
    Z = basis_of(net)
    p = len(Z)
    D, more = rng.standard_normal((3 * p, p)), rng.standard_normal((3, p))
    matrix = PackedMatrix(p, norms_kept(net), 0.5, dtype)
    matrix.add(D)
    first = matrix.covariance(0.0 if dtype is np.float32 else 1e-15)
    expected = Z @ np.linalg.inv(Z.T @ (D.T @ D + 0.5 * np.eye(p)) @ Z) @ Z.T
    assert_is(first, expected, rtol)
    root = first.draws(np.eye(p))  # columns beyond the rank count for nothing
    np.testing.assert_allclose(root.T @ root, expected, atol=rtol)
    matrix.add(more)  # beside its inverse
    both = np.vstack([D, more])
    expected = Z @ np.linalg.inv(Z.T @ (both.T @ both + 0.5 * np.eye(p)) @ Z) @ Z.T
    assert_is(first.with_rows(more[:1]).with_rows(more[1:]), expected, rtol)
    assert_is(matrix.covariance(0.0 if dtype is np.float32 else 1e-15), expected, rtol)


@pytest.mark.parametrize(("dtype", "ridge"), [(np.float64, 1e-15), (np.float32, 3e-6)])
def test_what_no_row_determines_keeps_the_variance_that_was_held(
    dtype: type[np.floating], ridge: float
) -> None:
    """One direction of many parameters, each of which the rows determine by itself."""
    n, held, rng = 60, 1e-14, np.random.default_rng(3)
    d = rng.standard_normal(n)
    d /= np.linalg.norm(d)
    D = rng.standard_normal((3 * n, n))
    matrix = PackedMatrix(n, [], held, dtype)
    matrix.add(D - np.outer(D @ d, d))
    np.testing.assert_allclose(matrix.covariance(ridge).variances, d**2 / held, rtol=0.01, atol=1)


def test_rows_that_are_not_definite_get_a_larger_ridge_and_sure_ones_end_at_rounding() -> None:
    matrix = PackedMatrix(3, [], 0.0)
    matrix.add(np.ones((2, 3)))
    assert (matrix.covariance(1e-21).variances > 1e10).all()
    sure = PackedMatrix(3, [], 1.0).covariance(1e-15).with_rows(np.array([[1e12, 0.0, 0.0]]))
    assert sure.variances[:2] == pytest.approx([1e-12, 1.0])


# ---------------------------------------------------------------- fits


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(("outputs", "seed"), [(1, 0), (1, 1), (3, 0)])
def test_exact_answers_give_the_network_to_rounding(outputs: int, seed: int, single: bool) -> None:
    """All at once, or one part after the other; in single precision what lacks costs steps."""
    net, rng = normalised(outputs, seed), np.random.default_rng(seed)
    first, more = samples_of(net, 150, rng), samples_of(net, 300, rng)
    start, errors = changed(net, 1e-8, rng), []
    for parts in ([first + more], [first, more]):
        fits = Newton(start, parts[0], 1e-7, 1e-16, single=single)
        for part in parts[1:]:
            fits.fitted()
            fits.add(part)
        fit = fits.fitted()
        assert pn.parameter_error(fit.network, net) < 1e-11 and fit.rms < 1e-14
        errors.append(fit.errors.of_rows)
    np.testing.assert_allclose(*errors, rtol=0.05 if single else 1e-4)


@pytest.mark.parametrize("seed", [0, 1, 4, 7])
def test_from_further_away_the_matrix_is_formed_anew(seed: int) -> None:
    """One matrix ends between 5e-10 and 9e-5 here; rounding is 1e-15."""
    net, rng = normalised(1, seed), np.random.default_rng(seed)
    fits = Newton(changed(net, 1e-3, rng), samples_of(net, 400, rng), 1e-2, 1e-16)
    assert fits.fitted().rms < 1e-13


def test_the_errors_are_those_of_the_covariance_of_layers() -> None:
    """Two routes: the output layer kept as parameters and norms held, or eliminated."""
    net, rng = normalised(2, 0), np.random.default_rng(0)
    samples = samples_of(net, 500, rng)
    fit = Newton(net, samples, 1e3, 1e-16).fitted()
    other = covariance(ArraySource(samples.X, samples.Y), fit.network).deep_errors(1.0)
    for own, its in zip(fit.errors.weights, other.weights, strict=True):
        np.testing.assert_allclose(own, its, rtol=1e-4)


def test_what_answers_leave_open_keeps_the_error_it_had() -> None:
    """A unit that is always off; and two that are alike to 1e-3, which single precision hides."""
    net, rng = normalised(1, 0), np.random.default_rng(0)
    W, b = net.weights[0].copy(), net.biases[0].copy()
    dead = net.replace(biases=(b - 1e4 * np.eye(4)[0], *net.biases[1:]))
    fit = Newton(dead, samples_of(dead, 400, rng), 1e-3, 1e-12).as_it_is()
    assert 1e-12 * fit.errors.weights[0][0].max() == pytest.approx(1e-3, rel=0.5)
    W[1], b[1] = W[0] + 1e-3 * W[1], b[0] + 1e-3
    twins = net.replace(weights=(W, *net.weights[1:]), biases=(b, *net.biases[1:]))
    fits = Newton(twins, samples_of(twins, 4000, rng), 1e-3, 1e-16, single=True)
    assert 1e-16 * fits.as_it_is().errors.largest < 1e-8 and not fits.single


@pytest.mark.parametrize("outputs", [1, 3])
def test_derivatives_changes_and_slopes_agree(outputs: int) -> None:
    """Along all parameters at once, or by the derivatives of every output; slopes are fitted."""
    net, rng = normalised(outputs, 0), np.random.default_rng(0)
    fit = Newton(net, samples_of(net, 100, rng), 1e-3, 1e-12).as_it_is()
    steps, X = rng.standard_normal((3, len(fit.rows))), rng.standard_normal((7, 5))
    expected = np.einsum("nop,sp->sno", fit.derivatives(X), steps)
    np.testing.assert_allclose(fit.changes(X, steps), expected, atol=1e-12)
    np.testing.assert_allclose(
        np.sqrt(np.bincount(fit.rows, fit.covariance.variances)), fit.errors.of_rows
    )
    both = samples_of(net, 4, rng) + slopes_of(net, 3, rng)
    assert np.abs(both.residuals(both.linearised(net))).max() < 1e-8  # differences


@pytest.mark.parametrize("seed", [1, 4, 10, 13])  # of others units show nowhere
def test_slopes_determine_what_few_answers_leave_open(seed: int) -> None:
    """43 parameters, 20 answers, and 300 slopes, good to 1e-9 or so."""
    net, rng = normalised(1, seed), np.random.default_rng(seed)
    few, start = samples_of(net, 20, rng), changed(net, 1e-6, rng)
    alone = Newton(start, few, 1e-5, 1e-10).fitted()
    beside = Newton(start, few + slopes_of(net, 60, rng), 1e-5, 1e-10).fitted()
    assert pn.parameter_error(alone.network, net) > 1e-7
    assert pn.parameter_error(beside.network, net) < 1e-8
