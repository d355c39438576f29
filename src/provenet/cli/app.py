"""The command line: `provenet demo | simulate | recover | extract | compare | identify | methods`.

Each command is the function of that name in the module of that name, imported when it is used: to
list the commands takes no science. Results go to stdout, progress and messages to stderr. Exit
codes: see `ending`.
"""

from __future__ import annotations

import os
import sys
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from provenet.cli.ending import INTERRUPTED, guarded
from provenet.common.version import __version__

COMMANDS = {
    "demo": "Make a random network, hide it, and recover it from its samples.",
    "simulate": "Draw a random network and write samples of it to a file.",
    "recover": "Recover a network from samples in files.",
    "extract": "Recover the network in a model that may be asked: a file or an address.",
    "compare": "Compare two network files, unit by unit.",
    "identify": "Say what of a network its samples can tell, and which methods apply.",
    "methods": "List the methods, what they need and the papers they come from.",
}
"""Each with what it does, as in the docstring of its function."""


class _LaterCommand(TyperCommand):
    """A command of which name and help are known; the rest is imported when it is asked for."""

    @cached_property
    def _whole(self) -> Any:
        function = getattr(import_module(f"{__package__}.{self.name}"), str(self.name))
        alone = typer.Typer(add_completion=False)
        alone.command()(guarded(function))
        return typer.main.get_command(alone)

    def get_params(self, ctx: Any) -> Any:
        """Arguments and options."""
        return self._whole.get_params(ctx)

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        return self._whole.invoke(ctx)


class _Commands(TyperGroup):
    """All commands, none of them imported yet."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, text in COMMANDS.items():
            self.add_command(_LaterCommand(name, help=text))


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    help="Recover the weights of a neural network from samples of what it does.",
    epilog="Start with: provenet demo",
)


def main() -> None:
    """Run the command line; the process ends with one of the exit codes of `ending`."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ± shows a question mark
    try:
        app()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _leave_at_once()
        raise


def _leave_at_once() -> None:
    """End without waiting, as the interpreter would, for threads that still add up samples."""
    from provenet.data.sample_files.spool import remove_spools

    remove_spools()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"provenet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Recover the weights of a neural network from samples of what it does."""
