"""The engine: matrices against an explicit Jacobian, minima against other routes, its ends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.optimize import least_squares as scipy_least_squares
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import provenet as pn
from helpers import NET, NETS, identity_standardisation, moved, samples
from provenet.common.typing import Array
from provenet.data import passes
from provenet.data.sources import ArraySource, StandardisedSource
from provenet.fitting import least_squares as module
from provenet.fitting.least_squares import (
    Curvature,
    Dense,
    Ended,
    Products,
    Samples,
    Stream,
    fisher_information,
    refine,
)
from provenet.fitting.linear import (
    dropped_in_turn,
    fit_linear_part,
    linear_part,
    solver_scaled,
    with_output_layer,
    without_each_unit,
)
from provenet.fitting.losses import LOGISTIC, SOFTMAX, SQUARES, Loss
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.activations import ABS, RELU, get_activation
from provenet.networks.piecewise import as_absolute, with_free_linear_part

TANH = get_activation("tanh")


def problem(
    widths: tuple[int, ...],
    outputs: int | None,
    activation: str,
    loss: Loss,
    n: int = 300,
    noise: float = 0.5,
) -> tuple[ArraySource, Parameters]:
    """Samples of one network and a model that is another one."""
    truth, other = (
        pn.random_network(widths, 3, outputs=outputs, activation=activation, rng=seed)
        for seed in (0, 5)
    )
    X, y = pn.sample(truth, n, noise=noise, rng=1)
    rng = np.random.default_rng(2)
    if loss is LOGISTIC:
        y = (rng.random(n) < expit(y)).astype(float)
    if loss is SOFTMAX:
        y = np.eye(y.shape[1])[(y + rng.gumbel(size=y.shape)).argmax(axis=1)]
    own = other if isinstance(other, pn.DeepNetwork) else pn.DeepNetwork.of(other)
    return ArraySource(X, y), Parameters.of(own)


SHAPES = [
    pytest.param(
        widths, outputs, activation, loss, id=f"{widths} {activation} {outputs} {loss.link}"
    )
    for widths in ((4,), (4, 3))
    for activation in ("relu", "tanh")
    for outputs, loss in ((None, SQUARES), (3, SQUARES), (None, LOGISTIC), (3, SOFTMAX))
]


def whole(parameters: Parameters, activation: Any, X: Array, root: Array | None = None) -> Array:
    """The Jacobian by all parameters, every output's rows below one another."""
    at = Linearisation.of(parameters, activation, X)
    if root is not None:
        return np.concatenate([J for J, _ in at.jacobians(root)])
    J = np.zeros((at.values.shape[1], len(X), parameters.ravel().size))
    for q, (own, columns) in enumerate(at.jacobians()):
        J[q][:, columns] = own
    return np.concatenate(J)


@pytest.mark.parametrize(("widths", "outputs", "activation", "loss"), SHAPES)
def test_steps_are_those_of_all_parameters_together(
    widths: tuple[int, ...], outputs: int | None, activation: str, loss: Loss
) -> None:
    """Eliminating beta changes nothing: a Gauss-Newton step of theta and beta at once, damped in
    theta alone, from the matrix of all parameters."""
    source, start = problem(widths, outputs, activation, loss)
    sigma, t = get_activation(activation), start.nonlinear
    memory = Samples.of(source, start, sigma, loss)
    point = memory.linearised(start)
    M = fisher_information(source, start, sigma, loss)
    F = Linearisation.of(start, sigma, source.X).values
    J = whole(start, sigma, source.X, None if loss is SQUARES else loss.root(F))
    np.testing.assert_allclose(M, J.T @ J, atol=1e-10 * np.abs(M).max())
    numeric = approx_fprime(
        start.ravel(), lambda flat: memory.linearised(start.unravel(flat)).value, 1e-7
    )
    g = np.concatenate([point.gradient, point.beta_gradient.T.ravel()])
    # Differences of step 1e-7 are right to about 1e-7 of the second derivative, and to rounding.
    np.testing.assert_allclose(2 * g, numeric, atol=1e-5 * np.abs(M).max())
    M[np.arange(t, len(M)), np.arange(t, len(M))] += memory.penalty
    for kind in (Dense, Products) if len(widths) == 1 and loss is SQUARES else (Dense,):
        curvature: Curvature = kind(point, point.gradient, point.beta_gradient, single=False)
        step = curvature.step(0.1, 1e-9)
        assert step is not None and step.solved
        damped = M.copy()
        damped[np.arange(t), np.arange(t)] += 0.1 * curvature.D
        expected = np.linalg.lstsq(damped, g, rcond=1e-14)[0]  # of a dead unit: nothing
        beta = np.asarray(step.beta).reshape(len(start.beta), -1).T.ravel()
        # Products of ReLU units are in single precision; what softmax leaves open is settled by
        # the penalty alone.
        accuracy = 1e-5 if loss is SOFTMAX else 1e-9
        if kind is Products and activation == "relu":
            accuracy = 1e-4
        found = np.concatenate([step.theta, beta])
        np.testing.assert_allclose(found, expected, atol=accuracy * np.abs(expected).max())
        fall = g @ expected + 0.1 * curvature.D @ expected[:t] ** 2
        assert step.predicted == pytest.approx(fall, rel=accuracy)


