"""Which networks are the same function: canonical form, matching of units, parameter error.

A unit `a sigma(w.x + b)` has several forms. Where sigma is positively homogeneous its scale moves
between w and a. Its sign and period move as follows, with `z = w.x + b`, `m = 1 + slope` (see
`Symmetry`) and P a period:

    odd       a sigma(z) = -a sigma(-z) + 2 sigma(0) a         into the output bias
              a sigma(z) = -a sigma(z + P/2) + 2 sigma(0) a
    mirror    a sigma(z) =  a sigma(-z) + m a z                into the linear term, and `m a b`
    even      a sigma(z) =  a sigma(-z)
    any       a sigma(z) =  a sigma(z + P)

So a symmetry of a unit is a sign and a number of *shifts* of its bias, by half a period each for
odd activations and by a whole one for others. By convention the first non-zero weight of an odd or
even unit is positive and its bias at most half a shift from zero. The sign of a mirrored unit is no
convention: without a linear term the function determines it, and next to one it stays as it is.

At the borders of these conventions two units that are nearly the same have forms far apart: a
first weight just above zero or just below it. So the distance of two units is the least over all
symmetries of one of them. Deep networks are compared from the inputs on: the units of a hidden
layer are matched by weights and biases alone, because the order of the next layer's units is not
known yet; then they are put into the order and form of their partners, so that the weights of the
next layer can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

from provenet.common.typing import AnyArray, Array
from provenet.networks.activations import Activation, Symmetry

if TYPE_CHECKING:
    from provenet.networks.network import Network


# ---- Canonical form of one layer


def normal_form(layer: Network) -> Network:
    """The same function with each unit in its fixed form, units in the order they have."""

    def centred(outputs: Array | float) -> Array:
        """Softmax leaves a common shift of the outputs open; by convention they sum to zero."""
        rows = np.asarray(outputs, dtype=float)
        return np.asarray(rows - rows.mean(axis=0)) if layer.link == "softmax" else rows

    sigma, W, b = layer.activation, layer.weights, layer.biases
    A, c = centred(layer.output_weights), centred(layer.output_bias)
    norm = np.linalg.norm(W, axis=1)
    constant = norm == 0
    if constant.any():
        c = c + A[..., constant] @ sigma(b[constant])
        W, b, A, norm = W[~constant], b[~constant], A[..., ~constant], norm[~constant]
    if sigma.degree is not None:
        W, b, A = W / norm[:, None], b / norm, A * norm**sigma.degree
    V = None if layer.linear is None else centred(layer.linear)
    layer = layer.replace(weights=W, biases=b, output_weights=A, output_bias=c, linear=V)
    return apply_symmetry(layer, *conventional_symmetry(layer))


def unit_order(layer: Network) -> AnyArray:
    """The units of a layer in normal form by decreasing size of their output weights.

    Sizes and weights are rounded to nine digits, so that the last digits of equal ones do not
    reorder units.
    """
    A = np.atleast_2d(layer.output_weights)
    weights = np.round(layer.weights.T[::-1], 9)
    return np.lexsort((*A, layer.biases, *weights, -np.round(np.linalg.norm(A, axis=0), 9)))


# ---- Symmetries of units


def apply_symmetry(layer: Network, signs: Array, shifts: Array) -> Network:
    """The same function, with a sign and whole shifts of the bias applied to every unit.

    A mirrored unit whose sign changes adds to the linear term.
    """
    sigma, W, b, A = layer.activation, layer.weights, layer.biases, layer.output_weights
    if not ((signs < 0).any() or shifts.any()):
        return layer
    if sigma.symmetry is Symmetry.NONE and (signs < 0).any():
        raise ValueError(f"units of {sigma.name} have no symmetry of sign")
    size = _shift_size(sigma)
    shifts = shifts * (size > 0)  # without a period there are none
    changes = {"weights": W * signs[:, None], "biases": b * signs + shifts * size}
    if sigma.symmetry is Symmetry.ODD:
        factors = signs * np.where(shifts % 2 == 1, -1.0, 1.0)
        constant = float(sigma(np.zeros(())))
        changes["output_weights"] = A * factors
        changes["output_bias"] = layer.output_bias + constant * (A @ (1 - factors))
    elif sigma.symmetry is Symmetry.MIRROR and (signs < 0).any():
        moved = (1 + (sigma.slope or 0.0)) * A * (signs < 0)
        changes["linear"] = moved @ W + (0.0 if layer.linear is None else layer.linear)
        changes["output_bias"] = layer.output_bias + moved @ b
    return layer.replace(**changes)


def conventional_symmetry(layer: Network) -> tuple[Array, Array]:
    """The signs and shifts that lead to the conventional form; no unit may lack weights."""
    W, signs = layer.weights, np.ones(layer.units)
    if layer.units and layer.activation.symmetry in (Symmetry.ODD, Symmetry.EVEN):
        signs = np.sign(W[np.arange(len(W)), np.argmax(W != 0, axis=1)])
    b, size = layer.biases * signs, _shift_size(layer.activation)
    if not size:
        return signs, np.zeros(len(b))
    shifts = -np.rint(b / size)  # into [-size/2, size/2)
    rest = b + shifts * size
    return signs, np.asarray(shifts - (rest >= size / 2) + (rest < -size / 2))


def _symmetries(first: Network, second: Network) -> Array:
    """Signs and shifts by which matched units may differ near the borders of the conventions.

    One pair per row, the identity first. The sign of a mirrored unit needs linear terms that can
    compensate.
    """
    linear = first.linear is not None and second.linear is not None
    symmetry = first.activation.symmetry
    free = symmetry in (Symmetry.ODD, Symmetry.EVEN) or (symmetry is Symmetry.MIRROR and linear)
    shifts = (0.0, 1.0, -1.0) if _shift_size(first.activation) else (0.0,)
    return np.array(list(product((1.0, -1.0) if free else (1.0,), shifts)))


def _shift_size(activation: Activation) -> float:
    """By how much the bias of a unit may move; 0 without a period."""
    period = activation.period or 0.0
    return period / 2 if activation.symmetry is Symmetry.ODD else period


# ---- Matching


def parameter_error(estimate: Network, truth: Network) -> float:
    """Largest `|w-w'| + |a-a'| + |b-b'|` over matched units of the canonical forms.

    Infinite when the networks differ in shape, activation or link. The errors of the output bias
    and of a linear term count too, with units in the form of their partners: the maximum is over
    all of these. In a deep network the output weights a are those of the last hidden layer.
    """
    estimate, truth = estimate.canonical(), truth.canonical()
    if _kind(estimate) != _kind(truth):
        return float("inf")
    layers = matched_layers(estimate, truth)
    like, goal = layers[-1].estimate, layers[-1].truth
    own, true = (0.0 if net.linear is None else net.linear for net in (like, goal))
    return float(
        max(
            *(distance for layer in layers for distance in layer.distances),
            np.linalg.norm(np.ravel(like.output_bias) - np.ravel(goal.output_bias)),
            np.linalg.norm(np.atleast_2d(own) - np.atleast_2d(true)),
            abs((estimate.activation.slope or 0.0) - (truth.activation.slope or 0.0)),
        )
    )


def _kind(network: Network) -> tuple[object, ...]:
    """Shape, link, activation; a ReLU is a leaky one of slope 0, one output is a plain number."""
    family = network.activation.family.replace("leaky_relu", "relu")
    return network.features, network.widths, network.outputs or 1, network.link, family


@dataclass(frozen=True)
class MatchedLayer:
    """A hidden layer of two canonical networks, and which unit is which."""

    estimate: Network
    """Units in their own order, in the form of their partners; weights in the order of the
    truth."""
    truth: Network
    rows: AnyArray
    """Units of the estimate that have a partner."""
    columns: AnyArray
    """Their partners in the truth."""
    distances: Array
    """Of those pairs; below the last hidden layer of weights and biases alone."""


def matched_layers(estimate: Network, truth: Network) -> tuple[MatchedLayer, ...]:
    """The hidden layers of two networks of the same depth and sizes, from the inputs on.

    They end with the first whose widths differ: above it there is nothing to compare.
    """
    estimate, truth = estimate.canonical(), truth.canonical()
    layer, matched = estimate.layer(0), list[MatchedLayer]()
    for number in range(truth.layers):
        last = number == truth.layers - 1
        pairs = _match(layer, truth.layer(number), with_outputs=last)
        matched.append(pairs)
        if last or layer.units != pairs.truth.units:
            break
        fed = pairs.estimate.keep(pairs.rows[np.argsort(pairs.columns)])
        layer = estimate.layer(number + 1)
        layer = layer.replace(weights=fed.output_weights, biases=fed.output_bias)
        layer = apply_symmetry(layer, *conventional_symmetry(layer))
    return tuple(matched)


def match_units(estimate: Network, truth: Network) -> tuple[AnyArray, AnyArray]:
    """Indices into both canonical networks that pair their units with the least total distance."""
    pairs = _match(estimate.canonical(), truth.canonical())
    return pairs.rows, pairs.columns


def align_to(estimate: Network, truth: Network) -> Network:
    """The estimate's canonical form, but each unit in the form nearest to its partner's."""
    return _match(estimate.canonical(), truth.canonical()).estimate


def align_in_place(estimate: Network, truth: Network) -> Network:
    """The estimate, each unit in the form nearest to the unit of the same number."""
    distances = np.diagonal(unit_distances(estimate, truth), axis1=1, axis2=2)
    return apply_symmetry(estimate, *_symmetries(estimate, truth)[distances.argmin(axis=0)].T)


def _match(first: Network, second: Network, with_outputs: bool = True) -> MatchedLayer:
    """Pair the units of two layers in canonical form."""
    by_symmetry = unit_distances(first, second, with_outputs)
    distances = by_symmetry.min(axis=0)
    rows, columns = linear_sum_assignment(distances)
    chosen = np.zeros(first.units, dtype=int)
    chosen[rows] = by_symmetry[:, rows, columns].argmin(axis=0)
    aligned = apply_symmetry(first, *_symmetries(first, second)[chosen].T)
    return MatchedLayer(aligned, second, rows, columns, distances[rows, columns])


def unit_distances(first: Network, second: Network, with_outputs: bool = True) -> Array:
    """`|w-w'| + |a-a'| + |b-b'|` for every pair of units of two layers in canonical form.

    (symmetries, units of the first, units of the second), the identity first.
    """
    distances = []
    for sign, shift in _symmetries(first, second):
        image = apply_symmetry(first, np.full(first.units, sign), np.full(first.units, shift))
        distance = np.linalg.norm(image.weights[:, None] - second.weights, axis=2)
        distance += np.abs(image.biases[:, None] - second.biases)
        if with_outputs:
            a, b = np.atleast_2d(image.output_weights), np.atleast_2d(second.output_weights)
            distance += np.linalg.norm(a[:, :, None] - b[:, None, :], axis=0)
        distances.append(distance)
    return np.stack(distances)


def permutation_error(B: Array, truth: Array) -> float:
    """How far B is from a permutation of the true weights, up to signs (GLM17, equation 6.1).

    With `Q = B pinv(truth)`, rows of norm 1: `1 - |Q_ij|` for the worst row's best j, or the worst
    column's best i, whichever is less.
    """
    Q = np.abs(B @ np.linalg.pinv(truth))
    Q /= np.linalg.norm(Q, axis=1, keepdims=True)
    return float(1 - max(Q.max(axis=1).min(), Q.max(axis=0).min()))
