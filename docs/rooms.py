"""The rooms of the package and what each imports, read off the source: a table and a picture."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "provenet"
BEGIN, END = "<!-- rooms: written by docs/generate.py from the imports -->", "<!-- end of rooms -->"
_WIDTH, _HEIGHT, _GAP, _LEFT = 190, 30, 24, 60


def rooms() -> list[str]:
    """All rooms and doors, from the highest to the lowest, as import-linter has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    names = " | ".join(contract["layers"]).split(" | ")
    return [name.removeprefix("provenet.") for name in names]


def files_of(room: str) -> list[Path]:
    """The modules of a room, or the one module that a door is."""
    folder = SOURCE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [SOURCE / f"{room}.py"]


def imports_of(room: str) -> set[str]:
    """The other rooms that a room's modules import, also inside functions."""
    found = {name for file in files_of(room) for name in _imported(file)}
    return (found & set(rooms())) - {room}


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            package, *inside = node.module.split(".")
            if package == "provenet":
                yield from inside[:1] or [alias.name for alias in node.names]


def purpose(room: str) -> str:
    """The first sentence of a room's docstring."""
    folder = SOURCE / room
    file = folder / "__init__.py" if folder.is_dir() else SOURCE / f"{room}.py"
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def table() -> str:
    """A row a room: what it is for, and what it imports."""
    rows = ["| package | what it is for | imports |", "| --- | --- | --- |"]
    order = rooms()
    for room in order:
        below = ", ".join(sorted(imports_of(room), key=order.index)) or "nothing"
        rows.append(f"| `{room}` | {purpose(room)} | {below} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """A page with the table between its marks."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def picture() -> str:
    """Rooms one above the other, and an arc to the right from a room to one that it imports.

    An import is left out if another room that is imported imports the same.
    """
    order = rooms()
    place = {room: _GAP + i * (_HEIGHT + _GAP) for i, room in enumerate(order)}
    arcs = [_arc(place[a], place[b]) for a, b in _needed(order)]
    boxes = [_box(room, y) for room, y in place.items()]
    height = _GAP + len(order) * (_HEIGHT + _GAP)
    width = _LEFT + _WIDTH + 320
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="sans-serif" font-size="14">\n'
        "<title>Rooms, and what each imports that no other of its imports does</title>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 0 8 4 0 8z" fill="#667"/></marker></defs>\n'
        + "\n".join([*arcs, *boxes])
        + "\n</svg>\n"
    )


def _needed(order: list[str]) -> Iterator[tuple[str, str]]:
    imports = {room: imports_of(room) for room in order}
    for room in order:
        implied = {below for other in imports[room] for below in imports[other]}
        yield from ((room, below) for below in order if below in imports[room] - implied)


def _box(room: str, y: int) -> str:
    middle = y + _HEIGHT / 2 + 5
    return (
        f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="#eef2f8" '
        f'stroke="#456"/><text x="{_LEFT + _WIDTH / 2}" y="{middle}" text-anchor="middle" '
        f'fill="#123">{escape(room)}</text>'
    )


def _arc(start: int, end: int) -> str:
    x, out = _LEFT + _WIDTH, 20 + (end - start) * 0.3
    a, b = start + _HEIGHT * 0.7, end + _HEIGHT * 0.3
    return (
        f'<path d="M{x} {a:.0f} C{x + out:.0f} {a:.0f} {x + out:.0f} {b:.0f} {x + 2} {b:.0f}" '
        'fill="none" stroke="#667" stroke-opacity=".45" marker-end="url(#tip)"/>'
    )
