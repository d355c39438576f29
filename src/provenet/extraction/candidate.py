"""From traced units to a candidate: their signs, and the points that may confirm it.

Nothing is judged here: `certify.asked` does that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from provenet.certify.answered import AGREES, Answered
from provenet.certify.layers_found import LayersFound
from provenet.certify.traced import TracedCandidate, allowed_at_kinks
from provenet.common.typing import AnyArray, Array
from provenet.extraction.box import Box
from provenet.extraction.confirming import (
    far_points,
    number_of_fresh,
    points_about_kinks,
    points_at_kinks,
    searched_points,
    showing_points,
)
from provenet.extraction.deadline import OVER, Deadline
from provenet.extraction.kinks import Traced
from provenet.extraction.layers.traced import TracedLayers
from provenet.extraction.oracle import Oracle
from provenet.extraction.tolerances import (
    ASKED_AGAIN,
    BOUND,
    NO_LINEAR,
    SEARCHED_PART,
    SHORTEST,
)
from provenet.extraction.units import Units, binary_scale
from provenet.fitting.parameters import Parameters
from provenet.networks.activations import LEAKY_RELU, RELU, Activation
from provenet.networks.any_network import AnyNetwork
from provenet.networks.conversions import as_absolute, as_rectified
from provenet.networks.deep_network import DeepNetwork
from provenet.networks.lattice_signs import signs_by_lattice
from provenet.networks.network import Network
from provenet.networks.one_slope import OneSlope, one_slope
from provenet.networks.sign_ambiguities import flip_sets
from provenet.networks.signs import Signs, signs_from_linear_part, unit_terms
from provenet.networks.tolerances import FLIP_BUDGET


def confirmed(
    traced: Traced,
    oracle: Oracle,
    box: Box,
    rng: np.random.Generator,
    *,
    looks: int,
    wanted: int | tuple[int, ...] | None,
    activation: Activation | None = RELU,
) -> TracedCandidate:
    """The units found, with the model's answers to points that may refute them.

    `looks` counts the networks that were found, this one and those that were refuted before. Units
    are of a piecewise linear activation, or, where it is None, of the one that explains them.
    """
    asked = oracle.used
    one = oracle.outputs is None
    signed = _signed(traced, one=one, deadline=oracle.deadline, activation=activation)
    put = _Put(signed.network, traced.guides, _error_bound(traced), looks)
    candidate = _candidate(traced, signed, put.to(oracle, box, rng), asked)
    return replace(candidate, looks=looks, wanted=wanted)


def confirmed_layers(
    traced: TracedLayers,
    oracle: Oracle,
    box: Box,
    rng: np.random.Generator,
    *,
    looks: int,
    wanted: int | tuple[int, ...] | None,
) -> TracedCandidate:
    """The same for the layers found, all of them."""
    asked = oracle.used
    signed = _signed_layers(traced, one=oracle.outputs is None, deadline=oracle.deadline)
    put = _Put(signed.network, traced.guides, traced.error, looks)
    candidate = _layers_candidate(traced, signed, put.to(oracle, box, rng), asked)
    return replace(candidate, looks=looks, wanted=wanted)


@dataclass(frozen=True)
class _Put:
    """A network that is put to the test."""

    network: AnyNetwork
    guides: Answered
    error_bound: float
    looks: int

    def to(self, oracle: Oracle, box: Box, rng: np.random.Generator) -> _Points:
        """Ask the model what may refute the network."""
        network = self.network
        X = searched_points(network, box, rng)
        if oracle.remaining is not None:
            X = X[: oracle.remaining // SEARCHED_PART]
        others = len(X) + points_about_kinks(network) + ASKED_AGAIN
        number = number_of_fresh(oracle.remaining, others, self.looks)
        fresh = _answered(oracle, box.sample(number, rng))
        searched = _answered(oracle, X)
        allowed = allowed_at_kinks(fresh, self.error_bound)
        X, kink_of = points_at_kinks(network, allowed, box, rng)
        at_kinks = _answered(oracle, X)
        showing = None
        if network.layers > 1:
            asked = self.guides + fresh + searched + at_kinks
            X = showing_points(network, asked.X, fresh.allowed(AGREES), box, rng)
            showing = _answered(oracle, np.vstack([X, far_points(network, box, rng)]))
        first = self.guides.X[:ASKED_AGAIN]
        again = Answered(first, oracle.ask(first[::-1], fresh=True)[::-1])
        return _Points(box.inputs, fresh, searched, at_kinks, kink_of, again, showing)


def _answered(oracle: Oracle, X: Array) -> Answered:
    return Answered(X, oracle.ask(X))


@dataclass(frozen=True)
class _Points:
    """What may refute a network, as in `TracedCandidate`."""

    inputs: str
    fresh: Answered
    searched: Answered
    at_kinks: Answered
    kink_of: AnyArray
    again: Answered
    showing: Answered | None = None


def unconfirmed(traced: Traced, *, one: bool, asked: int, stopped: str) -> TracedCandidate:
    """The units found before the search was stopped; `one` where answers are single numbers."""
    signed = _signed(traced, one=one, deadline=OVER)
    points = _no_points(traced.units.W.shape[1], len(traced.units.constant), one)
    return replace(_candidate(traced, signed, points, asked), stopped=stopped)


def unconfirmed_layers(
    traced: TracedLayers, *, one: bool, asked: int, stopped: str
) -> TracedCandidate:
    """The same for the layers found, all of them."""
    signed = _signed_layers(traced, one=one, deadline=OVER)
    points = _no_points(signed.network.features, signed.network.outputs or 1, one)
    return replace(_layers_candidate(traced, signed, points, asked), stopped=stopped)


def _no_points(features: int, outputs: int, one: bool) -> _Points:
    nothing = Answered(np.empty((0, features)), np.empty(0 if one else (0, outputs)))
    nobody = np.empty(0, dtype=int)
    return _Points("inputs", nothing, nothing, nothing, nobody, nothing)


def _candidate(traced: Traced, signed: Signed, points: _Points, asked: int) -> TracedCandidate:
    return TracedCandidate(
        network=signed.network,
        guides=traced.guides,
        error_bound=_error_bound(traced),
        kinks=traced.kinks,
        complete=traced.complete,
        asked=asked,
        alternatives=signed.alternatives,
        open_signs=signed.open_signs,
        untried=signed.untried,
        spare_bits=signed.spare_bits,
        **vars(points),
    )


def _layers_candidate(
    traced: TracedLayers, signed: Signed, points: _Points, asked: int
) -> TracedCandidate:
    return TracedCandidate(
        network=signed.network,
        guides=traced.guides,
        error_bound=traced.error,
        kinks=(),
        complete=True,
        asked=asked,
        alternatives=signed.alternatives,
        open_signs=signed.open_signs,
        untried=signed.untried,
        found=LayersFound(traced.layers),
        **vars(points),
    )


def _error_bound(traced: Traced) -> float:
    """How far rounding lets a unit be off, relatively."""
    return BOUND * float(np.max(traced.errors, initial=0.0))


# ---------------------------------------------------------------- signs


@dataclass(frozen=True)
class Signed:
    """A network whose units have signs, and a linear term if no signs explain it."""

    network: AnyNetwork
    alternatives: int = 0
    """How many other signs explain the linear part as well."""
    open_signs: int = 0
    """How many units have more than one sign in these, or in patterns that were not tried."""
    untried: str = ""
    """Why signs were left untried, as a clause; empty if none were."""
    spare_bits: float = np.inf
    """Of a slope that was found: what the equations tell beyond a bit a sign (`one_slope`)."""


def _signed(
    traced: Traced, *, one: bool, deadline: Deadline, activation: Activation | None = RELU
) -> Signed:
    """Signs from the linear part, every output being as large as the others.

    Units of another slope below zero than 0 are looked for where ReLU does not explain it, unless
    ReLU was asked for.
    """
    found = traced.units
    sizes = np.linalg.norm(found.A, axis=1) + np.linalg.norm(found.linear, axis=1)
    scale = binary_scale(sizes)
    plain = _network(found.scaled(1 / scale))
    absolute = as_absolute(plain)
    parameters = Parameters.of(absolute)
    m = parameters.units
    terms = 2 * parameters.beta[:m].T, parameters.theta[:, :-1], parameters.beta[m:-1].T
    allowed = NO_LINEAR * float(np.linalg.norm(sizes / scale))
    own, spare_bits = RELU, np.inf
    signs, untried = _signs(*terms, _error_bound(traced), deadline)
    if np.linalg.norm(signs.remainder) > allowed and activation is not RELU:
        sloped = _sloped(*terms, _error_bound(traced), allowed, deadline, activation)
        if sloped is not None:
            own, signs, untried = sloped.activation, sloped.signs, ""
            spare_bits = sloped.spare_bits if activation is None else np.inf
    left = np.linalg.norm(signs.remainder) > allowed
    network = plain if left else as_rectified(absolute, signs.signs, own).replace(linear=None)
    network = _of_outputs(network, scale, one)
    if untried:
        return Signed(network, open_signs=m, untried=untried)
    others = () if left else signs.alternatives
    different = np.any([signs.signs != other for other in others], axis=0)
    return Signed(network, len(others), int(np.sum(different)), spare_bits=spare_bits)


def _sloped(
    a: Array,
    W: Array,
    v: Array,
    relative_error: float,
    allowed: float,
    deadline: Deadline,
    activation: Activation | None,
) -> OneSlope | None:
    """Units of one slope that explain a linear part: of the activation asked for, if one was.

    Without equations to spare a slope is told by nothing, so it must be asked for.
    """
    error = min(relative_error, NO_LINEAR) * float(np.linalg.norm(unit_terms(a / 2, W)))
    found = one_slope(a / 2, W, v, error, allowed, lambda: deadline.passed)
    if found is None or (activation is None and found.spare_bits <= 0):
        return None
    slope = found.activation.slope
    wanted = None if activation in (None, LEAKY_RELU) else activation
    if wanted is not None and (wanted.slope is None or not _same_slope(slope, wanted.slope)):
        return None
    return found


def _same_slope(found: float | None, wanted: float) -> bool:
    return found is not None and abs(found - wanted) <= NO_LINEAR


def _signed_layers(traced: TracedLayers, *, one: bool, deadline: Deadline) -> Signed:
    """The network as it was found, and the units of a layer that may be reversed together."""
    assert traced.network is not None, "all layers were found"
    found = traced.network
    deep = DeepNetwork(found.weights, found.biases, outputs=None if one else len(found.biases[-1]))
    deep = deep.canonical()
    seconds = float(np.clip(deadline.left, SHORTEST, FLIP_BUDGET))
    flips = [flip_sets(deep.layer(k), budget=seconds) for k in range(deep.layers)]
    network = deep.as_one_layer() if deep.layers == 1 else deep
    if not all(flip.complete for flip in flips):
        why = "too many units may be reversed together for all sets of them to be tried in time."
        return Signed(network, open_signs=deep.units, untried=why)
    sets = sum(len(flip.sets) for flip in flips)
    reversible = sum(len({i for units in flip.sets for i in units}) for flip in flips)
    return Signed(network, sets, reversible)


def _signs(
    a: Array, W: Array, v: Array, relative_error: float, deadline: Deadline
) -> tuple[Signs, str]:
    """The signs that explain a linear part; why some were left untried, if some were."""
    signs = signs_from_linear_part(a, W, v)
    if signs.complete:
        return signs, ""
    M = unit_terms(a, W) / 2
    error = min(relative_error, NO_LINEAR) * float(np.linalg.norm(M))
    found = signs_by_lattice(a, W, v, error, lambda: deadline.passed)
    if found.signs is None:
        return signs, found.reason
    return Signs(found.signs, v.ravel() - M @ found.signs), ""


def _network(found: Units) -> Network:
    return Network(found.W, found.b, found.A, found.constant, linear=found.linear)


def _of_outputs(network: Network, scale: Array, one: bool) -> Network:
    """The network with outputs of their own size, or one number for an output."""
    A, c = scale[:, None] * network.output_weights, scale * network.output_bias
    linear = None if network.linear is None else scale[:, None] * network.linear
    if one:
        A, c, linear = A[0], c[0], None if linear is None else linear[0]
    return network.replace(output_weights=A, output_bias=c, linear=linear).canonical()
