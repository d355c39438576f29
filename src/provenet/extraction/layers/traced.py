"""What the search for several layers hands over; `certify.asked` judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from provenet.certify.answered import Answered
from provenet.certify.layers_found import LayerFound
from provenet.common.exceptions import Spent
from provenet.networks.network import DeepNetwork

__all__ = ["LayerFound", "TracedLayers"]


@dataclass(frozen=True)
class TracedLayers:
    """Layers of a function, from the inputs on."""

    network: DeepNetwork | None
    """Outputs in rows; None where the layers above those found were not."""
    layers: tuple[LayerFound, ...]
    guides: Answered
    """Points that were asked for other purposes, and the answers."""
    error: float
    """How far rounding lets a row be off, relatively; infinite where that is not known."""
    spent: Spent | None = None
    """What ended the search too early."""
    search: Any = None
    """Where it stands: it goes on from there with points that refuted its answer."""
