"""Hermite moments of the labels, `T_k = E[y He_k(z)]` for inputs z of mean 0 and covariance I.

`He_k(x)` is the symmetric tensor with `<He_k(x), w^(x)k> = He_k(w.x)` for every unit vector w
(ATV21, equation 6). The moments of a known network are exact (Lemma 3.5). Those of samples are sums
that merge, taken in one pass, and two things make them far better than plain means:

*Control variates.* Hermite polynomials of different order are orthogonal, so y may be replaced by
`r = y - T_0 - <T_1, z> - <T_2, z z^T - I> / 2`, the residual of the lower orders, without changing
the orders from 3 on; only the variance falls.

*Projection.* Higher orders are built inside the span of the units (u = B z, few coordinates), so
their cost is in units^4, not features^4.

The pass sums raw moments of `v = (1, u)` by distinct entries: those of the highest order contain
all lower ones. Their errors need no second sum of tensors, only `E[r^2 ||He_k(u)||^2]`, where the
norm is a polynomial in |u|^2 (`norm_polynomial`).

*Size-biased samples* (GP19, B.6) were kept with probability proportional to their labels. Inputs
then have the density `f(x) phi(x) / E[f]`, so the plain mean of `He_k` over them is `T_k / T_0`.
Fourth powers make plain means noisy. Where labels are given and f is nowhere 0,
`E_kept[g He_k / f] = E[g He_k] / E[f]` is 0 for every polynomial g of degree below k, so `He_k` may
be weighted by `1 - g(x) / y` with the g that makes this smallest (least squares on the samples): at
threshold 4 the error of `T_4` falls to 0.13 of the plain mean's with 3 sigmoid units, to 0.08 with
5. Where f vanishes, as under ReLUs, the identity fails, and so does a check that the samples
weighted by `1 / y` are standard normal: then plain means are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import combinations
from math import factorial

import numpy as np
from scipy.special import binom

from provenet.common.typing import TINY, AnyArray, Array, row_blocks
from provenet.data.passes import Sum, Sums, Term, rows_per_block, workers
from provenet.data.sources import Source
from provenet.data.standardisation import Standardisation
from provenet.moments.symmetric import (
    SymmetricTensor,
    count,
    monomials,
    places,
    positions,
)
from provenet.networks.network import Network

Terms = Callable[[Array, Array], tuple[Array, Array]]
"""Maps samples X, y to coordinates u (n, d) and weights r: a moment is the mean of `r He(u)`."""
Weights = Callable[[Array, Array], Array]
"""Maps samples X, y to the weights of `He_k`."""


@dataclass(frozen=True)
class MomentRequest:
    """Moments up to an order, in the coordinates of a subspace.

    The rows of `basis` are orthonormal; None is all of the space. `quadratic` is `T_2` in these
    coordinates if it serves as a control variate.
    """

    standardisation: Standardisation
    order: int
    basis: Array | None = None
    quadratic: Array | None = None

    @property
    def dimensions(self) -> int:
        """Number of coordinates."""
        return self.standardisation.features if self.basis is None else len(self.basis)

    def projected(self, rows: Array) -> Array:
        """Standardised vectors, one a row, in the coordinates of the subspace."""
        return rows if self.basis is None else rows @ self.basis.T

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
    """`T_0 .. T_order`; those of several outputs are stacked, the output first."""

    symmetric: tuple[SymmetricTensor, ...]
    """By distinct entries: full tensors of a high order would be too large."""
    errors: tuple[float, ...]
    """Root mean square sampling error of an entry of each; 0 if the moments are exact."""

    @cached_property
    def tensors(self) -> tuple[Array, ...]:
        """The full tensors."""
        return tuple(T.dense for T in self.symmetric)


def estimate_moments(source: Source, request: MomentRequest) -> Moments:
    """The requested moments, exact if the population is known."""
    if source.population is not None:
        return population_moments(source.population, request.order, request.basis)
    if source.biased:
        return _size_biased_moments(source, request)
    return sampled_moments(source, request)


def sampled_moments(
    source: Source, request: MomentRequest, weights: Weights | None = None
) -> Moments:
    """The moments of the samples, in one pass; with weights in place of the labels, if given."""
    term, rows = partial(MomentSums.of, request), rows_per_block(8 * source.features)
    term = term if weights is None else partial(_weighted, term, weights)
    return source.total(term, rows).finish(request)


def _weighted(term: Term[Sum], weights: Weights, X: Array, y: Array) -> Sum:
    return term(X, weights(X, y))


def high_moments(source: Source, standardisation: Standardisation, order: int) -> Moments:
    """Moments up to any order, with `T_2` as a control variate of the higher ones."""
    second = estimate_moments(source, MomentRequest(standardisation, 2))
    request = MomentRequest(standardisation, order, quadratic=second.tensors[2])
    found = estimate_moments(source, request)
    return replace(found, errors=(*second.errors, *found.errors[3:]))


def moment_terms(source: Source, request: MomentRequest) -> Terms:
    """Each sample's term in the moment of the highest order, as `estimate_moments` averages it."""
    if not source.biased:
        return request.residual
    plain = replace(request, quadratic=None)
    return partial(_weighted, plain.residual, weights_by_order(source, plain)[-1])


