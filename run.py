"""Set up provenet in `.venv` and run it, or all its checks: `python3 run.py demo | check | docs`.

Needs nothing but Python 3.11 or newer with pip and venv.
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
TASKS = ("demo", "check", "docs")
CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
    ("lint-imports",),
    ("pytest", "-n", "auto"),
)


def install(extra: str) -> None:
    """Create the environment and install an extra, once for every state of pyproject.toml."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamps = {name: VENV / f"installed-{name}" for name in ("dev", "docs")}
    current = {name for name, stamp in stamps.items() if _says(stamp, wanted)}
    if extra in current:
        return
    print(f"Setting up .venv for {extra} (once, a minute or two) ...", flush=True)
    if not current:
        venv.create(VENV, with_pip=True, clear=True)
    call("python", "-m", "pip", "install", "--quiet", "--editable", f".[{extra}]")
    stamps[extra].write_text(wanted)


def _says(file: Path, text: str) -> bool:
    return file.exists() and file.read_text() == text


def call(program: str, *arguments: str) -> None:
    """Run a program of the environment; leave with its exit code if it fails."""
    code = subprocess.run([BIN / program, *arguments], cwd=ROOT).returncode
    if code:
        sys.exit(code)


def check() -> None:
    """Everything that must pass before a change lands."""
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
    install("docs" if task == "docs" else "dev")
    if task == "check":
        check()
    elif task == "docs":
        docs()
    else:
        call("provenet", "demo", *sys.argv[2:])


if __name__ == "__main__":
    main()
