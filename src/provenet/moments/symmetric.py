"""Symmetric tensors of any order by their distinct entries.

The indices of a distinct entry rise; entries are in the lexicographic order of `places`. An entry
whose indices occur e_1, .., e_d times appears `k! / (e_1! .. e_d!)` times in the full tensor, its
multiplicity. *Isometric* coordinates scale it by the root of that number, so that inner products
are those of full tensors: `w^(x)k` has the coordinates `powers(w, k)`, and
`<powers(v, k), powers(w, k)> = <v, w>^k`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import permutations
from math import comb

import numpy as np

from provenet.common.typing import AnyArray, Array


def count(d: int, k: int) -> int:
    """Distinct entries of a symmetric tensor of order k."""
    return comb(d + k - 1, k)


@lru_cache(maxsize=16)
def _extension(d: int, k: int) -> tuple[AnyArray, AnyArray]:
    """How many entries of order k extend each entry of order k - 1, and their last indices."""
    if k == 1:
        return np.array([d]), np.arange(d)
    more = d - _extension(d, k - 1)[1]  # the last index goes on from the one before it
    ends = np.cumsum(more)
    return more, np.arange(ends[-1]) - np.repeat(ends - d, more)


@lru_cache(maxsize=16)
def places(d: int, k: int) -> AnyArray:
    """The indices of every distinct entry, rising, (count, k)."""
    if k == 0:
        return np.empty((1, 0), dtype=np.intp)
    more, last = _extension(d, k)
    return np.column_stack([np.repeat(places(d, k - 1), more, axis=0), last])


def positions(index: AnyArray, d: int) -> AnyArray:
    """The rows of `places` that hold these rising indices (.., k).

    The rows before an entry's are those that agree with it up to place p and are smaller there.
    """
    k = index.shape[-1]
    out = np.zeros(index.shape[:-1], dtype=np.intp)
    previous = np.zeros_like(out)
    for p in range(k):
        from_here = np.array([count(d - v, k - p) for v in range(d)])
        out += from_here[previous] - from_here[index[..., p]]
        previous = index[..., p]
    return out


@lru_cache(maxsize=16)
def _pairs(d: int) -> AnyArray:
    """The distinct entry at each place of a symmetric matrix."""
    return positions(np.sort(np.moveaxis(np.indices((d, d)), 0, -1)), d)


@lru_cache(maxsize=16)
def multiplicities(d: int, k: int) -> Array:
    """How often each distinct entry appears in the full tensor."""
    index = places(d, k)
    out, run = np.ones(len(index)), np.ones(len(index))
    for p in range(1, k):
        run = np.where(index[:, p] == index[:, p - 1], run + 1, 1)
        out = out * (p + 1) / run
    return out


def monomials(X: Array, k: int) -> Array:
    """The products of k coordinates of every row of X, (n, count)."""
    coordinates, out = np.ascontiguousarray(X.T), np.ones((1, len(X)))
    for degree in range(1, k + 1):
        more, last = _extension(X.shape[1], degree)
        out = np.repeat(out, more, axis=0)
        out *= coordinates[last]
    return out.T


def powers(W: Array, k: int) -> Array:
    """`w^(x)k` for every row w, in isometric coordinates, (m, count)."""
    return monomials(W, k) * np.sqrt(multiplicities(W.shape[1], k))


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
        return float(np.sum(self.entries**2 @ multiplicities(self.d, self.order)))

    @property
    def isometric(self) -> Array:
        """Isometric coordinates."""
        return np.asarray(self.entries * np.sqrt(multiplicities(self.d, self.order)))

    def plus(self, entries: Array) -> SymmetricTensor:
        """The tensor with these distinct entries added."""
        return replace(self, entries=self.entries + entries)

    def coefficients(self, W: Array) -> Array:
        """Least-squares zeta with `T = sum_i zeta_i w_i^(x)k`, from `T(w_i, .., w_i)`.

        The normal equations need no tensor: `<v^(x)k, w^(x)k> = <v, w>^k`.
        """
        projections = powers(W, self.order) @ self.isometric
        gram = (W @ W.T) ** self.order
        return np.asarray(np.linalg.lstsq(gram, projections, rcond=1e-13)[0])

    def flattened(self, left: int, middle: int) -> Array:
        """The tensor as an array of three symmetric ones, isometric in each.

        The last has the order that `left` and `middle` leave.
        """
        orders = (left, middle, self.order - left - middle)
        parts = [places(self.d, k) for k in orders]
        rows = np.indices([len(part) for part in parts])
        index = [part[row] for part, row in zip(parts, rows, strict=True)]
        where = positions(np.sort(np.concatenate(index, axis=-1)), self.d)
        a, b, c = (np.sqrt(multiplicities(self.d, k)) for k in orders)
        return np.asarray(self.entries[where] * (a[:, None, None] * b[:, None] * c))

    def contracted(self, V: Array) -> Array:
        """`T(v, .., v, .)` for every row v, of orders 2 to 4."""
        T = monomials(V, min(self.order - 1, 2)) @ self._first_two
        if self.order < 4:
            return np.asarray(T)
        return np.asarray(np.einsum("nij,nj->ni", T[:, _pairs(self.d)], V))

    @cached_property
    def _first_two(self) -> Array:
        """Entries by their first two places (one at order 2), as often as they appear, and rest."""
        k = min(self.order - 1, 2)
        first, rest = places(self.d, k), places(self.d, self.order - k)
        index = [np.repeat(first, len(rest), axis=0), np.tile(rest, (len(first), 1))]
        where = positions(np.sort(np.hstack(index)), self.d).reshape(len(first), len(rest))
        return np.asarray(self.entries[where] * multiplicities(self.d, k)[:, None])


def nearest_direction(u: Array, d: int, k: int) -> Array:
    """The unit vector w whose power `w^(x)k` is nearest to isometric coordinates u, up to sign."""
    T = SymmetricTensor(d, k, u / np.sqrt(multiplicities(d, k)))
    return np.asarray(np.linalg.svd(T.flattened(1, k - 1)[:, :, 0], full_matrices=False)[0][:, 0])