@pytest.mark.parametrize(("widths", "outputs", "activation", "loss"), SHAPES)
def test_a_stream_ends_where_memory_ends(
    widths: tuple[int, ...], outputs: int | None, activation: str, loss: Loss
) -> None:
    """The gradient is that of all samples, so the matrix changes the road and not its end.

    From the truth the loss falls by some p noise variances, or p in all; class labels leave flat
    directions, along which either road is long, and kinks leave several minima.
    """
    source, _ = problem(widths, outputs, activation, loss, n=4000, noise=0.02)
    truth = pn.random_network(widths, 3, outputs=outputs, activation=activation, rng=0)
    own = truth if isinstance(truth, pn.DeepNetwork) else pn.DeepNetwork.of(truth)
    start, sigma = Parameters.of(own), get_activation(activation)
    some = ArraySource(source.X[:1000], source.y[:1000])
    kept, streamed = (
        refine(source, start, sigma, spread=1.0, tolerance=1e-9, loss=loss, some=few)
        for few in (None, some)
    )
    first = Samples.of(source, start, sigma, loss).linearised(start).value
    assert first - streamed.rss > 0.7 * (first - kept.rss) > 0


def test_a_pass_of_a_stream_is_one_over_any_source() -> None:
    source, start = problem((4,), None, "relu", SQUARES)
    standardised = StandardisedSource(source, identity_standardisation(3))
    memory = Samples.of(source, start, RELU)
    point = memory.linearised(start)
    for any_source in (source, standardised):
        passed = Stream(any_source, memory).evaluate(start)
        assert passed.value == pytest.approx(point.value, rel=1e-12)
        np.testing.assert_allclose(passed.gradient, point.gradient, rtol=1e-10)


class CountedSource(ArraySource):
    """Samples that count how often all of them were passed over."""

    passes = 0

    def total(self, term: Any, rows: int | None = None) -> Any:
        self.passes += 1
        return super().total(term) if rows is None else super().total(term, rows)


def test_a_point_of_a_stream_takes_one_pass() -> None:
    truth = pn.random_network(3, 6, rng=0)
    X, y = pn.sample(truth, 40_000, noise=0.1, rng=1)
    start = Parameters.of(truth.replace(weights=truth.weights + 0.02))
    source = CountedSource(X, y)
    fit = refine(
        source, start, RELU, spread=1.0, tolerance=1e-5, some=ArraySource(X[:10_000], y[:10_000])
    )
    assert source.passes == fit.iterations > 2


# ---------------------------------------------------------------- where it ends


ENDS = [
    (widths, outputs, activation)
    for widths in ((4,), (4, 3))
    for outputs in (None, 3)
    for activation in ("relu", "tanh", "gelu")
] + [((3,), 2, "relu2"), ((3,), None, "relu3"), ((12,), None, "relu")]


@pytest.mark.parametrize(("widths", "outputs", "activation"), ENDS)
def test_without_noise_it_ends_at_machine_precision(
    widths: tuple[int, ...], outputs: int | None, activation: str
) -> None:
    """The last case, of 132 parameters, is solved by conjugate gradients in single precision."""
    features = 10 if widths == (12,) else 4
    truth = pn.random_network(widths, features, outputs=outputs, activation=activation, rng=5)
    X, y = pn.sample(truth, 1500, rng=1)
    own = truth if isinstance(truth, pn.DeepNetwork) else pn.DeepNetwork.of(truth)
    exact, rng = Parameters.of(own), np.random.default_rng(2)
    start = exact.unravel(exact.ravel() + 0.01 * rng.standard_normal(exact.ravel().size))
    fit = refine(ArraySource(X, y), start, truth.activation, spread=float(y.std()), tolerance=1e-9)
    assert fit.rms < 1e-14 * y.std() and fit.ended in (Ended.ZERO, Ended.STUCK, Ended.CONVERGED)
    if not (activation == "relu" and len(widths) > 1):  # where units may be dead, or never off
        # Rounding of the labels times the condition of the problem.
        assert pn.parameter_error(fit.parameters.deep_network(truth.activation), own) < 1e-10


