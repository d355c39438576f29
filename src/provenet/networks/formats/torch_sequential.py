"""A network as a PyTorch `nn.Sequential` of PyTorch's own modules, so that it loads anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.optional import package
from provenet.common.typing import Array
from provenet.networks.conversions import in_relu_units
from provenet.networks.formats.names import activation_name
from provenet.networks.network import Network


def to_torch(network: Network, dtype: Any = None) -> Any:
    """`Sequential(Linear, activation, Linear)`; double precision unless a torch dtype is given."""
    torch = package("torch", "Network.to_torch", "torch")
    activation_name(network, "A torch.nn.Sequential")
    same = network if _has_module(network) else in_relu_units(network)
    if same is None:
        linear = " with a linear term" if network.linear is not None else ""
        raise InvalidInput(
            f"torch.nn has no units {network.activation.name}{linear}: it takes relu, leaky_relu "
            "and abs, or sigmoid without a linear term; write an .onnx file instead."
        )
    kind = torch.float64 if dtype is None else dtype
    A = np.atleast_2d(same.output_weights)
    c = np.broadcast_to(np.asarray(same.output_bias, dtype=float), (len(A),))
    return torch.nn.Sequential(
        _linear(torch, same.weights, same.biases, kind),
        _activation(torch, same),
        _linear(torch, A, c, kind),
    )


def _has_module(network: Network) -> bool:
    return network.linear is None and network.activation.family in ("relu", "leaky_relu", "sigmoid")


def _activation(torch: Any, network: Network) -> Any:
    if network.activation.family == "leaky_relu":
        return torch.nn.LeakyReLU(network.activation.slope)
    return torch.nn.Sigmoid() if network.activation.name == "sigmoid" else torch.nn.ReLU()


def _linear(torch: Any, weights: Array, biases: Array, dtype: Any) -> Any:
    """A layer filled with copies: torch would warn of, or write into, arrays it shares."""
    # skip_init draws no random numbers: the caller's random state stays as it is.
    layer = torch.nn.utils.skip_init(torch.nn.Linear, *weights.shape[::-1], dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(np.array(weights)))
        layer.bias.copy_(torch.tensor(np.array(biases)))
    return layer
