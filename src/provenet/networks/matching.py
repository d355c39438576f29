"""Which unit of one network is which unit of another, and how far apart they are.

A unit's canonical form follows conventions (see `symmetries`), and at their borders two units that
are nearly the same have forms far apart: a first weight just above zero or just below it. So the
distance of two units is the least over all turns of one of them that leave its function as it is.

Deep networks are compared from the inputs on. The units of a hidden layer are matched by weights
and biases alone: what they feed is in an order that is not known yet. Then they are put into the
order and the turns of their partners, so that the weights of the next layer can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from provenet.common.typing import AnyArray, Array
from provenet.networks.any_network import AnyNetwork
from provenet.networks.network import Network
from provenet.networks.symmetries import by_convention, turned, turns


def unit_distances(first: Network, second: Network) -> Array:
    """`|w-w'| + |a-a'| + |b-b'|` for every pair of units of two canonical networks.

    The least over the turns of a unit.
    """
    return np.asarray(_distances_by_turn(first, second).min(axis=0))


def match_units(estimate: Network, truth: Network) -> tuple[AnyArray, AnyArray]:
    """Indices into both canonical networks that pair their units with the least total distance."""
    pairs = _pairs(estimate.canonical(), truth.canonical())
    return pairs.rows, pairs.columns


def turned_like(estimate: Network, truth: Network) -> Network:
    """The estimate's canonical form, but each unit turned to be nearest to its partner's."""
    estimate = estimate.canonical()
    return _pairs(estimate, truth.canonical()).turned(estimate)


def turned_in_place(estimate: Network, truth: Network) -> Network:
    """The estimate, each unit turned to be nearest to the unit of the same number."""
    ways = np.array(_turns(estimate, truth))
    if len(ways) == 1:
        return estimate
    own = np.diagonal(_distances_by_turn(estimate, truth), axis1=1, axis2=2)
    return turned(estimate, *ways[own.argmin(axis=0)].T)


def parameter_error(estimate: AnyNetwork, truth: AnyNetwork) -> float:
    """Largest `|w-w'| + |a-a'| + |b-b'|` over matched units of the canonical forms.

    Infinite when the networks differ in shape, activation or link. The output bias and a linear
    term count too, with units turned like their partners: their own error is taken if it is larger.
    Of a deep network the output weights a are those of the last hidden layer.
    """
    estimate, truth = estimate.canonical(), truth.canonical()
    if _kind(estimate) != _kind(truth):
        return float("inf")
    layers = matched_layers(estimate, truth)
    like, goal = layers[-1].estimate, layers[-1].truth
    errors = [
        *(distance for layer in layers for distance in layer.distances),
        np.linalg.norm(np.asarray(like.output_bias) - goal.output_bias),
        np.linalg.norm(_linear(like) - _linear(goal)),
        abs((estimate.activation.slope or 0.0) - (truth.activation.slope or 0.0)),
    ]
    return float(max(errors))


@dataclass(frozen=True)
class MatchedLayer:
    """A hidden layer of two canonical networks, and which unit is which."""

    estimate: Network
    """Units in their own order, turned like their partners; weights in the order of the truth."""
    truth: Network
    rows: AnyArray
    columns: AnyArray
    """Units of the estimate, and their partners in the truth."""
    distances: Array
    """Of those pairs; below the last hidden layer of weights and biases alone."""


def matched_layers(estimate: AnyNetwork, truth: AnyNetwork) -> tuple[MatchedLayer, ...]:
    """The hidden layers of two networks of the same depth and sizes, from the inputs on.

    They end with the first whose widths differ: above it there is nothing to compare.
    """
    estimate, truth = estimate.canonical(), truth.canonical()
    layer, matched = estimate.layer(0), list[MatchedLayer]()
    for number in range(truth.layers):
        goal, last = truth.layer(number), number == truth.layers - 1
        pairs = _pairs(*((layer, goal) if last else map(_without_outputs, (layer, goal))))
        like = pairs.turned(layer)
        matched.append(MatchedLayer(like, goal, pairs.rows, pairs.columns, pairs.distances))
        if last or layer.units != goal.units:
            break
        fed = pairs.in_order(layer)
        above = estimate.layer(number + 1)
        layer = by_convention(above.replace(weights=fed.output_weights, biases=fed.output_bias))
    return tuple(matched)


def permutation_error(B: Array, truth: Array) -> float:
    """How far B is from a permutation of the true weights, up to signs (GLM17, equation 6.1).

    With `Q = B pinv(truth)`, rows of norm 1: `1 - |Q_ij|` for the worst row's best j, or the worst
    column's best i, whichever is less.
    """
    Q = np.abs(B @ np.linalg.pinv(truth))
    Q /= np.linalg.norm(Q, axis=1, keepdims=True)
    return float(1 - max(Q.max(axis=1).min(), Q.max(axis=0).min()))


@dataclass(frozen=True)
class _Pairs:
    """Units of one network and their partners in another; how to turn the first like these."""

    rows: AnyArray
    columns: AnyArray
    distances: Array
    signs: Array
    steps: Array

    def turned(self, first: Network) -> Network:
        """The first network, its units turned like their partners."""
        unturned = (self.signs > 0).all() and not self.steps.any()
        return first if unturned else turned(first, self.signs, self.steps)

    def in_order(self, first: Network) -> Network:
        """The same with its units in the order of their partners, of which there are as many."""
        return self.turned(first).keep(self.rows[np.argsort(self.columns)])


def _pairs(first: Network, second: Network) -> _Pairs:
    """Pair the units of two canonical networks."""
    by_turn = _distances_by_turn(first, second)
    distances = by_turn.min(axis=0)
    rows, columns = linear_sum_assignment(distances)
    signs, steps = np.ones(first.units), np.zeros(first.units)
    ways = np.array(_turns(first, second))
    signs[rows], steps[rows] = ways[by_turn[:, rows, columns].argmin(axis=0)].T
    return _Pairs(rows, columns, distances[rows, columns], signs, steps)


def _without_outputs(layer: Network) -> Network:
    return layer.replace(output_weights=np.zeros(layer.units), output_bias=0.0)


def _turns(first: Network, second: Network) -> list[tuple[float, int]]:
    """Those of a unit of the first for which both can make up."""
    linear = first.linear is not None and second.linear is not None
    return turns(first.activation, linear)


def _distances_by_turn(first: Network, second: Network) -> Array:
    """(turns, units of the first, units of the second); unturned ones first."""
    everyone = np.ones(first.units)
    images = (
        turned(first, sign * everyone, steps * everyone) for sign, steps in _turns(first, second)
    )
    return np.stack([_plain_distances(image, second) for image in images])


def _plain_distances(first: Network, second: Network) -> Array:
    weights = np.linalg.norm(first.weights[:, None] - second.weights[None], axis=2)
    a, b = np.atleast_2d(first.output_weights), np.atleast_2d(second.output_weights)
    outputs = np.linalg.norm(a[:, :, None] - b[:, None, :], axis=0)
    return np.asarray(weights + outputs + np.abs(first.biases[:, None] - second.biases))


def _kind(network: AnyNetwork) -> tuple[object, ...]:
    """Shape, link, activation; a ReLU is a leaky one of slope 0, one output is a plain number."""
    family = network.activation.family
    return (
        network.features,
        network.widths,
        network.outputs or 1,
        network.link,
        "relu" if family == "leaky_relu" else family,
    )


def _linear(network: Network) -> Array:
    return np.zeros(1) if network.linear is None else network.linear
