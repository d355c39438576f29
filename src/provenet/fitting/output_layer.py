"""The output layer of given units: sums that determine it, and what each unit is worth.

For given units the best beta is a linear least-squares problem of `Phi^T Phi` and `Phi^T r`. It is
found by corrections of the beta that is there: computed from the current residual they end at
machine precision although normal equations are solved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from provenet.common.typing import EPS, AnyArray, Array
from provenet.data.passes import Sums
from provenet.data.sources import Source
from provenet.fitting.linalg import solve_scaled
from provenet.fitting.losses import SQUARES, Loss
from provenet.fitting.model import Linearisation, Parameters
from provenet.networks.activations import RELU, Activation
from provenet.networks.network import Network

RIDGE = 450 * EPS
"""Of `Phi^T Phi` scaled to unit diagonal, times its size: rounding of its sums."""


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