def population_moments(network: Network, order: int, basis: Array | None = None) -> Moments:
    """`T_k = sum_i a_i c_k(b_i) w_i^(x)k` on standard normal inputs (ATV21, Lemma 3.5).

    c_k are the Hermite coefficients of the activation.
    """
    norm = np.linalg.norm(network.weights, axis=1)
    project = np.eye(network.features) if basis is None else basis
    W = network.weights / norm[:, None] @ project.T
    tensors = []
    for k in range(order + 1):
        c = network.output_weights * network.activation.hermite(k, network.biases, norm)
        tensors.append(SymmetricTensor.of_terms(c, W, k))
    tensors[0] = tensors[0].plus(np.asarray(network.output_bias)[..., None])
    if network.linear is not None:
        tensors[1] = tensors[1].plus(network.linear @ project.T)
    return Moments(tuple(tensors), (0.0,) * (order + 1))


# ---------------------------------------------------------------- size-biased samples


def _size_biased_moments(source: Source, request: MomentRequest) -> Moments:
    """`T_0 .. T_order` over the labels' mean."""
    request = replace(request, quadratic=None)
    weights, d = weights_by_order(source, request), request.dimensions
    found = {w: sampled_moments(source, request, w) for w in set(weights)}
    # The sums take T_1 = 0 as known; it is a plain mean.
    first = source.total(partial(_coordinate_sums, request)) / source.size
    lower = SymmetricTensor(d, 0, np.ones(1)), SymmetricTensor(d, 1, first)
    higher = (found[w].symmetric[k] for k, w in enumerate(weights[1:], 2))
    errors = (found[w].errors[k] for k, w in enumerate(weights, 1))
    return Moments((*lower, *higher), (0.0, *errors))


def _coordinate_sums(request: MomentRequest, X: Array, y: Array) -> Array:
    return np.asarray(request.projected(X).sum(axis=0))


def weights_by_order(source: Source, request: MomentRequest) -> list[Weights]:
    """The weights of orders 1 .. order; orders with the same weights share one function."""
    if source.inputs_alone or not _reaches_everywhere(source, request):
        return [_ones] * request.order
    d = request.dimensions + 1
    # The largest degree below k whose polynomials, at most 300 monomials, are not too many to fit.
    degrees = [
        max(g for g in range(k) if g == 0 or count(d, g) <= 300)
        for k in range(1, request.order + 1)
    ]
    weights = {degree: _control(source, request, degree) for degree in set(degrees)}
    return [weights[degree] for degree in degrees]


def _ones(X: Array, y: Array) -> Array:
    return np.ones(len(X))


def _reaches_everywhere(source: Source, request: MomentRequest) -> bool:
    """Whether samples weighted by `1 / y` have the first and second moments of normal ones."""
    sums, squares = source.total(partial(_normal_moments, request))
    # Within five standard errors: chance is below 1e-6 a moment.
    return bool(np.all(np.abs(sums) <= 5 * np.sqrt(squares) + TINY))


def _normal_moments(request: MomentRequest, X: Array, y: Array) -> Array:
    """Sums, and sums of squares, of `He_1 / y` and `He_2 / y` in every coordinate."""
    u = request.projected(X)
    terms = np.column_stack([u, u**2 - 1]) / y[:, None]
    return np.array([terms.sum(axis=0), np.sum(terms**2, axis=0)])


def _control(source: Source, request: MomentRequest, degree: int) -> Weights:
    """`1 - g(x) / y` with the best g of a degree, by least squares."""
    gram = source.total(partial(_control_gram, request, degree))
    scale = np.sqrt(np.maximum(np.diag(gram), TINY))
    gram = gram / np.outer(scale, scale)
    g = np.linalg.lstsq(gram[:-1, :-1], gram[:-1, -1], rcond=1e-10)[0] * scale[-1] / scale[:-1]
    return partial(_unexplained, request, degree, g)


