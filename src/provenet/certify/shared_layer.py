"""The lowest layer as a claim of its own, where searches of all layers agree on it and on no more.

Samples may tell the lowest layer and not what lies above: a unit there that hardly ever switches,
or that may belong to another layer, leaves the network *partial* however well labels are predicted.
Two networks that were found from different starts and predict all unseen labels to rounding are
evidence for what they share. A unit of the lowest layer that both have, to rounding, is no accident
of a search: one that only carries what others lack, or was made for a few samples, differs from
start to start. What is asked of the layer beside that is all that is asked of the network and does
not speak of what lies above (unseen samples, signs, no waves of another length), and samples enough
on both sides of every unit and around a crossing with another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from provenet.certify.agreement import best_of
from provenet.certify.checks import Check, Claim, Status
from provenet.certify.deep import crossings
from provenet.certify.deep_checks import DETERMINED, NO_FEWER, PLACED, SWITCHES, WIDTHS
from provenet.certify.layer import LayerDetails, LayerEvidence
from provenet.certify.result import Recovery
from provenet.certify.tolerances import LARGEST_EXACT_ERROR, SPARE_ON_A_PIECE
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.data.sources import ArraySource
from provenet.fitting.context import Context
from provenet.fitting.linear import with_output_layer
from provenet.networks.canonical import matched_layers
from provenet.networks.layered import LayeredNetwork
from provenet.networks.network import DeepNetwork, Network

_OF_THE_REST = (SWITCHES, PLACED, DETERMINED, NO_FEWER, WIDTHS)
"""Checks that the network may fail for what lies above: they are asked of the layer by itself, or
answered by another search that found the same. It must pass all others."""


def shared_layer(context: Context, results: Sequence[Recovery]) -> Recovery | None:
    """The lowest layer of the best network, if another search found the same; else None."""
    exact = [result for result in results if _is_exact(result)]
    if len(exact) < 2:
        return None
    best = best_of(exact)
    others = (_network(result) for result in exact if result is not best)
    errors = min((_apart(_network(best), other) for other in others), key=np.max)
    samples = context.fitted_samples
    layer = _layer(_network(best), samples)
    answer = Recovery.judged(
        layer,
        (*_as_asked(context, _network(best)), *_checks(best, errors, samples)),
        Status.EXACT,
        _praise(layer, best),
        method=best.method,
        claim=Claim.LAYER,
        certificate=best.certificate,
        ambiguities=best.ambiguities,
        details=_details(best, layer, errors),
    )
    return answer if answer.success else None


def _network(result: Recovery) -> DeepNetwork:
    assert isinstance(result.network, DeepNetwork)
    return result.network


def _is_exact(result: Recovery) -> bool:
    """Whether it is a network of several layers that leaves nothing but rounding."""
    certificate = result.certificate
    deep = isinstance(result.network, DeepNetwork) and result.network.layers > 1
    return deep and certificate is not None and certificate.noise == 0


def _apart(first: DeepNetwork, second: DeepNetwork) -> Array:
    """By how much each unit of the lowest layer differs in the other network."""
    if first.widths[0] != second.widths[0]:
        return np.array([np.inf])
    pairs = matched_layers(second, first)[0]
    return np.asarray(pairs.distances[np.argsort(pairs.columns)])


def _as_asked(context: Context, network: DeepNetwork) -> Iterator[Check]:
    """Has the layer as many units as were asked for?"""
    asked, found = context.options.units, network.widths[0]
    if isinstance(asked, tuple):
        yield Check(
            "it has as many units as were asked for",
            found == asked[0],
            found,
            f"{asked[0]}",
            "The lowest layer has other units than were asked for: leave units= out.",
            Status.PARTIAL,
        )


def _checks(best: Recovery, errors: Array, samples: ArraySource) -> Iterator[Check]:
    network = _network(best)
    yield from (check for check in best.checks if check.name not in _OF_THE_REST)
    yield Check(
        "two searches found the same lowest layer",
        bool(np.max(errors) <= LARGEST_EXACT_ERROR),
        float(np.max(errors)),
        f"at most {LARGEST_EXACT_ERROR:g}",
        "Searches from different starts have different lowest layers: take more samples.",
        Status.PARTIAL,
    )
    if not network.activation.kinked:
        return
    sides, fewest = _sides(best).min(), network.features + SPARE_ON_A_PIECE
    yield Check(
        "every unit of it switches on enough samples",
        bool(sides >= fewest),
        f"{sides} on the rarer side",
        f"at least {fewest}",
        "Some units of the lowest layer hardly ever switch: take more samples.",
        Status.PARTIAL,
    )
    crossed = crossings(network, samples.X)[0].min()
    yield Check(
        "the samples tell that it is the lowest",
        bool(crossed >= SPARE_ON_A_PIECE),
        f"{crossed} in the emptiest part",
        f"at least {SPARE_ON_A_PIECE}",
        "A unit of the lowest layer may belong to another: take more samples.",
        Status.PARTIAL,
    )


def _sides(best: Recovery) -> Array:
    """For each unit of the lowest layer: samples on the rarer side of its kink."""
    assert best.certificate is not None and best.certificate.rarer_side is not None
    return np.asarray(best.certificate.rarer_side[: _network(best).widths[0]])


def _layer(network: DeepNetwork, samples: ArraySource) -> Network:
    """The units, with the linear part of what lies above them for output weights."""
    Y = samples.y.reshape(samples.size, -1)
    found = with_output_layer(
        samples.X, Y, network.weights[0], network.biases[0], network.activation
    )
    if network.outputs is not None:
        return found
    return found.replace(
        output_weights=found.output_weights[0], output_bias=float(np.ravel(found.output_bias)[0])
    )


def _praise(layer: Network, best: Recovery) -> str:
    return (
        f"{counted(layer.units, 'unit')} of the lowest layer to machine precision: two searches "
        "from different starts found them, and predict unseen samples to rounding. What lies above "
        f"them is open: {best.message[:1].lower()}{best.message[1:]}"
    )


def _details(best: Recovery, layer: Network, errors: Array) -> LayerDetails:
    network = _network(best)
    above = DeepNetwork(
        network.weights[1:], network.biases[1:], network.activation, outputs=network.outputs
    )
    evidence = LayerEvidence(
        angle_errors=errors,
        threshold_errors=errors,
        samples=_sides(best),
        exact=True,
        way="searches of all layers from different starts",
    )
    return LayerDetails(evidence, LayeredNetwork(layer, above))
