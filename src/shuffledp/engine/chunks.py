"""What an engine is asked to do, what it answers, and how this machine works: chunk by chunk.

Chunks of a column become codes; people's words are drawn, used and forgotten in smaller chunks of tape. `watch` tells
where the time goes: seconds by stage.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from shuffledp.core.analyzer import Analyzer, Tally
from shuffledp.core.arrays import Bools, Codes, Counts
from shuffledp.core.errors import DataError, ParameterError, PositionError, tell_value
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import (
    Messages,
    Randomizer,
    WordSource,
    encode_places,
    forget,
    tape_width,
)
from shuffledp.engine.codes import FAULTS, Coded, Coder
from shuffledp.engine.columns import Chunk, Column, Group, read_chunks
from shuffledp.engine.queries import thread_count
from shuffledp.engine.reducing import Reduced, Reduction
from shuffledp.numerics.entropy import SecureWords, SeededWords

_KEPT_BYTES = 1 << 26  # of codes, from counting people to randomizing them
_CHUNK_BYTES = 1 << 20  # a chunk of tape, its messages and temporaries stay in the CPU's cache
_FEW_USERS = 2048
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a pass over the data has come, or an estimate that takes its time.

    >>> Progress(rows=50, total_rows=200, total_bytes=1000).fraction
    0.25
    """

    rows: int
    total_rows: int | None
    """Exact where the files say it, otherwise a guess from their size; None if not even that."""
    total_bytes: int
    estimating: bool = False
    """All rows were read; these are percents of what is left to do."""

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
    groups: "CodeCounts | None" = field(default=None, repr=False)
    """How many people have each code, if an earlier pass grouped them. Secret."""

    @classmethod
    def of(
        cls, column: Column, coder: Coder, report: Report | None, found: "Headcount | None"
    ) -> "Job":
        """Return the job, with what an earlier one about this very column, coded alike, has kept."""
        done = None if found is None else found.job
        if done is None or done.column is not column or not done.coder.agrees(coder):
            return cls(column=column, coder=coder, report=report)
        return replace(done, coder=coder, report=report)

    def show(self, rows: int) -> None:
        """Report progress, if a report was asked for."""
        if self.report is None:
            return
        total = self.column.rows_guess
        size = self.column.bytes
        self.report(Progress(rows=rows, total_rows=total, total_bytes=size))

    def nobody(self) -> DataError:
        """Return the error if no value is valid."""
        hint = (
            "; without on_invalid, the first invalid one is named"
            if self.coder.on_invalid.drops
            else ""
        )
        where = self.column.where
        whose = "" if where is None else f" where {where}"
        return DataError(f"column {self.column.name!r} has no valid value{whose}{hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Headcount:
    """How many users a column has under a policy, and how many values were invalid, by reason."""

    n: int
    rows: int
    invalid: dict[str, int] | None
    """None if that is not known yet: nothing had to be read to know n."""
    job: Job | None = field(default=None, repr=False, compare=False)
    """The job that was done, with what it kept."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeCounts:
    """How many people have each code of the domain. As secret as the data, so it does not show them."""

    counts: Counts = field(repr=False)
    rows: int = field(repr=False)
    invalid: dict[str, int] = field(repr=False)

    @property
    def n(self) -> int:
        """How many people there are."""
        return int(self.counts.sum())


class Rounding(NamedTuple):
    """How real values get to the grid: by a word of `bits` bits for each row."""

    rng: WordSource | None
    """None: secure words."""
    bits: int


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
    local: ClassVar[bool]
    """Whether this machine reads the rows, so that words can be dealt while they are read, and errors name a row."""

    @property
    def threads(self) -> int | None:
        """How many threads of this machine it may use; None: all."""

    def headcount(self, job: Job) -> Headcount:
        """Read the column once and say what is valid."""

    def counts(self, job: Job, rounding: Rounding | None = None) -> CodeCounts:
        """Group the column by code; real values are rounded, to the nearest point unless said otherwise."""

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Tallied:
        """Randomize and tally row by row, where a column cannot be grouped; secure words without an rng."""

    def reduce(self, reduction: Reduction) -> Reduced:
        """Make one value of each person's rows, with the group-by that this engine has."""

    def group(self, sets: Sequence[tuple[Column, ...]]) -> Iterable[Group] | None:
        """Group by each of these columns or pairs of columns, in one pass; None: not done here, so rows are read one
        by one."""


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
    """Return the codes of a chunk; errors name the file and the row (counted from 1, without a header)."""
    try:
        return coder.codes(chunk.array)
    except PositionError as error:
        if chunk.file is None:
            raise error.move(chunk.row) from None
        place = f"row {chunk.place_of(error.position) + 1} of {chunk.file}"
        raise DataError(f"{tell_value(error.value, f'in {place}')} {error.complaint}") from None
    except DataError as error:
        if chunk.file is None:
            raise
        raise DataError(f"{chunk.file}: {error}") from None


class _Part(NamedTuple):
    row: int
    code: Callable[[], Coded]


def _list_parts(job: Job, threads: int | None) -> Generator[_Part]:
    """Yield the chunks of a job, still to be coded unless they were kept; reports progress."""
    if job.read is None:
        for chunk in read_chunks(job.column, threads):
            yield _Part(chunk.row, partial(code_chunk, job.coder, chunk))
            job.show(chunk.row + len(chunk.array))
        return
    row = 0
    for kept in job.read:
        yield _Part(row, partial(_store_as, np.int64, kept))
        row += len(kept.codes)
        job.show(row)


class Pass(Generic[_Out]):
    """The results of a pass over a job, in order; and how many people, rows and invalid values it has seen so far."""

    __slots__ = ("_job", "_results", "invalid", "n", "rows")

    def __init__(self, job: Job, results: Iterator[tuple[Coded, _Out]]) -> None:
        self._job, self._results = job, results
        self.n, self.rows, self.invalid = 0, 0, add_invalid(())

    def __iter__(self) -> Iterator[_Out]:
        for some, result in self._results:
            self.n += some.users
            self.rows += len(some.codes)
            self.invalid = add_invalid((self.invalid, some.invalid()))
            yield result

    def require_people(self) -> None:
        """Refuse a column in which no value is valid."""
        if self.n == 0:
            raise self._job.nobody()


@contextmanager
def work_on_chunks(
    work: Callable[[int, Coded], _Out], job: Job, threads: int | None
) -> Iterator[Pass[_Out]]:
    """Code the chunks of a job and call `work(first row, codes)` on each, with a pool of threads.

    Results come in order, and never more than a few chunks ahead of the slowest. All of it ends with
    the block.
    """

    def run(part: _Part) -> tuple[Coded, _Out]:
        some = part.code()
        return some, work(part.row, some)

    count = thread_count(threads)
    with closing(_list_parts(job, threads)) as parts, ThreadPoolExecutor(count) as pool:
        try:
            yield Pass(job, _order_results(run, parts, pool, 2 * count))
        finally:
            pool.shutdown(cancel_futures=True)


def _order_results(
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
    """Return how many users and rows a job's column has, and which values of it are invalid."""
    kept: list[Coded] | None = []
    size = 0
    narrow = np.min_scalar_type(job.coder.largest)
    with work_on_chunks(lambda _, some: _store_as(narrow, some), job, threads) as parts:
        for small in parts:
            size += small.codes.nbytes
            if kept is not None and size <= _KEPT_BYTES:
                kept.append(small)
            else:
                kept = None
    read = None if kept is None else tuple(kept)
    return Headcount(n=parts.n, rows=parts.rows, invalid=parts.invalid, job=replace(job, read=read))


def _store_as(dtype: DTypeLike, some: Coded) -> Coded:
    return some._replace(codes=some.codes.astype(dtype, copy=False))


def tally_codes(
    randomizer: Randomizer,
    analyzer: Analyzer,
    codes: Codes,
    rng: WordSource,
    kept: Bools | None = None,
) -> Tally | None:
    """Tally, as `tally` does, for values that are codes already; None if nobody is kept.

    Words are drawn for everybody, so dropping a person does not move the words of the others.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> codes = np.array([0, 1, 1, 2, 2, 2])
    >>> tally_codes(p.randomizer, p.analyzer, codes, SeededWords(3)).counts
    array([1, 2, 3])
    """
    step = users_per_chunk(randomizer)
    total: Tally | None = None
    for start in range(0, len(codes), step):
        chosen = None if kept is None else kept[start : start + step]
        messages = encode_codes(randomizer, codes[start : start + step], rng, chosen)
        if messages is None:
            continue
        part = analyzer.tally(forget(messages))
        total = part if total is None else total + part
    return total


def encode_codes(
    randomizer: Randomizer, codes: Codes, rng: WordSource, kept: Bools | None = None
) -> Messages | None:
    """Return what the kept people (None: all) with these codes send; None if there are none.

    Real values are given by their places, and rounded here.

    >>> from shuffledp import SeededWords, protocols
    >>> krr = protocols.krr.KRR(k=4, epsilon0=3.0)
    >>> encode_codes(krr, np.array([0, 1]), SeededWords(7), np.array([False, True])).payload
    array([1])
    """
    width = tape_width(randomizer)
    words = rng.words(len(codes) * width, randomizer.word_bits).reshape(len(codes), width)
    if kept is not None:
        codes, words = codes[kept], words[kept]
    return encode_places(randomizer, codes, words) if len(codes) else None


def users_per_chunk(randomizer: Randomizer) -> int:
    """Return how many users' words are drawn at once.

    >>> from shuffledp import protocols
    >>> users_per_chunk(protocols.krr.KRR(k=4, epsilon0=3.0))
    131072
    """
    user_bytes = -(-randomizer.word_bits // 8) * tape_width(randomizer)
    fitting = _CHUNK_BYTES // user_bytes
    # Long tapes: a few hundred users are too few to be worth a NumPy call, so spend some memory.
    return max(1, fitting, min(_FEW_USERS, 8 * _CHUNK_BYTES // user_bytes))


class Tapes:
    """Word sources for workers that each take some rows: user r reads the same words in every engine.

    Without a seed every worker has a secure source of its own. With one, row r reads the words
    r * width and following of the seed's stream, whatever the chunks and their order.

    >>> from shuffledp import protocols
    >>> rr = protocols.rr.make_local(epsilon=1.0).randomizer
    >>> Tapes.of(rr, SeededWords(7)).at(1).words(1)
    array([6715552757042428571], dtype=uint64)
    """

    __slots__ = ("_local", "_rng", "_width", "bits")

    def __init__(self, rng: WordSource | None, *, width: int, bits: int) -> None:
        if rng is not None and not isinstance(rng, SecureWords | SeededWords):
            raise ParameterError("rng", rng, "must be SecureWords or SeededWords")
        self.bits = bits
        self._width = width
        self._rng = rng
        self._local = threading.local()

    @classmethod
    def of(cls, randomizer: Randomizer, rng: WordSource | None) -> "Tapes":
        """Return the words of people with that randomizer."""
        return cls(rng, width=tape_width(randomizer), bits=randomizer.word_bits)

    def at(self, row: int) -> WordSource:
        """Return the words of the user in that row (counted from 0)."""
        if isinstance(self._rng, SeededWords):
            return self._rng.ahead(row * self._width, self.bits)
        if "source" not in self._local.__dict__:
            self._local.source = SecureWords()
        source: SecureWords = self._local.source
        return source

    def finish(self, rows: int) -> None:
        """Leave a seeded source where one reader of all these rows would have left it."""
        if isinstance(self._rng, SeededWords):
            self._rng.skip(rows * self._width, self.bits)


IMPORTS = "start and imports"  # stages of a run
OPENING = "opening files"
GROUPING = "reading and grouping"  # one query does both
CALIBRATION = "calibration"
DEALING = "dealing"
ESTIMATION = "estimation"
DISPLAY = "display"

_watched: ContextVar[dict[str, float] | None] = ContextVar("watched", default=None)


@contextmanager
def watch() -> Iterator[dict[str, float]]:
    """Collect the seconds of all stages that end in this block.

    >>> with watch() as seconds:
    ...     with timed(DEALING):
    ...         pass
    ...     with timed(DEALING):
    ...         pass
    >>> list(seconds), seconds[DEALING] < 1
    (['dealing'], True)
    """
    seconds: dict[str, float] = {}
    token = _watched.set(seconds)
    try:
        yield seconds
    finally:
        _watched.reset(token)


def timed(name: str) -> AbstractContextManager[None]:
    """Add up the seconds of a stage of a run, but only inside `watch`."""
    seconds = _watched.get()
    return nullcontext() if seconds is None else _time(name, seconds)


@contextmanager
def _time(name: str, seconds: dict[str, float]) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
