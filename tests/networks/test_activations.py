"""Activations: Hermite coefficients by closed form, quadrature and Monte Carlo agree."""

from __future__ import annotations

import pickle
from dataclasses import replace
from math import pi, sqrt

import numpy as np
import pytest
from scipy import special

import provenet as pn
from helpers import is_a_sentence
from provenet.networks.activations import RELU, Symmetry, check_own_activation, get_activation
from provenet.networks.hermite import he, quadrature_coefficient

KINKED = ("relu", "relu2", "relu3", "step", "abs", "leaky_relu")
BOUNDED_SLOPE = ("tanh", "sigmoid", "erf", "sin", "gelu", "gelu_tanh", "silu", "softplus", "elu")
NAMES = (*KINKED, "exp", *BOUNDED_SLOPE)
CLOSED = tuple(name for name in NAMES if get_activation(name).coefficients)
BIASES = np.array([-3.0, -sqrt(3), -1.0, -0.4, 0.0, 0.4, 1.0, sqrt(3), 3.0])


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("name", BOUNDED_SLOPE)
def test_quadrature_of_a_smooth_unit_is_exact(name: str, scale: float) -> None:
    """Against a hundred pieces, also for units that are nearly steps."""
    activation = get_activation(name)
    for b in (-3.0, 0.0, 0.4, 1.7):
        edges = (*np.linspace(-12, 12, 100)[1:-1], -b / scale)
        for k in range(7):
            direct = quadrature_coefficient(lambda g, b=b: activation(scale * g + b), k, edges)
            # Rounding of values up to 30 times moments of He_6, which are 27.
            assert activation.hermite(k, b, scale) == pytest.approx(direct, abs=1e-11)


