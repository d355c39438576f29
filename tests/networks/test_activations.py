"""Activations: Hermite coefficients by closed form, quadrature and Monte Carlo agree."""

from __future__ import annotations

import pickle
from math import sqrt

import numpy as np
import pytest

import provenet as pn
from helpers import is_a_sentence
from provenet.networks.activations import RELU, get_activation
from provenet.networks.hermite import he, quadrature_coefficient

NAMES = ("relu", "relu2", "relu3", "step", "sigmoid", "exp", "abs")
CLOSED = tuple(name for name in NAMES if get_activation(name).coefficients)
BIASES = np.array([-3.0, -sqrt(3), -1.0, -0.4, 0.0, 0.4, 1.0, sqrt(3), 3.0])


def test_all_but_the_sigmoid_have_a_closed_form() -> None:
    assert set(NAMES) - set(CLOSED) == {"sigmoid"}


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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", range(5))
def test_the_next_coefficient_is_the_derivative(name: str, k: int) -> None:
    activation, step = get_activation(name), 1e-4
    above, below = (activation.hermite(k, BIASES + s) for s in (step, -step))
    # Central differences: step^2 / 6 times a third derivative of at most exp(3.5), about 5e-8.
    np.testing.assert_allclose(
        (above - below) / (2 * step), activation.hermite(k + 1, BIASES), rtol=0, atol=3e-7
    )


@pytest.mark.parametrize("name", NAMES)
def test_derivative(name: str) -> None:
    activation, step = get_activation(name), 1e-5
    z = np.array([-2.3, -0.8, -0.1, 0.2, 1.1, 2.7])  # not at the kink
    slope = (activation(z + step) - activation(z - step)) / (2 * step)
    # Central differences: step^2 times a third derivative of at most exp(2.7), and rounding.
    np.testing.assert_allclose(activation.derivative(z), slope, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_homogeneous_and_even_as_declared(name: str) -> None:
    activation = get_activation(name)
    z = np.array([-2.5, -0.5, 0.5, 2.5])
    if activation.degree is None:
        assert not np.allclose(
            activation(2 * z) / activation(z), activation(4 * z) / activation(2 * z)
        )
    else:
        np.testing.assert_array_equal(activation(2 * z), 2.0**activation.degree * activation(z))
    assert activation.even == np.array_equal(activation(z), activation(-z))


def test_one_bias_or_many() -> None:
    for name in NAMES:
        many = get_activation(name).hermite(3, BIASES.reshape(3, 3))
        assert many.shape == (3, 3)
        assert get_activation(name).hermite(3, 0.4) == pytest.approx(many[1, 2], abs=1e-15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", range(5))
def test_coefficients_of_a_unit_of_any_norm(name: str, k: int) -> None:
    """`E[sigma(s g + b) He_k(g)]`, in closed form where the activation is homogeneous."""
    activation = get_activation(name)
    scales = np.array([0.5, 1.0, 2.5])
    found = activation.hermite(k, 0.4, scales)
    for scale, value in zip(scales, found, strict=True):
        kink = (-0.4 / scale,) if activation.kinked else ()
        direct = quadrature_coefficient(lambda g, s=scale: activation(s * g + 0.4), k, kink)
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


@pytest.mark.parametrize("unknown", ["tanh", "", None, 3, np.tanh])
def test_unknown_names_list_the_known(unknown: object) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        get_activation(unknown)
    is_a_sentence(error, *NAMES, "provenet.Activation")


@pytest.mark.parametrize("name", [*NAMES, "leaky_relu", "leaky_relu(0.3)"])
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
