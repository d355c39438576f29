"""Piecewise linear networks: the same function in other units, and its linear regions.

*Other units.* A unit of slope s below zero (ReLU: 0, absolute value: -1), `r` being ReLU:

    sigma(z) = (1 - s)/2 |z| + (1 + s)/2 z                  `as_absolute`, `as_rectified`
    sigma(z) = r(z) - s r(-z)                               `in_relu_units`
    (1 + s) z = sigma(z) - sigma(-z)                        `linear_as_units`, all mirrored units
    a r(z) + a' r(-z) = (a + a') r(z) - a' z                `merge_signs`

and a unit that is on the same side at every sample is linear there, or nothing
(`merge_linear_units`). A mirrored unit, `sigma(-z) = sigma(z) - m z`, is `e(z) + m/2 z` with e even
(ReLU: half the absolute value, m = 1), so with a linear term its sign is a convention, and
without one the linear part determines it (`even_linear_part`). Absolute values have no sign,
`|z| = |-z|`: the way back needs the signs, and the part of the linear term that they do not
explain stays.

ATV21, Claim D.14, is the last two together: m units of both signs and `v.x + c` are m + 2 units
of ReLU. The constant stays with the output bias: the paper has none and puts it into the bias of
the two, which is ill-conditioned where v is small.

*Linear regions.* In a region every unit of every layer is on or off, and the network is linear.
Along a line the regions are intervals: `kinks_along` finds their ends, layer by layer. The
arguments of a layer's units are linear between the kinks of the layers below, so each unit switches
at most once between two of them, where the line through its two values crosses zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from provenet.common.typing import EPS, AnyArray, Array
from provenet.networks.activations import ABS, RELU, Activation, Symmetry
from provenet.networks.network import Network

# ---- The same function in other units


def as_absolute(network: Network) -> Network:
    """The same function with units `|z|` and a linear term."""
    slope, A = network.activation.slope, network.output_weights
    if slope is None:
        raise ValueError(f"{network.activation.name} is not piecewise linear")
    even, odd = (1 - slope) / 2 * A, (1 + slope) / 2 * A
    return _plus_linear(network, odd, output_weights=even, activation=ABS)


def as_rectified(
    absolute: Network, signs: Array | None = None, activation: Activation = RELU
) -> Network:
    """The inverse of `as_absolute` for given signs (all positive if not given)."""
    slope = activation.slope or 0.0
    xi = np.ones(absolute.units) if signs is None else signs
    turned = absolute.replace(weights=absolute.weights * xi[:, None], biases=absolute.biases * xi)
    A = 2 / (1 - slope) * absolute.output_weights
    return _plus_linear(turned, -(1 + slope) / 2 * A, output_weights=A, activation=activation)


def with_free_linear_part(network: Network, fitted: Activation) -> Network:
    """The same function in the form that is fitted: absolute values, or with a linear term."""
    if fitted is ABS:
        return as_absolute(network)
    return network.replace(linear=_linear(network))


def in_activation(fitted: Network, activation: Activation) -> Network:
    """The same function in units of the activation given, all signs positive."""
    if fitted.activation is not ABS:
        return fitted
    return as_rectified(fitted, None, activation)


def even_linear_part(network: Network) -> tuple[Array, Array]:
    """`m A`, and the linear part v of mirrored units and a linear term, next to even functions.

    With signs xi the network has no linear term if `v = sum_i xi_i m a_i w_i / 2`.
    """
    A = (1 + (network.activation.slope or 0.0)) * network.output_weights
    return A, _linear(network) + A / 2 @ network.weights


def in_relu_units(network: Network) -> Network | None:
    """The same function in ReLU units alone; None if its units are not piecewise linear."""
    if network.activation.slope is None:
        return None
    return network.rewritten(_in_relu_units)


def _in_relu_units(network: Network) -> Network:
    W, b, A = network.weights, network.biases, network.output_weights
    slope = network.activation.slope
    if slope:
        W, b = np.vstack([W, -W]), np.append(b, -b)
        A = np.concatenate([A, -slope * A], axis=-1)
    return linear_as_units(network.replace(weights=W, biases=b, output_weights=A, activation=RELU))


def linear_as_units(network: Network) -> Network:
    """The same function without a linear term: a unit and its opposite, last, for every output.

    Only of mirrored units two make a linear function: a network of others comes back as it is.
    """
    slope = network.activation.slope or 0.0
    if network.linear is None or network.activation.symmetry is not Symmetry.MIRROR:
        return network
    A, V = np.atleast_2d(network.output_weights), np.atleast_2d(network.linear)
    steepness = np.linalg.norm(V, axis=1)
    steepest = np.max(np.abs(A) * np.linalg.norm(network.weights, axis=1), initial=0.0)
    shown = steepness > 4.5 * EPS * steepest  # less is lost in the rounding of the sum
    W = V[shown] / steepness[shown, None]
    carriers = np.diag(steepness)[:, shown] / (1 + slope)
    joined = np.hstack([A, carriers, -carriers])
    return network.replace(
        weights=np.vstack([network.weights, W, -W]),
        biases=np.append(network.biases, np.zeros(2 * len(W))),
        output_weights=joined if network.outputs else joined[0],
        linear=None,
    )


def merge_signs(units: Network, opposite: Array) -> Network:
    """ReLU `units`, and the same with the other sign and output weights `opposite`, as one each."""
    return _plus_linear(units, -opposite, output_weights=units.output_weights + opposite)


def merge_linear_units(network: Network, X: Array, fewest: int = 1) -> Network:
    """A ReLU network without the units that change sides on fewer than `fewest` rows of X.

    Those that are mostly on go to the linear term, those that are mostly off are left out.
    """
    active = np.sum(X @ network.weights.T + network.biases > 0, axis=0)
    on, off = len(X) - active < fewest, active < fewest
    merged = _plus_linear(network, network.output_weights * on) if on.any() else network
    return merged.keep(~(on | off))


def with_outputs_in_rows(network: Network) -> Network:
    """A network with one output in the shape of one with several."""
    if network.outputs is not None:
        return network
    linear = None if network.linear is None else network.linear[None]
    return network.replace(
        output_weights=network.output_weights[None],
        output_bias=np.atleast_1d(network.output_bias),
        linear=linear,
    )


def _plus_linear(network: Network, a: Array, **changes: Any) -> Network:
    """The network plus `sum_i a_i (w_i.x + b_i)`, then changed."""
    linear, c = _linear(network) + a @ network.weights, network.output_bias + a @ network.biases
    return network.replace(linear=linear, output_bias=c, **changes)


def _linear(network: Network) -> Array:
    """The linear term, zeros where there is none."""
    shape = (*network.output_weights.shape[:-1], network.features)
    return np.zeros(shape) if network.linear is None else network.linear


# ---- Linear regions


def inputs_of_units(network: Network, X: Array) -> list[Array]:
    """The arguments of the units of every hidden layer: (n, units) each."""
    found, h = [], np.asarray(X, dtype=float)
    for W, b in network.affine_maps[:-1]:
        found.append(h @ W.T + b)
        h = network.activation(found[-1])
    return found


def slopes(network: Network, z: list[Array]) -> list[Array]:
    """Derivatives of the outputs by the values of every layer's units: (n, outputs, units) each."""
    A, _ = network.affine_maps[-1]
    above = np.broadcast_to(A, (len(z[-1]), *A.shape))
    found = [above]
    for (W, _), own in zip(network.affine_maps[-2:0:-1], z[:0:-1], strict=True):
        above = (above * network.activation.derivative(own)[:, None, :]) @ W
        found.append(above)
    return found[::-1]


