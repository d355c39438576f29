"""What the command line shows: tables of networks, certificates, and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from provenet.activations import Activation
from provenet.certificate import Certificate
from provenet.matching import match_units, unit_distances
from provenet.networks import Network
from provenet.result import Recovery, Status
from provenet.typing import Array

_COLOURS = {
    Status.EXACT: "bold green",
    Status.WITHIN_NOISE: "bold green",
    Status.PARTIAL: "bold yellow",
    Status.FAILED: "bold red",
}
_MOST_WEIGHTS = 8
_EXACT = 1e-8
_Row = tuple[int | None, int | None, float]
"""A unit of the truth, its partner in the estimate, their distance; None has no partner."""


def to_json(value: Any) -> str:
    """Valid JSON: arrays are lists, numbers that are not finite are null."""
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Activation):
        return value.name
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value


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


def describe(network: Network) -> str:
    """The sizes of a network in words."""
    name = network.activation.name.replace("relu", "ReLU")
    units = f"{network.units} {name} unit{'s' * (network.units != 1)}"
    features = f"{network.features} feature{'s' * (network.features != 1)}"
    outputs = "" if network.outputs is None else f", {network.outputs} outputs"
    linear = "" if network.linear is None else ", a linear term"
    return f"{features}, {units}{outputs}{linear}"


def status_line(result: Recovery) -> Text:
    """The status in its colour, then the message."""
    status = result.status.capitalize()
    return Text.assemble((f"{status}.", _COLOURS[result.status]), " ", result.message)


def introduce(out: Console, truth: Network, samples: int, noise: float) -> None:
    """What the demonstration is about to do."""
    parameters = truth.free_parameters
    noisy = f"with noise of {noise:g}" if noise else "without noise"
    out.print(
        f"[bold]A random network is hidden[/]: {describe(truth)}, {parameters:,} parameters.\n"
        f"provenet is given {samples:,} samples of it, {noisy}, but not its width.\n"
    )


def reveal(out: Console, result: Recovery, truth: Network, error: float, seconds: float) -> None:
    """The end of the demonstration: both networks, the status, what to try next."""
    if result.network is not None:
        out.print(side_by_side(out, result.network, truth, ("hidden", "found")))
        out.print()
    out.print(status_line(result))
    out.print(f"Largest error of any unit: [bold]{small(error)}[/], after {seconds:.2g} seconds.")
    out.print(
        "\n[dim]Next, with files:\n"
        "  provenet simulate samples.npz --truth hidden.npz\n"
        "  provenet recover samples.npz --truth hidden.npz[/]"
    )


def report(
    out: Console, result: Recovery, truth: Network | None, error: float | None, quiet: bool
) -> None:
    """Everything there is to say about a recovery; one line of it if quiet."""
    out.print(status_line(result), soft_wrap=quiet)
    if not quiet:
        out.print()
        if result.network is not None:
            out.print(f"[bold]Network[/]: {describe(result.network)}, by {result.method}")
            out.print(network_table(out, result.network, result.standard_errors))
            out.print()
        out.print(certificate_table(result))
    if truth is not None and error is not None:
        out.print(f"Parameter error: {small(error)}{why_infinite(result.network, truth)}")


def why_infinite(network: Network | None, truth: Network) -> str:
    """The two widths in words, when they differ."""
    units = 0 if network is None else network.units
    return "" if units == truth.units else f" ({units} units found, {truth.units} in the truth)"


def side_by_side(
    console: Console, estimate: Network, truth: Network, names: tuple[str, str]
) -> RenderableType:
    """Matched units of both networks, as many weights of each as the screen holds."""
    left, right = truth.canonical(), estimate.canonical()
    rows = _matched_rows(estimate, truth)
    table = _widest(console, truth.features, lambda k: _comparison(left, right, rows, names, k))
    c_left, c_right = np.asarray(left.output_bias), np.asarray(right.output_bias)
    bias = _pair("Output bias", c_left, c_right, names)
    return Group(table, *bias, *_linear_note(left, names[0]), *_linear_note(right, names[1]))


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
    weights: int,
) -> Table:
    table = _table(gap=0)
    table.add_column("\nunit", justify="right", style="dim")
    for name, style in zip(names, ("", "cyan"), strict=True):
        table.add_column(width=1)
        table.add_column(Text(f"{name}\noutput", "bold"), justify="right", style=style)
        for heading in ("bias", *_weight_names(weights)):
            table.add_column(f"\n{heading}", justify="right", style=style)
    table.add_column("\nerror", justify="right")
    for index, (i, j, error) in enumerate(rows, start=1):
        cells = ["", *_unit_cells(left, i, weights), "", *_unit_cells(right, j, weights)]
        table.add_row(str(index), *cells, _error_text(error))
    return table


def _unit_cells(network: Network, unit: int | None, weights: int) -> list[str]:
    if unit is None:
        return ["-"] * (2 + weights)
    values = [_output_size(network)[unit], network.biases[unit], *network.weights[unit, :weights]]
    return [number(float(value)) for value in values]


def _output_size(network: Network) -> Array:
    """Output weights, or their norms when there are several outputs."""
    A = network.output_weights
    return A if A.ndim == 1 else np.linalg.norm(A, axis=0)


def _error_text(error: float) -> Text:
    if math.isinf(error):
        return Text("no match", "yellow")
    return Text(small(error), "green" if error <= _EXACT else "yellow")


def _pair(label: str, left: Array, right: Array, names: tuple[str, str]) -> list[Text]:
    if left.ndim or right.ndim:
        error = float(np.linalg.norm(left - right))
        return [Text.assemble(f"{label}: error ", _error_text(error))]
    error = abs(float(left) - float(right))
    return [
        Text.assemble(
            f"{label}: {number(float(left))} {names[0]}, ",
            (f"{number(float(right))} {names[1]}", "cyan"),
            ", error ",
            _error_text(error),
        )
    ]


def _linear_note(network: Network, name: str) -> list[Text]:
    if network.linear is None:
        return []
    norm = float(np.linalg.norm(network.linear))
    return [Text(f"Linear term beside the units ({name}): norm {number(norm)}")]


def network_table(console: Console, network: Network, errors: Any = None) -> RenderableType:
    """A network's units, with standard errors where they are large enough to be seen."""
    decimals = 6 if errors is None else _decimals(errors)
    shown = errors if decimals < 6 else None
    table = _widest(
        console,
        network.features,
        lambda k: _parameters(network, shown, decimals, k),
    )
    c = np.atleast_1d(network.output_bias)
    c_errors = None if shown is None else np.atleast_1d(shown.output_bias)
    biases = "  ".join(_with_error(c, c_errors, i, decimals) for i in range(min(len(c), 4)))
    return Group(table, Text(f"Output bias: {biases}"), *_linear_note(network, "found"))


