"""Lifted equations for pairs of labels: steps 2 to 4 of `"symmetric-inputs"` (BJW19, section 4.3).

`symmetric_inputs` has the derivation and the letters. Two systems are solved here, on inputs that
are whitened and not shifted, so that -x stays -x:

- *ours*, `Cov[F, t(x)] = 0` in the unknowns (P, q), t damped and q for an output bias;
- *the paper's* (Theorem 8, after Ge, Kuditipudi, Li and Wang 2018),

      E[(y^T P y - y^T P M x) x x^T] = s E[x x^T]

  in the unknowns (P, s): no damping, no output bias, and s, the noise's share, is what the last
  column of the augmented distinguishing matrix (Definition 10) stands for. For a unit's row u of
  `A^-1` and `P = u u^T` it holds with `s = E[(u.e)^2]`; for rows u_i, u_j of two units the left
  side is `-1/2` of the matrix' column (i, j). The sign of a row is that of `E[u.y]`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array
from provenet.data.passes import Sums
from provenet.data.sources import Source
from provenet.methods.tolerances import CORRELATION_MARGIN, LIFTED_BLOCK_ROWS
from provenet.moments.decomposition import congruence
from provenet.moments.symmetric import monomials

# ---------------------------------------------------------------- step 2: units and outputs


@dataclass(frozen=True)
class Reduction:
    """`B (y - mean)` has one entry a unit."""

    B: Array
    rest: Array
    """Rows that give what the canonical vectors leave of the labels."""
    mean: Array
    correlations: Array
    """Canonical correlations of the labels with the inputs, falling."""
    noise_level: float
    """The largest that sampling alone produces."""

    @property
    def units(self) -> int:
        """Rank of `A W`: the number of units."""
        return len(self.B)


def reduce_outputs(
    covariance: Array, mean: Array, linear: Array, n: int, units: int | None
) -> Reduction:
    """The canonical vectors of the labels that correlate with standardised inputs.

    `linear` (outputs, features) is the regression of y on x; n samples. Directions in which y does
    not vary at all (no noise, more outputs than units) are left out first.
    """
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-12 * values[-1]
    whiten = (vectors[:, kept] / np.sqrt(values[kept])).T
    left, correlations, _ = np.linalg.svd(whiten @ linear)
    # Independent errors of size 1/sqrt(n): the edge of their singular values (Marchenko, Pastur).
    level = CORRELATION_MARGIN * (np.sqrt(linear.shape[1]) + np.sqrt(len(whiten))) / np.sqrt(n)
    level = max(float(level), 1e-10)
    rank = int(np.sum(correlations > level)) if units is None else min(units, len(correlations))
    B, rest = left[:, :rank].T @ whiten, left[:, rank:].T @ whiten
    return Reduction(B, rest, mean, correlations, level)


def label_covariance(source: Source, mean: Array) -> Array:
    """Covariance of the labels, (outputs, outputs)."""

    def term(_: Array, y: Array) -> Array:
        centred = y - mean
        return np.asarray(centred.T @ centred)

    return np.asarray(source.total(term) / source.size)


# ---------------------------------------------------------------- step 3: the lifted equations


@dataclass(frozen=True)
class LiftedSums(Sums):
    """Sums of F, G and `F^T G`: F the lifted unknowns' factors, G the distinct entries of t(x)."""

    n: int
    F: Array
    G: Array
    FG: Array

    @classmethod
    def of(cls, X: Array, y: Array, M: Array) -> LiftedSums:
        """The sums over samples with as many labels as units, M (units, features)."""
        return cls._of(lifted_factors(y, X @ M.T), even_functions(X, len(M)))

    @classmethod
    def of_paper(cls, X: Array, y: Array, M: Array) -> LiftedSums:
        """The same for the paper's equations: the last unknown is the noise's share."""
        F = np.column_stack([pair_factors(y, X @ M.T), -np.ones(len(X))])
        return cls._of(F, monomials(X, 2) * pair_scale(X.shape[1]))

    @classmethod
    def _of(cls, F: Array, G: Array) -> LiftedSums:
        return cls(len(F), F.sum(axis=0), G.sum(axis=0), F.T @ G)

    def equations(self) -> Array:
        """`Cov[F, G]`: one row an unknown, one column an equation."""
        covariance: Array = self.FG / self.n - np.outer(self.F, self.G) / self.n**2
        return covariance

    def moments(self) -> Array:
        """`E[F G]`, the paper's equations: one row an unknown, one column an equation."""
        return self.FG / self.n