@pytest.mark.parametrize("outputs", [None, 3])
def test_absolute_values_beside_a_linear_part(outputs: int | None) -> None:
    truth = NET if outputs is None else NETS["three outputs"]
    source, near = samples(600, net=truth), as_absolute(moved(truth, 0.05))
    fit = refine(source, Parameters.of(near), ABS, spread=1.0, tolerance=1e-9)
    assert fit.labels == 600 * (outputs or 1) and fit.rms < 1e-13
    found, exact = fit.parameters.network(ABS), as_absolute(truth)
    np.testing.assert_allclose(found(source.X), exact(source.X), rtol=0, atol=1e-12)


def test_with_noise_it_ends_where_scipy_ends() -> None:
    source, start = samples(800, noise=0.2), Parameters.of(moved(NET, 0.05))

    def residual(flat: Array) -> Array:
        at = Linearisation.of(start.unravel(flat), RELU, source.X)
        return at.values[:, 0] - source.y

    exact = {"xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}
    scipy_fit = scipy_least_squares(residual, start.ravel(), method="lm", **exact)
    fit = refine(source, start, RELU, spread=1.0, tolerance=1e-10)
    # Both are minima of the same function; kinks at samples leave ends that differ by a little.
    assert fit.rss == pytest.approx(2 * scipy_fit.cost, rel=1e-4)
    residuals = fit.parameters.network(RELU)(source.X) - source.y
    assert fit.rss == pytest.approx(residuals @ residuals, rel=1e-10)


@given(st.integers(0, 10**6), st.sampled_from(["relu", "tanh"]))
@settings(max_examples=15)
def test_the_loss_never_rises(seed: int, activation: str) -> None:
    source, sigma = samples(200, noise=0.1), get_activation(activation)
    start = Parameters.of(pn.random_network(3, 3, activation=activation, rng=seed))
    losses = [fit_linear_part(source, start, sigma, passes=2)[1]]
    for steps in (1, 2, 4, 8):
        losses.append(refine(source, start, sigma, spread=1.0, iterations=steps).rss)
    # At one iteration the sum of squares is only computed anew: equal to rounding.
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(losses))


def test_how_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    source, start = samples(300, noise=0.1), Parameters.of(moved(NET, 0.2))

    def ended(**options: float) -> Ended:
        return refine(source, start, RELU, spread=1.0, **options).ended

    assert ended(tolerance=1e-3) is Ended.CONVERGED
    assert ended(tolerance=1e-9, iterations=2) is Ended.OUT_OF_STEPS
    assert ended(zero=0.5) is Ended.ZERO
    assert ended(tolerance=0.0, iterations=300) is Ended.STUCK
    nothing = Parameters(np.empty((0, 4)), np.zeros(1))
    assert refine(source, nothing, RELU, spread=1.0).ended is Ended.CONVERGED
    clock = iter(range(100))  # one second at each look
    monkeypatch.setattr(module, "working_time", lambda: float(next(clock)))
    fit = refine(source, start, RELU, spread=1.0, tolerance=1e-12, deadline=2.5)
    assert fit.ended is Ended.OUT_OF_TIME and fit.iterations == 4


def test_norms_that_are_a_convention_are_one() -> None:
    start = Parameters.of(pn.random_network(3, 3, rng=0))
    fit = refine(samples(200, noise=0.1), start, RELU, spread=1.0)
    np.testing.assert_allclose(np.linalg.norm(fit.parameters.theta[:, :-1], axis=1), 1.0)


