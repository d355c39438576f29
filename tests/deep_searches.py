"""Deep networks, and searches that "find" what they are told: the rest of the road is tested."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import provenet as pn
from provenet.certify.answered import Answered
from provenet.common.exceptions import Spent
from provenet.extraction import layers as room
from provenet.extraction.layers.traced import LayerFound, TracedLayers

SEARCH = "provenet.extraction.layers.search"


def deep(*sizes: int, rng: int = 0) -> pn.DeepNetwork:
    """Weights of variance 1 over the fan-in, biases of deviation 0.3."""
    generator = np.random.default_rng(rng)
    weights = [generator.standard_normal((n, m)) / np.sqrt(m) for m, n in pairwise(sizes)]
    return pn.DeepNetwork(weights, [0.3 * generator.standard_normal(len(W)) for W in weights])


def found_layers(net: pn.DeepNetwork) -> tuple[LayerFound, ...]:
    """All of them, whole."""
    return tuple(LayerFound(W, b, True) for W, b in net.normalised().affine_maps[:-1])


class Finds:
    """A search that finds a network, or the layers given, and counts how often it is asked."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        net: pn.DeepNetwork | None = None,
        *,
        error: float = 1e-12,
        layers: tuple[LayerFound, ...] | None = None,
        spent: Spent | None = None,
        first: Callable[..., Any] | None = None,
    ) -> None:
        self.handed: list[Answered] = []
        self.layers: list[int | None] = []

        def trace_layers(ask: Any, box: Any, rng: Any, **given: Any) -> TracedLayers:
            self.handed.append(given["guides"])
            self.layers.append(given["layers"])
            if first is not None:
                first(ask, box, rng)
            own = () if net is None else found_layers(net)
            whole = None
            if net is not None and layers is None:
                whole = pn.DeepNetwork(net.weights, net.biases, outputs=len(net.weights[-1]))
            found = own if layers is None else layers
            return TracedLayers(whole, found, given["guides"], error, spent)

        module = SimpleNamespace(trace_layers=trace_layers)
        monkeypatch.setitem(sys.modules, SEARCH, module)
        monkeypatch.setattr(room, "search", module, raising=False)

    @property
    def calls(self) -> int:
        """How often."""
        return len(self.handed)
