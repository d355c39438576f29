"""Squared losses: closed forms against samples and series, derivatives against differences."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from math import pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import exact_tensors, is_a_sentence, networks, orders, permuted
from provenet.common.typing import Array
from provenet.landscape.fourth_order import DenseFourth
from provenet.landscape.kernels import (
    ABS_HALF,
    RELU_SHAPE,
    Kernel,
    Shape,
    even_kernel,
    hermite_shape,
    kernel,
)
from provenet.landscape.losses import (
    LeastSquares,
    MomentLoss,
    PopulationLoss,
    SampleLoss,
    squared_loss,
)
from provenet.landscape.second_order import smallest_eigenvalue
from provenet.landscape.statistics import Statistics, coefficients
from provenet.networks.activations import ABS, RELU, Activation, leaky_relu

UNITS, FEATURES = 4, 5
HALF_ABS = kernel(ABS).scaled(0.25)
KERNELS: dict[str, tuple[Kernel, Shape]] = {
    "l2": (kernel(RELU), RELU_SHAPE),
    "f2f4": (even_kernel(RELU), hermite_shape(RELU)),
    "abs": (HALF_ABS, ABS_HALF),
}
"""The losses at a ReLU network: each kernel is also that of gamma with ReLU."""
by_name = pytest.mark.parametrize("name", list(KERNELS))
either_weights = pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "best"])


def a_truth(seed: int, units: int = UNITS, activation: str | Activation = "relu") -> pn.Network:
    """Unit rows, no biases, positive output weights."""
    net = pn.random_network(units, FEATURES, bias_scale=0.0, rng=seed)
    return net.replace(output_weights=np.abs(net.output_weights), activation=activation)


def unit_rows(rng: np.random.Generator, units: int = UNITS, features: int = FEATURES) -> Array:
    B = rng.standard_normal((units, features))
    return np.asarray(B / np.linalg.norm(B, axis=1, keepdims=True))


def population(truth: pn.Network, name: str, weights: Array | None = None) -> PopulationLoss:
    return PopulationLoss(truth, KERNELS[name][0], KERNELS[name][0], weights)


def moment(truth: pn.Network, weights: Array | None = None, noise: float = 0.0) -> MomentLoss:
    """From the exact moments, or from symmetric ones that no network has."""
    T = exact_tensors(truth)
    other = exact_tensors(a_truth(99, units=7))
    T2, T4 = (T[k] + noise * other[k] for k in (2, 4))
    c_2, c_4 = coefficients(truth.activation)
    statistics = Statistics((T2 / c_2, T2 / c_2), DenseFourth(T4 / c_4), error=0.0)
    return MomentLoss(statistics, truth.activation, truth.units, weights)


def some_losses(fixed: bool) -> dict[str, LeastSquares]:
    """Every kind of loss at another truth; weights of both signs where they are fixed."""
    rng = np.random.default_rng([0, 7])
    a = np.array([0.7, 1.3, -0.4, 1.0]) if fixed else None
    truth, wide = a_truth(0), a_truth(2, units=6)
    leaky = kernel(leaky_relu(0.3))
    X, y = pn.sample(truth, 40, noise=0.3, rng=rng)
    losses: dict[str, LeastSquares] = {
        "leaky": PopulationLoss(a_truth(1, activation=leaky_relu(0.3)), leaky, leaky, a),
        "more true units": PopulationLoss(wide, HALF_ABS, HALF_ABS, a, units=UNITS),
        "moments": moment(truth, a),
        "noisy moments": moment(truth, a, noise=0.3),
    }
    for name, (_, shape) in KERNELS.items():
        losses[f"{name} population"] = population(truth, name, a)
        losses[f"{name} samples"] = SampleLoss(X, y, shape, UNITS, a)
    return losses


LOSSES = [
    pytest.param(loss, id=f"{name}, {'fixed' if fixed else 'best'}")
    for fixed in (True, False)
    for name, loss in some_losses(fixed).items()
]


def derivatives(f: Callable[[float], float], step: float) -> tuple[float, float]:
    """First and second derivative at 0 by central differences of fourth order."""
    values = [f(step * k) for k in (-2, -1, 0, 1, 2)]
    first = np.array([1, -8, 0, 8, -1]) @ values / (12 * step)
    second = np.array([-1, 16, -30, 16, -1]) @ values / (12 * step**2)
    return float(first), float(second)


# Closed form of the distance between two networks


DISTANCES = ["relu", "abs", "leaky_relu(0.3)", "relu2", "step", "sigmoid"]


def two_networks(seed: int, activation: str) -> tuple[pn.Network, pn.Network]:
    """Five and three units of any norm where that is allowed, output biases, one linear term."""
    rng = np.random.default_rng([seed, 1])
    sizes = np.ones(5) if activation == "sigmoid" else rng.uniform(0.5, 1.5, 5)
    one = pn.Network(
        sizes[:, None] * unit_rows(rng, 5),
        output_weights=rng.standard_normal(5),
        output_bias=0.6,
        activation=activation,
    )
    other = pn.Network(
        sizes[:3, None] * unit_rows(rng, 3),
        output_weights=rng.standard_normal(3),
        output_bias=-0.2,
        activation=activation,
        linear=0.3 * rng.standard_normal(FEATURES),
    )
    return one, other


def monte_carlo_deviation(seed: int, activation: str) -> tuple[float, float]:
    """Closed form less the mean over samples in standard errors, and that error, relative."""
    one, other = two_networks(seed, activation)
    X = np.random.default_rng([seed, 1]).standard_normal((100_000, FEATURES))
    squares = (one(X) - other(X)) ** 2
    error = squares.std() / np.sqrt(len(X))
    closed = squared_loss(one, other)
    return float((closed - squares.mean()) / error), float(error / closed)


@pytest.mark.parametrize("activation", DISTANCES)
def test_the_distance_is_the_mean_over_samples(activation: str) -> None:
    deviation, error = monte_carlo_deviation(0, activation)
    # A standard normal number (over 50 seeds up to 2.4); the mean is known to 1.6 % or better.
    assert abs(deviation) < 3 and error < 0.02


def test_the_distance_is_its_hermite_series() -> None:
    """Theorem 2.1 term by term; `c_k^2 / k!` of ReLU follows its own recurrence.

    The orders beyond count only a unit with itself: other inner products have died out.
    """
    one, other = a_truth(3), a_truth(4)
    W = np.vstack([one.weights, other.weights])
    rho = W @ W.T
    a = np.concatenate([one.output_weights, -other.output_weights])
    energies = [1 / (2 * pi), 0.25, 1 / (4 * pi)]
    for k in range(1, 1200):
        energies.append(energies[k] * (k - 1) ** 2 / ((k + 1) * (k + 2)))
    series = sum(e * (a @ rho**k @ a) for k, e in enumerate(energies))
    beyond = (0.5 - sum(energies)) * a @ a
    # The largest inner product is below 0.97: 0.97^1200 = 1e-16.
    assert np.abs(rho - np.eye(8)).max() < 0.97
    assert squared_loss(one, other) == pytest.approx(series + beyond, rel=1e-12)


@given(networks(("relu", "abs", "leaky_relu(0.3)"), outputs=False), orders)
def test_the_distance_of_a_network_from_itself_is_zero(
    network: pn.Network, order: Sequence[int]
) -> None:
    """Also listed in another order, and with a unit's norm moved into its output weight."""
    network = network.replace(biases=np.zeros(network.units))
    sizes = np.linspace(0.5, 2.0, network.units)
    same = permuted(network, order).replace(linear=network.linear)
    other = same.replace(
        weights=sizes[:, None] * same.weights, output_weights=same.output_weights / sizes
    )
    size = squared_loss(network, network.replace(weights=0 * network.weights))
    # A sum of some 60 terms of that size which cancel.
    assert 0 <= squared_loss(network, other) <= 1e-14 * (1 + 10 * size)


