"""The most likely network of class labels: the end of a search, its signs, how sure it is.

A search fits absolute values, or mirrored units, beside a linear part (`search.policy`). The signs
that this part asks for come in a few sets, nearest first; each is fitted to the end without the
part, and the most likely stays. The part stays where the labels are explained significantly worse
without it: its deviance then falls by more than chance gives as many parameters (chi squared).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from provenet.common.typing import AnyArray, Array
from provenet.data.sources import Source
from provenet.fitting.least_squares import Fit, refine
from provenet.fitting.model import Parameters
from provenet.fitting.polish import describe_reversal, without_linear
from provenet.fitting.tolerances import (
    CLEARLY_WORSE,
    NEAREST_SIGNS,
    POLISH_DAMPING,
    POLISH_STEPS,
    POLISH_TOLERANCE,
    UNLIKELY,
)
from provenet.fitting.workspace import Workspace
from provenet.networks.activations import Activation, Symmetry
from provenet.networks.canonical import match_units
from provenet.networks.conversions import as_asked, even_linear_part
from provenet.networks.network import Network
from provenet.networks.signs import nearest_signs


@dataclass(frozen=True)
class MostLikely:
    """A network on standardised inputs, its deviance, and what else may as well be."""

    network: Network
    fit: Fit
    ambiguities: tuple[str, ...] = ()


def most_likely(workspace: Workspace, found: Parameters) -> MostLikely:
    """The end of scoring from a model of a search, in units of the activation asked for."""
    problem = workspace.problem
    free = problem.with_free_norms().refine(found, POLISH_STEPS, POLISH_TOLERANCE)
    network = as_asked(free.parameters.network(problem.activation), workspace.activation)
    if network.linear is None or network.units == 0:
        return MostLikely(network, free)
    fits = {tuple(signs): _fitted_with(workspace, network, signs) for signs in _signs(network)}
    signs = min(fits, key=lambda key: fits[key].rss)
    for flipped in _single_flips(np.array(signs), network):
        fits.setdefault(tuple(flipped), _fitted_with(workspace, network, flipped))
    signs = min(fits, key=lambda key: fits[key].rss)
    best = fits[signs]
    extra = problem.samples.features * problem.outputs
    if chi2.sf(best.rss - free.rss, extra) < UNLIKELY:
        why = "The network has a linear term, so the sign of each unit is a convention."
        return MostLikely(network, free, (why,))
    settled = best.parameters.network(network.activation)
    rivals = [fit.parameters for fit in fits.values() if fit.rss - best.rss < CLEARLY_WORSE]
    shown = settled.canonical()
    turned = [_reversed(shown, other.network(network.activation).canonical()) for other in rivals]
    told = tuple(describe_reversal(workspace, shown, units) for units in turned if units.any())
    return MostLikely(settled, best, told)


def _reversed(network: Network, other: Network) -> AnyArray:
    """Which units look the other way in another canonical network; others may have ended alike."""
    mine, theirs = match_units(network, other)
    found = np.zeros(network.units, dtype=bool)
    found[mine] = np.einsum("ud,ud->u", network.weights[mine], other.weights[theirs]) < 0
    return found


def _signs(network: Network) -> list[Array]:
    """Those that explain the linear part best; units without mirror symmetry have none."""
    if network.activation.symmetry is not Symmetry.MIRROR:
        return [np.ones(network.units)]
    A, v = even_linear_part(network)
    return nearest_signs(A, network.weights, v, NEAREST_SIGNS) or [np.ones(network.units)]


def _single_flips(signs: Array, network: Network) -> list[Array]:
    if network.activation.symmetry is not Symmetry.MIRROR:
        return []
    return [np.where(np.arange(len(signs)) == i, -signs, signs) for i in range(len(signs))]


def _fitted_with(workspace: Workspace, network: Network, signs: Array) -> Fit:
    start = Parameters.of(without_linear(network, signs))
    return likely_fit(workspace, workspace.problem.samples, start, network.activation)


def likely_fit(
    workspace: Workspace, source: Source, start: Parameters, activation: Activation
) -> Fit:
    """Scoring to the end on any samples."""
    problem = workspace.problem
    return refine(
        source,
        start,
        activation,
        spread=problem.spread,
        iterations=POLISH_STEPS,
        tolerance=POLISH_TOLERANCE,
        damping=POLISH_DAMPING,
        deadline=problem.deadline,
        loss=problem.loss,
    )
