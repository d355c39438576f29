"""Hermite moments of the labels as sums that merge (ATV21, equation 6).

`T_k = E[y He_k(z)]` for standardised inputs z. Two things make the estimates far better than the
plain mean:

*Control variates.* Hermite polynomials of different order are orthogonal, so y may be replaced by
`r = y - T_0 - <T_1, z> - <T_2, z z^T - I> / 2`, what the lower orders have not explained, without
changing `T_3` or `T_4`; only the variance falls.

*Projection.* `T_3` and `T_4` are built inside the span of the units alone (u = B z, few
coordinates), so their cost is in units^4, not features^4.

The sums over one block of samples are matrix products. At order 4 the coordinates are v = (1, u),
so that the third order is among the fourth. With rows `r v_i v_j`, i <= j, and columns `v_k v_l`,
k <= l, every distinct `sum r v_i v_j v_k v_l`, i <= j <= k <= l, is found once where k >= j. So
there is a matrix product for every few neighbouring j, with the columns from the first of them on;
at d = 50 they compute 1.06 times the `binomial(d + 4, 4)` distinct numbers.

A thread holds the rows and the columns of 2048 samples at a time in single precision, 8 d^2
kilobytes (21 MB at d = 50); besides its sums, 3 MB each at d = 50.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, combinations, permutations
from math import comb

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import AnyArray, Array
from provenet.data.sources.base import LARGEST_BLOCK, Source
from provenet.data.standardisation import Standardisation
from provenet.data.sums import Sums
from provenet.data.tolerances import ROWS_AT_ONCE
from provenet.moments.hermite_tensors import tensor_norm_squared

_SINGLE_PRECISION_FROM = 1000
"""Samples in a block from which its products of order 3 and 4 are made in single precision."""
_ROWS_IN_CACHE = 2048
"""Samples whose factors are formed at once."""
_MANY_FEATURES = 128
"""Up to so many the factors of a large block fit into the cache."""
_ROWS_A_PRODUCT = 32
"""A matrix product of fewer rows is slow; one of more rows computes more entries twice."""


Shares = Callable[[Array, Array], tuple[Array, Array]]
"""Of samples X, y their coordinates u and weights r: a moment is the mean of `r He(u)`."""


@dataclass(frozen=True)
class MomentRequest:
    """Which moments are wanted, in which coordinates.

    `basis` (rows orthonormal) spans the subspace in which the tensors are built, None for all of
    the space. `quadratic` is `T_2` in these coordinates when it is to be used as a control variate.
    """

    standardisation: Standardisation
    order: int
    basis: Array | None = None
    quadratic: Array | None = None

    def residual(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Coordinates u of the samples, and the labels less their lower orders."""
        s = self.standardisation
        x = X - s.mean
        project = s.whiten if self.basis is None else self.basis @ s.whiten
        linear = np.atleast_2d(s.linear @ s.whiten)
        both = x @ np.concatenate([project, linear]).T
        u, predicted = both[:, : len(project)], both[:, len(project) :]
        r = y - s.label_mean - predicted.reshape(y.shape)
        if self.quadratic is not None:
            r -= 0.5 * (np.einsum("ni,ni->n", u @ self.quadratic, u) - np.trace(self.quadratic))
        return u, r


@dataclass(frozen=True)
class Moments:
    """Estimated `T_0 .. T_order` and the root mean square error of an entry of each.

    With several outputs, one tensor an output, stacked in front (up to order 2 from samples).
    """

    tensors: tuple[Array, ...]
    errors: tuple[float, ...]
    samples: int | None


