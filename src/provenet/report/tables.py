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
from provenet.networks.canonical import MatchedLayer, matched_layers
from provenet.networks.network import Network
from provenet.report.layers import Layered, UnitLayer
from provenet.report.tolerances import (
    ALL_DECIMALS,
    EXACT_MATCH,
    MOST_CONSOLE_OUTPUTS,
    MOST_CONSOLE_WEIGHTS,
)

_Row = tuple[int | None, int | None, float]
"""A unit of the truth, its partner in the estimate, their distance; None has no partner."""


def number(value: float, decimals: int = 4) -> str:
    """A parameter with fixed decimals, or in powers of ten when it is huge."""
    text = f"{value:.{decimals}f}" if abs(value) < 1e3 else f"{value:.{max(decimals - 2, 1)}e}"
    return text.removeprefix("-") if text.strip("-0.") == "" else text


def small(value: float) -> str:
    """An error: two digits, and a power of ten where it is tiny or huge."""
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "infinite"
    if value == 0:
        return "0"
    return f"{value:.1e}" if not 1e-3 <= abs(value) < 1e3 else f"{value:.2g}"


def is_leaky(network: Network) -> bool:
    """Whether the units are leaky ReLU."""
    return network.activation.family == "leaky_relu"


class _Shown(NamedTuple):
    """How many columns a table of units has."""

    outputs: int
    """Output weights of each unit; 0 for one column, with their norm if there are several, or for
    none where the units feed others."""
    weights: int


def side_by_side(
    console: Console, estimate: Network, truth: Network, names: tuple[str, str]
) -> RenderableType:
    """Matched units of both networks, as many weights of each as the screen holds.

    Of deep networks a table a layer, up to the first whose widths differ.
    """
    if estimate.layers != truth.layers:
        return Text(f"{estimate.layers} and {truth.layers} hidden layers have no partners.")
    matched, form = matched_layers(estimate, truth), Layered.of(truth.canonical())
    parts: list[RenderableType] = []
    for number, layer in enumerate(matched):
        parts += _titled(form, number, _compared(console, layer, number, truth, names))
    if len(matched) < truth.layers:
        return Group(*parts)
    left, right = matched[-1].truth, matched[-1].estimate
    parts.append(_pair("Output bias", *_biases(left, right, truth), names))
    if is_leaky(left) and is_leaky(right):
        slopes = left.activation.slope or 0.0, right.activation.slope or 0.0
        parts.append(_pair("Slope below zero", *slopes, names))
    return Group(*parts, *_linear_note(left, names[0]), *_linear_note(right, names[1]))


def _compared(
    console: Console, layer: MatchedLayer, number: int, truth: Network, names: tuple[str, str]
) -> Table:
    last = number == truth.layers - 1
    left, right = (_units(side, truth, last) for side in (layer.truth, layer.estimate))
    rows = _matched_rows(layer)
    return _widest(console, left, lambda shown: _comparison(left, right, rows, names, shown))


def _units(layer: Network, network: Network, last: bool) -> UnitLayer:
    """A layer of a network, with the outputs that this has if it is its last."""
    if not last:
        return UnitLayer(layer.weights, layer.biases, None)
    A = np.atleast_2d(layer.output_weights)
    return UnitLayer(layer.weights, layer.biases, A[0] if network.outputs is None else A)


def _biases(left: Network, right: Network, truth: Network) -> tuple[Any, Any]:
    """Of the outputs: numbers where labels are plain ones."""
    both = left.output_bias, right.output_bias
    if truth.outputs is None:
        return np.ravel(both[0])[0], np.ravel(both[1])[0]
    return both


def _titled(form: Layered, number: int, table: Table) -> list[RenderableType]:
    """A layer's table below its title, if it has one."""
    title = form.title(number)
    return [Text(title), table, Text("")] if title else [table]


def _matched_rows(layer: MatchedLayer) -> list[_Row]:
    """Pairs of units and their distance, in the truth's order."""
    pairs = zip(layer.columns.tolist(), layer.rows.tolist(), layer.distances, strict=True)
    partner = {i: (j, float(distance)) for i, j, distance in pairs}
    nobody = (None, math.inf)
    rows: list[_Row] = [(i, *partner.get(i, nobody)) for i in range(layer.truth.units)]
    alone = set(range(layer.estimate.units)) - set(layer.rows.tolist())
    return rows + [(None, j, math.inf) for j in sorted(alone)]


