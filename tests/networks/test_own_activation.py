"""An activation of the user's own that contradicts itself is refused with a sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import provenet as pn
from provenet.common.exceptions import InvalidInput
from provenet.networks.activations import check_own_activation


def rectified(z):
    return np.maximum(z, 0.0)


LOG = pn.Activation(
    "log1p",
    lambda z: np.log1p(rectified(z)),
    lambda z: np.where(z > 0, 1 / (1 + rectified(z)), 0.0),
    inverse=np.expm1,
)
REFUSED = {
    "must give finite values": (np.log1p, LOG.derivative, np.expm1),
    "a derivative that is not its function's below zero": (
        LOG.function,
        lambda z: 1 / (1 + rectified(z)),
        np.expm1,
    ),
    "a derivative that is not its function's above zero": (
        LOG.function,
        lambda z: 2 * LOG.derivative(z),
        np.expm1,
    ),
    "has an inverse and is not zero below zero": (np.tanh, lambda z: 1 - np.tanh(z) ** 2, None),
    "an inverse that does not undo it": (LOG.function, LOG.derivative, np.exp),
}


@pytest.mark.parametrize("words", REFUSED)
def test_contradictions_are_named_before_any_work(words):
    function, derivative, inverse = REFUSED[words]
    own = pn.Activation("mine", function, derivative, inverse=inverse or np.arctanh)
    with pytest.raises(InvalidInput, match=words):
        pn.recover(np.zeros((9, 1)), np.zeros((9, 2)), method="rectified", activation=own)


def swish(beta):
    """`z S(beta z)`, differentiable everywhere."""
    return pn.Activation(
        f"swish{beta}",
        lambda z: z / (1 + np.exp(-beta * z)),
        lambda z: (1 + np.exp(-beta * z) * (1 + beta * z)) / (1 + np.exp(-beta * z)) ** 2,
        kinked=False,
    )


def smooth(function, derivative, **facts):
    return pn.Activation("mine", function, derivative, kinked=False, **facts)


COS = smooth(np.cos, lambda z: -np.sin(z))
SIN = smooth(np.sin, np.cos)
SUM = smooth(lambda z: np.sin(z) + np.sin(2 * z), lambda z: np.cos(z) + 2 * np.cos(2 * z))
TANH = smooth(np.tanh, lambda z: 1 - np.tanh(z) ** 2)


@pytest.mark.parametrize(
    "own",
    [
        LOG,
        pn.Activation("clip", lambda z: np.clip(z, 0, 1), lambda z: (z > 0) * (z < 1.0)),
        swish(2),
        replace(swish(2), symmetry="mirror"),
        smooth(lambda z: z**3, lambda z: 3 * z**2, degree=3, symmetry="odd"),
        smooth(lambda z: 1e-9 * np.tanh(z), lambda z: 1e-9 / np.cosh(z) ** 2, symmetry="odd"),
        smooth(lambda z: 2 + np.tanh(z), TANH.derivative, symmetry="odd"),
        replace(COS, symmetry="even", period=2 * np.pi),
        replace(SIN, symmetry="odd", period=2 * np.pi),
        replace(SUM, symmetry="odd"),
        pn.Activation("mine", *(f for f in (rectified, lambda z: z > 0)), symmetry="mirror"),
    ],
    ids=lambda own: own.name,
)
def test_functions_that_are_what_they_say(own):
    check_own_activation(own)


def power(degree, said):
    """`z^degree` above zero, and what it says of its degree."""
    return pn.Activation(
        "power",
        lambda z: rectified(z) ** degree,
        lambda z: np.where(z > 0, degree * np.where(z > 0, z, 1.0) ** (degree - 1), 0.0),
        degree=said,
        inverse=lambda h: h ** (1 / degree),
    )


CONTRADICTIONS = [
    (power(1.5, 2), "not positively homogeneous of degree 2"),
    (power(1.5, None), "give degree=1.5"),
    (smooth(rectified, lambda z: (z > 0) * 1.0), "near zero: at z = 0 .*kinked=False"),
    (
        smooth(np.tanh, lambda z: np.where(z > 4, 0.01, TANH.derivative(z))),
        "above zero: at z = .*kinked=False",
    ),
    (smooth(np.tanh, lambda z: TANH.derivative(z) + (np.abs(z) < 0.02)), "near zero"),
    (smooth(lambda z: 1 / z, lambda z: -1 / z**2), "finite values"),
    (replace(TANH, symmetry="even"), "not the symmetry 'even': at z = -5 .*symmetry="),
    (replace(TANH, symmetry="mirror"), "not the symmetry 'mirror'"),
    (replace(swish(2), symmetry="odd"), "not the symmetry 'odd'"),
    (
        smooth(lambda z: np.tanh(z) + 1e-7 * z**2, lambda z: TANH.derivative(z), symmetry="odd"),
        "not the symmetry 'odd'",
    ),
    (replace(COS, period=6.28), "not the period 6.28: .*period="),
    (replace(SIN, symmetry="odd", period=4 * np.pi), "half of which reverses it"),
    (replace(SUM, symmetry="odd", period=2 * np.pi), "half of which reverses it"),
]


@pytest.mark.parametrize(("own", "words"), CONTRADICTIONS)
def test_functions_that_contradict_themselves(own, words):
    with pytest.raises(InvalidInput, match=words):
        check_own_activation(own)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_log_units_are_recovered_whose_inverse_overflows(scale):
    """Scales that are tried make `expm1` overflow: they explain nothing, and raise nothing."""
    truth = pn.random_network(3, 5, outputs=4, activation=LOG, rng=0)
    truth = truth.replace(weights=scale * truth.weights)
    X, y = pn.sample(truth, 5000, rng=1)
    result = pn.recover(X, y, method="rectified", activation=LOG, rng=0)
    assert result.status == "exact"
    assert pn.parameter_error(result.network, truth) < 1e-8 * scale


@pytest.mark.parametrize("degree", [0.5, 1.5])
def test_degrees_that_are_no_whole_numbers(degree):
    """BJW19, 9.1: `x^c` for any c > 0 commutes with scales, and the answer is exact."""
    own = power(degree, degree)
    truth = pn.random_network(3, 5, outputs=4, bias_scale=0.0, activation=own, rng=0)
    X, y = pn.sample(truth, 5000, rng=1)
    result = pn.recover(X, y, method="rectified", activation=own, rng=0)
    assert result.status == "exact"
    assert pn.parameter_error(result.network, truth) < 1e-10
    assert result.network.canonical().activation.degree == degree


def test_log_units_on_the_paper_s_road_to_the_last_digits():
    """Algorithm 5 with an unknown scale and no least squares after it: 1e-8 without its steps."""
    truth = pn.random_network(3, 6, outputs=5, bias_scale=0.0, activation=LOG, rng=0)
    X, y = pn.sample(truth, 20_000, rng=[0, 1])
    result = pn.recover(
        X, y, method="rectified", activation=LOG, rng=3, faithful=True, refine=False
    )
    assert result.status == "exact"
    assert pn.parameter_error(result.network, truth) < 1e-12