def _decimals(errors: Any) -> int:
    """Decimals that show two digits of a typical standard error."""
    values = np.concatenate([np.ravel(errors.biases), np.ravel(errors.output_weights)])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return 6
    return int(np.clip(1 - math.floor(math.log10(float(np.median(values)))), 2, 6))


def _parameters(network: Network, errors: Any, decimals: int, weights: int) -> Table:
    table = _table()
    table.add_column("unit", justify="right", style="dim")
    headings = ("output", "bias", *_weight_names(weights))
    for heading in headings:
        table.add_column(heading, justify="right")
    values = _columns(network, _output_size(network), weights)
    spreads = None if errors is None else _columns(errors, _output_size(errors), weights)
    for i in range(network.units):
        spread = None if spreads is None else spreads[i]
        cells = [_with_error(values[i], spread, k, decimals) for k in range(len(headings))]
        table.add_row(str(i + 1), *cells)
    return table


def _columns(parameters: Any, outputs: Array, weights: int) -> Array:
    return np.column_stack([outputs, parameters.biases, parameters.weights[:, :weights]])


def _with_error(values: Array, errors: Array | None, index: int, decimals: int) -> str:
    value = number(float(values[index]), decimals)
    if errors is None:
        return value
    error = float(errors[index])
    return f"{value} ± {number(error, decimals) if math.isfinite(error) else '?'}"


def certificate_table(result: Recovery) -> RenderableType:
    """The evidence, a line each."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, text in _evidence(result):
        grid.add_row(label, Text(text))
    return Group(Text("Certificate", "bold"), grid)


def _evidence(result: Recovery) -> Iterable[tuple[str, str]]:
    if result.certificate is not None:
        yield from _certified(result.certificate)
    yield from (("ambiguity", ambiguity) for ambiguity in result.ambiguities)
    yield "time", _timings(result.timings)


def _certified(certificate: Certificate) -> Iterable[tuple[str, str]]:
    residual, noise = _figure(certificate.relative_residual), certificate.noise
    held_out = f"{certificate.samples_held_out:,} samples not used in the fit"
    yield "residual", f"{residual} of the labels' spread, on {held_out}"
    yield "noise", _figure(noise) if noise else "none"
    parameters = f"{certificate.parameters:,} parameters"
    yield "samples", f"{certificate.samples_fitted:,} fitted, for {parameters}"
    yield "condition", f"{_figure(certificate.condition)} (condition number of the weights)"
    yield "error bound", f"{_figure(certificate.parameter_error_bound)} on the parameters"
    if certificate.weakest_unit is not None:
        above = f"{_figure(certificate.weakest_margin)} standard deviations above "
        above += "the noise" if noise else "rounding"
        yield "weakest unit", f"number {certificate.weakest_unit + 1}, {above}"
    yield "width", certificate.width_evidence
    yield "inputs", certificate.gaussian.message
    yield from (("warning", warning) for warning in certificate.warnings)


def _figure(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else small(value)


def _timings(timings: Mapping[str, float]) -> str:
    stages = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in timings.items())
    return stages or "not measured"


def about(method: Any) -> dict[str, str]:
    """A method's description, without the code that runs it."""
    return {name: getattr(method, name) for name in ("name", "summary", "needs", "paper")}


def methods_table(methods: Iterable[Any]) -> RenderableType:
    """Name, summary, assumptions and paper of each method."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("method", style="bold cyan", no_wrap=True)
    table.add_column("what it does, what it needs, where it comes from")
    for method in methods:
        origin = f"\nneeds {method.needs}\npaper {method.paper}"
        table.add_row(method.name, Text.assemble(method.summary, (origin, "dim")))
    return table


def _table(gap: int = 1) -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, gap),
        show_edge=False,
        pad_edge=False,
        caption_justify="left",
        caption_style="dim",
    )


def _weight_names(weights: int) -> list[str]:
    return [f"w{i + 1}" for i in range(weights)]


def _widest(console: Console, features: int, build: Callable[[int], Table]) -> Table:
    """The table with the most weights that still fits the screen."""
    unlimited = console.options.update_width(10 * console.width)
    for weights in range(min(features, _MOST_WEIGHTS), -1, -1):
        table = build(weights)
        if Measurement.get(console, unlimited, table).maximum <= console.width:
            break
    if weights < features:
        table.caption = f"the first {weights} of {features} weights are shown"
    return table
