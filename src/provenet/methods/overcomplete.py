"""`"overcomplete"`: more units than features (ATV21, Theorems 3.2 and 4.2).

Letters as in `biased_relu`; the order l is the paper's: the units' powers `w_i^(x)l` must be
independent, which general units are up to `binomial(d + l - 1, l)` of them.

*The paper's way* (`faithful=True`, and from a population): Algorithms 1, 2 and 4 on the moments up
to order 2l + 2 (`stages.moment_units`), and nothing after them. They end with units up to sign;
a network needs signs. For order 1 they are Algorithm 3's, and the whole is Algorithm 6; beyond,
equation 2 gives them as far as the linear part tells: with dependent weights different signs may
give the same function (Claim 4.8). The constant is what `T_0` leaves.

*The default*, from samples: moments of order 6 are so noisy that least squares with swaps, growth
and pruning (`fitting.search`) is stronger by far, and does not care whether units exceed features.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from provenet.certify.candidate import Candidate
from provenet.common.exceptions import InvalidInput, NoAnswer
from provenet.fitting.context import Context
from provenet.methods.stages.moment_units import UnitsUpToSign, smallest_order, units_of_order
from provenet.methods.stages.searched import searched
from provenet.methods.tolerances import PARALLEL_UNITS
from provenet.moments.symmetric import count
from provenet.networks.activations import RELU
from provenet.networks.network import Network
from provenet.networks.signs import fix_signs, signs_from_linear_part


def overcomplete(context: Context) -> Iterator[Candidate]:
    """Candidates of the paper's algorithm for a population or if asked, else of the search."""
    if context.faithful or context.source.population is not None:
        yield by_moments(context)
    else:
        yield from searched(context)


def by_moments(context: Context) -> Candidate:
    """ATV21, Algorithm 1 (from a population) or 4 (from samples), order l."""
    source = context.source
    order = order_for(source.features, context.units, context.options.order)
    if source.population is not None:
        _refuse_parallel(source.population)
    found = units_of_order(context, order)
    if found.network.units == 0:
        raise NoAnswer(
            f"No unit stands above the sampling error of the moments of order {2 * order + 1} and "
            f"{2 * order + 2}: take more samples, or leave faithful out."
        )
    return Candidate(with_signs(found, order), found.evidence)


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
    """The order to use, if it has room for the units (Theorem 3.2)."""
    order = asked or (2 if units is None else smallest_order(features, units))
    room = count(features, order)
    if units is not None and units > room:
        raise InvalidInput(
            f"Order {order} has room for {room} units of {features} features, and {units} were "
            f"asked for: use order={smallest_order(features, units)}."
        )
    return order


def with_signs(found: UnitsUpToSign, order: int) -> Network:
    """The network of units that are known up to sign."""
    T, units = found.moments.symmetric, found.network
    W, b, a = units.weights, units.biases, units.output_weights
    if order == 1:
        signs = fix_signs(T[1].entries, a, W)
    else:
        # T_1 = sum_i a_i w_i (Phi(b_i) - 1/2 + xi_i / 2): equation 2.
        linear = T[1].entries - (a * (RELU.hermite(1, b) - 0.5)) @ W
        signs = signs_from_linear_part(a, W, linear).signs
    W, b = W * signs[:, None], b * signs
    c = float(T[0].entries[0]) - float(a @ RELU.hermite(0, b))
    return Network(W, b, a, c)
