"""What long work shows its user: the seconds of its stages, and a progress bar on stderr."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provenet.common.typing import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar


@dataclass(frozen=True)
class Stages:
    """A clock; `progress`, if any, is called when a stage begins."""

    progress: Progress | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @contextmanager
    def stage(self, name: str, message: str = "") -> Iterator[None]:
        """Time a stage; the seconds of several runs add up."""
        if self.progress is not None:
            self.progress(name, -1.0, message)
        begin = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - begin
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            what = ", ".join(filter(None, (name, message)))
            logging.getLogger("provenet").debug("%s: %.2f s", what, seconds)

    @property
    def total(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.started


class StageProgress:
    """Takes `(stage, fraction, message)` calls; a negative fraction is unknown and pulses.

    On a terminal it is a bar that vanishes when the work ends; elsewhere it is one plain line for
    each stage that takes more than a second (`patience`).
    """

    def __init__(self, console: Console, *, quiet: bool = False, patience: float = 1.0) -> None:
        """Draw on `console`, or nowhere if quiet."""
        self._console, self._patience = console, patience
        self._open = not quiet
        self._bar = _bar(console) if console.is_terminal else None
        self._stage = self._message = ""
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    @classmethod
    def on_stderr(cls) -> StageProgress:
        """The progress of a call from Python."""
        from rich.console import Console

        return cls(Console(stderr=True))

    def __enter__(self) -> StageProgress:
        """Begin to count the first second."""
        if self._open and self._bar is not None:
            self._after_patience(self._bar.start)
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar off the screen, whatever happened."""
        with self._lock:
            self._open = False
            if self._timer is not None:
                self._timer.cancel()
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, fraction: float, message: str = "") -> None:
        """Show where the work stands; `fraction` runs from 0 to 1."""
        with self._lock:
            if not self._open:
                return
            new, self._stage, self._message = stage != self._stage, stage, message
            title = stage[:1].upper() + stage[1:]
            if self._bar is not None:
                # Progress.update takes a total of None for "unchanged", so it is set directly.
                self._bar.tasks[0].total = 1.0 if fraction >= 0 else None
                done, number = min(max(fraction, 0.0), 1.0), self._bar.task_ids[0]
                self._bar.update(number, description=title, completed=done, message=message)
            elif new:
                self._after_patience(lambda: self._print(stage, title))

    def _after_patience(self, act: Callable[[], None]) -> None:
        def act_if_open() -> None:
            with self._lock:
                if self._open:
                    act()

        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(self._patience, act_if_open)
        self._timer.daemon = True
        self._timer.start()

    def _print(self, stage: str, title: str) -> None:
        if stage == self._stage:
            line = ": ".join(filter(None, (title, self._message)))
            self._console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)


def _bar(console: Console) -> Bar:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[message]}", style="dim", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("Working", total=None, message="")
    return bar