@given(
    networks(("relu", "abs"), outputs=False),
    networks(("relu", "abs"), outputs=False),
    st.floats(-2, 2),
)
def test_the_distance_behaves_as_a_square(one: pn.Network, other: pn.Network, t: float) -> None:
    """`E (f - t f)^2 = (1 - t)^2 E f^2`, and f, g may be exchanged."""
    one, other = (net.replace(biases=np.zeros(net.units)) for net in (one, other))

    def times(net: pn.Network, t: float) -> pn.Network:
        return net.replace(
            output_weights=t * net.output_weights,
            output_bias=t * net.output_bias,
            linear=None if net.linear is None else t * net.linear,
        )

    size = squared_loss(one, times(one, 0.0))
    # Rounding of a sum of cancelling terms of some ten times the size.
    found = squared_loss(one, times(one, t))
    assert found == pytest.approx((1 - t) ** 2 * size, rel=1e-12, abs=1e-13 * (1 + size))
    if one.activation == other.activation and one.features == other.features:
        assert squared_loss(one, other) == pytest.approx(squared_loss(other, one), abs=1e-12)


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (pn.Network(np.eye(3), biases=[0.0, 0.0, 0.1]), "biases"),
        (pn.Network(np.eye(3), output_weights=np.ones((2, 3))), "output"),
        (pn.Network(np.eye(3), activation="abs"), "abs"),
        (pn.Network(np.eye(2)), "inputs"),
        (pn.Network(2 * np.eye(3), activation="sigmoid"), "norm 1"),
    ],
)
def test_networks_without_a_closed_form_are_refused(other: pn.Network, word: str) -> None:
    for pair in ((pn.Network(np.eye(3)), other), (other, pn.Network(np.eye(3)))):
        with pytest.raises(pn.InvalidInput) as error:
            squared_loss(*pair)
        is_a_sentence(error, word)