def test_the_same_samples_give_the_same_digits() -> None:
    source = samples(3000, noise=0.1)
    first, second = (
        refine(source, Parameters.of(moved(NET, 0.1)), RELU, spread=1.0).parameters for _ in "ab"
    )
    np.testing.assert_array_equal(first.ravel(), second.ravel())


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_threads_share_long_sums(activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the same end as one thread, by both solvers: 620 weights."""
    truth = pn.random_network(30, 20, activation=activation, rng=0)
    X, y = pn.sample(truth, 17_000, noise=0.1, rng=1)
    source, start = ArraySource(X, y), Parameters.of(moved(truth, 0.01))
    fits = []
    for threads in (3, 1):
        monkeypatch.setattr(passes, "workers", lambda threads=threads: threads)
        fits.append(refine(source, start, truth.activation, spread=1.0, iterations=2))
    assert (len(X) * 21) * 30 > 10**7
    assert fits[0].rss == pytest.approx(fits[1].rss, rel=1e-6)


# ---------------------------------------------------------------- class labels


@pytest.mark.parametrize(("loss", "outputs"), [(LOGISTIC, None), (SOFTMAX, 3)])
def test_scoring_ends_where_the_gradient_vanishes(loss: Loss, outputs: int | None) -> None:
    source, start = problem((2,), outputs, "tanh", loss, n=400)
    fit = refine(source, start, TANH, spread=1.0, tolerance=1e-12, loss=loss)
    first, last = (
        Samples.of(source, start, TANH, loss).evaluate(at, 2) for at in (start, fit.parameters)
    )
    assert last.value < first.value
    # Scoring ends linearly: a hundredth is far below what chance moves the maximum by.
    assert np.abs(last.gradient).max() < 1e-2 * np.abs(first.gradient).max()


def test_without_units_it_is_logistic_regression() -> None:
    source, _ = problem((2,), None, "tanh", LOGISTIC, n=400)
    fit = refine(source, Parameters(np.empty((0, 4)), np.zeros(4)), TANH, spread=1.0, loss=LOGISTIC)
    peer = LogisticRegression(C=np.inf, tol=1e-10).fit(source.X, source.y)
    expected = np.append(peer.coef_[0], peer.intercept_)
    # What the penalty moves: 1e-6 of the weights over an information of some tenths a sample.
    np.testing.assert_allclose(fit.parameters.beta, expected, rtol=0, atol=1e-4)


def test_log_odds_of_separable_labels_stay_bounded() -> None:
    X = np.random.default_rng(0).standard_normal((200, 2))
    source = ArraySource(X, (X[:, 0] > 0).astype(float))
    nothing = Parameters(np.empty((0, 3)), np.zeros(3))
    found = Samples.of(source, nothing, TANH, LOGISTIC).evaluate(nothing, passes=20).parameters
    assert np.isfinite(found.beta).all() and np.abs(found.beta).max() < 1e3


# ---------------------------------------------------------------- the output layer


@pytest.mark.parametrize("outputs", [None, 3])
def test_two_routes_find_the_same_output_layer(outputs: int | None) -> None:
    truth = pn.random_network(4, 5, outputs=outputs, rng=0)
    source = samples(500, noise=0.3, net=truth)
    direct = with_output_layer(source.X, source.y, truth.weights, truth.biases)
    start = Parameters.of(truth.replace(output_weights=np.zeros_like(truth.output_weights)))
    summed, rss = fit_linear_part(source, start, truth.activation, passes=2)
    np.testing.assert_allclose(summed.beta, Parameters.of(direct).beta, rtol=0, atol=1e-11)
    assert rss == pytest.approx(np.sum((direct(source.X) - source.y) ** 2), rel=1e-10)
    kept = Samples.of(source, start, truth.activation).evaluate(start)
    np.testing.assert_allclose(kept.parameters.beta, summed.beta, rtol=0, atol=1e-11)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("outputs", [None, 3])
def test_what_each_unit_is_worth(outputs: int | None, linear: bool) -> None:
    """One by one, and dropped in turn, against fits without them."""
    truth = pn.random_network(4, 3, outputs=outputs, activation="gelu", rng=0)
    source, gelu = samples(300, noise=0.1, net=truth), truth.activation
    network = with_free_linear_part(truth, gelu) if linear else truth
    at, rss = fit_linear_part(source, Parameters.of(network), gelu, passes=2)
    sums = linear_part(source, at, gelu)
    without = [
        fit_linear_part(source, at.keep(np.arange(4) != i), gelu, passes=2)[1] for i in range(4)
    ]
    np.testing.assert_allclose(without_each_unit(sums, at), np.array(without) - rss, rtol=1e-6)
    least = int(np.argmin(without))
    assert list(dropped_in_turn(sums, at, 1.01 * (without[least] - rss))) == [least]
    assert len(dropped_in_turn(sums, at, np.inf)) == 4


def test_a_singular_system_has_a_solution_all_the_same() -> None:
    rng = np.random.default_rng(0)
    B = rng.standard_normal((5, 3)) * np.array([[1e-6], [1.0], [1.0], [1e6], [0.0]])
    M, x = B @ B.T, rng.standard_normal(5)
    found = solver_scaled(M, 1e-14)(M @ x)
    np.testing.assert_allclose(M @ found, M @ x, rtol=1e-6)
