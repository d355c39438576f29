"""The model at a point, samples in memory: one evaluation serves all that follows.

The letters are those of `normal_equations`. One pass over the samples computes `z`, the units'
values and slopes there and what is left of the labels, r, and adds up `Phi^T Phi` and `Phi^T r`.
These give the best beta for the units as a correction of the one that was there, after which
`r - Phi dbeta` is left, without a second pass. If the step that led here is taken, the same values
and slopes serve the next one: only `D^T r` is new.

z and r are in float64. Values and slopes are kept in float32 where that is enough: the gradient,
sums over r in float64, alone decides where an iteration ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import TypeVar

import numpy as np

from provenet.common.blocks import row_blocks
from provenet.common.typing import Array
from provenet.data.parallel import sum_over
from provenet.data.sources.base import Source
from provenet.data.sums import Sums
from provenet.fitting.model import Parameters
from provenet.fitting.normal_equations import (
    NormalEquations,
    floored,
    input_gram,
    inverse_root,
    rows_of_jacobian,
    with_input_gram,
)
from provenet.fitting.paired_products import CurvatureSums, row_pairs
from provenet.fitting.tolerances import (
    ALIKE,
    MOST_KEPT,
    MOST_PAIRS_KEPT,
    RIDGE,
    ROWS_KEPT,
    SHARED_WORK,
)
from provenet.networks.activations import Activation
from provenet.networks.tolerances import TINY

Sum = TypeVar("Sum")


@dataclass(frozen=True)
class KeptSamples:
    """Samples in memory, in the forms that evaluations need."""

    X: Array
    Y: Array
    """(samples, outputs), also for one output."""
    folded: Array
    """[X, 1], in the precision in which values and slopes are kept."""
    gram: Array
    """`input_gram`."""

    @classmethod
    def of(
        cls, source: Source, parameters: Parameters, dtype: type[np.floating]
    ) -> KeptSamples | None:
        """All samples of a source; None if they lie elsewhere or are too many to keep."""
        numbers = source.size * (source.features + 2 * parameters.units)
        if not source.in_memory or np.dtype(dtype).itemsize * numbers > MOST_KEPT:
            return None
        X, y = source.rows(0, source.size)
        folded = np.ones((len(X), X.shape[1] + 1), dtype)
        folded[:, :-1] = X
        return cls(X, y.reshape(len(y), -1), folded, input_gram(source, parameters))

    @cached_property
    def columns(self) -> Array:
        """`folded` transposed."""
        return np.ascontiguousarray(self.folded.T)

    @cached_property
    def pairs(self) -> Array | None:
        """`row_pairs` of the columns, unless they are too many."""
        many = len(self.X) * len(self.columns) ** 2 // 2 > MOST_PAIRS_KEPT
        return None if many else row_pairs(self.columns)

    def total(self, units: int, term: Callable[[slice], Sum], rows: int = ROWS_KEPT) -> Sum:
        """The sum of a term over blocks of samples; threads share it where that is worth while."""
        if len(self.X) <= rows:
            return term(slice(None))
        blocks = list(row_blocks(len(self.X), rows))
        if self.folded.size * units > SHARED_WORK:
            return sum_over(blocks, term)
        return _added_up(blocks, term)


def _added_up(blocks: Sequence[slice], term: Callable[[slice], Sum]) -> Sum:
    return reduce(add, (term(block) for block in blocks))


@dataclass(frozen=True)
class _Evaluated(Sums):
    """The units' rows of `Phi^T Phi`, and `Phi^T r`."""

    gram: Array
    gradient: Array


