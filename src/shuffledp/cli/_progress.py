"""A progress bar for what takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from shuffledp.engine.job import Progress, Report

__all__ = ["Meter", "meter", "size"]

_PATIENCE = 2.0


def size(count: int) -> str:
    """A number of bytes as people say it.

    >>> size(1_234), size(5_600_000_000)
    ('1.2 kB', '5.6 GB')
    """
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


class Meter:
    """Shows nothing for two seconds, then a bar on standard error."""

    __slots__ = ("_bar", "_start", "_task")

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __call__(self, progress: Progress) -> None:
        if self._bar is None:
            if time.monotonic() - self._start < _PATIENCE:
                return
            self._open(progress)
        assert self._bar is not None
        assert self._task is not None
        # A second pass starts again at the beginning.
        self._bar.update(self._task, completed=progress.rows, total=progress.total_rows)

    def _open(self, progress: Progress) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rows"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        about = f"reading {size(progress.total_bytes)}"
        self._task = self._bar.add_task(about, total=progress.total_rows)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def meter(*, quiet: bool) -> Iterator[Report | None]:
    """A meter, or None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    shown = Meter()
    try:
        yield shown
    finally:
        shown.close()
