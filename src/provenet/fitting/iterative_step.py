"""Steps of least squares by conjugate gradients, for models whose normal equations are too large.

The letters are those of `normal_equations`. A product with S, the matrix with beta eliminated, is
two passes over the samples: `U = D v A^T` with its overlap `Phi^T U`, then
`D^T (U - Phi G^-1 Phi^T U) A`, `units features` operations a sample each. On standardised inputs
the diagonal is a good preconditioner: a unit's own block of H is close to a multiple of the
identity, and what units share most, the linear part, is eliminated. So a step of one digit, which
is all that Levenberg-Marquardt needs far from the answer, takes about five products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from provenet.common.blocks import row_blocks
from provenet.common.ended import Ended
from provenet.common.typing import Array
from provenet.data.parallel import sum_over
from provenet.data.sources.base import Source
from provenet.data.sums import Sums
from provenet.fitting.normal_equations import (
    DampedStep,
    input_gram,
    solver_scaled,
    with_input_gram,
)
from provenet.fitting.parameters import Parameters
from provenet.fitting.tolerances import (
    LEAST_DAMPING,
    MOST_KEPT,
    MOST_PRODUCTS,
    RIDGE,
    ROWS_KEPT,
    STEP_ACCURACY,
)
from provenet.networks.activations import Activation
from provenet.networks.tolerances import TINY


@dataclass(frozen=True)
class PointSums(Sums):
    """The gradient by theta, `diag H` a unit, the units' rows of `G`, `Phi^T r` and `|r|^2`."""

    theta_gradient: Array
    diagonal: Array
    gram: Array
    gradient: Array
    rss: float


@dataclass(frozen=True)
class Linearised:
    """Samples with the units' values and slopes at a point, for products with D and Phi."""

    X: Array
    values: Array
    slope: Array
    has_linear: bool

    @classmethod
    def at(cls, parameters: Parameters, activation: Activation, X: Array) -> Linearised:
        """At given parameters."""
        z = X @ parameters.theta[:, :-1].T + parameters.theta[:, -1]
        return cls(X, activation(z), activation.derivative(z), parameters.has_linear)

    def rows(self, block: slice) -> Linearised:
        """Some of the samples."""
        return Linearised(self.X[block], self.values[block], self.slope[block], self.has_linear)

    def change(self, V: Array, root: Array) -> Array:
        """`U`: how the labels (times `root`) change with theta."""
        moved = self.X @ V[:, :-1].T
        moved += V[:, -1]
        moved *= self.slope
        return np.asarray(moved @ root.T)

    def overlap(self, U: Array) -> Array:
        """`Phi^T U`."""
        linear = [self.X.T @ U] if self.has_linear else []
        return np.concatenate([self.values.T @ U, *linear, U.sum(axis=0)[None]]).astype(float)

    def explained(self, g: Array) -> Array:
        """`Phi g`."""
        m = self.values.shape[1]
        found = self.values @ g[:m] + g[-1]
        return np.asarray(found + self.X @ g[m:-1] if self.has_linear else found)

    def pulled_back(self, R: Array, root: Array) -> Array:
        """`D^T` of residuals (times `root`), one row a unit."""
        weighted = R @ root
        weighted *= self.slope
        return np.column_stack([weighted.T @ self.X, weighted.sum(axis=0)]).astype(float)


