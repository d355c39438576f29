"""Which of (w, t) and (-w, -t) a unit is.

With steps, `X_i` and `1 - X_i` serve equally well under a suitable top: the two are the same unit,
and the one with t > 0 is taken. With ReLUs the right one is told by polynomials of the units alone.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.lowest_layer.faces.model import solved
from provenet.lowest_layer.faces.tolerances import (
    CLEARLY_ORIENTED,
    CLEARLY_POSITIVE,
    MOST_ORIENTED,
    ORIENTATION_ROWS,
)
from provenet.networks.activations import Activation
from provenet.networks.hermite import hermite_rows


def oriented_steps(T: Array, errors: Array, heights: Array) -> tuple[Array, AnyArray]:
    """Signs that make thresholds positive, or heights where that is not clear; and where it is."""
    clear = np.abs(T) > CLEARLY_POSITIVE * errors
    return np.where(clear, np.sign(T), np.where(heights < 0, -1.0, 1.0)), clear


def orientation_of_relus(
    X: Array, y: Array, W: Array, T: Array, activation: Activation
) -> tuple[Array, AnyArray]:
    """Signs of the units for which a polynomial of their values alone explains the labels best."""
    k = len(W)
    sign, oriented = np.where(T < 0, -1.0, 1.0), np.zeros(k, dtype=bool)
    if k == 0 or k > MOST_ORIENTED:
        return sign, oriented
    U, y = X[:ORIENTATION_ROWS] @ W.T - T, y[:ORIENTATION_ROWS]
    squares = {
        signs: _top_residual(activation(U * np.array(signs)), y) ** 2
        for signs in product((1.0, -1.0), repeat=k)
    }
    means = {signs: float(np.mean(square)) for signs, square in squares.items()}
    best = min(means, key=lambda signs: means[signs])
    for i in range(k):
        other = min((s for s in means if s[i] != best[i]), key=lambda signs: means[signs])
        error = float(np.std(squares[other] - squares[best])) / np.sqrt(len(y))
        clear = (
            means[other] - means[best] > CLEARLY_ORIENTED * error
            or means[best] < 1e-6 * means[other]
        )
        oriented[i] = clear and means[best] < 0.9 * means[other]
    return np.where(oriented, best, sign), oriented


def _top_residual(U: Array, y: Array) -> Array:
    M = hermite_rows(U, min(max(U.shape[1], 3), 4))
    return np.asarray(y - solved(M @ M.T, M @ y) @ M)
