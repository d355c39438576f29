"""The commands are wired, and listing them takes no science."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

from provenet.cli.app import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_the_function_of_its_module(name: str) -> None:
    function = getattr(import_module(f"provenet.cli.{name}"), name)
    assert inspect.getdoc(function) == COMMANDS[name]


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["recovr"]])
def test_help_loads_no_science(args: list[str]) -> None:
    script = (
        "import sys; from provenet.cli.app import app\n"
        f"try: app({args!r})\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    loaded = ended.stdout.partition("LOADED ")[2].split()
    assert "provenet.cli.app" in loaded
    assert not {"numpy", "scipy", "sklearn", "provenet.recover", "jinja2"} & set(loaded)
