"""`"overcomplete"`: more units than features (ATV21, Theorems 3.2 and 4.2).

Letters as in `biased_relu`; the order l is the paper's: the units' powers `w_i^(x)l` must be
independent, which general units are up to `binomial(d + l - 1, l)` of them.

*The paper's way* (`faithful=True`, and from a population): Algorithms 1, 2 and 4 on the moments up
to order 2l + 2, by distinct entries. Signs come from the linear part, as far as it tells
(`sign_patterns`): with dependent weights different signs may give the same function (Claim 4.8).

*The default*, from samples: moments of order 6 are so noisy that least squares with swaps, growth
and pruning (`fitting.search`) is stronger by far, and does not care whether units exceed features.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import InvalidInput, NoAnswer
from provenet.common.typing import Array
from provenet.data.parallel import memory_at_hand
from provenet.fitting.workspace import Workspace
from provenet.methods.stages.searched import searched
from provenet.methods.tolerances import PARALLEL_UNITS
from provenet.moments.decomposition.algorithm_4 import unit_directions
from provenet.moments.high_order import HighMoments, high_moments, memory_needed
from provenet.moments.scalars import scalars_by
from provenet.moments.symmetric import count
from provenet.networks.activations import RELU
from provenet.networks.network import Network
from provenet.networks.signs import signs_from_linear_part

ROOM = 0.99
"""Share of `binomial(d + l - 1, l)` units that order l is asked for (Theorem 3.2's constant)."""


def overcomplete(workspace: Workspace) -> Iterator[Candidate]:
    """Candidates of the paper's algorithm for a population or if asked, else of the search."""
    if workspace.faithful or workspace.source.population is not None:
        yield by_moments(workspace)
    else:
        yield from searched(workspace)


def by_moments(workspace: Workspace) -> Candidate:
    """ATV21, Algorithm 1 (from a population) or 4 (from samples), order l."""
    source = workspace.source
    order = order_for(source.features, workspace.units, workspace.order)
    if source.population is not None:
        _refuse_parallel(source.population)
    top = 2 * order + 2
    with workspace.stage("moments", f"up to order {top}"):
        moments = high_moments(source, workspace.standardisation, top)
    if workspace.out_of_time:
        raise NoAnswer(f"The budget was used up by the moments up to order {top}: give budget=.")
    with workspace.stage("decompose"):
        last, errors = moments.tensors[top - 1 :], moments.errors[top - 1 :]
        W, evidence = unit_directions(last, errors, order, workspace.units, workspace.rng)
        if len(W) == 0:
            raise NoAnswer(
                f"No unit stands above the sampling error of the moments of order {top - 1} and "
                f"{top}: take more samples, or leave faithful out."
            )
        network = network_of(moments, W, order)
    return Candidate(network, evidence)


def _refuse_parallel(network: Network) -> None:
    """Two parallel units are one term of every moment, whatever the order."""
    W = network.weights / np.linalg.norm(network.weights, axis=1, keepdims=True)
    cosines = np.abs(np.triu(W @ W.T, 1))
    i, j = np.unravel_index(np.argmax(cosines), cosines.shape)
    if cosines[i, j] > PARALLEL_UNITS:
        raise InvalidInput(
            f"Units {i} and {j} of the network are parallel (counted from 0): no order of moments "
            'tells them apart; recover it from samples with method="expand-prune".'
        )


def order_for(features: int, units: int | None, asked: int | None) -> int:
    """The order to use, if it has room for the units and memory has room for it."""
    order = asked or (2 if units is None else smallest_order(features, units))
    room = int(ROOM * count(features, order))
    if units is not None and units > room:
        raise InvalidInput(
            f"Order {order} has room for {room} units of {features} features, and {units} were "
            f"asked for: use order={smallest_order(features, units)}."
        )
    needed, there = memory_needed(features, 2 * order + 2), memory_at_hand()
    if needed > there / 2:
        raise InvalidInput(
            f"Moments up to order {2 * order + 2} of {features} features need {needed / 1e9:.3g} "
            f"GB, and {there / 1e9:.3g} are at hand: lower order=, or leave faithful out."
        )
    return order


def smallest_order(features: int, units: int) -> int:
    """The order that has room for so many units."""
    if features == 1:
        return 1  # all units are parallel, whatever the order
    order = 1
    while units > int(ROOM * count(features, order)):
        order += 1
    return order


def network_of(moments: HighMoments, W: Array, order: int) -> Network:
    """Output weights, biases, signs and the constant for directions known up to sign."""
    T = moments.tensors
    a, b = scalars_by(lambda j: T[j].coefficients(W), order)
    # T_1 = sum_i a_i w_i (Phi(b_i) - 1/2 + xi_i / 2): equation 2.
    linear = T[1].entries - (a * (RELU.hermite(1, b) - 0.5)) @ W
    signs = signs_from_linear_part(a, W, linear).signs
    W, b = W * signs[:, None], b * signs
    c = float(T[0].entries[0]) - float(a @ RELU.hermite(0, b))
    return Network(W, b, a, c)
