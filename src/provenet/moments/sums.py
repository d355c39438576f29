"""Hermite moments of the labels as sums that merge (ATV21, equation 6).

`T_k = E[y He_k(z)]` for standardised inputs z. Two things make the estimates far better than the
plain mean:

*Control variates.* Hermite polynomials of different order are orthogonal, so y may be replaced by
`r = y - T_0 - <T_1, z> - <T_2, z z^T - I> / 2`, what the lower orders have not explained, without
changing `T_3` or `T_4`; only the variance falls.

*Projection.* `T_3` and `T_4` are built inside the span of the units alone (u = B z, few
coordinates), so their cost is in units^4, not features^4.

A block of samples is added up a few at a time, so that all that is formed of them stays in the
cache. Orders 3 and 4 are matrix products of their own (`packed`), which hold the lower orders too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import AnyArray, Array
from provenet.data.passes import Sums, rows_per_block
from provenet.data.sources import Source
from provenet.data.standardisation import Standardisation, centred
from provenet.moments.hermite_tensors import norm_polynomial
from provenet.moments.packed import PackedProducts, distinct_products, unpacked
from provenet.moments.tolerances import ROWS_IN_CACHE, SHORT_BUFFER

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

    @property
    def dimensions(self) -> int:
        """How many coordinates there are."""
        return self.standardisation.features if self.basis is None else len(self.basis)

    def __getstate__(self) -> dict[str, Any]:
        """What was asked for travels, what was computed from it does not."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @contextmanager
    def products(self, shape: tuple[int, ...]) -> Iterator[_Products | PackedProducts]:
        """Running sums for labels of a shape; the room for them is used again afterwards."""
        if self.order <= 2:
            yield _Products(self.dimensions, self.order, shape)
            return
        found = None
        with suppress(IndexError):  # another thread may have taken the last
            found = self._idle.pop()
        if found is None or found.shape != shape:
            found = PackedProducts(self.dimensions, self.order, shape)
        yield found
        found.total[...] = 0
        self._idle.append(found)

    @cached_property
    def _idle(self) -> list[PackedProducts]:
        """Those that no thread uses at the moment."""
        return []

    @cached_property
    def _rows(self) -> Array:
        """What gives the coordinates of a centred input, and below them its linear part."""
        s = self.standardisation
        project = s.whiten if self.basis is None else self.basis @ s.whiten
        return np.concatenate([project, np.atleast_2d(s.linear @ s.whiten)])

    @cached_property
    def _of_squares(self) -> Array:
        """Rows that give `|u|^2`, and `<T_2, u u^T> / 2` of a diagonal `T_2`, from squares."""
        ones, T = np.ones((1, self.dimensions)), self.quadratic
        if T is None or np.any(T - np.diag(np.diag(T))):
            return ones
        return np.concatenate([ones, np.diag(T)[None] / 2])

    def residual(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Coordinates u of the samples (one after the other in memory, not sample by sample), and
        the labels less their lower orders."""
        u, r, _ = self.parts(X, y)
        return u.T, r

    def parts(self, X: Array, y: Array) -> tuple[Array, Array, Array]:
        """Coordinates (dimensions, n), the labels less their lower orders, and `|u|^2`."""
        s = self.standardisation
        both = self._rows @ centred(X, s.mean).T
        u, predicted = both[: self.dimensions], both[self.dimensions :]
        r = y - s.label_mean - predicted.T.reshape(y.shape)
        norms, *half = self._of_squares @ (u * u)
        if self.quadratic is not None:
            half = half or [np.einsum("in,in->n", self.quadratic @ u, u) / 2]
            r -= half[0] - np.trace(self.quadratic) / 2
        return u, r, norms


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
    """The sums of r, r u and r u u^T; from order 3 on `PackedProducts.total` alone."""
    squares: Array

    @classmethod
    def of(cls, request: MomentRequest, X: Array, y: Array) -> MomentSums:
        """The sums over one block of samples."""
        d, order = request.dimensions, request.order
        sizes = np.zeros(order + 1)
        with request.products(y.shape) as products, np.errstate():
            np.setbufsize(SHORT_BUFFER)  # until the end of errstate
            for few in row_blocks(len(y), ROWS_IN_CACHE):
                u, r, norms = request.parts(X[few], y[few])
                products.add(u, r, norms)
                sizes += _sizes(r, norms, order)
            raw = products.raw
        squares = [sizes[: k + 1] @ norm_polynomial(k, d) for k in range(order + 1)]
        return cls(len(y), raw, np.array(squares))

    def finish(self, request: MomentRequest) -> Moments:
        """Hermite moments and their sampling errors from the sums."""
        raw = [np.asarray(m / self.n) for m in self.raw]
        if request.order > 2:
            raw = unpacked(raw[0], request.dimensions, request.order)
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
    rows = rows_per_block(8 * source.features)
    return source.total(partial(MomentSums.of, request), rows).finish(request)


class _Products:
    """Running sums of r, r u and r u u^T, up to an order; with several outputs, one an output."""

    def __init__(self, d: int, order: int, shape: tuple[int, ...]) -> None:
        self.raw = tuple(np.zeros((*shape[1:], *(d,) * k)) for k in range(order + 1))

    def add(self, u: Array, r: Array, norms: Array) -> None:
        """Those of a few samples, u (d, n)."""
        found = (r.sum(axis=0), r.T @ u.T, _second_products(u, r))
        self.raw = tuple(total + part for total, part in zip(self.raw, found, strict=False))


def _second_products(u: Array, r: Array) -> Array:
    """`sum r u u^T`, (d, d), or one for every output, (outputs, d, d)."""
    if r.ndim == 1:
        product = (u * r) @ u.T
        return np.asarray((product + product.T) / 2)  # symmetric to the last digit
    distinct = (distinct_products(u, u) @ r).T
    return np.asarray(distinct[:, _pair_index(len(u))])


def _sizes(r: Array, norms: Array, order: int) -> Array:
    """The sums of `r^2 |u|^2j`, j = 0 .. order."""
    terms = np.empty((order + 1, len(norms)))
    terms[0] = r**2 if r.ndim == 1 else np.sum(r**2, axis=1)
    for j in range(order):
        np.multiply(terms[j], norms, out=terms[j + 1])
    return np.asarray(terms.sum(axis=1))


def pair_products(V: Array) -> Array:
    """Columns `v_i v_j`, i <= j, of the rows of V: few of them, or a block."""
    rows, columns = np.triu_indices(V.shape[1])
    return np.asarray(V[:, rows] * V[:, columns])


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
