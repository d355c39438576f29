"""Random questions, in growing batches, until `recover` is sure.

For noisy or rounded answers, and for smooth units, which have no kinks to be traced. Where answers
are rounded, a line shows most of the units (`kinks_seen`): the first batch is as large as these
need, and mostly the last. Exact answers
of smooth units cost little but questions: batches grow slowly, attempts with too few of them are
short, and an answer must predict what may refute it (`confirming.few_searched_points`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.asked_again import judged_again, stopped_early
from provenet.certify.result import Recovery
from provenet.common.exceptions import Spent, TimeSpent
from provenet.common.typing import Array, Progress
from provenet.common.words import counted
from provenet.extraction.box import Box
from provenet.extraction.confirming import few_searched_points, points_on_kinks
from provenet.extraction.deadline import Deadline
from provenet.extraction.lines import trace_line
from provenet.extraction.oracle import Oracle
from provenet.extraction.segments import random_line
from provenet.extraction.tolerances import (
    ASKED_AGAIN,
    BESIDE_CENTRE,
    COARSE,
    COARSE_POINTS,
    COARSENED,
    FIRST,
    FIRST_A_FEATURE,
    FIRST_UNITS,
    GROWTH,
    MOST_POINTS,
    MOST_POINTS_A_FEATURE,
    MOST_SECONDS,
    ON_A_KINK,
    POINTS_A_PARAMETER,
    REACH_OF_REST,
    ROUNDED_POINTS,
    ROUNDED_SECONDS,
    SEARCHED_BEYOND,
    SECONDS_A_BATCH,
    SHORTEST,
    SINGLE,
    SMOOTH_GROWTH,
    SMOOTH_POWER,
    SMOOTH_SECONDS,
    TINIEST,
)
from provenet.networks.activations import Activation
from provenet.networks.any_network import AnyNetwork
from provenet.networks.network import Network
from provenet.recover import recover

METHOD, DEEP = "expand-prune", "deep"
METHODS_OF_DEPTH = (METHOD, DEEP)
"""Of one hidden layer, and of several."""


def sampled(
    oracle: Oracle,
    box: Box,
    rng: np.random.Generator,
    *,
    activation: str | Activation,
    noise: float | None = None,
    units: int | tuple[int, ...] | None = None,
    layers: int = 1,
    seen: int = 0,
    level: float = 0.0,
    progress: Progress | None = None,
) -> Recovery:
    """Ask and recover until it succeeds, or the questions or the time are used up.

    Noise of 0 says that answers are exact. Where answers are rounded to the part `level` of
    their size, `seen` units were.
    """
    total = sum(units) if isinstance(units, tuple) else units
    if noise == 0:
        batches = _exact_batches(oracle, total)
    elif seen:
        batches = _rounded_batches(oracle, total or seen, level)
    else:
        batches = _noisy_batches(oracle)
    limit, size = _limit(oracle, batches, total), batches.first
    method = METHODS_OF_DEPTH[layers > 1]
    X, y = np.empty((0, oracle.features)), None
    deadline = oracle.deadline.or_after(MOST_SECONDS)
    best = Recovery.nothing(method, "The budget allows too few questions: raise budget.")
    while len(X) < limit and (y is None or not deadline.passed):
        # A last batch that would be hardly larger than this one is joined with it.
        size = limit if size * batches.growth**0.5 > limit else size
        try:
            X, y = _grown(oracle, box, rng, X, y, size)
        except TimeSpent:
            if y is None:
                raise
            break
        if progress is not None:
            progress("ask", -1, counted(len(X), "random point"))
        attempt = partial(
            recover,
            link="identity",
            method=method,
            layers=layers,
            activation=activation,
            noise=noise,
            rng=rng,
            progress=progress,
            budget=max(min(batches.seconds(size), deadline.left), SHORTEST),
        )
        single = np.isclose(level, SINGLE) and units is None
        samples = partial(oracle.samples, X)
        found = _of_single_precision(attempt, samples, y, level) if single else None
        best = replace(found or attempt(samples(y), units=units), asked=Answered(X, y))
        if best.success and (found is not None or not single):
            return _asked_beyond(oracle, box, rng, best, Answered(X, y), batches.beyond)
        size = int(batches.growth * size)
    return stopped_early(best, _exhausted(deadline, len(X)))


def _of_single_precision(
    attempt: Callable[..., Recovery], samples: Callable[[Array], Any], y: Array, level: float
) -> Recovery | None:
    """A network that was computed in single precision; None where this does not succeed.

    Its errors follow the inputs, and a search finds units in them that are not there. Of answers
    that are rounded more coarsely it finds those that are; as many then explain the answers
    themselves. What these leave must be no more than single precision: else units are missing.
    No other success counts: it may hold units that are not there.
    """
    rounding = level * float(np.abs(y).max())
    grid = 10.0 ** np.ceil(np.log10(COARSENED * rounding + TINIEST))
    coarse = attempt(samples(np.round(y / grid) * grid))
    if not coarse.success or coarse.network is None:
        return None
    found = attempt(samples(y), units=coarse.network.units)
    small = found.certificate is not None and found.certificate.residual <= rounding
    return found if found.success and small else None


# ---------------------------------------------------------------- how many questions


@dataclass(frozen=True)
class _Questions:
    """How many points the first attempt has, and how they and its seconds grow."""

    first: int
    growth: float
    seconds_at_first: float
    power: float
    """Seconds grow with this power of the points."""
    beyond: int
    """Searched points that a success must predict."""

    def seconds(self, size: int) -> float:
        """What an attempt with so many points may take."""
        return float(self.seconds_at_first * (size / self.first) ** self.power)


def _noisy_batches(oracle: Oracle) -> _Questions:
    first = max(FIRST, FIRST_A_FEATURE * oracle.features)
    return _Questions(first, GROWTH, SECONDS_A_BATCH, power=1.0, beyond=0)


def _rounded_batches(oracle: Oracle, units: int, level: float) -> _Questions:
    """As many as so many units take, and more if there are more of them."""
    outputs = oracle.outputs or 1
    parameters = units * (oracle.features + 1 + outputs) + outputs
    points = ROUNDED_POINTS if level < COARSE else COARSE_POINTS
    first = max(FIRST, int(points * parameters / outputs))
    seconds = ROUNDED_SECONDS * max(1.0, first / 1000) ** SMOOTH_POWER
    return _Questions(first, GROWTH, seconds, SMOOTH_POWER, beyond=0)


def kinks_seen(oracle: Oracle, box: Box, rng: np.random.Generator, level: float) -> int:
    """How many kinks a line meets where answers are rounded to so much of their size: at least so
    many units there are.
    """
    line = random_line(box, rng, box.centre + BESIDE_CENTRE * rng.standard_normal() * box.width)
    far = REACH_OF_REST * np.sqrt(oracle.features)
    reach = max(line.reach[0], -far), min(line.reach[1], far)

    def ask(X: Array) -> Array:
        return oracle.ask(X).reshape(len(X), -1)

    return len(trace_line(ask, line.origin, line.direction, reach, line.scale, level).kinks)


def _exact_batches(oracle: Oracle, units: int | None) -> _Questions:
    """Every answer has as many numbers as there are outputs; one unit needs a point a weight."""
    outputs = oracle.outputs or 1
    weights = oracle.features + 1
    parameters = (units or FIRST_UNITS) * (weights + outputs) + outputs
    first = int(POINTS_A_PARAMETER * max(parameters / outputs, weights))
    seconds = SMOOTH_SECONDS * (first / 1000) ** SMOOTH_POWER
    return _Questions(first, SMOOTH_GROWTH, seconds, SMOOTH_POWER, SEARCHED_BEYOND)


def _limit(oracle: Oracle, batches: _Questions, units: int | None) -> int:
    """Most points; none where a budget leaves fewer labels than the units have parameters."""
    if oracle.remaining is not None:
        left, outputs = oracle.remaining - ASKED_AGAIN - batches.beyond, oracle.outputs or 1
        a_unit = oracle.features + 1 + outputs
        left -= ON_A_KINK * (units or int(left * outputs / (POINTS_A_PARAMETER * a_unit)))
        parameters = (units or 1) * a_unit + outputs
        return left if left * outputs > parameters and left > oracle.features + 2 else 0
    return MOST_POINTS + MOST_POINTS_A_FEATURE * oracle.features


def _grown(
    oracle: Oracle,
    box: Box,
    rng: np.random.Generator,
    X: Array,
    y: Array | None,
    size: int,
) -> tuple[Array, Array]:
    """More points and their answers; single precision stays what it is."""
    more = box.sample(size - len(X), rng).astype(oracle.input_dtype).astype(float)
    answers = oracle.ask(more)
    return np.vstack([X, more]), answers if y is None else np.concatenate([y, answers])


# ---------------------------------------------------------------- what comes after


def _asked_beyond(
    oracle: Oracle,
    box: Box,
    rng: np.random.Generator,
    found: Recovery,
    asked: Answered,
    number: int,
) -> Recovery:
    """What the first questions say of an answer when they are asked again, and searched points.

    Two units close to each other differ from one between their kinks alone, where random points
    hardly ever are: those on the kinks tell.
    """
    assert found.network is not None, "a success has one"
    first = asked.X[:ASKED_AGAIN]
    searched = _searched(found.network, box, rng, number)
    on_kinks = _on_kinks(oracle, found.network, box, rng)
    try:
        again = Answered(first, oracle.ask(first, fresh=True))
        beyond = Answered(searched, oracle.ask(searched))
        kinks = Answered(on_kinks, oracle.ask(on_kinks))
    except Spent:  # what may refute it was not asked: that is no success
        return stopped_early(found, _exhausted(oracle.deadline, len(asked)))
    return judged_again(found, asked, again, beyond, kinks)


def _searched(network: AnyNetwork, box: Box, rng: np.random.Generator, number: int) -> Array:
    if number == 0:
        return np.empty((0, network.features))
    return few_searched_points(network, box, rng, number)


def _on_kinks(oracle: Oracle, network: AnyNetwork, box: Box, rng: np.random.Generator) -> Array:
    """None where units have no kinks, or those of several layers bend."""
    if not (isinstance(network, Network) and network.activation.kinked):
        return np.empty((0, network.features))
    return points_on_kinks(network, box, rng).astype(oracle.input_dtype).astype(float)


def _exhausted(deadline: Deadline, number: int) -> str:
    asked = counted(number, "random point")
    if not deadline.passed:
        return f"({asked} asked: more may do, see budget.)"
    allowed = f"{deadline.seconds:g} s allowed"
    return f"({asked} asked when the {allowed} were over: give more time with seconds=.)"
