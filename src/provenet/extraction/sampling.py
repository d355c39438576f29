"""Random questions, in growing batches, until `recover` is sure.

For noisy or rounded answers, and for smooth units, which have no kinks to be traced. Where answers
are rounded, lines show the units roughly (`rounded`): least squares goes on from there, and only
where that does not lead to a network is one searched for. Exact answers of smooth units cost little
but questions: batches grow slowly, attempts with too few of them are short, and an answer must
predict what may refute it (`confirming.few_searched_points`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from provenet.certify.answered import Answered
from provenet.certify.asked_again import FartherOut, stopped_early
from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.common.exceptions import BudgetSpent, Spent, TimeSpent
from provenet.common.typing import Array, Progress
from provenet.common.words import counted
from provenet.extraction.asked_beyond import asked_beyond, exhausted
from provenet.extraction.box import Box
from provenet.extraction.deadline import Deadline
from provenet.extraction.oracle import Oracle
from provenet.extraction.probing import Probe
from provenet.extraction.random_points import RandomPoints
from provenet.extraction.rounded import RoughUnits
from provenet.extraction.rounded_fit import FitOfUnits, as_relu, network_from_lines, sharper
from provenet.extraction.tolerances import (
    ASKED_AGAIN,
    BESIDE_EITHER_SIDE,
    COARSE,
    COARSE_POINTS,
    COARSENED,
    FARTHEST_ON_LINES,
    FIRST,
    FIRST_A_FEATURE,
    FIRST_UNITS,
    GROWTH,
    LINES_SHARE,
    MOST_POINTS,
    MOST_POINTS_A_FEATURE,
    MOST_SECONDS,
    ON_A_KINK,
    POINTS_A_PARAMETER,
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
    TRACED_ATTEMPTS,
    TRACED_POINTS,
)
from provenet.networks.activations import Activation
from provenet.networks.network import Network
from provenet.recover import recover, recover_from

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
    rounding: Probe | None = None,
    progress: Progress | None = None,
) -> Recovery:
    """Ask and recover until it succeeds, or the questions or the time are used up.

    Noise of 0 says that answers are exact; `rounding` how they are rounded, if they are, and units
    have kinks.
    """
    total = sum(units) if isinstance(units, tuple) else units
    deadline = oracle.deadline.or_after(MOST_SECONDS)
    asked = RandomPoints(oracle, box, rng)
    rough = None
    if rounding is not None and layers == 1:
        width = None if total is None else int(total)
        road = _FromLines(asked, rounding, width, activation, noise, deadline, progress)
        found = road.answer()
        if found is not None:
            return found
        rough = road.rough
    if noise == 0:
        batches = _exact_batches(oracle, total)
    elif rounding is not None and rough is not None and rough.most_met:
        batches = _rounded_batches(oracle, total or rough.most_met, rounding.level)
    else:
        batches = _noisy_batches(oracle)
    limit, size = _limit(oracle, batches, total) + len(asked), max(batches.first, len(asked))
    method = METHODS_OF_DEPTH[layers > 1]
    best = Recovery.nothing(method, "The budget allows too few questions: raise budget.")
    tried = 0
    while tried < limit and (tried == 0 or not deadline.passed):
        # A last batch that would be hardly larger than this one is joined with it.
        size = limit if size * batches.growth**0.5 > limit else size
        try:
            points = asked.grown(size)
            X, y = points.X, points.y
        except TimeSpent:
            if tried == 0:
                raise
            break
        tried = len(X)
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
        single = rounding is not None and rounding.single and units is None
        samples = partial(oracle.samples, X)
        found = _of_single_precision(attempt, samples, y) if single else None
        best = replace(found or attempt(samples(y), units=units), asked=Answered(X, y))
        if best.success and (found is not None or not single):
            step = 0.0 if rounding is None else rounding.step
            asked_now = Answered(X, y)
            return asked_beyond(oracle, box, rng, best, asked_now, batches.beyond, step=step)
        size = int(batches.growth * size)
    return stopped_early(best, exhausted(deadline, tried))


@dataclass
class _FromLines:
    """Rounded answers: units that lines show roughly, and least squares from there."""

    asked: RandomPoints
    rounding: Probe
    units: int | None
    activation: str | Activation
    noise: float | None
    deadline: Deadline
    progress: Progress | None
    rough: RoughUnits = field(init=False)
    on_lines: list[Answered] = field(default_factory=list)
    used: int = 0

    def __post_init__(self) -> None:
        """No line was followed."""
        self.rough = RoughUnits(self._ask, self.asked.box, self.asked.rng, self.rounding)

    def _ask(self, X: Array) -> Array:
        """Lines may have a part of the budget."""
        oracle = self.asked.oracle
        if oracle.remaining is not None:
            allowed = LINES_SHARE * (oracle.remaining + self.used) - self.used
            if len(X) > allowed:
                raise BudgetSpent(oracle.used, len(X))
        self.used += len(X)
        y = oracle.ask(X)
        self.on_lines.append(Answered(oracle.as_asked(X), y))
        return y.reshape(len(X), -1)

    def _lines(self) -> FartherOut:
        """What was asked on lines, not too far out: there rounding is all that shows."""
        box = self.asked.box
        X = np.vstack([part.X for part in self.on_lines])
        y = np.concatenate([part.y for part in self.on_lines])
        found = FartherOut.of(Answered(X, y), box.centre, box.width)
        return found[found.farther <= FARTHEST_ON_LINES]

    def answer(self) -> Recovery | None:
        """What it leads to; None where that is no network."""
        start = network_from_lines(self.rough, self._grown, self.deadline)
        if start is None:
            return None
        best: Recovery | None = None
        try:
            for size in self._sizes(start.units):
                start = self._fits(self._grown(size)).with_fewer_units(start)
                if self.deadline.passed:
                    return self._over(best, start)
                best = self._best_of_attempts(start, self._grown(0))
                if best.success or self.deadline.passed:
                    break
        except Spent:
            if self.deadline.passed:
                return self._over(best, start)
            reason = exhausted(self.deadline, len(self.asked))
            return stopped_early(best or self._attempt(start, self._grown(0)), reason)
        if best is not None and best.success:
            oracle, box, rng = self.asked.oracle, self.asked.box, self.asked.rng
            lines = self._lines()
            step = self.rounding.step
            return asked_beyond(oracle, box, rng, best, self._grown(0), 0, lines, step)
        return best if best is not None and best.status is Status.PARTIAL else None

    def _over(self, best: Recovery | None, start: Network) -> Recovery:
        """What is known when time is over: the judge takes seconds, and is not called any more."""
        units = f"{counted(start.units, 'unit')} found so far"
        unjudged = Recovery.unfinished(as_relu(start), METHOD, f"The {units} are not confirmed.")
        return stopped_early(best or unjudged, exhausted(self.deadline, len(self.asked)))

    def _best_of_attempts(self, start: Network, asked: Answered) -> Recovery:
        """From the answers as they are; in single precision also from coarser ones.

        Rounding inside a model follows the inputs and looks like further units. Coarser answers
        hide it: what they say is true, if less sharp. The network that is returned is then that of
        the answers as they are, if it is one of those that the coarser ones allow.
        """
        best = self._attempt(start, asked)
        if best.success or not self.rounding.single or self.deadline.passed:
            return best
        coarse = self._attempt(start, Answered(asked.X, _coarsened(asked.y)))
        if coarse.status.rank < best.status.rank:
            return best
        own = sharper(coarse, asked, self.deadline)
        return best if own is None else replace(own, asked=asked)

    def _sizes(self, units: int) -> list[int]:
        """How many random points each attempt has."""
        oracle, outputs = self.asked.oracle, self.asked.oracle.outputs or 1
        parameters = units * (oracle.features + outputs) + outputs
        first = TRACED_POINTS * parameters / outputs
        return [int(GROWTH**k * first) for k in range(TRACED_ATTEMPTS)]

    def _grown(self, size: int) -> Answered:
        """As many random points as the budget leaves."""
        oracle = self.asked.oracle
        batches = _rounded_batches(oracle, self.rough.most_met, self.rounding.level)
        limit = _limit(oracle, batches, self.units)
        return self.asked.grown(min(size, limit + len(self.asked)))

    def _fits(self, asked: Answered) -> FitOfUnits:
        return FitOfUnits.of(asked, self.asked.box, self.rounding.level, self.deadline)

    def _attempt(self, start: Network, asked: Answered) -> Recovery:
        """In single precision with the units of the start: others would be found in rounding."""
        met = f"{counted(start.units, 'unit')} met on {counted(self.rough.lines, 'line')}."
        found = recover_from(
            start,
            self.asked.oracle.samples(asked.X, asked.y),
            method=METHOD,
            found=met,
            activation=self.activation,
            units=start.units if self.rounding.single and self.units is None else self.units,
            noise=self.noise,
            rng=self.asked.rng,
            progress=self.progress,
            budget=max(self.deadline.left, SHORTEST),
        )
        return replace(found, asked=asked)


def _of_single_precision(
    attempt: Callable[..., Recovery], samples: Callable[[Array], Any], y: Array
) -> Recovery | None:
    """A network that was computed in single precision; None where this does not succeed.

    Its errors follow the inputs, and a search finds units in them that are not there. Of answers
    that are rounded more coarsely it finds those that are; as many then explain the answers
    themselves. What these leave must be no more than single precision: else units are missing.
    No other success counts: it may hold units that are not there.
    """
    rounding = SINGLE * float(np.abs(y).max())
    coarse = attempt(samples(_coarsened(y)))
    if not coarse.success or coarse.network is None:
        return None
    found = attempt(samples(y), units=coarse.network.units)
    small = found.certificate is not None and found.certificate.residual <= rounding
    return found if found.success and small else None


def _coarsened(y: Array) -> Array:
    """Answers of single precision to decimals that its rounding hardly changes."""
    rounding = SINGLE * float(np.abs(y).max())
    grid = 10.0 ** np.ceil(np.log10(COARSENED * rounding + TINIEST))
    return np.asarray(np.round(y / grid) * grid)


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
    a_kink: int = ON_A_KINK
    """Points about the kink of a unit."""

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
    across = 1 + 2 * BESIDE_EITHER_SIDE
    return _Questions(first, GROWTH, seconds, SMOOTH_POWER, beyond=0, a_kink=across)


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
        left -= batches.a_kink * (units or int(left * outputs / (POINTS_A_PARAMETER * a_unit)))
        parameters = (units or 1) * a_unit + outputs
        return left if left * outputs > parameters and left > oracle.features + 2 else 0
    return MOST_POINTS + MOST_POINTS_A_FEATURE * oracle.features
