"""One hidden layer: new units, at random or the most promising of a pool; what each is worth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.common.typing import TINY, AnyArray, Array
from provenet.fitting.least_squares import Fit
from provenet.fitting.linalg import solve_scaled
from provenet.fitting.losses import working_labels
from provenet.fitting.model import Parameters, model_features
from provenet.fitting.output_layer import dropped_in_turn, without_each_unit
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.tolerances import (
    AT_THE_CAP,
    FAINT,
    IN_VAIN,
    NEARLY_LINEAR,
    POOL,
    POOL_ROWS,
    PRUNE_CANDIDATES,
)
from provenet.fitting.tolerances import RIDGE_OF_POOL
from provenet.networks.activations import Activation


class OneLayer:
    """How a search moves among models of one hidden layer."""

    def start(self, problem: Problem, units: int, rng: np.random.Generator) -> Parameters:
        """Random units, their output weights unknown."""
        return with_no_output(problem, random_units(problem, units, rng))

    def grown(
        self, problem: Problem, parameters: Parameters, add: int, rng: np.random.Generator
    ) -> Parameters:
        """With further units, the most promising of a pool."""
        part = problem.for_width(parameters.units + add)
        return _with_new_units(part, parameters, np.empty(0, dtype=int), add, rng)

    def swapped(
        self, problem: Problem, parameters: Parameters, failures: int, rng: np.random.Generator
    ) -> Parameters:
        """With promising units in place of a few of the least useful."""
        m = parameters.units
        count = min(m, max(2, m // 8))
        order = np.argsort(usefulness(problem, parameters))
        drop = rng.permutation(order[: min(m, 2 * count + failures)])[:count]
        return _with_new_units(problem, parameters, drop, count, rng)

    def narrower(self, problem: Problem, fit: Fit) -> Iterator[Parameters]:
        """Without the units that look useless; then without one of the least useful.

        Where nothing is left all those that go one after the other, the rest refitted linearly,
        and leave next to nothing; else half of those that are worth less than they cost.
        """
        n, sums = problem.samples.labels, problem.linear_part(fit.parameters)
        cost = without_each_unit(sums, fit.parameters)
        order = np.argsort(cost)
        if problem.is_zero(fit):
            in_vain = dropped_in_turn(sums, fit.parameters, n * (IN_VAIN * problem.zero) ** 2)
            if len(in_vain) > 1:
                yield without(fit.parameters, in_vain)
            several = int((cost < n * problem.zero**2).sum()) // 2
        else:
            several = int((problem.growth(fit, cost) < problem.a_unit * np.log(n)).sum()) // 2
        if several > 1:
            yield without(fit.parameters, order[:several])
        for j in order[:PRUNE_CANDIDATES]:
            yield without(fit.parameters, np.array([j]))


def with_no_output(problem: Problem, theta: Array) -> Parameters:
    """Units, their output weights and the linear part zero."""
    rows = len(theta) + problem.linear_columns
    return Parameters(theta, np.zeros((rows, *problem.samples.label_shape)))


def without(parameters: Parameters, drop: AnyArray) -> Parameters:
    """The same without some units."""
    kept = np.ones(parameters.units, dtype=bool)
    kept[drop] = False
    return parameters.keep(kept)


def _with_new_units(
    problem: Problem, parameters: Parameters, drop: AnyArray, add: int, rng: np.random.Generator
) -> Parameters:
    """Drop some units, add promising ones."""
    old = without(calmed(problem, parameters, rng), drop)
    return old.widened(promising_units(problem, old, add, rng))


def random_units(
    problem: Problem, units: int, rng: np.random.Generator, chances: Array | None = None
) -> Array:
    """Units with random directions, and norms, whose kinks pass through random samples.

    `chances` are those of the first samples, all alike if not given.
    """
    X = problem.samples.X if chances is None else problem.samples.X[: len(chances)]
    weights = rng.standard_normal((units, X.shape[1]))
    norms = problem.policy.random_norms(units, rng)
    weights *= (norms / np.linalg.norm(weights, axis=1))[:, None]
    through = X[rng.choice(len(X), size=units, p=chances)]
    return np.column_stack([weights, -np.einsum("ud,ud->u", weights, through)])


def promising_units(
    problem: Problem,
    parameters: Parameters,
    units: int,
    rng: np.random.Generator,
    rows: int = POOL_ROWS,
) -> Array:
    """Of a random pool, the units that would lower the residual most, chosen one after another.

    Where a unit and its opposite are different things, the opposites of those that are there belong
    to the pool.
    """
    X, y = problem.samples.rows(0, min(rows, problem.samples.size))
    _, Phi = model_features(parameters, problem.activation, X)
    beta, Y = parameters.beta.reshape(len(parameters.beta), -1), y.reshape(len(y), -1)
    root, Y = working_labels(problem.loss, Phi @ beta, Y)
    Phi *= root
    gram = Phi.T @ Phi
    left = np.sum((Y - Phi @ solve_scaled(gram, Phi.T @ Y, RIDGE_OF_POOL)) ** 2, axis=1)
    # Half of the kinks through any samples, half through those that are explained worst.
    pool = np.vstack(
        [
            random_units(problem, POOL // 2, rng),
            random_units(problem, POOL // 2, rng, left / left.sum() if left.sum() > 0 else None),
            -parameters.theta[: len(parameters.theta) if problem.policy.mirrored else 0],
        ]
    )
    return pool[_most_gaining(problem.activation, X, root, Phi, gram, Y, pool, units)]


def _most_gaining(
    activation: Activation,
    X: Array,
    root: Array,
    Phi: Array,
    gram: Array,
    Y: Array,
    pool: Array,
    units: int,
) -> list[int]:
    """Which units of a pool lower the residual most, one after another.

    A Cholesky factorisation of their Gram matrix, Phi eliminated, that pivots on the gain: columns
    are formed for the units that are chosen. In single precision: a few digits are enough.
    """
    P, x, w = (a.astype(np.float32) for a in (Phi, X, pool))
    z: AnyArray = x @ w[:, :-1].T + w[:, -1]
    F = activation(z).astype(np.float32, copy=False)
    F *= root.astype(np.float32)
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
        gain = np.sum(match**2, axis=0) / np.maximum(energy, least)
        gain[chosen] = -1.0
        gain[energy <= least] = -1.0  # others leave nothing of it but rounding
        best = int(np.argmax(gain))
        if gain[best] < 0:  # of nobody is anything left: any others do
            rest = np.setdiff1d(np.arange(len(pool)), chosen)[: units - len(chosen)]
            return [*chosen, *(int(other) for other in rest)]
        size = np.sqrt(energy[best])
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
    return without_each_unit(problem.linear_part(parameters), parameters)


def calmed(problem: Problem, parameters: Parameters, rng: np.random.Generator) -> Parameters:
    """Norms that ran away are brought back; opposites are tried of units that have no symmetry.

    Directions and where a unit is zero stay; output weights are no longer the best.
    """
    policy = problem.policy
    if policy.homogeneous or parameters.units == 0:
        return parameters
    theta = parameters.theta.copy()
    norm = np.linalg.norm(theta[:, :-1], axis=1)
    ran = (norm > AT_THE_CAP * policy.largest) | (norm < NEARLY_LINEAR)
    back = policy.norms_brought_back(int(ran.sum()), rng)
    theta[ran] *= (back / np.maximum(norm[ran], TINY))[:, None]
    calm = Parameters(theta, parameters.beta)
    return _best_opposites(problem, calm, rng) if policy.mirrored else calm


def _best_opposites(problem: Problem, best: Parameters, rng: np.random.Generator) -> Parameters:
    """Units reversed, one after the other, where that lowers the residual of a linear fit."""
    best, least = problem.best_linear_part(best)
    for i in rng.permutation(best.units):
        theta = best.theta.copy()
        theta[i] *= -1
        other, rss = problem.best_linear_part(Parameters(theta, best.beta))
        if rss < least:
            best, least = other, rss
    return best
