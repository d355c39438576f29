"""What the commands share: options, and files and networks named on the command line."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.cli.ending import note
from provenet.common.exceptions import InvalidInput
from provenet.common.files import check_writable
from provenet.data.files import save_mask
from provenet.datasets import random_network
from provenet.networks.canonical import parameter_error
from provenet.networks.formats import check_network_name, load_network
from provenet.networks.network import Network
from provenet.report import check_report
from provenet.validation import OPEN

MODEL, FILES, LIMITS, SHOWN = "The network", "Files", "Limits", "What is shown"
"""Groups of options in a command's help."""
NETWORK_FILES = ".npz, .safetensors or .onnx"
EXACT = 1e-8
"""Parameter error at most, of what counts as recovered exactly: the project's convention."""


def widths(text: str) -> tuple[int, ...]:
    """Whole numbers from 1 on, between commas."""
    numbers = text.split(",")
    if not all(map(_counts, numbers)):
        raise typer.BadParameter(
            f"{text!r} is not a number of units, or several between commas as 16,8."
        )
    return tuple(int(number) for number in numbers)


def depth(text: str) -> int | str:
    """A whole number from 1 on, or "auto"."""
    if text != OPEN and not _counts(text):
        raise typer.BadParameter(f"{text!r} is not a number of layers from 1 on, or {OPEN}.")
    return text if text == OPEN else int(text)


def limits(text: str) -> list[float]:
    """One number, or one a feature, between commas."""
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a number, or one a feature between commas as 0,-2.5,10."
        ) from None


def _counts(text: str) -> bool:
    return text.strip().isdecimal() and int(text) > 0


def finite(value: float | None) -> float | None:
    """Refuse infinities and what is no number."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=SHOWN)
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="One line of result, no progress.", rich_help_panel=SHOWN),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same answer.")]
Link = Annotated[
    str,
    typer.Option(
        help="How outputs become labels: identity, logit, softmax (probabilities); auto tells them."
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report", help="Write a page with pictures here (.html).", rich_help_panel=FILES
    ),
]
Widths = Annotated[
    Any,
    typer.Option(
        parser=widths,
        metavar="WIDTHS",
        help="Number of units; 16,8 for two hidden layers of so many; found when not given.",
        rich_help_panel=MODEL,
    ),
]
NetworkOut = Annotated[
    Path | None,
    typer.Option(help=f"Write the network here ({NETWORK_FILES}).", rich_help_panel=FILES),
]
Truth = Annotated[
    Path | None,
    typer.Option(help=f"The true network, to compare ({NETWORK_FILES}).", rich_help_panel=FILES),
]
Features = Annotated[int, typer.Option(min=1, help="Number of inputs.")]
Units = Annotated[int, typer.Option(min=1, help="Number of hidden units.")]
Outputs = Annotated[int, typer.Option(min=1, help="Number of outputs.")]
Samples = Annotated[int, typer.Option(min=1, help="Number of samples.")]
Noise = Annotated[
    float, typer.Option(min=0, callback=finite, help="Standard deviation of the label noise.")
]


def check_network_to_write(path: Path | None) -> None:
    """Raise unless a network can be written under this name, if one is given."""
    if path is not None:
        check_network_name(path)


def check_reported(path: Path | None) -> None:
    """Raise before any work is done if a report was asked for that could not be made."""
    if path is not None:
        check_report(path)
        check_writable(path)


def check_written(paths: Iterable[Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Raise before any work is done if a file could not be written or would replace another."""
    read = {path.resolve() for path in inputs if path is not None}
    written = [path for path in paths if path is not None]
    for path in written:
        check_writable(path)
        if path.resolve() in read:
            raise InvalidInput(f"{path} is also an input: give what is written another name.")
    if len({path.resolve() for path in written}) < len(written):
        raise InvalidInput("Two files to write have the same name: give each a name of its own.")


def command_line(shown: Mapping[str, str] | None = None) -> str:
    """The command that is running, for those who want to repeat it.

    Arguments that hold secrets are replaced by what is `shown` of them.
    """
    instead = shown or {}
    return shlex.join(["provenet", *(instead.get(text, text) for text in sys.argv[1:])])


def load_any_network_file(path: Path) -> Network:
    """A network file of any depth; of one hidden layer, a row of one output is a plain label."""
    network = load_network(path)
    if network.layers == 1 and network.outputs == 1:
        return _with_plain_labels(network)
    return network


def load_network_file(path: Path) -> Network:
    """The same, for a command that serves networks with one hidden layer."""
    network = load_any_network_file(path)
    if network.layers > 1:
        raise InvalidInput(
            f"{path} has {network.layers} hidden layers: this command takes a network with one."
        )
    return network


def _with_plain_labels(network: Network) -> Network:
    return network.replace(
        output_weights=network.output_weights[0],
        output_bias=np.ravel(network.output_bias)[0],
        linear=None if network.linear is None else network.linear[0],
    )


def save_result(result: Recovery, out: Path | None, corrupted: Path | None, quiet: bool) -> None:
    """Write what was asked for, or say why not."""
    network = None if result.status is Status.FAILED else result.network
    mask = None if network is None else result.corrupted
    if out is not None and network is not None:
        network.save(out)
        note(f"Wrote {out}", quiet)
    elif out is not None:
        note(f"Nothing was recovered, so {out} was not written.", quiet)
    if corrupted is not None and mask is not None:
        save_mask(corrupted, mask)
        note(f"Wrote {corrupted}", quiet)
    elif corrupted is not None:
        note(f"No labels were set aside, so {corrupted} was not written.", quiet)


def error_of(result: Recovery, truth: Network) -> float:
    """Parameter error; infinite where nothing was found."""
    return math.inf if result.network is None else parameter_error(result.network, truth)


def summary_of(result: Recovery, **extra: Any) -> dict[str, Any]:
    """A result for JSON."""
    fields = ("status", "success", "message", "method", "claim", "checks", "network")
    more = (
        "feature_names",
        "standard_errors",
        "certificate",
        "ambiguities",
        "timings",
        "layer",
        "layered",
        "layers_found",
    )
    mask = result.corrupted
    count = None if mask is None else int(np.count_nonzero(mask))
    values = {name: getattr(result, name) for name in (*fields, *more, "queries")}
    landscape = None if result.landscape is None else result.landscape.summary()
    return {**values, "corrupted": count, "landscape": landscape, **extra}


def random_network_of(
    units: int, features: int, outputs: int, *, rng: np.random.Generator, **options: Any
) -> Network:
    """A random network with an output bias; labels of one output are plain numbers."""
    several = None if outputs == 1 else outputs
    network = random_network(units, features, outputs=several, rng=rng, **options)
    return network.replace(output_bias=rng.standard_normal(several))
