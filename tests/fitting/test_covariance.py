"""The covariance of the parameters: dense algebra, scipy, and coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag, null_space
from scipy.optimize import least_squares

import provenet as pn
from helpers import identity_standardisation, jacobian, numerical_jacobian, random_standardisation
from provenet.common.typing import Array
from provenet.data.sources import ArraySource, StandardisedSource
from provenet.fitting.covariance import (
    Covariance,
    DeepErrors,
    covariance,
    covariance_bound,
    covariance_of_exact,
)
from provenet.fitting.least_squares import refine
from provenet.fitting.losses import LOGISTIC, SOFTMAX
from provenet.fitting.model import Parameters


def unlabelled(X: Array, outputs: int | None = None) -> ArraySource:
    return ArraySource(X, np.zeros(len(X) if outputs is None else (len(X), outputs)))


def norms_fixed(*layers: Array, rest: int) -> Array:
    """A basis, in columns, of the changes that keep the norms of all rows of weights."""
    turns = [block_diag(null_space(w[None]), 1.0) for W in layers for w in W]
    return np.asarray(block_diag(*turns, np.eye(rest)))


def constrained(J: Array, basis: Array) -> Array:
    return np.asarray(basis @ np.linalg.pinv(basis.T @ J.T @ J @ basis) @ basis.T)


def flat(errors: DeepErrors) -> Array:
    pairs = zip(errors.weights, errors.biases, strict=True)
    return np.concatenate([np.column_stack(pair).ravel() for pair in pairs])


# ---------------------------------------------------------------- one layer, and several


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_covariance_is_that_of_the_constrained_problem(
    linear: bool, scale: float, outputs: int | None
) -> None:
    """The inverse of J^T J where rows of weights have norm 1, in the user's coordinates."""
    rng, o = np.random.default_rng(0), outputs or 1
    s = random_standardisation(3, rng)
    X = rng.standard_normal((400, 3)) @ np.linalg.inv(s.whiten).T + s.mean
    own = pn.random_network(4, 3, outputs=outputs, rng=1)
    v = rng.standard_normal((3,) if outputs is None else (2, 3))
    own = own.replace(weights=scale * own.weights, linear=v if linear else None)
    source = StandardisedSource(unlabelled(X, outputs), s)
    found, user = covariance(source, own, s), s.network_to_user(own).normalised()
    J = jacobian(user, X)
    expected = constrained(J, norms_fixed(user.weights, rest=J.shape[1] - 16))
    tolerance = 1e-10 * np.abs(expected).max()  # rounding times the condition, below 1e4
    for i in range(4):
        index = [*range(4 * i, 4 * i + 4), *range(16 + o * i, 16 + o * i + o)]
        block = expected[np.ix_(index, index)]
        np.testing.assert_allclose(found.units[i], block, rtol=0, atol=tolerance)
    errors, variances = found.standard_errors(0.5), np.diag(expected)
    last = 0.5 * np.sqrt(variances[16 + 4 * o :]).reshape(-1, *((2,) if outputs else ()))
    np.testing.assert_allclose(errors.output_bias, last[-1], rtol=1e-8)
    if linear:
        np.testing.assert_allclose(errors.linear, last[:-1].T, rtol=1e-8)
    weights = 0.5 * np.sqrt(variances[:16]).reshape(4, 4)
    np.testing.assert_allclose(np.column_stack([errors.weights, errors.biases]), weights)
    assert found.rank_deficiency == 0
    half = found.times(0.25).standard_errors(1.0)
    np.testing.assert_allclose(half.output_weights, errors.output_weights)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_one_layer_is_a_deep_network_of_depth_one(activation: str) -> None:
    net = pn.random_network(4, 3, outputs=2, activation=activation, rng=0).normalised()
    samples = unlabelled(np.random.default_rng(1).standard_normal((500, 3)), 2)
    one = covariance(samples, net)
    deep = covariance(
        samples,
        pn.DeepNetwork(
            (net.weights, net.output_weights), (net.biases, net.output_bias), activation
        ),
    )
    np.testing.assert_allclose(one.variances.ravel(), deep.variances.ravel(), rtol=1e-8)


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize(
    ("activation", "widths"), [("tanh", (3, 2)), ("tanh", (3, 3, 2)), ("relu", (4, 2))]
)
def test_errors_of_deep_networks_are_those_of_the_full_normal_equations(
    activation: str, widths: tuple[int, ...], outputs: int | None
) -> None:
    """Differences leave 1e-9 of a Jacobian (of kinks 1e-3), conditioned by some thousands."""
    net = pn.random_network(widths, 4, outputs=outputs, activation=activation, rng=0).canonical()
    samples = ArraySource(*pn.sample(net, 1500, rng=1))
    J, relu = numerical_jacobian(net, samples.X, 1e-7 if activation == "relu" else 1e-6), None
    basis = np.eye(J.shape[1])
    if relu := activation == "relu":
        basis = norms_fixed(*net.weights[:-1], rest=net.weights[-1].size + net.biases[-1].size)
    expected = np.sqrt(np.diag(constrained(J, basis)))
    found = covariance(samples, net)
    np.testing.assert_allclose(flat(found.deep_errors(1.0)), expected, rtol=0.01 if relu else 1e-4)
    assert found.rank_deficiency == 0