@pytest.mark.parametrize("change", [{"output_bias": 0.1}, {"linear": np.ones(FEATURES)}])
def test_the_truth_of_a_population_loss_is_a_sum_of_units(change: dict[str, Array]) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        population(a_truth(0).replace(**change), "l2")
    is_a_sentence(error, "linear", "bias")


def test_one_slope_under_two_names_is_one_activation() -> None:
    one = pn.Network(np.eye(3), activation="leaky_relu")
    other = one.replace(activation=leaky_relu(0.01))
    assert squared_loss(one, other) == pytest.approx(0.0, abs=1e-14)


# The losses as functions of B


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_the_l2_loss_is_the_distance(seed: int, units: int) -> None:
    rng = np.random.default_rng([seed, 1])
    truth, B, a = a_truth(seed), unit_rows(rng, units), rng.standard_normal(units)
    loss = population(truth, "l2", a)
    assert (loss.units, loss.features) == B.shape
    distance = squared_loss(truth, pn.Network(B, output_weights=a))
    assert loss.value(B) == pytest.approx(distance, rel=1e-12, abs=1e-13)  # rounding


def test_rows_of_the_truth_may_have_any_norm() -> None:
    truth = a_truth(0)
    scaled = truth.replace(weights=2 * truth.weights, output_weights=truth.output_weights / 2)
    B = unit_rows(np.random.default_rng([0, 0]))
    expected = population(truth, "l2").value(B)
    assert population(scaled, "l2").value(B) == pytest.approx(expected, rel=1e-12)


@by_name
@pytest.mark.parametrize("seed", range(3))
def test_the_truth_is_a_minimum_of_the_population_loss(name: str, seed: int) -> None:
    truth = a_truth(seed)
    a, B = truth.output_weights, truth.weights
    rng = np.random.default_rng([seed, 1])
    for loss in (population(truth, name, a), population(truth, name)):
        # What gamma cannot say of y is left: orders other than its own.
        left = loss.constant - a @ loss.kernel.value(B @ B.T) @ a
        # The ridge: 1e-12 of a trace of at most 2, times |a|^2 of at most 9; over 50 seeds 2e-11.
        assert loss.value(B) == pytest.approx(left, abs=1e-10)
        assert np.abs(loss.slope(B)).max() < 1e-10
        lowest, _ = smallest_eigenvalue(loss, B)
        assert lowest > -1e-12  # 0 across the spheres
        for size in (1e-3, 0.1, 1.0):
            near = loss.retract(B + size * rng.standard_normal(B.shape))
            # Over 50 seeds it rises by 0.5 of this at least.
            assert loss.value(near) > loss.value(B) + 0.1 * min(size**2, 0.01)
    np.testing.assert_allclose(loss.output_weights_at(B), a, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["f2f4", "abs"])
