"""No number without a word: every tolerance says where it comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import provenet as pn

ROOMS = ("estimators", "lowest_layer", "methods")
ORIGINS = ("Derived", "Convention", "Measured")


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
    silent = [name for name, text in entries(room) if not text.startswith(ORIGINS)]
    assert list(entries(room)) and not silent
