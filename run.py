"""Set up provenet in `.venv` and run it, or all its checks: `python3 run.py demo | check | docs`.

Needs nothing but Python 3.11 or newer with pip and venv. Each task sets up only what it needs: the
demo the package alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
TASKS = {"demo": "demo", "check": "dev", "docs": "docs"}
"""Each with what it needs."""
WANTED = {"demo": ".", "dev": ".[dev]", "docs": ".[docs]"}
"""What pip installs for a need: the package, alone or with one of its extras."""
CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
    ("lint-imports",),
    ("python", "benchmarks/sizes.py"),
    ("pytest", "-n", "auto", "--dist", "worksteal"),
)


def install(need: str) -> None:
    """Create the environment and install what is needed, once a state of pyproject.toml."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    current = {name for name in WANTED if _says(_stamp(name), wanted)}
    if need in current:
        return
    print(f"Setting up .venv for {need} (once, a minute or two) ...", flush=True)
    if not current:
        venv.create(VENV, with_pip=True, clear=True)
    call("python", "-m", "pip", "install", "--quiet", "--editable", WANTED[need])
    for name in {need, "demo"}:  # the package itself is part of every need
        _stamp(name).write_text(wanted)


def _stamp(need: str) -> Path:
    """The file that says for which pyproject.toml a need was installed."""
    return VENV / f"installed-{need}"


def _says(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text


def call(program: str, *arguments: str) -> None:
    """Run a program of the environment; leave with its exit code if it fails."""
    code = subprocess.run([BIN / program, *arguments], cwd=ROOT).returncode
    if code:
        sys.exit(code)


def check() -> None:
    """Everything that must pass before a change lands.

    Tests run in a process a core: each with one thread, or these would wait for each other.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    for program, *arguments in CHECKS:
        print(f"\n$ {program} {' '.join(arguments)}", flush=True)
        call(program, *arguments)


def docs() -> None:
    """The documentation as a site, its links checked."""
    call("python", "docs/generate.py")
    call("mkdocs", "build", "--strict")
    print(f"Open {ROOT / 'site' / 'index.html'}")


def main() -> None:
    """Parse the one argument that there is."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the reader may have an older one
        sys.exit("provenet needs Python 3.11 or newer.")
    task = sys.argv[1] if len(sys.argv) > 1 else ""
    if task not in TASKS:
        sys.exit(f"Usage: python3 run.py {' | '.join(TASKS)}")
    install(TASKS[task])
    if task == "check":
        check()
    elif task == "docs":
        docs()
    else:
        call("provenet", "demo", *sys.argv[2:])


if __name__ == "__main__":
    main()
