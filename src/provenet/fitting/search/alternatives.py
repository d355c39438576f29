"""On from an answer under noise: rivals take its place until none explains the samples better.

The criterion is Schwarz's, `n log(rss) + p log(n)`, of the networks as they would be returned,
signs settled, with the linear term that they need. A round tries rivals of every kind in two
models. Units beside a free linear part know no signs, so that these are in nobody's way; but there
what a missed unit leaves is half of it, the other half being linear. The network's own units
without a linear term see both. (Odd units need no linear part: one model does.)

The best that gains takes the answer's place, and the next round begins there. A round that gains
nothing is the last, and is evidence that nothing was missed. So is one whose best has more units
than were asked for: it says that these are too few.

*Kinds of rivals.* What the search missed shows in what its answer leaves. Starts are made from the
answer in five ways, and least squares runs from each:

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
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, combinations, islice

import numpy as np

from provenet.common.typing import TINY, AnyArray, Array
from provenet.data.passes import working_time
from provenet.fitting.context import Context
from provenet.fitting.final_fit import Polished, describe_reversal, settled_from, settled_with_signs
from provenet.fitting.least_squares import Fit
from provenet.fitting.linalg import solve_scaled
from provenet.fitting.model import Parameters, model_features
from provenet.fitting.output_layer import fit_linear_part
from provenet.fitting.search.moves import costs_without_each, promising_units
from provenet.fitting.search.problem import Problem
from provenet.fitting.tolerances import (
    CLEARLY_WORSE,
    FLIP_WORK,
    NEAREST_SIGNS,
    POLISH_LAST_STEPS,
    REFIT_TOLERANCE,
    RIDGE_OF_POOL,
)
from provenet.networks.activations import Symmetry
from provenet.networks.canonical import match_units
from provenet.networks.network import Network
from provenet.networks.piecewise import with_free_linear_part
from provenet.networks.signs import nearest_signs

RIVAL_GAIN = 1.0
"""Least squares ends where twice the log-likelihood gains less than one, so that a rival that gains
less is the answer itself."""
RIVAL_SECONDS = 3.0
"""What rivals may take, at least, beyond a budget that is used up."""
RIVAL_WORK = 1e10
"""Multiplications of a round's first steps, about a second of one core."""


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
        trial = problem.refine(start, 6, 1e-3)
        of_its_kind = kind, tried[kind] if kind is Kind.SIGNS else start.units
        found[of_its_kind].append(trial)
    finished = [
        Rival(kind, _finished(problem, fit, trial))
        for (kind, _), trials in found.items()
        for trial in sorted(trials, key=lambda trial: trial.rss)[:2]
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
    return float(6 * problem.samples.size * p**2)


def _finished(problem: Problem, fit: Fit, trial: Fit) -> Fit:
    """Least squares to the end, unless a trial is behind by more than a unit's price."""
    behind = problem.bic(trial, zero=0.0) - problem.bic(fit, zero=0.0)
    if behind > problem.a_unit * np.log(problem.samples.labels):
        return trial
    return problem.refine(trial.parameters, 40, 1 / problem.samples.labels)


def _starts(
    problem: Problem, parameters: Parameters, rng: np.random.Generator
) -> Iterator[tuple[Kind, Parameters]]:
    """Starts of every kind, the likeliest to gain first."""
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
        yield Kind.OTHER, _without(parameters, drop).widened(new[: len(drop)])
    for drop in dict.fromkeys((*_most_alike(parameters), *weak.tolist())):
        yield Kind.FEWER, _without(parameters, drop)


def _reversed(problem: Problem, parameters: Parameters) -> list[Parameters]:
    """With one unit or two reversed, or a set that makes nothing linear: those that fit best."""
    if parameters.has_linear or problem.activation.symmetry in (Symmetry.EVEN, Symmetry.ODD):
        return []  # either sign is the same function
    samples = problem.to_tell_signs(parameters.units).samples
    order = np.argsort(costs_without_each(problem, parameters, 0)).tolist()
    most = max(6, int(FLIP_WORK / (samples.size * len(parameters.beta) ** 2)))
    ways = []
    few = islice(chain(combinations(order, 1), combinations(order, 2)), most)
    for turned in chain(few, _reversible_sets(problem, parameters)):
        theta = parameters.theta.copy()
        theta[list(turned)] *= -1
        ways.append(fit_linear_part(samples, replace(parameters, theta=theta), problem.activation))
    return [start for start, _ in sorted(ways, key=lambda way: way[1])[:6]]


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
    rows = int(RIVAL_WORK / (40 * own.units * len(own.beta)))
    X, y = problem.samples.rows(0, min(10_000, rows, problem.samples.size))
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
    for _, i, move in found[:4]:
        yield _halves_apart(own, i, move)


def _moves(inputs: Array, z: Array, pull: Array, rng: np.random.Generator) -> Array:
    """Ways to move the halves of a unit apart, `pull` being what is left times output weights."""
    near = np.abs(z) < 0.5  # standard deviations, of inputs of spread one
    _, vectors = np.linalg.eigh((inputs[near].T * pull[near]) @ inputs[near])
    width = inputs.shape[1]
    random = rng.standard_normal((3, width))
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    ways = np.vstack([vectors[:, -1], np.eye(width)[-1], random])
    return np.vstack([t * ways for t in (0.15, 0.4)])  # weights have norm 1


def _halves_apart(parameters: Parameters, i: int, move: Array) -> Parameters:
    """Unit i in two, each with half of its output weights, moved to either side."""
    theta, beta, m = parameters.theta.copy(), parameters.beta.copy(), parameters.units
    second = theta[i] - move
    theta[i] += move
    beta[i] /= 2
    beta = np.concatenate([beta[:m], beta[i : i + 1], beta[m:]])
    return Parameters(np.vstack([theta, second]), beta)


# ---------------------------------------------------------------- rounds


@dataclass(frozen=True)
class LastRound:
    """Rivals of an answer, the last that were tried."""

    tried: int
    gains: dict[Kind, float]
    """By how much the best of each kind lowers Schwarz's criterion; negative if it does not."""
    ambiguities: tuple[str, ...]
    """Units that may as well be reversed, in sentences."""
    in_time: bool = True
    """Whether none of them was cut short."""


@dataclass(frozen=True)
class Round:
    """The best of an answer's rivals that may be returned, or the answer, and what was tried."""

    best: Polished
    last: LastRound


def search_onward(context: Context, polished: Polished) -> tuple[Polished, LastRound]:
    """The answer after which no rival gained, or that the budget or the width asked for allows.

    On all samples that were drawn; the answer is then fitted anew to those that are not held out.
    The first round is part of the certificate: it has a few seconds even if the budget is used up,
    unless even these would be too late.
    """
    everything = with_held_out(context)
    best = finished(everything, polished)
    for _ in range(4):
        found = one_round(everything, best)
        if found.best is best or context.out_of_time:
            break
        best = found.best
    last = found.last
    if best.network.linear is None and context.problem.has_linear_term:
        best = replace(best, ambiguities=last.ambiguities)
    return finished(context, best), last


def with_held_out(context: Context) -> Context:
    """The same recovery, its samples to fit being all that were drawn; it has some time left."""
    late = max(context.problem.deadline, working_time() + RIVAL_SECONDS)
    deadline = min(late, context.problem.latest)
    problem = replace(context.problem, samples=context.drawn, deadline=deadline)
    return replace(context, problem=problem)


def finished(context: Context, polished: Polished) -> Polished:
    """Least squares from an answer, on the samples of a context."""
    network, problem = polished.network, context.problem
    own = replace(problem, activation=network.activation)
    fit = own.refine(Parameters.of(network), POLISH_LAST_STEPS, REFIT_TOLERANCE)
    found = fit.parameters.network(network.activation)
    return replace(polished, network=found, rss=fit.rss, ended=fit.ended)


def one_round(
    context: Context,
    polished: Polished,
    kinds: Collection[Kind] = tuple(Kind),
    clearly_worse: float = CLEARLY_WORSE,
) -> Round:
    """Rivals of an answer on the samples of a context; signs are open unless clearly worse."""
    best, gain, tries = polished, RIVAL_GAIN, 0
    gains = dict.fromkeys(kinds, -np.inf)
    ambiguities: tuple[str, ...] = ()
    for model in _models(context, polished):
        wanted = [kind for kind in model.kinds if kind in kinds]
        if not wanted:
            continue
        found, tried = rivals(model.problem, model.fit, context.rng, wanted)
        tries += tried
        for rival in found:
            gained = model.value - model.problem.bic(rival.fit, zero=0.0)
            if gained > 0:
                other = model.settled(context, rival.fit)
                gained = schwarz(context, polished) - schwarz(context, other)
                if gained > gain and _may_be_returned(context, other):
                    best, gain = other, gained
            if rival.kind is Kind.SIGNS and gained > -clearly_worse:
                ambiguities += _reversal(context, polished.network, model.network(rival.fit))
            gains[rival.kind] = max(gains[rival.kind], gained)
    return Round(best, LastRound(tries, gains, ambiguities, not context.out_of_time))


def _reversal(context: Context, network: Network, other: Network) -> tuple[str, ...]:
    """Which units a rival of other signs has not, if it did not come back to the answer."""
    first = network.canonical()
    mine, theirs = match_units(network, other)
    a, b = Parameters.of(first).theta[mine], Parameters.of(other.canonical()).theta[theirs]
    size = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    turned = np.zeros(first.units, dtype=bool)
    turned[mine] = np.einsum("uw,uw->u", a, b) < 0.98 * size
    return (describe_reversal(context, first, turned),) if turned.any() else ()


def schwarz(context: Context, polished: Polished) -> float:
    """Schwarz's criterion of a network as it would be returned."""
    n, p = context.problem.samples.labels, polished.network.free_parameters
    return float(n * np.log(max(polished.rss, TINY)) + p * np.log(n))


@dataclass(frozen=True)
class _InUnits:
    """In what units rivals are fitted, the answer in these, and the criterion that is to beat."""

    problem: Problem
    fit: Fit
    value: float
    kinds: tuple[Kind, ...] = tuple(Kind)

    def network(self, fit: Fit) -> Network:
        """A rival in these units."""
        return fit.parameters.network(self.problem.activation)

    def settled(self, context: Context, fit: Fit) -> Polished:
        """A rival as it would be returned."""
        problem = replace(context.problem, activation=self.problem.activation)
        whole = problem.refine(fit.parameters, POLISH_LAST_STEPS, 1 / problem.samples.labels)
        if fit.parameters.has_linear or not problem.has_linear_term:
            return settled_from(context, whole)
        return settled_with_signs(context, whole, problem.activation)


def _models(context: Context, polished: Polished) -> Iterator[_InUnits]:
    """The problem's own, and where that knows no signs the network's units without linear term."""
    network = polished.network
    problem = affordable(context.problem, Parameters.of(network))
    if not problem.has_linear_term:
        fit = _fitted(problem, network)
        yield _InUnits(problem, fit, problem.bic(fit, zero=0.0))
        return
    fit = _fitted(problem, with_free_linear_part(network, problem.activation))
    yield _InUnits(problem, fit, problem.bic(fit, zero=0.0))
    own, bare = replace(problem, activation=network.activation), network.replace(linear=None)
    # The problem's criterion counts a linear term for everyone, which these models do not have.
    uncounted = problem.parameters(network.units) - bare.free_parameters
    n, r = problem.samples.labels, network(problem.samples.X) - problem.samples.y
    misfit = n * np.log(max(float(np.vdot(r, r)), TINY))
    value = misfit + (network.free_parameters + uncounted) * np.log(n)
    yield _InUnits(own, _fitted(own, bare), float(value), (Kind.FURTHER, Kind.OTHER, Kind.SIGNS))


def _fitted(problem: Problem, network: Network) -> Fit:
    return problem.refine(Parameters.of(network), POLISH_LAST_STEPS, 1 / problem.samples.labels)


def _may_be_returned(context: Context, polished: Polished) -> bool:
    return context.units is None or polished.network.units <= context.units
