"""New units: at random, or the most promising of a random pool; and what each unit is worth."""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.fitting.normal_equations import linear_part, solve_scaled, without_each_unit
from provenet.fitting.parameters import Parameters, model_features
from provenet.fitting.search.problem import Problem
from provenet.fitting.tolerances import FAINT, POOL, POOL_ROWS, RIDGE_OF_POOL
from provenet.networks.activations import Activation
from provenet.networks.tolerances import TINY


def random_units(
    X: Array, units: int, rng: np.random.Generator, chances: Array | None = None
) -> Array:
    """Units with random directions whose kinks pass through random samples."""
    weights = rng.standard_normal((units, X.shape[1]))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    through = X[rng.choice(len(X), size=units, p=chances)]
    return np.column_stack([weights, -np.einsum("ud,ud->u", weights, through)])


def promising_units(
    problem: Problem,
    parameters: Parameters,
    units: int,
    rng: np.random.Generator,
    rows: int = POOL_ROWS,
) -> Array:
    """Of a random pool, the units that would lower the residual most, chosen one after another."""
    X, y = problem.samples.rows(0, min(rows, problem.samples.size))
    _, Phi = model_features(parameters, problem.activation, X)
    gram = Phi.T @ Phi
    Y = y.reshape(len(y), -1)
    left = np.sum((Y - Phi @ solve_scaled(gram, Phi.T @ Y, RIDGE_OF_POOL)) ** 2, axis=1)
    # Half of the kinks through any samples, half through those that are explained worst.
    pool = np.vstack(
        [
            random_units(X, POOL // 2, rng),
            random_units(X, POOL // 2, rng, left / left.sum() if left.sum() > 0 else None),
        ]
    )
    return pool[_most_gaining(problem.activation, X, Phi, gram, Y, pool, units)]


def _most_gaining(
    activation: Activation, X: Array, Phi: Array, gram: Array, Y: Array, pool: Array, units: int
) -> list[int]:
    """Which units of a pool lower the residual most, one after another.

    A Cholesky factorisation of their Gram matrix, Phi eliminated, that pivots on the gain: columns
    are formed for the units that are chosen. In single precision: a few digits are enough.
    """
    P, x, w = (np.asarray(a, np.float32) for a in (Phi, X, pool))
    F = activation(x @ w[:, :-1].T + w[:, -1]).astype(np.float32, copy=False)
    left = (Y - Phi @ solve_scaled(gram, Phi.T @ Y, RIDGE_OF_POOL)).astype(np.float32)
    overlap = (P.T @ F).astype(float)
    explained = solve_scaled(gram, overlap, RIDGE_OF_POOL)
    whole = np.einsum("nf,nf->f", F, F).astype(float)
    energy = np.maximum(whole - np.einsum("pf,pf->f", overlap, explained), 0.0)
    least = FAINT * whole.max() + TINY
    match = (left.T @ F).astype(float)
    chosen: list[int] = []
    columns: list[Array] = []
    for _ in range(units):
        gain = np.sum(match**2, axis=0) / (energy + least)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        size = np.sqrt(energy[best] + least)
        column = (F[:, best] @ F).astype(float) - overlap[:, best] @ explained
        column -= sum((other[best] * other for other in columns), np.zeros(len(column)))
        column /= size
        match = match - np.outer(match[:, best] / size, column)
        energy = np.maximum(energy - column**2, 0.0)
        chosen.append(best)
        columns.append(column)
    return chosen


def usefulness(problem: Problem, parameters: Parameters) -> Array:
    """How much the sum of squares would grow without each unit, the rest refitted linearly."""
    return without_each_unit(
        linear_part(problem.samples, parameters, problem.activation), parameters
    )
