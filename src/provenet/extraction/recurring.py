"""Does a unit switch everywhere on its hyperplane, as it does in a network with one hidden layer?

There a unit adds `a relu(w.x + b)` wherever it is met: at any place of its hyperplane
`f(x + t w) - 2 f(x) + f(x - t w) = t a`, unless another hyperplane is nearer than t. In a deeper
network the jump of a first unit is another in every cell of the layers above, and the hyperplane of
a deeper one is a piece of a bent surface: elsewhere there is nothing. Three questions a place tell.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.questions import Ask
from provenet.extraction.tolerances import (
    KINK_TRIES,
    RECURRING_FURTHER,
    RECURRING_PLACES,
    RECURRING_STEP,
    RECURS,
    ROUNDING,
)
from provenet.extraction.units import Units


def recurs(
    ask: Ask, units: Units, number: int, error: float, box: Box, rng: np.random.Generator
) -> bool | None:
    """Whether a unit shows the same jump at other places of its hyperplane; None if none tells.

    `error` is how far the unit may be off, relatively: there is no telling where its hyperplane may
    as well be as far away as the answers are asked.
    """
    w, b, a = units.W[number], float(units.b[number]), units.A[:, number]
    step = RECURRING_STEP * float(np.linalg.norm(w * box.width))
    X = _on_hyperplane(w, b, step, box, rng)
    X = X[error * (1 + np.linalg.norm(X, axis=1)) <= RECURS * step / 2]
    seen = _seen(ask, w, a, step, X[:RECURRING_PLACES])
    if not seen.all():
        more = X[RECURRING_PLACES : RECURRING_PLACES + RECURRING_FURTHER]
        seen = np.append(seen, _seen(ask, w, a, step, more))
    return bool(2 * seen.sum() > len(seen)) if len(seen) else None


def _seen(ask: Ask, w: Array, a: Array, step: float, X: Array) -> AnyArray:
    """Whether the jump shows, at every place where rounding lets one tell."""
    if len(X) == 0:
        return np.empty(0, dtype=bool)
    points = X[:, None, :] + step * np.array([-1.0, 0.0, 1.0])[:, None] * w
    values = ask(points.reshape(-1, len(w))).reshape(len(X), 3, -1)
    jumps = values[:, 0] - 2 * values[:, 1] + values[:, 2]
    own = float(np.linalg.norm(step * a))
    rounding = ROUNDING * np.abs(values).max(axis=(1, 2)) * np.sqrt(4 * len(a))
    off = np.linalg.norm(jumps - step * a, axis=1)
    return np.asarray((off <= 2 * RECURS * own)[rounding <= RECURS * own])


def _on_hyperplane(w: Array, b: float, step: float, box: Box, rng: np.random.Generator) -> Array:
    """Some places of a hyperplane with room beside them in the box; perhaps none."""
    X = box.sample(KINK_TRIES, rng)
    X = X - np.outer(X @ w + b, w)
    inside = box.contains(X + step * w) & box.contains(X - step * w)
    return np.asarray(X[inside])