@dataclass(frozen=True)
class Linearised:
    """Units, the best beta for them, and the samples' values and slopes there."""

    samples: KeptSamples
    parameters: Parameters
    values: Array
    slope: Array
    left: Array
    """What is left of the labels, (samples, outputs)."""
    root: Array
    """R with `G^-1 = R^T R`."""
    rss: float = field(init=False)

    def __post_init__(self) -> None:
        """Add up what is left."""
        object.__setattr__(self, "rss", float(np.vdot(self.left, self.left)))

    @classmethod
    def at(
        cls, samples: KeptSamples, parameters: Parameters, activation: Activation, passes: int = 1
    ) -> Linearised:
        """Evaluate the units, and correct beta so many times."""
        m, dtype = parameters.units, samples.folded.dtype
        W, b = np.ascontiguousarray(parameters.theta[:, :-1].T), parameters.theta[:, -1]
        beta = parameters.beta.reshape(len(parameters.beta), -1)
        values, slope = np.empty((2, len(samples.X), m), dtype)
        left = np.empty_like(samples.Y)
        tail = samples.X.shape[1] if parameters.has_linear else 0

        @np.errstate(over="ignore", invalid="ignore")  # a step that overflows is not taken
        def term(block: slice) -> _Evaluated:
            x = samples.X[block]
            z = x @ W
            z += b
            slope[block] = activation.derivative(z)
            own = activation(z)
            values[block] = own
            inputs = x[:, :tail]
            r = own @ beta[:m]
            r += inputs @ beta[m:-1] + beta[-1]
            r -= samples.Y[block]
            left[block] = r
            return _Evaluated(
                np.column_stack([own.T @ own, own.T @ inputs, own.sum(axis=0)]),
                np.concatenate([own.T @ r, inputs.T @ r, r.sum(axis=0)[None]]),
            )

        sums = samples.total(m, term)
        gram = with_input_gram(sums.gram, samples.gram)
        if not np.isfinite(gram).all():
            left.fill(np.inf)
            return cls(samples, parameters, values, slope, left, np.zeros_like(gram))
        root = inverse_root(gram, RIDGE * len(gram))
        found = cls(samples, parameters, values, slope, left, root)
        for correction in range(passes):
            found = found.corrected(found.overlap(found.left) if correction else sums.gradient)
        return found

    @property
    def tail(self) -> Array:
        """The columns of Phi after the units' values."""
        return self.samples.folded if self.parameters.has_linear else self.samples.folded[:, -1:]

    def best_linear_part(self, overlap: Array) -> Array:
        """`G^-1` times an overlap with Phi."""
        return np.asarray(self.root.T @ (self.root @ overlap))

    def overlap(self, U: Array) -> Array:
        """`Phi^T U` for columns in float64."""
        m, tail = self.values.shape[1], self.tail

        def term(block: slice) -> Array:
            part = U[block]
            return np.concatenate([self.values[block].T @ part, tail[block].T @ part])

        return np.asarray(self.samples.total(m, term), float)

    @np.errstate(over="ignore", invalid="ignore")  # a step that overflows is not taken
    def corrected(self, gradient: Array) -> Linearised:
        """With beta corrected by what `Phi^T r` asks for."""
        step, m = self.best_linear_part(gradient), self.values.shape[1]
        left = self.left - self.values @ step[:m].astype(self.values.dtype)
        left -= step[-1]
        if self.parameters.has_linear:
            left -= self.samples.X @ step[m:-1]
        beta = self.parameters.beta - step.reshape(self.parameters.beta.shape)
        parameters = Parameters(self.parameters.theta, beta)
        return Linearised(self.samples, parameters, self.values, self.slope, left, self.root)

    def theta_gradient(self) -> Array:
        """`sum_n slope_ni (r_n . A_i) (x_n, 1)` for every unit i."""
        m, A = self.values.shape[1], self.parameters.output_weights

        def term(block: slice) -> Array:
            weighted = self.left[block] @ A
            weighted *= self.slope[block]
            x = self.samples.X[block]
            return np.column_stack([weighted.T @ x, weighted.sum(axis=0)])

        return self.samples.total(m, term)

    def diagonal(self, floor: float) -> Array:
        """The diagonal of `(A^T A) o H`, a row a unit, no entry below a fraction of the mean."""
        m, A = self.values.shape[1], self.parameters.output_weights

        def term(block: slice) -> Array:
            return (self.slope[block] ** 2).T @ self.samples.folded[block] ** 2

        squares = np.asarray(self.samples.total(m, term), float)
        return floored(squares * np.sum(A**2, axis=0)[:, None], floor)

    def shared_slopes(self) -> Array:
        """`(A^T A) o (s^T s)`, what the linear part explains of the slopes s apart."""
        A, slope, n = self.parameters.output_weights, self.slope, len(self.slope)
        shared = (slope.T @ slope).astype(float)
        if self.parameters.has_linear:
            total = slope.sum(axis=0, dtype=float)
            shared -= np.outer(total, total) / n
        return np.asarray((A.T @ A) * shared)

    def equations(self, dtype: type[np.floating]) -> NormalEquations:
        """The Gauss-Newton system, its matrix summed in `dtype`."""
        m, p = self.values.shape[1], self.parameters.theta.size + len(self.parameters.beta)
        columns, known = self.samples.columns, self.samples.pairs

        def term(block: slice) -> CurvatureSums:
            of_inputs = None if known is None else known[:, block].astype(dtype, copy=False)
            own = self.slope[block], self.values[block], columns[:, block]
            return CurvatureSums.of(*own, dtype, of_inputs)

        sums = self.samples.total(m, term, rows_of_jacobian(p, dtype))
        hessian = sums.matrix(self.parameters.has_linear)
        gradient = self.overlap(self.left).reshape(self.parameters.beta.shape)
        return NormalEquations(hessian, self.theta_gradient().ravel(), gradient, self.rss)

    def curvature(self, floor: float) -> KeptCurvature:
        """S as products; r is orthogonal to Phi, beta being the best."""
        return KeptCurvature(self, self.theta_gradient().ravel(), self.diagonal(floor).ravel())

    def without_explained(self) -> Linearised:
        """The same beta, whatever it is, and of r only what no other beta would explain."""
        return replace(self, left=self.corrected(self.overlap(self.left)).left)


