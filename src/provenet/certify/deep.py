"""A network of several hidden layers that a method found: settled, and measured.

The order is that of one layer (`evidence`): least squares to the end on the samples that were
fitted; a look at those that no fit saw; with noise a last fit of all; then everything is measured
of the network that is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.certificate import Certificate, condition_number, residual_kurtosis
from provenet.certify.deep_signs import reversals
from provenet.certify.evidence import Unseen, look_at_unseen
from provenet.certify.tolerances import NOISE_UNROUNDS, SPARE_ON_A_PIECE
from provenet.common.typing import AnyArray, Array
from provenet.data.sources import ArraySource
from provenet.fitting.context import Context
from provenet.fitting.covariance import Covariance, DeepErrors, covariance
from provenet.fitting.least_squares import Ended, Fit
from provenet.fitting.model import Linearisation, Parameters
from provenet.fitting.search.problem import Problem
from provenet.networks.network import DeepNetwork


@dataclass(frozen=True)
class DeepCandidate:
    """A method's own answer: layers on standardised inputs, and why they have those widths."""

    parameters: Parameters
    width_evidence: str
    narrower: float
    """What the best fit with a unit fewer left, root mean square; infinite where none was tried."""


@dataclass(frozen=True)
class DeepEvidence:
    """A deep network in the user's coordinates with everything that was measured of it."""

    network: DeepNetwork
    own: Fit
    """The same on standardised inputs, in whatever order it was found."""
    certificate: Certificate
    standard_errors: DeepErrors
    unseen: Unseen
    sides: list[AnyArray]
    """For each unit, a layer at a time: samples on the rarer side of its kink where it shows."""
    narrower: float
    reversals: tuple[str, ...]
    """Units that may as well be reversed, in sentences."""
    crossed: list[AnyArray]
    """For each unit, a layer at a time: samples that tell to which layer it belongs."""

    @property
    def exact(self) -> bool:
        """Whether nothing but rounding is left."""
        return self.unseen.exact

    @property
    def ambiguities(self) -> tuple[str, ...]:
        """Units that are straight where they show, may be reversed, or of another layer."""
        if not self.network.activation.kinked:
            return self.reversals
        straight = tuple(
            f"Unit {i} of layer {k + 1} does not switch on any sample where that shows: it is a "
            "linear map there, or nothing, and others would do."
            for k, sides in enumerate(self.sides)
            for i in np.flatnonzero(sides == 0)
        )
        misplaced = tuple(
            f"Unit {i} of layer {k + 1} switches on one side only of every kink "
            f"{'below it' if k else 'of its layer'}: the samples do not tell whether it belongs to "
            "that layer."
            for k, crossed in enumerate(self.crossed)
            for i in np.flatnonzero((crossed < SPARE_ON_A_PIECE) & (self.sides[k] > 0))
        )
        return (*straight, *self.reversals, *misplaced)


def gather_deep(context: Context, candidate: DeepCandidate) -> DeepEvidence:
    """Settle the network, and measure it."""
    problem = context.problem
    fit = _finished(problem, candidate.parameters)
    unseen = look_at_unseen(context, _network(context, fit), fit.rss)
    refitted = not unseen.exact and unseen.excess is None
    if refitted:
        problem = replace(problem, samples=context.drawn)
        fit = _finished(problem, fit.parameters)
    user = context.standardisation.network_to_user(_network(context, fit)).canonical()
    samples = ArraySource(context.standardisation.undo(problem.samples.X), problem.samples.y)
    found = covariance(samples, user)
    spare = max(samples.labels - user.free_parameters, 1)
    noise = 0.0 if unseen.exact else float(np.sqrt(fit.rss / spare))
    size = np.sqrt(samples.labels) * max(unseen.fitted, unseen.rounding) if unseen.exact else noise
    sides = switching_sides(user, samples.X)
    return DeepEvidence(
        user,
        fit,
        Certificate(
            residual=unseen.residual,
            relative_residual=unseen.residual / context.spread,
            rounding=unseen.rounding,
            noise=noise,
            label_rounding=0.0 if unseen.exact else context.precision.rms,
            label_precision="" if unseen.exact else context.precision.words,
            rounded=False,
            outputs=problem.outputs,
            samples_fitted=context.problem.samples.size,
            distinct_inputs=len(context.inputs),
            samples_held_out=unseen.samples,
            samples_refitted=samples.size if refitted else 0,
            parameters=user.free_parameters,
            condition=max(condition_number(user.layer(k)) for k in range(user.layers)),
            parameter_error_bound=found.deep_errors(float(size)).largest,
            undetermined=found.rank_deficiency,
            weakest_unit=None,
            weakest_margin=candidate.narrower / max(noise, unseen.rounding),
            closest_pair=None,
            residual_kurtosis=residual_kurtosis(samples, user),
            rarer_side=np.concatenate(sides),
            width_evidence=candidate.width_evidence,
            gaussian=context.gaussian,
            warnings=() if context.gaussian.ok else (context.gaussian.message,),
        ),
        _errors(found, noise, context.precision.rms),
        unseen,
        sides,
        candidate.narrower,
        reversals(user, samples, problem.zero, problem.deadline),
        crossings(user, samples.X),
    )