def _control_gram(request: MomentRequest, degree: int, X: Array, y: Array) -> Array:
    A = np.column_stack([_controls(request, degree, X, y), np.ones(len(y))])
    return np.asarray(A.T @ A)


def _unexplained(request: MomentRequest, degree: int, g: Array, X: Array, y: Array) -> Array:
    return np.asarray(1 - _controls(request, degree, X, y) @ g)


def _controls(request: MomentRequest, degree: int, X: Array, y: Array) -> Array:
    """Columns `m(u) / y`, m the monomials up to a degree."""
    u = request.projected(X)
    return monomials(np.column_stack([np.ones(len(u)), u]), degree) / y[:, None]


# ---------------------------------------------------------------- sums over samples


@dataclass(frozen=True)
class MomentSums(Sums):
    """Sums over samples of `r v^(x)order`, v = (1, u), and of `r^2 |u|^2j` for the errors."""

    n: int
    raw: Array
    """Distinct entries; with several outputs one row an output."""
    squares: Array

    @classmethod
    def of(cls, request: MomentRequest, X: Array, y: Array) -> MomentSums:
        """The sums over one block of samples, as matrix products.

        Cut the rising indices of an entry in the middle: a left monomial of degree order // 2 that
        ends with an index j, and a right one that begins with j or more. So all left monomials that
        end with j times all right ones from j on give every entry once (`_tiles`). With several
        outputs nothing is cut: one product of the labels with all monomials serves them all.

        From order 3 on, blocks of a thousand samples and more are multiplied in single precision.
        It rounds a mean by less than 1e-7 of a term; the sampling error is 1 / sqrt(n) of a term,
        far more for any n that can be read.
        """
        d, order, outputs = request.dimensions + 1, request.order, int(np.prod(y.shape[1:]))
        left = order // 2 if y.ndim == 1 else 0
        right = order - left
        precision = np.float32 if order > 2 and len(y) >= 1000 else np.float64
        few = max(32, min(4096, 2**20 // count(d, right)))  # 4 MB of monomials: some of the cache
        # New memory for each few would cost as much as the products; rows 2^k apart would compete
        # for cache lines.
        room = min(len(y), few) + 16
        levels = [np.empty((count(d, k), room), precision) for k in range(right + 1)]
        levels[0][:] = 1
        (tiles, where), columns = _tiles(d, left, right), count(d, right)
        total = [np.zeros((outputs * len(chosen), columns - first)) for chosen, first in tiles]
        squares = np.zeros(order + 1)
        for rows in row_blocks(len(y), few):
            u, r = request.residual(X[rows], y[rows])
            norms, r = np.einsum("nd,nd->n", u, u), r.reshape(len(u), -1).T
            term = np.sum(r**2, axis=0)
            for j in range(order + 1):
                squares[j] += term.sum()
                term *= norms
            # Factors are at most 1: no scale of labels or inputs overflows.
            largest, largest_r = max(float(norms.max()) ** 0.5, 1.0), float(np.abs(r).max()) or 1.0
            powers = [level[:, : len(u)] for level in levels]
            v = powers[1]
            v[0], v[1:] = 1 / largest, u.T / largest
            for k in range(2, right + 1):
                _multiply_monomials(v, powers[k - 1], k - 1, powers[k])
            weights = (r / largest_r).astype(precision)
            scale = largest_r * largest**order
            for sums, (chosen, first) in zip(total, tiles, strict=True):
                factors = (weights[:, None] * powers[left][chosen]).reshape(-1, len(u))
                sums += np.multiply(factors @ powers[right][first:].T, scale, dtype=np.float64)
        raw = np.empty((outputs, count(d, order)))
        raw[:, where] = np.hstack([sums.reshape(outputs, -1) for sums in total])
        return cls(len(y), raw.reshape(*y.shape[1:], -1), squares)

    def finish(self, request: MomentRequest) -> Moments:
        """Hermite moments and their sampling errors from the sums."""
        s, d, order = request.standardisation, request.dimensions, request.order
        # The entries with order - k indices 0 of v = (1, u), those of u alone, stand together.
        edges = [count(d + 1, k) for k in range(order)]
        raw = np.split(self.raw / self.n, edges, axis=-1)
        tensors = _hermite_from_raw(raw, d)
        variances = []
        for k, T in enumerate(tensors):
            square = float(self.squares[: k + 1] @ norm_polynomial(k, d)) / self.n
            outputs = T.entries.size // T.entries.shape[-1]
            variances.append(max(square - T.squared_norm, 0.0) / (outputs * d**k))
        # The lower orders that were subtracted from the labels are put back as their estimate.
        tensors[0] = replace(tensors[0], entries=np.asarray(s.label_mean)[..., None])
        tensors[1] = replace(tensors[1], entries=request.projected(s.linear))
        variances[0] = s.label_spread**2
        if request.quadratic is not None:
            tensors[2] = SymmetricTensor.of_dense(request.quadratic)
        return Moments(tuple(tensors), tuple(float(np.sqrt(v / self.n)) for v in variances))


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


def _multiply_monomials(v: Array, lower: Array, degree: int, out: Array) -> None:
    """Monomials of the next degree, one a row: `v_i` times those that begin with i or more."""
    start = 0
    for i in range(len(v)):
        rest = lower[len(lower) - count(len(v) - i, degree) :]
        np.multiply(v[i], rest, out=out[start : start + len(rest)])
        start += len(rest)


@lru_cache(maxsize=16)
def _tiles(d: int, left: int, right: int) -> tuple[list[tuple[AnyArray, int]], AnyArray]:
    """The left monomials of each tile and where its right ones begin, to go on to the last.

    A tile joins the left monomials of neighbouring last indices until it has eight, as a matrix
    product wants: of the entries 2% are then computed twice at d = 50, 30% at 10. Also returned:
    where the entries, tile by tile, stand among the distinct ones.
    """
    beginnings, endings = places(d, left), places(d, right)
    last = beginnings[:, -1] if left else np.zeros(1, dtype=int)
    rows, last = np.argsort(last, kind="stable"), np.sort(last)
    tiles, found, start = [], [], 0
    while start < len(rows):
        stop = int(np.searchsorted(last, last[min(start + 8, len(rows)) - 1], "right"))
        chosen, first = rows[start:stop], int(np.searchsorted(endings[:, 0], last[start]))
        begin = np.repeat(beginnings[chosen], len(endings) - first, axis=0)
        index = np.hstack([begin, np.tile(endings[first:], (len(chosen), 1))])
        found.append(positions(np.sort(index), d))
        tiles.append((chosen, first))
        start = stop
    return tiles, np.concatenate(found)


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


@np.errstate(divide="ignore", invalid="ignore")  # of an input that does not vary: not a number
def check_gaussian(X: Array, standardisation: Standardisation | None = None) -> GaussianCheck:
    """Skewness and kurtosis of each input, and Mardia's kurtosis of all together.

    Without a standardisation the inputs count as independent, each with its own mean and size.
    """
    (n, d), squares = X.shape, np.zeros(len(X))
    if standardisation is not None:
        for rows in row_blocks(n):
            squares[rows] = np.sum(standardisation.apply(X[rows]) ** 2, axis=1)
    skewness = kurtosis = 0.0
    for columns in row_blocks(d, max(1, 2**22 // n)):  # a copy of 32 MB at a time
        centred = X[:, columns] - X[:, columns].mean(axis=0)
        second = centred**2
        variance = second.mean(axis=0)
        third, fourth = (np.einsum("nd,nd->d", second, f) / n for f in (centred, second))
        skewness = np.maximum(skewness, np.max(np.abs(third / variance**1.5)))
        kurtosis = np.maximum(kurtosis, np.max(np.abs(fourth / variance**2 - 3)))
        if standardisation is None:
            squares += np.sum(second / variance, axis=1)
    # Over the square of its own mean: the inputs may be a draw from those that were standardised.
    radial = float(np.mean(squares**2) / np.mean(squares) ** 2 * d / (d + 2) - 1)
    deviations = {
        "skewed": skewness / np.sqrt(6 / n),
        "heavier or lighter in their tails": kurtosis / np.sqrt(24 / n),
        "spread unevenly about their centre": abs(radial) / np.sqrt(8 / (n * d * (d + 2))),
    }
    worst = max(deviations, key=lambda name: deviations[name])
    if deviations[worst] < 5:
        largest = f"largest deviation {deviations[worst]:.1f} sigma"
        return GaussianCheck(True, f"The inputs look Gaussian ({largest}).")
    sigmas = f"{deviations[worst]:.0f} sigma"
    return GaussianCheck(False, f"The inputs do not look Gaussian: they are {worst} ({sigmas}).")
