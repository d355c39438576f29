"""A large symmetric matrix and its inverse, in the place of one square.

H is added up in the lower half of the square. In the upper half

    S P H P S = T^T T,    R = T^-1,    H^-1 = P S R R^T S P,

P are reflections, each of a few rows, that turn given vectors into axes, which are left out: H is
inverted at right angles to these vectors. S makes the diagonal one. Both diagonals are kept beside
the square, so that p parameters take `8 p^2` bytes, and half of that, and half of the time, in
single precision.

What rounding lets H say of a direction that no sample tells is a ridge on its diagonal: there the
diagonal that it begins with, which is what was known before, says how large the variance is.

A few more rows D in H make the inverse C

    C - U^T U,    U = (1 + Lambda)^-1/2 V^T D C,    D C D^T = V Lambda V^T.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from provenet.common.blocks import row_blocks
from provenet.common.typing import AnyArray, Array
from provenet.fitting.tolerances import (
    HIDDEN_BY_RIDGE,
    LARGEST,
    LARGEST_STEPS,
    MIRRORED_ROWS,
    MORE_ROWS,
    RIDGE_ATTEMPTS,
    RIDGE_GROWTH,
    ROUNDED_AWAY,
)
from provenet.networks.tolerances import TINY

Reflection = tuple[slice, Array]
"""Some rows, and v: `1 - 2 v v^T` of these turns a vector into the first of their axes."""


def reflection(start: int, w: Array) -> Reflection:
    """The one for a vector whose entries begin at a row."""
    v = w.copy()
    v[0] += np.copysign(np.linalg.norm(w), w[0])
    size = float(np.linalg.norm(v))
    return slice(start, start + len(w)), v / size if size else v


@dataclass
class LargeMatrix:
    """A sum of products, positive definite by the diagonal that it begins with."""

    diagonal: Array
    dtype: type[np.floating] = np.float64
    square: AnyArray = field(init=False, repr=False)
    held: Array = field(init=False, repr=False)
    """The diagonal that it begins with."""

    def __post_init__(self) -> None:
        """Nothing is added yet."""
        self.square = np.zeros(2 * (len(self.diagonal),), self.dtype, order="F")
        self.held = self.diagonal.copy()

    def add(self, D: AnyArray) -> None:
        """`D^T D`; an inverse that was formed before is that of the matrix before."""
        np.fill_diagonal(self.square, self.diagonal)
        syrk, D = get_blas_funcs("syrk", (self.square,)), D.astype(self.dtype, copy=False)
        syrk(1.0, D.T, beta=1.0, c=self.square, lower=1, overwrite_c=1)
        self.diagonal = np.diag(self.square).astype(float)

    def inverse(self, left_out: list[Reflection], ridge: float) -> LargeInverse:
        """At right angles to some vectors; a ridge is added to the diagonal, scaled to one."""
        potrf, trtri = get_lapack_funcs(("potrf", "trtri"), (self.square,))
        for attempt in range(RIDGE_ATTEMPTS):
            scale = self._turned(left_out)
            added = ridge * RIDGE_GROWTH**attempt
            self.square[np.diag_indices(len(scale))] = 1 + added
            _, failed = potrf(self.square, lower=0, clean=0, overwrite_a=1)
            if not failed:
                break
        else:
            raise np.linalg.LinAlgError("no multiple of the identity makes the matrix definite")
        trtri(self.square, lower=0, overwrite_c=1)
        return LargeInverse.of(self.square, scale, left_out).with_hidden(self.held, added)

    def _turned(self, left_out: list[Reflection]) -> Array:
        """The upper half becomes `S P H P S`; the diagonal of S, zero for what is left out."""
        A = self.square
        np.fill_diagonal(A, self.diagonal)
        for rows in row_blocks(len(A), MIRRORED_ROWS):
            A[: rows.start, rows] = A[rows, : rows.start].T
            _set_upper(A, rows, A[rows, rows].T)
        for own, v in left_out:
            block = np.triu(A[own, own]) + np.triu(A[own, own], 1).T
            block -= 2 * np.outer(v, v @ block)
            block -= 2 * np.outer(block @ v, v)
            _set_upper(A, own, block)
            A[: own.start, own] -= 2 * np.outer(A[: own.start, own] @ v, v)
            A[own, own.stop :] -= 2 * np.outer(v, v @ A[own, own.stop :])
        diagonal = np.diag(A)
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scale[[own.start for own, _ in left_out]] = 0.0
        for rows in row_blocks(len(A), MIRRORED_ROWS):
            A[: rows.start, rows] *= scale[: rows.start, None] * scale[rows]
            _set_upper(A, rows, A[rows, rows] * scale[rows, None] * scale[rows])
        return np.asarray(scale)


def _set_upper(A: AnyArray, rows: slice, block: AnyArray) -> None:
    """The upper half of a block on the diagonal, the diagonal included."""
    A[rows, rows] = np.triu(block) + np.tril(A[rows, rows], -1)


@dataclass(frozen=True)
class LargeInverse:
    """`C + G^T G - U^T U`, until the matrix is inverted again."""

    square: AnyArray
    """R in the upper half."""
    diagonal: Array
    """Of R."""
    scale: Array
    left_out: list[Reflection]
    variances: Array
    """The inverse's own diagonal."""
    hidden: Array
    """G, what a ridge hides."""
    less: tuple[Array, ...] = ()
    """U, a part for all rows that came together."""

    @classmethod
    def of(cls, square: AnyArray, scale: Array, left_out: list[Reflection]) -> LargeInverse:
        """With R in the upper half of a square."""
        variances = _variances(square, scale, left_out)
        hidden = np.empty((0, len(scale)))
        return cls(square, np.diag(square).astype(float), scale, left_out, variances, hidden)

    def with_hidden(self, held: Array, ridge: float) -> LargeInverse:
        """With what a ridge hides: of directions that no sample tells, all that was held."""
        inside = self.scale > 0
        scaled = float(np.sum(self.variances[inside] / self.scale[inside] ** 2))
        if ridge == 0 or scaled < HIDDEN_BY_RIDGE / ridge:
            return self
        D, size = self.largest()
        true = 1 / np.maximum(held @ D**2, TINY)
        more = np.where(size > HIDDEN_BY_RIDGE / ridge, true - size, 0.0)
        hidden = (D[:, more > 0] * np.sqrt(more[more > 0])).T
        return replace(self, hidden=hidden, variances=self.variances + np.sum(hidden**2, axis=0))

    @property
    def rank(self) -> int:
        """How many directions are not left out."""
        return len(self.scale) - len(self.left_out)

    def takes(self, rows: int) -> bool:
        """Whether so many more rows are better taken than the matrix inverted again.

        Where a ridge hid something, they may tell it from far more than rounding leaves.
        """
        number = rows + sum(map(len, self.less))
        return len(self.hidden) == 0 and number <= MORE_ROWS * self.rank

    def times(self, B: Array) -> Array:
        """The inverse times columns."""
        return self.damped(B) + self.hidden.T @ (self.hidden @ B)

    def damped(self, B: Array) -> Array:
        """The same without what a ridge hides: a step there would be rounding."""
        np.fill_diagonal(self.square, self.diagonal)
        turned = self.scale[:, None] * self._reflected(B)
        found = self._unscaled(self._root_times(turned, trans_a=1))
        for U in self.less:
            found -= U.T @ (U @ B)
        return found

    def draws(self, normals: Array) -> Array:
        """Rows with the covariance `C + G^T G` from rows of independent standard normal numbers."""
        np.fill_diagonal(self.square, self.diagonal)
        few = normals[:, ::-1][:, : len(self.hidden)]  # as good as independent of the others
        return np.asarray(self._unscaled(normals.T).T) + few @ self.hidden

    def with_rows(self, D: Array) -> LargeInverse:
        """With more rows in the matrix, those left out that only rounding tells from others.

        What is left of a variance after too many orders of magnitude is rounding: it stays there.
        """
        moved = self.times(D.T).T
        size, V = np.linalg.eigh(moved @ D.T)
        new = size > ROUNDED_AWAY * max(float(size.max(initial=0.0)), TINY)
        if not new.any():
            return self
        U = (V.T[new] @ moved) / np.sqrt(1 + size[new])[:, None]
        left = self.variances - np.sum(U**2, axis=0)
        variances = np.maximum(left, ROUNDED_AWAY * self.variances)
        return replace(self, variances=variances, less=(*self.less, U))

    def largest(self) -> tuple[Array, Array]:
        """Some directions in which the inverse, its rows scaled, is large, and how large."""
        np.fill_diagonal(self.square, self.diagonal)
        kept, few = self.scale > 0, min(LARGEST, self.rank)
        Q = np.random.default_rng(0).standard_normal((len(kept), few)) * kept[:, None]
        for _ in range(LARGEST_STEPS):
            Q = np.linalg.qr(Q)[0]
            B = self._root_times(Q, trans_a=1)
            Q, before = self._root_times(B) * kept[:, None], Q
        size, V = np.linalg.eigh(B.T @ B)
        return self._reflected(self.scale[:, None] * (before @ V)), size

    def _unscaled(self, B: Array) -> Array:
        return self._reflected(self.scale[:, None] * self._root_times(B))

    def _root_times(self, B: Array, trans_a: int = 0) -> Array:
        """R, or its transpose, times columns, whose sizes may be beyond single precision."""
        size = np.ldexp(1.0, np.frexp(np.abs(B).max(axis=0, initial=0.0))[1])
        trmm = get_blas_funcs("trmm", (self.square,))
        return np.asarray(size * trmm(1.0, self.square, B / size, trans_a=trans_a))

    def _reflected(self, B: Array) -> Array:
        B = B.copy()
        for own, v in self.left_out:
            B[own] -= 2 * np.outer(v, v @ B[own])
        return B


def _variances(square: AnyArray, scale: Array, left_out: list[Reflection]) -> Array:
    """The diagonal of C, a few rows at a time."""
    found, done = np.empty(len(scale)), 0
    nothing = slice(len(scale), len(scale)), np.empty(0)
    for own, v in [*left_out, nothing]:
        for rows in (slice(done, own.start), own):
            block = np.triu(square[rows, rows.start :]) * scale[rows, None]
            if rows is own:
                block -= 2 * np.outer(v, v @ block)
            found[rows] = np.einsum("ij,ij->i", block, block)
        done = own.stop
    return found
