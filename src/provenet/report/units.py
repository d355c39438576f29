"""The units as a table: parameters with standard errors, and how far each is from the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from provenet.certify.result import Recovery
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.networks.canonical import MatchedLayer, matched_layers
from provenet.networks.network import Network
from provenet.report.layers import Layered, UnitLayer
from provenet.report.tables import seen_errors, small, with_error
from provenet.report.tolerances import (
    MOST_PAGE_OUTPUTS,
    MOST_PAGE_UNITS,
    MOST_PAGE_WEIGHTS,
)


@dataclass(frozen=True)
class UnitTable:
    """A title if there are several, headings, rows of cells, and what is to be said below."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def unit_tables(result: Recovery, truth: Network | None) -> tuple[UnitTable, ...]:
    """A table a hidden layer of all units, or the first of very many; none without a network."""
    network = result.network
    if network is None or network.units == 0:
        return ()
    shown, (seen, decimals) = Layered.of(network), seen_errors(result.standard_errors, network)
    tables = []
    for number, layer in enumerate(shown.layers):
        spread = None if seen is None else seen.layers[number]
        extra = _extra_columns(result, network, number, truth)
        last = number == network.layers - 1
        below = _notes(result, network, seen, decimals) if last else iter(())
        tables.append(
            UnitTable(
                shown.title(number),
                ("unit", *extra, *_headings(layer, () if number else result.feature_names)),
                tuple(_rows(layer, spread, decimals, list(extra.values()))),
                (*below, *_cut(layer)),
            )
        )
    return tuple(tables)


def _rows(
    layer: UnitLayer, errors: UnitLayer | None, decimals: int, extra: list[list[str]]
) -> Iterator[tuple[str, ...]]:
    values, spreads = _columns(layer), None if errors is None else _columns(errors)
    for i in range(min(layer.units, MOST_PAGE_UNITS)):
        spread = None if spreads is None else spreads[i]
        cells = [with_error(values[i], spread, k, decimals) for k in range(values.shape[1])]
        yield (str(i), *(column[i] for column in extra), *cells)


def _extra_columns(
    result: Recovery, network: Network, number: int, truth: Network | None
) -> dict[str, list[str]]:
    """Heading and cells: the distance to the truth, or the errors of a lowest layer's units."""
    extra = {}
    if truth is not None and truth.features == network.features:
        extra["distance to truth"] = _distances(network, number, truth)
    if result.layer is not None:
        angles = np.degrees(result.layer.angle_errors)
        extra["angle ± (degrees)"] = [small(float(angle)) for angle in angles]
        extra["threshold ±"] = [small(float(error)) for error in result.layer.threshold_errors]
    return extra


def _distances(network: Network, number: int, truth: Network) -> list[str]:
    """`|w-w'| + |a-a'| + |b-b'|` of each unit of a layer and its partner."""
    texts: dict[int, str] = {}
    for layer in _matched(network, truth)[number : number + 1]:
        pairs = zip(layer.rows.tolist(), layer.distances, strict=True)
        texts = {i: small(float(distance)) for i, distance in pairs}
    return [texts.get(i, "no match") for i in range(network.widths[number])]


def _matched(network: Network, truth: Network) -> tuple[MatchedLayer, ...]:
    """Layers that have partners: none of networks of another shape."""
    same = network.layers == truth.layers and (network.outputs or 1) == (truth.outputs or 1)
    return matched_layers(network, truth) if same else ()


def _headings(layer: UnitLayer, inputs: tuple[str, ...]) -> list[str]:
    names = [f"out{q + 1}" for q in range(min(layer.outputs or 0, MOST_PAGE_OUTPUTS))]
    if layer.output_weights is not None and layer.outputs is None:
        names = ["output"]
    inputs = inputs or tuple(f"w{k + 1}" for k in range(layer.inputs))
    return [*names, "bias", *inputs[:MOST_PAGE_WEIGHTS]]


def _columns(layer: UnitLayer) -> Array:
    """A row a unit: output weights, bias, weights."""
    A = np.zeros((0, layer.units)) if layer.output_weights is None else layer.output_weights
    outputs = np.atleast_2d(A).T[:, :MOST_PAGE_OUTPUTS]
    return np.column_stack([outputs, layer.biases, layer.weights[:, :MOST_PAGE_WEIGHTS]])


def _notes(
    result: Recovery, network: Network, seen: Layered | None, decimals: int
) -> Iterator[str]:
    """What is said once of all layers."""
    c = Layered.of(network).output_bias[:MOST_PAGE_OUTPUTS]
    c_errors = None if seen is None else seen.output_bias
    biases = ", ".join(with_error(c, c_errors, q, decimals) for q in range(len(c)))
    yield f"Output bias: {biases}."
    if network.linear is not None:
        yield f"Linear term beside the units: norm {np.linalg.norm(network.linear):.4g}."
    if seen is not None:
        yield "± is one standard error."
    elif result.certificate is not None and result.certificate.noise == 0:
        yield "There is no noise, so the standard errors are zero to the digits shown."


def _cut(layer: UnitLayer) -> Iterator[str]:
    """What a table leaves out."""
    sizes = (
        (layer.units, MOST_PAGE_UNITS, "unit"),
        (layer.outputs or 1, MOST_PAGE_OUTPUTS, "output"),
        (layer.inputs, MOST_PAGE_WEIGHTS, "weight"),
    )
    for number, most, noun in sizes:
        if number > most:
            yield f"The first {most} of {counted(number, noun)} are shown."
