"""The faces of a union of halfspaces: hyperplanes `w_i.x = t_i`, and steps of them.

Steps at a face are taken in its own coordinates: `w + u B` and `t + v` with the rows of B
orthonormal and orthogonal to w, which makes `(B x).u - v` the change of a margin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from provenet.common.typing import AnyArray, Array

Flags = NDArray[np.bool_]


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


def margin_slopes(X: Array, basis: Array) -> Array:
    """The slope of each sample's margin in the own coordinates of a face, (samples, features)."""
    return np.column_stack([X @ basis.T, np.full(len(X), -1.0)])


def step_of(own: Array, basis: Array) -> Array:
    """A step in own coordinates as one of weights and threshold."""
    return np.append(own[:-1] @ basis, own[-1])


def two_largest(M: Array) -> tuple[AnyArray, Array, Array]:
    """Where the largest number of each row is, that number, and the next (-inf if none)."""
    top = np.argmax(M, axis=1)
    rest = M.copy()
    rest[np.arange(len(M)), top] = -np.inf
    return top, M[np.arange(len(M)), top], rest.max(axis=1)
