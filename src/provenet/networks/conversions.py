"""Fewer units for the same function: ATV21, Claim D.14.

With `sigma(z) = (|z| + z)/2` a unit of both signs is a unit of one sign and a linear term,

    a sigma(z) + a' sigma(-z) = (a + a') sigma(z) - a' z,

and a linear term is two units, `z = sigma(z) - sigma(-z)`. So m units of both signs beside
`v.x + c` are m + 2 units of ReLU. The constant stays with the output bias: the paper has none and
puts it into the bias of the two, which is ill-conditioned where v is small.
"""

from __future__ import annotations

import numpy as np

from provenet.common.typing import Array
from provenet.networks.network import Network

_NO_SLOPE = 1e-15
"""A linear term below this fraction of the largest output weight is rounding."""


def merge_signs(units: Network, opposite: Array) -> Network:
    """`units` and the same of the other sign, of output weights `opposite`, as one unit each.

    The linear term takes the rest.
    """
    linear = np.zeros(units.features) if units.linear is None else units.linear
    return units.replace(
        output_weights=units.output_weights + opposite,
        linear=linear - opposite @ units.weights,
        output_bias=units.output_bias - opposite @ units.biases,
    )


def merge_linear_units(network: Network, X: Array, fewest: int = 1) -> Network:
    """The network without units that change sides on fewer than `fewest` of the rows of X.

    Those that are mostly on go to the linear term, those that are mostly off are left out; nothing
    changes where a unit is on its usual side.
    """
    active = np.sum(X @ network.weights.T + network.biases > 0, axis=0)
    on, off = len(X) - active < fewest, active < fewest
    kept = network.keep(~(on | off))
    if not on.any():
        return kept
    a = network.output_weights * on
    linear = np.zeros(network.features) if network.linear is None else network.linear
    return kept.replace(
        linear=linear + a @ network.weights,
        output_bias=network.output_bias + a @ network.biases,
    )


def linear_as_units(network: Network) -> Network:
    """The same network of ReLU without a linear term: two more units, last, where it had one."""
    if network.linear is None:
        return network
    slope = float(np.linalg.norm(network.linear))
    if slope <= _NO_SLOPE * np.max(np.abs(network.output_weights), initial=0.0):
        return network.replace(linear=None)
    w = network.linear / slope
    return network.replace(
        weights=np.vstack([network.weights, w, -w]),
        biases=np.append(network.biases, [0.0, 0.0]),
        output_weights=np.append(network.output_weights, [slope, -slope]),
        linear=None,
    )
