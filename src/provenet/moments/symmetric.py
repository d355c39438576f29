"""Symmetric tensors of any order by their distinct entries.

A distinct entry is named by its indices in rising order; entries stand in the lexicographic order
of `places`. An entry whose indices occur e_1, .., e_d times stands `k! / (e_1! .. e_d!)` times in
the full tensor. *Isometric* coordinates scale it by the root of that number, so that inner products
are those of full tensors: `w^(x)k` has the coordinates `powers(w, k)`, and
`<powers(v, k), powers(w, k)> = <v, w>^k`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import comb

import numpy as np

from provenet.common.typing import AnyArray, Array


def count(d: int, k: int) -> int:
    """Distinct entries of a symmetric tensor of order k."""
    return comb(d + k - 1, k)


@lru_cache(maxsize=16)
def places(d: int, k: int) -> AnyArray:
    """The indices of every distinct entry, rising, (count, k)."""
    if k == 0:
        return np.empty((1, 0), dtype=np.intp)
    if k == 1:
        return np.arange(d)[:, None]
    shorter = places(d, k - 1)
    more = d - shorter[:, -1]  # the last index goes on from the one before it
    rows = np.repeat(np.arange(len(shorter)), more)
    last = np.arange(len(rows)) - np.repeat(np.cumsum(more) - d, more)
    return np.column_stack([shorter[rows], last])


def positions(index: AnyArray, d: int) -> AnyArray:
    """Where entries with these rising indices (.., k) stand in `places`.

    Before an entry stand those that agree with it up to place p and are smaller there.
    """
    k = index.shape[-1]
    out = np.zeros(index.shape[:-1], dtype=np.intp)
    previous = np.zeros_like(out)
    for p in range(k):
        from_here = np.array([count(d - v, k - p) for v in range(d)])
        out += from_here[previous] - from_here[index[..., p]]
        previous = index[..., p]
    return out


def multiplicities(index: AnyArray) -> Array:
    """How often entries with these rising indices (.., k) stand in the full tensor."""
    out, run = np.ones(index.shape[:-1]), np.ones(index.shape[:-1])
    for p in range(1, index.shape[-1]):
        run = np.where(index[..., p] == index[..., p - 1], run + 1, 1)
        out = out * (p + 1) / run
    return out


def monomials(X: Array, k: int) -> Array:
    """The products of k coordinates of every row of X, (n, count)."""
    index = places(X.shape[1], k)
    if k == 0:
        return np.ones((len(X), 1))
    out = X[:, index[:, 0]]
    for column in index.T[1:]:
        out *= X[:, column]
    return out


def powers(W: Array, k: int) -> Array:
    """`w^(x)k` for every row w, in isometric coordinates, (m, count)."""
    return monomials(W, k) * np.sqrt(multiplicities(places(W.shape[1], k)))


def term_coefficients(projections: Array, W: Array, k: int) -> Array:
    """Least-squares zeta with `T = sum_i zeta_i w_i^(x)k`, from `T(w_i, .., w_i)`.

    The normal equations need no tensor: `<v^(x)k, w^(x)k> = <v, w>^k`.
    """
    return np.asarray(np.linalg.lstsq((W @ W.T) ** k, projections, rcond=1e-13)[0])


@dataclass(frozen=True)
class SymmetricTensor:
    """A tensor of `order` over `d` dimensions."""

    d: int
    order: int
    entries: Array
    """The distinct ones; the tensors of several outputs are stacked in front."""

    @classmethod
    def of_dense(cls, T: Array) -> SymmetricTensor:
        """The distinct entries of a full symmetric tensor."""
        return cls(len(T), T.ndim, T[tuple(places(len(T), T.ndim).T)])

    @classmethod
    def of_terms(cls, coefficients: Array, W: Array, k: int) -> SymmetricTensor:
        """`sum_i coefficients_i w_i^(x)k`."""
        return cls(W.shape[1], k, coefficients @ monomials(W, k))

    @property
    def dense(self) -> Array:
        """The full tensor."""
        if self.order == 0:
            return np.asarray(self.entries[..., 0])
        T = np.empty((*self.entries.shape[:-1], *(self.d,) * self.order))
        for index in permutations(places(self.d, self.order).T):
            T[(..., *index)] = self.entries
        return T

    @property
    def squared_norm(self) -> float:
        """The sum of squares of all entries of the full tensor (of all outputs)."""
        return float(np.sum(self.entries**2 @ multiplicities(places(self.d, self.order))))

    @property
    def isometric(self) -> Array:
        """Isometric coordinates."""
        return np.asarray(self.entries * np.sqrt(multiplicities(places(self.d, self.order))))

    def coefficients(self, W: Array) -> Array:
        """Least-squares zeta with `T = sum_i zeta_i w_i^(x)k`."""
        return term_coefficients(powers(W, self.order) @ self.isometric, W, self.order)

    def flattened(self, left: int, middle: int) -> Array:
        """The tensor as an array of three symmetric ones, isometric in each.

        The last takes the order that `left` and `middle` leave.
        """
        parts = [places(self.d, k) for k in (left, middle, self.order - left - middle)]
        shape = tuple(len(part) for part in parts)
        rows = np.indices(shape)
        index = [part[row] for part, row in zip(parts, rows, strict=True)]
        where = positions(np.sort(np.concatenate(index, axis=-1)), self.d)
        a, b, c = (np.sqrt(multiplicities(part)) for part in parts)
        return np.asarray(self.entries[where] * (a[:, None, None] * b[:, None] * c))


def nearest_direction(u: Array, d: int, k: int) -> Array:
    """The unit vector w whose power `w^(x)k` is nearest to isometric coordinates u, up to sign."""
    T = SymmetricTensor(d, k, u / np.sqrt(multiplicities(places(d, k))))
    flat = T.flattened(1, k - 1)[:, :, 0]
    return np.asarray(np.linalg.svd(flat, full_matrices=False)[0][:, 0])


def symmetric_tensor(coefficients: Array, W: Array, k: int) -> Array:
    """`sum_i coefficients_i w_i^(x)k` as a full array.

    Coefficients (outputs, terms) give one tensor an output, stacked in front.
    """
    return SymmetricTensor.of_terms(coefficients, W, k).dense


class Contractions:
    """`T_3(v, v, .)` and `T_4(v, v, v, .)` for many v.

    Of the products `v_i v_j` only those with i <= j are formed, those with i < j counted twice: at
    order 4 a quarter of the dense work.
    """

    def __init__(self, T3: Array, T4: Array) -> None:
        """Keep the distinct entries."""
        d = len(T3)
        rows, columns = places(d, 2).T
        self.times = multiplicities(places(d, 2))
        self.T3 = T3[rows, columns]
        self.T4 = T4[rows, columns][:, rows, columns]
        self.pair = np.empty((d, d), dtype=np.intp)
        self.pair[rows, columns] = self.pair[columns, rows] = np.arange(len(rows))

    def third(self, V: Array) -> Array:
        """`T_3(v, v, .)` for every row v."""
        return np.asarray((monomials(V, 2) * self.times) @ self.T3)

    def fourth(self, V: Array) -> Array:
        """`T_4(v, v, v, .)` for every row v."""
        matrices = ((monomials(V, 2) * self.times) @ self.T4)[:, self.pair]
        return np.asarray(np.einsum("sij,sj->si", matrices, V))
