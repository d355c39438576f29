"""The same function in ReLU units alone, for formats that have neither `|z|` nor a linear term.

With `r(z) = max(z, 0)`, a unit of slope s below zero is `sigma(z) = r(z) - s r(-z)`, and a linear
term is `v.x = r(v.x) - r(-v.x)`. Both hold exactly, in floating point too.
"""

from __future__ import annotations

import numpy as np

from provenet.networks.activations import RELU
from provenet.networks.network import Network


def in_relu_units(network: Network) -> Network | None:
    """The network in ReLU units; None if its units are not piecewise linear."""
    slope = network.activation.slope
    if slope is None:
        return None
    A = np.atleast_2d(network.output_weights)
    W, b = [network.weights], [network.biases]
    columns = [A]
    if slope != 0:
        W, b, columns = [*W, -network.weights], [*b, -network.biases], [A, -slope * A]
    if network.linear is not None:
        V, outputs = np.atleast_2d(network.linear), np.eye(len(A))
        W, b = [*W, V, -V], [*b, np.zeros(2 * len(V))]
        columns = [*columns, outputs, -outputs]
    joined = np.hstack(columns)
    return network.replace(
        weights=np.vstack(W),
        biases=np.concatenate(b),
        output_weights=joined if network.outputs else joined[0],
        activation=RELU,
        linear=None,
    )
