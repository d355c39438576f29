"""Hermite moments of the labels as sums that merge (ATV21, equation 6).

`T_k = E[y He_k(z)]` for standardised inputs z. Two things make the estimates far better than the
plain mean:

*Control variates.* Hermite polynomials of different order are orthogonal, so y may be replaced by
`r = y - T_0 - <T_1, z> - <T_2, z z^T - I> / 2`, what the lower orders have not explained, without
changing `T_3` or `T_4`; only the variance falls.

*Projection.* `T_3` and `T_4` are built inside the span of the units alone (u = B z, few
coordinates), so their cost is in units^4, not features^4.

The sums over one block of samples are matrix products: with the distinct products
`q = (u_i u_j, i <= j)` as columns, `sum r q q^T` holds all fourth-order products, `sum r u q^T` the
third. Rows with r > 0 and r < 0 are summed apart with weight sqrt|r|, because `Q Q^T` with one
matrix costs half of a general product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any, Self

import numpy as np

from provenet.hermite import tensor_norm_squared
from provenet.networks import Network
from provenet.typing import AnyArray, Array


@dataclass(frozen=True)
class Standardisation:
    """`z = whiten (x - mean)`, so that z has mean 0 and covariance I; `y = T_0 + <T_1, z> + r`."""

    mean: Array
    whiten: Array
    label_mean: Array
    """`T_0`: a number, or one an output."""
    label_spread: float
    """Standard deviation of the labels, its root mean square over several outputs."""
    linear: Array
    """`T_1` in standardised coordinates, the regression of y on z; one row an output."""
    samples: int | None
    """None: the population, no sampling error."""

    @property
    def features(self) -> int:
        """Number of inputs."""
        return len(self.mean)

    def apply(self, X: Array) -> Array:
        """Standardised inputs."""
        return (X - self.mean) @ self.whiten.T

    def undo(self, Z: Array) -> Array:
        """The inputs behind standardised ones."""
        return np.asarray(np.linalg.solve(self.whiten, Z.T).T + self.mean)

    def units_to_user(self, weights: Array, biases: Array) -> tuple[Array, Array]:
        """Units `(w, b)` on standardised inputs as units on the user's: `w.z + b = w'.x + b'`."""
        user = weights @ self.whiten
        return user, biases - user @ self.mean

    def units_from_user(self, weights: Array, biases: Array) -> tuple[Array, Array]:
        """The inverse of `units_to_user`."""
        own = np.asarray(np.linalg.solve(self.whiten.T, weights.T).T, dtype=float)
        return own, biases + weights @ self.mean

    def network_to_user(self, network: Network) -> Network:
        """A network on standardised inputs as one on the user's inputs."""
        weights, biases = self.units_to_user(network.weights, network.biases)
        if network.linear is None:
            return network.replace(weights=weights, biases=biases)
        linear = network.linear @ self.whiten
        constant = network.output_bias - linear @ self.mean
        return network.replace(weights=weights, biases=biases, linear=linear, output_bias=constant)

    def network_from_user(self, network: Network) -> Network:
        """The inverse of `network_to_user`."""
        weights, biases = self.units_from_user(network.weights, network.biases)
        if network.linear is None:
            return network.replace(weights=weights, biases=biases)
        linear = np.linalg.solve(self.whiten.T, network.linear.T).T
        constant = network.output_bias + network.linear @ self.mean
        return network.replace(weights=weights, biases=biases, linear=linear, output_bias=constant)


class Sums:
    """A dataclass of arrays and numbers that adds field by field."""

    def __add__(self, other: Self) -> Self:
        """Field-wise sum: how blocks, threads and machines are merged."""
        return type(self)(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(self))  # type: ignore[arg-type]
        )


@dataclass(frozen=True)
class LinearSums(Sums):
    """First and second moments of (x, y), shifted by a fixed origin so that no digits are lost."""

    n: int
    x: Array
    xx: Array
    y: Array
    yy: Array
    xy: Array

    @classmethod
    def of(cls, X: Array, y: Array, origin: Array, label_origin: Array) -> LinearSums:
        """The sums over one block of samples."""
        x, v = X - origin, y - label_origin
        return cls(len(x), x.sum(axis=0), x.T @ x, v.sum(axis=0), np.sum(v**2, axis=0), v.T @ x)


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
        u = x @ project.T
        r = y - s.label_mean - x @ (s.linear @ s.whiten).T
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
    raw: AnyArray
    """Object array of the order's raw sums: r, r u, r u u^T, then r u q^T and r q q^T."""
    squares: Array

    @classmethod
    def of(cls, request: MomentRequest, X: Array, y: Array) -> MomentSums:
        """The sums over one block of samples."""
        u, r = request.residual(X, y)
        d, orders = u.shape[1], range(request.order + 1)
        products = _symmetric_products if r.ndim == 1 else _products_an_output
        raw = [r.sum(axis=0), r.T @ u, *products(u, r, request.order)]
        norms = np.einsum("ni,ni->n", u, u)
        size = r**2 if r.ndim == 1 else np.sum(r**2, axis=1)
        squares = np.array([size @ tensor_norm_squared(k, norms, d) for k in orders])
        return cls(len(r), _object_array(raw[: request.order + 1]), squares)

    def finish(self, request: MomentRequest) -> Moments:
        """Hermite moments and their sampling errors from the sums."""
        tensors = _hermite_from_raw([np.asarray(m / self.n) for m in self.raw])
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


