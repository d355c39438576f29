"""Candidates where the activation is open: a race between activations, and the runner-up.

*Who takes part.* Activations whose networks are the same functions take part once: tanh stands for
sigmoid (`tanh(z) = 2 sigmoid(2 z) - 1`), and `|z|` beside a free linear part for ReLU, leaky ReLU
and absolute values: the linear part tells which it is.

*The race.* A chain of expanding each (`fitting.search.driver`), in lockstep: a few units too many
fit almost anything smooth, so who leaves nothing with the fewest units is right. Where a unit lies
depends little on its activation. So at first five chains run, and at every width the units of the
best are handed to its relations: a few steps of least squares from there leave nothing, if that
activation is the right one and no unit is missing. Who leads without a chain gets one from there.
Kinked units, the most common and the cheapest, have a head start. Later races are more patient: in
the second the best of the first has a chain from the start, in all others everyone has.

*Noise.* Then nobody leaves nothing. Each activation is fitted once more from the units of the best,
pruned by Schwarz's criterion, its signs settled, and compared by that criterion.

What others leave is handed to `certify` with the candidate, which alone says what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.certify.found_activation import FoundActivation, OtherActivation
from provenet.fitting.context import Context
from provenet.fitting.final_fit import settled_from
from provenet.fitting.least_squares import Fit
from provenet.fitting.model import Parameters
from provenet.fitting.search.alternatives import bic_of
from provenet.fitting.search.driver import (
    End,
    first_width,
    growth,
    is_near_zero,
    pruned,
    pruned_to_zero,
    widest_of,
)
from provenet.fitting.search.moves import random_start
from provenet.networks.activations import ABS, LEAKY_RELU, RELU, Activation, get_activation

KINKED = "relu"
"""Stands for all piecewise linear ones."""
FIRST = (KINKED, "tanh", "silu", "sin", "elu")
"""Kinked, odd, mirrored, periodic and without symmetry: all others are near relations of one."""
TRIED = (*FIRST, "erf", "gelu", "gelu_tanh", "softplus")

Field = Mapping[str, Context]
"""The same recovery with each activation that takes part."""


def activation_found(context: Context) -> Iterator[Candidate]:
    """A candidate a race; each race starts afresh and is more patient than the last."""
    spaces = {name: context.with_activation(get_activation(name)) for name in TRIED}
    racing: tuple[str, ...] = FIRST
    swaps = 1
    while not context.out_of_time:
        race = Race(spaces)
        with context.stage("search"):
            race.run(racing, swaps)
        if race.best:
            yield _exact(race) if race.winner else _by_criterion(race)
            racing = tuple(dict.fromkeys((*FIRST, race.leader))) if swaps == 1 else TRIED
        swaps = min(2 * swaps, 32)


# ---------------------------------------------------------------- the race


@dataclass
class Race:
    """The best fit of each activation so far, by BIC at three quarters of its price."""

    spaces: Field
    best: dict[str, Fit] = field(default_factory=dict)
    winner: str = ""
    """Who leaves nothing; empty while nobody does."""
    ends: dict[str, End] = field(default_factory=dict)
    """Of those that were pruned."""
    tried: dict[str, Fit] = field(default_factory=dict)
    """Fits near zero that were pruned on their way there."""

    def run(self, racing: tuple[str, ...], swaps: int, *, head_start: int = 3) -> None:
        """Until one leaves nothing, or growing pays for none, or time is over."""
        chains = {name: self._chain(name, swaps) for name in racing}
        self._advance(chains, (KINKED,) * head_start)
        width = 0
        while chains and not self.winner:
            self._advance(chains, tuple(chains))
            self._prune_leader()
            source = self._smooth_leader(racing)
            if source is not None and source.units > width:
                self._hand_on(source, [name for name in self.spaces if name not in racing])
                width = source.units
            if self.leader not in racing:
                racing = (*racing, self.leader)
                start = self.best[self.leader].parameters
                chains[self.leader] = self._chain(self.leader, swaps, start)

    @property
    def leader(self) -> str:
        """Who has the least criterion."""
        return min(self.best, key=lambda name: self._criterion(name, self.best[name]))

    def pruned(self, name: str, space: Context) -> End:
        """The best fit of an activation without the units that it does not need."""
        if name not in self.ends or self.ends[name].fit is not self.best[name]:
            self.ends[name] = pruned(space, self.best[name])
        return self.ends[name]

    def _prune_leader(self) -> None:
        """Near zero spare units are in the way of least squares."""
        if not self.best or self.winner:
            return
        name = self.leader
        problem, fit = self.spaces[name].problem, self.best[name]
        if is_near_zero(problem, fit) and self.tried.get(name) is not fit:
            self.tried[name] = fit
            self._enter(name, pruned_to_zero(problem, fit, self.spaces[name].rng))

    def _criterion(self, name: str, fit: Fit) -> float:
        return self.spaces[name].problem.bic(fit, 0.75)

    def _chain(self, name: str, swaps: int, start: Parameters | None = None) -> Iterator[Fit]:
        """Fits of growing networks, from a few random units, to all samples."""
        space = self.spaces[name]
        problem, widest = space.problem, widest_of(space.problem, space.units)
        start = start or random_start(problem, (first_width(problem, space.units),), space.rng)
        for fit in growth(problem, start, widest, space.rng, swaps):
            yield problem.refine(fit.parameters, 1, 1.0)
            if fit.parameters.units > 2 * self._width_of_leader():
                return

    def _width_of_leader(self) -> int:
        return self.best[self.leader].parameters.units

    def _advance(self, chains: dict[str, Iterator[Fit]], names: tuple[str, ...]) -> None:
        """The next fit of each of these chains."""
        for name in names:
            fit = next(chains[name], None) if name in chains and not self.winner else None
            if fit is not None:
                self._enter(name, fit)
            elif not self.winner:
                chains.pop(name, None)

    def _smooth_leader(self, racing: tuple[str, ...]) -> Parameters | None:
        """The best units of a smooth chain: kinked ones, far ahead, are too many for others."""
        fits = {name: self.best[name] for name in racing if name != KINKED and name in self.best}
        if not fits:
            return None
        return fits[min(fits, key=lambda name: self._criterion(name, fits[name]))].parameters

    def _hand_on(self, units: Parameters, names: list[str]) -> None:
        """The units of one activation to others."""
        for name in names:
            if not self.winner and not self.spaces[name].out_of_time:
                self._enter(name, handed_on(self.spaces[name], units))

    def _enter(self, name: str, fit: Fit) -> None:
        space, best = self.spaces[name], self.best.get(name)
        if best is None or self._criterion(name, fit) < self._criterion(name, best):
            self.best[name] = fit
        if space.problem.is_zero(fit):
            self.best[name], self.winner = fit, name
        message = f"{name}: {fit.parameters.units} units, residual {fit.rms / space.spread:.2g}"
        space.progress("search", space.budget_used, message)


def handed_on(space: Context, units: Parameters, *, steps: int = 40) -> Fit:
    """Least squares from the units of another activation; output weights start from nothing."""
    problem = space.problem
    return problem.refine_in_steps(problem.with_no_output(units.theta), steps, 1e-3, steps)


# ---------------------------------------------------------------- what comes of it


@dataclass(frozen=True)
class Standing:
    """How an activation did, at its best."""

    activation: Activation
    units: int
    rms: float
    criterion: float
    nothing: bool
    """Whether it leaves nothing."""
    in_time: bool
    """Whether it was fitted to the end."""


def _exact(race: Race) -> Candidate:
    """The winner without units that it does not need, and the others with as many units."""
    spaces = {name: space.with_seconds() for name, space in race.spaces.items()}
    chain = race.pruned(race.winner, spaces[race.winner])
    standings = {}
    for name, space in spaces.items():
        fit = chain.fit if name == race.winner else handed_on(space, chain.fit.parameters)
        criterion = space.problem.bic(fit)
        standings[name] = _standing(space, space.activation, fit, fit.rss, criterion)
    winner = standings.pop(race.winner)
    winner = replace(winner, activation=_which(spaces[race.winner], chain.fit))
    return _candidate(spaces[race.winner], chain, winner, standings)


def _by_criterion(race: Race) -> Candidate:
    """The activation of the least criterion, each at its own best and its signs settled."""
    spaces, chains, standings = {n: s.with_seconds() for n, s in race.spaces.items()}, {}, {}
    leader = race.pruned(race.leader, spaces[race.leader])
    for name, space in spaces.items():
        chain = leader if name == race.leader else _own_best(race, space, name, leader)
        activation = _which(space, chain.fit)
        known = space.with_activation(activation)
        settled = settled_from(known, chain.fit)
        value = bic_of(known, settled)
        chains[name] = chain
        standings[name] = _standing(space, activation, chain.fit, settled.rss, value)
    best = min(standings, key=lambda name: standings[name].criterion)
    return _candidate(spaces[best], chains[best], standings.pop(best), standings)


def _own_best(race: Race, space: Context, name: str, leader: End) -> End:
    """From the leader's units, or from its own where they are better, without what it can spare."""
    fits = [handed_on(space, leader.fit.parameters), *filter(None, [race.best.get(name)])]
    return pruned(space, min(fits, key=space.problem.bic))


