"""Damped Gauss-Newton with the output layer eliminated: the one iteration that fits models.

The loss is the sum of squares or a deviance (`losses`). With the letters of `model` and `losses`: r
is half the gradient of the loss by the values f, W = R^T R its curvature (1 for squares), J the
derivatives of f by the hidden layers theta, Phi those by the output layer beta.

*Output layer.* For given theta the best beta is found by Newton's corrections

    beta <- beta - G^-1 Phi^T r,        G = Phi^T W Phi,

one for squares (at the start two), some for a deviance. They are computed from the current
residual, beta never afresh: so without noise the residual ends at machine precision although normal
equations are solved.

*Step.* So only theta is searched (variable projection; Golub and Pereyra 1973, in Kaufman's form).
The Gauss-Newton matrix of theta is the Schur complement of G,

    S = J^T W J - J^T W Phi G^-1 Phi^T W J,      (S + lambda D) s = J^T (r - W Phi G^-1 Phi^T r),

D the diagonal of `J^T W J`, and s is taken off theta. lambda falls after a step that lowers the
loss and rises until one does (Marquardt 1963). The model predicts by how much the loss falls; the
iteration ends where that, or the fall itself, is a small fraction of the loss.

*Two solvers.* `Dense`: Cholesky of S, for smooth units, which are ill-conditioned, several layers,
deviances and few parameters. `Products`: conjugate gradients, for one layer of units with kinks.
While much is left single precision is enough for S: the gradient, in double precision, alone
decides where the iteration ends.

*Two kinds of data.* `Samples` are in memory, and keep what is evaluated at a point. `Stream` is for
very many samples anywhere: loss and gradient are sums over all of them, one pass a point; the
curvature is that of some samples in memory. Known to a few per cent it is as good for a step. Beta
is not eliminated there, which would take a second pass, but moved along with theta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial, reduce
from operator import add
from typing import TypeVar

import numpy as np
from scipy.linalg import lapack

from provenet.common.typing import EPS, TINY, Array, row_blocks
from provenet.data.passes import Sums, sum_over, working_time
from provenet.data.sources import ArraySource, Source
from provenet.fitting.linear import RIDGE, Solver, solve_scaled, solver_scaled
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.model import Linearisation, Parameters, with_ones
from provenet.networks.activations import Activation

Sum = TypeVar("Sum")


class Ended(StrEnum):
    """Why an iteration stopped. Out of steps or time it has found no solution."""

    ZERO = "zero"
    """Nothing is left to explain."""
    CONVERGED = "converged"
    """The last step changed less than the tolerance."""
    STUCK = "stuck"
    """No step improves it: rounding is all that is left, or kinks are in the way."""
    OUT_OF_STEPS = "out of steps"
    """All steps that were allowed are done: more may lead further."""
    OUT_OF_TIME = "out of time"
    """The time is over: more may lead further."""

    @property
    def at_rest(self) -> bool:
        """Whether more steps and more time would change nothing."""
        return self in (Ended.ZERO, Ended.CONVERGED, Ended.STUCK)


@dataclass(frozen=True)
class Fit:
    """Where a refinement ended."""

    parameters: Parameters
    rss: float
    """The sum of squares, or the deviance."""
    labels: int
    """Samples times outputs."""
    iterations: int
    ended: Ended

    @property
    def rms(self) -> float:
        """Root mean square residual."""
        return float(np.sqrt(self.rss / self.labels))


def refine(
    source: Source,
    parameters: Parameters,
    activation: Activation,
    *,
    spread: float,
    iterations: int = 60,
    tolerance: float = 1e-6,
    zero: float = 4.5 * EPS,
    damping: float = 1e-2,
    deadline: float = np.inf,
    loss: Loss = SQUARES,
    some: ArraySource | None = None,
) -> Fit:
    """The best model near the given parameters.

    It ends when the residual is below `zero * spread`, when an iteration lowers the loss by less
    than the fraction `tolerance` or predicts no more, when no step lowers it, or when iterations or
    time are over.  With `some` samples these give the curvature, and `source` is passed over.
    """
    start = parameters.normalised(activation)
    width = 2 * source.features + 4 * sum(start.widths) + 2 * (source.outputs or 1)
    if some is None and 8 * source.size * width > 2e9:  # bytes that would be kept
        drawn = source.draw(max(20_000, 50 * start.ravel().size), np.random.default_rng(0))
        some = ArraySource(drawn.X, drawn.y)
    memory = Samples.of(source if some is None else some, start, activation, loss)
    problem: Samples | Stream = memory if some is None else Stream(source, memory)
    end = (zero * spread) ** 2 * source.labels if loss is SQUARES else 0.0
    large = (1e-3 * spread) ** 2 * source.labels  # a step needs three digits above

    def fit(ended: Ended) -> Fit:
        return Fit(point.parameters, point.value, source.labels, taken, ended)

    point, before, solved, taken = problem.evaluate(start, 2), np.inf, True, 1
    if start.nonlinear == 0:
        return fit(Ended.CONVERGED)
    while True:
        if point.value <= end:
            return fit(Ended.ZERO)
        if before - point.value <= tolerance * before < np.inf:
            return fit(Ended.CONVERGED if solved else Ended.OUT_OF_STEPS)
        if taken >= iterations:
            return fit(Ended.OUT_OF_STEPS)
        if working_time() > deadline:
            return fit(Ended.OUT_OF_TIME)
        curvature = point.curvature(single=point.value > large)
        # As the loss fell (Eisenstat and Walker 1996), and no finer than the end needs.
        fallen = point.value / before if before < np.inf else 1.0
        accuracy = np.clip(max(fallen, 0.3 * np.sqrt(end / max(point.value, TINY))), 1e-4, 0.1)
        for _ in range(10):
            step = curvature.step(damping, float(accuracy))
            if step is not None:
                if step.predicted <= tolerance * point.value:
                    return fit(Ended.CONVERGED if step.solved else Ended.OUT_OF_STEPS)
                moved = point.parameters.moved(step.theta, step.beta).normalised(activation)
                trial = problem.evaluate(moved)
                if trial.value < point.value:
                    break
            damping = max(4 * damping, 1e-3)
        else:
            return fit(Ended.STUCK)
        point, before, solved = trial, point.value, step.solved
        damping, taken = max(damping / 5, 1e-13), taken + 1


# ---------------------------------------------------------------- samples in memory


@dataclass(frozen=True)
class Samples:
    """Samples in memory, a block of rows at a time, and the loss of a model's values there."""

    X1: Array
    """[X, 1]."""
    Y: Array
    """(samples, outputs)."""
    activation: Activation
    loss: Loss
    rows: int
    """Of a block."""
    solver: type[Curvature]
    """How steps are found."""
    units: int

    @classmethod
    def of(
        cls, source: Source, like: Parameters, activation: Activation, loss: Loss = SQUARES
    ) -> Samples:
        """All samples of a source, for models of this shape."""
        X, y = source.rows(0, source.size)
        most = 100 if activation.slope is not None else 4000
        iterative = like.nonlinear > most and not like.lower and loss is SQUARES
        # Some of a processor's cache: what is evaluated, or a block of the Jacobian.
        rows = 2048 if iterative else _rows_of_jacobian(like)
        solver = Products if iterative else Dense
        Y = y.reshape(len(y), -1)
        return cls(with_ones(X), Y, activation, loss, rows, solver, sum(like.widths))

    @cached_property
    def blocks(self) -> list[slice]:
        """Of rows."""
        return list(row_blocks(len(self.X1), self.rows))

    @cached_property
    def X1_single(self) -> Array:
        """[X, 1] in single precision."""
        return self.X1.astype(np.float32)

    @cached_property
    def input_gram(self) -> Array:
        """`[X, 1]^T [X, 1]`."""
        return np.asarray(self.X1.T @ self.X1)

    @property
    def penalty(self) -> float:
        """On |beta|^2 of class labels: where units can tell them apart the deviance falls for ever
        as beta grows. It is far too little to be felt where labels overlap, and settles the
        constant that softmax leaves open."""
        return 0.0 if self.loss is SQUARES else 1e-6 * len(self.Y)

    def total(self, term: Callable[[int, slice], Sum]) -> Sum:
        """The sum of a term over the blocks, each with its number; threads share long ones.

        A term must not start such a sum itself: its thread would wait for its own end.
        """

        def numbered(rows: slice) -> Sum:
            with np.errstate(over="ignore", invalid="ignore"):  # a step that overflows is not taken
                return term(rows.start // self.rows, rows)

        if self.X1.size * self.units > 10**7:  # milliseconds
            return sum_over(self.blocks, numbered)
        return reduce(add, map(numbered, self.blocks))

    def each(self, term: Callable[[int, slice], Sum]) -> list[Sum]:
        """What a term gives for every block."""
        found = dict[int, Sum]()

        def kept(k: int, rows: slice) -> int:
            found[k] = term(k, rows)
            return k

        self.total(kept)
        return [found[k] for k in range(len(self.blocks))]

    def linearised(self, parameters: Parameters) -> Point:
        """A model, its output layer as it is."""
        sigma, X1 = self.activation, self.X1
        at = self.each(lambda k, rows: Linearisation.at(parameters, sigma, X1[rows]))
        return Point(self, parameters, at, self.each(lambda k, rows: at[k].values))

    def evaluate(self, parameters: Parameters, passes: int = 1) -> Point:
        """A model with the best output layer for its units.

        Of a deviance so many times five corrections, while they gain a thousandth: far less than
        chance. Where an iteration begins units may be gone: what is left of beta may be sure, and
        wrong, and Newton's steps are no help there. Less of it may be a better start.
        """
        point = self.linearised(parameters)
        if self.loss is SQUARES:
            return reduce(lambda point, _: point.corrected(), range(passes), point)
        if passes > 1:
            starts = [point.with_beta(less, parameters.beta) for less in (0.0, 0.7, 0.9, 1.0)]
            point = min(starts, key=lambda start: start.value)
        for _ in range(5 * passes):
            before, point = point.value, point.corrected()
            if before - point.value <= 1e-3:
                break
        return point


@dataclass(frozen=True)
class Point:
    """A model at samples in memory; what a step needs is computed when it is needed."""

    samples: Samples
    parameters: Parameters
    at: list[Linearisation]
    """Block by block, of these units with any beta."""
    F: list[Array]
    """The values, block by block."""
    known: Solver | None = None
    """`G^-1`, if it is that of another point."""

    @cached_property
    def value(self) -> float:
        """The sum of squares, or the deviance with the penalty; not finite: infinite."""
        of, Y, beta = self.samples.loss, self.samples.Y, self.parameters.beta
        found = self.samples.total(lambda k, rows: float(of.deviance(self.F[k], Y[rows]).sum()))
        found += self.samples.penalty * float(np.vdot(beta, beta))
        return found if np.isfinite(found) else np.inf

    @cached_property
    def excess(self) -> list[Array]:
        """r, block by block."""
        of, Y = self.samples.loss, self.samples.Y
        return self.samples.each(lambda k, rows: of.excess(self.F[k], Y[rows]))

    @cached_property
    def gradient(self) -> Array:
        """`J^T r`, flat."""
        A, r = self.parameters.output_weights, self.excess
        return self.samples.total(lambda k, rows: self.at[k].pulled_back(r[k] @ A))

    @cached_property
    def beta_gradient(self) -> Array:
        """`Phi^T r`, (rows of beta, outputs), and of the penalty."""
        own, r = self.samples.penalty * self.parameters.columns, self.excess
        return self.samples.total(lambda k, rows: self.at[k].overlap(r[k])) + own

    @cached_property
    def inverse(self) -> Solver:
        """`G^-1` of anything of the shape of beta, (rows, outputs)."""
        samples = self.samples
        if self.known is not None:
            return self.known
        if samples.loss is SQUARES:
            units = samples.total(self._units_gram)
            m, width = units.shape  # the other rows are the same at every point
            tail = samples.input_gram[m - width :, m - width :]
            G = np.vstack([units, np.hstack([units[:, m:].T, tail])])
        else:
            G = samples.total(self._weighted_gram)
            G[np.diag_indices(len(G))] += samples.penalty
        if not np.isfinite(G).all():
            return lambda B: np.full(B.shape, np.nan)
        if samples.loss is SQUARES:
            return solver_scaled(G, RIDGE * len(G))
        solve, outputs = solver_scaled(G, 10 * RIDGE), samples.Y.shape[1]
        return lambda B: solve(B.T.ravel()).reshape(outputs, -1).T

    def _units_gram(self, k: int, rows: slice) -> Array:
        top = self.at[k].top
        return np.hstack([top.T @ top, top.T @ self.at[k].tail])

    def _weighted_gram(self, k: int, rows: slice) -> Array:
        """Of all outputs, one after another."""
        root, phi = self.samples.loss.root(self.F[k]), self.at[k].features
        assert root is not None
        J = root[:, :, :, None] * phi[:, None, None, :]
        J = J.reshape(-1, root.shape[2] * phi.shape[1])
        return np.asarray(J.T @ J)

    def with_beta(self, share: float, step: Array) -> Point:
        """With a share of a step taken off beta."""
        columns = share * step.reshape(len(step), -1)
        F = self.samples.each(lambda k, rows: self.F[k] - self.at[k].combined(columns))
        moved = replace(self.parameters, beta=self.parameters.beta - share * step)
        known = self.inverse if self.samples.loss is SQUARES else None
        return replace(self, parameters=moved, F=F, known=known)

    def corrected(self) -> Point:
        """With Newton's correction of beta; of a deviance, halved until that falls."""
        step = self.inverse(self.beta_gradient).reshape(self.parameters.beta.shape)
        if self.samples.loss is SQUARES:
            return self.with_beta(1.0, step)
        trials = (self.with_beta(0.5**halving, step) for halving in range(8))
        return next((trial for trial in trials if trial.value < self.value), self)

    def curvature(self, single: bool) -> Curvature:
        """Steps from here; corrections of a deviance may leave something to correct."""
        rest = None if self.samples.loss is SQUARES else self.beta_gradient
        return self.samples.solver(self, self.gradient, rest, single)


# ---------------------------------------------------------------- very many samples


@dataclass(frozen=True)
class GradientSums(Sums):
    """The loss, `J^T r` and `Phi^T r`."""

    value: float
    gradient: Array
    beta_gradient: Array


@dataclass(frozen=True)
class Stream:
    """Samples anywhere, and some of them, or others like them, in memory."""

    source: Source
    some: Samples

    def evaluate(self, parameters: Parameters, passes: int = 1) -> StreamPoint:
        """One pass, whatever is asked for: beta moves along with the units."""
        term = partial(gradient_term, parameters, self.some.activation, self.some.loss)
        sums, penalty = self.source.total(term), self.some.penalty / self.share
        value = sums.value + penalty * float(np.vdot(parameters.beta, parameters.beta))
        own = sums.beta_gradient + penalty * parameters.columns
        value = value if np.isfinite(value) else np.inf
        return StreamPoint(self, parameters, value, sums.gradient, own)

    @property
    def share(self) -> float:
        """The part of the samples that gives the curvature."""
        return len(self.some.Y) / self.source.size


@np.errstate(over="ignore", invalid="ignore")  # a step that overflows is not taken
def gradient_term(
    parameters: Parameters, activation: Activation, loss: Loss, X: Array, y: Array
) -> GradientSums:
    """The sums over a block of samples."""
    at, Y = Linearisation.of(parameters, activation, X), y.reshape(len(y), -1)
    r = loss.excess(at.values, Y)
    return GradientSums(float(loss.deviance(at.values, Y).sum()), at.backward(r), at.overlap(r))


@dataclass(frozen=True)
class StreamPoint:
    """What `Point` says, from a pass over all samples."""

    stream: Stream
    parameters: Parameters
    value: float
    gradient: Array
    beta_gradient: Array

    def curvature(self, single: bool) -> Curvature:
        """Steps from here, by the curvature of some samples."""
        some, share = self.stream.some, self.stream.share
        point = some.linearised(self.parameters)
        return some.solver(point, self.gradient, self.beta_gradient, single, share)


# ---------------------------------------------------------------- steps


@dataclass(frozen=True)
class Step:
    """What to take off theta, flat, and off beta."""

    theta: Array
    beta: Array | float
    predicted: float
    """The fall of the loss in the linear model."""
    solved: bool
    """Whether the damped system was solved for it: else a small gain is no end."""


class Curvature:
    """S and D at a point, and damped steps for a gradient."""

    D: Array

    def __init__(
        self, point: Point, gradient: Array, rest: Array | None, single: bool, share: float = 1.0
    ) -> None:
        """`rest` is `Phi^T r` if it is not zero; gradients are of 1/share times the samples."""
        self.point, self.samples, self.parameters = point, point.samples, point.parameters
        self.share, self.rhs = share, gradient * share
        self.rest = None if rest is None else rest * share
        if self.rest is not None:
            self.beta = point.inverse(self.rest)
            self.rhs = self.rhs - self.samples.total(self._explained)
        self.prepare(single)

    def prepare(self, single: bool) -> None:
        """Compute what steps need."""
        raise NotImplementedError

    def step(self, damping: float, accuracy: float) -> Step | None:
        """The damped step, to a relative residual of `accuracy`; None if there is none."""
        raise NotImplementedError

    def floored(self, diagonal: Array) -> Array:
        """D, no entry far below the mean.

        Units that saturate or die have hardly any effect on most samples, and would run away on the
        word of the few that are left.
        """
        alive = self.samples.activation.degree is not None and not self.parameters.lower
        least = 1e-10 if alive and self.samples.loss is SQUARES else 1e-3
        return np.asarray(diagonal + least * diagonal.mean() + TINY)

    def finished(self, move: Array, damping: float, solved: bool = True) -> Step:
        """A step of theta with what it predicts, also an iterate of conjugate gradients, and the
        step of beta."""
        with np.errstate(over="ignore", invalid="ignore"):  # a step far too long is not taken
            predicted = float(self.rhs @ move + damping * self.D @ move**2) / self.share
        if self.rest is None:
            return Step(move, 0.0, predicted, solved)
        follows = self.point.inverse(self.samples.total(partial(self._changed, move)))
        beta = (self.beta - follows).reshape(self.parameters.beta.shape)
        own = float(np.vdot(self.rest, self.beta)) / self.share
        return Step(move, beta, predicted + own, solved)

    def _explained(self, k: int, rows: slice) -> Array:
        """`J^T W Phi` times the step of beta alone."""
        at = self.point.at[k]
        change = self.samples.loss.weighted(self.point.F[k], at.combined(self.beta))
        return at.pulled_back(change @ self.parameters.output_weights)

    def _changed(self, move: Array, k: int, rows: slice) -> Array:
        """`Phi^T W J` times a step of theta."""
        at = self.point.at[k]
        change = at.top_change(move) @ self.parameters.output_weights.T
        return at.overlap(self.samples.loss.weighted(self.point.F[k], change))


class Dense(Curvature):
    """S as a matrix."""

    def prepare(self, single: bool) -> None:
        """Of one layer and squares J is the same for all outputs but for their weights,

        S = (A^T A) o (H - C G^-1 C^T)    with H = D^T D, C = D^T Phi, D the derivatives of h_L,

        `o` multiplying the blocks of two units.
        """
        p, samples, t = self.parameters, self.samples, self.parameters.nonlinear
        shared = samples.loss is SQUARES and not p.lower
        weights = np.ones((1, p.units)) if shared else p.output_weights
        dtype: type[np.floating] = np.float32 if single else np.float64
        X1 = samples.X1_single if single else samples.X1

        def term(k: int, rows: slice) -> Array:
            at, root = self.point.at[k].astype(dtype, X1[rows]), samples.loss.root(self.point.F[k])
            return information(at, root, weights)

        M = samples.total(term)
        M[np.arange(t, len(M)), np.arange(t, len(M))] += samples.penalty
        C, diagonal = M[:t, t:], np.diag(M)[:t].copy()
        self.S = C @ solve_scaled(M[t:, t:], C.T, 1e-6 if single else 10 * RIDGE)
        np.subtract(M[:t, :t], self.S, out=self.S)  # in place, for it may be large
        if shared:
            A, (m, width) = p.output_weights, p.theta.shape
            self.S.reshape(m, width, m, width)[:] *= (A.T @ A)[:, None, :, None]
            diagonal *= np.repeat(np.sum(A**2, axis=0), width)
        self.D = self.floored(diagonal)

    def step(self, damping: float, accuracy: float) -> Step | None:
        """Exact for any accuracy; none if the matrix is not positive definite."""
        A = self.S.copy()
        A[np.diag_indices(len(A))] += damping * self.D
        factor, failed = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            return None
        return self.finished(lapack.dpotrs(factor, self.rhs, lower=1)[0], damping)


class Products(Curvature):
    """S of one layer by its products with vectors.

    Of piecewise linear units in single precision, which has their slopes exactly. On standardised
    inputs block (i, j) of S is close to a multiple of the identity, K_ij times the mean squares of
    (x, 1): K is what the slopes of units i and j share beyond the linear part. The inverse of K,
    units by units, is the preconditioner, so that units much alike, or in vain, do not slow the
    iteration down. A step of one digit, which is all that is needed far from the answer, takes
    about five products.
    """

    def prepare(self, single: bool) -> None:
        """Of more outputs than units only the triangular factor of A counts."""
        samples, A = self.samples, self.parameters.output_weights
        exact = samples.activation.slope is not None
        self.dtype: type[np.floating] = np.float32 if exact else np.float64
        X1 = samples.X1_single if exact else samples.X1
        self.at = samples.each(lambda k, rows: self.point.at[k].astype(self.dtype, X1[rows]))
        root = A if len(A) <= A.shape[1] else np.linalg.qr(A).R
        self.size = float(np.abs(root).max(initial=TINY))  # no scale of labels overflows
        self.mix: Array = (root / self.size).astype(self.dtype)
        self.changes = [np.empty(0)] * len(self.at)
        slopes = [at.slopes[0] for at in self.at]
        squares = samples.total(lambda k, rows: (slopes[k] ** 2).T @ X1[rows] ** 2)
        self.D = self.floored(squares.astype(float) * np.sum(A**2, axis=0)[:, None]).ravel()
        shared = samples.total(lambda k, rows: slopes[k].T @ slopes[k]).astype(float)
        if self.parameters.has_linear:
            sums = samples.total(lambda k, rows: slopes[k].sum(axis=0, dtype=float))
            shared -= np.outer(sums, sums) / len(samples.Y)
        self.K = (A.T @ A) * shared

    def product(self, v: Array) -> Array:
        """S times a vector."""
        at, mix = self.at, self.mix
        step: Array = v.astype(self.dtype)

        def overlap(k: int, rows: slice) -> Array:
            self.changes[k] = at[k].top_change(step) @ mix.T
            return at[k].overlap(self.changes[k])

        shared = self.samples.total(overlap).astype(float)
        g: Array = self.point.inverse(shared).astype(self.dtype)

        def pulled_back(k: int, rows: slice) -> Array:
            return at[k].pulled_back((self.changes[k] - at[k].combined(g)) @ mix)

        return np.multiply(self.samples.total(pulled_back), self.size**2, dtype=float)

    def preconditioner(self, damping: float) -> Solver:
        """The inverse of what S is close to, damped; units alike in more than 1e-3 are one."""
        by_unit = self.D.reshape(self.parameters.theta.shape)
        scale = np.sqrt(by_unit[:, -1])
        shared = self.K / scale / scale[:, None]
        shared[np.diag_indices(len(scale))] += damping + 1e-3
        inverse = np.linalg.inv(shared) / scale / scale[:, None]
        squares = np.mean(by_unit / scale[:, None] ** 2, axis=0)
        return lambda r: np.asarray((inverse @ (r.reshape(by_unit.shape) / squares)).ravel())

    def step(self, damping: float, accuracy: float) -> Step:
        """By conjugate gradients."""
        extra, precondition = damping * self.D, self.preconditioner(damping)
        move, solved = conjugate_gradients(
            lambda v: self.product(v) + extra * v, self.rhs, precondition, accuracy
        )
        return self.finished(move, damping, solved)


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


# ---------------------------------------------------------------- information


def _rows_of_jacobian(like: Parameters) -> int:
    """Samples whose derivatives are formed at a time: some of a processor's cache."""
    return int(np.clip(5e5 / (like.nonlinear + len(like.beta)), 128, 2048))


def information(at: Linearisation, root: Array | None, weights: Array | None = None) -> Array:
    """`J^T R^T R J` of all parameters at some samples, summed in their precision.

    `weights` stand for the output weights, one row a combination of outputs.
    """
    outputs = len(at.parameters.output_weights if weights is None else weights)
    size = at.parameters.nonlinear + outputs * at.features.shape[1]
    M = np.zeros((size, size))
    for J, own in at.jacobians(root, weights):
        if len(own) == size:
            M += J.T @ J
        else:
            M[np.ix_(own, own)] += J.T @ J
    return M


def fisher_information(
    source: Source,
    parameters: Parameters,
    activation: Activation,
    loss: Loss = SQUARES,
    weights: Array | None = None,
) -> Array:
    """`J^T W J` of all parameters, a sum over any source; `weights` as of `information`."""
    term = partial(_information_term, parameters, activation, loss, weights)
    return source.total(term, _rows_of_jacobian(parameters))


def _information_term(
    parameters: Parameters,
    activation: Activation,
    loss: Loss,
    weights: Array | None,
    X: Array,
    y: Array,
) -> Array:
    at = Linearisation.of(parameters, activation, X)
    return information(at, loss.root(at.values), weights)
