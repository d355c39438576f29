"""Progress appears only for work that lasts, on stderr, and leaves the screen as it was."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pytest
from rich.console import Console

import provenet as pn
from provenet.common import progress as module
from provenet.common.progress import StageProgress


class Timers:
    """Take the place of `threading.Timer`: they go off when a test says that time has passed."""

    def __init__(self) -> None:
        self.waiting: list[FakeTimer] = []

    def pass_(self) -> None:
        """All that were started and not cancelled go off."""
        going_off, self.waiting = self.waiting, []
        for timer in going_off:
            if timer.started and not timer.cancelled:
                timer.then()

    def new(self, seconds: float, then: Callable[[], None]) -> FakeTimer:
        assert seconds == 1.0
        self.waiting.append(FakeTimer(then))
        return self.waiting[-1]


class FakeTimer:
    """A timer that waits for `Timers.pass_`."""

    daemon = False

    def __init__(self, then: Callable[[], None]) -> None:
        self.then, self.started, self.cancelled = then, False, False

    def start(self) -> None:
        self.started = True

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    fake = Timers()
    monkeypatch.setattr(module.threading, "Timer", fake.new)
    return fake


def work(timers: Timers, *, lasts: bool, terminal: bool, quiet: bool = False) -> str:
    """Two stages, each of which lasts longer than the patience there is, or does not."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=80)
    with StageProgress(console, quiet=quiet) as progress:
        for _ in range(3):
            progress("expanding [units]", -1, "width 8")
        if lasts:
            timers.pass_()
            progress("expanding [units]", -1, "width 8")
        progress("Pruning", 0.5, "width 4")
        if lasts:
            timers.pass_()
    timers.pass_()  # what has ended shows nothing more
    return file.getvalue()


def test_short_work_shows_nothing(timers: Timers) -> None:
    assert work(timers, lasts=False, terminal=True) == ""
    assert work(timers, lasts=False, terminal=False) == ""


def test_long_work_shows_a_bar_on_a_terminal_and_takes_it_away(timers: Timers) -> None:
    shown = work(timers, lasts=True, terminal=True)
    assert "Expanding [units]" in shown and "width 8" in shown and "Pruning" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor comes back
    assert shown.rstrip().endswith("\x1b[2K")


def test_elsewhere_one_line_a_stage_that_lasts(timers: Timers) -> None:
    shown = work(timers, lasts=True, terminal=False)
    assert shown == "Expanding [units]: width 8\nPruning: width 4\n"


def test_a_stage_that_ends_in_time_has_no_line(timers: Timers) -> None:
    file = io.StringIO()
    with StageProgress(Console(file=file)) as progress:
        for _ in range(10):
            for stage in ("odd", "even"):
                progress(stage, -1)
    assert len(timers.waiting) == 20
    timers.pass_()
    assert file.getvalue() == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet(terminal: bool, timers: Timers) -> None:
    assert work(timers, lasts=True, terminal=terminal, quiet=True) == ""


def test_the_bar_goes_away_when_the_work_is_interrupted(timers: Timers) -> None:
    file = io.StringIO()
    threads = set(threading.enumerate())
    with (
        pytest.raises(KeyboardInterrupt),
        StageProgress(Console(file=file, force_terminal=True)) as progress,
    ):
        progress("Fitting", 0.1)
        timers.pass_()
        drawing = set(threading.enumerate()) - threads
        raise KeyboardInterrupt
    assert file.getvalue().rstrip().endswith("\x1b[2K")
    assert drawing
    for thread in drawing:
        thread.join(60.0)  # an end that is not reached, not a measure
        assert not thread.is_alive()


def test_the_real_timer_waits_and_then_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = threading.Event()
    console = Console(file=io.StringIO())
    monkeypatch.setattr(console, "print", lambda *args, **options: shown.set())
    with StageProgress(console, patience=1e-3) as progress:
        progress("Fitting", 0.1)
        assert shown.wait(60.0)


@pytest.mark.parametrize("door", ["recover", "extract"])
def test_verbose_shows_the_bars_of_the_command_line(
    door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    class Recorded(StageProgress):
        def __call__(self, stage: str, fraction: float, message: str = "") -> None:
            told.append(stage)

    bars = Recorded(Console(file=io.StringIO()))
    monkeypatch.setattr(StageProgress, "on_stderr", lambda: bars)
    hidden = pn.random_network(1, 2, rng=0)
    X, y = pn.sample(hidden, 60, rng=1)
    given = (X, y) if door == "recover" else (hidden, 2)
    for verbose in (False, True):
        assert not told
        getattr(pn, door)(*given, rng=0, verbose=verbose)
    assert told and not bars._open
