"""Networks of smooth units, built from their answer: exact, with noise, and what is no such thing.

30 seeds of every activation were run at this size, and all were exact.
"""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.certify.candidate import Candidate
from provenet.certify.conclude import conclude
from provenet.data.sources import ArraySource
from provenet.fitting.context import Options, prepare
from provenet.networks.activations import Activation
from provenet.networks.canonical import align_to, match_units

SMOOTH = ("tanh", "sigmoid", "erf", "sin", "gelu", "gelu_tanh", "silu", "softplus", "elu")


def recovered(truth: pn.Network, n: int = 300, noise: float = 0.0, **options):
    X, y = pn.sample(truth, n, noise=noise, rng=1)
    return pn.recover(X, y, activation=truth.activation, rng=0, **options)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("seed", [0, 1])
def test_units_of_every_activation_are_exact(name: str, seed: int) -> None:
    truth = pn.random_network(3, 6, activation=name, rng=seed).replace(output_bias=0.7)
    result = recovered(truth)
    assert result.status == "exact" and result.network.linear is None
    assert result.network.activation.name == name and result.network.units == 3
    # Rounding of the labels times the condition of the problem.
    assert pn.parameter_error(result.network, truth) < 1e-10


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "softplus", "elu"])
def test_several_outputs_are_exact(name: str) -> None:
    truth = pn.random_network(4, 5, outputs=3, activation=name, rng=3)
    result = recovered(truth, 250)
    assert result.status == "exact" and pn.parameter_error(result.network, truth) < 1e-10


@pytest.mark.parametrize("inputs", ["uniform", "student-t", "integers"])
def test_inputs_of_any_kind_serve(inputs: str) -> None:
    truth, rng = pn.random_network(3, 6, activation="tanh", rng=4), np.random.default_rng(5)
    X = {
        "uniform": rng.uniform(-2, 2, (400, 6)),
        "student-t": rng.standard_t(4, (400, 6)),
        "integers": rng.integers(-3, 4, (400, 6)).astype(float),
    }[inputs]
    result = pn.recover(X, truth(X), activation="tanh", rng=0)
    assert result.status == "exact" and pn.parameter_error(result.network, truth) < 1e-9


def test_norms_beyond_the_cap_of_the_search() -> None:
    truth = pn.random_network(3, 6, activation="tanh", rng=6)
    steep = truth.replace(
        weights=truth.weights * 8 / np.linalg.norm(truth.weights, axis=1)[:, None]
    )
    result = recovered(steep, 600)
    assert result.status == "exact" and pn.parameter_error(result.network, steep) < 1e-9


def test_an_activation_of_ones_own_is_exact() -> None:
    own = Activation(
        "algebraic",
        lambda z: z / np.sqrt(1 + z**2),
        lambda z: (1 + z**2) ** -1.5,
        symmetry="odd",
        kinked=False,
    )
    truth = pn.random_network(3, 6, activation=own, rng=7)
    result = recovered(truth)
    assert result.status == "exact" and pn.parameter_error(result.network, truth) < 1e-9


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "gelu"])
def test_with_noise_the_width_is_right_and_errors_are_of_the_size_stated(name: str) -> None:
    truth = pn.random_network(3, 5, activation=name, rng=8).replace(output_bias=-0.4)
    result = recovered(truth, 2000, noise=0.02)
    assert result.status == "within noise" and result.network.units == 3
    found, errors = result.network, result.standard_errors
    assert errors is not None
    other = truth.canonical()
    rows, columns = match_units(found, other)
    like = align_to(other, found)
    sigmas = np.abs(found.weights[rows] - like.weights[columns]) / errors.weights[rows]
    # 15 numbers of standard size: their mean square is 1, at most 2.5 but for one in 1000.
    assert np.mean(sigmas**2) < 2.5
    assert abs(found.output_bias - like.output_bias) < 4 * errors.output_bias


def test_units_that_are_nearly_linear_are_not_called_exact() -> None:
    """Norms of 0.005 to 0.03 bend by 1e-4 of themselves: others leave next to as little."""
    truth = pn.random_network(3, 5, activation="tanh", rng=9)
    flat = truth.replace(weights=truth.weights * 1e-2)
    assert not recovered(flat, 400, budget=0.5).success


@pytest.mark.parametrize("name", ["tanh", "softplus", "sin"])
@pytest.mark.parametrize("labels", ["product", "exponential", "other units", "deeper"])
def test_what_is_no_such_network_is_no_success(name: str, labels: str) -> None:
    rng = np.random.default_rng(10)
    X = rng.uniform(-1, 1, (300, 2))
    y = {
        "product": X[:, 0] * X[:, 1],
        "exponential": np.exp(X[:, 0] - X[:, 1]),
        "other units": pn.random_network(3, 2, activation="erf", rng=11)(X),
        "deeper": np.tanh(np.tanh(X @ rng.standard_normal((2, 3))) @ rng.standard_normal(3)),
    }[labels]
    result = pn.recover(X, y, activation=name, rng=0, budget=0.2)
    assert not result.success and result.message


def test_a_unit_too_many_is_found_out() -> None:
    """A tanh unit in two halves explains the samples exactly, and one unit would do."""
    truth = pn.random_network(2, 4, activation="tanh", rng=12)
    split = truth.replace(
        weights=np.vstack([truth.weights, truth.weights[:1]]),
        biases=np.append(truth.biases, truth.biases[0]),
        output_weights=np.append(truth.output_weights, truth.output_weights[0]) / [2, 1, 2],
    )
    source = ArraySource(*pn.sample(truth, 400, rng=1))
    context = prepare(
        source,
        Options(activation=truth.activation),
        source.standardisation(),
        rng=np.random.default_rng(0),
        progress=lambda *_: None,
        deadline=np.inf,
    )
    inside = context.standardisation.network_from_user(split)
    result = conclude(context, Candidate(inside, "three units"), "expand-prune")
    assert not result.success
    fewer = next(check for check in result.checks if check.name == "no fewer units explain them")
    assert not fewer.holds


def test_methods_that_do_not_serve_name_one_that_does() -> None:
    X, y = pn.sample(pn.random_network(2, 3, rng=0), 100, rng=1)
    with pytest.raises(pn.InvalidInput, match="use method='auto'"):
        pn.recover(X, y, method="biased-relu", activation="tanh")
