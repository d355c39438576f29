"""A progress bar on stderr for work that lasts longer than a second."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

_PATIENCE = 1.0  # seconds before anything is shown


class StageProgress:
    """Takes `(stage, fraction, message)` calls; a negative fraction is unknown and pulses.

    On a terminal it is a bar that vanishes when the work ends; elsewhere it is one plain line for
    each stage that lasts.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        """Draw on `console`, or nowhere if quiet."""
        self._console = console
        self._quiet = quiet
        self._bar = _bar(console) if console.is_terminal and not quiet else None
        self._stage, self._since, self._announced = "", time.monotonic(), False
        self._lock = threading.Lock()
        self._timer = threading.Timer(_PATIENCE, self._start)
        self._timer.daemon = True

    def __enter__(self) -> StageProgress:
        """Begin to count the first second."""
        if self._bar is not None:
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the bar off the screen, whatever happened."""
        self._timer.cancel()
        with self._lock:
            bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()

    def __call__(self, stage: str, fraction: float, message: str = "") -> None:
        """Show where the work stands; `fraction` runs from 0 to 1."""
        with self._lock:
            if self._bar is not None:
                self._update(self._bar, stage, fraction, message)
            elif not self._quiet:
                self._announce(stage, message)

    def _start(self) -> None:
        with self._lock:
            if self._bar is not None:
                self._bar.start()

    def _update(self, bar: Progress, stage: str, fraction: float, message: str) -> None:
        # Progress.update takes a total of None for "unchanged", so the task is told itself.
        bar.tasks[0].total = 1.0 if fraction >= 0 else None
        done = min(max(fraction, 0.0), 1.0)
        bar.update(bar.task_ids[0], description=stage, completed=done, message=message)

    def _announce(self, stage: str, message: str) -> None:
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._since, self._announced = stage, now, False
        if not self._announced and now - self._since > _PATIENCE:
            self._announced = True
            line = f"{stage}: {message}" if message else stage
            self._console.print(Text(line), soft_wrap=True)


def _bar(console: Console) -> Progress:
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
