"""Fourth-order tensors that are only ever asked for contractions.

The objectives of GLM17 see the data through `T_2` and `T_4` alone, and `T_4` only through two
contractions: with a symmetric matrix in two of its places, and with vectors in three. So it may be
dense (from one pass over samples), a sum of fourth powers (a population, no features^4 memory), or
a batch of samples whose tensor is never formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from provenet.common.typing import Array, row_blocks
from provenet.landscape.tolerances import ROWS_OF_A_BATCH


class FourthOrder(Protocol):
    """A symmetric tensor T of order 4."""

    def matrix(self, S: Array) -> Array:
        """`T(S, ., .)`: T contracted with a symmetric matrix in two places."""

    def cubes(self, B: Array, C: Array) -> Array:
        """Rows `T(b_j, b_j, c_j, .)`."""

    def at(self, B: Array) -> tuple[Array, Array]:
        """Rows `T(B^T B, b_j, .)` and `T(b_j, b_j, b_j, .)`: all that a gradient asks for."""


class _AskedTwice:
    """Both contractions of a gradient, one after the other."""

    def at(self: FourthOrder, B: Array) -> tuple[Array, Array]:
        """Rows `T(B^T B, b_j, .)` and `T(b_j, b_j, b_j, .)`."""
        return np.asarray(B @ self.matrix(B.T @ B)), self.cubes(B, B)


class DenseFourth(_AskedTwice):
    """A tensor in memory, as the matrix between the distinct pairs of its places.

    That is features^4 / 4 numbers, and a contraction for every row of B is one matrix product.
    """

    def __init__(self, tensor: Array) -> None:
        """From the dense symmetric array (d, d, d, d)."""
        d = len(tensor)
        self._rows, self._columns = np.triu_indices(d)
        self._pairs = np.ascontiguousarray(
            tensor[self._rows, self._columns][:, self._rows, self._columns]
        )
        self._places = np.where(self._rows == self._columns, 1.0, 2.0)
        self._square = np.zeros((d, d), dtype=np.intp)
        self._square[self._rows, self._columns] = np.arange(len(self._rows))
        self._square[self._columns, self._rows] = np.arange(len(self._rows))

    def matrix(self, S: Array) -> Array:
        """`T(S, ., .)`."""
        packed = self._pairs @ (self._places * S[self._rows, self._columns])
        return np.asarray(packed[self._square])

    def cubes(self, B: Array, C: Array) -> Array:
        """Rows `T(b_j, b_j, c_j, .)`."""
        packed = (self._places * B[:, self._rows] * B[:, self._columns]) @ self._pairs
        return np.asarray(np.einsum("mij,mj->mi", packed[:, self._square], C))


class SumOfFourthPowers(_AskedTwice):
    """`sum_i coefficient_i v_i^(x)4`: the fourth moment of a known network."""

    def __init__(self, coefficients: Array, vectors: Array) -> None:
        """One term a row of `vectors`."""
        self.coefficients, self.vectors = coefficients, vectors

    def matrix(self, S: Array) -> Array:
        """`T(S, ., .)`."""
        v = self.vectors
        size = self.coefficients * np.einsum("md,de,me->m", v, S, v, optimize=True)
        return np.asarray((v.T * size) @ v)

    def cubes(self, B: Array, C: Array) -> Array:
        """Rows `T(b_j, b_j, c_j, .)`."""
        v = self.vectors
        return np.asarray(((B @ v.T) ** 2 * (C @ v.T) * self.coefficients) @ v)


class BatchFourth:
    """The mean of `y He_4(x)` over a batch, for any labels y, without forming the tensor.

    `He_4(x)` is x in all four places, less the identity on one pair of them and x on the others,
    plus the identity on both of two pairs; here contracted term by term, a block of rows at a time.
    With `z = B x` a gradient takes two matrix products over the batch: z, and the sums of
    `z_j x`, `|z|^2 z_j x` and `z_j^3 x` in one. Products are in the precision of the batch's
    inputs, sums over blocks in double: single precision does for a batch, whose own sampling error
    is far larger, and takes half the time.
    """

    def __init__(self, X: Array, labels: Array) -> None:
        """Standardised inputs (n, d) and labels (n,)."""
        self.X, self.weights = X, (labels / len(labels)).astype(X.dtype, copy=False)
        self.mean = float(np.sum(self.weights, dtype=float))

    def _blocks(self) -> Iterator[tuple[Array, Array]]:
        for rows in row_blocks(len(self.X), ROWS_OF_A_BATCH):
            yield self.X[rows], self.weights[rows]

    def at(self, B: Array) -> tuple[Array, Array]:
        """Rows `T(B^T B, b_j, .)` and `T(b_j, b_j, b_j, .)`."""
        m, rows = len(B), np.ascontiguousarray(B.T, dtype=self.X.dtype)
        total, along = np.zeros((3 * m, B.shape[1])), 0.0
        for x, w in self._blocks():
            z = x @ rows
            weighted = np.empty((len(x), 3 * m), dtype=x.dtype)
            squares = z * z
            size = squares.sum(axis=1)
            np.multiply(z, w[:, None], out=weighted[:, :m])
            np.multiply(weighted[:, :m], size[:, None], out=weighted[:, m : 2 * m])
            np.multiply(weighted[:, :m], squares, out=weighted[:, 2 * m :])
            total += weighted.T @ x
            along += float(w @ size)
        second, turned, cubes = total[:m], total[m : 2 * m], total[2 * m :]
        gram, inner = B @ B.T, second @ B.T
        trace, norms, forms = float(np.trace(gram)), np.diag(gram)[:, None], np.diag(inner)[:, None]
        turned = turned - trace * second - along * B - 2 * (gram @ second + inner @ B)
        turned += self.mean * (trace * B + 2 * gram @ B)
        return turned, cubes - 3 * (norms * second + forms * B - self.mean * norms * B)

    def matrix(self, S: Array) -> Array:
        """`T(S, ., .)`."""
        d = len(S)
        total, second, along = np.zeros((d, d)), np.zeros((d, d)), 0.0
        for x, w in self._blocks():
            form = np.einsum("nd,nd->n", x @ S, x)
            total += (x.T * (w * form)) @ x
            second += (x.T * w) @ x
            along += float(w @ form)
        trace = float(np.trace(S))
        crossed = S @ second
        total -= trace * second + along * np.eye(d) + 2 * (crossed + crossed.T)
        return np.asarray(total + self.mean * (trace * np.eye(d) + 2 * S))

    def cubes(self, B: Array, C: Array) -> Array:
        """Rows `T(b_j, b_j, c_j, .)`."""
        squares, inner = np.sum(B * B, axis=1), np.sum(B * C, axis=1)
        total, bb, bc = np.zeros(B.shape), np.zeros(len(B)), np.zeros(len(B))
        for x, w in self._blocks():
            z, t = x @ B.T, x @ C.T
            weight = w[:, None] * ((z * z - squares) * t - 2 * inner * z)
            total += weight.T @ x
            bb += w @ (z * z)
            bc += w @ (z * t)
        total -= bb[:, None] * C + 2 * bc[:, None] * B
        return np.asarray(total + self.mean * (squares[:, None] * C + 2 * inner[:, None] * B))


class Transformed(_AskedTwice):
    """Another tensor in other coordinates: `T(E^T ., E^T ., E^T ., E^T .)` for a matrix E."""

    def __init__(self, fourth: FourthOrder, E: Array) -> None:
        """E has one row a new coordinate."""
        self.fourth, self.E = fourth, E

    def matrix(self, S: Array) -> Array:
        """`T(S, ., .)`."""
        return np.asarray(self.E @ self.fourth.matrix(self.E.T @ S @ self.E) @ self.E.T)

    def cubes(self, B: Array, C: Array) -> Array:
        """Rows `T(b_j, b_j, c_j, .)`."""
        return np.asarray(self.fourth.cubes(B @ self.E, C @ self.E) @ self.E.T)


def eigenvalues(fourth: FourthOrder, d: int) -> Array:
    """Of the tensor as an operator on symmetric matrices, rising: d (d + 1) / 2 of them.

    For `sum_i c_i v_i^(x)4` with orthonormal v_i they are the c_i and zeros.
    """
    rows, columns = np.triu_indices(d)
    size = np.where(rows == columns, 1.0, np.sqrt(2.0))
    images = np.empty((len(rows), len(rows)))
    for i, (j, k) in enumerate(zip(rows, columns, strict=True)):
        unit = np.zeros((d, d))
        unit[j, k] = unit[k, j] = 1.0 / size[i]
        images[i] = fourth.matrix(unit)[rows, columns] * size
    return np.asarray(np.linalg.eigvalsh((images + images.T) / 2), dtype=float)
