"""The activation found: the right one, its runner-up named truly, doubt where there is doubt."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

import provenet as pn
from provenet.certify.checks import Check
from provenet.certify.found_activation import FoundActivation, OtherActivation
from provenet.common.exceptions import InvalidInput
from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.fitting.search.problem import fitted_form
from provenet.methods.stages.activation_found import TRIED
from provenet.networks.activations import Activation, get_activation

RUNNER_UP = "no other activation explains them"
SMOOTH = ("tanh", "erf", "sin", "silu", "gelu", "gelu_tanh", "softplus", "elu")


def problem(
    activation: str, seed: int, units: int = 5, samples: int = 400, noise: float = 0.0
) -> tuple[pn.Network, Array, Array]:
    """Ten features; norms from 0.5 to 3, biases within 1; noise over the labels' spread."""
    rng = np.random.default_rng([seed, 7])
    W = rng.standard_normal((units, 10))
    W *= (rng.uniform(0.5, 3.0, units) / np.linalg.norm(W, axis=1))[:, None]
    b = rng.uniform(-1, 1, units)
    a = rng.choice([-1, 1], units) * rng.uniform(0.5, 1.5, units)
    truth = pn.Network(W, b, a, 0.3, activation)
    X = rng.standard_normal((samples, 10))
    y = truth(X)
    return truth, X, y + noise * y.std() * rng.standard_normal(samples)


@cache
def recovered(activation: str) -> pn.Recovery:
    """What several tests look at."""
    _, X, y = problem(activation, 1)
    return pn.recover(X, y, activation="auto", rng=1)


def runner_up(result: pn.Recovery) -> Check:
    return next(check for check in result.checks if check.name == RUNNER_UP)


@pytest.mark.parametrize("activation", ["relu", "leaky_relu(0.2)", "abs", *SMOOTH])
def test_each_activation_is_found(activation: str) -> None:
    truth, _, _ = problem(activation, 1)
    result = recovered(activation)
    assert result.status is pn.Status.EXACT
    assert result.network is not None
    assert result.network.activation.family == truth.activation.family
    assert result.method == "expand-prune"
    # Rounding times the condition of the units, with room to spare: a wrong unit is off by 1e-2.
    assert pn.parameter_error(result.network, truth) < 1e-8
    assert truth.activation.family in result.message
    assert runner_up(result).holds


def test_sigmoid_is_told_as_tanh() -> None:
    truth, X, y = problem("sigmoid", 1)
    result = pn.recover(X, y, activation="auto", rng=1)
    assert result.status is pn.Status.EXACT
    assert result.network is not None
    assert result.network.activation.name == "tanh"
    assert any("sigmoid" in ambiguity for ambiguity in result.ambiguities)
    assert np.abs(result.network(X) - truth(X)).max() < 1e-11


def left_by(activation: Activation, units: pn.Network, X: Array, y: Array) -> float:
    """What least squares leaves from the true units, of the labels' spread: a road of its own."""
    form = fitted_form(activation)
    theta = Parameters.of(units).theta
    tail = 1 if form.symmetry.value == "odd" else X.shape[1] + 1
    start = Parameters(theta, np.zeros((len(theta) + tail,)))
    fit = refine(ArraySource(X, y), start, form, spread=float(y.std()), iterations=200)
    return fit.rms / float(y.std())


@pytest.mark.parametrize("activation", ["tanh", "gelu", "silu"])
def test_the_runner_up_is_the_best_of_the_others_and_its_figure_is_true(activation: str) -> None:
    truth, X, y = problem(activation, 1)
    result = recovered(activation)
    left = {
        name: left_by(get_activation(name), truth, X, y) for name in TRIED if name != activation
    }
    best = min(left, key=lambda name: left[name])
    told = str(runner_up(result).measured).split()
    assert told[0] == best
    assert told[1:3] == ["with", "5"]
    # Fitted to nine samples in ten, from other starts: some percent.
    assert float(told[5]) == pytest.approx(left[best], rel=0.2)


@pytest.mark.parametrize("activation", ["tanh", "softplus", "abs"])
def test_noise_leaves_the_right_one_or_a_doubt(activation: str) -> None:
    truth, X, y = problem(activation, 3, units=3, samples=1500, noise=0.01)
    result = pn.recover(X, y, activation="auto", rng=3)
    assert result.network is not None
    if result.success:
        assert result.network.activation.family == activation
        assert runner_up(result).holds
        assert result.network.units == truth.units
    else:
        assert any("told apart" in ambiguity for ambiguity in result.ambiguities)


