"""What holds the house together, beside the direction of imports (`lint-imports`)."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import provenet as pn

SOURCE = Path(pn.__file__).parent
DOORS = {"__init__", "__main__", "extract", "learn_top", "plotting", "recover", "validation"}
JUDGES = {"certify/checks.py", "certify/result.py"}


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Every module by its path; nobody changes the trees."""
    return tuple(
        (path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(SOURCE.rglob("*.py"))
    )


def test_every_module_is_in_a_room() -> None:
    assert {path.stem for path in SOURCE.glob("*.py")} == DOORS


def test_every_room_says_what_it_is_for() -> None:
    rooms = [(name, tree) for name, tree in modules() if name.endswith("__init__.py")]
    assert len(rooms) > 20
    assert [name for name, tree in rooms if not ast.get_docstring(tree)] == []


def test_no_class_name_stands_for_two_things() -> None:
    homes = defaultdict(list)
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(name)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def called(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_a_recovery_is_built_by_the_judge_alone() -> None:
    builders = {name for name, tree in modules() if "Recovery" in set(called(tree))}
    assert builders <= JUDGES  # `Recovery.judged` and `Recovery.nothing` are for the others


def test_no_method_decides_a_status() -> None:
    """Methods and stages may say how much a failed check leaves, never that they succeeded."""
    rooms = ("methods/", "lowest_layer/", "extraction/", "fitting/", "moments/", "landscape/")
    praise = re.compile(r"Status\.(EXACT|WITHIN_NOISE)")
    guilty = [
        name
        for name, _ in modules()
        if name.startswith(rooms) and praise.search((SOURCE / name).read_text(encoding="utf-8"))
    ]
    assert guilty == []


def test_nothing_is_printed_by_the_library() -> None:
    assert [name for name, tree in modules() if "print" in set(called(tree))] == []