def gradient(network: Network, x: Array, output: int) -> Array:
    """The gradient of one output by the inputs, at a point."""
    A = network.affine_maps[-1][0]
    z, linear = inputs_of_units(network, x[None]), np.atleast_2d(_linear(network))[output]
    return np.asarray(sum_gradients(network, z, network.layers - 1, A[None, output])[0] + linear)


def row_gradients(network: Network, z: list[Array], layer: int, unit: int) -> Array:
    """Gradients of a unit's argument by the inputs, where units have arguments z: (n, features)."""
    own = network.affine_maps[layer][0][unit]
    row = np.broadcast_to(own, (len(z[0]), len(own)))
    return row if layer == 0 else sum_gradients(network, z, layer - 1, row)


def sum_gradients(network: Network, z: list[Array], layer: int, weights: Array) -> Array:
    """Gradients of sums of a layer's values, weights (n, units), by the inputs: (n, features)."""
    row = weights
    for number in range(layer, -1, -1):
        row = (row * network.activation.derivative(z[number])) @ network.affine_maps[number][0]
    return np.asarray(row)


@dataclass(frozen=True)
class Kinks:
    """Where units switch along a line, in order."""

    places: Array
    layers: AnyArray
    """The layer of each unit that switches, counted from 0."""
    units: AnyArray
    """Its number in that layer."""

    def __len__(self) -> int:
        """How many."""
        return len(self.places)


def kinks_along(
    network: Network, origin: Array, direction: Array, low: float, high: float
) -> Kinks:
    """All places where some unit of some layer switches between two places on a line."""
    (W, b), *above = network.affine_maps[:-1]
    found = [(np.empty(0), np.empty(0, dtype=int), np.empty(0, dtype=int))]
    T = np.array([low, high])
    for number in range(network.layers if low < high else 0):
        z = np.outer(T, W @ direction) + (W @ origin + b)
        for M, v in above[:number]:
            z = network.activation(z) @ M.T + v
        rows, units = np.nonzero((z[:-1] > 0) != (z[1:] > 0))
        before, after = z[rows, units], z[rows + 1, units]
        places = T[rows] + (T[rows + 1] - T[rows]) * before / (before - after)
        found.append((places, np.full(len(places), number), units))
        T = np.unique(np.concatenate([T, places]))
    places, layers, units = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(places, kind="stable")
    return Kinks(places[order], layers[order], units[order])
