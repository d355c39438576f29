"""Models that round their inputs, around networks that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.common.typing import Array
from provenet.extraction.oracle import open_oracle
from provenet.extraction.precision import notice_precision

NET = pn.random_network(4, 6, rng=0).replace(output_bias=0.25)
W, b, A = (np.float32(part) for part in (NET.weights, NET.biases, NET.output_weights))


def single(X: Array) -> Any:
    """The network as a model of single precision computes it."""
    return np.maximum(X.astype(np.float32) @ W.T + b, 0) @ A + np.float32(0.25)


SINGLE: dict[str, Callable[[Array], Any]] = {
    "single precision": single,
    "plain numbers": lambda X: single(X).tolist(),
    "inputs alone": lambda X: NET(X.astype(np.float32).astype(float)),
    "probabilities": lambda X: 1 / (1 + np.exp(-single(X).astype(float))),
}
OTHERS: dict[str, Callable[[Array], Any]] = {
    "double precision": NET,
    "answers of few decimals": lambda X: np.round(NET(X), 4),
    "answers of six decimals": lambda X: np.round(NET(X), 6),
    "a constant": lambda X: np.ones(len(X)),
    "classes": lambda X: NET(X) > 0,
    "noise": lambda X: single(X) + np.random.default_rng().standard_normal(len(X)),
}


@pytest.mark.parametrize("kind", SINGLE)
def test_rounded_inputs_are_noticed(kind: str) -> None:
    oracle = open_oracle(SINGLE[kind], 6)
    notice_precision(oracle)
    assert oracle.input_dtype == np.float32
    X = np.random.default_rng(0).standard_normal((5, 6))
    np.testing.assert_array_equal(oracle.ask(X), oracle.ask(oracle.as_asked(X)))


@pytest.mark.parametrize("kind", OTHERS)
def test_others_are_asked_as_they_are(kind: str) -> None:
    oracle = open_oracle(OTHERS[kind], 6)
    notice_precision(oracle)
    assert oracle.input_dtype == np.float64


def test_an_ordinary_model_is_asked_two_questions() -> None:
    oracle = open_oracle(NET, 6)
    notice_precision(oracle)
    assert oracle.queries == 2


def test_a_box_stays_a_box() -> None:
    """Its limits are none of single precision: they are rounded inwards."""
    asked: list[Array] = []

    def f(X: Array) -> Any:
        asked.append(X)
        return single(X)

    oracle = open_oracle(f, 6, low=0.1, high=0.3)
    notice_precision(oracle)
    oracle.ask(np.vstack([oracle.low, oracle.high]))
    X = np.vstack(asked)
    assert oracle.input_dtype == np.float32 and X.min() >= 0.1 and X.max() <= 0.3


def test_inputs_that_single_precision_does_not_tell_apart() -> None:
    """Seconds since 1970 within a minute: steps of single precision are two minutes."""
    oracle = open_oracle(lambda X: X[:, 0] - 1.7e9, 1, low=1.7e9, high=1.7e9 + 60)
    notice_precision(oracle)
    assert oracle.input_dtype == np.float64


@pytest.mark.parametrize("kind", ["plain numbers", "inputs alone"])
def test_such_a_model_is_extracted(kind: str) -> None:
    """Errors of 20 roundings: of 20 networks the worst had 6."""
    result = pn.extract(SINGLE[kind], 6, rng=0)
    assert result.success, result.message
    assert pn.parameter_error(result.network, NET) < 20 * np.finfo(np.float32).eps