@dataclass(frozen=True)
class MomentSums(Sums):
    """Sums of `r u^(x)k` for k = 0 .. order, and of `r^2 ||He_k(u)||^2` for their errors."""

    n: int
    raw: tuple[Array, ...]
    """The sums of r, r u, r u u^T and, from order 3, `_packed_products`."""
    squares: Array

    @classmethod
    def of(cls, request: MomentRequest, X: Array, y: Array) -> MomentSums:
        """The sums over one block of samples."""
        u, r = request.residual(X, y)
        d, orders = u.shape[1], range(request.order + 1)
        raw = [r.sum(axis=0), r.T @ u, _second_products(u, r)]
        if request.order > 2:
            raw.append(_packed_products(u, r, request.order))
        norms = np.einsum("ni,ni->n", u, u)
        size = r**2 if r.ndim == 1 else np.sum(r**2, axis=1)
        squares = np.array([size @ tensor_norm_squared(k, norms, d) for k in orders])
        return cls(len(r), tuple(raw[: request.order + 1]), squares)

    def finish(self, request: MomentRequest) -> Moments:
        """Hermite moments and their sampling errors from the sums."""
        raw = [np.asarray(m / self.n) for m in self.raw]
        if request.order > 2:
            raw[3:] = _unpacked_products(raw[3], raw[1].size, request.order)
        tensors = _hermite_from_raw(raw)
        variances = [
            max(self.squares[k] / self.n - np.sum(T**2), 0.0) / T.size
            for k, T in enumerate(tensors)
        ]
        # What was taken off the labels is put back: it is the estimate of the lower orders.
        s = request.standardisation
        tensors[0] = s.label_mean
        tensors[1] = s.linear if request.basis is None else s.linear @ request.basis.T
        variances[0] = s.label_spread**2
        if request.quadratic is not None:
            tensors[2] = request.quadratic
        errors = tuple(float(np.sqrt(v / self.n)) for v in variances)
        return Moments(tuple(tensors), errors, self.n)


def sampled_moments(source: Source, request: MomentRequest) -> Moments:
    """The moments of the samples, in one pass."""
    rows = LARGEST_BLOCK if source.features <= _MANY_FEATURES else ROWS_AT_ONCE
    return source.total(partial(MomentSums.of, request), rows).finish(request)


def _second_products(u: Array, r: Array) -> Array:
    """`sum r u u^T`, (d, d), or one for every output, (outputs, d, d)."""
    if r.ndim == 1:
        product = (u * r[:, None]).T @ u
        return np.asarray((product + product.T) / 2)  # symmetric to the last digit
    v = np.ascontiguousarray(u.T)
    distinct = (distinct_products(v, v) @ r).T
    return np.asarray(distinct[:, _pair_index(len(v))])


def pair_products(V: Array) -> Array:
    """Columns `v_i v_j`, i <= j, of the rows of V: few of them, or a block."""
    rows, columns = np.triu_indices(V.shape[1])
    return np.asarray(V[:, rows] * V[:, columns])


