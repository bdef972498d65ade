"""What an engine is asked to do, what it answers, and how this machine works on chunks."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Counts
from shuffledp.core.errors import DataError, PositionError, shown
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.codes import FAULTS, Coded, Coder
from shuffledp.engine.columns import Chunk, Column, read_chunks, thread_count

__all__ = [
    "CodeCounts",
    "Engine",
    "Headcount",
    "Job",
    "Progress",
    "Report",
    "Tallied",
    "add_invalid",
    "code_chunk",
    "count_users",
    "work_on_chunks",
]

_KEPT_BYTES = 1 << 26  # of codes, from counting people to randomizing them
_Out = TypeVar("_Out")


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
    """A column and what its values mean."""

    column: Column
    coder: Coder
    report: Report | None = None
    read: tuple[Coded, ...] | None = None
    """The codes of all chunks, if an earlier pass kept them."""

    def show(self, rows: int) -> None:
        """Report progress, if anybody wants to know."""
        if self.report is None:
            return
        total = self.column.rows_guess
        size = self.column.bytes
        self.report(Progress(rows=rows, total_rows=total, total_bytes=size))

    def nobody(self) -> DataError:
        """The error if no value is valid."""
        return DataError(f"column {self.column.name!r} has no valid value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Headcount:
    """How many users a column has under a policy, and how many values were invalid, by reason."""

    n: int
    rows: int
    invalid: dict[str, int] | None
    """None if that is not known yet: nothing had to be read to know n."""
    job: Job | None = field(default=None, repr=False, compare=False)
    """The job with its codes, if there were not too many to keep."""

    def codes_of(self, column: Column, coder: Coder) -> tuple[Coded, ...] | None:
        """The codes that were kept, if they are what this coder makes of this column."""
        if self.job is None or self.job.column is not column or self.job.coder != coder:
            return None
        return self.job.read


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeCounts:
    """How many users have each code of the domain. Exact, so not private."""

    counts: Counts
    rows: int
    invalid: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallied:
    """The tally of a column, how many rows were read, and how many values were invalid."""

    tally: Tally
    rows: int
    invalid: dict[str, int]


class Engine(Protocol):
    """Concept 8: where data and randomness meet.

    An engine is a dataclass; its fields are its own options. To add one, implement this class and put
    it into `ENGINES`: the command line, its help and `ask` take it from there.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    """What it is for, in a few words."""
    private: ClassVar[bool]
    """Whether a protocol's guarantee covers what this engine makes of it."""

    def headcount(self, job: Job) -> Headcount:
        """Read the column once and say what is valid."""

    def counts(self, job: Job) -> CodeCounts:
        """Group the column by code: how many users have each."""

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Tallied:
        """Randomize and tally the column; secure words unless a seeded source is given."""


def add_invalid(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add numbers of invalid values, by reason.

    >>> add_invalid([{"null": 1, "unknown": 0, "out_of_range": 0, "nan": 2}])
    {'null': 1, 'unknown': 0, 'out_of_range': 0, 'nan': 2}
    """
    total = dict.fromkeys(FAULTS, 0)
    for some in counts:
        total = {why: count + some[why] for why, count in total.items()}
    return total


def code_chunk(coder: Coder, chunk: Chunk) -> Coded:
    """The codes of a chunk; errors name the file and the row (counted from 1, without a header)."""
    try:
        return coder.codes(chunk.array)
    except PositionError as error:
        if chunk.file is None:
            raise error.moved(chunk.row) from None
        place = f"row {chunk.row_in_file + error.position + 1} of {chunk.file}"
        raise DataError(f"value {shown(error.value)} in {place} {error.complaint}") from None
    except DataError as error:
        if chunk.file is None:
            raise
        raise DataError(f"{chunk.file}: {error}") from None


class _Part(NamedTuple):
    row: int
    code: Callable[[], Coded]


def _parts(job: Job, threads: int | None) -> Generator[_Part]:
    """The chunks of a job, still to be coded unless they were kept; reports progress."""
    if job.read is None:
        for chunk in read_chunks(job.column, threads):
            yield _Part(chunk.row, partial(code_chunk, job.coder, chunk))
            job.show(chunk.row + len(chunk.array))
        return
    row = 0
    for kept in job.read:
        yield _Part(row, partial(_widen, kept))
        row += len(kept.codes)
        job.show(row)


@contextmanager
def work_on_chunks(
    work: Callable[[int, Coded], _Out], job: Job, threads: int | None
) -> Iterator[Iterator[tuple[Coded, _Out]]]:
    """Code the chunks of a job and call `work(first row, codes)` on each, with a pool of threads.

    Results come in order, and never more than a few chunks ahead of the slowest. All of it ends with
    the block.
    """

    def run(part: _Part) -> tuple[Coded, _Out]:
        some = part.code()
        return some, work(part.row, some)

    count = thread_count(threads)
    with closing(_parts(job, threads)) as parts, ThreadPoolExecutor(count) as pool:
        try:
            yield _in_order(run, parts, pool, 2 * count)
        finally:
            pool.shutdown(cancel_futures=True)


def _in_order(
    run: Callable[[_Part], _Out], parts: Iterator[_Part], pool: ThreadPoolExecutor, ahead: int
) -> Iterator[_Out]:
    waiting: deque[Future[_Out]] = deque()
    for part in parts:
        waiting.append(pool.submit(run, part))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def count_users(job: Job, threads: int | None) -> Headcount:
    """How many users and rows a job's column has, and which values of it are invalid."""
    n, rows, invalid = 0, 0, add_invalid(())
    kept: list[Coded] | None = []
    size = 0
    narrow = np.min_scalar_type(job.coder.domain.size - 1)
    with work_on_chunks(lambda _, some: _narrow(some, narrow), job, threads) as parts:
        for some, small in parts:
            n, rows = n + some.users, rows + len(some.codes)
            invalid = add_invalid((invalid, some.invalid()))
            size += small.codes.nbytes
            if kept is not None and size <= _KEPT_BYTES:
                kept.append(small)
            else:
                kept = None
    read = None if kept is None else tuple(kept)
    return Headcount(n=n, rows=rows, invalid=invalid, job=replace(job, read=read))


def _narrow(some: Coded, dtype: np.dtype[Any]) -> Coded:
    return some._replace(codes=some.codes.astype(dtype, copy=False))


def _widen(some: Coded) -> Coded:
    return some._replace(codes=some.codes.astype(np.int64))
