"""The units as a table: parameters with standard errors, and how far each is from the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from provenet.certify.result import Recovery
from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.networks.matching import match_units, unit_distances
from provenet.networks.network import Network
from provenet.report.tables import decimals_of, small, with_error
from provenet.report.tolerances import (
    ALL_DECIMALS,
    MOST_PAGE_OUTPUTS,
    MOST_PAGE_UNITS,
    MOST_PAGE_WEIGHTS,
)


@dataclass(frozen=True)
class UnitTable:
    """Headings, rows of cells, and what is to be said below."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def unit_table(result: Recovery, truth: Network | None) -> UnitTable | None:
    """All units, or the first of very many; None without a network."""
    network = result.network
    if network is None or network.units == 0:
        return None
    errors = result.standard_errors
    decimals = ALL_DECIMALS if errors is None else decimals_of(errors)
    seen = errors if decimals < ALL_DECIMALS else None
    extra = _extra_columns(result, network, truth)
    values, spreads = _columns(network), None if seen is None else _columns(seen)
    rows = []
    for i in range(min(network.units, MOST_PAGE_UNITS)):
        spread = None if spreads is None else spreads[i]
        cells = [with_error(values[i], spread, k, decimals) for k in range(values.shape[1])]
        rows.append((str(i), *(column[i] for column in extra.values()), *cells))
    headings = ("unit", *extra, *_headings(network))
    return UnitTable(headings, tuple(rows), tuple(_notes(result, network, seen, decimals)))


def _extra_columns(
    result: Recovery, network: Network, truth: Network | None
) -> dict[str, list[str]]:
    """Heading and cells: the distance to the truth, or the errors of a lowest layer's units."""
    extra = {}
    if truth is not None and truth.features == network.features:
        extra["distance to truth"] = _distances(network, truth)
    if result.layer is not None:
        angles = np.degrees(result.layer.angle_errors)
        extra["angle ± (degrees)"] = [small(float(angle)) for angle in angles]
        extra["threshold ±"] = [small(float(error)) for error in result.layer.threshold_errors]
    return extra


def _distances(network: Network, truth: Network) -> list[str]:
    """`|w-w'| + |a-a'| + |b-b'|` of each unit and its partner."""
    if (network.outputs or 1) != (truth.outputs or 1):
        return ["no match"] * network.units
    found, hidden = match_units(network, truth)
    distance = unit_distances(network.canonical(), truth.canonical())
    texts = {int(i): small(float(distance[i, j])) for i, j in zip(found, hidden, strict=True)}
    return [texts.get(i, "no match") for i in range(network.units)]


def _headings(network: Network) -> list[str]:
    outputs = min(network.outputs or 1, MOST_PAGE_OUTPUTS)
    names = ["output"] if network.outputs is None else [f"out{q + 1}" for q in range(outputs)]
    return [*names, "bias", *(f"w{k + 1}" for k in range(min(network.features, MOST_PAGE_WEIGHTS)))]


def _columns(parameters: Any) -> Array:
    """A row a unit: output weights, bias, weights."""
    A = np.atleast_2d(parameters.output_weights).T[:, :MOST_PAGE_OUTPUTS]
    return np.column_stack([A, parameters.biases, parameters.weights[:, :MOST_PAGE_WEIGHTS]])


def _notes(result: Recovery, network: Network, seen: Any, decimals: int) -> Iterator[str]:
    c = np.atleast_1d(network.output_bias)[:MOST_PAGE_OUTPUTS]
    c_errors = None if seen is None else np.atleast_1d(seen.output_bias)
    biases = ", ".join(with_error(c, c_errors, q, decimals) for q in range(len(c)))
    yield f"Output bias: {biases}."
    if network.linear is not None:
        yield f"Linear term beside the units: norm {np.linalg.norm(network.linear):.4g}."
    if seen is not None:
        yield "± is one standard error."
    elif result.certificate is not None and result.certificate.noise == 0:
        yield "There is no noise, so the standard errors are zero to the digits shown."
    sizes = (
        (network.units, MOST_PAGE_UNITS, "unit"),
        (network.outputs or 1, MOST_PAGE_OUTPUTS, "output"),
        (network.features, MOST_PAGE_WEIGHTS, "weight"),
    )
    for number, most, noun in sizes:
        if number > most:
            yield f"The first {most} of {counted(number, noun)} are shown."
