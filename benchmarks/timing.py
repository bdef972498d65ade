"""What the benchmarks share: an interleaved best-of timer, a row of the table, and the table.

The machines are noisy, so every comparison is a ratio of two things measured in the same run: the
candidates take turns, and the best time of each counts. All of them use one thread, so CPU time is
the time that they would take on an idle machine, and other work nearby disturbs it less.

**A benchmark measures work, not memory.** A candidate is called with the number of a question: 0, 1, 2, ... The
answer to question 0 is *cold*: what is imported late is imported then. Then everything that shuffledp's functions
remember is forgotten, and every later round asks a *fresh* question of a warm process. A second round that is faster
than the first by more than a factor of 3 was not asked anything new: it is refused (`RememberedError`).
What does not depend on the question at all is kept (`TABLES`): it is built once in a process, for the cold answer.
"""

import functools
import gc
import inspect
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

__all__ = [
    "RememberedError",
    "Row",
    "Took",
    "best",
    "compiled",
    "faster",
    "forget",
    "markdown",
    "measure",
    "missing",
    "quantity",
    "seconds",
    "show",
    "time_call",
]

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


class RememberedError(RuntimeError):
    """A benchmark whose second round hardly works: it asks what was asked before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """CPU seconds of one candidate."""

    cold: float
    """Of the first call in this process, late imports included."""
    fresh: float
    """Of the fastest of the questions after it, none of which was asked before."""


FASTER = 3.0
"""How many times faster than the first a second round may be."""
JITTER = 1e-4
"""Seconds by which a clock, an allocator or a busy neighbour may be off."""
TABLES = frozenset(f"shuffledp.numerics.dealing.{name}" for name in ("_cuts", "_tabulate_heads"))
"""Functions that are called with constants only: how fair coins fall in blocks of three sizes, whatever is asked."""


def measure(candidates: Mapping[str, Callable[[int], object]], rounds: int) -> dict[str, Took]:
    """What each candidate takes for question 0, and for the fastest of questions 1 .. `rounds`, taken in turns.

    Results are dropped before the clock stops, so freeing memory is part of the work.
    """
    cold = {name: time_call(functools.partial(call, 0)) for name, call in candidates.items()}
    forget()
    fresh: dict[str, list[float]] = {name: [] for name in candidates}
    for question in range(1, rounds + 1):
        for name, call in candidates.items():
            fresh[name].append(time_call(functools.partial(call, question)))
            _check_work(name, fresh[name])
    return {name: Took(cold=cold[name], fresh=min(fresh[name])) for name in candidates}


def best(candidates: Mapping[str, Callable[[int], object]], rounds: int) -> dict[str, float]:
    """The fresh times of `measure` alone."""
    return {name: took.fresh for name, took in measure(candidates, rounds).items()}


def time_call(call: Callable[[], object]) -> float:
    """CPU seconds of one call; its result is dropped before the clock stops."""
    start = time.process_time()
    call()
    return time.process_time() - start


def compiled() -> dict[str, str]:
    """The environment of a program that a benchmark starts: its modules are compiled, in the first round, as they are
    in an installed package, whatever this process does."""
    cache = str(Path(tempfile.gettempdir(), "shuffledp-bytecode"))
    return {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}


def forget() -> None:
    """Empty every cache of a function of shuffledp; one without parameters, or in `TABLES`, remembers no question."""
    gc.unfreeze()  # the command line freezes what it loads, and what is frozen is not listed
    for each in gc.get_objects():
        cached = type(each) is functools._lru_cache_wrapper
        ours = cached and each.__module__.startswith("shuffledp")
        if ours and inspect.signature(each.__wrapped__).parameters and not _is_table(each):
            each.cache_clear()


def _is_table(function: Callable[..., object]) -> bool:
    return f"{function.__module__}.{function.__qualname__}" in TABLES


def _check_work(name: str, rounds: list[float]) -> None:
    if len(rounds) == 2 and FASTER * rounds[1] + JITTER < rounds[0]:
        first, second = map(seconds, rounds)
        raise RememberedError(
            f"{name}: the second round took {second}, the first {first}: it must ask a new question"
        )


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
