"""A unit in the forms that leave the function as it is, and what makes up for each elsewhere.

With `z = w.x + b`, output weight a, and `m = 1 + slope` (see `Symmetry`; P is a period),

    odd       a sigma(z) = -a sigma(-z) + 2 sigma(0) a         into the output bias
              a sigma(z) = -a sigma(z + P/2) + 2 sigma(0) a
    mirror    a sigma(z) =  a sigma(-z) + m a z                into the linear term, and `m a b`
    even      a sigma(z) =  a sigma(-z)                        into the output bias
    any       a sigma(z) =  a sigma(z + P)

A unit is *turned* by a sign and by a number of *steps*, its bias moving by half a period each for
odd activations and by a whole one for others. By convention the first non-zero weight of an odd or
even unit is positive and its bias at most half a step from zero. The sign of a mirrored unit is no
convention: without a linear term the function tells it, and beside one it stays as it is.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from provenet.common.typing import Array
from provenet.networks.activations import Activation, Symmetry

if TYPE_CHECKING:
    from provenet.networks.network import Network


def turned(network: Network, signs: Array, steps: Array) -> Network:
    """The same function, with every unit turned by a sign and by whole steps.

    A mirrored unit that is reversed needs a linear term: the network has one then.
    """
    sigma, W, b, A = network.activation, network.weights, network.biases, network.output_weights
    if sigma.symmetry is Symmetry.NONE and (signs < 0).any():
        raise ValueError(f"units of {sigma.name} cannot be reversed")
    size = step(sigma)
    steps = steps * (size > 0)  # without a period there are none
    changes = {"weights": W * signs[:, None], "biases": b * signs + steps * size}
    if sigma.symmetry is Symmetry.ODD:
        factors = signs * np.where(steps % 2 == 1, -1.0, 1.0)
        constant = float(sigma(np.zeros(())))
        changes["output_weights"] = A * factors
        changes["output_bias"] = network.output_bias + constant * (A @ (1 - factors))
    elif sigma.symmetry is Symmetry.MIRROR and (signs < 0).any():
        moved = (1 + (sigma.slope or 0.0)) * A * (signs < 0)
        changes["linear"] = moved @ W if network.linear is None else network.linear + moved @ W
        changes["output_bias"] = network.output_bias + moved @ b
    return network.replace(**changes)


def turns(activation: Activation, linear: bool) -> list[tuple[float, int]]:
    """Signs and steps by which a unit in its conventional form may be off another like it.

    None first. `linear` says whether a linear term can make up for mirrored units.
    """
    reversible = {Symmetry.ODD: True, Symmetry.EVEN: True, Symmetry.MIRROR: linear}
    signs = (1.0, -1.0) if reversible.get(activation.symmetry) else (1.0,)
    steps = (0, 1, -1) if step(activation) else (0,)
    return list(product(signs, steps))


def by_convention(network: Network) -> Network:
    """The same function with signs and biases by the conventions above; no unit without weights."""
    signs, steps = conventional_turns(network)
    return network if (signs > 0).all() and not steps.any() else turned(network, signs, steps)


def conventional_turns(network: Network) -> tuple[Array, Array]:
    """The signs and steps that lead to the conventional form."""
    sigma, W = network.activation, network.weights
    signs = np.ones(network.units)
    if network.units and sigma.symmetry in (Symmetry.ODD, Symmetry.EVEN):
        signs = np.sign(W[np.arange(len(W)), np.argmax(W != 0, axis=1)])
    return signs, _steps_to_zero(network.biases * signs, step(sigma))


def step(activation: Activation) -> float:
    """By how much the bias of a unit may move; 0 without a period."""
    period = activation.period or 0.0
    return period / 2 if activation.symmetry is Symmetry.ODD else period


def _steps_to_zero(b: Array, size: float) -> Array:
    """The whole numbers k with `b + k size` in `[-size/2, size/2)`."""
    if not size:
        return np.zeros(len(b))
    steps = -np.rint(b / size)
    left = b + steps * size
    return np.asarray(steps - (left >= size / 2) + (left < -size / 2))