class IterativeStep:
    """Damped steps from one point.

    Samples in memory are kept in `dtype` with the units' values and slopes: the right-hand side
    alone, in float64, decides where the iteration ends. Of many outputs only the triangular factor
    of A counts.
    """

    def __init__(
        self,
        source: Source,
        parameters: Parameters,
        activation: Activation,
        dtype: type[np.floating] = np.float32,
        inputs: Array | None = None,
    ) -> None:
        """Pass over the samples, and keep them where they fit; `inputs` is their `input_gram`."""
        self.source, self.parameters, self.activation = source, parameters, activation
        A = parameters.output_weights
        root: Array = np.linalg.qr(A).R
        self.size = float(np.abs(root).max(initial=TINY))
        self.root = (root / self.size).astype(dtype)  # at most 1: no scale of labels overflows
        self.kept, sums = _at_point(source, parameters, activation, dtype)
        inputs = input_gram(source, parameters) if inputs is None else inputs
        self.rss, self.gram = sums.rss, with_input_gram(sums.gram, inputs)
        self.best_linear_part = solver_scaled(self.gram, RIDGE * len(self.gram))
        diagonal = (sums.diagonal * np.sum(A**2, axis=0)[:, None]).ravel()
        self.diagonal = diagonal + LEAST_DAMPING * diagonal.mean() + TINY
        self.rhs = sums.theta_gradient.ravel() - self._explained(sums.gradient)

    def _explained(self, overlap: Array) -> Array:
        """`D^T Phi G^-1 (Phi^T r) A`: what a better beta takes off the gradient, nearly nothing."""
        A, g = self.parameters.output_weights, self.best_linear_part(overlap)
        sizes = (float(np.abs(x).max(initial=TINY)) for x in (A, g))
        (A, a), (g, b) = ((x / size, size) for x, size in zip((A, g), sizes, strict=True))
        if self.kept is None:
            term = partial(_explained_term, self.parameters, self.activation, A, g)
            return a * b * self.source.total(term).ravel()
        kept, dtype = self.kept, self.root.dtype
        A, g = A.astype(dtype), g.astype(dtype)

        def pulled_back(block: slice) -> Array:
            part = kept.rows(block)
            return part.pulled_back(part.explained(g), A)

        return a * b * sum_over(_blocks(kept), pulled_back).ravel()

    def product(self, v: Array) -> Array:
        """S times a vector."""
        V = v.reshape(self.parameters.theta.shape).astype(self.root.dtype)
        if self.kept is None:
            at = (self.parameters, self.activation, self.root, V)
            g = self.best_linear_part(self.source.total(partial(_overlap_term, *at)))
            product = self.source.total(partial(_curvature_term, *at, g))
        else:
            product = self._product_in_memory(self.kept, V)
        return self.size**2 * product.ravel()

    def _product_in_memory(self, kept: Linearised, V: Array) -> Array:
        blocks = _blocks(kept)
        U = np.empty((len(kept.X), len(self.root)), self.root.dtype)

        def overlap(block: slice) -> Array:
            part = kept.rows(block)
            U[block] = part.change(V, self.root)
            return part.overlap(U[block])

        g = self.best_linear_part(sum_over(blocks, overlap)).astype(self.root.dtype)

        def curvature(block: slice) -> Array:
            part = kept.rows(block)
            return part.pulled_back(U[block] - part.explained(g), self.root)

        return sum_over(blocks, curvature)

    def solve(self, damping: float, accuracy: float = STEP_ACCURACY) -> DampedStep:
        """The damped step, to a relative residual of `accuracy`.

        Conjugate gradients that end early still give a direction of descent; `ended` says so.
        """
        extra = damping * self.diagonal
        scale = np.sqrt(self.diagonal + extra)
        size = len(self.rhs)
        operator = LinearOperator(
            (size, size),
            matvec=lambda u: (self.product(u / scale) + extra * u / scale) / scale,
            dtype=float,
        )
        found, unsolved = cg(operator, self.rhs / scale, rtol=accuracy, maxiter=MOST_PRODUCTS)
        ended = Ended.OUT_OF_STEPS if unsolved else Ended.CONVERGED
        return DampedStep(np.asarray(found / scale), ended)


def _blocks(kept: Linearised) -> list[slice]:
    return list(row_blocks(len(kept.X), ROWS_KEPT))


def _at_point(
    source: Source, parameters: Parameters, activation: Activation, dtype: type[np.floating]
) -> tuple[Linearised | None, PointSums]:
    """The samples, unless they lie elsewhere or are too many to keep, and the sums at a point."""
    m = parameters.units
    bytes_kept = np.dtype(dtype).itemsize * source.size * (source.features + 2 * m)
    if not source.in_memory or bytes_kept > MOST_KEPT:
        return None, source.total(partial(_point_term, parameters, activation))
    values, slope = np.empty((2, source.size, m), dtype)
    inputs, _ = source.rows(0, source.size)
    kept = Linearised(np.asarray(inputs, dtype), values, slope, parameters.has_linear)

    def keep(block: slice) -> PointSums:
        X, y = source.rows(block.start, block.stop)
        part = Linearised.at(parameters, activation, X)
        values[block], slope[block] = part.values, part.slope
        return _point_sums(parameters, part, y)

    return kept, sum_over(_blocks(kept), keep)


def _point_term(parameters: Parameters, activation: Activation, X: Array, y: Array) -> PointSums:
    return _point_sums(parameters, Linearised.at(parameters, activation, X), y)


def _point_sums(parameters: Parameters, part: Linearised, y: Array) -> PointSums:
    r = part.explained(parameters.beta.reshape(len(parameters.beta), -1)) - y.reshape(len(y), -1)
    squares = part.slope**2
    return PointSums(
        part.pulled_back(r, parameters.output_weights),
        np.column_stack([squares.T @ part.X**2, squares.sum(axis=0)]),
        part.overlap(part.values).T,
        part.overlap(r),
        float(np.vdot(r, r)),
    )


def _explained_term(
    parameters: Parameters, activation: Activation, A: Array, g: Array, X: Array, y: Array
) -> Array:
    part = Linearised.at(parameters, activation, X)
    return part.pulled_back(part.explained(g), A)


def _overlap_term(
    parameters: Parameters, activation: Activation, root: Array, V: Array, X: Array, y: Array
) -> Array:
    part = Linearised.at(parameters, activation, X)
    return part.overlap(part.change(V, root))


def _curvature_term(
    parameters: Parameters,
    activation: Activation,
    root: Array,
    V: Array,
    g: Array,
    X: Array,
    y: Array,
) -> Array:
    part = Linearised.at(parameters, activation, X)
    return part.pulled_back(part.change(V, root) - part.explained(g), root)
