"""A progress bar on stderr for work that lasts longer than a second."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_PATIENCE = 1.0
"""Convention: seconds before anything is shown: what takes less needs no bar."""


class StageProgress:
    """Takes `(stage, fraction, message)` calls; a negative fraction is unknown and pulses.

    On a terminal it is a bar that vanishes when the work ends; elsewhere it is one plain line for
    each stage that lasts.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        """Draw on `console`, or nowhere if quiet."""
        self._console = console
        self._open = not quiet
        self._bar = _bar(console) if console.is_terminal else None
        self._stage = self._message = ""
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    @classmethod
    def on_stderr(cls) -> StageProgress:
        """For those who call from Python."""
        from rich.console import Console

        return cls(Console(stderr=True))

    def __enter__(self) -> StageProgress:
        """Begin to count the first second."""
        if self._open and self._bar is not None:
            self._wait(self._show_bar)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            new = stage != self._stage
            self._stage, self._message = stage, message
            if self._bar is not None:
                self._update(self._bar, fraction)
            elif new:
                self._wait(lambda: self._show_line(stage))

    def _wait(self, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(_PATIENCE, then)
        self._timer.daemon = True
        self._timer.start()

    def _update(self, bar: Progress, fraction: float) -> None:
        # Progress.update takes a total of None for "unchanged", so the task is told itself.
        bar.tasks[0].total = 1.0 if fraction >= 0 else None
        done = min(max(fraction, 0.0), 1.0)
        stage = _capital(self._stage)
        bar.update(bar.task_ids[0], description=stage, completed=done, message=self._message)

    def _show_bar(self) -> None:
        with self._lock:
            if self._open and self._bar is not None:
                self._bar.start()

    def _show_line(self, stage: str) -> None:
        with self._lock:
            if self._open and stage == self._stage:
                from rich.text import Text

                line = ": ".join(filter(None, (_capital(stage), self._message)))
                self._console.print(Text(line), soft_wrap=True)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _bar(console: Console) -> Progress:
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
