"""The methods' own options as options of a command: one a declaration in `methods.options`.

A flag that is off by default is `--name`, one that is on is `--no-name`; all others take a value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from provenet.methods import METHODS
from provenet.methods.options import OPTIONS, Option

Command = TypeVar("Command", bound=Callable[..., None])
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


def wishes_of(options: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, as keywords of `recover`."""
    wishes = {}
    for name, option in OPTIONS.items():
        value = options[name]
        wishes[name] = not value if option.default is True else value
    return wishes


def _parameter(option: Option) -> inspect.Parameter:
    flag = option.kind is bool
    kind: Any = option.kind if flag or option.default is not None else option.kind | None
    word = f"no-{option.name}" if option.default is True else option.name
    shown = typer.Option(f"--{word}", help=_help(option))
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if flag else option.default,
        annotation=Annotated[kind, shown],
    )


def _help(option: Option) -> str:
    """What it means, and which methods have it."""
    having = [name for name, method in METHODS.items() if option in method.options]
    first, rest = option.help[0].lower(), option.help[1:]
    text = f"Do not {first}{rest}" if option.default is True else option.help
    where = ", ".join(having) if len(having) <= _MOST_NAMED else "see: provenet methods"
    return f"{text.removesuffix('.')} ({where})."
