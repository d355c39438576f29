"""Covariance and standard errors: the constrained problem solved directly, scipy, and coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag, null_space
from scipy.optimize import least_squares

import provenet as pn
from helpers import identity_standardisation, jacobian, random_standardisation
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, StandardisedSource
from provenet.fitting.covariance import (
    Covariance,
    covariance,
    covariance_bound,
    covariance_of_exact,
)
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.networks.activations import RELU

PLAIN = identity_standardisation(2)


def with_unit_weights(net: pn.Network) -> pn.Network:
    """Weights of norm 1, units in the order given."""
    norm = np.linalg.norm(net.weights, axis=1)
    return net.replace(
        weights=net.weights / norm[:, None],
        biases=net.biases / norm,
        output_weights=net.output_weights * norm,
    )


def direct_covariance(net: pn.Network, X: Array) -> Array:
    """Inverse of `J^T J` on the tangent space of `|w_i| = 1`, in all canonical parameters."""
    tangents = [block_diag(null_space(w[None]), 1.0) for w in net.weights]
    rest = jacobian(net, X[:1]).shape[1] - net.units * (net.features + 1)
    N = block_diag(*tangents, np.eye(rest))
    J = jacobian(net, X) @ N
    return N @ np.linalg.inv(J.T @ J) @ N.T


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_covariance_is_that_of_the_constrained_problem(linear: bool, scale: float) -> None:
    rng = np.random.default_rng(0)
    s = random_standardisation(3, rng)
    X = rng.standard_normal((400, 3)) @ np.linalg.inv(s.whiten).T + s.mean
    own = pn.random_network(4, 3, rng=1)
    own = own.replace(
        weights=scale * own.weights, linear=rng.standard_normal(3) if linear else None
    )
    source = StandardisedSource(ArraySource(X, np.zeros(400)), s)
    found = covariance(source, own, s)
    user = with_unit_weights(s.network_to_user(own))
    expected = direct_covariance(user, X)
    # Rounding times the condition of J^T J, which is below 1e4.
    tolerance = 1e-10 * np.abs(expected).max()
    for i in range(4):
        index = [*range(4 * i, 4 * i + 4), 16 + i]
        np.testing.assert_allclose(
            found.units[i], expected[np.ix_(index, index)], rtol=0, atol=tolerance
        )
    np.testing.assert_allclose(found.linear, np.diag(expected)[20:], rtol=0, atol=tolerance)
    assert found.rank_deficiency == 0


@pytest.mark.parametrize("linear", [False, True])
def test_covariance_of_several_outputs_is_that_of_the_constrained_problem(linear: bool) -> None:
    rng = np.random.default_rng(0)
    s = random_standardisation(3, rng)
    X = rng.standard_normal((400, 3)) @ np.linalg.inv(s.whiten).T + s.mean
    own = pn.random_network(4, 3, outputs=2, rng=1)
    own = own.replace(linear=rng.standard_normal((2, 3)) if linear else None)
    source = StandardisedSource(ArraySource(X, np.zeros((400, 2))), s)
    found = covariance(source, own, s)
    expected = direct_covariance(with_unit_weights(s.network_to_user(own)), X)
    tolerance = 1e-10 * np.abs(expected).max()
    for i in range(4):
        index = [*range(4 * i, 4 * i + 4), 16 + 2 * i, 17 + 2 * i]
        np.testing.assert_allclose(
            found.units[i], expected[np.ix_(index, index)], rtol=0, atol=tolerance
        )
    variances = np.diag(expected)[24:].reshape(-1, 2)
    np.testing.assert_allclose(found.linear, variances, rtol=0, atol=tolerance)
    errors = found.standard_errors(0.5)
    assert errors.output_weights.shape == (2, 4) and errors.output_bias.shape == (2,)
    np.testing.assert_allclose(errors.output_bias, 0.5 * np.sqrt(variances[-1]))
    bound = covariance_bound(source, own, s)
    assert bound.rank_deficiency == 0
    for mine, theirs in zip(bound.units, found.units, strict=True):
        assert np.linalg.eigvalsh(mine - theirs).min() > -1e-3 * np.abs(theirs).max()


def test_standard_errors_are_the_roots_of_its_diagonal() -> None:
    net = pn.random_network(3, 2, rng=0)
    X = np.random.default_rng(1).standard_normal((200, 2))
    found = covariance(ArraySource(X, np.zeros(200)), net, PLAIN)
    errors = found.standard_errors(0.3)
    assert errors.weights.shape == (3, 2) and errors.biases.shape == (3,)
    assert errors.output_weights.shape == (3,) and errors.linear is None
    for i in range(3):
        roots = 0.3 * np.sqrt(np.diag(found.units[i]))
        np.testing.assert_allclose(errors.weights[i], roots[:2])
        assert errors.biases[i] == pytest.approx(roots[2])
        assert errors.output_weights[i] == pytest.approx(roots[3])
    assert errors.output_bias == pytest.approx(0.3 * np.sqrt(found.linear[-1]))
    with_linear = covariance(ArraySource(X, np.zeros(200)), net.replace(linear=[1.0, 2.0]), PLAIN)
    errors = with_linear.standard_errors(0.3)
    np.testing.assert_allclose(errors.linear, 0.3 * np.sqrt(with_linear.linear[:2]))


def test_standard_errors_are_those_of_scipy() -> None:
    """In two dimensions a direction is an angle, and nothing is left to constrain."""
    net = pn.Network([[0.6, 0.8], [-0.8, 0.6]], [0.3, -0.2], [1.0, -2.0], 0.5)
    X, y = pn.sample(net, 500, noise=0.1, rng=0)

    def residual(p: Array) -> Array:
        W = np.column_stack([np.cos(p[:2]), np.sin(p[:2])])
        return np.maximum(X @ W.T + p[2:4], 0) @ p[4:6] + p[6] - y

    angles = np.arctan2(net.weights[:, 1], net.weights[:, 0])
    fit = least_squares(residual, [*angles, *net.biases, *net.output_weights, 0.5], jac="3-point")
    noise = np.sqrt(2 * fit.cost / (500 - 7))
    expected = noise * np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
    W = np.column_stack([np.cos(fit.x[:2]), np.sin(fit.x[:2])])
    at = pn.Network(W, fit.x[2:4], fit.x[4:6], fit.x[6])
    errors = covariance(ArraySource(X, y), at, PLAIN).standard_errors(noise)
    # scipy's Jacobian is by differences, wrong where a sample lies within 1e-5 of a kink: none.
    turned = expected[:2, None] * np.abs(np.column_stack([-W[:, 1], W[:, 0]]))
    np.testing.assert_allclose(errors.weights, turned, rtol=1e-5)
    np.testing.assert_allclose(errors.biases, expected[2:4], rtol=1e-5)
    np.testing.assert_allclose(errors.output_weights, expected[4:6], rtol=1e-5)
    assert errors.output_bias == pytest.approx(expected[6], rel=1e-5)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    inside, total = 0, 0
    for seed in range(60):
        net = pn.random_network(4, 3, rng=seed).canonical()
        X, y = pn.sample(net, 1000, noise=0.1, rng=seed + 1000)
        source, s = ArraySource(X, y), random_standardisation(3, np.random.default_rng(seed))
        standard = StandardisedSource(source, s)
        fit = refine(
            standard, Parameters.of(s.network_from_user(net)), RELU, spread=1.0, tolerance=1e-9
        )
        noise = np.sqrt(fit.rss / (1000 - net.free_parameters))
        own = fit.parameters.network(RELU)
        errors = covariance(standard, own, s).standard_errors(noise)
        found = with_unit_weights(s.network_to_user(own))
        for name in ("weights", "biases", "output_weights"):
            off = np.abs(getattr(found, name) - getattr(net, name))
            inside += int(np.sum(off < 1.96 * getattr(errors, name)))
            total += off.size
    # 240 units, 1200 correlated parameters at a nominal 95%: over 25 sets of seeds 91.5 to 95.9%.
    assert total == 1200 and 0.90 < inside / total < 0.98


def test_error_bound_is_the_longest_axis_of_any_unit() -> None:
    """Of (w, b, a): biases count relative to 1 + |b|, output weights relative to their size."""
    net = pn.Network([[1.0], [1.0]], [0.0, -1.0], [1.0, -2.0])
    blocks = np.array([np.diag([4.0, 1.0, 1.0]), np.diag([1.0, 36.0, 8.0])])
    spread = Covariance(blocks, np.ones(1), True, 0)
    assert spread.error_bound(net, 0.5) == pytest.approx(0.5 * np.sqrt(36 / 2**2))
    none = Covariance(np.empty((0, 3, 3)), np.ones(1), True, 0)
    assert none.error_bound(net.keep(np.empty(0, int)), 0.5) == 0.0


def test_the_bound_for_many_parameters_is_one_and_not_a_wild_one() -> None:
    rng = np.random.default_rng(0)
    s = random_standardisation(5, rng)
    net = pn.random_network(6, 5, rng=1)
    source = ArraySource(rng.standard_normal((2000, 5)), np.zeros(2000))
    exact, bound = covariance(source, net, s), covariance_bound(source, net, s)
    for own, upper in zip(exact.units, bound.units, strict=True):
        # The search ends at a tenth of the smallest eigenvalue, so the bound holds up to that.
        assert np.linalg.eigvalsh(1.2 * upper - own).min() > -1e-9 * np.abs(upper).max()
    ratio = bound.error_bound(net, 1.0) / exact.error_bound(net, 1.0)
    assert 0.9 < ratio < 10.0 and bound.rank_deficiency == 0


def test_the_bound_sees_what_is_not_determined() -> None:
    """Twins bring exact null vectors, which a search for the smallest eigenvalue may never meet."""
    net = pn.random_network(6, 5, rng=1)
    twins = net.keep(np.array([0, 0, 1, 2, 3, 4]))
    source = ArraySource(np.random.default_rng(0).standard_normal((2000, 5)), np.zeros(2000))
    s = identity_standardisation(5)
    assert covariance(source, twins, s).rank_deficiency == 6
    assert covariance_bound(source, twins, s).rank_deficiency > 0


def test_directions_that_the_samples_leave_free_are_counted() -> None:
    net = pn.random_network(2, 2, rng=0)
    X = np.random.default_rng(1).standard_normal((300, 2))
    source = ArraySource(X, np.zeros(300))
    assert covariance(source, net, PLAIN).rank_deficiency == 0
    # Two equal units: only the sum of anything they do is known, d + 1 numbers are not.
    twins = net.replace(weights=net.weights[[0, 0]], biases=net.biases[[0, 0]])
    assert covariance(source, twins, PLAIN).rank_deficiency == 3
    # A unit that no sample switches on: its weights and bias are free (its scale is a convention).
    dead = net.replace(biases=[net.biases[0], -100.0])
    found = covariance(source, dead, PLAIN)
    assert found.rank_deficiency == 3 and np.isfinite(found.units).all()
    # Fewer samples than parameters: each sample determines at most one number.
    few = covariance(ArraySource(X[:5], np.zeros(5)), net, PLAIN)
    determined = np.linalg.matrix_rank(jacobian(net, X[:5]))
    assert few.rank_deficiency == net.free_parameters - determined >= 2


def test_the_bound_sees_a_unit_of_which_one_side_has_too_few_samples() -> None:
    """All its other directions are sure, and it is one of twelve: a random start meets it late."""
    rng = np.random.default_rng(0)
    X, net = rng.standard_normal((4000, 20)), pn.random_network(12, 20, rng=1)
    biases = net.biases.copy()
    biases[3] = -np.sort(X @ net.weights[3])[-15]  # 14 samples for 21 numbers
    rare = net.replace(biases=biases)
    source, s = ArraySource(X, np.zeros(len(X))), identity_standardisation(20)
    assert covariance_bound(source, net, s).rank_deficiency == 0
    assert covariance_bound(source, rare, s).rank_deficiency > 0


def test_what_a_bound_leaves_open_the_matrix_decides() -> None:
    """Above 500 parameters of an exact answer: twins are counted, others are bounded."""
    X, net = np.random.default_rng(0).standard_normal((3000, 29)), pn.random_network(20, 29, rng=1)
    source, s = ArraySource(X, np.zeros(len(X))), identity_standardisation(29)
    twins = net.keep(np.array([0, *range(19)]))
    assert covariance_of_exact(source, twins, s).rank_deficiency == 30
    bounded, exact = covariance_of_exact(source, net, s), covariance(source, net, s)
    ratio = bounded.error_bound(net, 1.0) / exact.error_bound(net, 1.0)
    assert 1.0 < ratio < 10.0 and bounded.rank_deficiency == 0
