"""What the designed objectives know of the data: `sum a b b^T` and `sum a b^(x)4`, nothing else.

`T_2 / c_2` and `T_4 / c_4` are these sums over the true units, for rows of norm 1. They come from a
population exactly, from samples by one pass (with the control variates of `moments`), or from a
batch of fresh samples without forming the tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources import Source
from provenet.data.standardisation import Standardisation
from provenet.landscape.fourth_order import (
    BatchFourth,
    DenseFourth,
    FourthOrder,
    SumOfFourthPowers,
    Transformed,
)
from provenet.moments.hermite import MomentRequest, estimate_moments, tensor_norm_squared
from provenet.moments.subspace import Span, noise_edge, span_of_units
from provenet.networks.activations import Activation
from provenet.networks.network import Network


@dataclass(frozen=True)
class Statistics:
    """The two sums, and how large sampling error alone is in them."""

    norms: tuple[Array, Array]
    """`sum_i a_i b_i b_i^T`: twice the same, or two independent estimates of it."""
    fourth: FourthOrder
    """`sum_i a_i b_i^(x)4`."""
    error: float
    """Largest eigenvalue of pure sampling error in `fourth`, as a form on symmetric matrices."""
    second_error: float = 0.0
    """The same of `norms`."""

    @property
    def features(self) -> int:
        """Dimension of the space."""
        return len(self.norms[0])

    @property
    def spectrum(self) -> Array:
        """Eigenvalues of the first estimate of `sum a b b^T`, rising."""
        return np.asarray(np.linalg.eigvalsh(self.norms[0]), dtype=float)

    def transformed(self, E: Array) -> Statistics:
        """The same sums over `E b_i`: in the coordinates of the rows of E."""
        first, second = (E @ N @ E.T for N in self.norms)
        stretch = float(np.linalg.norm(E, 2)) ** 2
        return Statistics(
            (first, second),
            Transformed(self.fourth, E),
            stretch**2 * self.error,
            stretch * self.second_error,
        )


def coefficients(activation: Activation) -> tuple[float, float]:
    """`c_2` and `c_4` of a unit of norm 1 without bias."""
    return float(activation.hermite(2, 0.0)), float(activation.hermite(4, 0.0))


def population_statistics(network: Network, basis: Array | None = None) -> Statistics:
    """The exact sums of a known network without biases; memory in units x features.

    In the coordinates of `basis` (rows orthonormal), if one is given.
    """
    network = network.canonical()
    a, W = network.output_weights, network.weights
    W = W if basis is None else W @ basis.T
    N = (W.T * a) @ W
    return Statistics((N, N), SumOfFourthPowers(a, W), error=0.0)


def span_of_source(
    source: Source, standardisation: Standardisation, activation: Activation, units: int | None
) -> Span:
    """The span of the units, with the spectrum of `sum a b b^T` and its noise."""
    full = estimate_moments(source, MomentRequest(standardisation, order=2))
    c_2 = coefficients(activation)[0]
    return span_of_units(full.tensors[2] / c_2, full.errors[2] / abs(c_2), units)


def sample_statistics(
    source: Source,
    standardisation: Standardisation,
    activation: Activation,
    span: Span | None = None,
) -> Statistics:
    """The sums from one pass over the samples: inside a span, or in all of the space.

    In r dimensions the pass holds about `r^4 / 4` numbers, and what it returns as many.
    """
    if source.population is not None:
        basis = np.eye(source.features) if span is None else span.basis
        return population_statistics(source.population, basis)
    c_2, c_4 = coefficients(activation)
    inside = None if span is None else span.basis
    lower = estimate_moments(source, MomentRequest(standardisation, 2, inside))
    second = lower.tensors[2] if span is None else c_2 * span.quadratic
    moments = estimate_moments(source, MomentRequest(standardisation, 4, inside, second))
    fourth = DenseFourth(moments.tensors[4] / c_4)
    error = largest_error(moments.errors[4] / abs(c_4), len(second))
    second_error = noise_edge(lower.errors[2] / abs(c_2), len(second))
    return Statistics((second / c_2,) * 2, fourth, error, second_error)


def largest_error(entry: float, d: int) -> float:
    """Largest eigenvalue of independent errors of that size in the entries of a tensor.

    On symmetric matrices the tensor is a matrix of pairs x pairs with the same norm.
    """
    pairs = d * (d + 1) // 2
    return noise_edge(entry * d**2 / pairs, pairs)


class BatchStatistics:
    """`Statistics` of a batch of samples, each computed when it is first asked for.

    The fourth-order tensor is never formed. Each half gives its own `sum a b b^T`: a product of the
    two is unbiased (ERRATA, GLM17 4).
    """

    def __init__(self, X: Array, y: Array, activation: Activation) -> None:
        """Standardised inputs and labels, and the activation behind them."""
        self.X, self.y, self.features = X, y, X.shape[1]
        self.c_2, self.c_4 = coefficients(activation)
        self.fourth = BatchFourth(X, y / self.c_4)

    @cached_property
    def norms(self) -> tuple[Array, Array]:
        """`sum_i a_i b_i b_i^T` from either half."""
        half = len(self.y) // 2
        parts = (slice(half), slice(half, None))
        first, second = (_second(self.X[part], self.y[part]) / self.c_2 for part in parts)
        return first, second

    @cached_property
    def error(self) -> float:
        """Largest eigenvalue of pure sampling error in `fourth`."""
        return largest_error(self._spread(4) / abs(self.c_4), self.features)

    @cached_property
    def second_error(self) -> float:
        """The same of `norms`."""
        return noise_edge(self._spread(2) / abs(self.c_2), self.features)

    def _spread(self, order: int) -> float:
        """Root mean square error of an entry of the moment of that order."""
        n, d = self.X.shape
        squares = np.einsum("nd,nd->n", self.X, self.X)
        sizes = self.y**2 * tensor_norm_squared(order, squares, d)
        return float(np.sqrt(np.mean(sizes) / d**order / n))


def _second(X: Array, y: Array) -> Array:
    weighted = X * y[:, None]
    return np.asarray(X.T @ weighted, dtype=float) / len(y) - float(y.mean()) * np.eye(X.shape[1])
