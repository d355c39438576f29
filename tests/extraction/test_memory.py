"""Questions are made in blocks: with many features no matrix of features by features is formed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import provenet as pn
from provenet.certify.answered import Answered
from provenet.certify.asked import conclude_traced
from provenet.certify.traced import TracedCandidate
from provenet.common.typing import Array
from provenet.extraction import questions, sharpen
from provenet.extraction.answers import Answers, row_keys
from provenet.extraction.box import Box
from provenet.extraction.confirming import searched_points
from provenet.extraction.gradients import measured_pieces
from provenet.extraction.segments import Segment
from provenet.extraction.units import Units

FEATURES = 1500
SQUARE = FEATURES**2 * 8
"""Bytes of a matrix of features by features: 18 MB."""
NET = pn.random_network(3, FEATURES, bias_scale=1.0, rng=0)
BOX = Box.of(None, None, FEATURES)


def peak(work: Callable[[], object]) -> int:
    """Bytes that were in use at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def ask(X: Array) -> Array:
    return NET(X)[:, None]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "NUMBERS_AT_ONCE", 2**17)  # a megabyte


def test_gradients_on_a_line_are_measured_in_blocks() -> None:
    rng = np.random.default_rng(0)
    X = BOX.sample(4, rng)
    direction = rng.standard_normal(FEATURES) / np.sqrt(FEATURES)
    line = Segment(X[0], direction, (-1.0, 1.0), 1.0)
    steps = np.full(4, 1e-6)
    used = peak(lambda: measured_pieces(ask, line, X, steps, BOX))
    assert used < SQUARE / 2  # four of them at once were 72 MB and more


def test_gradients_where_there_is_room_are_measured_in_blocks() -> None:
    rng = np.random.default_rng(0)
    nothing = np.zeros((1, FEATURES))
    units = Units(NET.weights, NET.biases, NET.output_weights[None], nothing, np.zeros(1))
    found = sharpen.Sharpened(units, np.full(3, 1e-9))
    places = sharpen._places(found, BOX, rng, 1e-15)
    few = places[np.arange(min(4, len(places.X)))]
    assert len(few.X) == 4
    assert peak(lambda: sharpen._measured(ask, few)) < SQUARE / 2
    assert (
        peak(lambda: sharpen._places(found, BOX, rng, 1e-15)) < SQUARE
    )  # 2,000 places were 24 MB each


def test_gradients_in_blocks_are_the_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the blocks, and where they end."""
    net = pn.random_network(3, 7, outputs=2, rng=0)
    X, axes, along = np.random.default_rng(0).standard_normal((3, 4, 7))
    moves = np.concatenate(
        [np.zeros((4, 1, 7)), np.eye(7) * axes[:, :, None], along[:, None, :]], axis=1
    )
    whole = net((X[:, None, :] + moves).reshape(-1, 7)).reshape(4, 9, 2)
    for numbers in (1, 10, 35, 50, 10**6):
        monkeypatch.setattr(questions, "NUMBERS_AT_ONCE", numbers)
        found = questions.ask_gradients(net, X, axes, along)
        np.testing.assert_allclose(found, whole, rtol=1e-13)
        without = questions.ask_gradients(net, X, axes)
        np.testing.assert_allclose(without, whole[:, :-1], rtol=1e-13)


def test_searched_points_are_compared_in_blocks() -> None:
    """All 4,000 together were 48 MB."""
    points = searched_points(NET, BOX, np.random.default_rng(0))
    used = peak(lambda: searched_points(NET, BOX, np.random.default_rng(0)))
    assert used < SQUARE and len(points) > 60


def test_extremes_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    net, box = pn.random_network(3, 5, rng=0), Box.of(None, None, 5)
    monkeypatch.setattr(questions, "NUMBERS_AT_ONCE", 2**22)
    whole = searched_points(net, box, np.random.default_rng(0))
    monkeypatch.setattr(questions, "NUMBERS_AT_ONCE", 501)
    parts = searched_points(net, box, np.random.default_rng(0))
    assert set(map(tuple, whole)) == set(map(tuple, parts))


def test_the_judge_forms_no_square_either() -> None:
    rng = np.random.default_rng(0)
    X, kink_of = rng.standard_normal((160, FEATURES)), np.array([0, 1, 2, 0, 1])
    points = Answered(X, NET(X))
    few = points[np.arange(5)]
    candidate = TracedCandidate(
        NET.canonical(), few, points, "inputs", few, few, few, kink_of, 1e-11, (3,), True, 100
    )
    assert conclude_traced(candidate).status is pn.Status.EXACT
    assert peak(lambda: conclude_traced(candidate)) < SQUARE


def test_an_answer_takes_little_room() -> None:
    """A million points would take some 250 MB; objects of their own took twice that."""
    points = np.arange(20_000.0)[:, None]
    keys, values = row_keys(points), points.copy()

    def remember() -> Answers:
        answers = Answers()
        for key, value in zip(keys, values, strict=True):
            answers.add(key, value)
            answers.hand_out((key, 0))
        return answers

    assert peak(remember) / len(points) < 300
