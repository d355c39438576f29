"""Alternatives to an answer under noise: other networks that may explain the samples better.

Networks are compared by BIC, `n log(rss) + p log(n)`, in the form in which they would be returned:
signs settled, with the linear term that they need. What the search missed shows in the residual of
its answer, so least squares runs from starts that are made of the answer:

- *further units*: each of the best of a pool, or the best two;
- *a unit in two*: its halves moved apart. With `z = theta.(x, 1)` and a move u, to second order

      a/2 [sigma(z + t u.(x,1)) + sigma(z - t u.(x,1)) - 2 sigma(z)] = a/2 (t u.(x,1))^2 sigma''(z),

  and sigma'' of a kinked unit is concentrated at its kink: so the likeliest u is the first
  eigenvector of the sum of `a r (x,1)(x,1)^T`, r the residual, over samples near z = 0. The bias
  alone and a few random moves are tried as well;
- *other units*: the weakest, or the two weakest, replaced by the best of the pool;
- *other signs*: one unit or two reversed, or a set that reverses nothing but the linear part;
- *fewer units*: without one of the weakest, or one of the two most alike.

A few steps from each start, then the best of each kind to the end. The best that lowers BIC takes
the answer's place, and the next round starts there. A round that gains nothing is evidence that
nothing was missed; a gain by more units than were asked for says that these are too few. Wide
networks on many samples have fewer alternatives, at least one of each kind: work is counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, combinations, islice

import numpy as np

from provenet.common.typing import TINY, AnyArray, Array
from provenet.fitting.context import Context
from provenet.fitting.final_fit import Polished, described_reversals, settled_again
from provenet.fitting.least_squares import Fit
from provenet.fitting.linear import fit_linear_part, solve_scaled
from provenet.fitting.model import Parameters, model_features
from provenet.fitting.search.moves import costs_without_each, promising_units, without
from provenet.fitting.search.problem import Problem, zero_level
from provenet.networks.activations import Symmetry
from provenet.networks.signs import nearest_signs


class Kind(Enum):
    """How an alternative differs from the answer."""

    FURTHER = "further units"
    SPLIT = "a unit in two"
    OTHER = "other units"
    SIGNS = "other signs"
    FEWER = "fewer units"


@dataclass(frozen=True)
class Comparison:
    """What a round of alternatives to an answer came to."""

    tried: int
    gains: dict[Kind, float]
    """By how much the best of each kind lowers BIC; negative if it does not."""
    ambiguities: tuple[str, ...]
    """Units that may as well be reversed, in sentences."""
    in_time: bool = True
    """Whether none of them was cut short."""
    least: float = 1.0
    """Least squares ends where BIC gains less: an alternative that does is the answer itself."""


def improve(
    context: Context, answer: Polished, *, most_rounds: int = 4
) -> tuple[Polished, Comparison]:
    """The answer that no alternative improves, or that the budget allows, and its last comparison.

    On all samples that were drawn; the answer is then fitted again without those held out.
    """
    everything = context.with_held_out()
    best = refitted(everything, answer)
    for _ in range(most_rounds):
        better, last = compare(everything, best)
        if better is best or context.out_of_time:
            break
        best = better
    if best.network.linear is None and context.problem.has_linear_term:
        best = replace(best, ambiguities=last.ambiguities)
    return refitted(context, best), last


def refitted(context: Context, answer: Polished) -> Polished:
    """Least squares from an answer, on the samples of a context."""
    network = answer.network
    problem = replace(context.problem, activation=network.activation)
    fit = problem.refine(Parameters.of(network), 20, 1e-8)
    found = fit.parameters.network(network.activation)
    return replace(answer, network=found, rss=fit.rss, ended=fit.ended)


def compare(
    context: Context,
    answer: Polished,
    kinds: Collection[Kind] = tuple(Kind),
    clearly_worse: float = 15.0,
) -> tuple[Polished, Comparison]:
    """One round: the best alternative that may be returned, or the answer.

    Signs are open unless others are clearly worse, by default at odds of a thousand to one.
    """
    network = answer.network
    own = replace(context.problem, activation=network.activation)
    problem = _affordable(own, Parameters.of(network))
    fit = problem.refine(Parameters.of(network), 20, 1 / problem.samples.labels)
    found, tried = _alternatives(problem, fit, context.rng, kinds)
    value, best, gains = _bic(problem, fit), answer, dict.fromkeys(kinds, -np.inf)
    gain, ambiguities = Comparison.least, list[str]()
    for kind, trial in found:
        gained = value - _bic(problem, trial)
        if gained > 0:
            whole = own.refine(trial.parameters, 20, 1 / own.samples.labels)
            other = settled_again(context, whole, network.activation)
            gained = bic_of(context, answer) - bic_of(context, other)
            allowed = context.units is None or other.network.units <= context.units
            if gained > gain and allowed:
                best, gain = other, gained
        if kind is Kind.SIGNS and gained > -clearly_worse:
            other_signs = trial.parameters.network(network.activation)
            ambiguities += described_reversals(context, network, other_signs)
        gains[kind] = max(gains[kind], gained)
    return best, Comparison(tried, gains, tuple(ambiguities), not context.out_of_time)


def bic_of(context: Context, answer: Polished) -> float:
    """BIC of a network as it would be returned."""
    n, p = context.problem.samples.labels, answer.network.free_parameters
    least = n * zero_level(context.spread) ** 2
    return float(n * np.log(max(answer.rss, least, TINY)) + p * np.log(n))


def _bic(problem: Problem, fit: Fit) -> float:
    """Below the rounding of labels residuals still count, for they show signs."""
    return problem.bic(fit, zero=zero_level(problem.spread))


# ---------------------------------------------------------------- fits from all starts


def _alternatives(
    problem: Problem,
    fit: Fit,
    rng: np.random.Generator,
    kinds: Collection[Kind],
    *,
    work: float = 1e10,
) -> tuple[list[tuple[Kind, Fit]], int]:
    """The best two fits of each kind and width, and how many starts there were.

    The first steps of all take about so many multiplications, a second of one core.
    """
    most = max(1, int(work / _work(problem, fit.parameters)) // len(Kind))
    trials: dict[tuple[Kind, int], list[Fit]] = defaultdict(list)
    tried: Counter[Kind] = Counter()
    for kind, start in _starts(problem, fit.parameters, rng):
        if problem.out_of_time:
            break
        if kind in kinds and tried[kind] < most and start.units <= problem.widest:
            tried[kind] += 1
            trial = problem.refine(start, 6, 1e-3)
            trials[kind, tried[kind] if kind is Kind.SIGNS else start.units].append(trial)
    found = [
        (kind, _to_the_end(problem, fit, trial))
        for (kind, _), fits in trials.items()
        for trial in sorted(fits, key=lambda trial: trial.rss)[:2]
    ]
    return found, tried.total()


def _affordable(problem: Problem, parameters: Parameters, *, work: float = 1e10) -> Problem:
    """All samples, or those that the width needs where steps on all of them cost too much."""
    if len(Kind) * _work(problem, parameters) <= work:
        return problem
    return problem.for_width(parameters.units + 2)


def _work(problem: Problem, parameters: Parameters) -> float:
    """Multiplications of six steps."""
    p = parameters.theta.size + len(parameters.beta) + parameters.theta.shape[1]
    return float(6 * problem.samples.size * p**2)


def _to_the_end(problem: Problem, fit: Fit, trial: Fit) -> Fit:
    """Least squares to the end, unless a trial is behind by more than the price of a unit."""
    behind = _bic(problem, trial) - _bic(problem, fit)
    if behind > problem.a_unit * np.log(problem.samples.labels):
        return trial
    return problem.refine(trial.parameters, 40, 1 / problem.samples.labels)


# ---------------------------------------------------------------- starts


def _starts(
    problem: Problem, parameters: Parameters, rng: np.random.Generator
) -> Iterator[tuple[Kind, Parameters]]:
    """Starts of every kind, those that are likeliest to gain first."""
    pools = [promising_units(problem, parameters, 4, rng, 10_000) for _ in range(3)]
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
    weak = np.argsort(costs_without_each(problem, parameters, 0))[:2]
    for drop in (*weak[:, None], weak):
        yield Kind.OTHER, without(problem, parameters, 0, drop).widened(new[: len(drop)])
    for unit in dict.fromkeys((*_most_alike(parameters), *weak.tolist())):
        yield Kind.FEWER, without(problem, parameters, 0, np.array([unit]))


def _reversed(problem: Problem, parameters: Parameters, *, best: int = 6) -> list[Parameters]:
    """With one unit or two reversed, or a set that reverses little else: those that fit best."""
    if parameters.has_linear or problem.activation.symmetry in (Symmetry.EVEN, Symmetry.ODD):
        return []  # either sign is the same function
    samples = problem.to_tell_signs(parameters.units).samples
    order = np.argsort(costs_without_each(problem, parameters, 0)).tolist()
    most = max(best, int(2e9 / (samples.size * len(parameters.beta) ** 2)))  # about a second
    few = islice(chain(combinations(order, 1), combinations(order, 2)), most)
    ways = []
    for units in chain(few, _reversible_sets(problem, parameters)):
        theta = parameters.theta.copy()
        theta[list(units)] *= -1
        ways.append(fit_linear_part(samples, replace(parameters, theta=theta), problem.activation))
    return [start for start, _ in sorted(ways, key=lambda way: way[1])[:best]]


def _reversible_sets(problem: Problem, parameters: Parameters) -> Iterator[tuple[int, ...]]:
    """Three and more mirrored units whose `a_i w_i` cancel best."""
    if problem.activation.symmetry is not Symmetry.MIRROR:
        return
    W, a = parameters.theta[:, :-1], parameters.beta[: parameters.units].T
    for signs in nearest_signs(a, W, a / 2 @ W, 8):
        if np.sum(signs < 0) > 2:
            yield tuple(np.flatnonzero(signs < 0).tolist())


def _most_alike(parameters: Parameters) -> tuple[int, ...]:
    """The two units of the least angle between them, bias and all; none if there are not two."""
    if parameters.units < 2:
        return ()
    theta = parameters.theta / np.linalg.norm(parameters.theta, axis=1, keepdims=True)
    alike = np.abs(theta @ theta.T) - np.eye(len(theta))
    i, j = np.unravel_index(np.argmax(alike), alike.shape)
    return int(i), int(j)


def _split(
    problem: Problem,
    parameters: Parameters,
    rng: np.random.Generator,
    *,
    best: int = 4,
    work: float = 2.5e8,
) -> Iterator[Parameters]:
    """With one unit in two halves: the ways that explain most of the residual as they are."""
    if parameters.units == 0:
        return
    own = parameters.normalised(problem.activation)
    rows = int(work / (own.units * len(own.beta)))
    X, y = problem.samples.rows(0, min(10_000, rows, problem.samples.size))
    z, phi = model_features(own, problem.activation, X)
    residual = (y - phi @ own.beta).reshape(len(y), -1)
    inputs, gram = np.column_stack([X, np.ones(len(X))]), phi.T @ phi
    found: list[tuple[float, int, Array]] = []
    for i, a in enumerate(own.output_weights.T):
        moves = _moves_apart(inputs, z[:, i], residual @ a, rng)
        away = inputs @ moves.T
        both = problem.activation(z[:, i, None] + away) + problem.activation(z[:, i, None] - away)
        g = both / 2 - phi[:, i, None]
        g -= phi @ solve_scaled(gram, phi.T @ g, 1e-10)
        gain = 2 * a @ (residual.T @ g) - a @ a * np.einsum("nf,nf->f", g, g)
        found += [(float(value), i, move) for value, move in zip(gain, moves, strict=True)]
    for _, i, move in sorted(found, key=lambda way: -way[0])[:best]:
        yield _halves_apart(own, i, move)


def _moves_apart(inputs: Array, z: Array, pull: Array, rng: np.random.Generator) -> AnyArray:
    """Ways to move the halves of a unit apart; `pull` is the residual times output weights."""
    near = np.abs(z) < 0.5  # standard deviations, of inputs of spread one
    _, vectors = np.linalg.eigh((inputs[near].T * pull[near]) @ inputs[near])
    width = inputs.shape[1]
    random = rng.standard_normal((3, width))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    ways = np.vstack([vectors[:, -1], np.eye(width)[-1], random])
    return np.vstack([t * ways for t in (0.15, 0.4)])  # weights have norm 1


def _halves_apart(parameters: Parameters, i: int, move: Array) -> Parameters:
    """Unit i in two, each with half of its output weights, moved to either side."""
    halves = parameters.widened(parameters.theta[i : i + 1] - move)
    theta, beta = halves.theta.copy(), halves.beta.copy()
    theta[i] += move
    beta[i] /= 2
    beta[parameters.units] = beta[i]
    return replace(halves, theta=theta, beta=beta)
