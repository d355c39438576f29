"""Sums of `r v^(x)k`, k = 3 or 4, by distinct entries, as matrix products (ATV21, equation 6).

The coordinates are v = (1, u), so that every lower order is among the highest. At order 4, with
rows `r v_i v_j`, i <= j, and columns `v_k v_l`, k <= l, every distinct `sum r v_i v_j v_k v_l`,
i <= j <= k <= l, is found once where k >= j. So there is a matrix product for every few
neighbouring rows, with the columns from the first one's j on; they compute 1.11 times the
`binomial(d + 4, 4)` distinct numbers at d = 50, 1.18 times at 20, 1.6 times at 10.

A thread holds the rows and the columns of 2048 samples at a time in single precision, 8 d^2
kilobytes (21 MB at d = 50); besides its sums, 3 MB each at d = 50.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations
from math import comb

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import AnyArray, Array
from provenet.moments.tolerances import ROWS_A_PRODUCT, ROWS_IN_CACHE, SINGLE_PRECISION_FROM


class PackedProducts:
    """A running sum of the matrix products of `_groups`, and the room for their factors.

    New memory for every few samples would cost as much as the products: it has to be mapped first.
    """

    def __init__(self, d: int, order: int, shape: tuple[int, ...]) -> None:
        """For samples of d coordinates u, and labels of a shape."""
        if len(shape) > 1:
            raise ValueError("moments of several outputs go up to order 2")
        self.order, self.groups = order, _groups(d + 1, order)
        precision, few = _precision(shape[0]), min(shape[0], ROWS_IN_CACHE)
        self.v, self.weighted = np.empty((2, d + 1, few), precision)
        self.left, self.right = np.empty((2, comb(d + 2, 2), few), precision)
        self.products = [np.empty(_shape(*group), precision) for group in self.groups]
        self.totals = [np.zeros(product.shape) for product in self.products]

    @property
    def raw(self) -> tuple[Array]:
        """The sums, one after the other; `unpacked` tells them apart."""
        return (np.concatenate([total.ravel() for total in self.totals]),)

    def add(self, u: Array, r: Array) -> None:
        """The products of a few samples, u (d, n)."""
        # Factors are at most 1: no scale of labels or inputs overflows.
        largest, largest_r = max(_largest(u), 1.0), _largest(r) or 1.0
        v, weighted, left, right = (
            room[:, : len(r)] for room in (self.v, self.weighted, self.left, self.right)
        )
        v[0] = 1 / largest
        np.multiply(u, 1 / largest, out=v[1:], casting="same_kind")
        np.multiply(v, (r / largest_r).astype(v.dtype), out=weighted)
        left = products_by_last(v, weighted, left) if self.order == 4 else weighted
        right = distinct_products(v, v, right)
        scale = largest_r * largest**self.order
        for (rows, columns), product, total in zip(
            self.groups, self.products, self.totals, strict=True
        ):
            np.matmul(right[columns], left[rows].T, out=product)  # the longer one first
            total += np.multiply(product, scale, dtype=np.float64)


def _largest(values: Array) -> float:
    """The largest absolute value."""
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def _precision(samples: int) -> type[np.floating]:
    """Single precision for blocks of many samples.

    It rounds a mean by less than 1e-7 of a term; the sampling error is 1 / sqrt(n) of a term, far
    more for any n that can be read (at n = 1e5 the two differ by a factor of 1e6). Few samples cost
    nothing and are summed in double.
    """
    return np.float32 if samples >= SINGLE_PRECISION_FROM else np.float64


def _shape(rows: slice, columns: slice) -> tuple[int, int]:
    return columns.stop - columns.start, rows.stop - rows.start


@cache
def _groups(d: int, order: int) -> tuple[tuple[slice, slice], ...]:
    """Which rows (j), or (i, j) at order 4, are multiplied with which columns (k, l).

    A group has a few neighbouring rows and the columns with k from the first one's j on, so
    together they meet every i <= j <= k <= l.
    """
    last = _row_indices(d, order)[-1]
    pairs = comb(d + 1, 2)
    together = ROWS_A_PRODUCT * max(d // ROWS_A_PRODUCT, 1)
    return tuple(
        (rows, slice(pairs - comb(d - int(last[rows.start]) + 1, 2), pairs))
        for rows in row_blocks(len(last), together)
    )


def _row_indices(d: int, order: int) -> tuple[AnyArray, ...]:
    """The indices (j), or (i, j) at order 4, of every row: j by j."""
    return (np.arange(d),) if order == 3 else np.tril_indices(d)[::-1]


def unpacked(packed: Array, d: int, order: int) -> list[Array]:
    """The raw moments of u of every order, dense, from the packed ones of v = (1, u)."""
    T = np.empty((d + 1,) * order)
    row_indices = _row_indices(d + 1, order)
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
    return [T[(0,) * (order - k) + (inside,) * k] for k in range(order + 1)]


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
