"""Exact labels that say which units are on: parallel ones, and equal ones.

A label `y = sum_i a_i h_i` with one unit on is a multiple of that unit's output weights; labels
with several units on have directions of their own. Equal directions are found by sorting, not by
comparing all pairs: directions are projected on a random vector, and neighbours in the sorted order
that agree in all coordinates form a line. Time n log n, memory a copy of the labels.

Where no unit is on, the label is the output bias c itself, whatever the input. Any other label is
that of one input, but for chance: it moves with the input.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array


@dataclass(frozen=True)
class LabelLine:
    """A direction (unit vector) and the samples whose labels lie along it, with their multiples."""

    direction: Array
    samples: AnyArray
    multiples: Array

    @property
    def both_ways(self) -> bool:
        """Whether labels lie on both sides of zero."""
        return bool(self.multiples.min() < 0 < self.multiples.max())


def label_lines(
    Y: Array, fewest: int, rng: np.random.Generator, same: float = 1e-12
) -> list[LabelLine]:
    """The lines that hold at least `fewest` labels, the fullest first (zero labels left out).

    Directions within `same` of each other count as equal.
    """
    size = np.linalg.norm(Y, axis=1)
    rows = np.flatnonzero(size > 1e-12 * size.max()) if len(Y) else np.empty(0, dtype=int)
    V = Y[rows] / size[rows, None]
    towards = rng.standard_normal(Y.shape[1])
    V *= np.where(V @ towards < 0, -1.0, 1.0)[:, None]  # a line has two directions
    across = rng.standard_normal(Y.shape[1])
    order = np.argsort(V @ across)
    V, rows = V[order], rows[order]
    new = np.abs(np.diff(V, axis=0)).max(axis=1) > same
    starts = np.concatenate([[0], np.flatnonzero(new) + 1, [len(V)]])
    lengths = np.diff(starts)
    lines = []
    for i in np.flatnonzero(lengths >= fewest)[np.argsort(-lengths[lengths >= fewest])]:
        own = slice(starts[i], starts[i + 1])
        direction = V[own].mean(axis=0)
        direction /= np.linalg.norm(direction)
        # Noise makes chains: each label near the next, but not all near each other.
        if np.abs(V[own] - direction).max() < 10 * same:
            lines.append(LabelLine(direction, rows[own], Y[rows[own]] @ direction))
    return lines


def distinct_samples(X: Array, Y: Array) -> tuple[Array, Array]:
    """The samples without repetitions, in their order: one given twice says no more than once."""
    _, first = np.unique(np.column_stack([X, Y]), axis=0, return_index=True)
    if len(first) == len(X):
        return X, Y
    kept = np.sort(first)
    return X[kept], Y[kept]


def shared_label(Y: Array) -> Array:
    """The label (outputs,) that most distinct samples share; 0 if no two do."""
    labels, counts = np.unique(Y + 0.0, axis=0, return_counts=True)
    most = int(np.argmax(counts)) if len(Y) else 0
    return np.array(labels[most]) if len(Y) and counts[most] > 1 else np.zeros(Y.shape[1])


def with_constant(X: Array) -> Array:
    """Inputs with a constant feature at the end, whose weights are the biases."""
    return np.column_stack([X, np.ones(len(X))])
