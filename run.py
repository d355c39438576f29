"""Set up provenet in `.venv` and run it, or all its checks: `python3 run.py demo | check`.

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
STAMP = VENV / "installed"
CHECKS = (
    ("ruff", "format", "--check", "."),
    ("ruff", "check", "."),
    ("mypy",),
    ("pytest", "-n", "auto"),
)


def install() -> None:
    """Create the environment, once for every state of pyproject.toml."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    print("Setting up .venv (once, a minute or two) ...", flush=True)
    venv.create(VENV, with_pip=True, clear=True)
    call("python", "-m", "pip", "install", "--quiet", "--editable", ".[dev]")
    STAMP.write_text(wanted)


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


def main() -> None:
    """Parse the one argument that there is."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the reader may have an older one
        sys.exit("provenet needs Python 3.11 or newer.")
    task = sys.argv[1] if len(sys.argv) > 1 else ""
    if task not in ("demo", "check"):
        sys.exit("Usage: python3 run.py demo | check")
    install()
    if task == "check":
        check()
    else:
        call("provenet", "demo", *sys.argv[2:])


if __name__ == "__main__":
    main()