def test_the_even_losses_do_not_see_the_sign_of_a_row(name: str) -> None:
    truth, B = a_truth(0), unit_rows(np.random.default_rng([0, 1]))
    signs = np.array([1.0, -1.0, -1.0, 1.0])[:, None]
    loss = population(truth, name)
    assert loss.value(signs * B) == pytest.approx(loss.value(B), rel=1e-12)
    assert population(truth, "l2").value(signs * B) != pytest.approx(loss.value(B), rel=1e-3)


@either_weights
def test_the_loss_from_moments_is_the_population_loss(fixed: bool) -> None:
    """Theorem 2.2: up to a constant, and the same derivatives."""
    truth, rng = a_truth(0), np.random.default_rng([0, 5])
    a = rng.standard_normal(UNITS) if fixed else None
    by_moments, by_kernel = moment(truth, a), population(truth, "f2f4", a)
    for _ in range(3):
        B, V = unit_rows(rng), rng.standard_normal((UNITS, FEATURES))
        # Two routes to the same polynomials: rounding, and that of G's inverse.
        difference = by_kernel.value(B) - by_moments.value(B)
        assert difference == pytest.approx(by_kernel.constant, abs=1e-12)
        for route in ("gradient", "hessian_product"):
            arguments = (B,) if route == "gradient" else (B, V)
            found, expected = (getattr(f, route)(*arguments) for f in (by_moments, by_kernel))
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_derivatives_are_those_along_curves_on_the_spheres(loss: LeastSquares) -> None:
    rng = np.random.default_rng([0, 11])
    for _ in range(3):
        B = unit_rows(rng)
        V = loss.tangent(B, rng.standard_normal(B.shape))
        V /= np.linalg.norm(V)
        step = 1e-6 if _is_kinked(loss) else 2e-3
        first, second = derivatives(lambda t, B=B, V=V: loss.value(loss.retract(B + t * V)), step)
        g = loss.gradient(B)
        # step^4 times a higher derivative, and rounding over the step, 1e-16 / 1e-6 at a kink:
        # over 50 seeds below 5e-9 of the largest slope, and a fifth of what the second is allowed.
        size = np.abs(g).max()
        assert first == pytest.approx(np.sum(loss.slope(B) * V), abs=5e-8 * size)
        if not _is_kinked(loss):
            bend = np.sum(V * loss.curvature(B, V, g))
            assert second == pytest.approx(bend, rel=1e-7, abs=1e-8 * size)