@pytest.mark.parametrize("k", range(7))
def test_closed_forms_of_sine_and_error_function(k: int) -> None:
    """`Im E exp(i (s g + b))`, and `E erf(s g + b) = erf(b / sqrt(1 + 2 s^2))` with derivatives."""
    s, sine, erf = 2.5, get_activation("sin"), get_activation("erf")
    expected = s**k * np.exp(-(s**2) / 2) * np.sin(BIASES + k * pi / 2)
    np.testing.assert_allclose(sine.hermite(k, BIASES, s), expected, rtol=0, atol=1e-12)
    r = sqrt(0.5 + s**2)
    slopes = 2 / sqrt(2 * pi) * (-1 / r) ** (k - 1) * (s / r) * s ** (k - 1)
    expected = slopes * he(k - 1, BIASES / r) * np.exp(-((BIASES / r) ** 2) / 2)
    expected = expected if k else special.erf(BIASES / (sqrt(2) * r))
    np.testing.assert_allclose(erf.hermite(k, BIASES, s), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("k", range(7))
def test_closed_form_is_quadrature(name: str, k: int) -> None:
    activation = get_activation(name)
    closed, quadrature = (
        activation.hermite(k, BIASES),
        activation.hermite_by_quadrature(k, BIASES),
    )
    # Rounding in sums of values as large as exp(3) He_6.
    np.testing.assert_allclose(closed, quadrature, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_monte_carlo_agrees(name: str) -> None:
    activation = get_activation(name)
    g = np.random.default_rng(1).standard_normal(100_000)
    for b in (-1.2, 0.0, 0.7):
        y = activation(g + b)
        for k in range(5):
            values = y * he(k, g)
            error = values.std() / sqrt(len(g))
            # Six standard errors of a mean with heavy tails: held for each of 50 seeds.
            assert abs(values.mean() - activation.hermite(k, b)) < 6 * error


@pytest.mark.parametrize("name", BOUNDED_SLOPE)
def test_smooth_ones_are_finite_and_right_far_out(name: str) -> None:
    """No overflow, no division by zero, and the limits to the last digits."""
    activation = get_activation(name)
    z = np.array([-1e3, -300.0, -45.0, 45.0, 300.0, 1e3])
    with np.errstate(all="raise", under="ignore"):
        values, slopes = activation(z), activation.derivative(z)
    limits = {
        "sin": (np.sin(z), np.cos(z)),
        "tanh": (np.sign(z), 0 * z),
        "erf": (np.sign(z), 0 * z),
        "sigmoid": (np.heaviside(z, 0), 0 * z),
        "elu": (np.where(z > 0, z, -1.0), np.heaviside(z, 0)),
    }
    value, slope = limits.get(name, (np.maximum(z, 0), np.heaviside(z, 0)))
    # exp(-45) is 3e-20: times 45 below the rounding of 1.
    np.testing.assert_allclose(values, value, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(slopes, slope, rtol=1e-15, atol=1e-15)


def test_small_values_keep_their_digits() -> None:
    """Where a sum with 1 would leave none: `S(-40) = e^-40`, and so on."""
    z = np.array([-40.0])
    tiny = np.exp(z)
    expected = {"sigmoid": tiny, "softplus": tiny, "silu": z * tiny}
    for name, value in expected.items():
        np.testing.assert_allclose(get_activation(name)(z), value, rtol=1e-14)
    np.testing.assert_allclose(get_activation("tanh").derivative(z / 2), 4 * tiny, rtol=1e-14)
    np.testing.assert_allclose(get_activation("elu")(-tiny), -tiny, rtol=1e-14)


SYMMETRIES = {
    Symmetry.ODD: ("tanh", "sigmoid", "erf", "sin"),
    Symmetry.MIRROR: ("relu", "leaky_relu", "gelu", "gelu_tanh", "silu", "softplus"),
    Symmetry.EVEN: ("abs",),
    Symmetry.NONE: ("relu2", "relu3", "step", "exp", "elu"),
}


@pytest.mark.parametrize("name", [*NAMES, "leaky_relu(-0.3)"])
def test_every_property_is_true(name: str) -> None:
    """Derivative, degree, period, inverse and symmetry, by the check of the user's own."""
    sigma = get_activation(name)
    check_own_activation(replace(sigma, name="mine"))
    assert sigma.family in SYMMETRIES[sigma.symmetry]
    assert sigma.even == (name == "abs") and sigma.smooth == (sigma.family not in KINKED)
    z = np.linspace(-4, 4, 50)
    for symmetry, image in {
        Symmetry.ODD: 2 * sigma(np.zeros(1)) - sigma(z),
        Symmetry.MIRROR: sigma(z) - (1 + max(sigma.slope or 0.0, -0.5)) * z,
        Symmetry.EVEN: sigma(z),
    }.items():
        assert symmetry is sigma.symmetry or np.abs(sigma(-z) - image).max() > 0.1


def test_a_symmetry_by_its_name() -> None:
    own = pn.Activation("cos", np.cos, lambda z: -np.sin(z), symmetry="even", kinked=False)
    assert own.symmetry is Symmetry.EVEN and own.even and own.smooth
    assert pickle.loads(pickle.dumps(Symmetry.ODD)) is Symmetry.ODD
    for fields, words in (
        ({"symmetry": "round"}, ("'round'", "'odd', 'mirror', 'even', 'none'")),
        ({"period": 0.0}, ("period", "positive")),
    ):
        with pytest.raises(pn.InvalidInput) as error:
            pn.Activation("mine", np.cos, np.sin, **fields)
        is_a_sentence(error, "mine", *words)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", range(5))
def test_coefficients_of_a_unit_of_any_norm(name: str, k: int) -> None:
    """`E[sigma(s g + b) He_k(g)]`, in closed form where the activation is homogeneous."""
    activation = get_activation(name)
    scales = np.array([0.5, 1.0, 2.5])
    found = activation.hermite(k, 0.4, scales)
    for scale, value in zip(scales, found, strict=True):
        zero = (-0.4 / scale,)
        direct = quadrature_coefficient(lambda g, s=scale: activation(s * g + 0.4), k, zero)
        # Rounding, relative to numbers as large as exp(3.5) 2.5^4.
        assert value == pytest.approx(direct, rel=1e-11, abs=1e-11)


def test_an_activation_of_the_users_own() -> None:
    leaky = pn.Activation(
        "leaky",
        lambda z: np.where(z > 0, z, 0.1 * z),
        lambda z: np.where(z > 0, 1.0, 0.1),
        degree=1,
    )
    assert get_activation(leaky) is leaky
    for k in range(5):
        # leaky(z) = 0.9 relu(z) + 0.1 z, and z has coefficients b, 1, 0, 0, ..
        linear = BIASES if k == 0 else float(k == 1)
        expected = 0.9 * RELU.hermite(k, BIASES) + 0.1 * linear
        np.testing.assert_allclose(leaky.hermite(k, BIASES), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("unknown", ["mish", "", None, 3, np.tanh])
def test_unknown_names_list_the_known(unknown: object) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        get_activation(unknown)
    is_a_sentence(error, *NAMES, "provenet.Activation")


@pytest.mark.parametrize("name", [*NAMES, "leaky_relu(0.3)"])
def test_activations_survive_pickling(name: str) -> None:
    activation = get_activation(name)
    again = pickle.loads(pickle.dumps(activation))
    z = np.linspace(-2, 2, 9)
    assert again.name == name and np.array_equal(again(z), activation(z))
    assert again.slope == activation.slope


def test_an_activation_of_ones_own_is_pickled_as_it_is() -> None:
    own = pn.Activation("relu", np.tanh, np.cosh)  # the name of another
    again = pickle.loads(pickle.dumps(own))
    assert again.function is np.tanh and again.derivative is np.cosh
