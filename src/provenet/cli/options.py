"""The methods' own options as options of a command: one a declaration in `methods.options`.

A flag that is off by default is `--name`; one that depends on others if left out is `--name` or
`--no-name`; all others take a value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from provenet.methods import METHODS
from provenet.methods.options import OPTIONS, Option

Command = TypeVar("Command", bound=Callable[..., None])
_PANEL = "Options of single methods"
_MOST_NAMED = 2
"""Methods that a line of help names; of more it says where to look."""


def with_method_options(function: Command) -> Command:
    """A command whose `**options` are those of the methods, for typer to see."""
    own = inspect.signature(function, eval_str=True)
    before = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    derived = [_parameter(option) for option in OPTIONS.values()]
    all_of_them = [*before, *derived]
    function.__signature__ = own.replace(parameters=all_of_them)  # type: ignore[attr-defined]
    function.__annotations__ = {p.name: p.annotation for p in all_of_them}
    return function


def _parameter(option: Option) -> inspect.Parameter:
    open_if_left_out = option.default is None
    kind: Any = option.kind | None if open_if_left_out else option.kind
    off = f"/--no-{option.name}" if option.kind is bool and open_if_left_out else ""
    shown = typer.Option(f"--{option.name}{off}", help=_help(option), rich_help_panel=_PANEL)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=option.default,
        annotation=Annotated[kind, shown],
    )


def _help(option: Option) -> str:
    """What it means, and which methods have it."""
    having = [name for name, method in METHODS.items() if option in method.options]
    where = ", ".join(having) if len(having) <= _MOST_NAMED else "see: provenet methods"
    return f"{option.help.removesuffix('.')} ({where})."
