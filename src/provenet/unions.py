"""Faces of a union of halfspaces from samples: one candidate, a soft fit of all, the version space.

A union fires where `w_i.x > t_i` for some i; its *faces* are the hyperplanes `w_i.x = t_i`, and
`m_i(x) = w_i.x - t_i` is the margin of a sample at face i (GP19, section 2.3: P is OR, u a step).
Labels are true or false; each may also be flipped with a small probability.

*Candidate.* A sample that fires because of unit i has mean `w_i phi(t) / Phi^c(t)`, far out. So the
map `z <- mean of relu(z.x)^p x over positives`, a tensor power method for the moment of order p + 1
of the positives alone (the negatives have label 0), ends at a direction near one unit; it runs in
the span of the units, where the second moment of the positives exceeds 1 (`T_2`, section 2.1).

*Soft fit.* With blurred steps the label is a noisy OR of logistic units,

    P(y = 1 | x) = e_0 + (1 - e_0 - e_1) (1 - prod_i (1 - s(beta_i m_i(x)))),    s(a) = 1/(1+exp(-a))

with flips e_0 and e_1. `dP / dm_i = (1 - e_0 - e_1) beta_i s(beta_i m_i) prod_j (1 - s(beta_j m_j))`
is of use where no other unit fires, and Fisher scoring moves each unit by itself. A flip far from
the faces has no influence. As beta grows only the samples nearest the faces count.

*Version space.* Without flips, every sample near face i says on which side of it the sample lies: a
linear inequality in (w, t). What is left is a small polytope, and with nothing else known the truth
is uniform in it: its mean is the best guess, its spread the error. Both come from a random walk
(hit and run). The error is of order `features / (samples a unit of margin at the face)`.

Steps at a face are taken in its own coordinates: `w + B^T u` and `t + v` with B orthonormal and
orthogonal to w, which makes `(B x).u - v` the change of a margin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import expit, log_expit, ndtr

from provenet.typing import Array

Flags = NDArray[np.bool_]

_POWERS = (3, 5)
_STARTS = 10
_SHIFTS = 8
_MOST_SHIFTED = 10_000
_ABOVE_EDGE = 1.02
_FARTHEST = 0.5
"""Longest step of a fit, in angle and in threshold."""
_ITERATIONS = 20
_SMALL_GAIN = 0.05
_NO_SLOPE = 1e-3
_TILTS = np.geomspace(1.0, 32.0, 6)
"""Angles to try between two faces that looked like one, in blurs."""
_MOST_LEVERAGE = 0.8
_WALKERS = 30
_SWEEPS = 40
"""Over all directions of a random walk, before and while it is recorded."""
_NEAREST = 15
"""Inequalities a dimension that a walk starts with."""


@dataclass(frozen=True)
class Faces:
    """The hyperplanes `weights_i . x = thresholds_i`, rows of weights of norm 1."""

    weights: Array
    thresholds: Array

    @classmethod
    def none(cls, features: int) -> Faces:
        """No face yet."""
        return cls(np.empty((0, features)), np.empty(0))

    def __len__(self) -> int:
        """Number of faces."""
        return len(self.thresholds)

    def __add__(self, other: Faces) -> Faces:
        """All faces of both."""
        return Faces(
            np.vstack([self.weights, other.weights]),
            np.concatenate([self.thresholds, other.thresholds]),
        )

    def margins(self, X: Array) -> Array:
        """`w_i.x - t_i`, (samples, faces)."""
        return np.asarray(X @ self.weights.T - self.thresholds)

    def deepest(self, X: Array, scale: Array | float = 1.0) -> Array:
        """The largest margin of each sample, times a scale a face; -inf without faces."""
        return np.asarray(np.max(self.margins(X) * scale, axis=1, initial=-np.inf))

    def keep(self, which: Flags) -> Faces:
        """Some of the faces."""
        return Faces(self.weights[which], self.thresholds[which])

    def replaced(self, face: int, by: Faces) -> Faces:
        """With another face in the place of one."""
        W, t = self.weights.copy(), self.thresholds.copy()
        W[face], t[face] = by.weights[0], by.thresholds[0]
        return Faces(W, t)

    def moved(self, steps: Array) -> Faces:
        """Faces after steps (faces, features + 1) of weights and threshold, norms back at 1."""
        W = self.weights + steps[:, :-1]
        norms = np.linalg.norm(W, axis=1)
        return Faces(W / norms[:, None], (self.thresholds + steps[:, -1]) / norms)


def tangent_basis(w: Array) -> Array:
    """Orthonormal rows that span what is orthogonal to w, (features - 1, features)."""
    return np.asarray(np.linalg.svd(w[None], full_matrices=True)[2][1:])


# ---------------------------------------------------------------- a candidate


def candidate_face(positives: Array, samples: float, rng: np.random.Generator) -> Faces:
    """The best of several starts: a face that most positives and few other samples are beyond.

    `samples` is how many samples the positives are taken from. How many lie beyond a face is known
    for standard normal inputs; no negatives are needed.
    """
    some = positives[rng.permutation(len(positives))[:_MOST_SHIFTED]]
    starts = _unit_rows(some[rng.integers(len(some), size=_STARTS)])
    found = [
        _mean_shift(some @ basis.T, starts @ basis.T, power) @ basis
        for basis in _spans(positives)
        for power in _POWERS
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
    beyond = values > _ABOVE_EDGE * (1 + np.sqrt(d / m)) ** 2
    spans = [np.eye(d)]
    return [*spans, vectors[:, beyond].T] if 0 < beyond.sum() < d else spans


def _mean_shift(P: Array, Z: Array, power: int) -> Array:
    Z = _unit_rows(Z)
    for _ in range(_SHIFTS):
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


# ---------------------------------------------------------------- the soft fit


@dataclass(frozen=True)
class Blur:
    """How sharp the steps are, a number a face, and how often labels are flipped."""

    sharpness: Array
    false_positives: float
    false_negatives: float

    def probabilities(self, M: Array) -> tuple[Array, Array]:
        """P(y = 1) and the probability that no unit fires, for margins M (samples, faces)."""
        silent = np.exp(log_expit(-self.sharpness * M).sum(axis=1))
        clear = 1 - self.false_positives - self.false_negatives
        return self.false_positives + clear * (1 - silent), silent

    def slope(self, m: Array, silent: Array, face: int) -> Array:
        """The derivative of P(y = 1) in the margin at one face."""
        clear = 1 - self.false_positives - self.false_negatives
        beta = self.sharpness[face]
        return np.asarray(clear * beta * silent * expit(beta * m))


def fit_faces(X: Array, fired: Flags, faces: Faces, blur: Blur) -> Faces:
    """Maximum likelihood of the noisy OR, from a start near it, by Fisher scoring."""
    value = log_likelihood(X, fired, faces, blur)
    for _ in range(_ITERATIONS):
        steps = _scoring_steps(X, fired, faces, blur)
        size, moved, new = 1.0, faces.moved(steps), 0.0
        while (new := log_likelihood(X, fired, moved, blur)) < value and size > _NO_SLOPE:
            size /= 2
            moved = faces.moved(size * steps)
        if new < value:
            break
        gain, faces, value = new - value, moved, new
        if gain < _SMALL_GAIN:  # far less than chance moves a likelihood by
            break
    return faces


def log_likelihood(X: Array, fired: Flags, faces: Faces, blur: Blur) -> float:
    """Of the labels under the noisy OR."""
    p, _ = blur.probabilities(faces.margins(X))
    return float(np.log(np.where(fired, p, 1 - p)).sum())


def _scoring_steps(X: Array, fired: Flags, faces: Faces, blur: Blur) -> Array:
    """Steps (faces, features + 1) of each face by itself."""
    M = faces.margins(X)
    p, silent = blur.probabilities(M)
    information = 1 / (p * (1 - p))
    steps = np.zeros((len(faces), X.shape[1] + 1))
    for i, w in enumerate(faces.weights):
        slope = blur.slope(M[:, i], silent, i)
        rows = np.flatnonzero(slope > _NO_SLOPE * slope.max(initial=0.0))
        weight = slope[rows] * information[rows]
        g, H = _weighted_sums(X[rows], weight * (fired[rows] - p[rows]), weight * slope[rows])
        B = _with_threshold(tangent_basis(w))
        H = B @ H @ B.T
        H[np.diag_indices(len(H))] += 1e-9 * np.trace(H) + 1e-300
        step = np.linalg.solve(H, B @ g) @ B
        length = max(float(np.linalg.norm(step[:-1])), abs(float(step[-1])))
        steps[i] = step * min(1.0, _FARTHEST / max(length, 1e-300))
    return steps


def _weighted_sums(X: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """`sum first f` and `sum second f f^T` of the rows `f = (x, -1)`, the slopes of a margin."""
    d = X.shape[1]
    H = np.empty((d + 1, d + 1))
    H[:d, :d] = (X * second[:, None]).T @ X
    H[:d, d] = H[d, :d] = -(second @ X)
    H[d, d] = second.sum()
    return np.append(first @ X, -first.sum()), H


def _with_threshold(B: Array) -> Array:
    """The coordinates of a face: those of its direction, and its threshold."""
    d = B.shape[1]
    whole = np.zeros((len(B) + 1, d + 1))
    whole[:-1, :-1], whole[-1, -1] = B, 1.0
    return whole


def split_face(
    X: Array, fired: Flags, faces: Faces, face: int, missed: Array, blur: Blur
) -> tuple[Faces, Blur]:
    """Two faces in place of one, tilted to both sides along the axis of the positives it missed.

    Two faces at a small angle look like one until the blur is less than their distance at the
    samples; then the one misses positives on either side of their edge.
    """
    w, beta = faces.weights[face], blur.sharpness[face]
    B = tangent_basis(w)
    axis = np.linalg.eigh(B @ missed.T @ missed @ B.T)[1][:, -1] @ B
    others = np.arange(len(faces)) != face
    blur = replace(blur, sharpness=np.append(blur.sharpness[others], [beta, beta]))
    pairs = [
        faces.keep(others) + Faces(np.stack([w, w]), np.full(2, faces.thresholds[face])).moved(
            np.outer([tilt, -tilt], np.append(axis, 0.0))
        )
        for tilt in _TILTS / beta
    ]
    best = max(pairs, key=lambda pair: log_likelihood(X, fired, pair, blur))
    return fit_faces(X, fired, best, blur), blur


def soft_errors(X: Array, fired: Flags, faces: Faces, blur: Blur) -> tuple[Array, Array]:
    """Standard errors (angle, threshold) of each fitted face: `H^-1 G H^-1` of its scores.

    The steps are in truth sharper than the model's, so H is the observed slope of the scores.
    """
    M = faces.margins(X)
    angles, thresholds = np.full(len(faces), np.inf), np.full(len(faces), np.inf)
    for i, w in enumerate(faces.weights):
        small = 1e-4 / blur.sharpness[i]
        low, here, high = (_scores(M, fired, blur, i, h) for h in (-small, 0.0, small))
        F = np.column_stack([X @ tangent_basis(w).T, np.full(len(X), -1.0)])
        slope = (high - low) / (2 * small)
        H = (F * slope[:, None]).T @ F
        if np.linalg.matrix_rank(H) < len(H):
            continue
        pull = np.linalg.solve(H, F.T)
        leverage = np.clip(slope * np.einsum("ij,ji->i", F, pull), 0.0, _MOST_LEVERAGE)
        variances = ((pull * (here / (1 - leverage))) ** 2).sum(axis=1)
        angles[i], thresholds[i] = np.sqrt(variances[:-1].sum()), np.sqrt(variances[-1])
    return angles, thresholds


def _scores(M: Array, fired: Flags, blur: Blur, face: int, shift: float) -> Array:
    """The derivative of each sample's log likelihood in its margin at a face that is shifted."""
    moved = M.copy()
    moved[:, face] += shift
    p, silent = blur.probabilities(moved)
    return np.asarray((fired - p) / (p * (1 - p)) * blur.slope(moved[:, face], silent, face))


