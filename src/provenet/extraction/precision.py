"""Models that round their inputs to single precision, though they take and give double.

A function around a model of single precision often does: it turns its inputs into that model's, and
the answers into plain numbers. Questions that differ by less than such rounding have one answer,
and each is an answer to a slightly other question. So questions are rounded before they are asked,
once that is seen: answers to points of double precision and to those points rounded are the same,
those to points a few such roundings away are not, and it is not their own few decimals that hide
the difference. An ordinary model shows with two questions that it is none of these.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.box import Box
from provenet.extraction.oracle import Oracle
from provenet.extraction.probing import grid_of
from provenet.extraction.tolerances import GOLDEN, MOVED_ANSWERS, MOVED_BY, ROUNDED_PLACES


def notice_precision(oracle: Oracle) -> None:
    """Ask in single precision from here on, if the model rounds its inputs to it."""
    if oracle.input_dtype != np.float64:
        return
    box = Box.of(oracle.low, oracle.high, oracle.features)
    X = _places(box, ROUNDED_PLACES)
    rounded = X.astype(np.float32).astype(float)
    moved = rounded + MOVED_BY * np.spacing(np.abs(X).astype(np.float32))
    if not (box.contains(rounded) & box.contains(moved)).all():
        return  # single precision is too coarse for these inputs
    if _differ(oracle, X[:1], rounded[:1]).any() or _differ(oracle, X, rounded).any():
        return
    changes = _differ(oracle, rounded, moved).mean() >= MOVED_ANSWERS
    if changes and not grid_of(oracle.ask(np.vstack([rounded, moved]))).step:
        oracle.ask_in(np.dtype(np.float32))


def _places(box: Box, number: int) -> Array:
    """Different points about the middle, always the same: multiples of the golden ratio."""
    multiples = GOLDEN * np.arange(1, 1 + number * len(box.centre)).reshape(number, -1)
    return np.asarray(box.centre + box.width * (2 * np.modf(multiples)[0] - 1))


def _differ(oracle: Oracle, X: Array, other: Array) -> Array:
    """At which places answers are not the same, to the last bit."""
    y = oracle.ask(np.vstack([X, other])).reshape(2, len(X), -1)
    return np.asarray((y[0] != y[1]).any(axis=1))
