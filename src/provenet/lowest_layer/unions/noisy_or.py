"""The soft fit: a noisy OR of logistic units, by Fisher scoring, and its standard errors.

With blurred steps the label is a noisy OR of units with flips e_0 and e_1,

    P(y = 1 | x) = e_0 + (1 - e_0 - e_1) (1 - S),    S = prod_i (1 - s(beta_i m_i(x)))

with margins `m_i = w_i.x - t_i` and s the logistic function. Its slope
`dP / dm_i = (1 - e_0 - e_1) beta_i s(beta_i m_i) S` is of size where no other unit fires, so each
unit is moved by itself. A flip far from the faces has no influence. As beta grows only the samples
nearest the faces count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_expit

from provenet.common.typing import Array
from provenet.lowest_layer.unions.faces import Faces, Flags, margin_slopes, step_of
from provenet.lowest_layer.unions.tolerances import (
    LEAST_FLIPS,
    MOST_FLIPS,
    MOST_LEVERAGE,
    NO_SLOPE,
    SMALL_GAIN,
    SOFT_ITERATIONS,
)
from provenet.moments.subspace import complement

NEAR = 8.0
"""Margins, in blurs (one over the sharpness), beyond which a label says nothing about a face."""
MISSED = 4.0
"""Margins, in blurs, by which a positive must be short of a face not to be claimed by it."""
_FARTHEST = 0.5
"""Longest step of a fit, in angle and in threshold."""
_TILTS = np.geomspace(1.0, 32.0, 6)
"""Angles to try between two faces that looked like one, in blurs."""


@dataclass(frozen=True)
class Blur:
    """How sharp the steps are, a number a face, and how often labels are flipped."""

    sharpness: Array
    false_positives: float
    false_negatives: float

    @classmethod
    def of(cls, sharpness: Array, false_positives: float, false_negatives: float) -> Blur:
        """With flips neither never nor mostly."""
        rates = np.clip([false_positives, false_negatives], LEAST_FLIPS, MOST_FLIPS)
        return cls(sharpness, float(rates[0]), float(rates[1]))

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
    """Maximum likelihood of the noisy OR, from a start near it, by Fisher scoring.

    A fit that ends at the limit of iterations is a start for the next; errors are judged at the
    end, by the labels.
    """
    value = log_likelihood(X, fired, faces, blur)
    for _ in range(SOFT_ITERATIONS):
        steps = _scoring_steps(X, fired, faces, blur)
        size, moved, new = 1.0, faces.moved(steps), 0.0
        while (new := log_likelihood(X, fired, moved, blur)) < value and size > NO_SLOPE:
            size /= 2
            moved = faces.moved(size * steps)
        if new < value:
            break
        gain, faces, value = new - value, moved, new
        if gain < SMALL_GAIN:  # far less than chance moves a likelihood by
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
        rows = np.flatnonzero(slope > NO_SLOPE * slope.max(initial=0.0))
        weight = slope[rows] * information[rows]
        B = complement(w)
        F = margin_slopes(X[rows], B)
        H = (F * (weight * slope[rows])[:, None]).T @ F
        H[np.diag_indices(len(H))] += 1e-9 * np.trace(H) + 1e-300
        step = np.asarray(np.linalg.solve(H, F.T @ (weight * (fired[rows] - p[rows]))), float)
        length = max(float(np.linalg.norm(step[:-1])), abs(float(step[-1])))
        steps[i] = step_of(step, B) * min(1.0, _FARTHEST / max(length, 1e-300))
    return steps


def split_face(
    X: Array, fired: Flags, faces: Faces, face: int, missed: Array, blur: Blur
) -> tuple[Faces, Blur]:
    """Two faces in place of one, tilted to both sides along the axis of the positives it missed.

    Two faces at a small angle look like one until the blur is less than their distance at the
    samples; then the one misses positives on either side of their edge.
    """
    w, beta = faces.weights[face], blur.sharpness[face]
    B = complement(w)
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
        F = margin_slopes(X, complement(w))
        slope = (high - low) / (2 * small)
        H = (F * slope[:, None]).T @ F
        if np.linalg.matrix_rank(H) < len(H):
            continue
        pull = np.linalg.solve(H, F.T)
        leverage = np.clip(slope * np.einsum("ij,ji->i", F, pull), 0.0, MOST_LEVERAGE)
        variances = ((pull * (here / (1 - leverage))) ** 2).sum(axis=1)
        angles[i], thresholds[i] = np.sqrt(variances[:-1].sum()), np.sqrt(variances[-1])
    return angles, thresholds


def _scores(M: Array, fired: Flags, blur: Blur, face: int, shift: float) -> Array:
    """The derivative of each sample's log likelihood in its margin at a face that is shifted."""
    moved = M.copy()
    moved[:, face] += shift
    p, silent = blur.probabilities(moved)
    return np.asarray((fired - p) / (p * (1 - p)) * blur.slope(moved[:, face], silent, face))
