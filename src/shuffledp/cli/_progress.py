"""Progress on standard error: a bar on a terminal, lines now and then in a log, nothing where it is quiet."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from shuffledp.cli._terminal import is_quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from shuffledp.engine import Progress, Report

_PATIENCE = 1.0  # seconds before there is a progress bar
_FIRST_LINE = 20.0  # seconds before there is a line in a log


class Meter:
    """Shows nothing for a second, then a bar on standard error: also while nothing is read."""

    __slots__ = ("_bar", "_task", "_timer")

    def __init__(self) -> None:
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._timer = threading.Timer(_PATIENCE, self._open)
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, progress: Progress) -> None:
        if self._bar is None or self._task is None:
            return
        # A second pass starts again at the beginning.
        about, unit = _name_work(progress)
        self._bar.update(
            self._task,
            completed=progress.rows,
            total=progress.total_rows,
            description=about,
            unit=unit,
        )

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = bar.add_task("working", total=None, unit="")
        bar.start()
        self._bar = bar

    def close(self) -> None:
        """Take the bar away."""
        self._timer.cancel()
        self._timer.join()
        if self._bar is not None:
            self._bar.stop()


def _name_work(progress: Progress) -> tuple[str, str]:
    """Name what is being done, and what is counted."""
    from rich.filesize import decimal

    if progress.estimating:
        return "estimating", "%"
    return f"reading {decimal(progress.total_bytes)}", "rows"


class Lines:
    """Progress for a log: nothing for twenty seconds, then a line whenever the time has doubled."""

    __slots__ = ("_next", "_start")

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._next = _FIRST_LINE

    def __call__(self, progress: Progress) -> None:
        spent = time.monotonic() - self._start
        if spent < self._next:
            return
        self._next = 2 * spent
        of = "" if progress.total_rows is None else f" of {progress.total_rows:,}"
        about, unit = _name_work(progress)
        typer.echo(f"{about}: {progress.rows:,}{of} {unit} after {spent:.0f} seconds", err=True)


@contextmanager
def meter() -> Iterator[Report | None]:
    """Show a progress bar for what takes longer than a second; lines now and then in a log; nothing where quiet."""
    if is_quiet():
        yield None
        return
    if not sys.stderr.isatty():
        yield Lines()
        return
    shown_bar = Meter()
    try:
        yield shown_bar
    finally:
        shown_bar.close()


@contextmanager
def pulse(about: str) -> Iterator[None]:
    """Show, after a second, a pulsing bar and the time, for work that does not say how much of it is done.

    It is on standard error, and only where somebody would see it.

    >>> with pulse("planning"):
    ...     pass
    """
    if is_quiet() or not sys.stderr.isatty():
        yield
        return
    bars: list[Bar] = []
    timer = threading.Timer(_PATIENCE, lambda: bars.append(_start_pulse(about)))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for bar in bars:
            bar.stop()


def _start_pulse(about: str) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(about, total=None)
    bar.start()
    return bar


@contextmanager
def show_steps() -> Iterator[Callable[[str], None]]:
    """Say what is being done, on standard error: in one line that changes, or in a line each in a log.

    >>> with show_steps() as say_step:
    ...     say_step("choosing the protocols")
    """
    if is_quiet():
        yield lambda _: None
    elif not sys.stderr.isatty():
        yield lambda text: typer.echo(f"{text} ...", err=True)
    else:
        from rich.console import Console

        with Console(stderr=True).status("") as status:
            yield lambda text: status.update(f"{text} ...")
