"""Units up to sign from moments up to order 2l + 2: ATV21, Algorithms 1 and 4 for any order l.

The powers `w_i^(x)l` must be independent (Theorem 3.2), which general units are up to
`binomial(d + l - 1, l)` of them; order 1 has room for as many units as features. (The factor 0.99
in that number is Corollary 3.3's, for weights that were perturbed at random: ERRATA, ATV21 24.)

1. Moments `T_0 .. T_2l+2`, by distinct entries (`moments.hermite`).
2. Directions from `T_2l+1` and `T_2l+2` by Jennrich (`moments.decomposition.algorithm_4`).
3. Output weights and biases from `T_l .. T_l+3` (`moments.decomposition`: Algorithm 2).
"""

from __future__ import annotations

from dataclasses import dataclass

from provenet.common.exceptions import InvalidInput, NoAnswer
from provenet.data.parallel import available_memory
from provenet.fitting.workspace import Workspace
from provenet.moments.decomposition import scalars_by, unit_directions
from provenet.moments.hermite import HighMoments, high_moments, memory_needed
from provenet.moments.symmetric import count
from provenet.networks.network import Network


@dataclass(frozen=True)
class UnitsUpToSign:
    """The output of Algorithm 4, on standardised inputs."""

    network: Network
    """Weights of norm 1 and biases up to a common sign a unit, output weights; no constant."""
    moments: HighMoments
    evidence: str
    """What was seen in the two tensors, in words."""


def units_of_order(workspace: Workspace, order: int) -> UnitsUpToSign:
    """Algorithm 1 (from a population) or 4 (from samples); no units if none stands out."""
    _check_memory(workspace.source.features, order)
    top = 2 * order + 2
    with workspace.stage("moments", f"up to order {top}"):
        moments = high_moments(workspace.source, workspace.standardisation, top)
    if workspace.out_of_time:
        raise NoAnswer(f"The budget was used up by the moments up to order {top}: give budget=.")
    with workspace.stage("decompose"):
        T, errors = moments.tensors, moments.errors[top - 1 :]
        W, evidence = unit_directions(T[top - 1 :], errors, order, workspace.units, workspace.rng)
        if len(W) == 0:
            return UnitsUpToSign(Network(W), moments, evidence)
        a, b = scalars_by(lambda j: T[j].coefficients(W), order)
    return UnitsUpToSign(Network(W, b, a), moments, evidence)


def smallest_order(features: int, units: int) -> int:
    """The order that has room for so many units."""
    if features == 1:
        return 1  # all units are parallel, whatever the order
    order = 1
    while units > count(features, order):
        order += 1
    return order


def _check_memory(features: int, order: int) -> None:
    needed, there = memory_needed(features, 2 * order + 2), available_memory()
    if needed > there / 2:
        raise InvalidInput(
            f"Moments up to order {2 * order + 2} of {features} features need {needed / 1e9:.3g} "
            f"GB, and {there / 1e9:.3g} are at hand: lower order=, or leave faithful out."
        )
