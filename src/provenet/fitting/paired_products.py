"""`[D, Phi]^T [D, Phi]` of one hidden layer from products of pairs.

The letters are those of `normal_equations`. A row of D holds `s_i x_u`, the slope of unit i times
an input or the constant 1. So an entry of H is

    H_(i u)(j v) = sum_n (s_ni s_nj) (x_nu x_nv),

the same for (i, j) and (j, i), for (u, v) and (v, u): one product of a matrix of pairs of slopes
with a matrix of pairs of inputs gives all of them with a quarter of the multiplications of `D^T D`,
and D is never formed. With the constant 1 as one more slope the same product holds `D^T [x, 1]` and
the inputs' own sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import AnyArray, Array
from provenet.data.sums import Sums
from provenet.fitting.tolerances import ENTRIES_AT_ONCE, PAIRS_AT_ONCE


@dataclass(frozen=True)
class CurvatureSums(Sums):
    """What `[D, Phi]^T [D, Phi]` is put together from."""

    pairs: Array
    """Pairs of (x, 1) by pairs of (s, 1)."""
    cross: Array
    """`sum_n s_i sigma_j (x, 1)`, (units, units, features + 1)."""
    gram: Array
    """The units' values by themselves and by (x, 1)."""

    @classmethod
    def of(
        cls,
        slope: Array,
        values: Array,
        columns: Array,
        dtype: type[np.floating],
        of_inputs: Array | None = None,
    ) -> CurvatureSums:
        """Of a block of samples, summed in `dtype`.

        `columns` is [X, 1] transposed, `of_inputs` their `row_pairs`, where they are known.
        """
        m, n = slope.shape[1], len(slope)
        slopes = np.ones((m + 1, n), dtype)
        slopes[:m] = slope.T
        inputs = columns.astype(dtype, copy=False)
        own = values.T.astype(dtype, order="C")
        crossed = (slopes[:m, None] * own[None]).reshape(m * m, n) @ inputs.T
        gram = np.concatenate([own @ own.T, own @ inputs.T], axis=1)
        return cls(
            _paired_product(inputs, slopes, of_inputs),
            crossed.reshape(m, m, len(inputs)).astype(float, copy=False),
            gram.astype(float, copy=False),
        )

    def matrix(self, has_linear: bool) -> Array:
        """`[D, Phi]^T [D, Phi]`, Phi with or without the inputs themselves."""
        m, width = len(self.cross), self.cross.shape[2]
        thetas, tail = m * width, slice(0 if has_linear else width - 1, width)
        p = thetas + m + (width if has_linear else 1)
        matrix = np.empty((p, p))
        C, G = matrix[:thetas, thetas:], matrix[thetas:, thetas:]
        of_slopes, of_inputs = _table(m + 1), _table(width)
        for some in row_blocks(m, max(1, ENTRIES_AT_ONCE // (width * width * (m + 1)))):
            own = self.pairs[:, of_slopes[some]][of_inputs].transpose(2, 0, 3, 1)  # i, u, j, v
            rows = slice(some.start * width, some.stop * width)
            matrix[rows, :thetas] = own[:, :, :m].reshape(-1, thetas)
            C[rows, m:] = own[:, :, m, tail].reshape(-1, p - thetas - m)
        C[:, :m] = self.cross.transpose(0, 2, 1).reshape(thetas, m)
        G[:m, :m], G[m:, m:] = self.gram[:, :m], self.pairs[of_inputs, -1][tail, tail]
        G[:m, m:] = self.gram[:, m:][:, tail]
        G[m:, :m] = G[:m, m:].T
        matrix[thetas:, :thetas] = C.T
        return matrix


def row_pairs(rows: Array) -> Array:
    """Products of any two rows, one of them by the other or by itself."""
    return _row_pairs(rows, range(len(rows)))


def _row_pairs(rows: Array, first: range) -> Array:
    """The same with one of the two among some."""
    k = len(rows)
    products = np.empty((sum(k - i for i in first), rows.shape[1]), rows.dtype)
    end = 0
    for i in first:
        begin, end = end, end + k - i
        np.multiply(rows[i:], rows[i], out=products[begin:end])
    return products


@lru_cache(maxsize=64)
def _pairs(k: int) -> tuple[AnyArray, AnyArray]:
    """The pairs (i, j) of k things, i at most j, one after the other."""
    return np.triu_indices(k)


@lru_cache(maxsize=64)
def _table(k: int) -> AnyArray:
    """Which of them (i, j) and (j, i) are."""
    i, j = _pairs(k)
    table = np.empty((k, k), dtype=np.intp)
    table[i, j] = table[j, i] = np.arange(len(i))
    return table


def _paired_product(left: Array, right: Array, of_left: Array | None) -> Array:
    """Sums over columns of products of two rows of the one by products of two of the other."""
    k, of_right = len(left), row_pairs(right).T
    if of_left is not None:
        return (of_left @ of_right).astype(float, copy=False)
    product, end = np.empty((k * (k + 1) // 2, of_right.shape[1]), left.dtype), 0
    at_once = max(1, PAIRS_AT_ONCE // left.size)
    for some in row_blocks(k, at_once):
        pairs = _row_pairs(left, range(some.start, some.stop))
        begin, end = end, end + len(pairs)
        np.matmul(pairs, of_right, out=product[begin:end])
    return product.astype(float, copy=False)
