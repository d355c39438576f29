"""A network in an `.npz` archive of NumPy: its arrays, and the names of its activation and link."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from provenet.common.exceptions import InvalidInput
from provenet.common.files import load_npz, write_npz
from provenet.networks.formats.names import activation_name, arrays_of, network_of, required
from provenet.networks.network import Network


def save(network: Network, path: Path) -> None:
    """Write the archive."""
    name = np.asarray(activation_name(network, path))
    link = {} if network.link == "identity" else {"link": np.asarray(network.link)}
    write_npz(path, {**arrays_of(network), "activation": name, **link})


def load(path: Path) -> Network:
    """Read an archive that `save` wrote; nothing is ever unpickled."""
    arrays = load_npz(path)
    missing = [name for name in (*required(arrays), "activation") if name not in arrays]
    if missing:
        raise InvalidInput(
            f"{path} is not a network file: it lacks {', '.join(missing)}; "
            "use a file written by Network.save."
        )
    link = str(arrays.get("link", "identity"))
    return network_of(arrays, str(arrays["activation"]), link)
