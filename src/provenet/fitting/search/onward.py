"""On from an answer under noise: rivals take its place until none explains the samples better.

The criterion is Schwarz's, `n log(rss) + p log(n)`, of the networks as they would be returned,
signs settled, with the linear term that they need. A round tries rivals of every kind
(`fitting.search.rivals`) in two models. Units beside a free linear part know no signs, so that
these are in nobody's way; but there what a missed unit leaves is half of it, the other half being
linear. The network's own units without a linear term see both. (Odd units need no linear part: one
model does.)

The best that gains takes the answer's place, and the next round begins there. A round that gains
nothing is the last, and is evidence that nothing was missed. So is one whose best has more units
than were asked for: it says that these are too few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import TINY
from provenet.data.passes import working_time
from provenet.fitting.final_fit import Polished, describe_reversal, settled_from, settled_with_signs
from provenet.fitting.least_squares import Fit
from provenet.fitting.model import Parameters
from provenet.fitting.search.problem import Problem
from provenet.fitting.search.rivals import Kind, affordable, rivals
from provenet.fitting.search.tolerances import MOST_ROUNDS, RIVAL_GAIN, RIVAL_SECONDS, SAME_UNIT
from provenet.fitting.tolerances import CLEARLY_WORSE, POLISH_LAST_STEPS, REFIT_TOLERANCE
from provenet.fitting.workspace import Workspace
from provenet.networks.canonical import match_units
from provenet.networks.network import Network
from provenet.networks.piecewise import with_free_linear_part


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


def search_onward(workspace: Workspace, polished: Polished) -> tuple[Polished, LastRound]:
    """The answer after which no rival gained, or that the budget or the width asked for allows.

    On all samples that were drawn; the answer is then fitted anew to those that are not held out.
    The first round is part of the certificate: it has a few seconds even if the budget is used up,
    unless even these would be too late.
    """
    everything = with_held_out(workspace)
    best = finished(everything, polished)
    for _ in range(MOST_ROUNDS):
        found = one_round(everything, best)
        if found.best is best or workspace.out_of_time:
            break
        best = found.best
    last = found.last
    if best.network.linear is None and workspace.problem.has_linear_term:
        best = replace(best, ambiguities=last.ambiguities)
    return finished(workspace, best), last


def with_held_out(workspace: Workspace) -> Workspace:
    """The same recovery, its samples to fit being all that were drawn; it has some time left."""
    late = max(workspace.problem.deadline, working_time() + RIVAL_SECONDS)
    deadline = min(late, workspace.problem.latest)
    problem = replace(workspace.problem, samples=workspace.drawn, deadline=deadline)
    return replace(workspace, problem=problem)


def finished(workspace: Workspace, polished: Polished) -> Polished:
    """Least squares from an answer, on the samples of a workspace."""
    network, problem = polished.network, workspace.problem
    own = replace(problem, activation=network.activation)
    fit = own.refine(Parameters.of(network), POLISH_LAST_STEPS, REFIT_TOLERANCE)
    found = fit.parameters.network(network.activation)
    return replace(polished, network=found, rss=fit.rss, ended=fit.ended)


def one_round(
    workspace: Workspace,
    polished: Polished,
    kinds: Collection[Kind] = tuple(Kind),
    clearly_worse: float = CLEARLY_WORSE,
) -> Round:
    """Rivals of an answer on the samples of a workspace; signs are open unless clearly worse."""
    best, gain, tries = polished, RIVAL_GAIN, 0
    gains = dict.fromkeys(kinds, -np.inf)
    ambiguities: tuple[str, ...] = ()
    for model in _models(workspace, polished):
        wanted = [kind for kind in model.kinds if kind in kinds]
        if not wanted:
            continue
        found, tried = rivals(model.problem, model.fit, workspace.rng, wanted)
        tries += tried
        for rival in found:
            gained = model.value - model.problem.bic(rival.fit)
            if gained > 0:
                other = model.settled(workspace, rival.fit)
                gained = schwarz(workspace, polished) - schwarz(workspace, other)
                if gained > gain and _may_be_returned(workspace, other):
                    best, gain = other, gained
            if rival.kind is Kind.SIGNS and gained > -clearly_worse:
                ambiguities += _reversal(workspace, polished.network, model.network(rival.fit))
            gains[rival.kind] = max(gains[rival.kind], gained)
    return Round(best, LastRound(tries, gains, ambiguities, not workspace.out_of_time))


def _reversal(workspace: Workspace, network: Network, other: Network) -> tuple[str, ...]:
    """Which units a rival of other signs has not, if it did not come back to the answer."""
    first = network.canonical()
    mine, theirs = match_units(network, other)
    a, b = Parameters.of(first).theta[mine], Parameters.of(other.canonical()).theta[theirs]
    size = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    turned = np.zeros(first.units, dtype=bool)
    turned[mine] = np.einsum("uw,uw->u", a, b) < SAME_UNIT * size
    return (describe_reversal(workspace, first, turned),) if turned.any() else ()


def schwarz(workspace: Workspace, polished: Polished) -> float:
    """Schwarz's criterion of a network as it would be returned."""
    n, p = workspace.problem.samples.labels, polished.network.free_parameters
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

    def settled(self, workspace: Workspace, fit: Fit) -> Polished:
        """A rival as it would be returned."""
        problem = replace(workspace.problem, activation=self.problem.activation)
        whole = problem.refine(fit.parameters, POLISH_LAST_STEPS, 1 / problem.samples.labels)
        if fit.parameters.has_linear or not problem.has_linear_term:
            return settled_from(workspace, whole)
        return settled_with_signs(workspace, whole, problem.activation)


def _models(workspace: Workspace, polished: Polished) -> Iterator[_InUnits]:
    """The problem's own, and where that knows no signs the network's units without linear term."""
    network = polished.network
    problem = affordable(workspace.problem, Parameters.of(network))
    if not problem.has_linear_term:
        fit = _fitted(problem, network)
        yield _InUnits(problem, fit, problem.bic(fit))
        return
    fit = _fitted(problem, with_free_linear_part(network, problem.activation))
    yield _InUnits(problem, fit, problem.bic(fit))
    own, bare = replace(problem, activation=network.activation), network.replace(linear=None)
    # The problem's criterion counts a linear term for everyone, which these models do not have.
    uncounted = problem.parameters(network.units) - bare.free_parameters
    n, left = problem.samples.labels, network(problem.samples.X) - problem.samples.y
    value = n * np.log(np.vdot(left, left)) + (network.free_parameters + uncounted) * np.log(n)
    yield _InUnits(own, _fitted(own, bare), float(value), (Kind.FURTHER, Kind.OTHER, Kind.SIGNS))


def _fitted(problem: Problem, network: Network) -> Fit:
    return problem.refine(Parameters.of(network), POLISH_LAST_STEPS, 1 / problem.samples.labels)


def _may_be_returned(workspace: Workspace, polished: Polished) -> bool:
    return workspace.units is None or polished.network.units <= workspace.units