class KeptCurvature:
    """Products with S from values and slopes in memory.

    Of many outputs only the triangular factor of A counts; of one, its weights are folded into the
    slopes.
    """

    def __init__(self, at: Linearised, rhs: Array, diagonal: Array) -> None:
        """Scale the output weights: at most 1, so that no scale of labels overflows."""
        self.at, self.rhs, self.diagonal = at, rhs, diagonal
        weights = at.parameters.output_weights
        root = weights if len(weights) == 1 else np.linalg.qr(weights).R
        self.size = float(np.abs(root).max(initial=TINY))
        self.mix = (root / self.size).astype(at.values.dtype)
        self.one = len(self.mix) == 1
        self.slope = at.slope * self.mix[0] if self.one else at.slope
        self.changes = np.empty((len(at.values), len(self.mix)), at.values.dtype)

    def product(self, v: Array) -> Array:
        """S times a vector."""
        at, changes, dtype = self.at, self.changes, self.at.values.dtype
        values, tail, folded = at.values, at.tail, at.samples.folded
        m = values.shape[1]
        VT = v.reshape(at.parameters.theta.shape).T.astype(dtype, order="C")

        def overlap(block: slice) -> Array:
            change = self._change(folded[block] @ VT, block)
            shared = np.empty((m + tail.shape[1], change.shape[1]), dtype)
            np.matmul(values[block].T, change, out=shared[:m])
            np.matmul(tail[block].T, change, out=shared[m:])
            return shared

        g = at.best_linear_part(at.samples.total(m, overlap)).astype(dtype)

        def pulled_back(block: slice) -> Array:
            r = values[block] @ g[:m]
            r += tail[block] @ g[m:]
            np.subtract(changes[block], r, out=r)
            return self._pulled(r, block).T @ folded[block]

        product = at.samples.total(m, pulled_back)
        return np.multiply(product, self.size**2, dtype=float).ravel()

    @cached_property
    def _shared(self) -> Array:
        return self.at.shared_slopes()

    def preconditioner(self, damping: float) -> Callable[[Array], Array]:
        """The inverse of what S is close to on standardised inputs, damped (`iterative_step`)."""
        by_unit = self.diagonal.reshape(self.at.parameters.theta.shape)
        scale = np.sqrt(by_unit[:, -1])
        shared = self._shared / scale / scale[:, None]
        shared[np.diag_indices(len(scale))] += damping + ALIKE
        inverse = np.linalg.inv(shared) / scale / scale[:, None]
        squares = np.mean(by_unit / scale[:, None] ** 2, axis=0)
        return lambda r: np.asarray((inverse @ (r.reshape(by_unit.shape) / squares)).ravel())

    def _change(self, moved: Array, block: slice) -> Array:
        """How the labels (times `mix`) change with z; kept in `changes`."""
        change = self.changes[block]
        if self.one:
            np.einsum("nm,nm->n", moved, self.slope[block], out=change[:, 0])
        else:
            moved *= self.slope[block]
            np.matmul(moved, self.mix.T, out=change)
        return change

    def _pulled(self, r: Array, block: slice) -> Array:
        """How residuals (times `mix`) ask z to change."""
        return self.slope[block] * (r if self.one else r @ self.mix)
