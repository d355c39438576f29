"""New units: at random, or the most promising of a random pool; and what each unit is worth."""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.fitting.normal_equations import linear_part, solve_scaled, without_each_unit
from provenet.fitting.parameters import Parameters, model_features
from provenet.fitting.search.problem import Problem
from provenet.fitting.tolerances import FAINT, POOL, POOL_ROWS, RIDGE_OF_POOL
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
    F = problem.activation(X @ pool[:, :-1].T + pool[:, -1])
    target = np.column_stack([F, Y])
    target -= Phi @ solve_scaled(gram, Phi.T @ target, RIDGE_OF_POOL)
    F, r = target[:, :POOL], target[:, POOL:]
    chosen: list[int] = []
    for _ in range(units):
        energy = np.einsum("nf,nf->f", F, F)
        gain = np.sum((r.T @ F) ** 2, axis=0) / (energy + FAINT * energy.max() + TINY)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        unit = F[:, best] / np.sqrt(energy[best] + TINY)
        F = F - np.outer(unit, unit @ F)
        r = r - np.outer(unit, unit @ r)
    return pool[chosen]


def usefulness(problem: Problem, parameters: Parameters) -> Array:
    """How much the sum of squares would grow without each unit, the rest refitted linearly."""
    return without_each_unit(
        linear_part(problem.samples, parameters, problem.activation), parameters
    )
