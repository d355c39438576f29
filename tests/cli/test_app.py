"""The commands are wired, and listing them takes no science."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module

import pytest
from typer.testing import CliRunner

from provenet.cli.app import COMMANDS, EXAMPLES, app


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


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_shows_examples_and_no_type_of_flags(name: str) -> None:
    """Examples begin with the command itself, and every option in them is one that it has."""
    text = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "100"}).output
    assert "bool" not in text.lower().replace("boolean", "bool")
    for example in EXAMPLES[name]:
        assert example.startswith(f"provenet {name}") and example in text
        options = re.findall(r"--[a-z-]+", example)
        assert all(text.count(option) > example.count(option) for option in options)


def test_shells_complete_commands_and_options() -> None:
    def completed(words: str, number: int) -> str:
        env = {
            "_PROVENET_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(number),
        }
        return CliRunner().invoke(app, env=env, prog_name="provenet").output

    assert completed("provenet rec", 1).split() == ["recover"]
    assert completed("provenet recover --tar", 2).split() == ["--target"]
