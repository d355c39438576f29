"""The distinguishing matrix of units and inputs: what tells pairs of units apart.

BJW19, Definition 10, after Ge, Kuditipudi, Li and Wang (2018): one column for each pair i < j,

    N_ij = E[z_i z_j 1{z_i z_j <= 0} (x (x) x)],    z = W x,

and, *augmented* for noise, a last column `E[x (x) x]`. Theorem 8 and Corollary 5 need its smallest
singular value to be away from zero, and need samples by a power of its inverse. Here inputs are
whitened and rows of W have norm 1, so that the figure does not depend on units of measurement.

It is singular where no input falls between two units' kinks, and where few entries of `x (x) x`
vary: for entries +-1 the squares are constant, `features (features - 1) / 2 + 1` rows are left for
`units (units - 1) / 2 + 1` columns, and with as many units as features it is square and near to
singular. With an unknown output bias there is a column `E[|z_i| x (x) x]` a unit more, and signs of
as many units as features leave it singular.

The smallest singular value is the mean over samples of a product along its two vectors, which gives
its sampling error; a matrix that is singular in truth would show some `sqrt(rows - columns + 1)`
of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import Array, row_blocks
from provenet.methods.stages.lifted_labels import pair_scale
from provenet.methods.tolerances import SINGULAR_ERRORS, SINGULAR_ROUNDING
from provenet.moments.symmetric import monomials


@dataclass(frozen=True)
class DistinguishingMatrix:
    """Both ends of the augmented matrix' spectrum."""

    smallest: float
    largest: float
    singular: float
    """What a matrix that is singular in truth may show as its smallest, by sampling."""

    @property
    def message(self) -> str:
        """The same in a sentence."""
        return (
            "The smallest singular value of the augmented distinguishing matrix (Definition 10) "
            f"is {self.smallest:.2g}; a singular one would show up to {self.singular:.1g}."
        )

    @property
    def is_singular(self) -> bool:
        """Whether it cannot be told from a singular one."""
        return bool(self.smallest <= self.singular)

    def facts(self) -> Iterator[tuple[str, str]]:
        """What there is to tell, as name and text."""
        told = (
            f"smallest singular value {self.smallest:.3g}, a singular one shows {self.singular:.1g}"
        )
        beyond = (
            "; the theorem does not cover these inputs, and the answer rests on its predictions"
        )
        yield "distinguishing", told + (beyond if self.is_singular else "")


def distinguishing_matrix(X: Array, W: Array) -> Array:
    """The augmented matrix (distinct pairs of features, pairs of units + 1), by blocks of rows."""
    blocks = (X[rows] for rows in row_blocks(len(X)))
    total: Array = sum((_squares(x).T @ _columns(x, W) for x in blocks), np.zeros(()))
    return total / len(X)


def distinguishing(X: Array, W: Array) -> DistinguishingMatrix:
    """Of whitened inputs X (n, features) and weights W (units, features) of any norms."""
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    left, values, right = np.linalg.svd(distinguishing_matrix(X, W))
    rows, columns = len(left), len(right)
    if columns > rows:
        return DistinguishingMatrix(0.0, float(values[0]), 0.0)
    squares = 0.0
    for some in row_blocks(len(X)):
        x = X[some]
        terms = (_squares(x) @ left[:, columns - 1]) * (_columns(x, W) @ right[-1])
        squares += float(terms @ terms)
    error = np.sqrt(max(squares / len(X) - values[-1] ** 2, 0.0) / len(X))
    singular = SINGULAR_ERRORS * error * np.sqrt(rows - columns + 1)
    return DistinguishingMatrix(
        float(values[-1]), float(values[0]), max(float(singular), SINGULAR_ROUNDING * values[0])
    )


def _squares(X: Array) -> Array:
    """`x (x) x`, its distinct entries weighted so that norms stay."""
    return monomials(X, 2) * pair_scale(X.shape[1])


def _columns(X: Array, W: Array) -> Array:
    """`z_i z_j 1{z_i z_j <= 0}` for i < j, and 1."""
    z, (i, j) = X @ W.T, np.triu_indices(len(W), 1)
    return np.column_stack([np.minimum(z[:, i] * z[:, j], 0.0), np.ones(len(X))])
