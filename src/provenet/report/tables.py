"""Tables of units: of one network, or of two side by side, as wide as the screen allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from provenet.common.typing import Array
from provenet.common.words import counted
from provenet.networks.matching import match_units, turned_like, unit_distances
from provenet.networks.network import Network
from provenet.report.tolerances import EXACT_MATCH, MOST_CONSOLE_OUTPUTS, MOST_CONSOLE_WEIGHTS

_Row = tuple[int | None, int | None, float]
"""A unit of the truth, its partner in the estimate, their distance; None has no partner."""


def number(value: float, decimals: int = 4) -> str:
    """A parameter with fixed decimals, or in powers of ten when it is huge."""
    text = f"{value:.{decimals}f}" if abs(value) < 1e3 else f"{value:.{max(decimals - 2, 1)}e}"
    return text.removeprefix("-") if text.strip("-0.") == "" else text


def small(value: float) -> str:
    """An error: two digits and a power of ten."""
    if value == 0:
        return "0"
    return (
        f"{value:.1e}" if math.isfinite(value) else "unknown" if math.isnan(value) else "infinite"
    )


def is_leaky(network: Network) -> bool:
    """Whether the units are leaky ReLU."""
    return network.activation.family == "leaky_relu"


class _Shown(NamedTuple):
    """How many columns a table of units has."""

    outputs: int
    """Output weights of each unit; 0 for one column, with their norm if there are several."""
    weights: int


def side_by_side(
    console: Console, estimate: Network, truth: Network, names: tuple[str, str]
) -> RenderableType:
    """Matched units of both networks, as many weights of each as the screen holds."""
    left, right = truth.canonical(), turned_like(estimate, truth)
    rows = _matched_rows(estimate, truth)
    table = _widest(console, truth, lambda shown: _comparison(left, right, rows, names, shown))
    notes = [_pair("Output bias", left.output_bias, right.output_bias, names)]
    if is_leaky(left) and is_leaky(right):
        slopes = left.activation.slope or 0.0, right.activation.slope or 0.0
        notes.append(_pair("Slope below zero", *slopes, names))
    return Group(table, *notes, *_linear_note(left, names[0]), *_linear_note(right, names[1]))


def _matched_rows(estimate: Network, truth: Network) -> list[_Row]:
    """Pairs of units of the canonical forms and their distance, in the truth's order."""
    found, hidden = match_units(estimate, truth)
    distance = unit_distances(estimate.canonical(), truth.canonical())
    partner = dict(zip(hidden.tolist(), found.tolist(), strict=True))
    rows: list[_Row] = []
    for i in range(distance.shape[1]):
        j = partner.get(i)
        rows.append((i, j, math.inf if j is None else float(distance[j, i])))
    alone = set(range(distance.shape[0])) - set(partner.values())
    return rows + [(None, j, math.inf) for j in sorted(alone)]


def _comparison(
    left: Network,
    right: Network,
    rows: Sequence[_Row],
    names: tuple[str, str],
    shown: _Shown,
) -> Table:
    table = plain_table(gap=0)
    table.add_column("\nunit", justify="right", style="dim")
    first, *others = _headings(left, shown)
    for name, style in zip(names, ("", "cyan"), strict=True):
        table.add_column(width=1)
        table.add_column(Text(f"{name}\n{first}", "bold"), justify="right", style=style)
        for heading in others:
            table.add_column(f"\n{heading}", justify="right", style=style)
    table.add_column("\nerror", justify="right")
    values, found = _columns(left, shown), _columns(right, shown)
    for index, (i, j, error) in enumerate(rows):
        cells = ["", *_unit_cells(values, i), "", *_unit_cells(found, j)]
        table.add_row(str(index), *cells, _error_text(error))
    return table


def _unit_cells(values: Array, unit: int | None) -> list[str]:
    if unit is None:
        return ["-"] * values.shape[1]
    return [number(float(value)) for value in values[unit]]


def _error_text(error: float) -> Text:
    if math.isinf(error):
        return Text("no match", "yellow")
    return Text(small(error), "green" if error <= EXACT_MATCH else "yellow")


def _pair(label: str, left: Array | float, right: Array | float, names: tuple[str, str]) -> Text:
    error = _error_text(float(np.linalg.norm(np.subtract(left, right))))
    if np.ndim(left) or np.ndim(right):
        return Text.assemble(f"{label}, {np.size(left)} outputs: error ", error)
    return Text.assemble(
        f"{label}: {number(float(left))} {names[0]}, ",
        (f"{number(float(right))} {names[1]}", "cyan"),
        ", error ",
        error,
    )


