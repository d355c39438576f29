"""A function that may be asked: Gaussian inputs of its own, no question asked twice."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import provenet as pn
from helpers import is_a_sentence
from provenet.common.typing import Array
from provenet.moments.estimation import estimate_moments
from provenet.moments.sums import MomentRequest


class Oracle:
    """A network that keeps every input it was asked about."""

    def __init__(self) -> None:
        self.network = pn.random_network(2, 3, rng=0)
        self.asked: list[Array] = []

    def __call__(self, X: Array) -> Array:
        self.asked.append(X.copy())
        return self.network(X)


def test_nothing_is_asked_before_it_is_needed_and_nothing_twice() -> None:
    oracle = Oracle()
    source = pn.QuerySource(oracle, 3, 10_000, rng=1)
    assert source.queries == 0
    source.rows(0, 100)
    assert source.queries == 100
    request = MomentRequest(source.standardisation(), 3)
    first = estimate_moments(source, request)
    second = estimate_moments(source, request)
    for a, b in zip(first.tensors, second.tensors, strict=True):
        np.testing.assert_array_equal(a, b)
    asked = np.concatenate(oracle.asked)
    assert source.queries == len(asked) == len(np.unique(asked, axis=0)) == 10_000


SHARED = pn.QuerySource(Oracle(), 3, 9000, rng=2)
WHOLE = SHARED.rows(0, 9000)


@given(st.integers(0, 8999), st.integers(1, 9000))
def test_any_rows_are_the_same_rows(start: int, length: int) -> None:
    stop = min(start + length, 9000)
    X, y = SHARED.rows(start, stop)
    np.testing.assert_array_equal(X, WHOLE[0][start:stop])
    np.testing.assert_array_equal(y, WHOLE[1][start:stop])


def test_answers_belong_to_their_inputs() -> None:
    X, y = WHOLE
    np.testing.assert_allclose(y, pn.random_network(2, 3, rng=0)(X), rtol=0, atol=1e-14)


def test_inputs_are_standard_normal() -> None:
    X, n = WHOLE[0], len(WHOLE[0])
    # Five standard errors of a mean and of a covariance.
    assert np.abs(X.mean(axis=0)).max() < 5 / np.sqrt(n)
    assert np.abs(X.T @ X / n - np.eye(3)).max() < 5 * np.sqrt(2 / n)
    assert len(np.unique(X[:, 0])) == n


def test_draws_are_fresh_counted_and_checked() -> None:
    oracle = Oracle()
    source = pn.QuerySource(oracle, 3, 100, rng=1)
    drawn = source.draw(10_000, np.random.default_rng(3))
    X, y = drawn.X, drawn.y
    assert drawn.rows is None  # none of the source's own
    assert source.queries == 10_000 and X.shape == (10_000, 3)
    np.testing.assert_allclose(y, oracle.network(X), rtol=0, atol=1e-14)
    kept = source.rows(0, 100)[0]
    assert not np.isin(kept[:, 0], X[:, 0]).any() and source.queries == 10_100


def test_the_same_seed_asks_the_same() -> None:
    first, second, other = (
        pn.QuerySource(Oracle(), 3, 50, rng=seed).rows(0, 50) for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])
    assert not np.isin(other[0], first[0]).any()


def test_the_function_is_never_called_by_two_threads_at_once() -> None:
    busy = threading.Lock()

    def function(X: Array) -> Array:
        assert busy.acquire(blocking=False)
        time.sleep(0.002)
        busy.release()
        return X[:, 0]

    source = pn.QuerySource(function, 2, 40_000, rng=0)
    assert source.total(lambda X, y: len(y), rows=1000) == source.queries == 40_000


def test_answers_of_the_wrong_shape() -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.QuerySource(lambda X: X, 3, 10).rows(0, 10)
    is_a_sentence(error, "(10, 3)", "(10,)")
    with pytest.raises(pn.InvalidInput) as error:
        pn.QuerySource(lambda X: 1.0, 3, 10).rows(0, 10)
    is_a_sentence(error, "()", "(10,)")


@pytest.mark.parametrize("answer", [np.nan, np.inf])
def test_answers_that_are_not_finite(answer: float) -> None:
    source = pn.QuerySource(lambda X: np.where(np.arange(len(X)) == 3, answer, 1.0), 2, 10, rng=0)
    with pytest.raises(pn.InvalidInput) as error:
        source.rows(0, 10)
    asked = pn.QuerySource(lambda X: X[:, 0], 2, 10, rng=0).rows(0, 10)[0][3]
    is_a_sentence(error, str(answer), str(asked.tolist()), "finite")


def test_an_error_of_the_function_comes_through() -> None:
    def function(X: Array) -> Array:
        raise ConnectionError("the model is away")

    source = pn.QuerySource(function, 2, 10_000)
    with pytest.raises(ConnectionError, match="away"):
        source.standardisation()


@pytest.mark.parametrize(("features", "samples"), [(0, 10), (3, 0), (-1, 10)])
def test_bad_sizes(features: int, samples: int) -> None:
    with pytest.raises(pn.InvalidInput) as error:
        pn.QuerySource(Oracle(), features, samples)
    is_a_sentence(error, "at least one")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda X: np.array(["a"] * len(X)), "not values of str_"),
        (lambda X: ["1.0"] * len(X), "not values of str:"),
        (lambda X: None, "not None"),
        (lambda X: [object()] * len(X), "not values of object"),
        (lambda X: X[:, 0] * 1j, "not values of complex128"),
        (lambda X: [[1.0]] * (len(X) - 1) + [[1.0, 2.0]], "not rows of different lengths"),
        (lambda X: X, "with shape"),
        (lambda X: 1.0, "with shape"),
    ],
)
def test_answers_that_are_no_numbers_are_named(answer, words):
    with pytest.raises(pn.InvalidInput, match=words):
        pn.recover(pn.QuerySource(answer, 3, 500, rng=0))
