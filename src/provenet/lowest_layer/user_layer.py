"""A layer on the user's inputs, in canonical form, with the standard errors of its units.

Methods find units on standardised inputs, `z = A (x - m)`; there they are judged, here they move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.common.typing import AnyArray, Array
from provenet.data.standardisation import Standardisation
from provenet.networks.layered import LayeredNetwork, Polynomial
from provenet.networks.network import Network


@dataclass(frozen=True)
class UserLayer:
    """Units in canonical order with what lies above them."""

    network: LayeredNetwork
    angle_errors: Array
    """Radians, one standard error, by unit."""
    threshold_errors: Array
    order: AnyArray
    """Which of the units that were given each of them is."""

    @property
    def units(self) -> Network:
        """The units with the linear part of a polynomial top for their output weights."""
        layer, top = self.network.layer, self.network.top
        if not isinstance(top, Polynomial):
            return layer
        return layer.replace(output_weights=top.linear, output_bias=top.terms.get((), 0.0))


def on_user_inputs(
    network: LayeredNetwork,
    standardisation: Standardisation | None,
    angle_errors: Array,
    threshold_errors: Array,
) -> UserLayer:
    """A layer on standardised inputs (None: already on the user's) as one on the user's.

    The top is a `Polynomial`, or does not care for the order of the units.
    """
    angles, thresholds = angle_errors, threshold_errors
    if standardisation is not None:
        angles, thresholds = errors_on_user_inputs(
            network.layer, standardisation, angle_errors, threshold_errors
        )
        network = replace(network, layer=standardisation.network_to_user(network.layer))
    user, order = canonical(network)
    return UserLayer(user, angles[order], thresholds[order], order)


def open_top(layer: Network, slopes: Array | None = None, silent: float = 0.0) -> LayeredNetwork:
    """A layer whose top is not known, but for its linear part: 1 if that is not known either."""
    c = np.ones(layer.units) if slopes is None else slopes
    terms: dict[tuple[int, ...], float] = {(i,): float(b) for i, b in enumerate(c)}
    return LayeredNetwork(layer, Polynomial(layer.units, terms | ({(): silent} if silent else {})))


def canonical(network: LayeredNetwork) -> tuple[LayeredNetwork, AnyArray]:
    """The same function of units in a fixed form and order (see `Network.canonical`); the order."""
    network = _with_free_signs_and_factors(with_unit_rows(network))
    layer, top = network.layer, network.top
    W, b = layer.weights, layer.biases
    if layer.activation.even:
        sign = np.sign(W[np.arange(len(W)), np.argmax(np.abs(W) > 1e-9, axis=1)])
        W, b = W * sign[:, None], b * sign
    linear = top.linear if isinstance(top, Polynomial) else np.ones(len(W))
    order = np.lexsort((b, *np.round(W.T[::-1], 9), -np.round(np.abs(linear), 9)))
    moved = layer.replace(weights=W[order], biases=b[order])
    if isinstance(top, Polynomial):
        place = np.argsort(order)
        terms = {tuple(int(place[i]) for i in m): c for m, c in top.terms.items()}
        top = Polynomial(len(W), terms)
    return LayeredNetwork(moved, top), order


def with_unit_rows(network: LayeredNetwork) -> LayeredNetwork:
    """The same function with weights of norm 1, where units are homogeneous.

    Their lengths move into a polynomial; under other tops they are steps.
    """
    layer, top, degree = network.layer, network.top, network.layer.activation.degree
    if degree is None:
        return network
    norm = np.linalg.norm(layer.weights, axis=1)
    moved = layer.replace(weights=layer.weights / norm[:, None], biases=layer.biases / norm)
    if isinstance(top, Polynomial):
        factor = norm**degree
        terms = {m: c * float(np.prod(factor[list(m)])) for m, c in top.terms.items()}
        top = Polynomial(layer.units, terms)
    return LayeredNetwork(moved, top)


def _with_free_signs_and_factors(network: LayeredNetwork) -> LayeredNetwork:
    """What units and a polynomial could share between them, shared in one way.

    `exp(z + b) = e^b exp(z)`: biases 0; `sigmoid(-z) = 1 - sigmoid(z)`: thresholds at least 0.
    """
    layer, top = network.layer, network.top
    if not isinstance(top, Polynomial):
        return network
    if layer.activation.family == "exp":
        factor = np.exp(layer.biases)
        terms = {m: c * float(np.prod(factor[list(m)])) for m, c in top.terms.items()}
        plain = layer.replace(biases=np.zeros(layer.units))
        return LayeredNetwork(plain, Polynomial(layer.units, terms))
    if layer.activation.family != "sigmoid":
        return network
    sign = np.where(layer.biases > 0, -1.0, 1.0)
    for i in map(int, np.flatnonzero(sign < 0)):
        top = top.reflected(i)
    turned = layer.replace(weights=layer.weights * sign[:, None], biases=layer.biases * sign)
    return LayeredNetwork(turned, top)


def errors_on_user_inputs(
    units: Network, standardisation: Standardisation, angles: Array, thresholds: Array
) -> tuple[Array, Array]:
    """Standard errors of directions and thresholds on the inputs before standardisation.

    With whitening A and mean m, `w.A(x - m) = t` has the normal `v = A'w` and the threshold
    `t + v.m`, divided by `|v|` where lengths are conventions. Errors of w are taken to be the same
    in all directions across it, and independent of those of t.
    """
    A, m = standardisation.whiten, standardisation.mean
    user_angles, user_thresholds = np.empty(units.units), np.empty(units.units)
    for i, (w, b) in enumerate(zip(units.weights, units.biases, strict=True)):
        v, length = w @ A, float(np.linalg.norm(w))
        size = float(np.linalg.norm(v))
        each = angles[i] * length / np.sqrt(max(len(w) - 1, 1))
        across = np.eye(len(w)) - np.outer(w, w) / length**2
        along = np.outer(v, v) / size**2
        user_angles[i] = each * np.linalg.norm(across @ A @ (np.eye(len(w)) - along)) / size
        shift = across @ A @ m
        if units.activation.degree is None:
            user_thresholds[i] = np.hypot(each * np.linalg.norm(shift), thresholds[i])
            continue
        t = (v @ m - b) / size
        shift = (shift - t * across @ A @ v / size) / size
        user_thresholds[i] = np.hypot(each * np.linalg.norm(shift), thresholds[i] / size)
    return user_angles, user_thresholds