def _standing(
    space: Context, activation: Activation, fit: Fit, rss: float, criterion: float
) -> Standing:
    return Standing(
        activation,
        fit.parameters.units,
        float(np.sqrt(rss / fit.labels)),
        criterion,
        space.problem.is_zero(fit),
        not space.out_of_time,
    )


def _candidate(
    space: Context, chain: End, mine: Standing, others: Mapping[str, Standing]
) -> Candidate:
    in_time = [
        OtherActivation(
            other.activation.family,
            other.units,
            other.rms / space.spread,
            0.0 if mine.nothing and other.nothing else other.criterion - mine.criterion,
        )
        for other in others.values()
        if other.in_time
    ]
    found = FoundActivation(
        mine.activation,
        tuple(sorted(in_time, key=lambda other: other.behind)),
        tuple(name for name, other in others.items() if not other.in_time),
    )
    network = chain.fit.parameters.network(space.problem.activation)
    return Candidate(network, chain.evidence, found=found)


def _which(space: Context, fit: Fit) -> Activation:
    """The activation of a fit; of kinked units the one that needs no linear term beside it."""
    if space.activation is not RELU:
        return space.activation
    for activation in (RELU, ABS, LEAKY_RELU):
        if settled_from(space.with_activation(activation), fit).network.linear is None:
            return activation
    return RELU
