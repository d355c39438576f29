"""Sums of `r v^(x)k`, k = 3 or 4, by distinct entries, as matrix products (ATV21, equation 6).

The coordinates are v = (1, u), so that every lower order is among the highest. At order 4, with
rows `r v_i v_j`, i <= j, and columns `v_k v_l`, k <= l, every distinct `sum r v_i v_j v_k v_l`,
i <= j <= k <= l, is found once where k >= j. So there are matrix products for every eight
neighbouring rows, with the columns from the first one's j on; they compute 1.02 times the
`binomial(d + 4, 4)` distinct numbers at d = 50, 1.08 times at 20, 1.27 times at 10. The distinct
ones alone leave this module, j by j, however they were computed.

*Tiles.* A product is fastest if it is so small that its factors need not be arranged anew first: of
eight rows, some hundred columns and 512 samples. So columns are cut, and 2048 samples are four
products. Their rows are formed just before. A thread holds the columns of 2048 samples in single
precision, 4 d^2 kilobytes (11 MB at d = 50); besides its sums, 3 MB each at d = 50.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import permutations
from math import comb, isqrt

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import AnyArray, Array
from provenet.moments.tolerances import (
    BETWEEN_ROWS,
    ENTRIES_A_PRODUCT,
    ROWS_A_PRODUCT,
    ROWS_IN_CACHE,
    SAMPLES_A_PRODUCT,
    SINGLE_PRECISION_FROM,
    TABLES_KEPT,
)

_Product = tuple[AnyArray, AnyArray, AnyArray]
"""Both factors and where their product is put."""


class PackedProducts:
    """A running sum of the matrix products of `_groups`, and the room for their factors.

    New memory for every few samples would cost as much as the products: it has to be mapped first.
    """

    def __init__(self, d: int, order: int, shape: tuple[int, ...]) -> None:
        """For samples of d coordinates u, and labels of a shape."""
        if len(shape) > 1:
            raise ValueError("moments of several outputs go up to order 2")
        self.d, self.order, self.shape = d, order, shape
        self.deep = min(max(shape[0], 1), SAMPLES_A_PRODUCT)
        self.parts = max(-(-min(shape[0], ROWS_IN_CACHE) // self.deep), 1)
        self.v, self.weighted = self._room(d + 1), self._room(d + 1)
        self.rows, self.columns = self._room(ROWS_A_PRODUCT), self._room(comb(d + 2, 2))
        computed = sum(_entries(*group) for group in _groups(d + 1, order))
        self.found = np.empty((self.parts, computed), self.v.dtype)
        self.total = np.zeros(computed)
        self.steps = list(self._steps())

    def _room(self, rows: int) -> AnyArray:
        """Rows of samples that do not compete for the same places in the cache."""
        samples = self.parts * self.deep
        room = np.zeros((rows, samples + BETWEEN_ROWS), _precision(self.shape[0]))
        return room[:, :samples]

    def _steps(self) -> Iterator[tuple[list[_Product], list[_Product]]]:
        """Of every group what forms its rows, and its matrix products, samples part by part."""
        start = 0
        for rows, columns in _groups(self.d + 1, self.order):
            stop = start + _entries(rows, columns)
            found = self.found[:, start:stop].reshape(self.parts, -1, _length(rows))
            yield list(self._formed(rows)), list(self._cut(columns, found))
            start = stop

    def _cut(self, columns: slice, found: AnyArray) -> Iterator[_Product]:
        """The products of rows that are formed with some columns."""
        left, right = (
            room.reshape(-1, self.parts, self.deep).swapaxes(0, 1)
            for room in (self.rows[: found.shape[2]], self.columns[columns])
        )
        cuts = -(-found[0].size // ENTRIES_A_PRODUCT)
        for few in row_blocks(found.shape[1], -(-found.shape[1] // cuts)):
            yield right[:, few], left.swapaxes(1, 2), found[:, few]  # the longer one first

    def _formed(self, rows: slice) -> Iterator[_Product]:
        """Rows `r v_j`, or `r v_i v_j` with i <= j, j by j."""
        start = rows.start
        while start < rows.stop:
            j, i = _pair(start) if self.order == 4 else (start, 0)
            many = min(rows.stop - start, j + 1 - i) if self.order == 4 else 1
            out = self.rows[start - rows.start :][:many]
            yield self.v[i : i + many], self.weighted[j], out
            start += many

    @property
    def raw(self) -> tuple[Array]:
        """The sums of distinct entries; `unpacked` tells them apart."""
        return (self.total[_distinct(self.d + 1, self.order)],)

    def add(self, u: Array, r: Array, norms: Array) -> None:
        """The products of a few samples, u (d, n), with their `|u|^2`."""
        # Factors are at most 1: no scale of labels or inputs overflows.
        largest, largest_r = max(float(norms.max()) ** 0.5, 1.0), _largest(r) or 1.0
        n = len(r)
        v = self.v[:, :n]
        v[0] = 1 / largest
        np.multiply(u, 1 / largest, out=v[1:], casting="same_kind")
        np.multiply(v, (r / largest_r).astype(v.dtype), out=self.weighted[:, :n])
        self.weighted[:, n:] = 0  # of fewer samples than there is room for
        distinct_products(self.v, self.v, self.columns)
        for formed, products in self.steps:
            for few, weighted, out in formed:
                np.multiply(few, weighted, out=out)
            for right, left, out in products:
                np.matmul(right, left, out=out)
        scale = largest_r * largest**4
        self.total += np.multiply(self.found.sum(axis=0), scale, dtype=np.float64)


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


# ---------------------------------------------------------------- which products there are


@cache
def _groups(d: int, order: int) -> tuple[tuple[slice, slice], ...]:
    """Which rows (j), or (i, j) at order 4, are multiplied with which columns (k, l).

    A group has a few neighbouring rows and the columns with k from the first one's j on, so
    together they meet every i <= j <= k <= l.
    """
    count = d if order == 3 else comb(d + 1, 2)
    return tuple(
        (rows, _columns_from(rows.start if order == 3 else _pair(rows.start)[0], d))
        for rows in row_blocks(count, ROWS_A_PRODUCT)
    )


def _columns_from(j: int, d: int) -> slice:
    """Columns (k, l), k <= l, with k from j on: the last ones."""
    pairs = comb(d + 1, 2)
    return slice(pairs - comb(d - j + 1, 2), pairs)


@cache
def _pair(row: int) -> tuple[int, int]:
    """The indices j, i of a row `r v_i v_j`, i <= j: in the order of `numpy.tril_indices`."""
    j = (isqrt(8 * row + 1) - 1) // 2
    return j, row - comb(j + 1, 2)


def _length(part: slice) -> int:
    return int(part.stop - part.start)


def _entries(rows: slice, columns: slice) -> int:
    return _length(rows) * _length(columns)


# ---------------------------------------------------------------- the distinct entries


def _own(j: int, d: int, order: int) -> tuple[slice, slice]:
    """Rows of j, and columns with k >= j: distinct entries, every one in the block of one j."""
    rows = slice(j, j + 1) if order == 3 else slice(comb(j + 1, 2), comb(j + 2, 2))
    return rows, _columns_from(j, d)


@lru_cache(maxsize=TABLES_KEPT)
def _distinct(d: int, order: int) -> AnyArray:
    """Where the distinct entries stand among those that are computed."""
    table = np.full((_columns_from(0, d).stop, _groups(d, order)[-1][0].stop), -1)
    start = 0
    for rows, columns in _groups(d, order):
        stop = start + _entries(rows, columns)
        table[columns, rows] = np.arange(start, stop).reshape(-1, _length(rows))
        start = stop
    blocks = (_own(j, d, order) for j in range(d))
    return np.concatenate([table[columns, rows].ravel() for rows, columns in blocks])


def unpacked(packed: Array, d: int, order: int) -> list[Array]:
    """The raw moments of u of every order, dense, from the distinct ones of v = (1, u)."""
    T = np.empty((d + 1,) * order)
    pairs = np.triu_indices(d + 1)
    start = 0
    for j in range(d + 1):
        columns = _columns_from(j, d + 1)
        left = [np.array(j)] if order == 3 else [np.arange(j + 1), np.array(j)]
        indices = np.broadcast_arrays(*left, *(index[columns, None] for index in pairs))
        block = packed[start : start + indices[0].size].reshape(indices[0].shape)
        start += block.size
        for place in permutations(indices):
            T[place] = block
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