@pytest.mark.parametrize("outputs", [None, 2])
def test_an_error_that_labels_share_moves_what_least_squares_says(outputs: int | None) -> None:
    """Labels off by one wherever the network is constant, each output by itself."""
    net = pn.random_network((4, 2), 4, outputs=outputs, rng=3).canonical()
    b, c, d = net.biases
    net, outs = net.replace(biases=[b, c - 0.4, d]), outputs or 1
    samples = ArraySource(*pn.sample(net, 1500, rng=1))
    constant = np.all(net(samples.X).reshape(1500, -1) == d, axis=1)
    assert 100 < constant.sum() < 1400
    basis = norms_fixed(*net.weights[:-1], rest=net.weights[-1].size + outs)
    J = numerical_jacobian(net, samples.X, 1e-7) @ basis
    labels = [np.outer(constant, np.arange(outs) == q).ravel() for q in range(outs)]
    moved = [basis @ np.linalg.lstsq(J, e, rcond=None)[0] for e in labels]
    shared = flat(covariance(samples, net).deep_errors(0.0, 1.0))
    np.testing.assert_allclose(shared, np.linalg.norm(moved, axis=0), rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("link", ["logit", "softmax"])
def test_the_information_of_class_labels_is_that_of_their_probabilities(link: str) -> None:
    """By differences of all log-probabilities: sum p (d log p)(d log p)^T."""
    loss, outputs = (LOGISTIC, None) if link == "logit" else (SOFTMAX, 3)
    net = pn.random_network(2, 2, outputs=outputs, activation="tanh", rng=0).replace(link=link)
    X = np.random.default_rng(1).standard_normal((300, 2))
    F = lambda n: np.log(n.predict_proba(X)).ravel()  # noqa: E731
    flat_of, columns = Parameters.of(net), []
    for step in 1e-5 * np.eye(len(flat_of.ravel())):
        pair = [flat_of.unravel(flat_of.ravel() + sign * step) for sign in (1, -1)]
        plus, minus = (F(p.network(net.activation).replace(link=link)) for p in pair)
        columns.append((plus - minus) / 2e-5)
    J = np.sqrt(net.predict_proba(X).ravel())[:, None] * np.array(columns).T
    expected = np.linalg.pinv(J.T @ J, rcond=1e-10)
    found = covariance(unlabelled(X, outputs), net, loss=loss)
    assert found.rank_deficiency == 0
    np.testing.assert_allclose(found.variances.ravel(), np.diag(expected), rtol=1e-4)


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
    errors = covariance(ArraySource(X, y), at).standard_errors(noise)
    # scipy's Jacobian is by differences, wrong where a sample lies within 1e-5 of a kink: none.
    turned = expected[:2, None] * np.abs(np.column_stack([-W[:, 1], W[:, 0]]))
    np.testing.assert_allclose(errors.weights, turned, rtol=1e-5)
    rest = [*errors.biases, *errors.output_weights, errors.output_bias]
    np.testing.assert_allclose(rest, expected[2:], rtol=1e-5)


# ---------------------------------------------------------------- what the samples leave open


def with_unit(net: pn.DeepNetwork, bias: float, layer: int) -> pn.DeepNetwork:
    """A further unit of a layer, with weights alike and some bias."""
    weights, biases = list(net.weights), list(net.biases)
    weights[layer] = np.vstack([weights[layer], np.ones((1, weights[layer].shape[1]))])
    biases[layer] = np.append(biases[layer], bias)
    weights[layer + 1] = np.column_stack([weights[layer + 1], np.ones(len(weights[layer + 1]))])
    return net.replace(weights=weights, biases=biases).normalised()


def test_directions_that_the_samples_leave_free_are_counted() -> None:
    net = pn.random_network(2, 2, rng=0)
    X = np.random.default_rng(1).standard_normal((300, 2))
    assert covariance(unlabelled(X), net).rank_deficiency == 0
    # Two equal units: only the sum of anything they do is known, d + 1 numbers are not.
    twins = net.replace(weights=net.weights[[0, 0]], biases=net.biases[[0, 0]])
    assert covariance(unlabelled(X), twins).rank_deficiency == 3
    # A unit that is off everywhere: all of it but its scale, which is a convention.
    found = covariance(unlabelled(X), net.replace(biases=[net.biases[0], -100.0]))
    assert found.rank_deficiency == 3 and np.isfinite(found.units).all()
    # Fewer samples than parameters: each sample determines at most one number.
    few = covariance(unlabelled(X[:5]), net).rank_deficiency
    assert few == net.free_parameters - np.linalg.matrix_rank(jacobian(net, X[:5])) >= 2


@pytest.mark.parametrize(
    ("bias", "layer", "free"), [(-100, 0, 4 + 2), (-100, 1, 4 + 1), (10, 1, 1)]
)
def test_dead_units_and_units_always_on_leave_directions_free(
    bias: float, layer: int, free: int
) -> None:
    """Of four inputs: weights but for the norm, bias, what it feeds. Always on: the bias alone."""
    net = with_unit(pn.random_network((4, 2), 4, rng=0).canonical(), bias, layer)
    assert covariance(ArraySource(*pn.sample(net, 1500, rng=1)), net).rank_deficiency == free


# ---------------------------------------------------------------- bounds


def test_error_bound_is_the_longest_axis_of_any_unit() -> None:
    """Of (w, b, a): biases count relative to 1 + |b|, output weights relative to their size."""
    net = pn.Network([[1.0], [1.0]], [0.0, -1.0], [1.0, -2.0])
    blocks = np.array([np.diag([4.0, 1.0, 1.0]), np.diag([1.0, 36.0, 8.0])])
    spread = Covariance(Parameters.of(net), blocks, 0, np.zeros(7))
    assert spread.error_bound(net, 0.5) == pytest.approx(0.5 * np.sqrt(36 / 2**2))
    assert spread.error_bound(net.keep(np.empty(0, int)), 0.5) == 0.0


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("linear", [False, True])
def test_the_bound_for_many_parameters_is_one_and_not_a_wild_one(
    outputs: int | None, linear: bool
) -> None:
    rng = np.random.default_rng(0)
    s, net = random_standardisation(5, rng), pn.random_network(6, 5, outputs=outputs, rng=1)
    v = rng.standard_normal((5,) if outputs is None else (2, 5))
    net = net.replace(linear=v if linear else None)
    source = unlabelled(rng.standard_normal((2000, 5)), outputs)
    exact, bound = covariance(source, net, s), covariance_bound(source, net, s)
    for own, upper in zip(exact.units, bound.units, strict=True):
        # The search ends at a tenth of the smallest eigenvalue, so the bound holds up to that.
        assert np.linalg.eigvalsh(1.2 * upper - own).min() > -1e-9 * np.abs(upper).max()
    ratio = bound.variances.ravel() / exact.variances.ravel()
    assert np.all(ratio > 1 / 1.2) and bound.rank_deficiency == 0 and bound.bounds
    user = s.network_to_user(net)
    assert 0.9 < bound.error_bound(user, 1.0) / exact.error_bound(user, 1.0) < 10.0


def test_the_bound_sees_what_is_not_determined() -> None:
    """Twins, and a unit of which one side has 14 samples for 21 numbers: one of twelve."""
    s, rng = identity_standardisation(20), np.random.default_rng(0)
    X, net = rng.standard_normal((4000, 20)), pn.random_network(12, 20, rng=1)
    biases = net.biases.copy()
    biases[3] = -np.sort(X @ net.weights[3])[-15]
    twins = net.keep(np.array([0, *range(11)]))
    free = [
        covariance_bound(unlabelled(X), n, s).rank_deficiency
        for n in (net, twins, net.replace(biases=biases))
    ]
    assert free[0] == 0 and min(free[1:]) > 0
    # A large matrix that is singular is not taken apart: what is open is said, by a bound.
    found = covariance(unlabelled(X), twins, s, largest=10)
    assert found.bounds and found.rank_deficiency >= 1
    assert not covariance(unlabelled(X), net, s, largest=10).bounds


def test_what_a_bound_leaves_open_the_matrix_decides() -> None:
    """Above 500 parameters of an exact answer: twins are counted, others are bounded."""
    X, net = np.random.default_rng(0).standard_normal((3000, 29)), pn.random_network(20, 29, rng=1)
    s, twins = identity_standardisation(29), net.keep(np.array([0, *range(19)]))
    assert covariance_of_exact(unlabelled(X), twins, s).rank_deficiency == 30
    assert covariance_of_exact(unlabelled(X), net, s).bounds


# ---------------------------------------------------------------- coverage


@pytest.mark.parametrize(
    ("widths", "activation"), [((4,), "relu"), ((3, 2), "relu"), ((3, 2), "tanh")]
)
def test_errors_cover_what_noise_does(widths: tuple[int, ...], activation: str) -> None:
    """Least squares from the truth, 60 draws of noise: standardised errors have size about 1.

    The mean square of 60 draws is within 1 +- 5 sqrt(2/60) for each parameter, and the mean over
    all of them closer: 0.85 to 1.15 in root mean square. Noise of 0.3% keeps the model straight.
    """
    net = (
        pn.DeepNetwork.of(pn.random_network(widths[0], 3, rng=0))
        if len(widths) == 1
        else (pn.random_network(widths, 4, activation=activation, rng=0))
    )
    net, noise = net.canonical(), 3e-3
    X, y = pn.sample(net, 1000, rng=1)
    expected = flat(covariance(ArraySource(X, y), net).deep_errors(noise))
    rng, truth, off = np.random.default_rng(2), Parameters.of(net), []
    for _ in range(60):
        labels = y + noise * rng.standard_normal(len(y))
        fit = refine(
            ArraySource(X, labels), truth, net.activation, spread=1.0, tolerance=1e-9
        ).parameters.normalised(net.activation)
        off.append(fit.ravel() - truth.ravel())
    each = np.mean((np.array(off) / expected) ** 2, axis=0)
    assert 0.85 < np.sqrt(np.mean(each)) < 1.15
    assert np.all(np.abs(each - 1) < 5 * np.sqrt(2 / 60))
