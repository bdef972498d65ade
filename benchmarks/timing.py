"""What the benchmarks share: an interleaved best-of timer, a row of the table, and the table.

The machines are noisy, so every comparison is a ratio of two things measured in the same run: the
candidates take turns, and the best time of each counts. All of them use one thread, so CPU time is
the time that they would take on an idle machine, and other work nearby disturbs it less.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

__all__ = ["Row", "best", "faster", "markdown", "missing", "quantity", "seconds", "show"]

COLUMNS = ("what", "baseline", "ours", "ratio", "wanted", "met")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison, as text, and whether the figure was reached (None: none was set)."""

    what: str
    baseline: str
    ours: str
    ratio: str = "-"
    wanted: str = "-"
    met: bool | None = None


def best(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """CPU seconds of the fastest of `rounds` calls of each candidate, taken in turns.

    Results are dropped before the clock stops, so freeing memory is part of the work.
    """
    fastest = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for name, call in candidates.items():
            start = time.process_time()
            call()
            fastest[name] = min(fastest[name], time.process_time() - start)
    return fastest


def faster(
    what: str,
    *,
    baseline: float,
    ours: float,
    at_least: float | None = None,
    named: str,
    users: int | None = None,
) -> Row:
    """A row that says how many times faster we are; per million users if `users` is given."""
    ratio = baseline / ours
    shown = (seconds(baseline), seconds(ours)) if users is None else _rates(baseline, ours, users)
    return Row(
        what=what,
        baseline=f"{named}: {shown[0]}",
        ours=shown[1],
        ratio=f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.0f}x",
        wanted="-" if at_least is None else f">= {at_least:g}x",
        met=None if at_least is None else ratio >= at_least,
    )


def quantity(what: str, *, baseline: str, ours: float, unit: str, at_most: float) -> Row:
    """A row for something that must stay below a limit."""
    return Row(
        what=what,
        baseline=baseline,
        ours=f"{ours:.3g} {unit}",
        wanted=f"<= {at_most:g} {unit}",
        met=ours <= at_most,
    )


def missing(what: str, reason: str) -> Row:
    """A row for something that could not be measured here."""
    return Row(what=what, baseline=reason, ours="-")


def seconds(value: float) -> str:
    """A time to three digits.

    >>> seconds(0.01234), seconds(1.5)
    ('12.3 ms', '1.5 s')
    """
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


def _rates(baseline: float, ours: float, users: int) -> tuple[str, str]:
    scale = 1e6 / users
    return f"{baseline * scale:.3g} s/M", f"{ours * scale:.3g} s/M"


def show(rows: list[Row], title: str) -> None:
    """Print the table."""
    table = Table(title=title)
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*_cells(row))
    console = Console()
    # In a pipe or a file there is no terminal to fit into: keep every row on one line.
    (console if console.is_terminal else Console(width=180)).print(table)


def markdown(rows: list[Row]) -> str:
    """The table for the documentation."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *map(_cells, rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(row: Row) -> tuple[str, ...]:
    met = {True: "yes", False: "NO", None: "-"}[row.met]
    return row.what, row.baseline, row.ours, row.ratio, row.wanted, met
