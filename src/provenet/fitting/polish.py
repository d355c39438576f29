"""Least squares from a method's answer, and the signs of its units.

The answer is first refined up to signs (absolute values and a free linear part), where nothing is
in the way. Then the signs that the linear part asks for are set and the linear term is dropped; it
stays only if the samples are explained significantly worse without it: then some units have no kink
within reach of the samples, and the term stands for them. A slope below zero that is not known (of
leaky ReLU) is read from the linear part as well.

Smooth units are refined as they are, beside a linear term where the search gave them one: mirrored
ones (softplus, SiLU, GELU) have their signs settled as above, and so has a term that the others
(ELU) turn out not to need.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import scipy

from provenet.common.ended import Ended
from provenet.common.typing import AnyArray, Array
from provenet.fitting.least_squares import Fit, refine
from provenet.fitting.model import Parameters
from provenet.fitting.output_layer import fit_linear_part
from provenet.fitting.residuals import residual_on, rounding_level
from provenet.fitting.tolerances import (
    CLEARLY_WORSE,
    EXPLAINED,
    FREE_TOLERANCE,
    NEAREST_SIGNS,
    POLISH_DAMPING,
    POLISH_LAST_STEPS,
    POLISH_STEPS,
    POLISH_TOLERANCE,
    ROUNDED,
    ROUNDING_ROWS,
    TOLD_DIGITS,
    UNLIKELY,
)
from provenet.fitting.workspace import Workspace
from provenet.networks.activations import Activation, Symmetry, leaky_relu
from provenet.networks.canonical import apply_symmetry
from provenet.networks.conversions import (
    as_absolute,
    as_asked,
    even_linear_part,
    with_free_linear_part,
)
from provenet.networks.network import Network
from provenet.networks.signs import (
    Signs,
    nearest_signs,
    signs_from_linear_part,
    slope_from_linear_part,
)
from provenet.networks.tolerances import TINY


@dataclass(frozen=True)
class Polished:
    """A refined network on standardised inputs."""

    network: Network
    rss: float
    """Residual sum of squares on the samples that were fitted."""
    ambiguities: tuple[str, ...] = ()
    ended: Ended = Ended.CONVERGED
    """How its least squares ended."""


def polish(workspace: Workspace, network: Network) -> Polished:
    """Least squares from a candidate: first up to signs, then with the signs settled."""
    if workspace.activation.slope is None:
        with np.errstate(over="ignore", invalid="ignore"):  # a step too long is not accepted
            smooth = workspace.problem.refine_in_steps(
                Parameters.of(network), POLISH_STEPS, POLISH_TOLERANCE, POLISH_LAST_STEPS
            )
        return settled_from(workspace, smooth)
    return settled_from(workspace, _refined_up_to_signs(workspace, network))


def settled_from(workspace: Workspace, free: Fit) -> Polished:
    """The network of a fit of the problem's own model, its signs settled where it has none."""
    problem = workspace.problem
    fitted = free.parameters.network(problem.activation)
    network = as_asked(fitted, _activation(workspace, free.parameters))
    if network.linear is None or network.units == 0:
        return Polished(network, free.rss, ended=free.ended)
    unsettled = _with_signs(network, _signs(network).signs)
    if not problem.is_zero(free) and excess_on_unseen(workspace, unsettled, free.rss) is not None:
        return Polished(unsettled, free.rss, ended=free.ended)  # a bad minimum: no need to go on
    settled, ambiguities = settle_signs(workspace, free, network)
    if _linear_term_needed(workspace, free, settled):
        ambiguities = (*ambiguities, *_sign_ambiguity(unsettled))
        return Polished(unsettled, free.rss, ambiguities, free.ended)
    found = settled.parameters.network(network.activation)
    return Polished(found, settled.rss, ambiguities, settled.ended)


