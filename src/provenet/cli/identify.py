"""What `provenet identify` shows: the conditions of the papers for one network, line by line."""

from __future__ import annotations

from dataclasses import fields

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from provenet.methods.identifiability import Identifiability, identifiability
from provenet.networks.network import Network
from provenet.report import console as show


def identify(out: Console, network: Network, samples: int | None, json: bool) -> None:
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
