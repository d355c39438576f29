"""Networks as named arrays: `.npz` archives of NumPy, and safetensors files.

One hidden layer is `weights`, `biases`, `output_weights`, `output_bias`, and `linear` if there is a
linear term; several are `weights.0`, `biases.0`, `weights.1` and so on from the inputs on. Where
labels are plain numbers, `output_weights` has no axis of outputs. The names of the activation and
of the link are arrays of an archive, and metadata of a safetensors file.

A safetensors file may also hold a PyTorch `Sequential(Linear, activation, Linear, ...)`, as
`0.weight`, `0.bias`, `2.weight` and so on; without metadata its units are ReLU.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common import __version__
from provenet.common.exceptions import InvalidInput
from provenet.common.files import load_npz, package, write_atomically, write_npz
from provenet.common.typing import AnyArray
from provenet.networks.activations import is_own
from provenet.networks.network import DeepNetwork, Network


def network_of_arrays(arrays: Mapping[str, AnyArray], activation: str, link: str) -> Network:
    """The network of arrays under their names; `KeyError` if one is missing."""
    *hidden, A, c = (arrays[name] for name in _names_among(arrays))
    if len(hidden) == 2:
        W, b = hidden
        return Network(W, b, A, c, activation, linear=arrays.get("linear"), link=link)
    weights, biases = [*hidden[::2], np.atleast_2d(A)], [*hidden[1::2], np.atleast_1d(c)]
    outputs = None if A.ndim == 1 else len(A)
    return DeepNetwork(weights, biases, activation, outputs=outputs, link=link)


def network_of_layers(weights: Any, biases: Any, activation: str, link: str) -> Network:
    """The network of weights and biases a layer; one output gives plain labels."""
    network = DeepNetwork(weights, biases, activation, link=link)
    return network if network.layers > 1 else network.as_one_layer()


def check_has_name(network: Network, where: str | Path) -> None:
    """Raise unless the activation's name stands for it: a user's own object cannot be written."""
    if is_own(network.activation):
        raise InvalidInput(
            f"{where} cannot hold the activation {network.activation.name!r}, an object of your "
            "own: only activations that provenet knows by name can be written."
        )


def save_npz(network: Network, path: Path) -> None:
    """Write an archive."""
    names = {"activation": network.activation.name, "link": network.link}
    write_npz(path, {**named_arrays(network, path), **names})


def load_npz_network(path: Path) -> Network:
    """Read an archive that `save_npz` wrote; nothing is ever unpickled."""
    arrays = load_npz(path)
    missing = [name for name in (*_names_among(arrays), "activation") if name not in arrays]
    if missing:
        raise InvalidInput(
            f"{path} is not a network file: it lacks {', '.join(missing)}; "
            "use a file written by Network.save."
        )
    link = str(arrays.get("link", "identity"))
    return network_of_arrays(arrays, str(arrays["activation"]), link)


def save_safetensors(network: Network, path: Path) -> None:
    """Write tensors in double precision, bit for bit."""
    names = {"activation": network.activation.name, "link": network.link}
    arrays = named_arrays(network, path)
    # The format stores rows in order: an array in another order would be scrambled.
    tensors = {name: np.array(array, order="C") for name, array in arrays.items()}
    metadata = {"format": "provenet", "version": __version__, **names}
    content = _package(path, ".numpy").save(tensors, metadata=metadata)
    write_atomically(path, lambda file: file.write(content))


def load_safetensors(path: Path) -> Network:
    """Read a network of provenet's or of PyTorch's names."""
    safetensors = _package(path)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            names, metadata = sorted(file.keys()), file.metadata() or {}
            types = {name: file.get_slice(name).get_dtype() for name in names}
            others = [
                f"{n} of type {t}" for n, t in types.items() if t not in ("F64", "F32", "F16")
            ]
            if others:
                raise InvalidInput(
                    f"{path} has a tensor {others[0]}: give real numbers of 16, 32 or 64 bits "
                    "(F16, F32, F64)."
                )
            tensors = {name: file.get_tensor(name) for name in names}
    except safetensors.SafetensorError as error:
        raise InvalidInput(
            f"{path} is truncated or not a safetensors file ({str(error).rstrip('.')}): "
            "write it again."
        ) from None
    activation, link = metadata.get("activation", "relu"), metadata.get("link", "identity")
    required = set(_names_among(names))
    if required <= set(names) <= required | {"linear"}:
        return network_of_arrays(tensors, activation, link)
    linears = list(takewhile(lambda k: f"{k}.weight" in names, count(0, 2)))
    ours = {f"{k}.{part}" for k in linears for part in ("weight", "bias")}
    if len(linears) > 1 and ours.issuperset(names):
        weights = [tensors[f"{k}.weight"] for k in linears]
        biases = [tensors.get(f"{k}.bias") for k in linears]
        return network_of_layers(weights, biases, activation, link)
    shown = ", ".join(names[:8] + ["..."] * (len(names) > 8)) or "none"
    raise InvalidInput(
        f"{path} does not hold a network of fully connected layers (its tensors are {shown}): name "
        f"them {', '.join(_names(1))}, or 0.weight, 0.bias, 2.weight, 2.bias and so on as in a "
        "torch.nn.Sequential."
    )


def _names(layers: int) -> list[str]:
    """Of the weights and biases of every layer, the outputs' last."""
    hidden = [""] if layers == 1 else [f".{number}" for number in range(layers)]
    numbered = [f"{name}{mark}" for mark in hidden for name in ("weights", "biases")]
    return [*numbered, "output_weights", "output_bias"]


def _names_among(names: Collection[str]) -> list[str]:
    """The names that a network needs of which some are given: as many layers as have weights."""
    return _names(next(number for number in count() if f"weights.{number}" not in names) or 1)


def named_arrays(network: Network, where: str | Path) -> dict[str, AnyArray]:
    """A network's arrays under their names, for a file or whatever is to hold them."""
    check_has_name(network, where)
    *hidden, (A, c) = network.affine_maps
    outputs = (A[0], np.asarray(c[0])) if network.outputs is None else (A, c)
    named = dict(zip(_names(len(hidden)), chain(*hidden, outputs), strict=True))
    return named if network.linear is None else {**named, "linear": network.linear}


def _package(path: Path, module: str = "") -> Any:
    return package(f"safetensors{module}", path, '"provenet[safetensors]"')
