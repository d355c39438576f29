"""A network of any depth, or its standard errors, as the hidden layers that tables show.

Each has its weights and biases; the output weights stand beside the units of the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.fitting.covariance import DeepErrors
from provenet.networks.network import AffineMap, Network


@dataclass(frozen=True)
class UnitLayer:
    """What a table says of the units of one hidden layer, or how sure that is."""

    weights: Array
    """(units, inputs)."""
    biases: Array
    output_weights: Array | None
    """(outputs, units), or (units,) of plain labels; None below the last hidden layer."""

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self.weights)

    @property
    def inputs(self) -> int:
        """Number of features, or of units of the layer below."""
        return int(self.weights.shape[1])

    @property
    def outputs(self) -> int | None:
        """Number of outputs; None of plain labels and below the last hidden layer."""
        A = self.output_weights
        return None if A is None or A.ndim == 1 else len(A)

    @property
    def sizes(self) -> Array:
        """`|w| + |a| + |b|` of each unit, which is what `parameter_error` measures."""
        A = np.zeros((0, self.units)) if self.output_weights is None else self.output_weights
        outputs = np.linalg.norm(np.atleast_2d(A), axis=0)
        return np.asarray(np.linalg.norm(self.weights, axis=1) + outputs + np.abs(self.biases))


@dataclass(frozen=True)
class Layered:
    """All parameters but a linear term."""

    layers: tuple[UnitLayer, ...]
    output_bias: Array
    """(outputs,)."""

    @classmethod
    def of(cls, network: Network) -> Layered:
        """Of a network, as it is."""
        return cls._of_maps(network.affine_maps, network.outputs is None)

    @classmethod
    def of_errors(cls, errors: Any, network: Network) -> Layered:
        """Of the standard errors of this network."""
        return cls._of_maps(_maps(errors), network.outputs is None)

    @classmethod
    def _of_maps(cls, maps: tuple[AffineMap, ...], plain: bool) -> Layered:
        *hidden, (A, c) = maps
        last = len(hidden) - 1
        outputs = A[0] if plain else A
        layers = (
            UnitLayer(W, b, outputs if k == last else None) for k, (W, b) in enumerate(hidden)
        )
        return cls(tuple(layers), c)

    def title(self, number: int) -> str:
        """What a table of this layer is called; nothing where there is one alone."""
        if len(self.layers) == 1:
            return ""
        layer = self.layers[number]
        fed = counted(layer.inputs, "feature") if number == 0 else f"layer {number}"
        return f"Layer {number + 1}: {counted(layer.units, 'unit')} on {fed}"


def _maps(errors: Any) -> tuple[AffineMap, ...]:
    """Standard errors in the shapes of a network's `affine_maps`."""
    if isinstance(errors, DeepErrors):
        return tuple(zip(errors.weights, errors.biases, strict=True))
    A = np.atleast_2d(errors.output_weights)
    c = np.broadcast_to(errors.output_bias, len(A))
    return (errors.weights, errors.biases), (A, c)
