"""Every number that decides something has a name and a reason, and stands in its room's list."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import provenet

ROOMS = ("networks", "fitting")
SOURCE = Path(provenet.__file__).parent
REASONS = ("Derived:", "Convention:", "Measured:")
SMALL = 1e-2
"""Literals below this are tolerances, whatever they are called."""
FREE = {"fitting/workspace.py"}


def modules(room: str) -> list[Path]:
    return sorted(path for path in (SOURCE / room).rglob("*.py") if path.name != "tolerances.py")


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@pytest.mark.parametrize("room", ROOMS)
def test_every_entry_says_why(room: str) -> None:
    body = tree(SOURCE / room / "tolerances.py").body
    entries = [i for i, node in enumerate(body) if isinstance(node, ast.Assign)]
    assert entries
    for i in entries:
        after = body[i + 1] if i + 1 < len(body) else None
        assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant), body[i].lineno
        assert str(after.value.value).startswith(REASONS), after.value.value


@pytest.mark.parametrize("room", ROOMS)
def test_every_entry_is_used(room: str) -> None:
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    for node in tree(SOURCE / room / "tolerances.py").body:
        if isinstance(node, ast.Assign):
            names = [n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)]
            assert all(len(re.findall(rf"\b{name}\b", text)) > 1 for name in names), names


@pytest.mark.parametrize("room", ROOMS)
def test_no_tolerance_stands_elsewhere(room: str) -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value}"
        for path in modules(room)
        if str(path.relative_to(SOURCE)) not in FREE
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, float)
        if 0 < abs(node.value) < SMALL
    ]
    assert found == []
