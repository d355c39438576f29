"""ReLU units exactly, from the samples on which a single one of them fires.

Beyond GP19: whatever the top P is, where unit i alone fires the label is `P(0, .., X_i, .., 0)`,
for a top of degree 1 in each variable `c_0 + c_i (w_i.x - t_i)`. That is linear in x, and without
noise a linear regression gives `w_i`, `t_i` and `c_i` to machine precision. Which samples these are
is not known, but directions within a few degrees tell most of them, and least absolute deviations
tell the rest: a line that explains more than half of the samples exactly is found exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.lowest_layer.tolerances import (
    ALONG,
    CLEAR_OF_OTHERS,
    EXACTLY_ON_A_LINE,
    LINE_FLOOR,
    LINE_REWEIGHTINGS,
    LINE_ROUNDS,
    LINE_SAMPLES,
    LINE_SAMPLES_A_PARAMETER,
    ON_A_LINE,
)


@dataclass(frozen=True)
class Exclusive:
    """Units fitted on the samples that only they explain."""

    weights: Array
    thresholds: Array
    coefficients: Array
    """`c_i`: the top's slope in each unit alone."""
    explained: AnyArray
    """How many samples each unit's line explains to rounding."""
    exact: AnyArray
    """Which units' lines explain more than half of their samples to rounding."""


def exclusive_units(X: Array, y: Array, weights: Array, thresholds: Array) -> Exclusive:
    """Refine units on samples that fire (their labels less `c_0`), from approximate ones.

    Memory: samples x units numbers.
    """
    W, t = weights.copy(), thresholds.copy()
    c, explained, exact = np.ones(len(W)), np.zeros(len(W), int), np.zeros(len(W), bool)
    for clear in np.linspace(*CLEAR_OF_OTHERS, LINE_ROUNDS):
        margins = X @ W.T - t
        for i in map(int, np.flatnonzero(~exact)):
            mine = _claimed_alone(margins, i, clear)
            if len(mine) < LINE_SAMPLES_A_PARAMETER * (X.shape[1] + 1):
                continue
            line = _exact_line(X[mine], y[mine])
            # The label may fall where the unit fires: its slope is along the weights either way.
            slope = np.copysign(np.linalg.norm(line.slope), line.slope @ W[i])
            if abs(line.slope @ W[i]) <= ALONG * abs(slope):
                continue
            W[i], t[i], c[i] = line.slope / slope, -line.constant / slope, slope
            explained[i], exact[i] = line.explained, line.explained > len(mine) / 2
    return Exclusive(W, t, c, explained, exact)


def _claimed_alone(margins: Array, i: int, clear: float) -> AnyArray:
    """Samples nearest to unit i's face among those from which all other units are clear."""
    others = np.delete(margins, i, axis=1)
    alone = np.flatnonzero(others.max(axis=1, initial=-np.inf) < -clear)
    order = np.argsort(-margins[alone, i], kind="stable")
    return np.asarray(alone[order[:LINE_SAMPLES]])


@dataclass(frozen=True)
class _UnitLine:
    slope: Array
    constant: float
    explained: int


def _exact_line(X: Array, y: Array) -> _UnitLine:
    """The line that most samples lie on: least absolute deviations, then least squares on those."""
    inputs = np.column_stack([X, np.ones(len(X))])
    size = float(np.abs(y).max())
    rest, on = y, np.zeros(len(y), dtype=bool)
    for _ in range(LINE_REWEIGHTINGS):
        weighted = inputs.T / np.maximum(np.abs(rest), LINE_FLOOR * size)
        beta = np.linalg.lstsq(weighted @ inputs, weighted @ y, rcond=None)[0]
        rest = inputs @ beta - y
        on = np.abs(rest) <= ON_A_LINE * size
        if on.sum() > len(y) / 2:
            break
    for tolerance in (
        ON_A_LINE,
        EXACTLY_ON_A_LINE,
    ):  # the rest is exact: no weights, and the last digits
        if on.sum() > inputs.shape[1]:
            beta = np.linalg.lstsq(inputs[on], y[on], rcond=None)[0]
            on = np.abs(inputs @ beta - y) <= tolerance * size
    return _UnitLine(np.asarray(beta[:-1], float), float(beta[-1]), int(on.sum()))
