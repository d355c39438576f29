"""Linear systems of least squares: scaled Cholesky factors and conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from provenet.common.typing import Array

Solver = Callable[[Array], Array]


def solver_scaled(matrix: Array, ridge: float) -> Solver:
    """`b -> M^-1 b` of a positive semidefinite matrix, by Cholesky of M scaled to unit diagonal.

    The ridge is added to that; it grows a thousandfold until a factor exists. Least squares by
    singular values stand in where none does.
    """
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0] = 1.0
    A = matrix / scale / scale[:, None]
    for extra in ridge * 1000.0 ** np.arange(6):
        A[np.diag_indices(len(A))] += extra
        factor, failed = lapack.dpotrf(A, lower=1, clean=0)
        if not failed:
            return lambda b: (lapack.dpotrs(factor, (b.T / scale).T, lower=1)[0].T / scale).T
    return lambda b: np.asarray((np.linalg.lstsq(A, (b.T / scale).T, rcond=None)[0].T / scale).T)


def solve_scaled(matrix: Array, rhs: Array, ridge: float) -> Array:
    """The same for one right-hand side, or several columns."""
    return solver_scaled(matrix, ridge)(rhs)


def conjugate_gradients(
    product: Solver, rhs: Array, precondition: Solver, accuracy: float, most: int = 200
) -> tuple[Array, bool]:
    """`M x = rhs` to a relative residual of `accuracy` in at most so many products, and if it was.

    An iterate that ends early is still a direction of descent, orthogonal to its residual.
    """
    x, r = np.zeros_like(rhs), rhs
    direction = precondition(r)
    size = first = float(r @ direction)
    for _ in range(most):
        if size <= accuracy**2 * first:
            return x, True
        image = product(direction)
        bend = float(direction @ image)
        if bend <= 0:  # rounding: M is positive semidefinite
            break
        x, r = x + size / bend * direction, r - size / bend * image
        scaled = precondition(r)
        size, before = float(r @ scaled), size
        direction = scaled + size / before * direction
    return x, False
