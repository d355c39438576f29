"""Folding: another layer in place of one, without those above it noticing.

The layer's new values F' are regressed on its old ones, `F' C ~ F`, and C goes into the weights
that the layer feeds. A unit that is dropped is folded into the others of its layer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from provenet.common.typing import Array
from provenet.fitting.linalg import solve_scaled
from provenet.fitting.model import Parameters, layer_inputs
from provenet.fitting.search.tolerances import FOLD_RIDGE
from provenet.networks.activations import Activation


def folded(
    parameters: Parameters, layer: int, theta: Array, activation: Activation, X: Array
) -> Parameters:
    """With another layer in place of one, what it feeds being given nearly the same."""
    inputs = layer_inputs(parameters, activation, X)[layer]
    old, new = (_values(inputs, own, activation) for own in (parameters.layers[layer], theta))
    C = solve_scaled(new.T @ new, new.T @ old, FOLD_RIDGE)
    layers = list(parameters.layers)
    layers[layer] = theta
    if layer == len(layers) - 1:
        return replace(parameters, beta=C @ parameters.beta).with_layers(tuple(layers))
    layers[layer + 1] = layers[layer + 1] @ C.T
    return parameters.with_layers(tuple(layers))


def _values(inputs: Array, theta: Array, activation: Activation) -> Array:
    """What a layer says, and a one."""
    return np.column_stack(
        [activation(inputs @ theta[:, :-1].T + theta[:, -1]), np.ones(len(inputs))]
    )
