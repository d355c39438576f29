"""Hermite moments of the labels, `T_k = E[y He_k(z)]` for inputs z of mean 0 and covariance I.

`He_k(x)` is the symmetric tensor with `<He_k(x), w^(x)k> = He_k(w.x)` for every unit vector w
(ATV21, equation 6). Of a known network the moments are exact (Lemma 3.5). Of samples they are sums
that merge, gathered in one pass, and two things make them far better than plain means:

*Control variates.* Hermite polynomials of different order are orthogonal, so y may be replaced by
`r = y - T_0 - <T_1, z> - <T_2, z z^T - I> / 2`, the residual of the lower orders, without changing
the orders from 3 on; only the variance falls.

*Projection.* Higher orders are built inside the span of the units alone (u = B z, few coordinates),
so that their cost is in units^4, not features^4.

What is summed are raw moments of `v = (1, u)` by distinct entries: those of the highest order hold
all lower ones (`_lower_orders`). Their errors need no second sum of tensors, only
`E[r^2 ||He_k(u)||^2]`, where the norm is a polynomial in |u|^2 (`norm_polynomial`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations
from math import factorial

import numpy as np
from scipy.special import binom

from provenet.common.blocks import row_blocks
from provenet.common.typing import AnyArray, Array
from provenet.data.passes import Sums, rows_per_block, workers
from provenet.data.sources import MappedSource, Source
from provenet.data.standardisation import Standardisation
from provenet.moments.size_biased import Weights, weights_by_order
from provenet.moments.subspace import Span
from provenet.moments.symmetric import SymmetricTensor, count, places, positions
from provenet.networks.network import Network

Terms = Callable[[Array, Array], tuple[Array, Array]]
"""Of samples X, y their coordinates u (n, d) and weights r: a moment is the mean of `r He(u)`."""


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

    def residual(self, X: Array, y: Array) -> tuple[Array, Array]:
        """Coordinates u of the samples, (n, dimensions), and the labels less their lower orders."""
        s, d = self.standardisation, self.dimensions
        project = s.whiten if self.basis is None else self.basis @ s.whiten
        both = np.concatenate([project, np.atleast_2d(s.linear @ s.whiten)]) @ (X - s.mean).T
        u, r = both[:d], y - s.label_mean - both[d:].T.reshape(y.shape)
        if self.quadratic is not None:
            Q = self.quadratic
            r -= (np.einsum("in,in->n", Q @ u, u) - np.trace(Q)) / 2
        return u.T, r


@dataclass(frozen=True)
class Moments:
    """Estimated `T_0 .. T_order` and the root mean square error of an entry of each.

    With several outputs, one tensor an output, stacked in front (up to order 2 from samples).
    """

    tensors: tuple[Array, ...]
    errors: tuple[float, ...]
    samples: int | None


@dataclass(frozen=True)
class HighMoments:
    """The same by distinct entries, for orders whose full tensors would be too large."""

    tensors: tuple[SymmetricTensor, ...]
    errors: tuple[float, ...]

    @property
    def dense(self) -> tuple[Array, ...]:
        """The full tensors."""
        return tuple(T.dense for T in self.tensors)


# ---------------------------------------------------------------- moments of a source


def estimate_moments(source: Source, request: MomentRequest) -> Moments:
    """The moments that are asked for, without sampling error where the population is known."""
    if source.population is not None:
        return population_moments(source.population, request)
    if source.biased:
        return _size_biased_moments(source, request)
    return sampled_moments(source, request)


def request_in_span(standardisation: Standardisation, span: Span) -> MomentRequest:
    """Orders up to 4 inside the span of the units, what order 2 explains taken off the labels."""
    return MomentRequest(standardisation, 4, span.basis, span.quadratic)


def moments_in_span(source: Source, standardisation: Standardisation, span: Span) -> Moments:
    """The moments of `request_in_span`."""
    return estimate_moments(source, request_in_span(standardisation, span))


def moment_terms(source: Source, request: MomentRequest) -> Terms:
    """Each sample's term in the moment of the highest order, as `estimate_moments` averages it."""
    if not source.biased:
        return request.residual
    return partial(_weighted, request, weights_by_order(source, request.basis, request.order)[-1])


