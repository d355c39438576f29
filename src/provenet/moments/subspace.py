"""The span of the units, how many units there are, and the noise of both.

With linearly independent weights the range of `T_2 = sum_i a_i phi(b_i) w_i w_i^T` is the span of
the units, and its rank their number: the coefficient `a phi(b)` never vanishes (ERRATA, ATV21 8).
From samples every eigenvalue carries noise. A symmetric d x d matrix of independent errors of size
s has its eigenvalues within `2 s sqrt(d)`, with fluctuations of order `s d^(-1/6)` at the edge
(Wigner; Tracy and Widom), and s is known, because the sampling error of a mean can be estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.exceptions import NoAnswer
from provenet.common.typing import TINY, Array


@dataclass(frozen=True)
class Span:
    """Orthonormal rows that span the units, the spectrum they come from, and its noise."""

    basis: Array
    eigenvalues: Array
    """All eigenvalues of `T_2`, by falling size."""
    noise_level: float
    """Eigenvalues below this are what sampling error alone produces."""

    @property
    def rank(self) -> int:
        """Dimension of the span: the number of units if their weights are independent."""
        return len(self.basis)

    @property
    def quadratic(self) -> Array:
        """`T_2` in the coordinates of the basis: diagonal."""
        return np.diag(self.eigenvalues[: self.rank])

    @property
    def gap(self) -> float:
        """The smallest eigenvalue kept over the largest dropped (or the noise level)."""
        if self.rank == 0:
            return 0.0
        sizes = np.append(np.abs(self.eigenvalues), 0.0)
        return float(sizes[self.rank - 1] / max(self.noise_level, sizes[self.rank], TINY))


def numerical_rank(sizes: Array) -> int:
    """Number of singular values, falling, that are not zero to rounding."""
    return int(np.sum(sizes > 1e-9 * sizes[0]))


def possible_widths(sizes: Array, units: int | None, smallest_gap: float = 5.0) -> list[int]:
    """Possible numbers of units with independent output weights, likely ones first.

    `sizes` are the singular values of the labels, falling. Values at rounding leave no doubt.
    Otherwise there is noise, and the widest gap shows the rank; or the rank is full, and a gap
    means nothing.
    """
    rank = numerical_rank(sizes)
    if rank == 0:
        return []
    if units is None:
        ratios = sizes[: rank - 1] / sizes[1:rank]
        if rank < len(sizes) or len(ratios) == 0 or ratios.max() < smallest_gap:
            return [rank]
        return [int(np.argmax(ratios)) + 1, rank]
    if units > rank:
        raise NoAnswer(
            f"The labels span {rank} dimensions, fewer than {units} units: output weights are "
            'dependent. Use method="expand-prune", or "rank-deficient".'
        )
    return [units]


def noise_edge(entry_error: float, d: int) -> float:
    """Largest expected eigenvalue of a symmetric d x d matrix of pure sampling error."""
    s = entry_error * np.sqrt(d / (d + 1))  # diagonal entries carry twice the variance
    return float(s * (2 * np.sqrt(d) + 4 * d ** (-1 / 6)))  # four of Tracy and Widom's units


def stacked_noise_edge(entry_error: float, d: int, spectrum: Array) -> float:
    """Largest expected singular value of d x d matrices of several outputs side by side.

    A d x q matrix of independent errors of size s has `s (sqrt(d) + sqrt(q))`. Errors are as
    dependent between outputs as the labels are: their effective dimensions are the participation
    ratio of the squares of the labels' singular values `spectrum`. The margin is measured: pure
    noise reaches 0.8 of this edge from (features, units, outputs) = (10, 3, 2) to (50, 20, 30).
    """
    squares = spectrum**2
    dimensions = float(np.sum(squares) ** 2 / np.sum(squares**2))
    edge = np.sqrt(len(spectrum) * d) * (1 + 1 / np.sqrt(dimensions))
    return float(1.15 * entry_error * edge)


def span_of_units(T2: Array, entry_error: float, rank: int | None = None) -> Span:
    """The eigenvectors of `T_2` that stand above its noise, or the `rank` strongest."""
    values, vectors = np.linalg.eigh(T2)
    order = np.argsort(-np.abs(values))
    values, vectors = values[order], vectors[:, order]
    level = max(noise_edge(entry_error, len(T2)), 1e-12 * float(np.abs(values[0])))
    found = int(np.sum(np.abs(values) > level)) if rank is None else rank
    return Span(vectors[:, :found].T.copy(), values, level)


def complement(w: Array) -> Array:
    """Orthonormal rows that span the orthogonal complement of a unit vector, (d - 1, d)."""
    return np.asarray(np.linalg.svd(w[None], full_matrices=True)[2][1:])
