"""A network in a safetensors file: named tensors and a few words of metadata, no code.

Read are tensors under the names of a network's arrays, as provenet writes them, and those of a
PyTorch `Sequential(Linear, activation, Linear, ...)` of any depth. The activation and the link
stand in the metadata; without them, they are ReLU and the identity.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import write_atomically
from provenet.common.optional import package
from provenet.common.typing import AnyArray
from provenet.common.version import __version__
from provenet.networks.formats.names import (
    REQUIRED,
    activation_name,
    arrays_of,
    network_of,
    network_of_maps,
    required,
)
from provenet.networks.network import AffineMap, Network

_REAL = ("F64", "F32", "F16")
_PARTS = ("weight", "bias")
"""Of a linear module of torch."""


def save(network: Network, path: Path) -> None:
    """Write the tensors in double precision, bit for bit."""
    metadata = {
        "format": "provenet",
        "version": __version__,
        "activation": activation_name(network, path),
        "link": network.link,
    }
    # The format holds rows in order: an array that is not would be written scrambled.
    tensors = {name: np.array(array, order="C") for name, array in arrays_of(network).items()}
    content = _package(path, ".numpy").save(tensors, metadata=metadata)
    write_atomically(path, lambda file: file.write(content))


def load(path: Path) -> Network:
    """Read a network by the names of its tensors."""
    tensors, metadata = _read(path)
    names = set(tensors)
    activation, link = metadata.get("activation", "relu"), metadata.get("link", "identity")
    needed = set(required(names))
    if needed <= names <= {*needed, *({"linear"} if needed == set(REQUIRED) else ())}:
        return network_of(tensors, activation, link)
    linears = _linears(names)
    if len(linears) > 1 and names <= {f"{k}.{part}" for k in linears for part in _PARTS}:
        return network_of_maps([_map(path, tensors, k) for k in linears], activation, link)
    raise InvalidInput(
        f"{path} does not hold a network of fully connected layers (its tensors are "
        f"{_listed(names)}): name them {', '.join(REQUIRED)}, or 0.weight, 0.bias, 2.weight, "
        "2.bias and so on as in a torch.nn.Sequential."
    )


def _linears(names: set[str]) -> range:
    """The places of the linear modules of a Sequential, every second one."""
    end = next(k for k in count(0, 2) if f"{k}.weight" not in names)
    return range(0, end, 2)


def _map(path: Path, tensors: dict[str, AnyArray], k: int) -> AffineMap:
    """Weights and biases of one of them; without biases, zeros."""
    W = tensors[f"{k}.weight"]
    if W.ndim != 2:
        raise InvalidInput(
            f"{path} has {k}.weight of shape {W.shape}: give a matrix, as of a torch.nn.Linear."
        )
    b = tensors.get(f"{k}.bias", np.zeros(len(W)))
    if b.shape != (len(W),):
        raise InvalidInput(f"{path} has {k}.bias of shape {b.shape}: give it shape ({len(W)},).")
    return W, b


def _read(path: Path) -> tuple[dict[str, AnyArray], dict[str, str]]:
    safetensors = _package(path)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            _check_types(path, file)
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise InvalidInput(
            f"{path} is truncated or not a safetensors file ({str(error).rstrip('.')}): "
            "write it again."
        ) from None


def _check_types(path: Path, file: Any) -> None:
    for name in file.keys():  # noqa: SIM118
        kind = file.get_slice(name).get_dtype()
        if kind not in _REAL:
            raise InvalidInput(
                f"{path} has a tensor {name} of type {kind}: give real numbers of 16, 32 or 64 "
                "bits (F16, F32, F64)."
            )


def _listed(names: set[str]) -> str:
    shown = sorted(names)[:8]
    return ", ".join(shown + ["..."] * (len(names) > len(shown))) or "none"


def _package(path: Path, module: str = "") -> Any:
    return package(f"safetensors{module}", path, '"provenet[safetensors]"')