def _errors(found: Covariance, noise: float, rounding: float) -> DeepErrors:
    """Of noise; and of rounding that labels share, unless noise makes it another for each."""
    shares = 0 < noise <= NOISE_UNROUNDS * rounding
    return found.deep_errors(noise, rounding if shares else 0.0)


def _network(context: Context, fit: Fit) -> DeepNetwork:
    return fit.parameters.deep_network(context.problem.activation)


def _finished(problem: Problem, parameters: Parameters) -> Fit:
    """Least squares to the end, unless time is over."""
    if problem.out_of_time:
        r = parameters.deep_network(problem.activation)(problem.samples.X) - problem.samples.y
        return Fit(parameters, float(np.vdot(r, r)), problem.samples.labels, 0, Ended.OUT_OF_TIME)
    return problem.refine_in_steps(parameters, 100, 1e-9, 20)


def switching_sides(network: DeepNetwork, X: Array) -> list[AnyArray]:
    """For each unit: on how many samples it is on, or off, whichever are fewer.

    Only those on which the output depends on it count: the units above it that it feeds are not all
    off there.
    """
    return [
        np.minimum(np.sum(on & where, axis=0), np.sum(~on & where, axis=0))
        for on, where in _states(network, X)
    ]


def crossings(network: DeepNetwork, X: Array) -> list[AnyArray]:
    """For each unit: samples in the emptiest of the four parts that its kink and another make.

    Of the other unit for which these are most: one that feeds it, where its kink bends, or of the
    lowest layer any of the same, whose kink it crosses without bending. Without any nobody sees to
    which layer a unit belongs. Only samples on which the output depends on the unit count.
    """
    states = _states(network, X)
    found = []
    for number, (on, where) in enumerate(states):
        others = states[max(number - 1, 0)][0]
        most = np.zeros(on.shape[1], dtype=int)
        for i in range(on.shape[1]):
            own, seen = on[:, i, None], where[:, i, None]
            parts = [
                np.sum(seen & (own == a) & (others == b), axis=0)
                for a in (True, False)
                for b in (True, False)
            ]
            most[i] = np.min(parts, axis=0).max(initial=0)
        found.append(most)
    return found


def _states(network: DeepNetwork, X: Array) -> list[tuple[AnyArray, AnyArray]]:
    """For each layer, (samples, units): which units are on, and where the output shows it."""
    point = Linearisation.of(Parameters.of(network), network.activation, X)
    *_, (A, _) = network.affine_maps
    shows = [np.zeros((len(X), width), dtype=bool) for width in network.widths]
    for weights in A:
        fed = np.broadcast_to(weights, (len(X), len(weights)))
        shows[-1] |= fed != 0
        for number, delta in enumerate(point.sensitivities(fed)[1:]):
            shows[number] |= delta @ network.affine_maps[number + 1][0] != 0
    below = zip(network.affine_maps, point.inputs, shows, strict=False)
    return [(inputs[:, :-1] @ W.T + b > 0, where) for (W, b), inputs, where in below]