def _refined_up_to_signs(workspace: Workspace, network: Network) -> Fit:
    """Least squares in absolute values, unless the network explains the samples already."""
    problem, start = workspace.problem, Parameters.of(as_absolute(network))
    r = network(problem.samples.X) - problem.samples.y
    as_it_is = Fit(start, float(np.vdot(r, r)), problem.samples.labels, 0, Ended.ZERO)
    if network.linear is None and as_it_is.rms <= EXPLAINED * problem.spread:
        return as_it_is
    return problem.refine_in_steps(start, POLISH_STEPS, FREE_TOLERANCE, POLISH_LAST_STEPS)


def _activation(workspace: Workspace, parameters: Parameters) -> Activation:
    """The activation that was asked for, its slope found if it was left open."""
    if workspace.activation.name != "leaky_relu":
        return workspace.activation
    m = parameters.units
    slope = slope_from_linear_part(
        parameters.beta[:m].T, parameters.theta[:, :-1], parameters.beta[m:-1].T
    )
    return leaky_relu(slope)


def _signs(network: Network) -> Signs:
    """The likeliest signs of units beside a linear term: those that explain it best."""
    if network.activation.symmetry is not Symmetry.MIRROR:
        return Signs(np.ones(network.units), np.zeros(0))
    return signs_from_linear_part(*_linear_equation(network))


def _linear_equation(network: Network) -> tuple[Array, Array, Array]:
    """Output weights, weights and the linear part that their signs are to explain."""
    A, v = even_linear_part(network)
    return A, network.weights, v


def _with_signs(network: Network, signs: Array) -> Network:
    """Mirrored units reversed where the sign is negative; what they do not explain stays linear."""
    return apply_symmetry(network, signs, np.zeros(network.units))


def settle_signs(workspace: Workspace, free: Fit, network: Network) -> tuple[Fit, tuple[str, ...]]:
    """The best fit without a linear term, from the signs that the linear part asks for.

    `network` is that of the fit, in units of the activation that was asked for.
    """
    problem, activation = workspace.problem, network.activation
    found = _signs(network)
    signs, alternatives = found.signs, found.alternatives
    if activation.symmetry is Symmetry.MIRROR and not problem.is_zero(free):
        signs, alternatives = _flip_while_better(workspace, network, signs)
    ambiguities = tuple(
        describe_reversal(workspace, network, other != signs) for other in alternatives
    )
    start = without_linear(network, signs)
    rounding = rounding_level(start, problem.samples.X[:ROUNDING_ROWS])
    fit = refine(
        problem.samples,
        Parameters.of(start),
        activation,
        spread=problem.spread,
        zero=ROUNDED * float(np.sqrt(np.mean(rounding**2))) / problem.spread,
        iterations=POLISH_STEPS,
        tolerance=POLISH_TOLERANCE,
        damping=POLISH_DAMPING,
        deadline=problem.deadline,
    )
    return fit, ambiguities


def without_linear(network: Network, signs: Array | None = None) -> Network:
    """Units of given signs, or the likeliest, without what is left linear."""
    xi = _signs(network).signs if signs is None else signs
    return _with_signs(network, xi).replace(linear=None)


def describe_reversal(workspace: Workspace, network: Network, units: AnyArray) -> str:
    """Name units by their output weights, which do not depend on the order of units."""
    norm = np.linalg.norm(network.weights @ workspace.standardisation.whiten, axis=1)
    weights = network.output_weights * norm ** (network.activation.degree or 0)
    told = np.round(weights[..., units], TOLD_DIGITS).tolist()
    return (
        f"The units with output weights {told} may as well all have the opposite sign: the samples "
        "do not tell."
    )


