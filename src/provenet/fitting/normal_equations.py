"""The normal equations of least squares as sums over samples, and the steps that they give.

Given the units theta = (w, b), the best beta is a linear least-squares problem, so only theta is
searched (variable projection; Golub and Pereyra 1973, in Kaufman's form). With D the derivative of
the units' values by theta (not yet multiplied by output weights) and `Phi = [sigma(z), x, 1]`,

    H = D^T D,   C = D^T Phi,   G = Phi^T Phi      sums over samples, the same for all outputs
    S = (A^T A) o (H - C G^-1 C^T)                 theta with beta eliminated; o: unit by unit
    (S + lambda diag) step = g - sum_q A_q (C G^-1 Phi^T r_q)

where A (outputs, units) are the output weights, q runs over outputs and r are residuals. So several
outputs cost hardly more than one. No n x p matrix exists: D is formed for a block of samples at a
time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import lapack

from provenet.common.ended import Ended
from provenet.common.typing import AnyArray, Array
from provenet.data.sources.base import Source
from provenet.data.sums import Sums
from provenet.fitting.model import Parameters, model_features
from provenet.fitting.paired_products import CurvatureSums
from provenet.fitting.tolerances import (
    BLOCK_BYTES,
    BLOCK_ROWS,
    LEAST_DAMPING,
    RIDGE,
    RIDGE_ATTEMPTS,
    RIDGE_GROWTH,
)
from provenet.networks.activations import Activation
from provenet.networks.tolerances import TINY


@dataclass(frozen=True)
class LinearPart(Sums):
    """Sums for the best beta at given units: `Phi^T Phi`, `Phi^T r`, `|r|^2`."""

    gram: Array
    gradient: Array
    rss: float


@dataclass(frozen=True)
class _NormalSums(Sums):
    """The sums of `NormalEquations`."""

    curvature: CurvatureSums
    theta_gradient: Array
    gradient: Array
    rss: float


@dataclass(frozen=True)
class NormalEquations:
    """`[D, Phi]^T [D, Phi]`, the gradients by theta and by beta, and `|r|^2`."""

    hessian: Array
    theta_gradient: Array
    gradient: Array
    rss: float


def input_gram(source: Source, parameters: Parameters) -> Array:
    """The block of `Phi^T Phi` that no unit has a part in: it is the same at every point."""
    if not parameters.has_linear:
        return np.full((1, 1), float(source.size))
    return source.total(_input_term)


def _input_term(X: Array, y: Array) -> Array:
    ones = np.ones((1, len(X)))
    return np.block([[X.T @ X, (ones @ X).T], [ones @ X, ones @ ones.T]])


def linear_part(
    source: Source, parameters: Parameters, activation: Activation, inputs: Array | None = None
) -> LinearPart:
    """One pass: the sums that determine beta. `inputs` is `input_gram`, where it is known."""
    sums = source.total(partial(_linear_term, parameters, activation))
    inputs = input_gram(source, parameters) if inputs is None else inputs
    return replace(sums, gram=with_input_gram(sums.gram, inputs))


@np.errstate(over="ignore", invalid="ignore")  # of several layers; such a step is not taken
def _linear_term(parameters: Parameters, activation: Activation, X: Array, y: Array) -> LinearPart:
    _, phi = model_features(parameters, activation, X)
    r = phi @ parameters.beta - y
    return LinearPart(phi[:, : parameters.units].T @ phi, phi.T @ r, float(np.vdot(r, r)))


def with_input_gram(units: Array, inputs: Array) -> Array:
    """`Phi^T Phi` from the units' rows of it and the block of the inputs."""
    m = len(units)
    gram = np.empty((units.shape[1], units.shape[1]))
    gram[:m], gram[m:, :m], gram[m:, m:] = units, units[:, m:].T, inputs
    return gram


def _theta_gradient(slope: Array, A: Array, r: Array, X: Array) -> Array:
    """`sum_n slope_ni (r_n . A_i) (x_n, 1)` for every unit i, flat."""
    weighted = slope * (r.reshape(len(r), -1) @ A)
    return np.column_stack([weighted.T @ X, weighted.sum(axis=0)]).ravel()


def normal_equations(
    source: Source,
    parameters: Parameters,
    activation: Activation,
    dtype: type[np.floating] = np.float64,
) -> NormalEquations:
    """One pass: the Gauss-Newton system, its matrix summed in `dtype`."""
    rows = rows_of_jacobian(parameters.theta.size + len(parameters.beta), dtype)
    sums = source.total(partial(_normal_term, parameters, activation, dtype), rows)
    hessian = sums.curvature.matrix(parameters.has_linear)
    return NormalEquations(hessian, sums.theta_gradient, sums.gradient, sums.rss)


def rows_of_jacobian(p: int, dtype: type[np.floating]) -> int:
    """Samples whose derivatives by p parameters are formed at a time."""
    return int(np.clip(BLOCK_BYTES / (np.dtype(dtype).itemsize * p), *BLOCK_ROWS))


