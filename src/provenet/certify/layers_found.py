"""Layers that were found one after the other, from the inputs on, and how far that went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.networks.network import DeepNetwork

EXPLAINED = "all gradients explained"
"""Of a layer that is whole, as far as questions show."""


@dataclass(frozen=True)
class LayerFound:
    """The units of one layer, as far as they were found."""

    weights: Array
    """(units, units of the layer below or features), rows of norm 1."""
    biases: Array
    whole: bool
    """Every gradient measured is explained by these units: the next layer may be looked for. A unit
    that is hardly ever on may be missing all the same."""
    note: str = ""
    """Why not, as a clause."""

    def __str__(self) -> str:
        """How many units, and whether these explain what they must."""
        units = counted(len(self.weights), "unit")
        return f"{units}, {EXPLAINED if self.whole else self.note or 'not whole'}"


@dataclass(frozen=True)
class LayersFound:
    """All layers of which units were found."""

    layers: tuple[LayerFound, ...]

    @property
    def whole(self) -> tuple[LayerFound, ...]:
        """Those from the inputs on whose units explain every gradient."""
        return tuple(takewhile(lambda layer: layer.whole, self.layers))

    @property
    def network(self) -> DeepNetwork | None:
        """The whole ones as a network whose outputs are the units of the last; None without any."""
        whole = self.whole
        if not whole:
            return None
        weights = [*(layer.weights for layer in whole), np.eye(len(whole[-1].weights))]
        biases = [*(layer.biases for layer in whole), None]
        return DeepNetwork(weights, biases, outputs=len(weights[-1]))

    def __str__(self) -> str:
        """A clause: "layer 1: 4 units, all gradients explained; layer 2: 7 units, not whole"."""
        return "; ".join(f"{name}: {text}" for name, text in self.facts()) or "no unit of any layer"

    def facts(self) -> Iterator[tuple[str, str]]:
        """What there is to tell, as name and text."""
        for number, layer in enumerate(self.layers, start=1):
            yield f"layer {number}", str(layer)
