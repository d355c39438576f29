"""From layers that are nearly right to the network as well as the answers tell it.

First the space of the first layer's rows from all gradients (`first_layer`), then everything in
that space from all answers there (`polish`), then that space again, with the coefficients that are
known by then. Each asks for what it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import Array
from provenet.extraction.layers.first_layer import ask_for_rows, rows_from_gradients
from provenet.extraction.layers.known import Frame, KnownLayer, KnownLayers
from provenet.extraction.layers.polish import polished, too_large
from provenet.extraction.layers.remeasure import Nearly
from provenet.extraction.layers.tolerances import (
    FIRST_KNOWN,
    FIRST_KNOWN_ALONE,
    FIRST_MEASURED,
    GRADIENT_ROUNDS,
    LEAST_UNSURE,
    POLISHED_IN_ALL,
    UNSURE_ROWS,
)
from provenet.networks.network import DeepNetwork


@dataclass(frozen=True)
class SettledLayers:
    """The layers, the frame of their row space, and how far rounding lets a row be off."""

    frame: Frame
    nearly: Nearly
    c: Array
    error: float
    measured: tuple[Frame, Nearly]
    """Frame and layers before they were polished, in the best space that gradients tell."""
    polished: bool = False

    @property
    def network(self) -> DeepNetwork:
        """By inputs."""
        own, first = _own(self.nearly, self.c), self.nearly.first
        bias = own.biases[0] - first @ self.frame.base
        return own.replace(weights=(first, *own.weights[1:]), biases=(bias, *own.biases[1:]))


def unpolished(frame: Frame, nearly: Nearly, c: Array) -> SettledLayers:
    """The layers as they are."""
    return SettledLayers(frame, nearly, c, nearly.worst, (frame, nearly))


def settled(frame: Frame, nearly: Nearly, c: Array, rng: np.random.Generator) -> SettledLayers:
    """The same, polished."""
    unsure = float(np.clip(UNSURE_ROWS * nearly.worst, *LEAST_UNSURE))
    now, first = unpolished(frame, nearly, c), 0.0
    if frame.Q is not None:
        wanted = FIRST_KNOWN_ALONE if too_large(_own(nearly, c)) else FIRST_KNOWN
        now, first = _in_better_space(now, rng, wanted)
    now = replace(now, error=max(now.error, first), measured=(now.frame, now.nearly))
    places = np.vstack(now.nearly.places)
    better = polished(now.frame, _own(now.nearly, now.c), places, unsure, rng)
    if better is None:
        return _polished_above(now, first, places, unsure, rng)
    now = _with(now, better.network, max(first, better.error))
    return now if frame.Q is None else _in_better_space(now, rng, FIRST_KNOWN)[0]


def _polished_above(
    now: SettledLayers, space: float, places: Array, unsure: float, rng: np.random.Generator
) -> SettledLayers:
    """All layers but the first polished, where these are not too many and the first is known.

    What the first is off by, outside of the space of its rows and in it, moves the others alike:
    the errors add up.
    """
    first = float(np.hypot(space, now.nearly.errors[0].max()))
    own, below = _own(now.nearly, now.c), now.nearly.known.below(1)
    if first > FIRST_MEASURED or own.layers < 2:
        return now
    above = own.replace(weights=own.weights[1:], biases=own.biases[1:])
    better = polished(now.frame, above, places, unsure, rng, below, POLISHED_IN_ALL - first)
    return now if better is None else _with(now, below.under(better.network), first + better.error)


def _in_better_space(
    now: SettledLayers, rng: np.random.Generator, wanted: float
) -> tuple[SettledLayers, float]:
    """In the row space that all gradients tell, and how far rounding lets that be off.

    Up to what standard error is `wanted`, further gradients are asked for.
    """
    network, nearly = now.network, now.nearly
    first = rows_from_gradients(now.frame, network)
    for _ in range(GRADIENT_ROUNDS):
        good = first.errors.max() <= wanted
        if good or not ask_for_rows(now.frame, network, first, wanted, rng):
            break
        first = rows_from_gradients(now.frame, network)
    frame = replace(now.frame.in_row_space(first.W), level=first.level)
    assert frame.Q is not None, "the row space is smaller than that of the inputs"
    W = nearly.first @ frame.Q
    below, *others = nearly.known.layers
    layers = KnownLayer.of(W, below.b), *others
    places = tuple(frame.coordinates_of(now.frame.inputs(U)) for U in nearly.places)
    known = KnownLayers(frame.coordinates, layers)
    nearly = replace(nearly, known=known, places=places, first=W @ frame.Q.T)
    return replace(now, frame=frame, nearly=nearly), float(first.errors.max())


def _own(nearly: Nearly, c: Array) -> DeepNetwork:
    """The network in coordinates."""
    layers = nearly.known.layers
    weights, biases = [layer.W for layer in layers], [layer.b for layer in layers]
    return DeepNetwork([*weights, nearly.A], [*biases, c], outputs=len(nearly.A))


def _with(now: SettledLayers, own: DeepNetwork, error: float) -> SettledLayers:
    """With another network in the same coordinates."""
    nearly = now.nearly
    layers = tuple(
        replace(layer, W=W, b=b)
        for layer, (W, b) in zip(nearly.known.layers, own.affine_maps[:-1], strict=True)
    )
    A, c = own.affine_maps[-1]
    Q, W = now.frame.Q, own.weights[0]
    errors = tuple(np.full(len(layer.W), error) for layer in layers)
    nearly = replace(
        nearly,
        known=KnownLayers(nearly.known.coordinates, layers),
        first=W if Q is None else W @ Q.T,
        A=A,
        errors=errors,
    )
    return replace(now, nearly=nearly, c=c, error=error, polished=True)