def _normal_term(
    parameters: Parameters,
    activation: Activation,
    dtype: type[np.floating],
    X: Array,
    y: Array,
) -> _NormalSums:
    z, phi = model_features(parameters, activation, X)
    r = phi @ parameters.beta - y
    slope = activation.derivative(z)
    columns = np.vstack([X.T, np.ones(len(X))])
    curvature = CurvatureSums.of(slope, phi[:, : parameters.units], columns, dtype)
    gradient = _theta_gradient(slope, parameters.output_weights, r, X)
    return _NormalSums(curvature, gradient, phi.T @ r, float(np.vdot(r, r)))


def solve_scaled(matrix: Array, rhs: Array, ridge: float) -> Array:
    """Solve a positive semidefinite system after scaling its diagonal to one."""
    return solver_scaled(matrix, ridge)(rhs)


def solver_scaled(matrix: Array, ridge: float) -> Callable[[Array], Array]:
    """The same for many right-hand sides, one after the other."""
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0] = 1.0
    A = matrix / scale / scale[:, None]
    for attempt in range(RIDGE_ATTEMPTS):
        A[np.diag_indices(len(A))] += ridge * RIDGE_GROWTH**attempt
        factor, failed = lapack.dpotrf(A, lower=1, clean=0)
        if not failed:
            return lambda b: (lapack.dpotrs(factor, (b.T / scale).T, lower=1)[0].T / scale).T
    return lambda b: np.asarray((np.linalg.lstsq(A, (b.T / scale).T, rcond=None)[0].T / scale).T)


def inverse_root(matrix: Array, ridge: float) -> Array:
    """R with `R^T R` the inverse of a positive semidefinite matrix, its diagonal scaled to one."""
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0] = 1.0
    A = matrix / scale
    A /= scale[:, None]
    del matrix  # large ones are formed for this alone
    for attempt in range(RIDGE_ATTEMPTS):
        A[np.diag_indices(len(A))] += ridge * RIDGE_GROWTH**attempt
        factor, failed = lapack.dpotrf(A, lower=1, clean=1)
        if not failed:
            root = lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
            root /= scale
            return np.asarray(root)
    values, vectors = np.linalg.eigh(A)
    return np.asarray((vectors / np.sqrt(np.maximum(values, ridge))).T / scale)


def floored(diagonal: Array, floor: float) -> Array:
    """The size of S along each parameter, one without effect taken to have some of the mean."""
    return np.asarray(diagonal + floor * diagonal.mean() + TINY)


def without_each_unit(sums: LinearPart, parameters: Parameters) -> Array:
    """How much the sum of squares grows without each unit, the rest refitted linearly."""
    gram, m = sums.gram, parameters.units
    inverse = solve_scaled(gram, np.eye(len(gram))[:, :m], RIDGE * len(gram))
    size = np.sum(parameters.output_weights**2, axis=0)
    return np.asarray(size / np.abs(np.diag(inverse[:m])))


def dropped_in_turn(sums: LinearPart, parameters: Parameters, allowed: float) -> AnyArray:
    """Units that may go one after the other, each the least useful, the rest refitted linearly.

    `allowed` is how much the sum of squares may grow in all.
    """
    gram, m = sums.gram, parameters.units
    beta = parameters.beta.reshape(len(gram), -1)
    kept, dropped = np.arange(len(gram)), list[int]()
    while len(dropped) < m:
        own = gram[np.ix_(kept, kept)]
        columns = np.column_stack([np.eye(len(kept)), gram[kept] @ beta])
        solved = solve_scaled(own, columns, RIDGE * len(gram))
        inverse, refitted = np.diag(solved), solved[:, len(kept) :]
        cost = (np.sum(refitted**2, axis=1) / np.abs(inverse))[: m - len(dropped)]
        least = int(np.argmin(cost))
        if cost[least] > allowed:
            break
        allowed -= cost[least]
        dropped.append(int(kept[least]))
        kept = np.delete(kept, least)
    return np.array(dropped, dtype=int)


def _multiply_unit_blocks(matrix: Array, K: Array) -> None:
    """Multiply block (i, j) of a matrix of m x m square blocks by `K_ij`, in place."""
    m = len(K)
    width = len(matrix) // max(m, 1)  # a model without units has an empty matrix
    blocks = matrix.reshape(m, width, m, width)
    blocks *= K[:, None, :, None]


def eliminate(
    equations: NormalEquations, parameters: Parameters, ridge: float
) -> tuple[Array, Array]:
    """`S`, and `G^-1 [C^T, Phi^T r]`, from the normal equations."""
    thetas = parameters.theta.size
    H, C = equations.hessian[:thetas, :thetas], equations.hessian[:thetas, thetas:]
    G = equations.hessian[thetas:, thetas:]
    eliminated = solve_scaled(G, np.column_stack([C.T, equations.gradient]), ridge)
    S = C @ eliminated[:, :thetas]
    np.subtract(H, S, out=S)  # in place, for it may be large
    A = parameters.output_weights
    _multiply_unit_blocks(S, A.T @ A)
    return S, eliminated