def test_activations_that_noise_hides_are_not_told_apart() -> None:
    """GELU and its approximation by tanh differ by 1e-4 of the labels, noise is 0.05 of them."""
    _, X, y = problem("gelu", 2, units=3, samples=800, noise=0.05)
    result = pn.recover(X, y, activation="auto", rng=2)
    assert not result.success
    assert not runner_up(result).holds
    doubt = next(text for text in result.ambiguities if "told apart" in text)
    assert "gelu" in doubt
    assert "gelu_tanh" in doubt


@pytest.mark.parametrize("kind", ["product", "noise"])
def test_what_is_no_network_is_no_success(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6))
    y = (X[:, 0] * X[:, 1] * X[:, 2]) ** 3 if kind == "product" else rng.standard_normal(400)
    assert not pn.recover(X, y, activation="auto", rng=1, budget=0.3).success


def found(*behind: float, unfinished: tuple[str, ...] = ()) -> FoundActivation:
    names: Iterator[str] = iter(("erf", "sin", "silu"))
    others = tuple(OtherActivation(next(names), 3, 1e-2, value) for value in behind)
    return FoundActivation(get_activation("tanh"), others, unfinished)


def test_a_runner_up_must_be_ruled_out() -> None:
    assert found(30.0, 50.0).no_other_does().holds
    check = found(3.0, 50.0).no_other_does()
    assert not check.holds
    assert check.otherwise is pn.Status.PARTIAL
    assert "erf" in check.advice
    assert (
        found(3.0, 4.0, 50.0).ambiguities[-1].startswith("tanh, erf and sin cannot be told apart")
    )
    assert "apart" not in " ".join(found(30.0).ambiguities)


def test_activations_that_were_not_fitted_are_not_ruled_out() -> None:
    for one in (found(unfinished=("erf", "sin")), found(30.0, unfinished=("sin",))):
        check = one.no_other_does()
        assert not check.holds
        assert "budget=" in check.advice
        assert "sin" in check.advice
        assert "sin" not in one.praise


def test_a_budget_that_is_used_up_is_not_a_success() -> None:
    _, X, y = problem("elu", 1)
    result = pn.recover(X, y, activation="auto", rng=1, budget=1e-3)
    assert not result.success


def test_a_width_that_is_asked_for_is_kept() -> None:
    truth, X, y = problem("silu", 4)
    result = pn.recover(X, y, activation="auto", units=5, rng=4)
    assert result.status is pn.Status.EXACT
    assert result.network is not None
    assert pn.parameter_error(result.network, truth) < 1e-8


def test_several_outputs() -> None:
    truth = pn.random_network(4, 8, outputs=3, activation="tanh", rng=5)
    X = np.random.default_rng(6).standard_normal((400, 8))
    result = pn.recover(X, truth(X), activation="auto", rng=7)
    assert result.status is pn.Status.EXACT
    assert result.network is not None
    assert pn.parameter_error(result.network, truth) < 1e-8


def test_methods_that_cannot_find_it_say_who_can() -> None:
    _, X, y = problem("relu", 1)
    for method in ("lifting", "landscape", "halfspaces", "even"):
        with pytest.raises(InvalidInput, match=r"cannot find the activation.*expand-prune"):
            pn.recover(X, y, activation="auto", method=method)


def test_a_network_has_no_open_activation() -> None:
    with pytest.raises(InvalidInput, match=r"'auto' is unknown: use one of relu, "):
        pn.random_network(3, 4, activation="auto")
    with pytest.raises(InvalidInput, match=r"'auto' is unknown: use one of relu, "):
        pn.Network(np.eye(2), np.zeros(2), np.ones(2), 0.0, "auto")


def test_the_estimator_takes_it() -> None:
    from provenet.estimators import NetworkRegressor

    _, X, y = problem("silu", 1)
    fitted = NetworkRegressor(activation="auto", random_state=0).fit(X, y)
    assert fitted.network_.activation.name == "silu"
    with pytest.raises(InvalidInput, match="name one in place"):
        NetworkRegressor(activation="auto", method="fit").fit(X, y)
