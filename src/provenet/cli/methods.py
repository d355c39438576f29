"""What `provenet methods` shows: all that the registry says of each method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import typer
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from provenet.cli.ending import stdout
from provenet.cli.shared import Json, Quiet
from provenet.methods import METHODS, Method
from provenet.report.console import to_json


def methods(json: Json = False, quiet: Quiet = False) -> None:
    """List the methods, what they need and the papers they come from."""
    if json:
        typer.echo(to_json([about(method) for method in METHODS.values()]))
    elif quiet:
        typer.echo("\n".join(METHODS))
    else:
        out = stdout()
        out.print(methods_table(METHODS.values()))


def about(method: Method) -> dict[str, Any]:
    """All that the registry says of a method, without the code that runs it."""
    values = {field.name: getattr(method, field.name) for field in fields(method)}
    values["options"] = [option.name for option in method.options]
    return {name: value for name, value in values.items() if not callable(value)}


def methods_table(methods: Iterable[Method]) -> RenderableType:
    """Name, summary, assumptions, activations and paper of each method."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("method", style="bold cyan", no_wrap=True)
    table.add_column("what it does, what it needs, which units, where it comes from")
    for method in methods:
        own = method.any_rectified or method.any_activation or method.any_even
        units = ", ".join(method.activations) + ", or your own" * own
        options = ", ".join(f"{option.name}=" for option in method.options) or "-"
        lines = {"needs": method.needs, "units": units, "takes": options, "paper": method.paper}
        rest = "".join(f"\n{name} {text}" for name, text in lines.items() if text != "-")
        table.add_row(method.name, Text.assemble(method.summary, (rest, "dim")))
    return table
