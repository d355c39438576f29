"""Linear least squares: scaled solutions, the output layer of given units, the worth of a unit.

For given units the best beta is a linear least-squares problem of `Phi^T Phi` and `Phi^T r`. It is
found by corrections of the current beta: computed from the current residual they end at machine
precision although normal equations are solved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import lapack

from provenet.common.typing import EPS, AnyArray, Array
from provenet.data.passes import Sums
from provenet.data.sources import Source
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.activations import RELU, Activation
from provenet.networks.network import Network

Solver = Callable[[Array], Array]
RIDGE = 450 * EPS
"""Of `Phi^T Phi` scaled to unit diagonal, times its size: rounding of its sums."""


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


@dataclass(frozen=True)
class LinearPart(Sums):
    """`Phi^T w Phi`, `Phi^T r` and the loss, one weight w a sample (1 for squares)."""

    gram: Array
    gradient: Array
    """(rows of beta, outputs)."""
    rss: float


def linear_part(
    source: Source, parameters: Parameters, activation: Activation, loss: Loss = SQUARES
) -> LinearPart:
    """One pass: the sums that determine beta near where it is."""
    return source.total(partial(_linear_term, parameters, activation, loss))


@np.errstate(over="ignore", invalid="ignore")  # of several layers; such a model is not taken
def _linear_term(
    parameters: Parameters, activation: Activation, loss: Loss, X: Array, y: Array
) -> LinearPart:
    at, Y = Linearisation.of(parameters, activation, X), y.reshape(len(y), -1)
    r, phi = loss.excess(at.values, Y), at.features
    weighted = phi if loss is SQUARES else loss.weights(at.values) * phi
    return LinearPart(phi.T @ weighted, phi.T @ r, float(loss.deviance(at.values, Y).sum()))


def fit_linear_part(
    source: Source, parameters: Parameters, activation: Activation, passes: int = 1
) -> tuple[Parameters, float]:
    """The best beta for the given units, by corrections, and the residual sum of squares."""
    rss = np.inf
    for _ in range(passes):
        sums = linear_part(source, parameters, activation)
        step = solve_scaled(sums.gram, sums.gradient, RIDGE * len(sums.gram))
        parameters = replace(parameters, beta=parameters.beta - step.reshape(parameters.beta.shape))
        rss = max(sums.rss - float(np.vdot(sums.gradient, step)), 0.0)
    return parameters, rss


def with_output_layer(
    X: Array, Y: Array, W: Array, b: Array, activation: Activation = RELU
) -> Network:
    """The network of given units whose output weights and bias fit labels (n, outputs) best."""
    Phi = np.column_stack([activation(X @ W.T + b), np.ones(len(X))])
    A = np.linalg.lstsq(Phi, Y, rcond=None)[0]
    return Network(W, b, A[:-1].T, A[-1], activation)


# ---------------------------------------------------------------- what units are worth


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
