"""The version space of one face: what the samples near it leave of it, by mean and spread.

Without flips, every sample near a face says on which side of it the sample lies: a linear
inequality in (w, t). What is left is a small polytope, and with nothing else known the truth is
uniform in it: its mean is the best guess, its spread the error. Both come from a random walk (Gibbs
sampling in rounded coordinates). With d features and r samples a unit of margin at the face, the
error is about `sqrt(d) / 2r` in the threshold and in each of `d - 1` angles. All of it shrinks by a
factor s with a chance of the order of `s^(d + 1)`, for which d + 1 samples have to lie so near: far
less is a sign that no face agrees with the samples, as where one stands for two. A few flips are
found by the linear program of least total violation and set aside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from provenet.common.typing import Array
from provenet.lowest_layer.unions.faces import Faces, Flags, margin_slopes, step_of
from provenet.lowest_layer.unions.tolerances import (
    FEW_ASIDE,
    NO_CHANCE_SPACE,
    SMALLEST_SPACE,
    SPACE_ROUNDING,
)
from provenet.moments.subspace import complement

_WALKERS, _SWEEPS = 30, 40
"""Of a random walk: how many at once; sweeps over all directions, as many again unrecorded."""
_NEAREST = 15
"""Inequalities a dimension that a walk starts with."""
_USUAL = 0.5
"""Median of the errors times samples a unit of margin, over sqrt(features): 0.5 to 0.6 for 1 to 20
features."""
_UNSEEN_PAIR, _SHIFT = 2.0, 0.8
"""Errors times samples a unit of margin that allow for a second face which no sample shows: angle,
and threshold over angle."""


@dataclass(frozen=True)
class Cell:
    """What the samples near one face leave of it: the mean and the spread of its version space."""

    face: Faces
    angle_error: float
    """Root mean square angle between the mean and a point of the version space."""
    threshold_error: float
    contradicted: int
    """How many samples had to be set aside: they contradict the others."""

    def far_below(self, angle_error: float, threshold_error: float) -> bool:
        """Whether it is smaller in all directions than chance makes it where these are usual."""
        least = min(NO_CHANCE_SPACE ** (1 / (self.face.weights.shape[1] + 1)), SMALLEST_SPACE)
        return bool(
            self.angle_error <= least * angle_error
            and self.threshold_error < least * threshold_error
        )


@dataclass(frozen=True)
class Contradiction:
    """Too many samples contradict the others for one face to be near the truth."""

    contradicted: int
    tilt: float
    """The angle by which the best face would have to turn to please the worst of them."""


def usual_errors(features: int, density: Array) -> tuple[Array, Array]:
    """Angle and threshold errors to be expected where so many samples are a unit of margin."""
    threshold = _USUAL * np.sqrt(features) / density
    return np.sqrt(features - 1) * threshold, threshold


def least_errors(features: int, density: Array) -> tuple[Array, Array]:
    """Angle and threshold errors below which none should be stated.

    The usual ones: a smaller version space is one of luck, or of a face that stands for two. Such
    a pair at an angle `2 a` has about `a r / 2` samples on the wrong side of the best single face,
    often none where `a < 6 / r`, so in few dimensions it is off by more than the usual errors.
    """
    angle, threshold = usual_errors(features, density)
    if features == 1:
        return angle, threshold
    unseen = _UNSEEN_PAIR / density
    return np.maximum(angle, unseen), np.maximum(threshold, _SHIFT * unseen)


def version_space(
    X: Array, beyond: Flags, face: Faces, reach: float, flip_rate: float, rng: np.random.Generator
) -> Cell | Contradiction:
    """The faces near `face` that have exactly the samples `beyond` on their far side.

    No step longer than `reach` is considered. As many samples as may be flipped can be set aside.
    """
    B = complement(face.weights[0])
    d, n = len(B) + 1, len(X)
    side = np.where(beyond, -1.0, 1.0)
    A = np.vstack([side[:, None] * margin_slopes(X, B), np.eye(d), -np.eye(d)])
    b = np.append(-side * face.margins(X)[:, 0], np.full(2 * d, reach))
    most_aside = FEW_ASIDE + 3 * flip_rate * n
    aside = 0
    while (flipped := _one_flip(A, b, n - aside, flip_rate)) is not None:
        if aside >= most_aside:
            violation = _least_violation(A, b)[: n - aside]
            worst = int(np.argmax(violation))
            tilt = float(violation[worst] / np.linalg.norm(A[worst, :-1]))
            return Contradiction(aside + int(np.sum(violation > SPACE_ROUNDING * reach)), tilt)
        A, b, aside = np.delete(A, flipped, axis=0), np.delete(b, flipped), aside + 1
    points = _uniform_points(A, b, _largest_ball(A, b)[0], rng)
    mean, variances = points.mean(axis=0), points.var(axis=0)
    angle, threshold = np.sqrt(variances[:-1].sum()), np.sqrt(variances[-1])
    return Cell(face.moved(step_of(mean, B)[None]), float(angle), float(threshold), aside)


def _one_flip(A: Array, b: Array, samples: int, flip_rate: float) -> int | None:
    """Which of the first inequalities comes from a flipped label, if any does.

    When no point is left, the one that is violated most. Else a flip shows by the volume that it
    takes away: with it a chance of `flip_rate`, without it one of the ratio of volumes. That of the
    largest balls stands for it.
    """
    _, radius = ball = _largest_ball(A, b)
    if radius <= SPACE_ROUNDING * b.max():
        return int(np.argmax(_least_violation(A, b)[:samples]))
    if flip_rate == 0:
        return None
    slack = b - A @ ball[0] - radius * np.linalg.norm(A, axis=1)
    touching = np.flatnonzero(slack[:samples] < SPACE_ROUNDING * b.max())
    without = [_largest_ball(np.delete(A, i, 0), np.delete(b, i))[1] for i in touching]
    grown = max(without, default=radius) / radius
    if grown ** A.shape[1] * flip_rate < len(touching):
        return None
    return int(touching[np.argmax(without)])


def _largest_ball(A: Array, b: Array) -> tuple[Array, float]:
    """Centre and radius of the largest ball in `A x <= b`; the radius is negative if none fits."""
    d = A.shape[1]
    found = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.column_stack([A, np.linalg.norm(A, axis=1)]),
        b_ub=b,
        bounds=(None, None),
    )
    return np.asarray(found.x[:-1]), float(found.x[-1])


def _least_violation(A: Array, b: Array) -> Array:
    """By how much each of `A x <= b` is violated where the sum of this is least."""
    m, d = A.shape
    found = linprog(
        np.append(np.zeros(d), np.ones(m)),
        A_ub=np.hstack([A, -np.eye(m)]),
        b_ub=b,
        bounds=[(None, None)] * d + [(0.0, None)] * m,
    )
    return np.asarray(found.x[d:])


def _uniform_points(A: Array, b: Array, inside: Array, rng: np.random.Generator) -> Array:
    """Points uniform in `A x <= b`, one a row, by a random walk from a point inside.

    Most inequalities touch nothing: the walk starts with the nearest ones and is repeated with
    those that it violates.
    """
    slack = b - A @ inside
    inverse = np.linalg.inv((A / slack[:, None] ** 2).T @ A)
    distance = slack / np.sqrt(np.einsum("ij,jk,ik->i", A, inverse, A))
    used = distance <= np.sort(distance)[: _NEAREST * len(inside)][-1]
    while True:
        points = _walk(A[used], b[used], inside, np.linalg.cholesky(inverse), rng)
        violated = np.any(A[~used] @ points.T > b[~used, None], axis=1)
        if not violated.any():
            return points
        used[np.flatnonzero(~used)[violated]] = True


def _walk(A: Array, b: Array, inside: Array, shape: Array, rng: np.random.Generator) -> Array:
    """Points of several walkers, each step along one column of `shape` to anywhere inside."""
    speeds = A @ shape
    z = np.zeros((len(inside), _WALKERS))
    slack = np.repeat((b - A @ inside)[:, None], _WALKERS, axis=1)
    seen = []
    for sweep in range(2 * _SWEEPS):
        for j in rng.permutation(len(inside)):
            speed = speeds[:, j]
            ahead, behind = speed > 0, speed < 0
            most = np.min(slack[ahead] / speed[ahead, None], axis=0)
            least = np.max(slack[behind] / speed[behind, None], axis=0)
            step = least + rng.random(_WALKERS) * (most - least)
            z[j] += step
            slack -= speed[:, None] * step
        if sweep >= _SWEEPS:
            seen.append(inside[:, None] + shape @ z)
    return np.concatenate(seen, axis=1).T
