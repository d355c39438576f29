"""Boxes whose sides differ by orders of magnitude, and outputs known less well than others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import provenet as pn
from provenet.certify.answered import Answered
from provenet.certify.asked import CAME_TO_ITS_END
from provenet.certify.checks import Check
from provenet.certify.result import Recovery
from provenet.common.typing import Array
from provenet.extract import _advised
from provenet.extraction.box import Box
from provenet.extraction.oracle import open_oracle
from provenet.extraction.scaled import BoxUnits

SCALE = np.array([1e-3, 1.0, 1e3, 0.1, 20.0])
LOW, HIGH = 5 * SCALE, 7 * SCALE


def in_raw_units(network: pn.Network) -> pn.Network:
    """A network of inputs about 6, a twentieth or a thousand times as large as usual."""
    weights = network.weights / SCALE
    return network.replace(weights=weights, biases=network.biases - weights @ (6 * SCALE))


@pytest.mark.parametrize("seed", [0, 1])
def test_networks_of_raw_data(seed: int) -> None:
    hidden = in_raw_units(pn.random_network(4, 5, bias_scale=0.3, rng=seed))
    result = pn.extract(hidden, low=LOW, high=HIGH, rng=1)
    assert result.success and "units of it" in result.message
    # Rounding of inputs of 6 to 6000 times what they differ by; of ten seeds the worst was 2e-11.
    assert pn.parameter_error(result.network, hidden) < 1e-8
    assert result.asked is not None
    inside = (result.asked.X >= LOW) & (result.asked.X <= HIGH)
    assert inside.all()
    np.testing.assert_allclose(hidden(result.asked.X), result.asked.y, rtol=1e-9, atol=1e-9)


def test_even_boxes_and_open_ones_are_asked_as_they_are() -> None:
    oracle = open_oracle(pn.random_network(2, 5, rng=0), None)
    assert BoxUnits.wanted(oracle, Box(LOW, HIGH)) is not None
    assert BoxUnits.wanted(oracle, Box(-np.ones(5), np.arange(1.0, 6.0))) is None
    assert BoxUnits.wanted(oracle, Box.of(LOW, None, 5)) is None


def log_odds(most: float) -> tuple[pn.Network, Any]:
    """A classifier whose log-odds reach 15 in one corner of its box, or a limit, as it answers.

    At 15 rounding leaves them known to 7e-10, in most other corners to 1e-12.
    """
    network = pn.random_network(5, 30, rng=0).replace(output_bias=0.0)
    corners = np.random.default_rng(0).choice([-1.0, 1.0], (4000, 30))
    highest = 0.0
    for sign in (-1.0, 1.0):
        x = corners[int(np.argmax(sign * network(corners)))]
        for _ in range(20):  # uphill from corner to corner
            on = network.weights @ x + network.biases > 0
            x = np.where(sign * (network.output_weights * on) @ network.weights > 0, 1.0, -1.0)
        highest = max(highest, sign * float(network(x[None])[0]))
    scale = 15 / highest
    network = network.replace(output_weights=scale * network.output_weights, link="logit")

    def answers(X: Array) -> Array:
        p = expit(np.clip(network(X), -most, most))
        return np.column_stack([1 - p, p])

    return network, answers


def test_probabilities_next_to_one_do_not_refute_a_classifier() -> None:
    hidden, answers = log_odds(np.inf)
    result = pn.extract(answers, features=30, low=-1, high=1, seconds=20, rng=1)
    # Log-odds are known to 1e-12 of their size and better where they are traced.
    assert result.success and pn.parameter_error(result.network, hidden) < 1e-8


def test_a_limit_on_log_odds_that_a_single_corner_shows_is_no_network() -> None:
    _, answers = log_odds(14.0)
    assert not pn.extract(answers, features=30, low=-1, high=1, seconds=20, rng=1).success


def test_doubts_stay_with_their_points() -> None:
    network = pn.Network([[1.0]], activation="abs")
    some = Answered(np.array([[1.0], [2.0]]), np.array([1.0, 2.1]), np.array([[0.0], [0.2]]))
    sure = Answered(np.array([[3.0]]), np.array([3.1]))
    both = some + sure
    assert both.explained_by(network, np.array([0.01])).tolist() == [True, True, False]
    assert both[np.array([1, 2])].explained_by(network, np.array([0.01])).tolist() == [True, False]
    assert (sure + sure).doubt is None


def test_who_finds_nothing_about_zero_is_told_of_boxes() -> None:
    everywhere, box = Box.of(None, None, 5), Box(LOW, HIGH)
    failed = replace(Recovery.nothing("lines", "No."), network=pn.random_network(2, 5, rng=0))
    assert _advised(failed, everywhere).message.endswith("with low= and high=.")
    stopped = replace(failed, checks=(Check(CAME_TO_ITS_END, False, "no", "yes", ""),))
    for result, place in ((failed, box), (stopped, everywhere)):
        assert _advised(result, place) is result
    nothing = Recovery.nothing("lines", "No.")
    assert _advised(nothing, everywhere) is nothing
