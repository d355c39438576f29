"""Stages are timed; progress appears only for work that lasts, and leaves the screen as it was."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import pytest
from rich.console import Console

import provenet as pn
from provenet.common import progress as module
from provenet.common.progress import StageProgress, Stages


def test_stages_are_told_and_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, told = iter(range(100)), []
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))  # a second a look
    stages = Stages(lambda *heard: told.append(heard), started=0.0)
    with stages.stage("fit", "first"), stages.stage("solve"):
        pass
    with pytest.raises(ValueError, match="bad luck"), stages.stage("fit"):
        raise ValueError("bad luck")
    assert stages.seconds == {"solve": 1.0, "fit": 3.0 + 1.0}
    assert told == [("fit", -1.0, "first"), ("solve", -1.0, ""), ("fit", -1.0, "")]
    assert stages.total == 6.0


class FakeTimer:
    """Takes the place of `threading.Timer`: all go off when a test says that time has passed."""

    waiting: list[FakeTimer] = []  # noqa: RUF012
    daemon = False

    def __init__(self, seconds: float, then: Callable[[], None]) -> None:
        self.then, self.cancelled = then, False

    def start(self) -> None:
        self.waiting.append(self)

    def cancel(self) -> None:
        self.cancelled = True

    @classmethod
    def pass_time(cls) -> None:
        going_off = [timer for timer in cls.waiting if not timer.cancelled]
        cls.waiting.clear()
        for timer in going_off:
            timer.then()


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> type[FakeTimer]:
    FakeTimer.waiting.clear()
    monkeypatch.setattr(module.threading, "Timer", FakeTimer)
    return FakeTimer


def work(timers: type[FakeTimer], *, lasts: bool, terminal: bool, quiet: bool = False) -> str:
    """Two stages, each of which lasts longer than the patience there is, or does not."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=80)
    with StageProgress(console, quiet=quiet) as progress:
        for stage, fraction, message in (
            ("expanding [units]", -1, "width 8"),
            ("Pruning", 0.5, "width 4"),
        ):
            for _ in range(3):
                progress(stage, fraction, message)
            if lasts:
                timers.pass_time()
                progress(stage, fraction, message)
    timers.pass_time()  # what has ended shows nothing more
    return file.getvalue()


def test_work_that_lasts_is_shown(timers: type[FakeTimer]) -> None:
    for terminal in (True, False):
        assert work(timers, lasts=False, terminal=terminal) == ""
        assert work(timers, lasts=True, terminal=terminal, quiet=True) == ""
    shown = work(timers, lasts=True, terminal=True)
    assert "Expanding [units]" in shown and "width 8" in shown and "Pruning" in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor comes back
    assert shown.rstrip().endswith("\x1b[2K")
    elsewhere = work(timers, lasts=True, terminal=False)
    assert elsewhere == "Expanding [units]: width 8\nPruning: width 4\n"


def test_the_bar_goes_away_when_the_work_is_interrupted(timers: type[FakeTimer]) -> None:
    file, threads = io.StringIO(), set(threading.enumerate())
    with (
        pytest.raises(KeyboardInterrupt),
        StageProgress(Console(file=file, force_terminal=True)) as progress,
    ):
        progress("Fitting", 0.1)
        timers.pass_time()
        drawing = set(threading.enumerate()) - threads
        raise KeyboardInterrupt
    assert file.getvalue().rstrip().endswith("\x1b[2K")
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


@pytest.mark.parametrize("function", ["recover", "extract"])
def test_verbose_shows_the_bars_of_the_command_line(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    class Recorded(StageProgress):
        def __call__(self, stage: str, fraction: float, message: str = "") -> None:
            told.append(stage)

    bars = Recorded(Console(file=io.StringIO()))
    monkeypatch.setattr(StageProgress, "on_stderr", lambda: bars)
    hidden = pn.random_network(1, 2, rng=0)
    X, y = pn.sample(hidden, 60, rng=1)
    given = (X, y) if function == "recover" else (hidden, 2)
    for verbose in (False, True):
        assert not told
        getattr(pn, function)(*given, rng=0, verbose=verbose)
    assert told and not bars._open
