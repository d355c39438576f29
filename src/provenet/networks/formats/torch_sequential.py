"""A network as a PyTorch `nn.Sequential` of PyTorch's own modules, so that it loads anywhere."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.optional import package
from provenet.common.typing import Array
from provenet.networks.conversions import in_relu_units, linear_as_units
from provenet.networks.formats.names import activation_name
from provenet.networks.network import Network
from provenet.networks.tolerances import LINEAR_SOFTPLUS

_MODULES: dict[str, tuple[str, dict[str, Any]]] = {
    "relu": ("ReLU", {}),
    "leaky_relu": ("LeakyReLU", {}),
    "sigmoid": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
    "gelu": ("GELU", {}),
    "gelu_tanh": ("GELU", {"approximate": "tanh"}),
    "silu": ("SiLU", {}),
    "softplus": ("Softplus", {"threshold": LINEAR_SOFTPLUS}),
    "elu": ("ELU", {}),
}
"""The module of each family and its options; a leaky one's slope is its own."""


def to_torch(network: Network, dtype: Any = None) -> Any:
    """`Sequential(Linear, activation, .., Linear)`, and `Sigmoid` or `Softmax` for a link.

    Doubles unless a torch dtype is given.
    """
    torch = package("torch", "Network.to_torch", "torch")
    activation_name(network, "A torch.nn.Sequential")
    same = _in_modules(network)
    if same is None:
        linear = " with a linear term" if network.linear is not None else ""
        raise InvalidInput(
            f"torch.nn has no units {network.activation.name}{linear}: it takes abs, "
            f"{', '.join(_MODULES)}, and a linear term beside those that a sum of two makes linear "
            "(not sigmoid, tanh, elu); write an .onnx file instead."
        )
    kind = torch.float64 if dtype is None else dtype
    first, *others = (_linear(torch, *layer, kind) for layer in same.affine_maps)
    above = ((_activation(torch, same), linear) for linear in others)
    return torch.nn.Sequential(first, *chain.from_iterable(above), *_link(torch, network.link))


def _in_modules(network: Network) -> Network | None:
    """The same function in units that are modules, without a linear term."""
    own = linear_as_units(network)
    has_module = own.linear is None and own.activation.family in _MODULES
    return own if has_module else in_relu_units(network)


def _activation(torch: Any, network: Network) -> Any:
    family, slope = network.activation.family, network.activation.slope
    module, options = _MODULES[family]
    if family == "leaky_relu":
        options = {"negative_slope": slope}
    return getattr(torch.nn, module)(**options)


def _link(torch: Any, link: str) -> list[Any]:
    """The module that makes probabilities of outputs, if there is one."""
    modules = {"logit": [torch.nn.Sigmoid()], "softmax": [torch.nn.Softmax(dim=1)]}
    return modules.get(link, [])


def _linear(torch: Any, weights: Array, biases: Array, dtype: Any) -> Any:
    """A layer filled with copies: torch would warn of, or write into, arrays it shares."""
    # skip_init draws no random numbers: the caller's random state stays as it is.
    layer = torch.nn.utils.skip_init(torch.nn.Linear, *weights.shape[::-1], dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(np.array(weights)))
        layer.bias.copy_(torch.tensor(np.array(biases)))
    return layer
