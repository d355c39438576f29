"""No number without a word: every tolerance says where it comes from."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import provenet as pn

LISTED = ("networks", "fitting")
"""Rooms that have every small number in their list."""
OTHERS = (
    "certify",
    "data",
    "estimators",
    "extraction",
    "landscape",
    "lowest_layer",
    "moments",
    "report",
)
SEARCHES = ("lowest_layer/bands", "lowest_layer/faces", "lowest_layer/unions")
ROOMS = ("methods", *OTHERS, *SEARCHES, *LISTED)
SMALL = 1e-2
"""Literals below this are tolerances, whatever they are called."""
FREE = {"workspace.py"}
SOURCE = Path(pn.__file__).parent
ORIGINS = ("derived", "convention", "measured")


def entries(room: str) -> Iterator[tuple[str, str]]:
    """Each assignment of a room's `tolerances.py` with the text that stands below it."""
    path = Path(pn.__file__).parent / room / "tolerances.py"
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node, below in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.Assign):
            said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            yield ast.unparse(node.targets[0]), str(below.value.value) if said else ""  # type: ignore[attr-defined]


@pytest.mark.parametrize("room", ROOMS)
def test_every_number_says_where_it_comes_from(room: str) -> None:
    silent = [name for name, text in entries(room) if not any(w in text.lower() for w in ORIGINS)]
    assert list(entries(room)) and not silent


@pytest.mark.parametrize("room", LISTED)
def test_every_number_is_used(room: str) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    used = Counter(re.findall(r"\w+", text))
    names = [name for target, _ in entries(room) for name in re.findall(r"\w+", target)]
    assert names and not [name for name in names if used[name] < 2]


@pytest.mark.parametrize("room", LISTED)
def test_no_small_number_stands_elsewhere(room: str) -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value}"
        for path in sorted((SOURCE / room).rglob("*.py"))
        if path.name not in {"tolerances.py", *FREE}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, float)
        if 0 < abs(node.value) < SMALL
    ]
    assert found == []
