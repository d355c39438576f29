"""Symmetric inputs that are not Gaussian: BJW19, section 4.3."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from helpers import direction_error, error_from_truth
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.methods.stages.distinguishing import distinguishing
from provenet.methods.stages.lifted_labels import (
    LiftedSums,
    find_directions,
    label_covariance,
    lifted_factors,
    pair_scale,
    paper_directions,
    reduce_outputs,
)
from provenet.methods.symmetric_inputs import asymmetry, excess_of_means, hidden_units

SIZES = (10, 5, 8)


def cube(n: int, features: int, rng: np.random.Generator) -> Array:
    return rng.uniform(-1, 1, (n, features))


def mixture(n: int, features: int, rng: np.random.Generator) -> Array:
    """Two opposite heaps, and a Gaussian of random covariance (the paper's D_gamma)."""
    centre = rng.choice([-1.0, 1.0], (n, 1)) * rng.standard_normal(features)
    heaps = centre + rng.standard_normal((n, features))
    gaussian = rng.standard_normal((n, features)) @ rng.standard_normal((features, features)) / 2
    return np.where(rng.random((n, 1)) < 0.3, gaussian, heaps)


def signs(n: int, features: int, rng: np.random.Generator) -> Array:
    return rng.choice([-1.0, 1.0], (n, features))


def lattice(n: int, features: int, rng: np.random.Generator) -> Array:
    return rng.integers(-2, 3, (n, features)).astype(float)


def signs_and_gaussian(n: int, features: int, rng: np.random.Generator) -> Array:
    """The paper's D_gamma: here D has atoms."""
    gaussian = rng.standard_normal((n, features)) @ rng.standard_normal((features, features))
    return np.where(rng.random((n, 1)) < 0.3, gaussian, signs(n, features, rng))


def skewed_lattice(n: int, features: int, rng: np.random.Generator) -> Array:
    """Mean zero and a third moment: atoms that are not symmetric."""
    return rng.choice([-1.0, 2.0], (n, features), p=[2 / 3, 1 / 3])


def exponential(n: int, features: int, rng: np.random.Generator) -> Array:
    return rng.exponential(size=(n, features)) - 1


def problem(
    inputs: object,
    n: int,
    noise: float,
    seed: int,
    sizes: tuple[int, int, int] = SIZES,
    output_bias: float = 0.0,
) -> tuple[pn.Network, Array, Array]:
    features, units, outputs = sizes
    rng = np.random.default_rng([seed, 1])
    truth = pn.random_network(units, features, outputs=outputs, bias_scale=0.0, rng=[seed, 0])
    truth = truth.replace(output_bias=output_bias * rng.standard_normal(outputs))
    X = inputs(n, features, rng)  # type: ignore[operator]
    return truth, X, truth(X) + noise * rng.standard_normal((n, outputs))


def recovered(X: Array, Y: Array, **options: object) -> pn.Recovery:
    return pn.recover(X, Y, method="symmetric-inputs", rng=777, **options)  # type: ignore[arg-type]


def directions(X: Array, Y: Array, units: int | None = None) -> Array:
    """Steps 1 to 4 on arrays, in the user's coordinates."""
    source = ArraySource(X, Y)
    s = source.standardisation()
    covariance = label_covariance(source, s.label_mean)
    reduction = reduce_outputs(covariance, s.label_mean, s.linear, len(X), units)
    M = 2 * reduction.B @ s.linear
    sums = LiftedSums.of(X @ s.whiten.T, (Y - s.label_mean) @ reduction.B.T, M)
    W = find_directions(sums, M)[0] @ s.whiten
    return W / np.linalg.norm(W, axis=1, keepdims=True)


# ---------------------------------------------------------------- the steps


@pytest.mark.parametrize("inputs", [cube, mixture, signs])
@pytest.mark.parametrize("output_bias", [0.0, 1.0])
def test_directions_and_number_of_units_with_noise(inputs: object, output_bias: float) -> None:
    truth, X, Y = problem(inputs, 50_000, 0.1, 3, output_bias=output_bias)
    W = directions(X, Y)
    # The largest over 20 seeds is 0.032; least squares starts well from 0.1.
    assert direction_error(W, truth.weights) < 0.06
    signs_right = np.sum((W @ truth.weights.T).max(axis=1) > 0.99)
    assert signs_right == truth.units  # signs too, not only lines


def test_noise_of_any_covariance_needs_no_knowledge_of_it() -> None:
    truth, X, Y = problem(cube, 100_000, 0.0, 4)
    rng = np.random.default_rng(5)
    mixing = 0.2 * rng.standard_normal((8, 8))
    noise = rng.standard_t(5, (len(X), 8)) @ mixing
    assert direction_error(directions(X, Y + noise), truth.weights) < 0.06


def test_the_lifted_factors_are_the_relation_of_a_unit() -> None:
    """`F . (P, q)` is `(u.y - g)(u.y - g - u.v) - g^2` for any u and g."""
    rng = np.random.default_rng(0)
    y, v, u, g = (*rng.standard_normal((2, 7, 3)), rng.standard_normal(3), 0.7)
    rows, columns = np.triu_indices(3)
    unknowns = np.concatenate([np.outer(u, u)[rows, columns] * pair_scale(3), g * u])
    value = (y @ u - g) * (y @ u - g - v @ u) - g**2
    np.testing.assert_allclose(lifted_factors(y, v) @ unknowns, value, atol=1e-13)


def test_sums_of_blocks_are_the_sums_of_all() -> None:
    _, X, Y = problem(cube, 300, 0.1, 6, sizes=(4, 3, 3))
    M = np.random.default_rng(7).standard_normal((3, 4))
    whole = LiftedSums.of(X, Y, M).equations()
    parts = LiftedSums.of(X[:100], Y[:100], M) + LiftedSums.of(X[100:], Y[100:], M)
    np.testing.assert_allclose(parts.equations(), whole, atol=1e-12)


def test_symmetric_inputs_look_symmetric_and_others_do_not() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for inputs in (cube, mixture, signs):
            assert asymmetry(inputs(5000, 6, rng)) < 1
        assert asymmetry(rng.standard_t(3, (5000, 6))) < 1
        assert asymmetry(exponential(5000, 6, rng)) > 1
        assert asymmetry(cube(5000, 6, rng) + 0.1) > 1


def test_a_unit_that_was_missed_shows_in_what_is_left() -> None:
    rng = np.random.default_rng(8)
    X = cube(5000, 6, rng)
    noise = rng.standard_normal((5000, 2))
    unit = np.maximum(X @ rng.standard_normal(6), 0.0)
    assert hidden_units(noise, X) < 1
    assert hidden_units(noise + 0.5 * unit[:, None], X) > 1
    assert excess_of_means(noise, noise) > 1


def test_the_paper_s_equations_hold_for_the_units_of_a_symmetric_sample() -> None:
    """Theorem 8 without sampling error: every x with its -x, and the label's even part known."""
    truth, X, _ = problem(cube, 400, 0.0, 20, sizes=(4, 3, 3))
    X = np.concatenate([X, -X])
    Y = truth(X)
    M = 2 * np.linalg.lstsq(X, Y, rcond=None)[0].T  # the even part drops out exactly
    W, null = paper_directions(LiftedSums.of_paper(X, Y, M), M, Y.mean(axis=0))
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    assert null.gap > 1e6
    assert direction_error(W, truth.weights) < 1e-6  # rounding over the gap
    assert np.all((W @ truth.weights.T).max(axis=1) > 0.99)  # signs too


def test_the_distinguishing_matrix_is_its_definition() -> None:
    rng = np.random.default_rng(21)
    X, W = rng.standard_normal((500, 3)), rng.standard_normal((3, 3))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    columns = [
        np.mean([(w @ x) * (v @ x) * ((w @ x) * (v @ x) <= 0) * np.kron(x, x) for x in X], axis=0)
        for w, v in ((W[0], W[1]), (W[0], W[2]), (W[1], W[2]))
    ]
    columns.append(np.mean([np.kron(x, x) for x in X], axis=0))
    values = np.linalg.svd(np.array(columns).T, compute_uv=False)
    found = distinguishing(X, 5 * W)
    np.testing.assert_allclose([found.smallest, found.largest], values[[-1, 0]], rtol=1e-10)


def test_a_singular_distinguishing_matrix_is_named() -> None:
    """Two units with no input between their kinks; then the same units apart."""
    X = signs(4000, 2, np.random.default_rng(22))
    near = distinguishing(X, np.array([[1.0, 0.2], [1.0, -0.2]]))
    apart = distinguishing(X, np.array([[1.0, 0.2], [0.2, -1.0]]))
    for matrix, beyond in ((near, True), (apart, False)):
        ((_, told),) = matrix.facts()
        assert matrix.is_singular is beyond and ("does not cover" in told) is beyond


# ---------------------------------------------------------------- from end to end


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize("inputs", [signs, signs_and_gaussian, lattice])
def test_discrete_inputs_that_are_symmetric_pass(inputs: object, faithful: bool) -> None:
    """Repeated inputs are held out together, so that what is fitted is not symmetric."""
    truth, X, Y = problem(inputs, 5000, 0.0, 0, sizes=(6, 3, 4))
    result = recovered(X, Y, faithful=faithful, refine=not faithful)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-10
    assert result.details is not None and result.details.smallest > result.details.singular
    assert "smallest singular value" in result.certificate.width_evidence
    assert "distinguishing" in str(result)


def test_discrete_inputs_that_are_not_symmetric_are_refused() -> None:
    _, X, Y = problem(skewed_lattice, 5000, 0.0, 0, sizes=(6, 3, 4))
    result = recovered(X, Y)
    assert result.status is pn.Status.FAILED and "not symmetric" in result.message


def test_the_paper_s_road_with_noise_is_theorem_8_s_estimate() -> None:
    """Directions within what least squares starts from, and no least squares after them."""
    truth, X, Y = problem(cube, 20_000, 0.05, 1, sizes=(6, 3, 4))
    result = recovered(X, Y, faithful=True, refine=False)
    assert not result.success and result.network is not None
    assert 1e-4 < pn.parameter_error(result.network, truth) < 0.2


@pytest.mark.parametrize("inputs", [cube, mixture])
def test_exact_without_noise(inputs: object) -> None:
    truth, X, Y = problem(inputs, 50_000, 0.0, 9, output_bias=1.0)
    result = recovered(X, Y)
    assert result.status is pn.Status.EXACT
    assert pn.parameter_error(result.network, truth) < 1e-10  # 1e-14 at most over 20 seeds


@pytest.mark.parametrize("inputs", [cube, mixture])
def test_with_noise_it_is_as_good_as_least_squares_from_the_truth(inputs: object) -> None:
    truth, X, Y = problem(inputs, 5000, 0.1, 10)
    result = recovered(X, Y)
    assert result.status is pn.Status.WITHIN_NOISE
    error = error_from_truth(truth, X, Y)
    assert pn.parameter_error(result.network, truth) < 1.1 * error


def test_without_least_squares_the_method_stands_by_itself() -> None:
    truth, X, Y = problem(cube, 50_000, 0.1, 11)
    found = recovered(X, Y, refine=False).network
    assert found is not None
    W = found.weights / np.linalg.norm(found.weights, axis=1, keepdims=True)
    assert direction_error(W, truth.weights) < 0.06


# ---------------------------------------------------------------- conditions violated


def test_asymmetric_inputs_are_named() -> None:
    _, X, Y = problem(exponential, 20_000, 0.1, 12)
    result = recovered(X, Y)
    assert result.status is pn.Status.FAILED
    assert "not symmetric" in result.message and '"lifting"' in result.message


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_more_units_than_outputs_are_named(noise: float) -> None:
    _, X, Y = problem(cube, 20_000, noise, 13, sizes=(10, 6, 4))
    result = recovered(X, Y)
    assert not result.success
    assert '"rank-deficient"' in result.message and '"expand-prune"' in result.message


def test_more_units_than_inputs_are_named() -> None:
    _, X, Y = problem(cube, 20_000, 0.1, 14, sizes=(4, 6, 8))
    result = recovered(X, Y)
    assert not result.success
    assert "dependent weights" in result.message
