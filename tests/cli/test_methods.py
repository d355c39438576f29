"""`provenet methods` says what the registry says."""

from __future__ import annotations

import json

from rich.console import Console

from provenet.cli.methods import about, methods_table
from provenet.methods import METHODS
from provenet.report.console import to_json


def render(table: object) -> str:
    console = Console(width=80, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return " ".join(capture.get().split())


def test_methods_are_told_as_the_registry_has_them() -> None:
    text = render(methods_table(METHODS.values()))
    for name, method in METHODS.items():
        assert name in text and " ".join(method.summary.split()) in text
        assert f"units {', '.join(method.activations)}" in text
        told = json.loads(to_json(about(method)))
        assert told["needs"] == method.needs and told["activations"] == list(method.activations)
        assert told["fewest_outputs"] == method.fewest_outputs and "candidates" not in told
        assert told["options"] == [option.name for option in method.options]
        if method.options:
            assert f"takes {', '.join(f'{option.name}=' for option in method.options)}" in text
