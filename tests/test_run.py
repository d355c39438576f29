"""`run.py` sets up what a task needs, once, and no more."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


class Setup:
    """`run.py` in a folder of its own, with pip and venv replaced by a list of what they do."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.project = folder / "pyproject.toml"
        self.project.write_text("one")
        self.names: dict[str, Any] = runpy.run_path(str(ROOT / "run.py"))
        own = self.names["install"].__globals__
        own.update(ROOT=folder, VENV=folder / ".venv", call=self._call)
        monkeypatch.setattr(own["venv"], "create", self._create)

    def _create(self, place: Path, *, with_pip: bool, clear: bool) -> None:
        assert with_pip and clear
        place.mkdir(exist_ok=True)
        for stamp in place.iterdir():
            stamp.unlink()
        self.done.append("venv")

    def _call(self, *words: str) -> None:
        self.done.append(words[-1])

    def __call__(self, task: str) -> list[str]:
        self.done.clear()
        self.names["install"](self.names["TASKS"][task])
        return list(self.done)


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    return Setup(tmp_path, monkeypatch)


def test_the_demo_needs_the_package_alone_and_once(setup: Setup) -> None:
    assert setup("demo") == ["venv", "."]
    assert setup("demo") == []


def test_more_is_added_to_what_is_there(setup: Setup) -> None:
    setup("demo")
    assert setup("check") == [".[dev]"]
    assert setup("docs") == [".[docs]"]
    assert setup("check") == setup("demo") == []


def test_what_includes_the_package_serves_the_demo(setup: Setup) -> None:
    assert setup("check") == ["venv", ".[dev]"]
    assert setup("demo") == []


def test_another_pyproject_begins_anew(setup: Setup) -> None:
    setup("check")
    setup.project.write_text("two")
    assert setup("demo") == ["venv", "."]
    assert setup("check") == [".[dev]"]
