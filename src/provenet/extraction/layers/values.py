"""Weights and units of the last hidden layer that no kink has told, from answers.

Where the other units are known, `f = A relu(z) + L h + c` tells the value of unit i: what is left
of the answer, along A_i. With weights w that are missing it is

    relu(z_i + w.h) - m.h,

where m is what least squares has put into L: nothing where the unit is mostly off, all of w where
it is mostly on. In the first case a value that is not zero tells `z_i + w.h`; in the second one
that is not z_i tells `-w.h`. One equation an answer: units that are seldom on together need no walk
to where they are, and cells in which units depend on each other tell as much as others.

A unit that is missing altogether is seldom on: what is left of the answers is `A_i (w.h + b)` where
it is, and nothing elsewhere (`rest_of_answers`). As many of those as there are weights tell it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.layers.known import KnownLayers
from provenet.extraction.layers.rows import Row
from provenet.extraction.layers.tolerances import (
    CELLS_TO_TELL,
    MOST_RESTS,
    NEAREST_A_WEIGHT,
    NEEDLESS,
    NOT_ZERO,
    RANK_OF_REST,
    REST_KNOWN,
    SPARE_REST,
    VALUES_AGREE,
)
from provenet.extraction.layers.top import TopFit
from provenet.extraction.tolerances import TINIEST


def told_by_values(
    known: KnownLayers, rows: list[Row], fit: TopFit, U: Array, Y: Array
) -> list[Row]:
    """The rows, wider by columns that answers tell where a fit explains most of them."""
    answers = _UnitValues.of(known, rows, fit, U, Y)
    return [_wider(answers, i, row) for i, row in enumerate(rows)]


def rest_of_answers(
    known: KnownLayers, rows: list[Row], fit: TopFit, U: Array, Y: Array
) -> Row | None:
    """The unit that makes what rows leave of the answers; None if no single one does.

    Where several are missing, one may make what is left about some point.
    """
    U, Y = U[~fit.explained], Y[~fit.explained]
    H, left = known.h(U), _UnitValues.of(known, rows, fit, U, Y).left
    starts = np.arange(0, len(U), 1 + len(U) // MOST_RESTS).tolist()
    for start in (None, *starts):
        near = _nearest(U, start, NEAREST_A_WEIGHT * H.shape[1])
        row = _linear_rest(H[near], left[near], U[near])
        if row is not None:
            return row
    return None


def _nearest(U: Array, start: int | None, number: int) -> AnyArray:
    """Numbers of the points nearest to one; of all points where that is not given."""
    if start is None:
        return np.arange(len(U))
    return np.argsort(np.linalg.norm(U - U[start], axis=1))[:number]


def _linear_rest(H: Array, left: Array, U: Array) -> Row | None:
    """The row of a unit that is on at points, from what it makes there; None if it does not."""
    cols = np.asarray((H > 0).any(axis=0))
    system = np.column_stack([H[:, cols], np.ones(len(H))])
    if not cols.any() or len(H) < system.shape[1] + SPARE_REST:
        return None
    scale = np.linalg.norm(system, axis=0)
    outer, size, inner = np.linalg.svd(system / scale, full_matrices=False)
    if size[-1] <= RANK_OF_REST * size[0]:
        return None
    told = (inner.T / size) @ (outer.T @ left) / scale[:, None]
    error = float(np.abs(system @ told - left).max())
    rows, jump, _ = np.linalg.svd(told, full_matrices=False)
    if error > VALUES_AGREE * float(np.abs(left).max()) or jump[1:].sum() > NOT_ZERO * jump[0]:
        return None
    v, errors = np.zeros(H.shape[1] + 1), np.zeros(H.shape[1] + 1)
    entries = np.append(cols, True)
    v[entries], errors[entries] = rows[:, 0], error / (jump[0] * size[-1] * scale)
    place = U[int(np.argmin(np.abs(left).max(axis=1)))]
    row = Row(v, cols, errors + TINIEST, place)
    return row if row.error <= REST_KNOWN else None


@dataclass(frozen=True)
class _UnitValues:
    """What a fit says at all points, with rows of norm 1."""

    H: Array
    units: Array
    left: Array
    A: Array
    hidden: AnyArray
    """(points, rows, columns): weights that matter there and are missing."""

    @classmethod
    def of(
        cls, known: KnownLayers, rows: list[Row], fit: TopFit, U: Array, Y: Array
    ) -> _UnitValues:
        H = known.h(U)
        v = np.array([row.v / np.linalg.norm(row.v[:-1]) for row in rows])
        Z = H @ v[:, :-1].T + v[:, -1]
        cols = np.array([row.cols for row in rows])
        size = np.linalg.norm(fit.A, axis=1)
        counts = size > NEEDLESS * size.max()
        hidden = (H > 0)[:, None, :] & (~cols & counts[:, None])[None]
        left = Y - np.maximum(Z, 0.0) @ fit.A - H @ fit.L - fit.c
        return cls(H, Z, left, fit.A, hidden)

    def alone(self, i: int, j: int) -> AnyArray:
        """Where weight j of row i is the only one that is missing."""
        return np.asarray(self.hidden[:, i, j] & (self.hidden.sum(axis=(1, 2)) == 1))

    def value(self, i: int, points: AnyArray) -> Array:
        """Of unit i, less what L has taken."""
        A = self.A[i]
        along = self.left[points] @ A / (A @ A)
        return np.asarray(along + np.maximum(self.units[points, i], 0.0))


def _wider(answers: _UnitValues, i: int, row: Row) -> Row:
    """A row with every weight that answers tell by themselves."""
    size = float(np.linalg.norm(row.v[:-1]))
    v, errors, cols = row.v.copy(), row.errors.copy(), row.cols.copy()
    for j in np.flatnonzero(~row.cols):
        points = answers.alone(i, int(j))
        told = _weight(
            answers.H[points], int(j), answers.units[points, i], answers.value(i, points)
        )
        if told is not None:
            v[j], errors[j], cols[j] = size * told[0], size * told[1], True
    return replace(row, v=v, errors=errors, cols=cols)


def _weight(H: Array, j: int, z: Array, value: Array) -> tuple[float, float] | None:
    """The weight that most answers agree on, in several cells, and their spread; or None."""
    h = H[:, j]
    least = NOT_ZERO * float(np.median(np.abs(z) + h)) + TINIEST if len(h) else 0.0
    tell = (np.abs(value) > least) & (np.abs(value - z) > least)
    for w in (((value - z) / h)[tell], (-value / h)[tell]):
        order = np.argsort(w)
        w, cells = w[order], (H[tell] > 0)[order]
        last = np.searchsorted(w, w + VALUES_AGREE * (np.abs(w) + least), side="right")
        first = int(np.argmax(last - np.arange(len(w)))) if len(w) else 0
        agree = slice(first, last[first] if len(w) else 0)
        if len(w[agree]) > len(w) / 2 and len(np.unique(cells[agree], axis=0)) >= CELLS_TO_TELL:
            return float(np.median(w[agree])), float(np.ptp(w[agree])) + TINIEST
    return None
