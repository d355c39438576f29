"""What `provenet compare` does: two networks side by side, and how far apart they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provenet.cli.ending import exit_unless, stdout
from provenet.cli.shared import EXACT, NETWORK_FILES, Json, Quiet, finite, load_any_network_file
from provenet.common.exceptions import InvalidInput
from provenet.networks.canonical import parameter_error
from provenet.networks.network import Network
from provenet.report import console as show
from provenet.report import tables


def compare(
    estimate: Annotated[
        Path, typer.Argument(metavar="ESTIMATE", help=f"A network file ({NETWORK_FILES}).")
    ],
    truth: Annotated[
        Path, typer.Argument(metavar="TRUTH", help="The network file to compare it with.")
    ],
    tolerance: Annotated[
        float, typer.Option(min=0, callback=finite, help="Largest parameter error to accept.")
    ] = EXACT,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare two network files, unit by unit."""
    networks = load_any_network_file(estimate), load_any_network_file(truth)
    _check_comparable(estimate, truth, *networks)
    error = parameter_error(*networks)
    same = error <= tolerance
    out = stdout()
    if json:
        answer = {"parameter_error": error, "tolerance": tolerance, "within_tolerance": same}
        units = [_units(network) for network in networks]
        activations = [network.activation for network in networks]
        typer.echo(show.to_json({**answer, "units": units, "activations": activations}))
    elif not quiet:
        out.print(tables.side_by_side(out, *networks, ("truth", "estimate")))
        out.print()
    if not json:
        verdict = "within" if same else "not within"
        why = show.why_infinite(*networks)
        out.print(f"Parameter error: {tables.small(error)}{why}, {verdict} {tolerance:g}")
    exit_unless(same)


def _units(network: Network) -> int | list[int]:
    """The width of one hidden layer, or those of several."""
    return network.units if network.layers == 1 else list(network.widths)


def _check_comparable(first: Path, second: Path, a: Network, b: Network) -> None:
    kinds = {
        "features": (a.features, b.features),
        "outputs": (a.outputs or 1, b.outputs or 1),
        "activation": (a.activation.family, b.activation.family),
    }
    for what, (left, right) in kinds.items():
        if left != right:
            raise InvalidInput(
                f"{first} and {second} differ in {what} ({left} and {right}): "
                "compare networks of the same kind."
            )
