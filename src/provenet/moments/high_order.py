"""Hermite moments `T_0 .. T_2m` of any order, by distinct entries, in one pass.

With `v = (1, x)` all monomials of x up to degree 2m are products of two monomials of v of degree m,
so one matrix product a block, `phi(v)^T diag(r) phi(v)`, sums them all; Hermite moments are fixed
combinations of these. Labels come less their orders 0 to 2, which orders 3 and up do not see: only
their variance falls. Errors are those between groups of samples.

Cost: 2 n D^2 operations and 8 D^2 bytes a group and thread, `D = binomial(d + m, m)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise, product

import numpy as np
from numpy.polynomial.hermite_e import herme2poly

from provenet.common.typing import AnyArray, Array
from provenet.data.parallel import workers
from provenet.data.sources import Source
from provenet.data.standardisation import Standardisation
from provenet.moments.estimation import estimate_moments
from provenet.moments.sums import MomentRequest
from provenet.moments.symmetric import (
    SymmetricTensor,
    count,
    exponents,
    monomials,
    multiplicities,
    positions,
)
from provenet.moments.tolerances import ERROR_GROUPS, FEWEST_IN_GROUP
from provenet.networks.network import Network


@dataclass(frozen=True)
class HighMoments:
    """`T_0 .. T_order` and the root mean square error of an entry of each."""

    tensors: tuple[SymmetricTensor, ...]
    errors: tuple[float, ...]


def memory_needed(features: int, order: int) -> int:
    """Bytes that a pass for moments up to an even order takes, and their flattening."""
    half = order // 2
    sums = count(features + 1, half) ** 2 * (ERROR_GROUPS + 2 * workers())
    flat = 3 * count(features, half - 1) ** 2 * count(features, 2)
    return 8 * (sums + flat)


def high_moments(source: Source, standardisation: Standardisation, order: int) -> HighMoments:
    """Moments up to an even order of standardised samples, or of a population."""
    if source.population is not None:
        return population_high_moments(source.population, order)
    second = estimate_moments(source, MomentRequest(standardisation, order=2))
    request = MomentRequest(standardisation, 2, quadratic=second.tensors[2])
    groups = min(ERROR_GROUPS, max(source.size // FEWEST_IN_GROUP, 1))
    edges = np.linspace(0, source.size, groups + 1).astype(int)
    raw = np.array([_raw(source, request, a, b, order // 2) for a, b in pairwise(edges.tolist())])
    by_group = [_hermite(raw, source.features, k, order) for k in range(order + 1)]
    share = np.diff(edges) / source.size
    means = [share @ entries for entries in by_group]
    # What was taken off the labels is the estimate of the lowest orders.
    means[0] = np.reshape(second.tensors[0], 1)
    for k in (1, 2):
        means[k] = SymmetricTensor.of_dense(second.tensors[k]).entries
    tensors = tuple(SymmetricTensor(source.features, k, e) for k, e in enumerate(means))
    errors = tuple(_error(entries, source.features, k) for k, entries in enumerate(by_group))
    return HighMoments(tensors, (*second.errors[:3], *errors[3:]))


def population_high_moments(network: Network, order: int) -> HighMoments:
    """Without sampling error (ATV21, Lemma 3.5)."""
    norm = np.linalg.norm(network.weights, axis=1)
    W, d = network.weights / norm[:, None], network.features
    tensors = []
    for k in range(order + 1):
        c = network.output_weights * network.activation.hermite(k, network.biases, norm)
        tensors.append(SymmetricTensor.of_terms(c, W, k))
    tensors[0] = SymmetricTensor(d, 0, tensors[0].entries + network.output_bias)
    if network.linear is not None:
        tensors[1] = SymmetricTensor(d, 1, tensors[1].entries + network.linear)
    return HighMoments(tuple(tensors), (0.0,) * (order + 1))


def _raw(source: Source, request: MomentRequest, first: int, last: int, half: int) -> Array:
    """Means of `r v^e` over some samples, for every e of degree 2 half."""

    term = partial(_products, request, half)
    total = source.partial_total(term, first, last, source.block_rows) / (last - first)
    e = exponents(source.features + 1, half)
    where = positions(e[:, None] + e)
    out = np.empty(count(source.features + 1, 2 * half))
    out[where] = total  # the same up to rounding wherever an entry stands twice
    return out


def _products(request: MomentRequest, half: int, X: Array, y: Array) -> Array:
    u, r = request.residual(X, y)
    phi = monomials(np.column_stack([np.ones(len(u)), u]), half)
    return np.asarray((phi * r[:, None]).T @ phi)


def _hermite(raw: Array, d: int, k: int, order: int) -> Array:
    """`E[r He_e(x)]` for every e of degree k, (groups, count): products of He_(e_j)(x_j)."""
    starts, columns, weights = _conversion(d, k, order)
    return np.asarray(np.add.reduceat(raw[:, columns] * weights, starts, axis=1))


@cache
def _conversion(d: int, k: int, order: int) -> tuple[AnyArray, AnyArray, Array]:
    """The raw entries of which every Hermite entry is made: where each begins, which, weights."""
    starts: list[int] = []
    weights: list[float] = []
    rows: list[AnyArray] = []
    for e in exponents(d, k):
        starts.append(len(weights))
        used = np.flatnonzero(e)
        terms = [[(i, c) for i, c in enumerate(_he(int(e[j]))) if c] for j in used]
        for choice in product(*terms):
            row = np.zeros(d + 1, dtype=np.intp)
            row[1 + used] = [i for i, _ in choice]
            row[0] = order - row.sum()
            rows.append(row)
            weights.append(float(np.prod([c for _, c in choice])))
    return np.array(starts), positions(np.array(rows)), np.array(weights)


@cache
def _he(n: int) -> tuple[float, ...]:
    """Coefficients of `He_n`, by rising power."""
    return tuple(herme2poly([0.0] * n + [1.0]).tolist())


def _error(by_group: Array, d: int, k: int) -> float:
    """Root mean square error of an entry of the full tensor, from its spread between groups."""
    groups = len(by_group)
    if groups < 2:
        return np.inf
    variance = by_group.var(axis=0, ddof=1) / groups
    return float(np.sqrt(variance @ multiplicities(exponents(d, k)) / d**k))
