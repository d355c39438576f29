"""What the command line shows: tables of networks, certificates, and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.certify.summary import facts, units_in_words
from provenet.common.words import counted
from provenet.networks.activations import Activation
from provenet.networks.layered import Polynomial
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
    if isinstance(value, Network):
        return {name: _plain(getattr(value, name)) for name in value.argument_names}
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
    units = units_in_words(network, f"{kind} unit") + slope
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
            if result.network.units:
                names = result.feature_names
                out.print(network_table(out, result.network, result.standard_errors, names))
            out.print()
        out.print(certificate_table(result))
    if truth is not None and error is not None:
        out.print(f"Parameter error: {small(error)}{why_infinite(result.network, truth)}")


def why_infinite(network: Network | None, truth: Network) -> str:
    """The two widths or activations in words, when they differ."""
    found = (0,) if network is None else network.widths
    if found != truth.widths:
        words = counted(0, "unit") if network is None else units_in_words(network)
        flat = len(found) == truth.layers == 1
        hidden = f"{truth.units:,}" if flat else units_in_words(truth)
        return f" ({words} found, {hidden} in the truth)"
    kinds = [net.activation.family for net in (network, truth) if net is not None]
    return f" ({kinds[0]} found, {kinds[1]} in the truth)" if len(set(kinds)) > 1 else ""


def certificate_table(result: Recovery) -> RenderableType:
    """The checks and what else was seen, a line each."""
    checks = Table.grid(padding=(0, 2))
    for style in ("", "", "dim"):
        checks.add_column(style=style)
    for check in result.checks:
        mark = Text("yes", "green") if check.holds else Text("no", "bold red")
        checks.add_row(mark, Text(f"{check.name}: {check.figure}"), Text(check.needed))
    seen = Table.grid(padding=(0, 2))
    seen.add_column(style="dim", no_wrap=True)
    seen.add_column()
    for label, text in facts(result):
        seen.add_row(label, Text(text))
    return Group(Text("Checks", "bold"), checks, Text(""), seen)
