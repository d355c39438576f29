"""What the designed objectives know of the data: exact, from samples, from a batch."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import exact_tensors
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, PopulationSource
from provenet.landscape.fourth_order import FourthOrder
from provenet.landscape.statistics import (
    BatchStatistics,
    Statistics,
    coefficients,
    population_statistics,
    sample_statistics,
    span_of_source,
)

ACTIVATIONS = ("relu", "abs", "leaky_relu(0.1)", "relu3", "exp")


def a_truth(seed: int, units: int, features: int, activation: str = "relu") -> pn.Network:
    """Unit rows, no biases, positive output weights."""
    rng = np.random.default_rng([seed, 1])
    net = pn.random_network(units, features, bias_scale=0.0, rng=rng)
    return net.replace(output_weights=np.abs(net.output_weights), activation=activation)


def samples_of(truth: pn.Network, n: int, seed: int) -> ArraySource:
    return ArraySource(*pn.sample(truth, n, rng=np.random.default_rng([seed, 2])))


def on_symmetric_matrices(fourth: FourthOrder, d: int) -> Array:
    """The tensor as a matrix between orthonormal symmetric matrices."""
    basis = []
    for i in range(d):
        for j in range(i, d):
            E = np.zeros((d, d))
            E[i, j] = E[j, i] = 1
            basis.append(E / np.linalg.norm(E))
    images = [fourth.matrix(E) for E in basis]
    return np.einsum("mij,nij->mn", images, basis)


def dense(fourth: FourthOrder, d: int) -> Array:
    """All entries, from contractions alone: `T(e_i, e_j) = matrix` of the symmetric part."""
    T = np.empty((d,) * 4)
    for i in range(d):
        for j in range(d):
            E = np.zeros((d, d))
            E[i, j] += 0.5
            E[j, i] += 0.5
            T[i, j] = fourth.matrix(E)
    return T


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_population_has_its_moments_over_the_coefficients(activation: str) -> None:
    truth = a_truth(0, 3, 4, activation)
    found = population_statistics(truth)
    T = exact_tensors(truth)
    c_2, c_4 = coefficients(truth.activation)
    for norm in found.norms:
        np.testing.assert_allclose(norm, T[2] / c_2, rtol=0, atol=1e-13)  # rounding
    np.testing.assert_allclose(dense(found.fourth, 4), T[4] / c_4, rtol=0, atol=1e-13)
    assert found.error == 0.0 and found.features == 4
    spectrum = found.spectrum
    assert np.all(np.diff(spectrum) >= 0)
    np.testing.assert_allclose(spectrum, np.linalg.eigvalsh(T[2] / c_2), rtol=0, atol=1e-13)


def test_rows_of_a_homogeneous_network_may_have_any_norm() -> None:
    truth = a_truth(0, 3, 4)
    scaled = truth.replace(weights=3 * truth.weights, output_weights=truth.output_weights / 3)
    one, other = population_statistics(truth), population_statistics(scaled)
    np.testing.assert_allclose(one.norms[0], other.norms[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(dense(one.fourth, 4), dense(other.fourth, 4), rtol=0, atol=1e-13)


def test_a_basis_projects_every_place() -> None:
    truth = a_truth(0, 3, 5)
    basis = np.linalg.qr(np.random.default_rng([0, 3]).standard_normal((5, 2)))[0].T
    inside, full = population_statistics(truth, basis), population_statistics(truth)
    assert inside.features == 2
    np.testing.assert_allclose(inside.norms[0], basis @ full.norms[0] @ basis.T, atol=1e-13)
    T = np.einsum("abcd,ia,jb,kc,ld->ijkl", dense(full.fourth, 5), *[basis] * 4)
    np.testing.assert_allclose(dense(inside.fourth, 2), T, rtol=0, atol=1e-13)


def test_other_coordinates_are_those_of_the_network() -> None:
    """Whitened, the second sum is the identity, and so orthonormal units are left."""
    truth = a_truth(0, 4, 4)
    full = population_statistics(truth)
    values, U = np.linalg.eigh(full.norms[0])
    E = (U / np.sqrt(values)).T
    white = full.transformed(E)
    for norm in white.norms:
        np.testing.assert_allclose(norm, np.eye(4), rtol=0, atol=1e-11)
    units = np.sqrt(truth.output_weights)[:, None] * truth.weights @ E.T
    np.testing.assert_allclose(units @ units.T, np.eye(4), rtol=0, atol=1e-11)
    weights = np.linalg.eigvalsh(on_symmetric_matrices(white.fourth, 4))[-4:]
    np.testing.assert_allclose(weights, np.sort(1 / truth.output_weights), rtol=1e-10)
    assert white.error == white.second_error == 0.0


def test_errors_grow_with_a_stretch_of_the_coordinates() -> None:
    truth = a_truth(0, 3, 3)
    source = samples_of(truth, 2000, 0)
    found = sample_statistics(source, source.standardisation(), truth.activation)
    stretched = found.transformed(np.diag([1.0, 2.0, 3.0]))
    assert stretched.error == pytest.approx(81 * found.error, rel=1e-12)
    assert stretched.second_error == pytest.approx(9 * found.second_error, rel=1e-12)


def test_a_source_that_knows_its_population_is_exact_also_inside_its_span() -> None:
    truth = a_truth(0, 3, 5)
    source = PopulationSource(truth, rng=0)
    s = source.standardisation()
    found = sample_statistics(source, s, truth.activation)
    full = population_statistics(truth)
    np.testing.assert_allclose(found.norms[0], full.norms[0], rtol=0, atol=1e-13)
    span = span_of_source(source, s, truth.activation, None)
    assert span.rank == 3
    inside = sample_statistics(source, s, truth.activation, span)
    expected = population_statistics(truth, span.basis)
    np.testing.assert_allclose(inside.norms[0], span.quadratic, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        dense(inside.fourth, 3), dense(expected.fourth, 3), rtol=0, atol=1e-12
    )
    assert inside.error == found.error == 0.0


def noise_over_error(found: Statistics, truth: pn.Network, basis: Array | None = None) -> float:
    """Largest eigenvalue of what is not the population, in units of the error that is stated."""
    d = found.features
    exact = population_statistics(truth, basis)
    noise = on_symmetric_matrices(found.fourth, d) - on_symmetric_matrices(exact.fourth, d)
    return float(np.abs(np.linalg.eigvalsh(noise)).max() / found.error)


@pytest.mark.parametrize("activation", ["relu", "abs", "relu3"])
@pytest.mark.parametrize("seed", range(3))
def test_the_stated_error_is_the_largest_eigenvalue_of_the_noise(
    activation: str, seed: int
) -> None:
    truth = a_truth(seed, 5, 5, activation)
    source = samples_of(truth, 20_000, seed)
    from_samples = sample_statistics(source, source.standardisation(), truth.activation)
    from_batch = BatchStatistics(*source.rows(0, source.size), truth.activation)
    # Over 50 seeds between 0.5 and 1.7: a factor of 2.
    for found in (from_samples, from_batch):
        assert 0.5 < noise_over_error(found, truth) < 2
        noise = np.mean(found.norms, axis=0) - population_statistics(truth).norms[0]
        # Over 50 seeds between 0.23 and 0.91: an upper bound, and not by far.
        assert 0.15 < np.abs(np.linalg.eigvalsh(noise)).max() / found.second_error < 1.3
    # What the lower orders explain is taken off the labels first: over 50 seeds at most 0.57.
    assert from_samples.error < 0.7 * from_batch.error


def test_the_stated_error_inside_a_span() -> None:
    truth = a_truth(0, 4, 9)
    source = samples_of(truth, 50_000, 0)
    s = source.standardisation()
    span = span_of_source(source, s, truth.activation, 4)
    found = sample_statistics(source, s, truth.activation, span)
    assert found.features == 4
    # Over 50 seeds between 0.48 and 1.2.
    assert 0.4 < noise_over_error(found, truth, span.basis) < 2


def test_the_second_sum_from_samples_falls_with_their_root() -> None:
    def error(n: int) -> float:
        found = []
        for seed in range(8):
            truth = a_truth(seed, 4, 4)
            source = samples_of(truth, n, seed)
            sums = sample_statistics(source, source.standardisation(), truth.activation)
            assert sums.norms[0] is sums.norms[1]
            found.append(np.linalg.norm(sums.norms[0] - population_statistics(truth).norms[0]))
        return float(np.median(found))

    # Sixteen times the samples: a quarter of the error, medians of eight to a factor of 1.6.
    assert 2.5 < error(2000) / error(32_000) < 6.4


def test_a_batch_is_what_the_definition_says() -> None:
    rng = np.random.default_rng([0, 4])
    X, y = rng.standard_normal((11, 3)), rng.standard_normal(11)
    found = BatchStatistics(X, y, pn.Network(np.eye(3)).activation)
    c_2 = 1 / np.sqrt(2 * np.pi)
    halves = slice(5), slice(5, None)
    for norm, half in zip(found.norms, halves, strict=True):
        terms = [y[i] * (np.outer(X[i], X[i]) - np.eye(3)) for i in range(11)[half]]
        np.testing.assert_allclose(norm, np.mean(terms, axis=0) / c_2, rtol=0, atol=1e-13)


def test_the_product_of_halves_is_unbiased_and_the_square_is_not() -> None:
    """`E[(b^T N b - 1)^2]` over many small batches (ERRATA, GLM17 4)."""
    truth = a_truth(0, 3, 3)
    b = np.array([0.6, -0.5, 0.9])
    products, squares = [], []
    rng = np.random.default_rng([0, 5])
    for _ in range(1500):
        N, other = BatchStatistics(*pn.sample(truth, 60, rng=rng), truth.activation).norms
        products.append((b @ N @ b - 1) * (b @ other @ b - 1))
        squares.append((b @ (N + other) @ b / 2 - 1) ** 2)
    exact = (b @ population_statistics(truth).norms[0] @ b - 1) ** 2
    error = np.std(products) / np.sqrt(len(products))
    # A nearly normal number, over 50 seeds within 3.4; the square is off by 12 at least.
    assert abs(np.mean(products) - exact) < 4 * error
    assert np.mean(squares) - exact > 8 * error