def _comparison(
    left: UnitLayer,
    right: UnitLayer,
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


def network_table(
    console: Console, network: Network, errors: Any = None, names: Sequence[str] = ()
) -> RenderableType:
    """A network's units, a table a layer, with standard errors where they are seen.

    `names` are those of the inputs, which are numbered if they have none.
    """
    shown, (seen, decimals) = Layered.of(network), seen_errors(errors, network)
    parts: list[RenderableType] = []
    for number, layer in enumerate(shown.layers):
        spread = None if seen is None else seen.layers[number]
        table = _layer_table(console, layer, spread, decimals, () if number else names)
        parts += _titled(shown, number, table)
    c, c_errors = shown.output_bias, None if seen is None else seen.output_bias
    first = range(min(len(c), MOST_CONSOLE_OUTPUTS))
    biases = "  ".join(with_error(c, c_errors, i, decimals) for i in first)
    more = f"  and {len(c) - len(first)} more" if len(c) > len(first) else ""
    return Group(*parts, Text(f"Output bias: {biases}{more}"), *_linear_note(network, "found"))


def seen_errors(errors: Any, network: Network) -> tuple[Layered | None, int]:
    """Standard errors if they are large enough to be seen, and the decimals of numbers."""
    if errors is None:
        return None, ALL_DECIMALS
    spreads = Layered.of_errors(errors, network)
    decimals = _decimals_of(spreads)
    return (spreads if decimals < ALL_DECIMALS else None), decimals


def _decimals_of(errors: Layered) -> int:
    """Decimals that show two digits of a typical standard error."""
    biases = [layer.biases for layer in errors.layers]
    outputs = [
        np.ravel(A) for A in (layer.output_weights for layer in errors.layers) if A is not None
    ]
    values = np.concatenate([*biases, *outputs])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return ALL_DECIMALS
    typical = math.floor(math.log10(float(np.median(values))))
    return int(np.clip(1 - typical, 2, ALL_DECIMALS))


def _layer_table(
    console: Console,
    layer: UnitLayer,
    errors: UnitLayer | None,
    decimals: int,
    names: Sequence[str],
) -> Table:
    return _widest(console, layer, lambda shown: _parameters(layer, errors, decimals, shown, names))


def _parameters(
    layer: UnitLayer,
    errors: UnitLayer | None,
    decimals: int,
    shown: _Shown,
    names: Sequence[str],
) -> Table:
    table = plain_table()
    table.add_column("unit", justify="right", style="dim")
    for heading in _headings(layer, shown, names):
        table.add_column(heading, justify="right")
    values = _columns(layer, shown)
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


def _headings(layer: UnitLayer, shown: _Shown, names: Sequence[str] = ()) -> list[str]:
    """Names of the columns of `_columns`."""
    outputs = [f"out{i + 1}" for i in range(shown.outputs)]
    if layer.output_weights is not None and not shown.outputs:
        outputs = ["output" if layer.outputs is None else "|out|"]
    inputs = names or [f"w{i + 1}" for i in range(layer.inputs)]
    return [*outputs, "bias", *inputs[: shown.weights]]


def _columns(layer: UnitLayer, shown: _Shown) -> Array:
    """A row a unit: output weights or their norm, bias, the first weights."""
    A = layer.output_weights
    if A is not None and A.ndim == 2:  # of standard errors the norm is at least that of the norm
        A = A.T if shown.outputs else np.linalg.norm(A, axis=0)
    outputs = () if A is None else (A,)
    return np.column_stack([*outputs, layer.biases, layer.weights[:, : shown.weights]])


def _widest(console: Console, layer: UnitLayer, build: Callable[[_Shown], Table]) -> Table:
    """The table that shows most and still fits the screen."""
    unlimited = console.options.update_width(10 * console.width)
    for shown in _choices(layer):
        table = build(shown)
        if Measurement.get(console, unlimited, table).maximum <= console.width:
            break
    table.caption = "; ".join(_left_out(layer, shown)) or None
    return table


def _left_out(layer: UnitLayer, shown: _Shown) -> Iterable[str]:
    if shown.weights < layer.inputs:
        yield f"{shown.weights} of {layer.inputs} weights shown"
    if layer.outputs is not None and not shown.outputs:
        yield f"|out| is the norm over {counted(layer.outputs, 'output')}"


def _choices(layer: UnitLayer) -> Iterable[_Shown]:
    """What to show, from most to least: every output only beside a weight or more."""
    outputs, most = layer.outputs or 0, min(layer.inputs, MOST_CONSOLE_WEIGHTS)
    if 0 < outputs <= MOST_CONSOLE_OUTPUTS:
        yield from (_Shown(outputs, weights) for weights in range(most, 0, -1))
    yield from (_Shown(0, weights) for weights in range(most, -1, -1))
