"""Units of a deep network that may all be reversed at once.

Where `sigma(z) - sigma(-z) = z` (ReLU, GELU, softplus), units S of a layer may be reversed if what
that leaves is no linear map: `sum_{i in S} a_i w_i^T = 0`, with `a_i` what unit i feeds into the
next layer, whose biases take up the constant. Then the same function has several networks, and no
samples tell. With noise the sum need only be small: least squares from the reversed units says
whether they explain the samples as well.
"""

from __future__ import annotations

import numpy as np

from provenet.certify.tolerances import MOST_REVERSED, NEARLY_REVERSIBLE, REVERSALS, TOLD_APART
from provenet.common.typing import AnyArray
from provenet.data.sources import ArraySource
from provenet.fitting.least_squares import refine
from provenet.fitting.model import Parameters
from provenet.networks.activations import Symmetry
from provenet.networks.network import DeepNetwork


def reversals(
    network: DeepNetwork, samples: ArraySource, zero: float, deadline: float
) -> tuple[str, ...]:
    """Units that may as well be reversed, in sentences.

    A root mean square residual up to `zero` counts as none.
    """
    if network.activation.symmetry is not Symmetry.MIRROR:
        return ()
    return tuple(
        f"Units {np.flatnonzero(units).tolist()} of layer {number + 1} may as well all have the "
        "opposite sign: the samples do not tell."
        for number in range(network.layers)
        for units in _nearly_reversible(network, number)
        if _as_good(network, samples, _reversed(network, number, units), zero, deadline)
    )


def _nearly_reversible(network: DeepNetwork, number: int) -> list[AnyArray]:
    """Sets of units of a layer that leave nearly no linear map, the best first.

    All sets of up to MOST_REVERSED units; of wider layers none.
    """
    W, A = network.weights[number], network.weights[number + 1]
    width = len(W)
    if not 0 < width <= MOST_REVERSED:
        return []
    terms = np.einsum("ji,id->ijd", A, W).reshape(width, -1)
    sets = (np.arange(1, 2**width)[:, None] >> np.arange(width)) & 1 > 0
    left = np.linalg.norm(sets @ terms, axis=1)
    size = np.sqrt(sets @ np.sum(terms**2, axis=1))
    share = left / np.maximum(size, np.finfo(float).tiny)
    best = np.argsort(share)[:REVERSALS]
    return [sets[k] for k in best if share[k] <= NEARLY_REVERSIBLE]


def _reversed(network: DeepNetwork, number: int, units: AnyArray) -> DeepNetwork:
    """The network with these units reversed, what is left linear dropped."""
    weights, biases = list(network.weights), list(network.biases)
    signs = np.where(units, -1.0, 1.0)
    biases[number + 1] = biases[number + 1] + weights[number + 1] @ (units * biases[number])
    weights[number], biases[number] = signs[:, None] * weights[number], signs * biases[number]
    return network.replace(weights=weights, biases=biases)


def _as_good(
    own: DeepNetwork, samples: ArraySource, other: DeepNetwork, zero: float, deadline: float
) -> bool:
    """Whether the other one, by least squares from it, explains the samples as well."""
    left = own(samples.X) - samples.y
    rss, n = float(np.vdot(left, left)), samples.labels
    fit = refine(
        samples,
        Parameters.of(other),
        own.activation,
        spread=float(np.std(samples.y)),
        iterations=30,
        tolerance=1e-9,
        deadline=deadline,
    )
    if rss <= n * zero**2:
        return bool(fit.rss <= n * zero**2)
    return bool(n * np.log(fit.rss / rss) <= TOLD_APART)
