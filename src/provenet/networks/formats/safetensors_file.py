"""A network in a safetensors file: named tensors and a few words of metadata, no code.

Read are tensors under the names of a network's arrays, as provenet writes them, and those of a
PyTorch `Sequential(Linear, activation, Linear)`. The activation stands in the metadata; without it,
it is ReLU.
"""

from __future__ import annotations

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
    plain_if_one,
)
from provenet.networks.network import Network

_REAL = ("F64", "F32", "F16")
_SEQUENTIAL = ("0.weight", "2.weight")
_SEQUENTIAL_BIASES = ("0.bias", "2.bias")


def save(network: Network, path: Path) -> None:
    """Write the tensors in double precision, bit for bit."""
    metadata = {
        "format": "provenet",
        "version": __version__,
        "activation": activation_name(network, path),
    }
    # The format holds rows in order: an array that is not would be written scrambled.
    tensors = {name: np.array(array, order="C") for name, array in arrays_of(network).items()}
    content = _package(path, ".numpy").save(tensors, metadata=metadata)
    write_atomically(path, lambda file: file.write(content))


def load(path: Path) -> Network:
    """Read a network by the names of its tensors."""
    tensors, metadata = _read(path)
    names = set(tensors)
    activation = metadata.get("activation", "relu")
    if set(REQUIRED) <= names <= {*REQUIRED, "linear"}:
        return network_of(tensors, activation)
    if set(_SEQUENTIAL) <= names <= {*_SEQUENTIAL, *_SEQUENTIAL_BIASES}:
        return _sequential(path, tensors, activation)
    raise InvalidInput(
        f"{path} does not hold a network with one hidden layer (its tensors are "
        f"{_listed(names)}): name them {', '.join(REQUIRED)}, or 0.weight, 0.bias, 2.weight, "
        "2.bias as in a torch.nn.Sequential."
    )


def _sequential(path: Path, tensors: dict[str, AnyArray], activation: str) -> Network:
    W, A = (tensors[name] for name in _SEQUENTIAL)
    if W.ndim != 2 or A.ndim != 2:
        raise InvalidInput(
            f"{path} has weights of shapes {W.shape} and {A.shape}: give two matrices, as of two "
            "torch.nn.Linear."
        )
    b, c = (
        tensors.get(name, np.zeros(len(matrix)))
        for name, matrix in zip(_SEQUENTIAL_BIASES, (W, A), strict=True)
    )
    if c.shape != (len(A),):
        raise InvalidInput(f"{path} has 2.bias of shape {c.shape}: give it shape ({len(A)},).")
    A, c, _ = plain_if_one(A, c, None)
    return Network(W, b, A, c, activation)


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
