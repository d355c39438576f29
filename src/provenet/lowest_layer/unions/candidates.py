"""A first guess of one halfspace, from the positives alone.

A sample that fires because of unit i has mean `w_i phi(t) / Phi^c(t)`, far out. So the map
`z <- mean of relu(z.x)^p x over positives`, a tensor power method for the moment of order p + 1 of
the positives (the negatives have label 0), ends at a direction near one unit. It runs in all of the
space and in the span of the units, where the second moment of the positives exceeds 1 (`T_2`, GP19
section 2.1).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from provenet.common.typing import Array
from provenet.lowest_layer.unions.faces import Faces
from provenet.lowest_layer.unions.tolerances import (
    ABOVE_EDGE,
    MOST_SHIFTED,
    SHIFT_POWERS,
    SHIFT_STARTS,
    SHIFT_STEPS,
)


def candidate_face(positives: Array, samples: float, rng: np.random.Generator) -> Faces:
    """The best of several starts: a face that most positives and few other samples are beyond.

    `samples` is how many samples the positives are taken from. How many lie beyond a face is known
    for standard normal inputs; no negatives are needed.
    """
    some = positives[rng.permutation(len(positives))[:MOST_SHIFTED]]
    starts = _unit_rows(some[rng.integers(len(some), size=SHIFT_STARTS)])
    found = [
        _mean_shift(some @ basis.T, starts @ basis.T, power) @ basis
        for basis in _spans(positives)
        for power in SHIFT_POWERS
    ]
    Z = np.concatenate(found)
    scores = [_best_threshold(some @ z, samples * len(some) / len(positives)) for z in Z]
    best = int(np.argmax([excess for excess, _ in scores]))
    return Faces(Z[[best]], np.array([scores[best][1]]))


def _spans(positives: Array) -> list[Array]:
    """All of the space and, if smaller, the part in which the positives spread beyond chance.

    Inputs of variance 1 have second moments up to `(1 + sqrt(d / m))^2` by chance.
    """
    m, d = positives.shape
    values, vectors = np.linalg.eigh(positives.T @ positives / m)
    beyond = values > ABOVE_EDGE * (1 + np.sqrt(d / m)) ** 2
    spans = [np.eye(d)]
    return [*spans, vectors[:, beyond].T] if 0 < beyond.sum() < d else spans


def _mean_shift(P: Array, Z: Array, power: int) -> Array:
    Z = _unit_rows(Z)
    for _ in range(SHIFT_STEPS):
        ahead = np.maximum(P @ Z.T, 0.0)
        weight = ahead.copy()
        for _ in range(power - 1):  # far faster than a power
            weight *= ahead
        Z = _unit_rows(weight.T @ P)
    return Z


def _unit_rows(Z: Array) -> Array:
    return np.asarray(Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-300))


def _best_threshold(values: Array, samples: float) -> tuple[float, float]:
    """The most by which positives exceed all others beyond a threshold, and that threshold."""
    v = np.sort(values)[::-1]
    excess = 2 * np.arange(1, len(v) + 1) - samples * ndtr(-v)
    best = int(np.argmax(excess))
    return float(excess[best]), float(v[best])
