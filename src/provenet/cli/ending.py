"""How a command ends: its exit code, and one sentence on stderr where something is wrong.

Exit codes: 0 success, 2 usage or bad input, 3 not recovered, 130 interrupted. Imports nothing that
takes long, since every command line begins here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from provenet.common.exceptions import ClusterLost, EndpointLost, InvalidInput

BAD_INPUT, NOT_RECOVERED, INTERRUPTED = 2, 3, 130
"""Convention: exit codes: 2 is that of wrong usage, 130 that of shells after SIGINT (128 + 2)."""


def stdout() -> Console:
    """Where results go."""
    return Console(highlight=False)


def stderr() -> Console:
    """Where progress and messages go."""
    return Console(stderr=True, highlight=False)


def note(message: str, quiet: bool = False) -> None:
    """A message beside the result."""
    if not quiet:
        stderr().print(Text(message), soft_wrap=True)


def fail(message: str, code: int, title: str = "Error: ") -> NoReturn:
    """One sentence on stderr, and the end."""
    stderr().print(Text.assemble((title, "bold red"), message), soft_wrap=True)
    raise typer.Exit(code)


def exit_unless(success: bool) -> None:
    """End with the exit code of what was not recovered."""
    if not success:
        raise typer.Exit(NOT_RECOVERED)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors are one sentence on stderr and an exit code."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except InvalidInput as error:
            fail(str(error), BAD_INPUT)
        except (ClusterLost, EndpointLost) as error:
            fail(str(error), NOT_RECOVERED)
        except BrokenPipeError:
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            fail(f"{where}{error.strerror or error}.", BAD_INPUT)
        except MemoryError:
            fail(
                "There is not enough memory: use fewer samples or memory-mapped .npy files.",
                BAD_INPUT,
            )
        except KeyboardInterrupt:
            fail("Interrupted: no file was left half written.", INTERRUPTED, title="")

    return run
