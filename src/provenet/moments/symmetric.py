"""Symmetric tensors of any order by their distinct entries.

An entry belongs to a monomial: exponents (e_1, .., e_d) of degree k, one of `k! / (e_1! .. e_d!)`
equal entries of the full tensor. *Isometric* coordinates scale an entry by the root of that number,
so that inner products are those of full tensors; `w^(x)k` has the coordinates `powers(w, k)`, and
`<powers(v, k), powers(w, k)> = <v, w>^k`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from scipy.special import gammaln

from provenet.common.typing import AnyArray, Array
from provenet.moments.tolerances import CUT_OFF


def count(d: int, k: int) -> int:
    """Distinct entries of a symmetric tensor of order k."""
    return comb(d + k - 1, k)


@cache
def places(d: int, k: int) -> AnyArray:
    """The indices of every distinct entry, rising, (count, k)."""
    rows = list(combinations_with_replacement(range(d), k))
    return np.array(rows, dtype=np.intp).reshape(len(rows), k)


@cache
def exponents(d: int, k: int) -> AnyArray:
    """The exponents of every distinct entry, (count, d)."""
    index = places(d, k)
    out = np.zeros((len(index), d), dtype=np.intp)
    for column in index.T:
        out[np.arange(len(index)), column] += 1
    return out


def multiplicities(e: AnyArray) -> Array:
    """How often each entry stands in the full tensor."""
    return np.asarray(np.round(np.exp(gammaln(e.sum(axis=1) + 1) - gammaln(e + 1).sum(axis=1))))


def monomials(X: Array, k: int) -> Array:
    """The products of k coordinates of every row of X, (n, count)."""
    index = places(X.shape[1], k)
    out = np.ones((len(X), len(index)))
    for column in index.T:
        out *= X[:, column]
    return out


def powers(W: Array, k: int) -> Array:
    """`w^(x)k` for every row w, in isometric coordinates, (m, count)."""
    return monomials(W, k) * np.sqrt(multiplicities(exponents(W.shape[1], k)))


def positions(e: AnyArray) -> AnyArray:
    """Where entries with these exponents (.., d), all of one degree, stand among the distinct.

    Before an entry stand, for every feature j, those that agree with it before j and have more of
    j: with r the degree that is left after j, as many as entries of degree r - 1 from j on.
    """
    d, k = e.shape[-1], int(e.reshape(-1, e.shape[-1])[0].sum())
    before = np.array([[0, *(count(d - j, r) for r in range(k))] for j in range(d)])
    left, out = np.full(e.shape[:-1], k), np.zeros(e.shape[:-1], dtype=np.intp)
    for j in range(d):
        left = left - e[..., j]
        out += before[j][left]
    return out


@dataclass(frozen=True)
class SymmetricTensor:
    """A tensor of `order` over `d` dimensions."""

    d: int
    order: int
    entries: Array
    """Distinct ones, in the order of `places`."""

    @classmethod
    def of_dense(cls, T: Array) -> SymmetricTensor:
        """The distinct entries of a full symmetric tensor."""
        return cls(len(T), T.ndim, T[tuple(places(len(T), T.ndim).T)])

    @classmethod
    def of_terms(cls, coefficients: Array, W: Array, k: int) -> SymmetricTensor:
        """`sum_i coefficients_i w_i^(x)k`."""
        return cls(W.shape[1], k, coefficients @ monomials(W, k))

    @property
    def isometric(self) -> Array:
        """Isometric coordinates."""
        scale = np.sqrt(multiplicities(exponents(self.d, self.order)))
        return np.asarray(self.entries * scale)

    def along(self, W: Array) -> Array:
        """`T(w, .., w)` for every row w."""
        return np.asarray(powers(W, self.order) @ self.isometric)

    def coefficients(self, W: Array) -> Array:
        """Least-squares `zeta` with `T = sum_i zeta_i w_i^(x)k`."""
        gram = (W @ W.T) ** self.order
        return np.asarray(np.linalg.lstsq(gram, self.along(W), rcond=CUT_OFF)[0])

    def flattened(self, left: int, middle: int) -> Array:
        """The tensor as an array of three symmetric ones: orders left, middle and what is left.

        Isometric in each.
        """
        rest = self.order - left - middle
        parts = [exponents(self.d, k) for k in (left, middle, rest)]
        total = parts[0][:, None, None] + parts[1][None, :, None] + parts[2]
        a, b, c = (np.sqrt(multiplicities(e)) for e in parts)
        scale = a[:, None, None] * b[None, :, None] * c
        return np.asarray(self.entries[positions(total)] * scale)


def direction_of(u: Array, d: int, k: int) -> Array:
    """The unit vector w whose power `w^(x)k` is nearest to isometric coordinates u, up to sign."""
    if k == 1:
        return np.asarray(u / np.linalg.norm(u))
    scale = np.sqrt(multiplicities(exponents(d, k)))
    first, rest = exponents(d, 1), exponents(d, k - 1)
    full = (u / scale)[positions(first[:, None] + rest)] * np.sqrt(multiplicities(rest))
    return np.asarray(np.linalg.svd(full, full_matrices=False)[0][:, 0])
