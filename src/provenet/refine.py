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
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack
from scipy.sparse.linalg import LinearOperator, cg

from provenet.activations import Activation
from provenet.moments import Standardisation, Sums
from provenet.networks import Network
from provenet.sources.base import Source
from provenet.typing import AnyArray, Array

_BLOCK_BYTES = 4_000_000
_FLOAT32_ABOVE = 1e-3
_RIDGE = 1e-13
_SINGULAR = 1e-12
_DENSE_LIMIT = 3000
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


class _IterativeStep:
    """Damped steps by conjugate gradients: no p x p matrix, a pass over the samples an iteration.

    On standardised inputs the diagonal is a good preconditioner: a unit's own block of `J^T J` is
    close to a multiple of the identity.
    """

    def __init__(
        self, source: Source, parameters: Parameters, activation: Activation, gradient: Array
    ) -> None:
        self.source, self.parameters, self.activation = source, parameters, activation
        self.rhs, self.thetas = gradient, parameters.theta.size
        self.diagonal = source.total(lambda X, y: self._diagonal(X))
        self.diagonal += 1e-10 * self.diagonal.mean()

    def _diagonal(self, X: Array) -> Array:
        z, phi = _features(self.parameters, self.activation, X)
        slope = (self.activation.derivative(z) * self.parameters.beta[: self.parameters.units]) ** 2
        own = np.column_stack([slope.T @ X**2, slope.sum(axis=0)])
        return np.append(own, np.einsum("np,np->p", phi, phi))

    def _product(self, v: Array) -> Array:
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
            matvec=lambda u: (self._product(u / scale) + extra * u / scale) / scale,
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
) -> tuple[_DenseStep | _IterativeStep, float]:
    """What a step needs at the current point, and the sum of squares there, computed afresh."""
    if current.theta.size > _DENSE_LIMIT:
        sums = gradient_sums(source, current, activation)
        return _IterativeStep(source, current, activation, sums.gradient), sums.rss
    single = np.sqrt(rss / source.size) > _FLOAT32_ABOVE * spread
    equations = normal_equations(source, current, activation, np.float32 if single else np.float64)
    return _DenseStep(equations, current.theta.size, 1e-6 if single else 1e-12), equations.rss


def _ended(fit: Fit, iterations: int, reason: str) -> Fit:
    return Fit(fit.parameters, fit.rss, fit.samples, iterations, reason)


def _try_steps(
    source: Source,
    current: Parameters,
    activation: Activation,
    step: _DenseStep | _IterativeStep,
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


@dataclass(frozen=True)
class StandardErrors:
    """Standard errors of a canonical network's parameters, in the shapes of the network's own."""

    weights: Array
    biases: Array
    output_weights: Array
    output_bias: float
    linear: Array | None


@dataclass(frozen=True)
class Covariance:
    """Covariance, for noise of size one, of each unit's canonical (w, b, a), and of c, v."""

    units: Array
    """(units, features + 2, features + 2)."""
    linear: Array
    """Of the linear part (v, c) or (c,), in the user's coordinates."""
    rank_deficiency: int
    """How many directions, other than the units' scales, the data do not determine."""

    def standard_errors(self, noise: float) -> StandardErrors:
        """Standard errors for noise of the given size."""
        errors = noise * np.sqrt(np.maximum(np.diagonal(self.units, axis1=1, axis2=2), 0.0))
        linear = noise * np.sqrt(np.maximum(np.diag(self.linear), 0.0))
        return StandardErrors(
            weights=errors[:, :-2],
            biases=errors[:, -2],
            output_weights=errors[:, -1],
            output_bias=float(linear[-1]),
            linear=linear[:-1] if len(linear) > 1 else None,
        )

    def error_bound(self, residual_norm: float) -> float:
        """Largest distance of a unit from the truth that a residual of this norm allows."""
        largest = np.linalg.eigvalsh(self.units)[:, -1] if len(self.units) else np.zeros(1)
        return float(residual_norm * np.sqrt(max(largest.max(), 0.0)))


def covariance(source: Source, network: Network, standardisation: Standardisation) -> Covariance:
    """Covariance of the least-squares estimate (delta method) at a network on standardised inputs.

    A unit's scale is not determined by the data ((w, b, a) and (s w, s b, a/s) are one function),
    so the normal equations have one null direction a unit; canonical parameters do not see it.
    """
    parameters = Parameters.of(network)
    m, width = parameters.theta.shape
    H = normal_equations(source, parameters, network.activation).hessian
    inverse, free = _inverse_up_to_scales(H, parameters)
    blocks = np.empty((m, width + 1, width + 1))
    for i in range(m):
        own = _unit_indices(i, m, width)
        D = _to_canonical(parameters.theta[i], parameters.beta[i], standardisation)
        blocks[i] = D @ inverse[np.ix_(own, own)] @ D.T
    rest = np.arange(m * width + m, len(H))
    linear = inverse[np.ix_(rest, rest)]
    if parameters.has_linear:
        D = np.eye(len(rest))
        D[:-1, :-1] = standardisation.whiten.T
        D[-1, :-1] = -standardisation.whiten @ standardisation.mean
        linear = D @ linear @ D.T
    return Covariance(blocks, linear, free)


def _unit_indices(i: int, units: int, width: int) -> AnyArray:
    """Where the weights, the bias and the output weight of unit i stand among all parameters."""
    return np.append(np.arange(i * width, (i + 1) * width), units * width + i)


def _inverse_up_to_scales(H: Array, parameters: Parameters) -> tuple[Array, int]:
    """An inverse of H but for the units' scales, and how many other directions are free.

    Each unit's scale direction `(w, b, -a)` is a null vector of H. Adding its outer product makes H
    regular and changes the inverse along that direction only, which canonical parameters ignore.
    """
    m, width = parameters.theta.shape
    scale = np.sqrt(np.diag(H))
    scale[scale == 0] = 1.0
    A = H / scale / scale[:, None]
    for i in range(m):
        own = _unit_indices(i, m, width)
        null = np.append(parameters.theta[i], -parameters.beta[i]) * scale[own]
        null /= np.linalg.norm(null)
        A[np.ix_(own, own)] += np.outer(null, null)
    factor, failed = lapack.dpotrf(A, lower=True)
    if not failed and lapack.dpocon(factor, np.abs(A).sum(axis=0).max(), uplo="L")[0] > _SINGULAR:
        inverse = lapack.dpotri(factor, lower=True)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        return inverse / scale / scale[:, None], 0
    values, vectors = np.linalg.eigh(A)
    keep = values > _SINGULAR * values[-1]
    root = vectors[:, keep] / np.sqrt(values[keep]) / scale[:, None]
    return root @ root.T, int(np.sum(~keep))


def _to_canonical(theta: Array, a: float, standardisation: Standardisation) -> Array:
    """Derivative of a unit's canonical (w, b, a) in the user's coordinates by its own (w, b, a)."""
    w, d = theta[:-1], len(theta) - 1
    to_user = np.eye(d + 2)
    to_user[:d, :d] = standardisation.whiten.T
    to_user[d, :d] = -standardisation.whiten @ standardisation.mean
    u = standardisation.whiten.T @ w
    b = theta[-1] - u @ standardisation.mean
    s = np.linalg.norm(u)
    direction = u / s
    D = np.zeros((d + 2, d + 2))
    D[:d, :d] = (np.eye(d) - np.outer(direction, direction)) / s
    D[d, :d] = -b * direction / s**2
    D[d, d] = 1 / s
    D[d + 1, :d] = a * direction
    D[d + 1, d + 1] = s
    return D @ to_user