def sampled_moments(source: Source, request: MomentRequest) -> Moments:
    """The moments of the samples, in one pass."""
    found = _total(source, request).finish(request)
    return Moments(found.dense, found.errors, source.size)


def high_moments(source: Source, standardisation: Standardisation, order: int) -> HighMoments:
    """Moments up to any order of standardised samples, or of a population."""
    if source.population is not None:
        return population_high_moments(source.population, order)
    second = estimate_moments(source, MomentRequest(standardisation, 2))
    request = MomentRequest(standardisation, order, quadratic=second.tensors[2])
    found = _total(source, request).finish(request)
    return HighMoments(found.tensors, (*second.errors, *found.errors[3:]))


def population_moments(network: Network, request: MomentRequest) -> Moments:
    """Exact moments of a network on standard normal inputs (ATV21, Lemma 3.5)."""
    found = population_high_moments(network, request.order, request.basis)
    return Moments(found.dense, found.errors, None)


def population_high_moments(
    network: Network, order: int, basis: Array | None = None
) -> HighMoments:
    """`T_k = sum_i a_i c_k(b_i) w_i^(x)k`, with c_k the activation's Hermite coefficients."""
    norm = np.linalg.norm(network.weights, axis=1)
    project = np.eye(network.features) if basis is None else basis
    W = network.weights / norm[:, None] @ project.T
    tensors = []
    for k in range(order + 1):
        c = network.output_weights * network.activation.hermite(k, network.biases, norm)
        tensors.append(SymmetricTensor.of_terms(c, W, k))
    constant = np.asarray(network.output_bias)[..., None]
    tensors[0] = replace(tensors[0], entries=tensors[0].entries + constant)
    if network.linear is not None:
        linear = network.linear @ project.T
        tensors[1] = replace(tensors[1], entries=tensors[1].entries + linear)
    return HighMoments(tuple(tensors), (0.0,) * (order + 1))


def _size_biased_moments(source: Source, request: MomentRequest) -> Moments:
    """`T_0 .. T_order` over the labels' mean (see `size_biased`)."""
    request = replace(request, quadratic=None)
    weights = weights_by_order(source, request.basis, request.order)
    found = {
        w: sampled_moments(MappedSource(source, partial(_relabelled, w)), request)
        for w in set(weights)
    }
    # The sums take T_1 = 0 for known; it is a plain mean.
    first = source.total(partial(_sum_of_coordinates, request)) / source.size
    higher = [found[w].tensors[k] for k, w in enumerate(weights, 1)][1:]
    errors = (0.0, *(found[w].errors[k] for k, w in enumerate(weights, 1)))
    return Moments((np.ones(()), first, *higher), errors, source.size)


def _relabelled(weights: Weights, X: Array, y: Array) -> tuple[Array, Array]:
    return X, weights(X, y)


def _weighted(request: MomentRequest, weights: Weights, X: Array, y: Array) -> tuple[Array, Array]:
    return X if request.basis is None else X @ request.basis.T, weights(X, y)


def _sum_of_coordinates(request: MomentRequest, X: Array, y: Array) -> Array:
    return np.asarray((X if request.basis is None else X @ request.basis.T).sum(axis=0))


# ---------------------------------------------------------------- sums over samples


