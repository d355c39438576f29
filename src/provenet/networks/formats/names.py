"""What the formats share: the names of a network's arrays, and which activations have a name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import get_activation
from provenet.networks.network import Network

REQUIRED = ("weights", "biases", "output_weights", "output_bias")


def arrays_of(network: Network) -> dict[str, Array]:
    """The arrays under the names that they have in files; without a linear term, no `linear`."""
    arrays = {name: np.asarray(getattr(network, name)) for name in REQUIRED}
    return arrays if network.linear is None else {**arrays, "linear": network.linear}


def network_of(arrays: Mapping[str, AnyArray], activation: str) -> Network:
    """The network of arrays under these names."""
    W, b, A, c = (arrays[name] for name in REQUIRED)
    return Network(W, b, A, c, activation, linear=arrays.get("linear"))


def activation_name(network: Network, where: str | Path) -> str:
    """The name that stands for the activation, unless it is an object of the user's own."""
    own = network.activation
    try:
        known = get_activation(own.name)
    except InvalidInput:
        known = None
    slopes = (None, None) if known is None else (known.slope, own.slope)
    same = known is not None and known.function is own.function
    if same or (slopes[0] is not None and slopes[0] == slopes[1]):
        return own.name
    raise InvalidInput(
        f"{where} cannot hold the activation {own.name!r}, an object of your own: "
        "only activations that provenet knows by name can be written."
    )


def plain_if_one(A: Array, c: Array, V: Array | None) -> tuple[Array, Array, Array | None]:
    """Output weights, bias and linear term of one output as those of plain labels."""
    if len(A) != 1:
        return A, c, V
    return A[0], np.ravel(c)[0], None if V is None else V[0]
