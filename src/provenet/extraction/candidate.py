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
from provenet.extraction.deadline import OVER
from provenet.extraction.kinks import Traced
from provenet.extraction.layers.traced import TracedLayers
from provenet.extraction.oracle import Oracle
from provenet.extraction.signed import Signed, signed_units
from provenet.extraction.tolerances import (
    ASKED_AGAIN,
    BOUND,
    SEARCHED_PART,
)
from provenet.networks.activations import RELU, Activation
from provenet.networks.network import DeepNetwork, Network
from provenet.networks.signs import flip_sets


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
    signed = signed_units(
        traced.units,
        _error_bound(traced),
        one=one,
        deadline=oracle.deadline,
        activation=activation,
    )
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
    signed = _signed_layers(traced, one=oracle.outputs is None)
    put = _Put(signed.network, traced.guides, traced.error, looks)
    candidate = _layers_candidate(traced, signed, put.to(oracle, box, rng), asked)
    return replace(candidate, looks=looks, wanted=wanted)


@dataclass(frozen=True)
class _Put:
    """A network that is put to the test."""

    network: Network
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
        X, kink_of = points_at_kinks(network, allowed, box, rng, oracle.check_time)
        at_kinks = _answered(oracle, X)
        showing = None
        if network.layers > 1:
            asked = np.vstack([part.X for part in (self.guides, fresh, searched, at_kinks)])
            allowed = fresh.allowed(AGREES)
            X = showing_points(network, asked, allowed, box, rng, oracle.check_time)
            showing = _answered(oracle, np.vstack([X, far_points(network, box, rng)]))
        first = self.guides.X[:ASKED_AGAIN]
        again = Answered(first, oracle.ask(first[::-1], fresh=True)[::-1])
        return _Points(box.inputs, fresh, searched, at_kinks, kink_of, again, showing)


def _answered(oracle: Oracle, X: Array) -> Answered:
    return Answered(X, oracle.ask(X), oracle.doubt(X))


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
    signed = signed_units(traced.units, _error_bound(traced), one=one, deadline=OVER)
    points = _no_points(traced.units.W.shape[1], len(traced.units.constant), one)
    return replace(_candidate(traced, signed, points, asked), stopped=stopped)


def unconfirmed_layers(
    traced: TracedLayers, *, one: bool, asked: int, stopped: str
) -> TracedCandidate:
    """The same for the layers found, all of them."""
    signed = _signed_layers(traced, one=one)
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


def _signed_layers(traced: TracedLayers, *, one: bool) -> Signed:
    """The network as it was found, and the units of a layer that may be reversed together."""
    assert traced.network is not None, "all layers were found"
    found = traced.network
    deep = DeepNetwork(found.weights, found.biases, outputs=None if one else len(found.biases[-1]))
    deep = deep.canonical()
    flips = [flip_sets(deep.layer(k)) for k in range(deep.layers)]
    network = deep.as_one_layer() if deep.layers == 1 else deep
    if not all(flip.complete for flip in flips):
        why = "too many units may be reversed together for all sets of them to be tried."
        return Signed(network, open_signs=deep.units, untried=why)
    sets = sum(len(flip.sets) for flip in flips)
    reversible = sum(len({i for units in flip.sets for i in units}) for flip in flips)
    return Signed(network, sets, reversible)