def distinct_products(v: Array, scaled: Array, out: Array | None = None) -> Array:
    """Rows `v_i * scaled_j` for i <= j, in the order of `numpy.triu_indices`."""
    d, n = v.shape
    q = np.empty((d * (d + 1) // 2, n), v.dtype) if out is None else out
    start = 0
    for i in range(d):
        np.multiply(v[i], scaled[i:], out=q[start : start + d - i])
        start += d - i
    return q


def products_by_last(v: Array, scaled: Array, out: Array | None = None) -> Array:
    """Rows `v_i * scaled_j` for i <= j, in the order of `numpy.tril_indices`: j by j."""
    d, n = v.shape
    q = np.empty((d * (d + 1) // 2, n), v.dtype) if out is None else out
    start = 0
    for j in range(d):
        np.multiply(v[: j + 1], scaled[j], out=q[start : start + j + 1])
        start += j + 1
    return q


# ---------------------------------------------------------------- orders 3 and 4


def _packed_products(u: Array, r: Array, order: int) -> Array:
    """`sum r v^(x)order` of v = (1, u): the matrix products of `_groups`, one after the other."""
    if r.ndim > 1:
        raise ValueError("moments of several outputs go up to order 2")
    # Factors are at most 1: no scale of labels or inputs overflows.
    largest, largest_r = max(_largest(u), 1.0), _largest(r) or 1.0
    products = _Products(u.shape[1] + 1, order, _precision(len(r)))
    for rows in row_blocks(len(r), _ROWS_IN_CACHE):
        products.add(u[rows], r[rows] / largest_r, 1 / largest)
    return products.total * (largest_r * largest**order)


def _largest(values: Array) -> float:
    """The largest absolute value."""
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def _precision(samples: int) -> type[np.floating]:
    """Single precision for blocks of many samples.

    It rounds a mean by less than 1e-7 of a term; the sampling error is 1 / sqrt(n) of a term, far
    more for any n that can be read (at n = 1e5 the two differ by a factor of 1e6). Few samples cost
    nothing and are summed in double.
    """
    return np.float32 if samples >= _SINGLE_PRECISION_FROM else np.float64


class _Products:
    """A running sum of the matrix products of `_groups`, and the room for their factors.

    New memory for every block would cost as much as the products: it has to be mapped first.
    """

    def __init__(self, d: int, order: int, precision: type[np.floating]) -> None:
        pairs = d * (d + 1) // 2
        self.order, self.groups = order, list(_groups(d, order))
        self.v = np.empty((d, _ROWS_IN_CACHE), precision)
        self.left, self.right = np.empty((2, pairs, _ROWS_IN_CACHE), precision)
        sizes = [(a.stop - a.start) * (b.stop - b.start) for a, b in self.groups]
        self.places = [
            slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)
        ]
        self.total = np.zeros(sum(sizes))

    def add(self, u: Array, r: Array, one: float) -> None:
        """The products of a few samples, in coordinates `one * (1, u)` with weights r."""
        n = len(u)
        v = self.v[:, :n]
        v[0] = one
        np.multiply(u.T, one, out=v[1:], casting="same_kind")
        left = v * r.astype(v.dtype)
        if self.order == 4:
            left = products_by_last(v, left, self.left[:, :n])
        right = distinct_products(v, v, self.right[:, :n])
        for (rows, columns), place in zip(self.groups, self.places, strict=True):
            self.total[place] += (right[columns] @ left[rows].T).ravel()  # the longer one first


def _groups(d: int, order: int) -> Iterator[tuple[slice, slice]]:
    """Which rows (j), or (i, j) at order 4, are multiplied with which columns (k, l).

    A group has the rows of a few neighbouring j and the columns with k from the first of these on,
    so together they meet every i <= j <= k <= l.
    """
    first = 0
    for end in range(1, d + 1):
        # binomial(j + order - 3, order - 2) rows come before those of j.
        rows = slice(comb(first + order - 3, order - 2), comb(end + order - 3, order - 2))
        if rows.stop - rows.start >= _ROWS_A_PRODUCT or end == d:
            yield rows, slice(comb(d + 1, 2) - comb(d - first + 1, 2), comb(d + 1, 2))
            first = end


def _unpacked_products(packed: Array, d: int, order: int) -> list[Array]:
    """The raw moments of order 3 (and 4) of u, dense, from the packed ones of v = (1, u)."""
    T = np.empty((d + 1,) * order)
    row_indices = (np.arange(d + 1),) if order == 3 else np.tril_indices(d + 1)[::-1]
    start = 0
    for rows, columns in _groups(d + 1, order):
        left = (index[rows] for index in row_indices)
        right = (index[columns, None] for index in np.triu_indices(d + 1))
        indices = np.broadcast_arrays(*left, *right)
        product = packed[start : start + indices[0].size].reshape(indices[0].shape)
        start += product.size
        # Entries with j > k are there a second time, up to rounding: one of the two is spread.
        once = indices[-3] <= indices[-2]
        for place in permutations([index[once] for index in indices]):
            T[place] = product[once]
    inside = slice(1, None)
    return [T[(0,) * (order - k) + (inside,) * k] for k in range(3, order + 1)]


def _hermite_from_raw(raw: list[Array]) -> list[Array]:
    """Hermite moments `E[r He_k]` from raw moments `E[r u^(x)k]` (see `hermite_tensors`)."""
    out = [m.copy() for m in raw]
    if len(raw) > 2:
        out[2] -= np.multiply.outer(raw[0], np.eye(raw[1].shape[-1]))
    for k in range(3, len(raw)):
        for pair in combinations(range(k), 2):
            _diagonal(out[k], pair)[...] -= raw[k - 2]
    if len(raw) > 4:
        for partner in (1, 2, 3):
            _diagonal(_diagonal(out[4], (0, partner)), (1, 2))[...] += raw[0]
    return out


def _diagonal(T: Array, places: tuple[int, int]) -> Array:
    """The entries of T with equal indices in two places, as a view; that index comes first."""
    return np.asarray(np.einsum("ii...->i...", np.moveaxis(T, places, (0, 1))))


def _pair_index(d: int) -> AnyArray:
    """Position of the product (i, j) among the distinct ones."""
    index = np.zeros((d, d), dtype=np.intp)
    rows, columns = np.triu_indices(d)
    index[rows, columns] = index[columns, rows] = np.arange(len(rows))
    return index
