"""What exact labels say of an output bias: different inputs with one label have no unit on.

Where no unit is on, the label is the output bias c itself. Any other label is that of one input,
but for chance: it moves with the input.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array


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
