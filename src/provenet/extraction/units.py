"""Sums of units and a linear part, as they are known while a network is traced."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.extraction.tolerances import CANCELLED, SAME_UNIT


@dataclass(frozen=True)
class Units:
    """`f(x) = A relu(W x + b) + linear x + constant`, every unit with some sign."""

    W: Array
    """Rows of norm 1."""
    b: Array
    A: Array
    """(outputs, units)."""
    linear: Array
    """(outputs, features)."""
    constant: Array

    def __call__(self, X: Array) -> Array:
        """Values (n, outputs)."""
        hidden = np.maximum(self.z(X), 0.0)
        return np.asarray(hidden @ self.A.T + X @ self.linear.T + self.constant)

    @classmethod
    def none(cls, features: int, outputs: int) -> Units:
        """The function zero."""
        empty = np.zeros((0, features)), np.zeros(0), np.zeros((outputs, 0))
        return cls(*empty, np.zeros((outputs, features)), np.zeros(outputs))

    def __len__(self) -> int:
        """Number of units."""
        return len(self.W)

    def z(self, X: Array) -> Array:
        """What goes into the units: (n, units)."""
        return np.asarray(X @ self.W.T + self.b)

    def sizes(self, X: Array) -> Array:
        """What rounding of the values is relative to: these, and all that they are sums of."""
        terms = (np.abs(self.z(X)) @ np.abs(self.A).T).max(axis=1)
        return np.asarray(np.abs(self(X)).max(axis=1) + terms)

    @property
    def affine(self) -> Array:
        """The linear part, then the linear function of every unit that is on.

        (1 + units, outputs, features + 1).
        """
        rest = np.column_stack([self.linear, self.constant])[None]
        own = np.einsum("om,md->mod", self.A, np.column_stack([self.W, self.b]))
        return np.concatenate([rest, own])

    def pattern(self, X: Array) -> Array:
        """What of `affine` makes up the function at each point: (n, 1 + units) of 0 and 1."""
        return np.column_stack([np.ones(len(X)), self.z(X) > 0])

    def with_affine(self, affine: Array) -> Units:
        """Other linear functions, the nearest of rank 1 for every unit; every unit's side stays."""
        W, b, A = self.W.copy(), self.b.copy(), self.A.copy()
        for i, own in enumerate(affine[1:]):
            W[i], b[i], A[:, i] = factored(own[:, :-1], own[:, -1], self.W[i])
        return Units(W, b, A, affine[0, :, :-1], affine[0, :, -1])

    def scaled(self, factors: Array) -> Units:
        """Every output times a factor of its own."""
        A, linear = factors[:, None] * self.A, factors[:, None] * self.linear
        return Units(self.W, self.b, A, linear, factors * self.constant)

    def keep(self, units: AnyArray) -> Units:
        """Some of the units (a mask or indices); the linear part stays."""
        return Units(self.W[units], self.b[units], self.A[:, units], self.linear, self.constant)

    def __add__(self, other: Units) -> Units:
        """Both together; units with the same hyperplane are one."""
        W, b = np.vstack([self.W, other.W]), np.append(self.b, other.b)
        A = np.hstack([self.A, other.A])
        linear, constant = self.linear + other.linear, self.constant + other.constant
        return _merged(Units(W, b, A, linear, constant))


def binary_scale(sizes: Array) -> Array:
    """The power of two next to each size, by which numbers are scaled without rounding; 1 for 0."""
    return np.asarray(np.exp2(np.round(np.log2(np.where(sizes > 0, sizes, 1.0)))))


def factored(J: Array, c: Array, side: Array) -> tuple[Array, float, Array]:
    """`J x + c = a (w.x + b)` for a unit vector w on the given side: w, b and a."""
    left, size, right = np.linalg.svd(J, full_matrices=False)
    sign = 1.0 if right[0] @ side > 0 else -1.0
    b = sign * float(left[:, 0] @ c / size[0]) if size[0] > 0 else 0.0
    w = sign * right[0]
    return w, b, np.asarray(J @ w)  # an output that is zero stays zero


def _merged(units: Units) -> Units:
    """Units with the same hyperplane as one; those that cancel each other are gone."""
    W, b, A = units.W, units.b, units.A.copy()
    linear, constant = units.linear.copy(), units.constant.copy()
    size = np.linalg.norm(A, axis=0)
    kept: list[int] = []
    for i in range(len(W)):
        same, sign = _same_hyperplane(W, b, i, kept)
        if same is None:
            kept.append(i)
            continue
        A[:, same] += A[:, i]
        if sign < 0:  # relu(-z) = relu(z) - z
            linear -= np.outer(A[:, i], W[same])
            constant -= A[:, i] * b[same]
    kept = [i for i in kept if np.linalg.norm(A[:, i]) > CANCELLED * size[i]]
    return Units(W, b, A, linear, constant).keep(np.array(kept, dtype=int))


def _same_hyperplane(W: Array, b: Array, i: int, kept: list[int]) -> tuple[int | None, float]:
    for j in kept:
        sign = 1.0 if W[i] @ W[j] > 0 else -1.0
        apart = np.abs(np.append(W[i] - sign * W[j], b[i] - sign * b[j])).max()
        if apart < SAME_UNIT * (1 + abs(b[i])):
            return j, sign
    return None, 1.0


@dataclass(frozen=True)
class Pieces:
    """What was measured: near `X[i]` the function is `gradients[i] . x + constants[i]`."""

    X: Array
    gradients: Array
    """(pieces, outputs, features)."""
    constants: Array
    """(pieces, outputs)."""
    errors: Array
    """How far rounding lets an entry of each gradient be off."""
    believed: AnyArray
    lengths: Array
    """What the error of a value is divided by to be that of an entry."""
    missed: Array
    """Errors of values as they were met: of a step along the line that the gradient predicts, over
    what it has of them. NaN where none was taken."""

    @property
    def affine(self) -> Array:
        """Gradients and constants together: (pieces, outputs, features + 1)."""
        return np.concatenate([self.gradients, self.constants[:, :, None]], axis=2)

    def __add__(self, other: Pieces) -> Pieces:
        """All of both."""
        return Pieces(
            np.concatenate([self.X, other.X]),
            np.concatenate([self.gradients, other.gradients]),
            np.concatenate([self.constants, other.constants]),
            np.append(self.errors, other.errors),
            np.append(self.believed, other.believed),
            np.append(self.lengths, other.lengths),
            np.append(self.missed, other.missed),
        )

    def __getitem__(self, rows: AnyArray | slice) -> Pieces:
        """Some of them."""
        return Pieces(
            self.X[rows],
            self.gradients[rows],
            self.constants[rows],
            self.errors[rows],
            self.believed[rows],
            self.lengths[rows],
            self.missed[rows],
        )

    @classmethod
    def known_at(cls, x: Array, units: Units) -> Pieces:
        """What units that are known make near a point."""
        own = np.einsum("nm,mod->nod", units.pattern(x[None]), units.affine)
        known = np.zeros(1), np.ones(1, dtype=bool), np.full(1, np.inf), np.full(1, np.nan)
        return cls(x[None], own[:, :, :-1], own[:, :, -1], *known)

    def without(self, known: Units) -> Pieces:
        """The same for what known units leave of the function."""
        less = np.einsum("nm,mod->nod", known.pattern(self.X), known.affine)
        gradients, constants = self.gradients - less[:, :, :-1], self.constants - less[:, :, -1]
        return replace(self, gradients=gradients, constants=constants)