@dataclass(frozen=True)
class DampedStep:
    """What to take off theta, flat, and whether the damped system was solved for it."""

    move: Array
    ended: Ended
    promised: float
    """By how much the linear model says that the step lowers the sum of squares."""
    beta_move: Array | float = 0.0
    """What to take off beta along with it; it is fitted to the units anyway."""


@dataclass(frozen=True)
class DenseStep:
    """Damped steps from one set of normal equations, beta eliminated once.

    Each damping then costs one factorisation.
    """

    matrix: Array
    rhs: Array
    damping: Array
    """The size of the matrix along each parameter."""

    @classmethod
    def of(
        cls,
        equations: NormalEquations,
        parameters: Parameters,
        ridge: float,
        floor: float = LEAST_DAMPING,
    ) -> DenseStep:
        """From the sums of one hidden layer."""
        m, width = parameters.theta.shape
        thetas, A = parameters.theta.size, parameters.output_weights
        matrix, eliminated = eliminate(equations, parameters, ridge)
        cross = equations.hessian[:thetas, thetas:]
        moved = (cross @ eliminated[:, thetas:]).reshape(m, width, len(A))
        rhs = equations.theta_gradient - np.einsum("mwo,om->mw", moved, A).ravel()
        size = np.repeat(np.sum(A**2, axis=0), width)
        return cls(matrix, rhs, floored(np.diag(equations.hessian)[:thetas] * size, floor))

    def solve(self, damping: float, accuracy: float = 0.0) -> DampedStep | None:
        """The step, exact for any accuracy; None if the matrix is not positive definite then."""
        A = self.matrix.copy()
        A[np.diag_indices(len(A))] += damping * self.damping
        factor, failed = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            return None
        move = np.asarray(lapack.dpotrs(factor, self.rhs, lower=1)[0])
        return DampedStep(move, Ended.CONVERGED, promised(move, self.rhs, damping * self.damping))


@dataclass(frozen=True)
class JointStep:
    """The same with beta moved along, as the linear model says."""

    dense: DenseStep
    follows: Array
    """`G^-1 C^T`, (rows of beta, parameters of theta)."""
    parameters: Parameters

    @classmethod
    def of(
        cls, equations: NormalEquations, parameters: Parameters, ridge: float, floor: float
    ) -> JointStep:
        """From the sums of one hidden layer."""
        beta = equations.hessian[parameters.theta.size :]
        C, G = np.split(beta, [parameters.theta.size], axis=1)
        dense = DenseStep.of(equations, parameters, ridge, floor)
        return cls(dense, solve_scaled(G, C, ridge), parameters)

    def solve(self, damping: float, accuracy: float = 0.0) -> DampedStep | None:
        """The step of theta, and that of beta."""
        found = self.dense.solve(damping, accuracy)
        if found is None:
            return None
        by_unit = found.move.reshape(self.parameters.theta.shape)
        weighted = self.parameters.output_weights[:, :, None] * by_unit
        along = self.follows @ weighted.reshape(len(weighted), -1).T
        return replace(found, beta_move=-along.reshape(self.parameters.beta.shape))


def promised(move: Array, rhs: Array, damped: Array) -> float:
    """The fall of the sum of squares in the linear model, `rhs.s + s.diag.s`.

    It holds for an iterate of conjugate gradients from zero, too, which is orthogonal to its
    residual.
    """
    with np.errstate(over="ignore"):  # a step far too long is not taken, whatever it promises
        return float(rhs @ move + damped @ move**2)


def cross_products(source: Source, parameters: Parameters, activation: Activation) -> Array:
    """`C`, (units, features + 1, rows of beta)."""
    return source.total(partial(_cross_term, parameters, activation))


def _cross_term(parameters: Parameters, activation: Activation, X: Array, y: Array) -> Array:
    z, phi = model_features(parameters, activation, X)
    inputs = np.column_stack([X, np.ones(len(X))])
    slope = activation.derivative(z)
    return np.array([(inputs * s[:, None]).T @ phi for s in slope.T])


def unit_blocks(source: Source, parameters: Parameters, activation: Activation) -> Array:
    """Each unit's own block of `H`, (units, features + 1, features + 1), in single precision."""
    return source.total(partial(_blocks_term, parameters, activation))


def _blocks_term(parameters: Parameters, activation: Activation, X: Array, y: Array) -> Array:
    z, _ = model_features(parameters, activation, X)
    inputs = np.column_stack([X, np.ones(len(X))]).astype(np.float32)
    squares = (activation.derivative(z) ** 2).astype(np.float32)
    return np.array([(inputs * s[:, None]).T @ inputs for s in squares.T], float)