@dataclass(frozen=True)
class MomentSums(Sums):
    """Sums over samples of `r v^(x)order`, v = (1, u), and of `r^2 |u|^2j` for the errors."""

    n: int
    raw: Array
    """Distinct entries; with several outputs (order 2 at most) one row an output."""
    squares: Array

    @classmethod
    def of(cls, request: MomentRequest, X: Array, y: Array) -> MomentSums:
        """The sums over one block of samples, a few at a time so that they stay in the cache."""
        kind = _SecondProducts if request.order <= 2 else _TiledProducts
        products = kind(request.dimensions + 1, request.order, y.shape)
        squares = np.zeros(request.order + 1)
        for rows in row_blocks(len(y), products.few):
            u, r = request.residual(X[rows], y[rows])
            norms = np.einsum("nd,nd->n", u, u)
            products.add(u.T, r, norms)
            term = r**2 if r.ndim == 1 else np.sum(r**2, axis=1)
            for j in range(request.order + 1):
                squares[j] += term.sum()
                term *= norms
        return cls(len(y), products.entries, squares)

    def finish(self, request: MomentRequest) -> HighMoments:
        """Hermite moments and their sampling errors from the sums."""
        s, d, order = request.standardisation, request.dimensions, request.order
        # The entries with order - k indices 0 of v = (1, u), those of u alone, stand together.
        edges = [count(d + 1, k) for k in range(order)]
        raw = np.split(self.raw / self.n, edges, axis=-1)
        tensors = _hermite_from_raw(raw, d)
        variances = []
        for k, T in enumerate(tensors):
            square = float(self.squares[: k + 1] @ norm_polynomial(k, d)) / self.n
            numbers = d**k * (T.entries.size // T.entries.shape[-1])
            variances.append(max(square - T.squared_norm, 0.0) / numbers)
        # What was taken off the labels is put back: it is the estimate of the lower orders.
        linear = s.linear if request.basis is None else s.linear @ request.basis.T
        tensors[0] = replace(tensors[0], entries=np.asarray(s.label_mean)[..., None])
        tensors[1] = replace(tensors[1], entries=linear)
        variances[0] = s.label_spread**2
        if request.quadratic is not None:
            tensors[2] = SymmetricTensor.of_dense(request.quadratic)
        errors = tuple(float(np.sqrt(v / self.n)) for v in variances)
        return HighMoments(tuple(tensors), errors)


def norm_polynomial(k: int, d: int) -> Array:
    """Coefficients, by rising power of `|x|^2`, of `||He_k(x)||^2` (Frobenius).

    From Mehler's kernel at x = y, with s = |x|^2:

        sum_k ||He_k(x)||^2 t^k / k! = (1 - t^2)^(-d/2) exp(t s / (1 + t)),

    and `(1 + t)^(-d/2) exp(t s / (1 + t))` generates Laguerre polynomials `L_n(s)` of index
    d/2 - 1. The sampling error of a moment needs only this:
    `E||T_k - E T_k||^2 = (E[r^2 ||He_k(x)||^2] - ||T_k||^2) / n`.
    """
    out = np.zeros(k + 1)
    for n in range(k + 1):
        outer = (-1) ** n * factorial(k) * binom(d / 2 + k - n - 1, k - n)
        for i in range(n + 1):
            out[i] += outer * (-1) ** i * binom(n + d / 2 - 1, n - i) / factorial(i)
    return np.round(out)  # they are integers


def tensor_norm_squared(k: int, squared_norm: Array, d: int) -> Array:
    """`||He_k(x)||^2` from `|x|^2` alone."""
    return np.asarray(np.polynomial.polynomial.polyval(squared_norm, norm_polynomial(k, d)))


def _hermite_from_raw(raw: list[Array], d: int) -> list[SymmetricTensor]:
    """Hermite moments `E[r He_k(u)]` from raw moments `E[r u^(x)k]`, k = 0, 1, ..

    `He_k(x) = exp(-L) x^(x)k`, L half the Laplacian; its series is summed from the last term.
    """
    tensors = []
    for k in range(len(raw)):
        entries = raw[k % 2]
        for q in range(k // 2, 0, -1):
            degree = k - 2 * q + 2
            entries = raw[degree] - _half_laplacian(entries, d, degree) / q
        tensors.append(SymmetricTensor(d, k, entries))
    return tensors


def _half_laplacian(lower: Array, d: int, k: int) -> Array:
    """Of monomials of degree k, in the moments of degree k - 2: each pair of equal indices out."""
    index = places(d, k)
    out = np.zeros((*lower.shape[:-1], len(index)))
    for pair in combinations(range(k), 2):
        equal = np.flatnonzero(index[:, pair[0]] == index[:, pair[1]])
        out[..., equal] += lower[..., positions(np.delete(index[equal], pair, axis=1), d)]
    return out


def _total(source: Source, request: MomentRequest) -> MomentSums:
    return source.total(partial(MomentSums.of, request), rows_per_block(8 * source.features))


class _SecondProducts:
    """Running sums of `r v v^T`, in double precision; with several outputs, one row an output."""

    def __init__(self, d: int, order: int, shape: tuple[int, ...]) -> None:
        """For v of d coordinates and labels of a shape."""
        self.d, self.order = d, order
        self.few = _rows_in_cache(d, len(shape))
        self.total = np.zeros((*shape[1:], count(d, 2)))

    def add(self, u: Array, r: Array, norms: Array) -> None:
        """Those of a few samples, u (d, n)."""
        v = np.concatenate([np.ones((1, u.shape[1])), u])
        if r.ndim == 1:
            self.total += ((v * r) @ v.T)[tuple(places(self.d, 2).T)]
        else:
            products = np.empty((count(self.d, 2), len(r)))
            _extend_monomials(v, v, 1, products)
            self.total += (products @ r).T

    @property
    def entries(self) -> Array:
        """The distinct entries."""
        return self.total[..., : count(self.d, self.order)]


class _TiledProducts:
    """Running sums of `r v^(x)order` by distinct entries, as matrix products.

    Cut the rising indices of an entry in the middle: a left monomial of degree order // 2 that
    ends with an index j, and a right one that begins with j or more. So all left monomials that
    end with j times all right ones from j on give every entry once. A tile joins neighbouring j
    until it has eight rows, as a matrix product wants: of the entries 2% are then computed twice
    at d = 50, 30% at 10.

    Blocks of a thousand samples and more are multiplied in single precision. It rounds a mean by
    less than 1e-7 of a term; the sampling error is 1 / sqrt(n) of a term, far more for any n that
    can be read.
    """

    def __init__(self, d: int, order: int, shape: tuple[int, ...]) -> None:
        """Room for the factors of a few samples: new memory for each would cost as much as they."""
        if len(shape) > 1:
            raise ValueError("moments of several outputs go up to order 2")
        self.d, self.order, half = d, order, (order + 1) // 2
        self.few = _rows_in_cache(d, half)
        self.tiles = _tiles(d, order)
        precision = np.float32 if shape[0] >= 1000 else np.float64
        room = min(shape[0], self.few) + 16  # rows 2^k apart would compete for cache lines
        self.levels = [np.empty((count(d, k), room), precision) for k in range(1, half + 1)]
        self.total = [np.zeros((len(left), count(d, half) - start)) for left, start in self.tiles]

    def add(self, u: Array, r: Array, norms: Array) -> None:
        """Those of a few samples, u (d, n), with their `|u|^2`."""
        # Factors are at most 1: no scale of labels or inputs overflows.
        largest, largest_r = max(float(norms.max()) ** 0.5, 1.0), float(np.abs(r).max()) or 1.0
        levels = [level[:, : len(r)] for level in self.levels]
        v = levels[0]
        v[0], v[1:] = 1 / largest, u / largest
        weights = (r / largest_r).astype(v.dtype)
        for k in range(1, len(levels)):
            _extend_monomials(v, levels[k - 1], k, levels[k])
        scale = largest_r * largest**self.order
        for total, (left, start) in zip(self.total, self.tiles, strict=True):
            rows = levels[self.order // 2 - 1][left] * weights
            total += np.multiply(rows @ levels[-1][start:].T, scale, dtype=np.float64)

    @property
    def entries(self) -> Array:
        """The distinct entries."""
        out = np.empty(count(self.d, self.order))
        out[_tile_positions(self.d, self.order)] = np.concatenate([t.ravel() for t in self.total])
        return out


def _rows_in_cache(d: int, degree: int) -> int:
    """Samples whose monomials of a degree, in single precision, take four megabytes."""
    return max(32, min(4096, 2**20 // count(d, degree)))


def _extend_monomials(v: Array, lower: Array, degree: int, out: Array) -> None:
    """Monomials of the next degree, one a row: `v_i` times those that begin with i or more."""
    start = 0
    for i in range(len(v)):
        rest = lower[len(lower) - count(len(v) - i, degree) :]
        np.multiply(v[i], rest, out=out[start : start + len(rest)])
        start += len(rest)


@lru_cache(maxsize=16)
def _tiles(d: int, order: int) -> list[tuple[AnyArray, int]]:
    """The left monomials of each tile, and where its right ones begin: they go on to the last."""
    last = places(d, order // 2)[:, -1]
    rows, last = np.argsort(last, kind="stable"), np.sort(last)
    right, tiles, start = (order + 1) // 2, [], 0
    while start < len(rows):
        stop = np.searchsorted(last, last[min(start + 8, len(rows)) - 1], "right")
        first = count(d, right) - count(d - int(last[start]), right)
        tiles.append((rows[start:stop], first))
        start = int(stop)
    return tiles


@lru_cache(maxsize=4)
def _tile_positions(d: int, order: int) -> AnyArray:
    """Where the entries that are computed, tile by tile, stand among the distinct ones."""
    low, high = places(d, order // 2), places(d, (order + 1) // 2)
    found = []
    for left, start in _tiles(d, order):
        rows, columns = low[left], high[start:]
        shape = (len(rows), len(columns))
        index = np.concatenate(
            [
                np.broadcast_to(rows[:, None], (*shape, rows.shape[1])),
                np.broadcast_to(columns, (*shape, columns.shape[1])),
            ],
            axis=-1,
        )
        found.append(positions(np.sort(index), d).ravel())
    return np.concatenate(found)


def memory_needed(features: int, order: int) -> int:
    """Bytes of a pass for moments up to an order, and of the flattening that is taken apart."""
    entries = count(features + 1, order)
    half = order // 2
    flat = count(features, half - 1) ** 2 * count(features, order - 2 * (half - 1))
    # A thread holds its sums and their copy; the tables have an index for every place.
    return 8 * ((order + 3 * workers()) * entries + 3 * flat)


# ---------------------------------------------------------------- are the inputs Gaussian?


@dataclass(frozen=True)
class GaussianCheck:
    """Whether the inputs look Gaussian, as the theorems of the moment route assume."""

    ok: bool
    message: str
    skewness: float
    """Largest over the inputs."""
    excess_kurtosis: float
    """Largest over the inputs."""
    radial_kurtosis: float
    """Mardia's kurtosis of all inputs together, over its Gaussian value, less 1."""


def check_gaussian(X: Array, standardisation: Standardisation) -> GaussianCheck:
    """Skewness and kurtosis of each input, and Mardia's kurtosis of all together."""
    blocks = (standardisation.apply(X[rows]) for rows in row_blocks(len(X)))
    return _gaussian_check(X, np.concatenate([np.sum(z**2, axis=1) for z in blocks]))


def check_standardised(X: Array, z: Array) -> GaussianCheck:
    """The same of inputs X that are z once they are standardised."""
    return _gaussian_check(X, np.sum(z**2, axis=1))


@np.errstate(divide="ignore", invalid="ignore")  # of an input that does not vary: not a number
def _gaussian_check(X: Array, squares: Array) -> GaussianCheck:
    """The same of inputs that have these squared norms once they are standardised."""
    n, d = X.shape
    skewness = kurtosis = 0.0
    for columns in row_blocks(d, max(1, 2**22 // n)):  # a copy of 32 MB at a time
        centred = X[:, columns] - X[:, columns].mean(axis=0)
        second = centred**2
        variance = second.mean(axis=0)
        third, fourth = (np.einsum("nd,nd->d", second, f) / n for f in (centred, second))
        skewness = np.maximum(skewness, np.max(np.abs(third / variance**1.5)))
        kurtosis = np.maximum(kurtosis, np.max(np.abs(fourth / variance**2 - 3)))
    # Over the square of its own mean: the inputs may be a draw from those that were standardised.
    radial = float(np.mean(squares**2) / np.mean(squares) ** 2 * d / (d + 2) - 1)
    deviations = {
        "skewed": skewness / np.sqrt(6 / n),
        "heavier or lighter in their tails": kurtosis / np.sqrt(24 / n),
        "spread unevenly about their centre": abs(radial) / np.sqrt(8 / (n * d * (d + 2))),
    }
    worst = max(deviations, key=lambda name: deviations[name])
    ok = deviations[worst] < 5
    message = (
        f"The inputs look Gaussian (largest deviation {deviations[worst]:.1f} sigma)."
        if ok
        else f"The inputs do not look Gaussian: they are {worst} ({deviations[worst]:.0f} sigma)."
    )
    return GaussianCheck(bool(ok), message, float(skewness), float(kurtosis), radial)