def _linear_note(network: Network, name: str) -> list[Text]:
    if network.linear is None:
        return []
    norm = float(np.linalg.norm(network.linear))
    return [Text(f"Linear term beside the units ({name}): norm {number(norm)}")]


def network_table(console: Console, network: Network, errors: Any = None) -> RenderableType:
    """A network's units, with standard errors where they are large enough to be seen."""
    decimals = 6 if errors is None else decimals_of(errors)
    seen = errors if decimals < 6 else None
    table = _widest(console, network, lambda shown: _parameters(network, seen, decimals, shown))
    c = np.atleast_1d(network.output_bias)
    c_errors = None if seen is None else np.atleast_1d(seen.output_bias)
    first = range(min(len(c), MOST_CONSOLE_OUTPUTS))
    biases = "  ".join(with_error(c, c_errors, i, decimals) for i in first)
    more = f"  and {len(c) - len(first)} more" if len(c) > len(first) else ""
    return Group(table, Text(f"Output bias: {biases}{more}"), *_linear_note(network, "found"))


def decimals_of(errors: Any) -> int:
    """Decimals that show two digits of a typical standard error."""
    values = np.concatenate([np.ravel(errors.biases), np.ravel(errors.output_weights)])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return 6
    return int(np.clip(1 - math.floor(math.log10(float(np.median(values)))), 2, 6))


def _parameters(network: Network, errors: Any, decimals: int, shown: _Shown) -> Table:
    table = plain_table()
    table.add_column("unit", justify="right", style="dim")
    for heading in _headings(network, shown):
        table.add_column(heading, justify="right")
    values = _columns(network, shown)
    spreads = None if errors is None else _columns(errors, shown)
    for i, row in enumerate(values):
        spread = None if spreads is None else spreads[i]
        cells = [with_error(row, spread, k, decimals) for k in range(len(row))]
        table.add_row(str(i), *cells)
    return table


def with_error(values: Array, errors: Array | None, index: int, decimals: int) -> str:
    """A parameter, and its standard error if there is one."""
    value = number(float(values[index]), decimals)
    if errors is None:
        return value
    error = float(errors[index])
    return f"{value} ± {number(error, decimals) if math.isfinite(error) else '?'}"


def plain_table(gap: int = 1) -> Table:
    """A table with a line below its headings and no other."""
    return Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, gap),
        show_edge=False,
        pad_edge=False,
        caption_justify="left",
        caption_style="dim",
    )


def _headings(network: Network, shown: _Shown) -> list[str]:
    """Names of the columns of `_columns`."""
    outputs = [f"out{i + 1}" for i in range(shown.outputs)]
    if not shown.outputs:
        outputs = ["output" if network.outputs is None else "|out|"]
    return [*outputs, "bias", *(f"w{i + 1}" for i in range(shown.weights))]


def _columns(parameters: Any, shown: _Shown) -> Array:
    """A row a unit: output weights or their norm, bias, the first weights."""
    A = parameters.output_weights
    if A.ndim == 2:  # of standard errors the norm is at least the error of the norm
        A = A.T if shown.outputs else np.linalg.norm(A, axis=0)
    return np.column_stack([A, parameters.biases, parameters.weights[:, : shown.weights]])


def _widest(console: Console, network: Network, build: Callable[[_Shown], Table]) -> Table:
    """The table that shows most and still fits the screen."""
    unlimited = console.options.update_width(10 * console.width)
    for shown in _choices(network):
        table = build(shown)
        if Measurement.get(console, unlimited, table).maximum <= console.width:
            break
    table.caption = "; ".join(_left_out(network, shown)) or None
    return table


def _left_out(network: Network, shown: _Shown) -> Iterable[str]:
    if shown.weights < network.features:
        yield f"{shown.weights} of {network.features} weights shown"
    if network.outputs is not None and not shown.outputs:
        yield f"|out| is the norm over {counted(network.outputs, 'output')}"


def _choices(network: Network) -> Iterable[_Shown]:
    """What to show, from most to least: every output only beside a weight or more."""
    outputs, most = network.outputs or 0, min(network.features, MOST_CONSOLE_WEIGHTS)
    if 0 < outputs <= MOST_CONSOLE_OUTPUTS:
        yield from (_Shown(outputs, weights) for weights in range(most, 0, -1))
    yield from (_Shown(0, weights) for weights in range(most, -1, -1))
