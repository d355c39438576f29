"""Fisher's scoring: the steps of Levenberg-Marquardt for class labels.

With the letters of `normal_equations` and of `losses`: J are the derivatives of the outputs by all
parameters, theta and then beta by outputs, and

    M = J^T R^T R J,   g = J^T r        sums over samples
    S = M_tt - M_tb M_bb^-1 M_bt,   rhs = g_t - M_tb M_bb^-1 g_b

eliminate beta from the step of theta. The best beta for given units is found by Newton's own steps
(the deviance is convex in beta, and M_bb its second derivative), halved until it falls.

Where the labels can be told apart by the units the deviance has no minimum: it falls for ever as
beta grows. So `CLASS_PENALTY` times n |beta|^2 is added to it, far too little to be felt where
labels overlap. It also settles the constant that softmax leaves open. M is the Fisher information
without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from provenet.common.typing import Array
from provenet.data.sources.base import Source
from provenet.data.sums import Sums
from provenet.fitting.losses import Loss
from provenet.fitting.model import Parameters, model_features
from provenet.fitting.normal_equations import (
    DenseStep,
    LinearPart,
    floored,
    rows_of_jacobian,
    solver_scaled,
)
from provenet.fitting.tolerances import (
    BETA_STEPS,
    BETA_STILL,
    CLASS_PENALTY,
    HALVINGS,
    RIDGE_DOUBLE,
    SATURATED_DAMPING,
    START_SHARES,
)
from provenet.networks.activations import Activation


@dataclass(frozen=True)
class Information(Sums):
    """M, half the gradient of the deviance, and the deviance; without the penalty."""

    matrix: Array
    gradient: Array
    deviance: float


def information(
    source: Source, parameters: Parameters, activation: Activation, loss: Loss
) -> Information:
    """One pass: the Fisher information of all parameters, theta and then beta by outputs."""
    p = parameters.theta.size + parameters.beta.size
    rows = rows_of_jacobian(p, np.float64)
    return source.total(partial(_information_term, parameters, activation, loss), rows)


def _information_term(
    parameters: Parameters, activation: Activation, loss: Loss, X: Array, y: Array
) -> Information:
    z, phi = model_features(parameters, activation, X)
    F, Y = _values(phi, parameters), y.reshape(len(y), -1)
    r, slope = loss.excess(F, Y), activation.derivative(z)
    folded = np.column_stack([X, np.ones(len(X))])
    pulled = (slope * (r @ parameters.output_weights)).T @ folded
    matrix = np.zeros(2 * (parameters.theta.size + parameters.beta.size,))
    for J in _rooted_jacobians(parameters, loss.root(F), slope, folded, phi):
        matrix += J.T @ J
    gradient = np.concatenate([pulled.ravel(), (phi.T @ r).T.ravel()])
    return Information(matrix, gradient, float(loss.deviance(F, Y).sum()))


def _rooted_jacobians(
    parameters: Parameters, root: Array, slope: Array, folded: Array, phi: Array
) -> Iterator[Array]:
    """Each row of R times the derivatives by all parameters, one row a sample."""
    for R in np.moveaxis(root, 1, 0):
        by_theta = (slope * (R @ parameters.output_weights))[:, :, None] * folded[:, None, :]
        by_beta = R[:, :, None] * phi[:, None, :]
        yield np.hstack([by_theta.reshape(len(R), -1), by_beta.reshape(len(R), -1)])


def _values(phi: Array, parameters: Parameters) -> Array:
    return np.asarray(phi @ parameters.beta.reshape(len(parameters.beta), -1))


def weighted_linear_part(
    source: Source, parameters: Parameters, activation: Activation, loss: Loss
) -> LinearPart:
    """`Phi^T w Phi`, `Phi^T r` and the deviance, with one weight a sample."""

    def term(X: Array, y: Array) -> LinearPart:
        phi = model_features(parameters, activation, X)[1]
        F, Y = _values(phi, parameters), y.reshape(len(y), -1)
        gram = phi.T @ (loss.weights(F) * phi)
        gradient = phi.T @ loss.excess(F, Y)
        return LinearPart(gram, gradient, float(loss.deviance(F, Y).sum()))

    return source.total(term)


@dataclass(frozen=True)
class Scored:
    """Units with their best beta, and the penalised deviance there."""

    parameters: Parameters
    rss: float


@dataclass(frozen=True)
class Scoring:
    """What is the same at every point: see `levenberg_marquardt`."""

    source: Source
    activation: Activation
    loss: Loss

    def evaluate(self, parameters: Parameters, passes: int = 1) -> Scored:
        """So many of Newton's steps of beta, and on while the deviance falls well.

        Where an iteration begins units may be gone: what is left of beta may be sure, and wrong,
        and Newton's steps tell nothing there. Less of it may be a better start.
        """
        shares = START_SHARES if passes > 1 else START_SHARES[:1]
        starts = (replace(parameters, beta=share * parameters.beta) for share in shares)
        at = min((Scored(start, self._value(start)) for start in starts), key=lambda at: at.rss)
        for _ in range(passes * BETA_STEPS):
            new = self._corrected(at)
            fell, at = at.rss - new.rss, new
            if fell <= BETA_STILL:
                break
        return at

    def _value(self, parameters: Parameters) -> float:
        def term(X: Array, y: Array) -> float:
            F = _values(model_features(parameters, self.activation, X)[1], parameters)
            return float(self.loss.deviance(F, y.reshape(len(y), -1)).sum())

        return self.source.total(term) + self._penalty(parameters)

    def _penalty(self, parameters: Parameters) -> float:
        return CLASS_PENALTY * self.source.size * float(np.vdot(parameters.beta, parameters.beta))

    def _corrected(self, at: Scored) -> Scored:
        """A step of Newton's in beta, halved until the deviance falls."""
        step = self._beta_step(at.parameters)
        for halving in range(HALVINGS):
            beta = at.parameters.beta - step / 2**halving
            trial = replace(at.parameters, beta=beta)
            value = self._value(trial)
            if value < at.rss:
                return Scored(trial, value)
        return at

    def _beta_step(self, parameters: Parameters) -> Array:
        def term(X: Array, y: Array) -> Information:
            phi = model_features(parameters, self.activation, X)[1]
            F, Y = _values(phi, parameters), y.reshape(len(y), -1)
            matrix = np.zeros(2 * (parameters.beta.size,))
            for R in np.moveaxis(self.loss.root(F), 1, 0):
                J = (R[:, :, None] * phi[:, None, :]).reshape(len(R), -1)
                matrix += J.T @ J
            return Information(matrix, (phi.T @ self.loss.excess(F, Y)).T.ravel(), 0.0)

        sums = self.source.total(term)
        matrix, gradient = self._penalised(sums, parameters, 0)
        flat = solver_scaled(matrix, RIDGE_DOUBLE)(gradient)
        return _as_beta(flat, parameters)

    def _penalised(
        self, sums: Information, parameters: Parameters, thetas: int
    ) -> tuple[Array, Array]:
        """M and g with the penalty on beta, which begins after `thetas` others."""
        size = CLASS_PENALTY * self.source.size
        matrix, gradient = sums.matrix.copy(), sums.gradient.copy()
        own = np.arange(thetas, len(matrix))
        matrix[own, own] += size
        gradient[thetas:] += size * parameters.beta.T.ravel()
        return matrix, gradient

    def step_from(self, at: Any) -> tuple[DenseStep, float]:
        """Damped steps of theta with beta eliminated."""
        parameters, t = at.parameters, at.parameters.theta.size
        sums = information(self.source, parameters, self.activation, self.loss)
        M, g = self._penalised(sums, parameters, t)
        best_linear_part = solver_scaled(M[t:, t:], RIDGE_DOUBLE)
        cross = M[:t, t:]
        matrix = M[:t, :t] - cross @ best_linear_part(cross.T)
        rhs = g[:t] - cross @ best_linear_part(g[t:])
        damping = floored(np.diag(M)[:t], SATURATED_DAMPING)
        return DenseStep(matrix, rhs, damping), at.rss

    def last_correction(self, at: Any, rss: float) -> Scored:
        """Nothing is left to correct."""
        return Scored(at.parameters, at.rss)


def _as_beta(flat: Array, parameters: Parameters) -> Array:
    """Beta by outputs, flat, in the shape of beta."""
    beta = parameters.beta
    return np.asarray(flat.reshape(beta.shape[::-1]).T if beta.ndim == 2 else flat)
