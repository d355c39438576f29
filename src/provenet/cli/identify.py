"""What `provenet identify` shows: the conditions of the papers for one network, line by line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from provenet.cli.ending import stdout
from provenet.cli.shared import NETWORK_FILES, Json, load_network_file
from provenet.methods.identifiability import Identifiability, identifiability
from provenet.networks.network import Network
from provenet.report import console as show


def identify(
    network: Annotated[
        Path, typer.Argument(metavar="NETWORK", help=f"A network file ({NETWORK_FILES}).")
    ],
    samples: Annotated[
        int | None, typer.Option(min=1, help="How many samples there will be; else any number.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what of a network its samples can tell, and which methods apply."""
    show_identifiability(stdout(), load_network_file(network), samples, json)


def show_identifiability(out: Console, network: Network, samples: int | None, json: bool) -> None:
    """Judge the network and print what was found, as a table or as JSON."""
    report = identifiability(network, samples)
    if json:
        values = {field.name: getattr(report, field.name) for field in fields(report)}
        typer.echo(show.to_json({"identifiable": report.identifiable, **values}))
    else:
        out.print(_table(report))


def _table(report: Identifiability) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for heading, text in report.lines():
        grid.add_row(heading, Text(text, style="" if heading else "dim"))
    return grid
