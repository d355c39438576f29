"""What is asked of layers that were read off a model's answers one after the other.

A deep network whose function agrees everywhere may still have weights that no answer speaks of:
between units that are never on together where that shows (`shown`), of units that never switch.
*exact* needs every one of them to show at some point asked; where some do not, the function is as
good and the weights are named.

Where the layers above were not found there is no function to compare. What is claimed then are the
first layers, whose units explain every gradient measured. That is asked of the model itself:

- where a unit of theirs switches, the answers bend;
- the answers do not change in directions in which no unit of the last whole layer changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from provenet.certify.checks import Check, Claim, Status, asked
from provenet.certify.layers_found import LayersFound
from provenet.certify.result import Recovery
from provenet.certify.tolerances import MOST_BENDS_UNSEEN, MOST_NAMED
from provenet.certify.traced import TracedCandidate
from provenet.common.typing import AnyArray
from provenet.common.words import counted
from provenet.networks.network import Network


def named(network: Network, units: AnyArray) -> str:
    """Units, counted through all layers: "units [3] of layer 1 and [0, 2] of layer 2"."""
    if network.layers == 1:
        return f"units {units.tolist()}"
    ends = np.cumsum([0, *network.widths])
    parts = [
        f"{(units[(units >= low) & (units < high)] - low).tolist()} of layer {number}"
        for number, (low, high) in enumerate(pairwise(ends), start=1)
        if np.any((units >= low) & (units < high))
    ]
    return f"units {' and '.join(parts)}"


# ---------------------------------------------------------------- weights that do not show


def rare_points_are_predicted(candidate: TracedCandidate, explained: str) -> Check:
    """Are points predicted that alone show some weights, or lie far out?"""
    agree = candidate.rare_are_predicted
    return Check(
        "rare points and points far out are predicted",
        bool(agree.all()),
        f"{int(agree.sum())} of {len(agree)}",
        "all",
        f"{explained}, but {int(np.sum(~agree))} of {len(agree)} points are off that lie far out "
        "or where units are on together that are not elsewhere: a weight of these is wrong, "
        "or a unit that is on there is missing.",
        Status.PARTIAL,
    )


def every_weight_shows(candidate: TracedCandidate, explained: str) -> Check:
    """Would another value of any weight between layers show at the points asked?"""
    hidden = candidate.shown.number_hidden
    between = sum(W.size for W, _ in candidate.network.affine_maps[1:-1])
    return Check(
        "every weight between layers shows",
        hidden == 0,
        f"{between - hidden:,} of {between:,}",
        "all, at some point asked",
        f"{explained}: the function is exact at these ({candidate.room}), but "
        f"{counted(hidden, 'weight')} between units that are never on together there "
        "do not show, and others would do as well: see the ambiguities.",
        Status.PARTIAL,
    )


def hidden_weights(candidate: TracedCandidate) -> tuple[str, ...]:
    """Weights that no answer speaks of, in sentences, a unit at a time."""
    sentences = []
    for number, hidden in enumerate(candidate.shown.hidden, start=2):
        for unit in np.flatnonzero(hidden.any(axis=1)):
            below = np.flatnonzero(hidden[unit]).tolist()
            sentences.append(
                f"Weights of unit {unit} of layer {number} from units {below} of layer "
                f"{number - 1} do not show: these are never on together where the answers tell."
            )
    if len(sentences) > MOST_NAMED:
        rest = counted(len(sentences) - MOST_NAMED, "further unit")
        return (*sentences[:MOST_NAMED], f"So it is with weights of {rest}.")
    return tuple(sentences)


# ---------------------------------------------------------------- the first layers alone


@dataclass(frozen=True)
class LayersCandidate:
    """Layers from the inputs on of a function whose layers above were not found."""

    found: LayersFound
    bends: AnyArray
    """For each unit of the whole layers that was asked about, whether answers bend at its kink."""
    flat: AnyArray
    """For each step along which no unit of the last whole layer changes, whether answers stay."""
    stopped: str = ""
    """What ended the search before its end and what to try, in sentences; empty if nothing did."""


def conclude_layers(candidate: LayersCandidate, method: str) -> Recovery:
    """What the first layers of a model are worth."""
    network = candidate.found.network
    return Recovery.judged(
        network.layer(0) if network is not None and network.layers == 1 else network,
        asked(_questions(candidate)),
        Status.PARTIAL,
        _above(candidate),
        method=method,
        claim=Claim.LAYER,
        details=candidate.found,
    )


def _questions(candidate: LayersCandidate) -> Iterator[Check]:
    """All of them, in order."""
    yield _first_layer_is_whole(candidate)
    yield _answers_bend(candidate)
    if len(candidate.flat):
        yield _nothing_goes_round(candidate)
    yield _layers_above_are_found(candidate)


def _first_layer_is_whole(candidate: LayersCandidate) -> Check:
    found = candidate.found
    return Check(
        "the first layer is whole",
        len(found.whole) > 0,
        str(found.layers[0]) if found.layers else "no unit",
        "every gradient measured is explained by its units",
        f"No layer is known as a whole: {found}. {candidate.stopped or _NONE}",
    )


def _answers_bend(candidate: LayersCandidate) -> Check:
    bends, number = candidate.bends, len(candidate.bends)
    return Check(
        "answers bend where the units found switch",
        int(np.sum(~bends)) <= MOST_BENDS_UNSEEN * number,
        f"at {int(bends.sum())} of {number}",
        f"at most {100 * MOST_BENDS_UNSEEN:.0f}% without a bend, where what is above may hide it",
        f"At {int(np.sum(~bends))} of {number} units of the layers found the answers do not bend: "
        f"these are none of the function's. {candidate.found}.",
        Status.PARTIAL if candidate.stopped else Status.FAILED,
        samples=number,
    )


def _nothing_goes_round(candidate: LayersCandidate) -> Check:
    flat, number = candidate.flat, len(candidate.flat)
    return Check(
        "answers depend on the layers found alone",
        bool(flat.all()),
        f"{int(flat.sum())} of {number} steps past them change nothing",
        "all",
        f"{int(np.sum(~flat))} of {number} steps that change no unit of the layers found change "
        f"the answers: units are missing. {candidate.found}.",
    )


def _layers_above_are_found(candidate: LayersCandidate) -> Check:
    return Check(
        "the layers above were found",
        False,
        str(candidate.found),
        "all, up to the outputs",
        _above(candidate),
        Status.PARTIAL,
    )


def _above(candidate: LayersCandidate) -> str:
    number = len(candidate.found.whole)
    first = (
        "The first layer of the network is"
        if number == 1
        else f"The first {number} layers of the network are"
    )
    known = f"{first} known as far as gradients tell, what lies above was not found"
    return f"{known}: {candidate.found}. {candidate.stopped or _MORE}"


_NONE = (
    "The function is not a network of ReLU units, or its first layer could not be told: more "
    "queries, more time or a wider box may tell more."
)
_MORE = "More queries, more time or a wider box may tell more."