def _object_array(items: list[Array]) -> AnyArray:
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array


def _symmetric_products(u: Array, r: Array, order: int) -> list[Array]:
    """`sum r u u^T` and, from order 3, `sum r u q^T` and `sum r q q^T`, of the samples' rows."""
    sums: list[Array] = []
    for sign in (1.0, -1.0):
        rows = r * sign > 0
        root = np.sqrt(np.abs(r[rows]))
        v = np.ascontiguousarray(u[rows].T)
        scaled = v * root
        part = [scaled @ scaled.T]
        if order >= 3:
            q = distinct_products(v, scaled)
            part.append(scaled @ q.T)
            if order >= 4:
                part.append(q @ q.T)
        sums = part if not sums else [a - p for a, p in zip(sums, part, strict=True)]
    return sums


def _products_an_output(u: Array, r: Array, order: int) -> list[Array]:
    """`sum r_o u u^T` for every output o, (outputs, d, d)."""
    if order > 2:
        raise ValueError("moments of several outputs go up to order 2")
    v = np.ascontiguousarray(u.T)
    distinct = (distinct_products(v, v) @ r).T
    return [np.asarray(distinct[:, _pair_index(len(v))])]


def pair_products(V: Array) -> Array:
    """Columns `v_i v_j`, i <= j, of the rows of V: few of them, or a block."""
    rows, columns = np.triu_indices(V.shape[1])
    return np.asarray(V[:, rows] * V[:, columns])


def distinct_products(v: Array, scaled: Array) -> Array:
    """Rows `v_i * scaled_j` for i <= j, in the order of `numpy.triu_indices`."""
    d, n = v.shape
    q = np.empty((d * (d + 1) // 2, n))
    start = 0
    for i in range(d):
        np.multiply(v[i], scaled[i:], out=q[start : start + d - i])
        start += d - i
    return q


def _hermite_from_raw(raw: list[Array]) -> list[Array]:
    """Hermite moments `E[r He_k]` from raw moments `E[r u^(x)k]` (see `hermite.hermite_tensor`)."""
    out = list(raw)
    d = raw[1].shape[-1]
    eye = np.eye(d)
    if len(raw) > 2:
        out[2] = raw[2] - np.multiply.outer(raw[0], eye)
    if len(raw) > 3:
        pair = _pair_index(d)
        M3 = raw[3][:, pair]
        out[3] = M3 - _spread_over_places(np.multiply.outer(raw[1], eye), [(0,), (1,), (2,)])
    if len(raw) > 4:
        M4: Array = raw[4][pair[:, :, None, None], pair]
        pairs = list(combinations(range(4), 2))
        out[4] = (
            M4
            - _spread_over_places(np.multiply.outer(raw[2], eye), pairs)
            + raw[0] * _spread_over_places(np.multiply.outer(eye, eye), pairs[:3])
        )
    return out


def _pair_index(d: int) -> AnyArray:
    """Position of the product (i, j) among the distinct ones."""
    index = np.zeros((d, d), dtype=np.intp)
    rows, columns = np.triu_indices(d)
    index[rows, columns] = index[columns, rows] = np.arange(len(rows))
    return index


def _spread_over_places(term: Array, places: Sequence[tuple[int, ...]]) -> Array:
    """Sum of copies of `term` with its first axes moved to each of the given places."""
    total = np.zeros_like(term)
    for first in places:
        rest = [i for i in range(term.ndim) if i not in first]
        total += np.transpose(term, np.argsort([*first, *rest]))
    return total


def population_moments(network: Network, request: MomentRequest) -> Moments:
    """Exact moments of a network on standard normal inputs (ATV21, Lemma 3.5)."""
    basis = np.eye(network.features) if request.basis is None else request.basis
    norm = np.linalg.norm(network.weights, axis=1)
    W = network.weights / norm[:, None] @ basis.T
    tensors: list[Array] = []
    for k in range(request.order + 1):
        coefficient = network.activation.hermite(k, network.biases, norm)
        tensors.append(symmetric_tensor(network.output_weights * coefficient, W, k))
    tensors[0] = tensors[0] + network.output_bias
    if network.linear is not None:
        tensors[1] = tensors[1] + network.linear @ basis.T
    return Moments(tuple(tensors), (0.0,) * len(tensors), None)


def symmetric_tensor(coefficients: Array, vectors: Array, k: int) -> Array:
    """`sum_i coefficients_i v_i^(x)k` as a dense array, for k up to 6.

    Coefficients (outputs, terms) give one tensor an output, stacked in front.
    """
    letters = "abcdef"[:k]
    if k == 0:
        return np.asarray(coefficients.sum(axis=-1))
    operands: list[Any] = [coefficients, *[vectors] * k]
    terms = ",".join(["...z", *(f"z{letter}" for letter in letters)])
    return np.asarray(np.einsum(f"{terms}->...{letters}", *operands, optimize=True))
