"""What an engine is asked to do, and what it answers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from shuffledp.core.analyzer import Tally
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.coding import FAULTS, Coder
from shuffledp.engine.formats import FileColumn

__all__ = ["Counted", "Engine", "Headcount", "Job", "Progress", "Report", "added"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a pass over the data has come.

    >>> Progress(rows=50, total_rows=200, total_bytes=1000).fraction
    0.25
    """

    rows: int
    total_rows: int | None
    """Exact where the files say it, otherwise a guess from their size; None if not even that."""
    total_bytes: int

    @property
    def fraction(self) -> float | None:
        """The part that is done, at most 1; None if it cannot be known."""
        if not self.total_rows:
            return None
        return min(1.0, self.rows / self.total_rows)


Report: TypeAlias = Callable[[Progress], object]
"""Called again and again while rows are read, always from the caller's thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A column, what its values mean, and with how much machinery to read it."""

    column: FileColumn
    coder: Coder
    threads: int | None = None
    """How many threads; None: as many as the machine has."""
    master: str | None = None
    """Where Spark runs; None: in this process, on two threads."""
    report: Report | None = None

    def show(self, rows: int) -> None:
        """Report progress, if anybody wants to know."""
        if self.report is None:
            return
        total = self.column.rows_guess
        size = self.column.bytes
        self.report(Progress(rows=rows, total_rows=total, total_bytes=size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Headcount:
    """How many users a column has under a policy, and how many values were invalid, by reason."""

    n: int
    rows: int
    invalid: dict[str, int] | None
    """None if that is not known yet: nothing had to be read to know n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The tally of a column, how many rows were read, and how many values were invalid."""

    tally: Tally
    rows: int
    invalid: dict[str, int]


class Engine(Protocol):
    """Concept 7: where data and randomness meet. To add one, implement this and register it."""

    def headcount(self, job: Job) -> Headcount:
        """Read the column once and say what is valid."""

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Counted:
        """Randomize and tally the column; secure words unless a seeded source is given."""


def added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Numbers of invalid values, added by reason.

    >>> added([{"null": 1, "unknown": 0, "out_of_range": 0, "nan": 2}])
    {'null': 1, 'unknown': 0, 'out_of_range': 0, 'nan': 2}
    """
    total = dict.fromkeys(FAULTS, 0)
    for some in counts:
        total = {why: count + some[why] for why, count in total.items()}
    return total
