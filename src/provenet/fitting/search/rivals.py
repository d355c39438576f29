"""Rivals of an answer under noise: networks a unit or two away that may explain the samples better.

What a chain of expanding and pruning missed shows in what its answer leaves. Starts are made from
the answer in five ways, and least squares runs from each:

- *further units*: each of the best of a pool, or the best two;
- *a unit in two*: halves moved apart. With `z = theta.(x, 1)` and a move u, to second order

      a/2 [|z + t u.(x,1)| + |z - t u.(x,1)|] - a |z| = a t^2 (u.(x,1))^2 delta(z),

  so the likeliest u is the first eigenvector of the sum of `a r (x,1)(x,1)^T` over samples near the
  kink, r being what is left; the bias alone and a few random moves are tried as well;
- *other units*: the weakest, or the two weakest, for the best of the pool;
- *other signs*: units reversed, one or two (in a model that knows signs, so without linear term);
- *fewer units*: without one of the weakest, or one of the two most alike.

A few steps from each, and the best of each kind are finished. Work is counted: wide networks on
many samples have fewer rivals, at least one of each kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, combinations, islice

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.fitting.least_squares import Fit
from provenet.fitting.linalg import solve_scaled
from provenet.fitting.model import Parameters, model_features
from provenet.fitting.output_layer import fit_linear_part
from provenet.fitting.search.moves import costs_without_each, promising_units
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.tolerances import (
    APART,
    FINALISTS,
    NEAR_KINK,
    REVERSED,
    RIVAL_LAST_STEPS,
    RIVAL_POOL_ROWS,
    RIVAL_POOLS,
    RIVAL_STEPS,
    RIVAL_TOLERANCE,
    RIVAL_WORK,
    RIVALS_OF_A_POOL,
    SPLIT_AT_RANDOM,
    SPLIT_WORK,
    SPLITS,
    WEAKEST,
)
from provenet.fitting.tolerances import FLIP_WORK, NEAREST_SIGNS, RIDGE_OF_POOL
from provenet.networks.activations import Symmetry
from provenet.networks.signs import nearest_signs


class Kind(Enum):
    """How a rival differs from the answer."""

    FURTHER = "further units"
    SPLIT = "a unit in two"
    OTHER = "other units"
    SIGNS = "other signs"
    FEWER = "fewer units"


@dataclass(frozen=True)
class Rival:
    """Where least squares ended from a start that is not the answer."""

    kind: Kind
    fit: Fit


def rivals(
    problem: Problem, fit: Fit, rng: np.random.Generator, kinds: Sequence[Kind] = tuple(Kind)
) -> tuple[list[Rival], int]:
    """The best few of each kind and width, refined to the end, and how many were tried."""
    most = max(1, int(RIVAL_WORK / _work(problem, fit.parameters)) // len(kinds))
    found: dict[tuple[Kind, int], list[Fit]] = defaultdict(list)
    tried: Counter[Kind] = Counter()
    for kind, start in _starts(problem, fit.parameters, rng):
        if problem.out_of_time:
            break
        if kind not in kinds or tried[kind] == most or start.units > problem.widest:
            continue
        tried[kind] += 1
        trial = problem.refine(start, RIVAL_STEPS, RIVAL_TOLERANCE)
        of_its_kind = kind, tried[kind] if kind is Kind.SIGNS else start.units
        found[of_its_kind].append(trial)
    finished = [
        Rival(kind, _finished(problem, fit, trial))
        for (kind, _), trials in found.items()
        for trial in sorted(trials, key=lambda trial: trial.rss)[:FINALISTS]
    ]
    return finished, tried.total()


def affordable(problem: Problem, parameters: Parameters) -> Problem:
    """All samples, or those that the width needs where steps on all of them cost too much."""
    if len(Kind) * _work(problem, parameters) <= RIVAL_WORK:
        return problem
    return problem.for_width(parameters.units + 2)


def _work(problem: Problem, parameters: Parameters) -> float:
    """Multiplications of the first steps of one rival."""
    p = parameters.theta.size + len(parameters.beta) + parameters.theta.shape[1]
    return float(RIVAL_STEPS * problem.samples.size * p**2)


def _finished(problem: Problem, fit: Fit, trial: Fit) -> Fit:
    """Least squares to the end, unless a trial is behind by more than a unit's price."""
    behind = problem.bic(trial) - problem.bic(fit)
    if behind > problem.a_unit * np.log(problem.samples.labels):
        return trial
    return problem.refine(trial.parameters, RIVAL_LAST_STEPS, 1 / problem.samples.labels)


def _starts(
    problem: Problem, parameters: Parameters, rng: np.random.Generator
) -> Iterator[tuple[Kind, Parameters]]:
    """Starts of every kind, the likeliest to gain first."""
    pools = [
        promising_units(problem, parameters, RIVALS_OF_A_POOL, rng, RIVAL_POOL_ROWS)
        for _ in range(RIVAL_POOLS)
    ]
    new = pools[0]
    yield Kind.FURTHER, parameters.widened(new[:1])
    for start in _split(problem, parameters, rng):
        yield Kind.SPLIT, start
    for start in _reversed(problem, parameters):
        yield Kind.SIGNS, start
    yield Kind.FURTHER, parameters.widened(new[:2])
    for unit in np.vstack([new[1:], *pools[1:]]):
        yield Kind.FURTHER, parameters.widened(unit[None])
    if parameters.units == 0:
        return
    weak = np.argsort(costs_without_each(problem, parameters, 0))[:WEAKEST]
    for drop in (*weak[:, None], weak):
        yield Kind.OTHER, _without(parameters, drop).widened(new[: len(drop)])
    for drop in dict.fromkeys((*_most_alike(parameters), *weak.tolist())):
        yield Kind.FEWER, _without(parameters, drop)


