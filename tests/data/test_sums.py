"""Sums add field by field, and come back from paper to the last bit."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from provenet.common.typing import Array
from provenet.data.sources import ArraySource
from provenet.data.sums import Sums, read_back, written
from provenet.moments.sums import MomentRequest, MomentSums


@dataclass(frozen=True)
class Example(Sums):
    n: int
    rss: float
    parts: tuple[Array, ...]


A = Example(2, 0.1, (np.ones(2), np.array(0.3)))
B = Example(3, 0.2, (np.arange(2.0), np.array(1e-17)))


def test_addition_is_by_field_and_inside_tuples() -> None:
    total = A + B
    assert (total.n, total.rss) == (5, 0.1 + 0.2)
    np.testing.assert_array_equal(total.parts[0], [1.0, 2.0])
    assert total.parts[1] == 0.3 + 1e-17


def through_json(total: object) -> object:
    arrays: list[Array] = []
    sketch = json.loads(json.dumps(written(total, arrays)))
    return read_back(sketch, arrays)


def test_moment_sums_survive_being_written_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((500, 3)), rng.standard_normal(500)
    request = MomentRequest(ArraySource(X, y).standardisation(), 4)
    sums = MomentSums.of(request, X, y)
    back = through_json(sums)
    assert isinstance(back, MomentSums) and back.n == 500
    for a, b in zip(sums.raw, back.raw, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(sums.squares, back.squares)


def test_numbers_and_tuples_survive_too() -> None:
    assert through_json((1, 0.1, 2.5)) == (1, 0.1, 2.5)


def test_what_is_no_sum_is_refused() -> None:
    with pytest.raises(TypeError, match="list cannot be written"):
        written([1, 2], [])
    with pytest.raises(KeyError):
        read_back({"sums": "Unheard", "fields": []}, [])
