"""What `import provenet` brings: the public names, and nothing that takes long."""

from __future__ import annotations

import subprocess
import sys

import pytest

import provenet as pn

SLOW = {"sklearn", "matplotlib", "rich", "typer", "scipy", "numpy", "dask", "jinja2", "onnx"}
"""What a plain `import provenet` does not need."""


def modules_after(statement: str) -> set[str]:
    """The packages that a fresh interpreter has loaded after a statement."""
    script = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.split())


def test_the_import_loads_nothing_slow() -> None:
    assert not modules_after("import provenet") & SLOW


def test_a_recovery_needs_neither_plots_nor_a_terminal() -> None:
    run = (
        "import provenet as pn; pn.recover(*pn.sample(pn.random_network(2, 3, rng=0), 100), rng=0)"
    )
    assert not modules_after(run) & {"sklearn", "matplotlib", "rich", "typer", "jinja2", "dask"}


def test_dir_shows_the_public_names_and_no_others() -> None:
    assert dir(pn) == sorted(pn.__all__)
    assert set(pn.__all__) == {*pn._HOMES, *pn._ROOMS}
    for name in pn.__all__:
        assert getattr(pn, name) is not None


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = pn.nonsense  # type: ignore[attr-defined]


def test_a_door_is_a_function_whoever_imports_its_module_first() -> None:
    anew = "import sys\n[sys.modules.pop(n) for n in [*sys.modules] if n.startswith('provenet')]"
    script = [
        f"{anew}\n{first}\nimport provenet as pn\nassert callable(pn.{door}), pn.{door}"
        for door in ("recover", "extract", "learn_top")
        for first in (f"import provenet.{door}", f"from provenet.{door} import {door}")
    ]
    modules_after("\n".join(script))


def test_rooms_are_there_without_being_imported() -> None:
    modules_after("import provenet as pn\npn.datasets.random_layered, pn.landscape.OBJECTIVES")
