"""What the command line shows: tables of networks, certificates, and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from provenet.certify.certificate import Certificate
from provenet.certify.checks import Status
from provenet.certify.layer import LayerEvidence
from provenet.certify.result import Recovery
from provenet.common.typing import AnyArray
from provenet.common.words import counted
from provenet.networks.activations import Activation
from provenet.networks.layered import LayeredNetwork, Polynomial
from provenet.networks.network import Network
from provenet.report.tables import (
    is_leaky,
    network_table,
    side_by_side,
    small,
)

_COLOURS = {
    Status.EXACT: "bold green",
    Status.WITHIN_NOISE: "bold green",
    Status.PARTIAL: "bold yellow",
    Status.FAILED: "bold red",
}


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
    if isinstance(value, Polynomial):
        return {"terms": [{"units": m, "coefficient": c} for m, c in value.terms.items()]}
    if callable(value) and not is_dataclass(value):
        return getattr(value, "__name__", type(value).__name__)
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


def describe(network: Network) -> str:
    """The sizes of a network in words."""
    kind = network.activation.family.replace("_", " ").replace("relu", "ReLU")
    slope = f" of slope {network.activation.slope:.4g}" if is_leaky(network) else ""
    units = counted(network.units, f"{kind} unit") + slope
    outputs = "" if network.outputs is None else f", {counted(network.outputs, 'output')}"
    linear = "" if network.linear is None else ", a linear term"
    return f"{counted(network.features, 'feature')}, {units}{outputs}{linear}"


def status_line(result: Recovery) -> Text:
    """The status in its colour, then the message."""
    status = result.status.capitalize()
    return Text.assemble((f"{status}.", _COLOURS[result.status]), " ", result.message)


def introduce(out: Console, truth: Network, samples: int, noise: float) -> None:
    """What the demonstration is about to do."""
    parameters = truth.free_parameters
    noisy = f"with noise of {noise:g}" if noise else "without noise"
    out.print(
        f"[bold]A network is hidden[/]: {describe(truth)}, {parameters:,} parameters.\n"
        f"provenet is given {samples:,} samples of it, {noisy}, but not its width.\n"
    )


def reveal(out: Console, result: Recovery, truth: Network, error: float, seconds: float) -> None:
    """The end of the demonstration: both networks, the status, what to try next."""
    if result.network is not None:
        out.print(side_by_side(out, result.network, truth, ("hidden", "found")))
        out.print()
    out.print(status_line(result))
    out.print(f"Largest error of any unit: [bold]{small(error)}[/], after {seconds:.2g} seconds.")
    outputs = "" if truth.outputs is None else f" --outputs {truth.outputs}"
    out.print(
        "\n[dim]Next, with files:\n"
        f"  provenet simulate samples.npz --truth hidden.npz{outputs}\n"
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
    """The two widths or activations in words, when they differ."""
    units = 0 if network is None else network.units
    if units != truth.units:
        return f" ({counted(units, 'unit')} found, {truth.units:,} in the truth)"
    kinds = [net.activation.family for net in (network, truth) if net is not None]
    return f" ({kinds[0]} found, {kinds[1]} in the truth)" if len(set(kinds)) > 1 else ""


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
    yield from further_evidence(result)


def further_evidence(result: Recovery) -> Iterable[tuple[str, str]]:
    """What was seen beside the certificate, and the time it took."""
    if result.landscape is not None:
        yield "landscape", result.landscape.message
    if result.layer is not None:
        yield from _layer(result.layer)
    if result.layered is not None:
        yield "top", _top(result.layered)
    if result.corrupted is not None:
        yield "corrupted", _corrupted(result.corrupted)
    yield from (("ambiguity", ambiguity) for ambiguity in result.ambiguities)
    yield "time", _timings(result.timings)


def _layer(layer: LayerEvidence) -> Iterable[tuple[str, str]]:
    yield "found by", layer.way
    if layer.exact:
        yield "directions", "exact to rounding"
    else:
        angle, offset = np.degrees(np.max(layer.angle_errors)), np.max(layer.threshold_errors)
        known = f", thresholds within {figure(float(offset))}" if np.isfinite(offset) else ""
        yield "directions", f"within {figure(float(angle))} degrees (one standard error){known}"
    yield from (("seen", note) for note in layer.notes)


def _top(network: LayeredNetwork) -> str:
    if not isinstance(network.top, Polynomial):
        return getattr(network.top, "__name__", "learned")
    degree = max((len(monomial) for monomial in network.top.terms), default=0)
    return f"a polynomial of degree {degree} with {counted(len(network.top.terms), 'term')}"


def _corrupted(corrupted: AnyArray) -> str:
    count, labels = int(np.count_nonzero(corrupted)), corrupted.size
    return f"{count:,} of {counted(labels, 'label')} ({count / labels:.2%}) set aside"


def _certified(certificate: Certificate) -> Iterable[tuple[str, str]]:
    residual, noise = figure(certificate.relative_residual), certificate.noise
    held_out = f"{certificate.samples_held_out:,} samples not used in the fit"
    yield "residual", f"{residual} of the labels' spread, on {held_out}"
    yield "noise", figure(noise) if noise else "none"
    labels = f", {certificate.outputs:,} labels each" if certificate.outputs > 1 else ""
    parameters = f"{certificate.parameters:,} parameters"
    yield "samples", f"{certificate.samples_fitted:,} fitted{labels}, for {parameters}"
    yield "condition", f"{figure(certificate.condition)} (condition number of the weights)"
    yield "error bound", f"{figure(certificate.parameter_error_bound)} on the parameters"
    if certificate.weakest_unit is not None:
        above = f"{figure(certificate.weakest_margin)} standard deviations above "
        above += "the noise" if noise else "rounding"
        yield "weakest unit", f"number {certificate.weakest_unit + 1}, {above}"
    yield "width", certificate.width_evidence
    yield "inputs", certificate.gaussian.message
    yield from (("warning", warning) for warning in certificate.warnings)


def figure(value: float) -> str:
    """Three digits, or a word for what is not finite."""
    return f"{value:.3g}" if math.isfinite(value) else small(value)


def _timings(timings: Mapping[str, float]) -> str:
    stages = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in timings.items())
    return stages or "not measured"


def about(method: Any) -> dict[str, Any]:
    """All that the registry says of a method, without the code that runs it."""
    values = {field.name: getattr(method, field.name) for field in fields(method)}
    return {name: value for name, value in values.items() if not callable(value)}


def methods_table(methods: Iterable[Any]) -> RenderableType:
    """Name, summary, assumptions, activations and paper of each method."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("method", style="bold cyan", no_wrap=True)
    table.add_column("what it does, what it needs, which units, where it comes from")
    for method in methods:
        own = method.any_rectified or method.any_activation or method.any_even
        units = ", ".join(method.activations) + ", or your own" * own
        lines = {"needs": method.needs, "units": units, "paper": method.paper}
        rest = "".join(f"\n{name} {text}" for name, text in lines.items() if text != "-")
        table.add_row(method.name, Text.assemble(method.summary, (rest, "dim")))
    return table
