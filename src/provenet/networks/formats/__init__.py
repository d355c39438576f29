"""Networks in files of other programs, one module a format; the door is this table by extension.

A format's module has `save(network, path)` and `load(path)`. It is imported when such a file is
used, and so is the package that the format needs.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from provenet.common.exceptions import InvalidInput
from provenet.common.optional import package

if TYPE_CHECKING:
    from provenet.networks.network import Network

_MODULES = {".npz": "npz", ".safetensors": "safetensors_file", ".onnx": "onnx_file"}
_EXTRAS = {".safetensors": "safetensors", ".onnx": "onnx"}
"""The package that a format needs, and the extra of provenet of the same name."""


class Format(Protocol):
    """What a format's module offers."""

    def save(self, network: Network, path: Path) -> None:
        """Write the network, whole or not at all."""

    def load(self, path: Path) -> Network:
        """Read a network; bad input is one sentence."""


def check_network_name(path: str | PathLike[str]) -> None:
    """Raise before any work is done if no network could be kept under this name."""
    suffix = Path(path).suffix.lower()
    if suffix not in _MODULES:
        raise InvalidInput(
            f"{path} cannot hold a network: give it a name that ends in .npz, .safetensors or "
            ".onnx."
        )
    if suffix in _EXTRAS:
        package(_EXTRAS[suffix], path, f'"provenet[{_EXTRAS[suffix]}]"')


def save_network(network: Network, path: str | PathLike[str]) -> None:
    """Write a network to a file in the format of its extension."""
    check_network_name(path)
    _format(path).save(network, Path(path))


def load_network(path: str | PathLike[str]) -> Network:
    """Read a network from a file in the format of its extension; the message names the file."""
    check_network_name(path)
    if not Path(path).is_file():
        raise InvalidInput(f"{path} does not exist or is a folder: check the name.")
    try:
        return _format(path).load(Path(path))
    except InvalidInput as error:
        message = str(error)
        raise InvalidInput(message if str(path) in message else f"{path}: {message}") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from None


def _format(path: str | PathLike[str]) -> Format:
    module = import_module(f"{__name__}.{_MODULES[Path(path).suffix.lower()]}")
    return cast(Format, module)
