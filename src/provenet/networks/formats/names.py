"""What the formats share: the names of a network's arrays, and which activations have a name.

The arrays of one hidden layer are `weights` and `biases`; of several, `weights.0`, `biases.0`,
`weights.1` and so on from the inputs on. The outputs' are `output_weights`, without an axis of
outputs where labels are plain numbers, and `output_bias`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import get_activation
from provenet.networks.network import AffineMap, DeepNetwork, Network

REQUIRED = ("weights", "biases", "output_weights", "output_bias")
"""The names of one hidden layer."""


def arrays_of(network: Network) -> dict[str, Array]:
    """The arrays under the names that they have in files; without a linear term, no `linear`."""
    if isinstance(network, DeepNetwork):
        return _arrays_of_layers(network)
    one = network.layer(0)
    arrays = {name: np.asarray(getattr(one, name)) for name in REQUIRED}
    return arrays if one.linear is None else {**arrays, "linear": one.linear}


def _arrays_of_layers(network: DeepNetwork) -> dict[str, Array]:
    """As of a `Network` if there is one hidden layer: it is loaded as that."""
    if network.layers == 1:
        return arrays_of(network.as_one_layer())
    *hidden, (A, c) = network.affine_maps
    if network.outputs is None:
        A, c = A[0], c[0]
    arrays = {
        name: array
        for number, layer in enumerate(hidden)
        for name, array in zip(_of_layer(number), layer, strict=True)
    }
    return {**arrays, "output_weights": A, "output_bias": np.asarray(c)}


def required(names: Collection[str]) -> tuple[str, ...]:
    """The names that a network needs of which some are given: as many layers as have weights."""
    layers = next(number for number in count() if _of_layer(number)[0] not in names)
    if not layers:
        return REQUIRED
    return (*(name for number in range(layers) for name in _of_layer(number)), *REQUIRED[2:])


def network_of(arrays: Mapping[str, AnyArray], activation: str, link: str = "identity") -> Network:
    """The network of arrays under these names."""
    *hidden, A, c = (arrays[name] for name in required(arrays))
    if len(hidden) == 2:
        W, b = hidden
        return Network(W, b, A, c, activation, linear=arrays.get("linear"), link=link)
    if A.ndim not in (1, 2) or c.shape != A.shape[:-1]:
        raise InvalidInput(
            f"The network's output_weights and output_bias have the shapes {A.shape} and "
            f"{c.shape}: give (units,) and a number, or (outputs, units) and (outputs,)."
        )
    outputs = None if A.ndim == 1 else len(A)
    weights, biases = (*hidden[::2], np.atleast_2d(A)), (*hidden[1::2], np.atleast_1d(c))
    return DeepNetwork(weights, biases, activation, outputs=outputs, link=link)


def network_of_maps(maps: list[AffineMap], activation: str, link: str) -> Network:
    """The network of weights and biases of every layer; one output gives plain labels."""
    weights, biases = zip(*maps, strict=True)
    network = DeepNetwork(weights, biases, activation, link=link)
    return network.as_one_layer() if network.layers == 1 else network


def _of_layer(number: int) -> tuple[str, str]:
    return f"weights.{number}", f"biases.{number}"


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