# ---------------------------------------------------------------- the version space


@dataclass(frozen=True)
class Cell:
    """What the samples near one face leave of it: the mean and the spread of its version space."""

    face: Faces
    angle_error: float
    """Root mean square angle between the mean and a point of the version space."""
    threshold_error: float


def version_space(
    X: Array, beyond: Flags, face: Faces, reach: float, rng: np.random.Generator
) -> Cell | None:
    """The faces near `face` that have exactly the samples `beyond` on their far side.

    None when there are none. No step longer than `reach` is considered.
    """
    B = tangent_basis(face.weights[0])
    side = np.where(beyond, -1.0, 1.0)
    A = side[:, None] * np.column_stack([X @ B.T, np.full(len(X), -1.0)])
    b = -side * face.margins(X)[:, 0]
    box = np.vstack([np.eye(A.shape[1]), -np.eye(A.shape[1])])
    A, b = np.vstack([A, box]), np.concatenate([b, np.full(len(box), reach)])
    centre = _chebyshev_centre(A, b)
    if centre is None:
        return None
    points = _uniform_points(A, b, centre, rng)
    mean = points.mean(axis=0)
    variances = points.var(axis=0)
    step = np.append(mean[:-1] @ B, mean[-1])
    return Cell(
        face.moved(step[None]), float(np.sqrt(variances[:-1].sum())), float(np.sqrt(variances[-1]))
    )


def _chebyshev_centre(A: Array, b: Array) -> Array | None:
    """The centre of the largest ball in `A x <= b`; None when there is no such x."""
    norms = np.linalg.norm(A, axis=1)
    d = A.shape[1]
    found = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.column_stack([A, norms]),
        b_ub=b,
        bounds=[(None, None)] * d + [(0.0, None)],
    )
    return np.asarray(found.x[:-1]) if found.status == 0 and found.x[-1] > 0 else None


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