def _reversed(problem: Problem, parameters: Parameters) -> list[Parameters]:
    """With one unit or two reversed, or a set that makes nothing linear: those that fit best."""
    if parameters.has_linear or problem.activation.symmetry in (Symmetry.EVEN, Symmetry.ODD):
        return []  # either sign is the same function
    samples = problem.to_tell_signs(parameters.units).samples
    order = np.argsort(costs_without_each(problem, parameters, 0)).tolist()
    most = max(REVERSED, int(FLIP_WORK / (samples.size * len(parameters.beta) ** 2)))
    ways = []
    few = islice(chain(combinations(order, 1), combinations(order, 2)), most)
    for turned in chain(few, _reversible_sets(problem, parameters)):
        theta = parameters.theta.copy()
        theta[list(turned)] *= -1
        ways.append(fit_linear_part(samples, replace(parameters, theta=theta), problem.activation))
    return [start for start, _ in sorted(ways, key=lambda way: way[1])[:REVERSED]]


def _reversible_sets(problem: Problem, parameters: Parameters) -> Iterator[tuple[int, ...]]:
    """Three and more mirrored units whose `a_i w_i` cancel best."""
    if problem.activation.symmetry is not Symmetry.MIRROR:
        return
    W, a = parameters.theta[:, :-1], parameters.beta[: parameters.units].T
    for signs in nearest_signs(a, W, a / 2 @ W, NEAREST_SIGNS):
        if np.sum(signs < 0) > 2:
            yield tuple(np.flatnonzero(signs < 0).tolist())


def _without(parameters: Parameters, drop: AnyArray | int) -> Parameters:
    kept = np.ones(parameters.units, dtype=bool)
    kept[drop] = False
    return parameters.keep(kept)


def _most_alike(parameters: Parameters) -> tuple[int, ...]:
    """The two units of the least angle between them, bias and all; none if there are not two."""
    if parameters.units < 2:
        return ()
    theta = parameters.theta / np.linalg.norm(parameters.theta, axis=1, keepdims=True)
    alike = np.abs(theta @ theta.T) - np.eye(len(theta))
    i, j = np.unravel_index(np.argmax(alike), alike.shape)
    return int(i), int(j)


def _split(
    problem: Problem, parameters: Parameters, rng: np.random.Generator
) -> Iterator[Parameters]:
    """With one unit in two halves: the ways that explain most of what is left, as they are."""
    if parameters.units == 0:
        return
    own = parameters.normalised(problem.activation)
    rows = int(RIVAL_WORK / (SPLIT_WORK * own.units * len(own.beta)))
    X, y = problem.samples.rows(0, min(RIVAL_POOL_ROWS, rows, problem.samples.size))
    z, phi = model_features(own, problem.activation, X)
    left = (y - phi @ own.beta).reshape(len(y), -1)
    inputs = np.column_stack([X, np.ones(len(X))])
    gram = phi.T @ phi
    found: list[tuple[float, int, Array]] = []
    for i, a in enumerate(own.output_weights.T):
        moves = _moves(inputs, z[:, i], left @ a, rng)
        away = inputs @ moves.T
        both = problem.activation(z[:, i, None] + away) + problem.activation(z[:, i, None] - away)
        g = both / 2 - phi[:, i, None]
        g -= phi @ solve_scaled(gram, phi.T @ g, RIDGE_OF_POOL)
        gain = 2 * a @ (left.T @ g) - a @ a * np.einsum("nf,nf->f", g, g)
        found += [(float(value), i, move) for value, move in zip(gain, moves, strict=True)]
    found.sort(key=lambda way: -way[0])
    for _, i, move in found[:SPLITS]:
        yield _halves_apart(own, i, move)


def _moves(inputs: Array, z: Array, pull: Array, rng: np.random.Generator) -> Array:
    """Ways to move the halves of a unit apart, `pull` being what is left times output weights."""
    near = np.abs(z) < NEAR_KINK
    _, vectors = np.linalg.eigh((inputs[near].T * pull[near]) @ inputs[near])
    width = inputs.shape[1]
    random = rng.standard_normal((SPLIT_AT_RANDOM, width))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    ways = np.vstack([vectors[:, -1], np.eye(width)[-1], random])
    return np.vstack([t * ways for t in APART])


def _halves_apart(parameters: Parameters, i: int, move: Array) -> Parameters:
    """Unit i in two, each with half of its output weights, moved to either side."""
    theta, beta, m = parameters.theta.copy(), parameters.beta.copy(), parameters.units
    second = theta[i] - move
    theta[i] += move
    beta[i] /= 2
    beta = np.concatenate([beta[:m], beta[i : i + 1], beta[m:]])
    return Parameters(np.vstack([theta, second]), beta)
