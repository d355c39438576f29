"""`extract` of smooth units: random questions, few of them, and never a success that is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.extraction.box import Box
from provenet.extraction.confirming import few_searched_points

FEATURES = 6
NET = pn.random_network(3, FEATURES, activation="tanh", rng=1).replace(output_bias=0.3)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "gelu", "elu", "sin"])
def test_smooth_units_are_exact(activation: str) -> None:
    net = pn.random_network(3, FEATURES, activation=activation, rng=1).replace(output_bias=0.3)
    result = pn.extract(net, FEATURES, activation=activation, rng=0)
    assert result.status is pn.Status.EXACT and result.message.startswith("The answers bend")
    assert pn.parameter_error(result.network, net) < 1e-10  # about 1e-14
    # 25 parameters; 69 queries are for probes and for points that may refute the answer.
    assert result.queries is not None and result.queries <= 8 * net.free_parameters + 69


def test_an_activation_of_ones_own() -> None:
    bump = pn.Activation(
        "bump", lambda z: np.exp(-z * z), lambda z: -2 * z * np.exp(-z * z), symmetry="even",
        kinked=False,
    )  # fmt: skip
    net = pn.random_network(2, 4, activation=bump, rng=0)
    result = pn.extract(net, 4, activation=bump, rng=0)
    assert result.status is pn.Status.EXACT and pn.parameter_error(result.network, net) < 1e-10


def test_no_question_leaves_the_box_and_none_is_asked_in_vain() -> None:
    asked: list[Array] = []

    def kept(X: Array) -> Array:
        asked.append(X.copy())
        assert np.abs(X).max() <= 2.0
        return NET(X)

    result = pn.extract(kept, FEATURES, activation="tanh", low=-2.0, high=2.0, rng=0)
    assert result.status is pn.Status.EXACT and pn.parameter_error(result.network, NET) < 1e-10
    # All but the three of the probe and the eight at the end are asked once.
    points = np.vstack(asked)
    assert len(points) - len(np.unique(points, axis=0)) == 3 + 8 == len(points) - unseen(points)


def unseen(points: Array) -> int:
    return len({x.tobytes() for x in points})


def test_several_outputs_take_fewer_questions() -> None:
    A = np.random.default_rng(0).standard_normal((4, 3))
    net = NET.replace(output_weights=A, output_bias=np.zeros(4))
    result = pn.extract(net, FEATURES, activation="tanh", units=3, rng=0)
    assert result.status is pn.Status.EXACT and pn.parameter_error(result.network, net) < 1e-10
    alone = pn.extract(NET, FEATURES, activation="tanh", units=3, rng=0).queries
    assert result.queries is not None and alone is not None and result.queries <= alone


def test_units_that_are_told_need_no_first_attempts() -> None:
    told = pn.extract(NET, FEATURES, activation="tanh", units=3, rng=0)
    assert told.status is pn.Status.EXACT and told.network is not None and told.network.units == 3


def limited(X: Array) -> Array:
    """The network but for its highest answers, at one input in a thousand."""
    many = np.random.default_rng(0).standard_normal((20_000, FEATURES))
    return np.asarray(np.minimum(NET(X), np.quantile(NET(many), 0.999)))


NO_NETWORKS: dict[str, Any] = {
    "products": lambda X: np.sin(X[:, 0] * X[:, 1]) + X[:, 2] ** 2,
    "two layers": lambda X: np.tanh(3 * np.tanh(X @ np.ones(FEATURES)) * np.tanh(X[:, 0])),
    "limited": limited,
}


@pytest.mark.parametrize("name", NO_NETWORKS)
def test_what_is_smooth_and_no_such_network_is_no_success(name: str) -> None:
    result = pn.extract(NO_NETWORKS[name], FEATURES, activation="tanh", seconds=1, rng=0)
    assert not result.success


def test_a_limit_on_the_answers_is_said() -> None:
    # Told the units, the first 62 points do, none of which meets the limit.
    result = pn.extract(limited, FEATURES, activation="tanh", units=3, rng=0)
    assert result.status is pn.Status.FAILED and "a network at most inputs only" in result.message


def test_few_searched_points_begin_with_the_extreme_answers() -> None:
    box = Box.of(None, None, FEATURES)
    X = few_searched_points(NET, box, np.random.default_rng(0), 30)
    y, typical = NET(X), NET(box.sample(1000, np.random.default_rng(1)))
    assert len(X) == 30
    assert sorted([y[:2].min() < np.quantile(typical, 0.01), y[:2].max() > typical.max() - 0.1])[0]


def test_another_activation_is_no_success() -> None:
    """Answers are exact: what GELU units leave of a few tanh units is no noise."""
    result = pn.extract(NET, FEATURES, activation="gelu", seconds=1, rng=0)
    assert not result.success


class Changing:
    """A model that is another after so many questions."""

    def __init__(self, after: int) -> None:
        self.after, self.asked = after, 0

    def __call__(self, X: Array) -> Array:
        self.asked += len(X)
        return NET(X) if self.asked <= self.after else 1.001 * NET(X)


def test_a_model_that_changes_is_never_exact() -> None:
    alone = pn.extract(NET, FEATURES, activation="tanh", units=3, rng=0).queries
    # The first attempt does, whatever the clock: 62 points, 8 asked again, 20 searched ones.
    assert alone == 123
    for after in (alone - 28, alone - 20, alone - 1):
        result = pn.extract(Changing(after), FEATURES, activation="tanh", units=3, seconds=2, rng=0)
        assert not result.success


@pytest.mark.parametrize("budget", [3, 40, 75])
def test_a_budget_is_kept(budget: int) -> None:
    result = pn.extract(NET, FEATURES, activation="tanh", units=3, budget=budget, rng=0)
    assert not result.success and "budget" in result.message
    assert result.queries is not None and result.queries <= budget


def test_a_smooth_model_is_no_network_of_kinked_units_and_says_how_to_go_on() -> None:
    result = pn.extract(NET, FEATURES, activation="relu", rng=0)
    assert result.status is pn.Status.FAILED and "leave it out to find them" in result.message


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_an_activation_that_is_not_named_is_found(activation: str) -> None:
    net = pn.random_network(3, FEATURES, activation=activation, rng=1)
    result = pn.extract(net, FEATURES, rng=0)
    assert result.status is pn.Status.EXACT and result.network.activation.name == activation
    assert pn.parameter_error(result.network, net) < 1e-10


def test_bad_activations() -> None:
    with pytest.raises(pn.InvalidInput, match="'swish' is unknown"):
        pn.extract(NET, FEATURES, activation="swish")
    with pytest.raises(pn.InvalidInput, match="not 'step'"):
        pn.extract(NET, FEATURES, activation="step")
