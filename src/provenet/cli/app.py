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
from provenet.common import __version__

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
EXAMPLES = {
    "demo": ("provenet demo", "provenet demo --noise 0.1 --samples 5000 --report demo.html"),
    "simulate": (
        "provenet simulate samples.npz --truth hidden.npz",
        "provenet simulate samples.csv --units 16,8 --activation tanh",
    ),
    "recover": (
        "provenet recover samples.npz --out found.npz --report page.html",
        "provenet recover table.csv --target price",
        "provenet recover samples.h5 --layers 2 --activation tanh --checkpoint sums.ckpt",
    ),
    "extract": (
        "provenet extract model.onnx --cache answers.cache --out found.npz",
        "provenet extract https://host/predict --features 10 --budget 5000",
    ),
    "compare": ("provenet compare found.npz hidden.npz",),
    "identify": ("provenet identify network.npz --samples 2000",),
    "methods": ("provenet methods",),
}
"""Each with commands that show how it is used, below its help."""


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
        return _flags_without_type(self._whole.get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        return self._whole.invoke(ctx)


def _flags_without_type(parameters: Any) -> Any:
    """Options that take no value have no type to show in the help."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


class _Commands(TyperGroup):
    """All commands, none of them imported yet."""

    def get_params(self, ctx: Any) -> Any:
        """Options that come before a command."""
        return _flags_without_type(super().get_params(ctx))

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, text in COMMANDS.items():
            shown = "\n\n".join(["Examples:", *EXAMPLES[name]])
            self.add_command(_LaterCommand(name, help=text, epilog=shown))


app = typer.Typer(
    cls=_Commands,
    add_completion=True,
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
