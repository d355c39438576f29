"""Faces of a union of halfspaces from samples: one candidate, a soft fit of all, the version space.

A union fires where `w_i.x > t_i` for some i; its *faces* are the hyperplanes `w_i.x = t_i`, and
`m_i(x) = w_i.x - t_i` is the margin of a sample at face i (GP19, section 2.3: P is OR, u a step).
Labels are true or false; each may also be flipped with a small probability.

*Candidate.* A sample that fires because of unit i has mean `w_i phi(t) / Phi^c(t)`, far out. So the
map `z <- mean of relu(z.x)^p x over positives`, a tensor power method for the moment of order p + 1
of the positives alone (the negatives have label 0), ends at a direction near one unit; it runs in
the span of the units, where the second moment of the positives exceeds 1 (`T_2`, section 2.1).

*Soft fit.* With blurred steps the label is a noisy OR of logistic units with flips e_0 and e_1,

    P(y = 1 | x) = e_0 + (1 - e_0 - e_1) (1 - S),    S = prod_i (1 - s(beta_i m_i(x)))

and s the logistic function. `dP / dm_i = (1 - e_0 - e_1) beta_i s(beta_i m_i) S` is of size where
no other unit fires, and Fisher scoring moves each unit by itself. A flip far from the faces has no
influence. As beta grows only the samples nearest the faces count.

*Version space.* Without flips, every sample near face i says on which side of it the sample lies: a
linear inequality in (w, t). What is left is a small polytope, and with nothing else known the truth
is uniform in it: its mean is the best guess, its spread the error. Both come from a random walk
(Gibbs sampling in rounded coordinates). The error is of order `features / (samples a unit of margin
at the face)`. A few flips are found by the linear program of least total violation and set aside.

Steps at a face are taken in its own coordinates: `w + B^T u` and `t + v` with B orthonormal and
orthogonal to w, which makes `(B x).u - v` the change of a margin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import expit, log_expit, ndtr

from provenet.networks import row_blocks
from provenet.parallel import sum_over
from provenet.sources import Source
from provenet.typing import AnyArray, Array

Flags = NDArray[np.bool_]
Sum = TypeVar("Sum")

NEAR = 8.0
"""Margins, in blurs (one over the sharpness), beyond which a label says nothing about a face."""
_MISSED = 4.0
"""Margins, in blurs, by which a positive must be short of a face not to be claimed by it."""
_COARSE, _FIRST, _SHARPER = 16.0, 4.0, 4.0
"""Sharpness at the end of the search and at its start; growth from one stage to the next."""
_FLIPS_IN_SEARCH, _LEAST_FLIPS, _FEW_FLIPS, _MANY_FLIPS = 0.01, 1e-4, 1e-3, 0.01
_SAMPLES_A_BLUR = 2.0
"""Over the number of features, at a face in the last stage, when more than few are flipped."""
_BLOCK, _PROBED_BLOCKS = 4096, 8
_MOST_ROWS, _MOST_SEARCHED = 60_000, 20_000
_POWERS, _STARTS, _SHIFTS, _MOST_SHIFTED = (3, 5), 10, 8, 10_000
_ABOVE_EDGE = 1.02
_ATTEMPTS = 3
_CHANGES = 4
_FARTHEST = 0.5
"""Longest step of a fit, in angle and in threshold."""
_ITERATIONS, _SMALL_GAIN, _NO_SLOPE = 20, 0.05, 1e-3
_TILTS = np.geomspace(1.0, 32.0, 6)
"""Angles to try between two faces that looked like one, in blurs."""
_MOST_LEVERAGE = 0.8
_ROUNDING = 1e-9
_FEW_ASIDE = 2
_WALKERS, _SWEEPS = 30, 40
"""Of a random walk: how many at once; sweeps over all directions, as many again unrecorded."""
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

    @classmethod
    def of(cls, parts: list[Faces]) -> Faces:
        """All faces of several."""
        return cls(
            np.vstack([part.weights for part in parts]),
            np.concatenate([part.thresholds for part in parts]),
        )

    def __len__(self) -> int:
        """Number of faces."""
        return len(self.thresholds)

    def __getitem__(self, face: int) -> Faces:
        """One of them."""
        return Faces(self.weights[[face]], self.thresholds[[face]])

    def __add__(self, other: Faces) -> Faces:
        """All faces of both."""
        return Faces.of([self, other])

    def margins(self, X: Array) -> Array:
        """`w_i.x - t_i`, (samples, faces)."""
        return np.asarray(X @ self.weights.T - self.thresholds)

    def deepest(self, X: Array, scale: Array | float = 1.0) -> Array:
        """The largest margin of each sample, times a scale a face; -inf without faces."""
        return np.asarray(np.max(self.margins(X) * scale, axis=1, initial=-np.inf))

    def keep(self, which: Flags) -> Faces:
        """Some of the faces."""
        return Faces(self.weights[which], self.thresholds[which])

    def moved(self, steps: Array) -> Faces:
        """Faces after steps (faces, features + 1) of weights and threshold, norms back at 1."""
        W = self.weights + steps[:, :-1]
        norms = np.linalg.norm(W, axis=1)
        return Faces(W / norms[:, None], (self.thresholds + steps[:, -1]) / norms)


def tangent_basis(w: Array) -> Array:
    """Orthonormal rows that span what is orthogonal to w, (features - 1, features)."""
    return np.asarray(np.linalg.svd(w[None], full_matrices=True)[2][1:])


def two_largest(M: Array) -> tuple[AnyArray, Array, Array]:
    """Where the largest number of each row is, that number, and the next (-inf if none)."""
    top = np.argmax(M, axis=1)
    rest = M.copy()
    rest[np.arange(len(M)), top] = -np.inf
    return top, M[np.arange(len(M)), top], rest.max(axis=1)


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
        faces.keep(others)
        + Faces(np.stack([w, w]), np.full(2, faces.thresholds[face])).moved(
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
    contradicted: int
    """How many samples had to be set aside: they contradict the others."""


@dataclass(frozen=True)
class Contradiction:
    """Too many samples contradict the others for one face to be near the truth."""

    contradicted: int
    tilt: float
    """The angle by which the best face would have to turn to please the worst of them."""


def version_space(
    X: Array, beyond: Flags, face: Faces, reach: float, flip_rate: float, rng: np.random.Generator
) -> Cell | Contradiction:
    """The faces near `face` that have exactly the samples `beyond` on their far side.

    No step longer than `reach` is considered. As many samples as may be flipped can be set aside.
    """
    B = tangent_basis(face.weights[0])
    d, n = len(B) + 1, len(X)
    side = np.where(beyond, -1.0, 1.0)
    A = np.vstack([side[:, None] * np.column_stack([X @ B.T, -np.ones(n)]), np.eye(d), -np.eye(d)])
    b = np.append(-side * face.margins(X)[:, 0], np.full(2 * d, reach))
    most_aside = _FEW_ASIDE + 3 * flip_rate * n
    aside = 0
    while (flipped := _one_flip(A, b, n - aside, flip_rate)) is not None:
        if aside >= most_aside:
            violation = _least_violation(A, b)[: n - aside]
            worst = int(np.argmax(violation))
            tilt = float(violation[worst] / np.linalg.norm(A[worst, :-1]))
            return Contradiction(aside + int(np.sum(violation > _ROUNDING * reach)), tilt)
        A, b, aside = np.delete(A, flipped, axis=0), np.delete(b, flipped), aside + 1
    points = _uniform_points(A, b, _largest_ball(A, b)[0], rng)
    mean, variances = points.mean(axis=0), points.var(axis=0)
    step = np.append(mean[:-1] @ B, mean[-1])
    angle, threshold = np.sqrt(variances[:-1].sum()), np.sqrt(variances[-1])
    return Cell(face.moved(step[None]), float(angle), float(threshold), aside)


def _one_flip(A: Array, b: Array, samples: int, flip_rate: float) -> int | None:
    """Which of the first inequalities comes from a flipped label, if any does.

    When no point is left, the one that is violated most. Else a flip shows by the volume that it
    takes away: with it a chance of `flip_rate`, without it one of the ratio of volumes. That of the
    largest balls stands for it.
    """
    _, radius = ball = _largest_ball(A, b)
    if radius <= _ROUNDING * b.max():
        return int(np.argmax(_least_violation(A, b)[:samples]))
    if flip_rate == 0:
        return None
    slack = b - A @ ball[0] - radius * np.linalg.norm(A, axis=1)
    touching = np.flatnonzero(slack[:samples] < _ROUNDING * b.max())
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


# ---------------------------------------------------------------- samples


@dataclass(frozen=True)
class Rows:
    """Some samples: every so-manieth of those that were asked for."""

    X: Array
    fired: Flags
    stride: int

    @property
    def count(self) -> int:
        """How many samples these stand for."""
        return self.stride * len(self.X)

    def keep(self, which: Flags) -> Rows:
        """Some of them."""
        return Rows(self.X[which], self.fired[which], self.stride)


@dataclass(frozen=True)
class Samples:
    """A source whose labels are read as fired or not."""

    source: Source
    above: float | None = None
    complement: bool = False

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.source.size

    @property
    def features(self) -> int:
        """Number of inputs."""
        return self.source.features

    @property
    def price(self) -> float:
        """The log likelihood that one face more gains by chance."""
        return float((self.features + 1) * np.log(self.size))

    def over(self, term: Callable[[Array, Flags], Sum], stride: int = 1) -> Sum:
        """The sum of `term(X, fired)` over every `stride`-th block of samples."""
        blocks = list(row_blocks(self.size, _BLOCK))[::stride]
        level = 0.5 if self.above is None else self.above

        def of(block: slice) -> Sum:
            X, y = self.source.rows(block.start, block.stop)
            return term(X, (y > level) != self.complement)

        return sum_over(blocks, of)

    def gather(self, choose: Callable[[Array, Flags], Flags], most: int) -> Rows:
        """The samples that `choose` marks, or about `most` of them, from blocks evenly spread."""
        probe = max(1, -(-self.size // _BLOCK) // _PROBED_BLOCKS)
        seen, marked = self.over(lambda X, f: np.array([len(f), choose(X, f).sum()]), probe)
        stride = min(probe, max(1, int(np.ceil(self.size * marked / seen / most))))

        def chosen(X: Array, fired: Flags) -> list[tuple[Array, Flags]]:
            which = choose(X, fired)
            return [(X[which], fired[which])]

        parts = self.over(chosen, stride)
        X, fired = (np.concatenate([part[i] for part in parts]) for i in range(2))
        return Rows(X, fired, stride)


# ---------------------------------------------------------------- step 1: search


def search(samples: Samples, positives: Rows, most: int, rng: np.random.Generator) -> Faces:
    """Faces one by one from what is left unclaimed; each is rough, and a few may be too many."""
    faces = Faces.none(samples.features)
    while len(faces) < most:
        sharpness = np.full(len(faces), _COARSE)
        left = unclaimed(positives, faces, sharpness)
        new = _new_face(samples, faces, sharpness, left, rng)
        if new is None:
            break
        faces = faces + new
    return faces


def unclaimed(positives: Rows, faces: Faces, sharpness: Array) -> Rows:
    """The positives that are short of every face."""
    return positives.keep(faces.deepest(positives.X, sharpness) < -_MISSED)


def _new_face(
    samples: Samples, faces: Faces, sharpness: Array, left: Rows, rng: np.random.Generator
) -> Faces | None:
    """A face that some of the unclaimed positives have beyond chance; None if there is none."""
    background = left.count / samples.size
    if not _beyond_chance(samples, left.count, 0, background):
        return None
    for _ in range(_ATTEMPTS):
        start = candidate_face(left.X, samples.size / left.stride, rng)
        new, beyond = _fitted_alone(samples, start, faces, sharpness, background)
        fired, silent = (beyond.stride * int(np.sum(beyond.fired == v)) for v in (True, False))
        if _beyond_chance(samples, fired, silent, background):
            return new
    return None


def _fitted_alone(
    samples: Samples, new: Faces, faces: Faces, sharpness: Array, background: float
) -> tuple[Faces, Rows]:
    """A face fitted by itself, from a wide blur to a narrow one, and the samples beyond it.

    Positives that another face claims say nothing about this one.
    """
    finest = np.max(sharpness, initial=_COARSE)
    for beta in np.geomspace(_FIRST, finest, 1 + round(np.log2(finest / _FIRST))):

        def near(X: Array, fired: Flags, face: Faces = new, reach: float = NEAR / beta) -> Flags:
            which: Flags = face.margins(X)[:, 0] > -reach
            which[which] &= ~fired[which] | (faces.deepest(X[which], sharpness) < -_MISSED)
            return which

        rows = samples.gather(near, _MOST_SEARCHED)
        blur = Blur(np.array([beta]), max(background, _FLIPS_IN_SEARCH), _FLIPS_IN_SEARCH)
        new = fit_faces(rows.X, rows.fired, new, blur)
    return new, rows.keep(new.margins(rows.X)[:, 0] > 0)


def fewest_positives(samples: Samples, background: float) -> float:
    """How many samples that fire, and no others, make a halfspace beyond chance."""
    return float(samples.price / -np.log(max(background, 1 / samples.size)))


def _beyond_chance(samples: Samples, fired: int, silent: int, background: float) -> bool:
    """Whether a halfspace of mostly fired samples is more than the best of chance."""
    purity = fired / max(fired + silent, 1)
    if purity <= max(0.5, background):
        return False
    background = max(background, 1 / samples.size)
    gain = fired * np.log(purity / background)
    if silent:
        gain += silent * np.log((1 - purity) / (1 - background))
    return bool(gain > samples.price)


# ---------------------------------------------------------------- step 2: sharpen


@dataclass(frozen=True)
class Fit:
    """Faces fitted at some sharpness, with the samples near them."""

    faces: Faces
    blur: Blur
    near: Rows
    flip_rate: float

    @property
    def density(self) -> Array:
        """Samples a unit of margin at each face, where no other face claims them."""
        top = np.argmax(self.faces.margins(self.near.X) * self.blur.sharpness, axis=1)
        count = self.near.stride * np.bincount(top, minlength=len(self.faces))
        return np.asarray(count * self.blur.sharpness / (2 * NEAR))


def sharpen(samples: Samples, faces: Faces, positives: Rows, rng: np.random.Generator) -> Fit:
    """Faces as sharp as the samples at each of them allow."""
    finest, level = np.full(len(faces), np.inf), _COARSE
    while True:
        fit = _fit(samples, faces, np.minimum(level, finest))
        for _ in range(_CHANGES):
            changed = _repaired(samples, fit, positives, rng)
            if changed is None:
                break
            fit = _fit(samples, changed, np.full(len(changed), level))
        faces, finest = fit.faces, _finest(samples, fit)
        if np.all(finest <= level):
            return fit
        level *= _SHARPER


def _finest(samples: Samples, fit: Fit) -> Array:
    """Sharpness at which about as many samples are within the blur of a face as features."""
    samples_a_blur = 1.0 if fit.flip_rate <= _FEW_FLIPS else _SAMPLES_A_BLUR
    return np.maximum(fit.density / (samples_a_blur * samples.features), _COARSE)


def _fit(samples: Samples, faces: Faces, sharpness: Array) -> Fit:
    near = samples.gather(lambda X, _: np.abs(faces.deepest(X, sharpness)) < NEAR, _MOST_ROWS)
    wrong, away = _away_from_faces(samples, faces, sharpness, near.stride)
    outside, inside = np.maximum(wrong / np.maximum(away, 1), _LEAST_FLIPS)
    blur = Blur(sharpness, float(outside), float(inside))
    rate = float(wrong.sum() / max(away.sum(), 1))
    return Fit(fit_faces(near.X, near.fired, faces, blur), blur, near, rate)


def _away_from_faces(
    samples: Samples, faces: Faces, sharpness: Array, stride: int
) -> tuple[AnyArray, AnyArray]:
    """How many labels are wrong away from the faces, of how many: outside all, and inside one."""

    def count(X: Array, fired: Flags) -> AnyArray:
        deep = faces.deepest(X, sharpness)
        outside, inside = deep < -NEAR, deep > NEAR
        wrong = np.sum(outside & fired), np.sum(inside & ~fired)
        return np.array([wrong, (outside.sum(), inside.sum())])

    wrong, away = samples.over(count, stride)
    return wrong, away


def _repaired(
    samples: Samples, fit: Fit, positives: Rows, rng: np.random.Generator
) -> Faces | None:
    """Idle faces dropped, or one split in two, or one added; None when all is well."""
    faces, sharpness = fit.faces, fit.blur.sharpness
    fewest = fewest_positives(samples, fit.blur.false_positives)
    needed = _needed(positives, faces, sharpness, fewest)
    if not needed.all():
        return faces.keep(needed)
    left = unclaimed(positives, faces, sharpness)
    if left.count < fewest:
        return None
    two = _split(samples, fit, left, fewest)
    if two is not None:
        return two
    new = _new_face(samples, faces, sharpness, left, rng)
    return None if new is None else faces + new


def _needed(positives: Rows, faces: Faces, sharpness: Array, fewest: float) -> Flags:
    """The faces that claim at least so many positives alone, the others dropped one by one."""
    margins = faces.margins(positives.X) * sharpness
    kept = np.arange(len(faces))
    while len(kept) > 1:
        top, first, second = two_largest(margins[:, kept])
        alone = (first > 0) & (second < -_MISSED)
        count = np.bincount(top[alone], minlength=len(kept))
        if positives.stride * count.min() >= fewest:
            break
        kept = np.delete(kept, np.argmin(count))
    needed: Flags = np.isin(np.arange(len(faces)), kept)
    return needed


def _split(samples: Samples, fit: Fit, left: Rows, fewest: float) -> Faces | None:
    """Two faces in place of the one that misses most positives, if the labels gain by it."""
    faces, blur = fit.faces, fit.blur
    nearest = np.argmax(faces.margins(left.X) * blur.sharpness, axis=1)
    count = np.bincount(nearest, minlength=len(faces))
    face = int(np.argmax(count))
    if left.stride * count[face] < fewest:
        return None

    def seen(X: Array, fired: Flags) -> Flags:
        deep = faces.deepest(X, blur.sharpness)
        which: Flags = (np.abs(deep) < NEAR) | (fired != (deep > 0))
        return which

    rows = samples.gather(seen, _MOST_ROWS)
    one = log_likelihood(rows.X, rows.fired, fit_faces(rows.X, rows.fired, faces, blur), blur)
    pair, wider = split_face(rows.X, rows.fired, faces, face, left.X[nearest == face], blur)
    gain = log_likelihood(rows.X, rows.fired, pair, wider) - one
    return pair if rows.stride * gain > samples.price else None


# ---------------------------------------------------------------- step 3: finish


@dataclass(frozen=True)
class Found:
    """The faces with the errors to be expected of them, one number a face."""

    faces: Faces
    blur: Blur
    angle_errors: Array
    threshold_errors: Array
    contradicted: AnyArray
    """Samples near a face that cannot be on their side of it together with the rest."""
    tilts: Array
    """The angle by which a face would have to turn to please the worst of these."""
    flipped: bool
    """Whether so many labels are flipped that there are no version spaces."""

    def revised(self, face: int, space: Cell | Contradiction) -> Found:
        """With what a version space says of one face."""
        one = np.arange(len(self.faces)) == face
        contradicted = np.where(one, space.contradicted, self.contradicted)
        if isinstance(space, Contradiction):
            tilts = np.where(one, space.tilt, self.tilts)
            return replace(self, contradicted=contradicted, tilts=tilts)
        parts = [space.face if here else self.faces[i] for i, here in enumerate(one)]
        return replace(
            self,
            faces=Faces.of(parts),
            angle_errors=np.where(one, space.angle_error, self.angle_errors),
            threshold_errors=np.where(one, space.threshold_error, self.threshold_errors),
            contradicted=contradicted,
        )


def finish(samples: Samples, fit: Fit, rng: np.random.Generator) -> Found:
    """The version space of each face; where samples contradict it, the soft fit and its errors.

    A positive near two faces does not say which of them claims it. It is left out, and if in the
    end neither does, given to the nearest.
    """
    k, sharpness = len(fit.faces), fit.blur.sharpness
    found = _softly_finished(samples, fit)
    X, fired, says = fit.near.X, fit.near.fired, _about_faces(fit)
    stale = np.full(k, not found.flipped)
    for _ in range(_CHANGES):
        for i in map(int, np.flatnonzero(stale)):
            rows, reach = says[:, i], NEAR / sharpness[i]
            space = version_space(X[rows], fired[rows], fit.faces[i], reach, fit.flip_rate, rng)
            found = found.revised(i, space)
        wrong, blamed = _wrong(samples, found.faces, sharpness)
        stale = (found.contradicted == 0) & blamed.any(axis=0)
        if not stale.any():
            break
        X, fired = np.vstack([X, wrong.X]), np.concatenate([fired, wrong.fired])
        says = np.vstack([says, blamed])
    return found


def _softly_finished(samples: Samples, fit: Fit) -> Found:
    angles, thresholds = soft_errors(fit.near.X, fit.near.fired, fit.faces, fit.blur)
    wrong = _wrong(samples, fit.faces, fit.blur.sharpness)[1].sum(axis=0)
    flipped = fit.flip_rate > _MANY_FLIPS
    return Found(fit.faces, fit.blur, angles, thresholds, wrong, np.zeros(len(wrong)), flipped)


def _about_faces(fit: Fit) -> Flags:
    """Which samples (rows) say on which side of which face (columns) they are."""
    near = fit.faces.margins(fit.near.X) * fit.blur.sharpness
    top, first, second = two_largest(near)
    own = top[:, None] == np.arange(len(fit.faces))
    others = np.where(own, second[:, None], first[:, None])
    return np.asarray(np.abs(near) < NEAR) & (~fit.near.fired[:, None] | (others < -NEAR))


def _wrong(samples: Samples, faces: Faces, sharpness: Array) -> tuple[Rows, Flags]:
    """The samples on the wrong side, but not far from it, and the faces that each speaks against.

    A negative speaks against all that claim it, a positive against the nearest.
    """

    def choose(X: Array, fired: Flags) -> Flags:
        deep = faces.deepest(X, sharpness)
        wrong: Flags = ((deep > 0) != fired) & (np.abs(deep) < 2 * NEAR)
        return wrong

    rows = samples.gather(choose, _MOST_ROWS)
    M = faces.margins(rows.X) * sharpness
    nearest = np.argmax(M, axis=1)[:, None] == np.arange(len(faces))
    return rows, np.where(rows.fired[:, None], nearest, M > 0)