def _flip_while_better(
    workspace: Workspace, network: Network, signs: Array
) -> tuple[Array, tuple[Array, ...]]:
    """With noise the linear part may mislead: flip one sign or two while that lowers the residual.

    Or take other signs that explain the linear part nearly as well. Returns the best signs, and
    those of these that the samples do not rule out; where the budget is used up, of those that were
    looked at.
    """
    samples = workspace.problem.to_tell_signs(network.units).samples

    def misfit(xi: Array) -> float:
        start = Parameters.of(without_linear(network, xi))
        return fit_linear_part(samples, start, network.activation)[1]

    m, best = len(signs), misfit(signs)
    nearest = nearest_signs(*_linear_equation(network), NEAREST_SIGNS)
    pairs = [{i, j} for i in range(m) for j in range(i, m)]
    while True:
        flips = [signs * np.where(np.isin(np.arange(m), list(pair)), -1.0, 1.0) for pair in pairs]
        flips += [xi for xi in nearest if np.sum(xi != signs) > 2]
        looked_at = takewhile(lambda xi: not workspace.out_of_time, flips)
        values = np.array([misfit(xi) for xi in looked_at])
        i = int(np.argmin(values)) if len(values) else 0
        if workspace.out_of_time or values[i] >= best:
            break
        signs, best = flips[i], float(values[i])
    possible = samples.labels * np.log(values / best) < CLEARLY_WORSE
    return signs, tuple(xi for xi, as_good in zip(flips, possible, strict=False) if as_good)


def settled_with_signs(workspace: Workspace, own: Fit, activation: Activation) -> Polished:
    """A fit without a linear term, its signs given, or one with a linear term if it needs that."""
    network = own.parameters.network(activation)
    problem = workspace.problem
    start = Parameters.of(with_free_linear_part(network, problem.activation))
    free = problem.refine(start, POLISH_LAST_STEPS, 1 / problem.samples.labels)
    if not _linear_term_needed(workspace, free, own):
        return Polished(network, own.rss, ended=own.ended)
    unsettled = as_asked(free.parameters.network(problem.activation), activation)
    return Polished(unsettled, free.rss, _sign_ambiguity(unsettled), free.ended)


def _linear_term_needed(workspace: Workspace, free: Fit, settled: Fit) -> bool:
    """Whether the fit with a linear term is better than chance allows (F-test)."""
    problem = workspace.problem
    if problem.is_zero(free):
        return not problem.is_zero(settled)
    extra = problem.samples.features * problem.outputs
    spare = problem.samples.labels - problem.parameters(free.parameters.units)
    if spare <= 0:
        return False
    F = (settled.rss - free.rss) / extra / (free.rss / spare)
    return bool(scipy.stats.f.sf(F, extra, spare) < UNLIKELY)


def _sign_ambiguity(network: Network) -> tuple[str, ...]:
    if network.units == 0 or network.activation.symmetry is not Symmetry.MIRROR:
        return ()
    return (
        "The network has a linear term, so the sign of each unit is a convention: "
        "reversing it changes only the linear term.",
    )


@dataclass(frozen=True)
class Expected:
    """What noise would leave of samples that were not fitted."""

    residual: float
    """Root mean square: that of fitted samples, enlarged by what their fit has hidden of it."""
    limit: float
    """What chance hardly ever exceeds (F-test)."""


def expected_on_unseen(workspace: Workspace, network: Network, rss: float) -> Expected:
    """From the residual sum of squares of the samples that were fitted."""
    spare = max(workspace.problem.samples.labels - network.free_parameters, 1)
    size = np.sqrt(rss / spare * (1 + network.free_parameters / spare))
    factor = scipy.stats.f.isf(UNLIKELY, workspace.held_out.labels, spare)
    return Expected(float(size), float(size * np.sqrt(factor)))


def excess_on_unseen(workspace: Workspace, network: Network, rss: float) -> float | None:
    """How much larger the residual is on held-out samples than noise explains, or None."""
    expected = expected_on_unseen(workspace, network, rss)
    user = workspace.standardisation.network_to_user(network)
    found = residual_on(workspace.held_out, user)
    return found / max(expected.residual, TINY) if found > expected.limit else None
