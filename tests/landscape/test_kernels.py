"""Kernels of activations against integrals, series and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import factorial

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.integrate import quad

import provenet as pn
from helpers import is_a_sentence
from provenet.common.typing import Array
from provenet.landscape.kernels import (
    ABS_HALF,
    RELU_SHAPE,
    Kernel,
    Shape,
    even_kernel,
    hermite_shape,
    kernel,
)
from provenet.networks.activations import ABS, RELU, Activation, get_activation, leaky_relu
from provenet.networks.hermite import h, quadrature_coefficient

HOMOGENEOUS = [
    RELU,
    ABS,
    leaky_relu(0.3),
    leaky_relu(-2.0),
    get_activation("step"),
    get_activation("relu2"),
    get_activation("relu3"),
]
SMOOTH = [get_activation("sigmoid"), get_activation("exp")]
ALL = HOMOGENEOUS + SMOOTH
INSIDE = np.array([-0.95, -0.4, 0.0, 0.3, 0.9])


def name(activation: Activation) -> str:
    return activation.name


def by_angle(activation: Activation, rho: float) -> float:
    """`E[sigma(u.x) sigma(v.x)]` in the plane of u and v, for a homogeneous sigma.

    The radius is a factor, `E[R^(2p)] = 2^p p!`, and the mean over the circle is one integral with
    its kinks where u or v is orthogonal to the circle's point.
    """
    theta, p = float(np.arccos(rho)), activation.degree
    assert p is not None

    def on_circle(t: float) -> float:
        values = activation(np.array([np.cos(t), np.cos(t - theta)]))
        return float(values[0] * values[1])

    quarter = np.pi / 2
    kinks = np.array([quarter, 3 * quarter, quarter + theta, 3 * quarter + theta]) % (2 * np.pi)
    edges = np.unique([0.0, *kinks, 2 * np.pi])
    pieces = [quad(on_circle, a, b, epsabs=1e-13)[0] for a, b in pairwise(edges)]
    return float(2**p * factorial(p) * sum(pieces) / (2 * np.pi))


def by_quadrature(
    smooth: Callable[[Array], Array], other: Callable[[Array], Array], rho: float
) -> float:
    """`E[smooth(u) other(v)]`: Gauss-Hermite over u given v, then over v, split at its kink."""
    nodes, weights = hermegauss(80)
    weights = weights / weights.sum()

    def given(v: Array) -> Array:
        u = rho * v[..., None] + np.sqrt(1 - rho**2) * nodes
        return np.asarray(other(v) * (smooth(u) @ weights))

    return quadrature_coefficient(given, 0, (0.0,))


@pytest.mark.parametrize("rho", [-1.0, *INSIDE, 1.0])
@pytest.mark.parametrize("activation", HOMOGENEOUS, ids=name)
def test_closed_forms_are_the_integral(activation: Activation, rho: float) -> None:
    # Rounding: arccos near -1 and 1 is steep, but only its product with 1 - |rho| counts, except
    # for the step, whose kernel it is.
    closed = float(kernel(activation).value(np.array(rho)))
    assert closed == pytest.approx(by_angle(activation, rho), abs=1e-12)


@pytest.mark.parametrize("rho", [-1.0, *INSIDE, 1.0])
@pytest.mark.parametrize("activation", SMOOTH, ids=name)
def test_the_series_is_the_integral(activation: Activation, rho: float) -> None:
    # The energy left out is 1e-13 of E[sigma^2], which is at most e^2.
    series = float(kernel(activation).value(np.array(rho)))
    assert series == pytest.approx(by_quadrature(activation, activation, rho), abs=2e-12)


def test_the_kernel_of_exp_is_exp() -> None:
    """`E[exp(u.x + v.x)] = exp(|u + v|^2 / 2)`, and so are its derivatives."""
    exp = kernel(get_activation("exp"))
    for part in (exp.value, exp.first, exp.second):
        # The first order left out counts k (k - 1) as much in the second derivative.
        np.testing.assert_allclose(part(INSIDE), np.exp(1 + INSIDE), rtol=1e-9)


@pytest.mark.parametrize("activation", HOMOGENEOUS, ids=name)
def test_closed_forms_are_the_hermite_series(activation: Activation) -> None:
    rho = np.array([-0.7, -0.2, 0.0, 0.5, 0.8])
    terms = [
        float(activation.hermite(k, 0.0)) ** 2 / factorial(k) * rho**k
        for k in range(120)  # 0.8^120 = 2e-12, times coefficients below 1e-3
    ]
    np.testing.assert_allclose(kernel(activation).value(rho), sum(terms), rtol=0, atol=1e-13)


@pytest.mark.parametrize("activation", ALL, ids=name)
def test_derivatives_are_finite_differences(activation: Activation) -> None:
    parts, step = kernel(activation), 1e-5
    for function, derivative in ((parts.value, parts.first), (parts.first, parts.second)):
        numerical = (function(INSIDE + step) - function(INSIDE - step)) / (2 * step)
        # step^2 times a third derivative below 1e4 at 0.95, where those of a kink grow.
        np.testing.assert_allclose(derivative(INSIDE), numerical, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("activation", ALL, ids=name)
def test_nothing_breaks_at_the_ends_or_just_beyond(activation: Activation) -> None:
    """Rounding puts the inner product of a unit vector with itself on either side of 1."""
    parts, ends = kernel(activation), np.array([-1.0, 1.0])
    for part in (parts.value, parts.first, parts.second):
        assert np.isfinite(part(ends)).all() and np.isfinite(part(ends * (1 + 1e-15))).all()
    # 1e-15 beyond: the same value, at a slope below 1e2.
    np.testing.assert_allclose(parts.value(ends * (1 + 1e-15)), parts.value(ends), atol=1e-13)


def test_a_kink_without_a_known_form_is_refused() -> None:
    clipped = Activation("clip", lambda z: np.clip(z, 0.0, 1.0), lambda z: (z > 0) * (z < 1.0))
    with pytest.raises(pn.InvalidInput) as error:
        kernel(clipped)
    is_a_sentence(error, "clip", "use")


def test_scaling_is_that_of_the_function() -> None:
    """`|z| / 2` has a quarter of the kernel of `|z|`: the even part of that of ReLU."""
    half, relu = kernel(ABS).scaled(0.25), kernel(RELU)
    even = (relu.value(INSIDE) + relu.value(-INSIDE)) / 2
    np.testing.assert_allclose(half.value(INSIDE), even, atol=1e-15)
    np.testing.assert_allclose(half.second(INSIDE), kernel(ABS).second(INSIDE) / 4, rtol=1e-15)


@pytest.mark.parametrize("other", ["gamma", "sigma"])
@pytest.mark.parametrize("activation", [RELU, ABS, leaky_relu(0.3)], ids=name)
def test_the_even_kernel_is_that_of_gamma_with_itself_and_with_sigma(
    activation: Activation, other: str
) -> None:
    gamma = hermite_shape(activation).function
    function = gamma if other == "gamma" else activation.function
    for rho in (-0.8, 0.0, 0.35, 1.0):
        # Quadrature of polynomials on either side of the kink: exact but for rounding.
        closed = float(even_kernel(activation).value(np.array(rho)))
        assert closed == pytest.approx(by_quadrature(gamma, function, rho), abs=1e-13)


def test_the_even_kernel_keeps_the_orders_asked_for() -> None:
    sigma_2, sigma_4 = 0.28209479, -0.08143376  # ERRATA, GLM17 1
    two, both = even_kernel(RELU, orders=(2,)), even_kernel(RELU)
    np.testing.assert_allclose(two.value(INSIDE), sigma_2**2 * INSIDE**2, atol=1e-8)
    rest = sigma_4**2 * INSIDE**4
    np.testing.assert_allclose(both.value(INSIDE) - two.value(INSIDE), rest, atol=1e-8)
    np.testing.assert_allclose(two.second(INSIDE), 2 * sigma_2**2, atol=1e-8)


@pytest.mark.parametrize(
    "shape",
    [RELU_SHAPE, ABS_HALF, hermite_shape(RELU), hermite_shape(ABS)],
    ids=["relu", "abs", "gamma of relu", "gamma of abs"],
)
def test_derivatives_of_a_shape_are_finite_differences(shape: Shape) -> None:
    z, step = np.array([[-2.3, -0.4], [0.6, 3.1]]), 1e-5
    for function, derivative in ((shape.function, shape.first), (shape.first, shape.second)):
        before = z.copy()
        numerical = (function(z + step) - function(z - step)) / (2 * step)
        # step^2 times third derivatives below 1, rounding 1e-16 / step.
        np.testing.assert_allclose(derivative(z), numerical, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(z, before)  # computed in place, but not in the input's


def test_shapes_are_the_functions_they_are_named_after() -> None:
    z = np.linspace(-3, 3, 13)
    np.testing.assert_array_equal(RELU_SHAPE.function(z), RELU(z))
    np.testing.assert_array_equal(ABS_HALF.function(z), (RELU(z) + RELU(-z)) / 2)
    expected = 0.28209479 * h(2, z) - 0.08143376 * h(4, z)  # ERRATA, GLM17 1
    np.testing.assert_allclose(hermite_shape(RELU).function(z), expected, rtol=0, atol=1e-6)


def test_a_kernel_takes_matrices() -> None:
    rho = np.full((3, 2), 0.5)
    parts: Kernel = kernel(RELU)
    for part in (parts.value, parts.first, parts.second):
        assert part(rho).shape == (3, 2)
