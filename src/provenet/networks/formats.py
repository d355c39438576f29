"""Networks in files: `.npz` archives, safetensors, and ONNX models (`onnx_models`).

One hidden layer is `weights`, `biases`, `output_weights`, `output_bias`, and `linear` if there is a
linear term; several are `weights.0`, `biases.0`, `weights.1` and so on from the inputs on. Where
labels are plain numbers, `output_weights` has no axis of outputs. The names of the activation and
of the link are arrays of an archive, and metadata of a safetensors file.

A safetensors file may also hold a PyTorch `Sequential(Linear, activation, Linear, ...)`, as
`0.weight`, `0.bias`, `2.weight` and so on; without metadata its units are ReLU.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from itertools import chain, count, takewhile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from provenet.common import __version__
from provenet.common.exceptions import InvalidInput
from provenet.common.files import load_npz, package, write_atomically, write_npz
from provenet.common.typing import AnyArray
from provenet.networks.activations import is_own
from provenet.networks.network import DeepNetwork, Network


def check_network_name(path: str | PathLike[str]) -> str:
    """The extension; raises before any work is done if no network can have this file name."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".npz", ".safetensors", ".onnx"):
        raise InvalidInput(
            f"{path} cannot hold a network: give it a name that ends in .npz, .safetensors or "
            ".onnx."
        )
    if suffix != ".npz":
        package(suffix[1:], path, f'"provenet[{suffix[1:]}]"')
    return suffix


def save_network(network: Network, path: str | PathLike[str]) -> None:
    """Write a network to a file in the format of its extension, in double precision."""
    suffix = check_network_name(path)
    if suffix == ".onnx":
        from provenet.networks.onnx_models import to_onnx

        content = to_onnx(network, where=path).SerializeToString()
        write_atomically(path, lambda file: file.write(content))
        return
    arrays = named_arrays(network, path)
    names = {"activation": network.activation.name, "link": network.link}
    if suffix == ".npz":
        write_npz(path, {**arrays, **names})
        return
    # The format stores rows in order: an array in another order would be scrambled.
    tensors = {name: np.array(array, order="C") for name, array in arrays.items()}
    metadata = {"format": "provenet", "version": __version__, **names}
    content = import_module("safetensors.numpy").save(tensors, metadata=metadata)
    write_atomically(path, lambda file: file.write(content))


def load_network(path: str | PathLike[str]) -> Network:
    """Read a network from an .npz, .safetensors or .onnx file.

    A `Network` if it has one hidden layer, a `DeepNetwork` if it has more.
    """
    suffix = check_network_name(path)
    if not Path(path).is_file():
        raise InvalidInput(f"{path} does not exist or is a folder: check the name.")
    try:
        if suffix == ".onnx":
            from provenet.networks.onnx_models import load_onnx

            return load_onnx(Path(path))
        return _load_npz(path) if suffix == ".npz" else _load_safetensors(path)
    except InvalidInput as error:
        message = str(error)
        raise InvalidInput(message if str(path) in message else f"{path}: {message}") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from None


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
    """The network of the weights and biases of each layer; one output gives plain labels."""
    network = DeepNetwork(weights, biases, activation, link=link)
    return network if network.layers > 1 else network.as_one_layer()


def check_has_name(network: Network, where: str | PathLike[str]) -> None:
    """Raise for an activation of the user's own, which no file or other model can hold."""
    if is_own(network.activation):
        raise InvalidInput(
            f"{where} cannot hold the activation {network.activation.name!r}, an object of your "
            "own: only activations that provenet knows by name can be written."
        )


def named_arrays(network: Network, where: str | PathLike[str]) -> dict[str, AnyArray]:
    """A network's arrays under their names."""
    check_has_name(network, where)
    *hidden, (A, c) = network.affine_maps
    outputs = (A[0], np.asarray(c[0])) if network.outputs is None else (A, c)
    named = dict(zip(_names(len(hidden)), chain(*hidden, outputs), strict=True))
    return named if network.linear is None else {**named, "linear": network.linear}


def _names(layers: int) -> list[str]:
    """The names of the weights and biases of every layer, the outputs' last."""
    hidden = [""] if layers == 1 else [f".{number}" for number in range(layers)]
    numbered = [f"{name}{mark}" for mark in hidden for name in ("weights", "biases")]
    return [*numbered, "output_weights", "output_bias"]


def _names_among(names: Collection[str]) -> list[str]:
    """The names that a network needs, with as many layers as have weights here."""
    return _names(next(number for number in count() if f"weights.{number}" not in names) or 1)


def _load_npz(path: str | PathLike[str]) -> Network:
    arrays = load_npz(path)
    missing = [name for name in (*_names_among(arrays), "activation") if name not in arrays]
    if missing:
        raise InvalidInput(
            f"{path} is not a network file: it lacks {', '.join(missing)}; "
            "use a file written by Network.save."
        )
    link = str(arrays.get("link", "identity"))
    return network_of_arrays(arrays, str(arrays["activation"]), link)


def _load_safetensors(path: str | PathLike[str]) -> Network:
    """Read a network of provenet's or of PyTorch's names."""
    safetensors = import_module("safetensors")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            types = {name: file.get_slice(name).get_dtype() for name in sorted(file.keys())}
            for name, kind in types.items():
                if kind not in ("F64", "F32", "F16"):
                    raise InvalidInput(
                        f"{path} has a tensor {name} of type {kind}: give real numbers of 16, 32 "
                        "or 64 bits (F16, F32, F64)."
                    )
            tensors = {name: file.get_tensor(name) for name in types}
    except safetensors.SafetensorError as error:
        raise InvalidInput(
            f"{path} is truncated or not a safetensors file ({str(error).rstrip('.')}): "
            "write it again."
        ) from None
    activation, link = metadata.get("activation", "relu"), metadata.get("link", "identity")
    required = set(_names_among(tensors))
    if required <= tensors.keys() <= required | {"linear"}:
        return network_of_arrays(tensors, activation, link)
    linears = list(takewhile(lambda k: f"{k}.weight" in tensors, count(0, 2)))
    ours = {f"{k}.{part}" for k in linears for part in ("weight", "bias")}
    if len(linears) > 1 and ours.issuperset(tensors):
        weights = [tensors[f"{k}.weight"] for k in linears]
        biases = [tensors.get(f"{k}.bias") for k in linears]
        return network_of_layers(weights, biases, activation, link)
    shown = ", ".join([*tensors][:8] + ["..."] * (len(tensors) > 8)) or "none"
    raise InvalidInput(
        f"{path} does not hold a network of fully connected layers (its tensors are {shown}): name "
        f"them {', '.join(_names(1))}, or 0.weight, 0.bias, 2.weight, 2.bias and so on as in a "
        "torch.nn.Sequential."
    )
