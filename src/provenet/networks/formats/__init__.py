"""Networks in files, and as models of other programs; one reader and one writer a format.

A format's package is imported when such a file is used.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from provenet.common.exceptions import InvalidInput
from provenet.common.files import package

if TYPE_CHECKING:
    from provenet.networks.network import Network


def check_network_name(path: str | PathLike[str]) -> str:
    """The extension; raises before any work is done if no network could be kept under this name."""
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
    """Write a network to a file in the format of its extension."""
    suffix = check_network_name(path)
    from provenet.networks.formats import arrays, onnx_write

    writers = {".npz": arrays.save_npz, ".safetensors": arrays.save_safetensors}
    writers.get(suffix, onnx_write.save_onnx)(network, Path(path))


def load_network(path: str | PathLike[str]) -> Network:
    """Read a network from a file in the format of its extension; the message names the file."""
    suffix = check_network_name(path)
    if not Path(path).is_file():
        raise InvalidInput(f"{path} does not exist or is a folder: check the name.")
    from provenet.networks.formats import arrays, onnx_read

    readers = {".npz": arrays.load_npz_network, ".safetensors": arrays.load_safetensors}
    try:
        return readers.get(suffix, onnx_read.load_onnx)(Path(path))
    except InvalidInput as error:
        message = str(error)
        raise InvalidInput(message if str(path) in message else f"{path}: {message}") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.") from None
