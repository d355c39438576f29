"""Progress appears only for work that lasts, on stderr, and leaves the screen as it was."""

from __future__ import annotations

import io
import threading
import time

import pytest
from rich.console import Console

from provenet.cli import progress as module
from provenet.cli.progress import StageProgress


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.25)


def work(seconds: float, *, terminal: bool, quiet: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=80)
    with StageProgress(console, quiet=quiet) as progress:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            progress("expanding [units]", -1, "width 8")
            time.sleep(0.02)
        progress("Pruning", 0.5, "width 4")
        time.sleep(seconds)
    return file.getvalue()


def test_short_work_shows_nothing() -> None:
    assert work(0.0, terminal=True) == ""
    assert work(0.0, terminal=False) == ""


def test_long_work_shows_a_bar_on_a_terminal_and_takes_it_away() -> None:
    shown = work(0.7, terminal=True)
    assert "Expanding [units]" in shown and "width 8" in shown and "Pruning" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor comes back
    assert shown.rstrip().endswith("\x1b[2K")


def test_elsewhere_one_line_a_stage_that_lasts() -> None:
    assert work(0.7, terminal=False) == "Expanding [units]: width 8\nPruning: width 4\n"


def test_a_stage_that_ends_in_time_has_no_line() -> None:
    file = io.StringIO()
    with StageProgress(Console(file=file)) as progress:
        for _ in range(10):
            for stage in ("odd", "even"):
                progress(stage, -1)
                time.sleep(0.01)
    time.sleep(0.4)
    assert file.getvalue() == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet(terminal: bool) -> None:
    assert work(0.5, terminal=terminal, quiet=True) == ""


def test_the_bar_goes_away_when_the_work_is_interrupted() -> None:
    file = io.StringIO()
    threads = threading.active_count()
    with (
        pytest.raises(KeyboardInterrupt),
        StageProgress(Console(file=file, force_terminal=True)) as progress,
    ):
        progress("Fitting", 0.1)
        time.sleep(0.6)
        raise KeyboardInterrupt
    assert file.getvalue().rstrip().endswith("\x1b[2K")
    end = time.monotonic() + 5
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == threads
