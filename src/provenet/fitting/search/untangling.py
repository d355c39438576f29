"""Untangling: units that carry what reversed ones lack are dropped, all at once.

Where `sigma(-z) = sigma(z) - z` (ReLU, GELU, SiLU, softplus) a search takes many units for their
opposites, and carries the differences, which are linear in what the layer is given, in further
units: some that are straight on the samples, some pairs `sigma(z) - sigma(-z)`. None of these can
be dropped alone, nor with one other reversed once there are several: each of them carries a bit of
every difference. But the function is already the hidden network's, and so linear algebra tells.

Of a layer h are the inputs, F = sigma(z) the values, T what it feeds (the arguments of the layer
above, each weighted by how much the output changes with it; the output itself for the highest).
Everything is centred.

1. *What is needed if the inputs may pass by.* T lies in the span of F. Regressed on F and h
   together a unit that is straight, one of a pair and one of two equal ones cost nothing: without
   unit i the sum of squares grows by `|C_i|^2 / (G^-1)_ii`, G the Gram matrix of what is left and C
   the coefficients. The cheapest is dropped while all that were dropped cost less than a limit.
   What remains are the kinks that T has, once each: `T = F U + h V`.
2. *Which are reversed.* With unit i reversed `F_i = sigma(-z_i) + z_i`, so that the inputs pass by
   with `h V + sum_i s_i z_i U_i`, s_i = 1 for those reversed. The right s make it vanish: least
   squares, `(U U^T o z^T z) s = -diag(U (h V)^T z)`, since the rank-one matrices of different units
   are independent. Rounded to 0 or 1.
3. The layer of the units that remain, reversed so, is folded in (`folding`).

The highest layer comes first: then what the lower ones feed has no units of its own that are
straight, which may carry anything that cancels in their sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.fitting.layered_equations import LayeredPoint
from provenet.fitting.linalg import solve_scaled
from provenet.fitting.model import Parameters
from provenet.fitting.search.folding import folded
from provenet.fitting.search.tolerances import (
    FOLD_RIDGE,
    UNTANGLE_RIDGE,
    UNTANGLE_ROWS,
    UNTANGLED_WITHIN,
)
from provenet.networks.activations import Activation


def untangled(
    parameters: Parameters, activation: Activation, X: Array, spread: float, finest: float
) -> Iterator[Parameters]:
    """With fewer units, from as good as the model to ever coarser, each of other widths.

    `spread` is that of the labels, `finest` the least root mean square error that is allowed.
    """
    seen = {parameters.widths}
    for within in (spread * share for share in UNTANGLED_WITHIN if spread * share >= finest):
        simpler = _untangled(parameters, activation, X[:UNTANGLE_ROWS], within)
        if simpler.widths not in seen:
            seen.add(simpler.widths)
            yield simpler


def _untangled(
    parameters: Parameters, activation: Activation, X: Array, within: float
) -> Parameters:
    """Every layer untangled, root mean square errors of so much allowed in each."""
    for number in reversed(range(len(parameters.layers))):
        layer = _TangledLayer.of(parameters, activation, X, number)
        kept, U, V = _needed(layer, within**2 * len(X))
        signs = np.where(_reversed(layer, kept, U, V), -1.0, 1.0)
        theta = parameters.layers[number][kept] * signs[:, None]
        parameters = folded(parameters, number, theta, activation, X)
    return parameters


@dataclass(frozen=True)
class _TangledLayer:
    """Samples as a layer sees them, one a row, centred."""

    inputs: Array
    arguments: Array
    values: Array
    fed: Array
    """What the layer feeds, in units of the output."""

    @classmethod
    def of(
        cls, parameters: Parameters, activation: Activation, X: Array, number: int
    ) -> _TangledLayer:
        """Evaluate one layer of a model."""
        point = LayeredPoint.at(parameters, activation, X)
        z = point.inputs[number] @ parameters.layers[number].T
        values = activation(z)
        weights = _weights_above(parameters, point, number)
        arrays = (point.inputs[number][:, :-1], z, values, values @ weights)
        return cls(*(array - array.mean(axis=0) for array in arrays))


def _weights_above(parameters: Parameters, point: LayeredPoint, number: int) -> Array:
    """(units, fed): the output weights, or those of the layer above times how much each counts."""
    if number == len(parameters.layers) - 1:
        return np.asarray(parameters.output_weights.T)
    counts = np.zeros(parameters.widths[number + 1])
    for weights in parameters.output_weights:
        top = np.broadcast_to(weights, (len(point.phi), len(weights)))
        deltas = list(point.deltas(top))[::-1]
        counts += np.mean(deltas[number + 1] ** 2, axis=0)
    return np.asarray((np.sqrt(counts)[:, None] * parameters.layers[number + 1][:, :-1]).T)


def _needed(layer: _TangledLayer, limit: float) -> tuple[AnyArray, Array, Array]:
    """The units that are needed where the inputs pass by, their coefficients and the inputs'."""
    features = np.hstack([layer.values, layer.inputs])
    gram, match = features.T @ features, features.T @ layer.fed
    units, kept, spent = layer.values.shape[1], np.arange(features.shape[1]), 0.0
    while True:
        inverse = solve_scaled(gram[np.ix_(kept, kept)], np.eye(len(kept)), UNTANGLE_RIDGE)
        coefficients = inverse @ match[kept]
        width = int(np.sum(kept < units))
        cost = np.sum(coefficients[:width] ** 2, axis=1) / np.diag(inverse)[:width]
        spent += cost.min()
        if width == 1 or spent > limit:
            return kept[:width], coefficients[:width], coefficients[width:]
        kept = np.delete(kept, np.argmin(cost))


def _reversed(layer: _TangledLayer, kept: AnyArray, U: Array, V: Array) -> AnyArray:
    """Which units are to be reversed so that no inputs need to pass by."""
    z, passing = layer.arguments[:, kept], layer.inputs @ V
    matrix, rhs = (U @ U.T) * (z.T @ z), -np.sum(U * (z.T @ passing), axis=1)
    return np.asarray(solve_scaled(matrix, rhs, FOLD_RIDGE) > 0.5)