def even_functions(X: Array, units: int) -> Array:
    """The distinct entries of t(x), of both kinds where one gives few equations."""
    features = X.shape[1]
    damping = 1 / (1 + np.mean(X**2, axis=1, keepdims=True))
    first: Array = monomials(X, 2) * pair_scale(features) * damping
    if pairs(features) >= 2 * (pairs(units) + units):
        return first
    return np.hstack([first, 2 * damping * first])


def pairs(size: int) -> int:
    """Distinct entries of a symmetric matrix."""
    return size * (size + 1) // 2


def pair_scale(size: int) -> Array:
    """Weights under which the distinct entries of a symmetric matrix have its Frobenius norm."""
    rows, columns = np.triu_indices(size)
    return np.where(rows == columns, 1.0, np.sqrt(2.0))


def pair_factors(y: Array, v: Array) -> Array:
    """What multiplies each distinct entry of P in `y^T P y - y^T P v` (v = M x)."""
    rows, columns = np.triu_indices(y.shape[1])
    mixed = (y[:, rows] * v[:, columns] + v[:, rows] * y[:, columns]) / 2
    return (monomials(y, 2) - mixed) * pair_scale(y.shape[1])


def lifted_factors(y: Array, v: Array) -> Array:
    """What multiplies each distinct entry of P, then each entry of q."""
    return np.hstack([pair_factors(y, v), v - 2 * y])


def lifted_sums(
    source: Source, whiten: Array, reduction: Reduction, M: Array, paper: bool = False
) -> LiftedSums:
    """One pass over all samples; inputs are whitened, not shifted, so that -x stays -x."""

    def term(X: Array, y: Array) -> LiftedSums:
        if paper:
            return LiftedSums.of_paper(X @ whiten.T, y @ reduction.B.T, M)
        return LiftedSums.of(X @ whiten.T, (y - reduction.mean) @ reduction.B.T, M)

    return source.total(term, rows=LIFTED_BLOCK_ROWS)


@dataclass(frozen=True)
class NullSpace:
    """Symmetric matrices P (units of them) that solve the lifted equations, and how surely."""

    P: Array
    gap: float
    """The smallest singular value that is not of the null space over the largest that is."""


def null_space(equations: Array, units: int) -> NullSpace:
    """The `units` best solutions of the lifted equations."""
    vectors, values, _ = np.linalg.svd(equations, full_matrices=True)
    values = np.concatenate([values, np.zeros(len(vectors) - len(values))])
    rows, columns = np.triu_indices(units)
    solutions = vectors[: len(rows), -units:].T / pair_scale(units)
    P = np.zeros((units, units, units))
    P[:, rows, columns] = P[:, columns, rows] = solutions
    return NullSpace(P, float(values[-units - 1] / max(values[-units], 1e-12 * values[0])))


# ---------------------------------------------------------------- step 4: the units


def unit_directions(U: Array, M: Array, label_squares: Array) -> Array:
    """`W = U M`, each row of the sign for which `Cov[u.y, t(x)(w, w)]` is positive.

    `label_squares` (units, distinct pairs) is `Cov[y, t(x)]`.
    """
    W = U @ M
    quadratic = monomials(W, 2) * pair_scale(W.shape[1])
    sign = np.sign(np.sum((U @ label_squares) * quadratic, axis=1))
    return np.asarray(np.where(sign == 0, 1.0, sign)[:, None] * W)


def find_directions(sums: LiftedSums, M: Array) -> tuple[Array, NullSpace]:
    """W (units, features) on whitened inputs, and the null space it was read from."""
    units = len(M)
    equations = sums.equations()
    null = null_space(equations, units)
    # The factor of q is M x - 2 y, and M x is odd: what is left of it is -2 Cov[y, G].
    label_squares = -equations[-units:, : pairs(M.shape[1])]
    return unit_directions(congruence(null.P), M, label_squares), null


def paper_directions(sums: LiftedSums, M: Array, label_mean: Array) -> tuple[Array, NullSpace]:
    """The same from the paper's equations; `label_mean` is that of the reduced labels."""
    null = null_space(sums.moments(), len(M))
    U = congruence(null.P)
    return np.where(U @ label_mean < 0, -1.0, 1.0)[:, None] * (U @ M), null