@pytest.mark.parametrize("loss", LOSSES)
def test_hessian_products_are_differences_of_the_gradient(loss: LeastSquares) -> None:
    """Along any direction; where samples meet a kink, a step that crosses none."""
    rng = np.random.default_rng([0, 12])
    for _ in range(3):
        B, V = unit_rows(rng), rng.standard_normal((UNITS, FEATURES))
        step = 1e-7 if _is_kinked(loss) else 1e-5
        numerical = (loss.gradient(B + step * V) - loss.gradient(B - step * V)) / (2 * step)
        found = loss.hessian_product(B, V)
        # Rounding of the gradient and of G's inverse over the step: over 50 seeds below 1e-7.
        np.testing.assert_allclose(found, numerical, rtol=0, atol=1e-6 * np.abs(found).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_the_hessian_is_symmetric(loss: LeastSquares) -> None:
    rng = np.random.default_rng([0, 13])
    B, U, V = unit_rows(rng), *rng.standard_normal((2, UNITS, FEATURES))
    one, other = np.sum(U * loss.hessian_product(B, V)), np.sum(V * loss.hessian_product(B, U))
    assert one == pytest.approx(other, rel=1e-11)  # rounding, and that of G's inverse


@pytest.mark.parametrize("loss", LOSSES)
def test_answers_at_one_point_do_not_depend_on_what_was_asked_before(loss: LeastSquares) -> None:
    """Something is remembered from call to call: it must never be that of another B."""
    rng = np.random.default_rng([0, 14])
    B, other = unit_rows(rng), unit_rows(rng)
    value, g = loss.value(B), loss.gradient(B)
    loss.hessian_product(other, B)
    moving = unit_rows(rng)
    loss.gradient(moving)
    moving[:] = B  # the same array, other numbers
    np.testing.assert_array_equal(loss.gradient(moving), g)
    assert loss.value(moving) == value
    assert loss.value(B) == value
    loss.output_weights_at(B)[:] += 1.0  # the caller's own
    np.testing.assert_array_equal(loss.gradient(B), g)


def _is_kinked(loss: LeastSquares) -> bool:
    """Samples see the kink itself, a population only its mean."""
    return isinstance(loss, SampleLoss) and loss.gamma in (RELU_SHAPE, ABS_HALF)


@either_weights
def test_the_curvature_of_the_l2_loss_is_finite_at_the_truth(fixed: bool) -> None:
    """There the kernel's second derivative is not: only along the spheres does it count for 0."""
    truth, rng = a_truth(0), np.random.default_rng([0, 15])
    B, a = truth.weights, truth.output_weights if fixed else None
    loss = population(truth, "l2", a)
    V = loss.tangent(B, rng.standard_normal(B.shape))
    V /= np.linalg.norm(V)
    _, second = derivatives(lambda t: loss.value(loss.retract(B + t * V)), 1e-4)
    # The third derivative jumps at the truth: off by the step times at most 0.2 over 50 seeds.
    bend = np.sum(V * loss.curvature(B, V, loss.gradient(B)))
    assert second == pytest.approx(bend, abs=1e-4) and bend > 0.1


@pytest.mark.parametrize("loss", LOSSES[len(LOSSES) // 2 :])
def test_best_output_weights_are_the_best(loss: LeastSquares) -> None:
    rng = np.random.default_rng([0, 16])
    B = unit_rows(rng)
    a = loss.output_weights_at(B)
    lowest = loss.loss_and_partial(a, B)[0]
    # The ridge, 1e-12 of the trace times |a|^2: over 50 seeds 8e-11.
    assert loss.value(B) == pytest.approx(lowest, abs=5e-10)
    for _ in range(5):
        # At another a, the loss is higher by G's smallest eigenvalue: over 50 seeds 0.02.
        shift = 1e-3 * rng.standard_normal(UNITS)
        assert loss.loss_and_partial(a + shift, B)[0] > lowest + 5e-3 * shift @ shift


@by_name
def test_equal_rows_share_their_output_weight(name: str) -> None:
    """Only the sum of their weights counts: no division by zero, and the loss without one."""
    truth, rng = a_truth(0), np.random.default_rng([0, 17])
    B = unit_rows(rng, 3)
    X, y = pn.sample(truth, 2000, rng=rng)
    shape = KERNELS[name][1]
    for few, more in (
        (population(truth, name), population(truth, name)),
        (SampleLoss(X, y, shape, 3), SampleLoss(X, y, shape, 4)),
    ):
        twice = B[[0, 1, 2, 2]]
        assert more.value(twice) == pytest.approx(few.value(B), rel=1e-10)
        a, merged = more.output_weights_at(twice), few.output_weights_at(B)
        # Rounding over the ridge, 1e-16 / 1e-12 of the weight; over 50 seeds 4e-5 and 1e-11.
        np.testing.assert_allclose(a[2:], merged[2] / 2, atol=4e-4)
        assert a[2] + a[3] == pytest.approx(merged[2], abs=1e-9)
        assert np.isfinite(more.gradient(twice)).all()


# Samples


def plain_loss(X: Array, y: Array, shape: Shape, a: Array, B: Array) -> Array:
    """The squares themselves."""
    return np.asarray((y - shape.function(X @ B.T) @ a) ** 2)


@by_name
@either_weights
def test_the_sample_loss_is_the_mean_square(name: str, fixed: bool) -> None:
    """Over more samples than one block, not a multiple of it; weights by another solver."""
    rng = np.random.default_rng([0, 18])
    X, y = pn.sample(a_truth(0), 2500, noise=0.2, rng=rng)
    B, shape = 1.3 * unit_rows(rng, 3), KERNELS[name][1]
    a = rng.standard_normal(3)
    loss = SampleLoss(X, y, shape, 3, a if fixed else None, unit_rows=False)
    if not fixed:
        a = np.linalg.lstsq(shape.function(X @ B.T), y, rcond=None)[0]
        np.testing.assert_allclose(loss.output_weights_at(B), a, rtol=0, atol=1e-9)
    # Rounding, and the ridge: 1e-12 of the trace.
    assert loss.value(B) == pytest.approx(plain_loss(X, y, shape, a, B).mean(), rel=1e-9)
    assert not loss.unit_rows


def sample_deviation(name: str, seed: int) -> tuple[float, float]:
    """Sample loss less the population's in standard errors, and that error, relative."""
    rng = np.random.default_rng([seed, 1])
    truth, B, a = a_truth(seed), unit_rows(rng), rng.uniform(0.5, 1.5, UNITS)
    X, y = pn.sample(truth, 50_000, rng=rng)
    shape = KERNELS[name][1]
    squares = plain_loss(X, y, shape, a, B)
    error = squares.std() / np.sqrt(len(y))
    expected = population(truth, name, a).value(B)
    found = SampleLoss(X, y, shape, UNITS, a).value(B)
    return float((found - expected) / error), float(error / expected)


@by_name
@pytest.mark.parametrize("seed", range(2))
def test_the_sample_loss_is_near_the_population_loss(name: str, seed: int) -> None:
    deviation, error = sample_deviation(name, seed)
    # A standard normal number (over 50 seeds up to 2.6); the mean is known to 1 %.
    assert abs(deviation) < 3 and error < 0.015


@by_name
@either_weights
def test_derivatives_from_many_samples_are_the_population_ones(name: str, fixed: bool) -> None:
    """Along the spheres, where both speak of the same function."""
    rng = np.random.default_rng([0, 20])
    truth, B = a_truth(0), unit_rows(rng)
    a = rng.uniform(0.5, 1.5, UNITS) if fixed else None
    X, y = pn.sample(truth, 200_000, rng=rng)
    sampled, exact = SampleLoss(X, y, KERNELS[name][1], UNITS, a), population(truth, name, a)
    V = exact.tangent(B, rng.standard_normal(B.shape))
    found, expected = sampled.slope(B), exact.slope(B)
    # Sampling: over 50 seeds at most 0.16 of the largest entry, 0.05 for most.
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.2 * np.abs(expected).max())
    if name == "f2f4":  # the others' samples have no second derivative at the kink
        found = sampled.curvature(B, V, sampled.gradient(B))
        expected = exact.curvature(B, V, exact.gradient(B))
        np.testing.assert_allclose(found, expected, rtol=0, atol=0.2 * np.abs(expected).max())


def test_a_batch_on_which_no_unit_speaks_has_weights_of_zero() -> None:
    loss = SampleLoss(-np.ones((1, 2)), np.ones(1), RELU_SHAPE, 2)
    B = np.eye(2)
    np.testing.assert_array_equal(loss.output_weights_at(B), np.zeros(2))
    assert loss.value(B) == 1.0
    np.testing.assert_array_equal(loss.gradient(B), np.zeros((2, 2)))


def test_many_samples_need_little_memory() -> None:
    """No array of samples by units: 200 000 by 50 would hold 80 MB."""
    rng = np.random.default_rng([0, 0])
    X, y = rng.standard_normal((200_000, 2)), np.ones(200_000)
    loss = SampleLoss(X, y, hermite_shape(RELU), 50)
    B = unit_rows(rng, 50, 2)
    tracemalloc.start()
    try:
        loss.value(B)
        loss.gradient(B)
        loss.hessian_product(B, B)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6
