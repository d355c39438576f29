"""Least squares on samples: Levenberg-Marquardt with the linear parameters eliminated.

The model is `y = sum_i beta_i sigma(w_i.x + b_i) + linear part`, whose linear part is `v.x + c` or
`c` alone. Given the units theta = (w, b), the best beta, v, c is a linear least-squares problem, so
only theta is searched (variable projection; Golub and Pereyra 1973, in Kaufman's form):

    H = J^T J  over  J = [J_theta, Phi],   Phi = [sigma(z), x, 1]
    S = H_tt - H_tb H_bb^-1 H_bt           (Schur complement: theta with the rest eliminated)
    (S + lambda diag(H_tt)) step = g_t - H_tb H_bb^-1 g_b

Everything the data contribute is a sum over samples, so the same code runs on any source. H is
summed in float32 while the residual is large: the gradient, in float64, alone decides where the
iteration ends. No n x p matrix exists: J is formed for a block of samples at a time.

Corrections of beta are always computed from the current residual, never beta itself anew: that is
why, without noise, the residual ends at machine precision although normal equations are solved.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from provenet.activations import Activation
from provenet.moments import Sums
from provenet.networks import Network
from provenet.sources.base import Source
from provenet.typing import AnyArray, Array

_BLOCK_BYTES = 4_000_000
_FLOAT32_ABOVE = 1e-3
_RIDGE = 1e-13
DENSE_LIMIT = 3000
"""From this many nonlinear parameters on, steps are found by conjugate gradients."""
_CG_ITERATIONS = 200


@dataclass(frozen=True)
class Parameters:
    """Units and linear part of a model on standardised inputs."""

    theta: Array
    """(units, features + 1): weights and, last, the bias."""
    beta: Array
    """Output weights of the units, then the linear part: (v, c) or (c,)."""

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self.theta)

    @property
    def has_linear(self) -> bool:
        """Whether the linear part has weights beside its constant."""
        return len(self.beta) > self.units + 1

    def keep(self, units: AnyArray) -> Parameters:
        """Only the units of a mask; the linear part stays."""
        return Parameters(self.theta[units], np.append(self.beta[: self.units][units], self.linear))

    @property
    def linear(self) -> Array:
        """The linear part (v, c) or (c,)."""
        return self.beta[self.units :]

    def normalised(self) -> Parameters:
        """Weights of norm 1, for an activation of degree 1."""
        norm = np.linalg.norm(self.theta[:, :-1], axis=1)
        beta = self.beta.copy()
        beta[: self.units] *= norm
        return Parameters(self.theta / norm[:, None], beta)

    def network(self, activation: Activation) -> Network:
        """The model as a network."""
        m = self.units
        return Network(
            self.theta[:, :-1],
            self.theta[:, -1],
            self.beta[:m],
            self.beta[-1],
            activation,
            linear=self.beta[m:-1] if self.has_linear else None,
        )

    @classmethod
    def of(cls, network: Network) -> Parameters:
        """The parameters of a network."""
        linear = np.empty(0) if network.linear is None else network.linear
        beta = np.concatenate([network.output_weights, linear, [float(network.output_bias)]])
        return cls(np.column_stack([network.weights, network.biases]), beta)


@dataclass(frozen=True)
class Fit:
    """Where a refinement ended."""

    parameters: Parameters
    rss: float
    samples: int
    iterations: int
    reason: str
    """Why it ended: "zero", "converged", "stuck", "iterations" or "time"."""

    @property
    def rms(self) -> float:
        """Root mean square residual."""
        return float(np.sqrt(self.rss / self.samples))


@dataclass(frozen=True)
class LinearPart(Sums):
    """Sums for the best beta at given units: `Phi^T Phi`, `Phi^T r`, `r^T r`."""

    gram: Array
    gradient: Array
    rss: float


@dataclass(frozen=True)
class NormalEquations(Sums):
    """`J^T J`, `J^T r` and `r^T r`, theta first, then beta."""

    hessian: Array
    gradient: Array
    rss: float


def _features(parameters: Parameters, activation: Activation, X: Array) -> tuple[Array, Array]:
    """`z` and `Phi`."""
    theta = parameters.theta
    z = X @ theta[:, :-1].T
    z += theta[:, -1]
    n, m = z.shape
    phi = np.empty((n, len(parameters.beta)))
    phi[:, :m] = activation(z)
    if parameters.has_linear:
        phi[:, m:-1] = X
    phi[:, -1] = 1.0
    return z, phi


def linear_part(source: Source, parameters: Parameters, activation: Activation) -> LinearPart:
    """One pass: the sums that determine beta."""

    def term(X: Array, y: Array) -> LinearPart:
        _, phi = _features(parameters, activation, X)
        r = phi @ parameters.beta - y
        return LinearPart(phi.T @ phi, phi.T @ r, float(r @ r))

    return source.total(term)


def normal_equations(
    source: Source,
    parameters: Parameters,
    activation: Activation,
    dtype: type[np.floating] = np.float64,
) -> NormalEquations:
    """One pass: the Gauss-Newton system, its matrix summed in `dtype`."""
    m, width = parameters.theta.shape
    p = m * width + len(parameters.beta)

    def term(X: Array, y: Array) -> NormalEquations:
        z, phi = _features(parameters, activation, X)
        r = phi @ parameters.beta - y
        slope = activation.derivative(z) * parameters.beta[:m]
        J = np.empty((len(X), p), dtype=dtype)
        units = J[:, : m * width].reshape(len(X), m, width)
        np.multiply(slope[:, :, None], X[:, None, :], out=units[:, :, :-1], casting="same_kind")
        units[:, :, -1] = slope
        J[:, m * width :] = phi
        slope *= r[:, None]
        theta_gradient = np.column_stack([slope.T @ X, slope.sum(axis=0)])
        gradient = np.append(theta_gradient, phi.T @ r)
        return NormalEquations((J.T @ J).astype(float), gradient, float(r @ r))

    rows = int(np.clip(_BLOCK_BYTES / (np.dtype(dtype).itemsize * p), 128, 512))
    return source.total(term, rows)


def solve_scaled(matrix: Array, rhs: Array, ridge: float) -> Array:
    """Solve a positive semidefinite system after scaling its diagonal to one."""
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0] = 1.0
    A = matrix / scale / scale[:, None]
    b = (rhs.T / scale).T
    for attempt in range(6):
        A[np.diag_indices(len(A))] += ridge * 1000.0**attempt
        try:
            factor = cho_factor(A, lower=True, check_finite=False)
        except LinAlgError:
            continue
        return np.asarray((cho_solve(factor, b, check_finite=False).T / scale).T)
    return np.asarray((np.linalg.lstsq(A, b, rcond=None)[0].T / scale).T)


def fit_linear_part(
    source: Source, parameters: Parameters, activation: Activation, passes: int = 1
) -> tuple[Parameters, float]:
    """The best beta for the given units, by corrections, and the residual sum of squares."""
    for _ in range(passes):
        sums = linear_part(source, parameters, activation)
        step = solve_scaled(sums.gram, sums.gradient, _RIDGE * len(sums.gram))
        parameters = Parameters(parameters.theta, parameters.beta - step)
    rss = sums.rss - float(sums.gradient @ step)
    return parameters, max(rss, 0.0)


def without_each_unit(sums: LinearPart, parameters: Parameters) -> Array:
    """How much the sum of squares grows without each unit, the rest refitted linearly."""
    gram, m = sums.gram, parameters.units
    inverse = solve_scaled(gram, np.eye(len(gram))[:, :m], _RIDGE * len(gram))
    return np.asarray(parameters.beta[:m] ** 2 / np.abs(np.diag(inverse[:m])))


class _DenseStep:
    """Damped steps from one set of normal equations, theta by theta."""

    def __init__(self, equations: NormalEquations, thetas: int, ridge: float) -> None:
        H, g = equations.hessian, equations.gradient
        cross = H[:thetas, thetas:]
        eliminated = solve_scaled(
            H[thetas:, thetas:], np.column_stack([cross.T, g[thetas:]]), ridge
        )
        self.matrix = H[:thetas, :thetas] - cross @ eliminated[:, :-1]
        self.rhs = g[:thetas] - cross @ eliminated[:, -1]
        diagonal = np.diag(H)[:thetas]
        self.damping = diagonal + 1e-10 * diagonal.mean() + 1e-300

    def solve(self, damping: float) -> Array | None:
        """The step, or None when the matrix is not positive definite at this damping."""
        A = self.matrix.copy()
        A[np.diag_indices(len(A))] += damping * self.damping
        try:
            factor = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return None
        return np.asarray(cho_solve(factor, self.rhs, check_finite=False))


class IterativeStep:
    """Damped steps by conjugate gradients: no p x p matrix, a pass over the samples an iteration.

    On standardised inputs the diagonal is a good preconditioner: a unit's own block of `J^T J` is
    close to a multiple of the identity.
    """

    def __init__(
        self, source: Source, parameters: Parameters, activation: Activation, gradient: Array
    ) -> None:
        """`gradient` is the right-hand side `J^T r`."""
        self.source, self.parameters, self.activation = source, parameters, activation
        self.rhs, self.thetas = gradient, parameters.theta.size
        diagonal = source.total(lambda X, y: self._diagonal(X))
        self.diagonal = diagonal + 1e-10 * diagonal.mean()

    def _diagonal(self, X: Array) -> Array:
        z, phi = _features(self.parameters, self.activation, X)
        slope = (self.activation.derivative(z) * self.parameters.beta[: self.parameters.units]) ** 2
        own = np.column_stack([slope.T @ X**2, slope.sum(axis=0)])
        return np.append(own, np.einsum("np,np->p", phi, phi))

    def product(self, v: Array) -> Array:
        """`J^T J v`."""
        m, width = self.parameters.theta.shape
        direction = v[: self.thetas].reshape(m, width)

        def term(X: Array, y: Array) -> Array:
            z, phi = _features(self.parameters, self.activation, X)
            slope = self.activation.derivative(z) * self.parameters.beta[:m]
            moved = X @ direction[:, :-1].T + direction[:, -1]
            change = np.einsum("nm,nm->n", slope, moved) + phi @ v[self.thetas :]
            slope *= change[:, None]
            own = np.column_stack([slope.T @ X, slope.sum(axis=0)])
            return np.append(own, phi.T @ change)

        return self.source.total(term)

    def solve(self, damping: float) -> Array | None:
        """The theta part of the damped step."""
        extra = np.zeros_like(self.rhs)
        extra[: self.thetas] = damping
        extra = extra * self.diagonal + 1e-12 * self.diagonal
        scale = np.sqrt(self.diagonal + extra)
        size = len(self.rhs)
        operator = LinearOperator(
            (size, size),
            matvec=lambda u: (self.product(u / scale) + extra * u / scale) / scale,
            dtype=float,
        )
        found, _ = cg(operator, self.rhs / scale, rtol=1e-3, maxiter=_CG_ITERATIONS)
        return np.asarray((found / scale)[: self.thetas])


def gradient_sums(source: Source, parameters: Parameters, activation: Activation) -> LinearPart:
    """One pass: `J^T r` and `r^T r` alone (no matrix)."""
    m = parameters.units

    def term(X: Array, y: Array) -> LinearPart:
        z, phi = _features(parameters, activation, X)
        r = phi @ parameters.beta - y
        slope = activation.derivative(z) * parameters.beta[:m] * r[:, None]
        own = np.column_stack([slope.T @ X, slope.sum(axis=0)])
        return LinearPart(np.zeros(0), np.append(own, phi.T @ r), float(r @ r))

    return source.total(term)


def refine(
    source: Source,
    parameters: Parameters,
    activation: Activation,
    *,
    spread: float,
    iterations: int = 60,
    tolerance: float = 1e-6,
    zero: float = 1e-14,
    damping: float = 1e-2,
    deadline: float = np.inf,
) -> Fit:
    """Levenberg-Marquardt from the given parameters (an activation of degree 1).

    Ends when the residual is below `zero * spread`, when an iteration lowers the sum of squares by
    less than the fraction `tolerance`, when no step lowers it, or when iterations or time are over.
    """
    n = source.size
    current, rss = fit_linear_part(source, parameters.normalised(), activation, passes=2)
    best = Fit(current, np.inf, n, 0, "iterations")
    for iteration in range(1, iterations + 1):
        step, new_rss = _prepare_step(source, current, activation, rss, spread)
        previous = best
        if new_rss >= previous.rss:
            return _ended(previous, iteration, "stuck")
        best = Fit(current, new_rss, n, iteration, "iterations")
        if best.rms <= zero * spread:
            return _ended(best, iteration, "zero")
        if previous.rss - new_rss <= tolerance * previous.rss < np.inf:
            return _ended(best, iteration, "converged")
        if time.monotonic() > deadline:
            return _ended(best, iteration, "time")
        trial, rss, damping = _try_steps(source, current, activation, step, new_rss, damping)
        if trial is None:
            return _ended(best, iteration, "stuck")
        current = trial
    return best


def _prepare_step(
    source: Source, current: Parameters, activation: Activation, rss: float, spread: float
) -> tuple[_DenseStep | IterativeStep, float]:
    """What a step needs at the current point, and the sum of squares there, computed afresh."""
    if current.theta.size > DENSE_LIMIT:
        sums = gradient_sums(source, current, activation)
        return IterativeStep(source, current, activation, sums.gradient), sums.rss
    single = np.sqrt(rss / source.size) > _FLOAT32_ABOVE * spread
    equations = normal_equations(source, current, activation, np.float32 if single else np.float64)
    return _DenseStep(equations, current.theta.size, 1e-6 if single else 1e-12), equations.rss


def _ended(fit: Fit, iterations: int, reason: str) -> Fit:
    return Fit(fit.parameters, fit.rss, fit.samples, iterations, reason)


def _try_steps(
    source: Source,
    current: Parameters,
    activation: Activation,
    step: _DenseStep | IterativeStep,
    rss: float,
    damping: float,
    attempts: int = 10,
) -> tuple[Parameters | None, float, float]:
    """The first damped step that lowers the sum of squares, its value, and the next damping."""
    for _ in range(attempts):
        move = step.solve(damping)
        if move is not None:
            theta = current.theta - move.reshape(current.theta.shape)
            trial = Parameters(theta, current.beta).normalised()
            trial, trial_rss = fit_linear_part(source, trial, activation)
            if trial_rss < rss:
                return trial, trial_rss, max(damping / 5, 1e-13)
        damping *= 4
    return None, rss, damping
