"""Kinks along a line, against those of a network that is known."""

from __future__ import annotations

import numpy as np
import pytest

import provenet as pn
from provenet.extraction.lines import trace_line


@pytest.mark.parametrize("seed", range(5))
def test_all_kinks_on_a_line_are_found(seed: int) -> None:
    """A unit's kink is where `w.(origin + t direction) + b = 0`."""
    rng = np.random.default_rng(seed)
    net = pn.random_network(12, 8, bias_scale=1.5, rng=rng)
    origin, direction = 0.01 * rng.standard_normal(8), rng.standard_normal(8)
    direction /= np.linalg.norm(direction)
    expected = np.sort(-(net.weights @ origin + net.biases) / (net.weights @ direction))
    trace = trace_line(lambda X: net(X)[:, None], origin, direction, (-1e5, 1e5), 0.3)
    assert trace.complete
    # Tangents are measured over 2e-5 of the room, so that 1e-16 / 2e-5 of the distance is lost.
    np.testing.assert_allclose(trace.kinks, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_kinks_that_are_expected_cost_two_questions_each(seed: int) -> None:
    """Some are expected, two wrongly: all are found, and no others; most of the questions are not
    asked."""
    rng = np.random.default_rng(seed)
    net = pn.random_network(20, 8, bias_scale=1.5, rng=rng)
    origin, direction = 0.01 * rng.standard_normal(8), rng.standard_normal(8)
    direction /= np.linalg.norm(direction)
    kinks = np.sort(-(net.weights @ origin + net.biases) / (net.weights @ direction))
    asked = [0, 0]

    def traced(number: int, expected: np.ndarray | None) -> np.ndarray:
        def ask(X: np.ndarray) -> np.ndarray:
            asked[number] += len(X)
            return net(X)[:, None]

        trace = trace_line(ask, origin, direction, (-1e5, 1e5), 0.3, expected=expected)
        assert trace.complete
        return trace.kinks

    known = np.concatenate([kinks[2:], kinks[2:4], rng.standard_normal(2)])
    np.testing.assert_allclose(traced(0, known), kinks, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(traced(1, None), kinks, rtol=1e-6, atol=1e-6)
    assert asked[0] < 0.75 * asked[1]


def test_a_straight_line_has_no_kinks() -> None:
    slope = np.arange(1.0, 4.0)
    trace = trace_line(
        lambda X: (X @ slope)[:, None], np.ones(3), np.array([1.0, 0.0, 0.0]), (-10.0, 10.0), 0.1
    )
    assert trace.complete and len(trace.kinks) == 0


def test_a_curve_ends_without_an_answer() -> None:
    asked = 0

    def curve(X: np.ndarray) -> np.ndarray:
        nonlocal asked
        asked += len(X)
        return np.sin(X[:, :1])

    trace = trace_line(curve, np.zeros(2), np.array([1.0, 0.0]), (-1e3, 1e3), 0.1)
    assert not trace.complete
    assert asked < 20_000


def test_a_place_where_tangents_meet_beyond_all_kinks_is_none() -> None:
    """What is left dips, and the last piece crosses zero at 3.43: there the tangents meet.

    Just before it the values differ from zero by the slope times a step, which must be long enough
    for values that are known to 1e-11 only.
    """

    def dip(X: np.ndarray) -> np.ndarray:
        return -0.0094 * np.maximum(X - 2.4, 0) + 0.0124 * np.maximum(X - 2.65, 0)

    trace = trace_line(dip, np.zeros(1), np.ones(1), (-1.5, 5.8), 0.3, 1e-11, 1e-11)
    np.testing.assert_allclose(trace.kinks, [2.4, 2.65], atol=1e-4)


def test_nothing_is_asked_beyond_the_ends() -> None:
    """Values known to 1e-6 take steps of a twentieth of the line: more than is left beside zero."""
    asked = []

    def bent(X: np.ndarray) -> np.ndarray:
        asked.append(X)
        return np.abs(X - 0.5)

    trace = trace_line(bent, np.zeros(1), np.ones(1), (-0.05, 1.0), 1.0, 1e-6)
    np.testing.assert_allclose(trace.kinks, [0.5], atol=1e-6)
    assert -0.05 <= np.vstack(asked).min() < np.vstack(asked).max() <= 1.0
