"""The methods' own options on the command line: all that are declared, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import typer

import provenet as pn
from provenet.certify.checks import Status
from provenet.certify.result import Recovery
from provenet.cli import recover as command
from provenet.cli.app import app
from provenet.methods.options import OPTIONS

GIVEN = ["--faithful", "--no-refine", "--objective", "F", "--threshold", "2.5", "--order", "3"]
WISHES = {"faithful": True, "refine": False, "objective": "F", "threshold": 2.5, "order": 3}


@pytest.fixture
def samples(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("samples") / "s.npz"
    X, y = pn.sample(pn.random_network(2, 3, rng=0), 100, rng=1)
    np.savez(path, X=X, y=y)
    return str(path)


def told_to_the_door(monkeypatch: pytest.MonkeyPatch, *args: str) -> dict[str, Any]:
    """The keywords with which the command calls `recover`."""
    seen: dict[str, Any] = {}

    def instead(source: pn.Source, **options: Any) -> Recovery:
        seen.update(options)
        return Recovery(None, Status.FAILED, "Not looked for.", "auto")

    monkeypatch.setattr(command, "recover_network", instead)
    with pytest.raises(SystemExit):
        app(["recover", *args, "--quiet"])
    return {name: seen[name] for name in OPTIONS}


def test_every_option_reaches_the_door(samples: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told_to_the_door(monkeypatch, samples, *GIVEN) == WISHES
    defaults = {name: option.default for name, option in OPTIONS.items()}
    assert told_to_the_door(monkeypatch, samples) == defaults


def test_help_names_the_methods_of_an_option() -> None:
    group = typer.main.get_command(app)
    context = group.context_class(group)
    command = group.get_command(context, "recover")  # type: ignore[attr-defined]
    shown = {p.name: p for p in command.get_params(context)}
    assert set(OPTIONS) <= set(shown)
    for name, method in (
        ("objective", "see: provenet methods"),
        ("order", "overcomplete, regression"),
    ):
        assert shown[name].help.endswith(f"({method}).")
    refine = shown["refine"]
    assert refine.opts == ["--refine"] and refine.secondary_opts == ["--no-refine"]


@pytest.mark.parametrize(("given", "told"), [("--refine", True), ("--no-refine", False)])
def test_refine_may_be_said_or_left_open(
    samples: str, monkeypatch: pytest.MonkeyPatch, given: str, told: bool
) -> None:
    assert told_to_the_door(monkeypatch, samples, given)["refine"] is told


def test_an_option_that_the_method_lacks(samples: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        app(["recover", samples, "--method", "auto", "--threshold", "1"])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert "threshold=" in error and "lowest-layer, halfspaces" in error
