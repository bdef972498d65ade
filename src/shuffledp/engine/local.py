"""A protocol on values in memory, and the engines of this machine: for columns that fit there, and for files of any size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.analyzer import Estimate, Tally
from shuffledp.core.arrays import keep_freed_memory
from shuffledp.core.domain import Domain, Reals, column
from shuffledp.core.errors import (
    DataError,
    MismatchError,
    ParameterError,
    PositionError,
)
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource, forget, randomize
from shuffledp.engine.chunks import (
    CodeCounts,
    Headcount,
    Job,
    Rounding,
    Tallied,
    Tapes,
    count_users,
    tally_codes,
    users_per_chunk,
    work_on_chunks,
)
from shuffledp.engine.codes import Coded
from shuffledp.engine.columns import Column, Group, group_sets
from shuffledp.engine.groups import (
    are_grouped,
    count_by_chunk,
    count_by_query,
    count_values,
    deal_codes,
    is_counted,
    tally_counts,
)
from shuffledp.engine.queries import thread_count
from shuffledp.engine.reducing import Reduced, Reduction, reduce_here
from shuffledp.numerics.entropy import SecureWords


def run(
    protocol: ShuffleProtocol,
    values: ArrayLike,
    rng: WordSource | None = None,
    *,
    domain: Domain | None = None,
) -> Estimate:
    """Return the estimate that a protocol makes of a column; secure words unless a source is given.

    The people with each code are counted, and the tally of their messages is dealt: drawn with exactly the
    law that it would have if everybody's device sent its messages. `sdp.randomize` makes the messages.

    The column may be a list, or one of NumPy, pandas, Polars or PyArrow. `domain` gives the names of
    the categories, if the column holds those and not their codes.

    Refuses fewer values than the guarantee counts honest users: their noise would not suffice.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> run(p, [0, 1, 1, 2, 2, 2], SeededWords(3)).value.round(2)
    array([0.98, 2.  , 3.02])
    >>> from shuffledp import Categories
    >>> pets = Categories(k=3, names=("bird", "cat", "dog"))
    >>> run(p, ["bird", "cat", "cat", "dog"], domain=pets).labels
    ('bird', 'cat', 'dog')
    """
    if not isinstance(protocol, ShuffleProtocol):
        raise ParameterError(
            "protocol", protocol, "must be a protocol, such as sdp.count(...) makes"
        )
    source = SecureWords() if rng is None else rng
    declared = protocol.match_domain(domain)
    own = declared == protocol.randomizer.domain
    whole = column(values) if own else declared.codes(values)
    protocol.check_users(len(whole))
    return protocol.analyzer.estimate(tally(protocol, whole, source)).label(declared)


def run_counts(
    protocol: ShuffleProtocol, counts: ArrayLike, rng: WordSource | None = None
) -> Estimate:
    """Return the estimate for counts[x] people of code x: what `run` makes of their column, without the column.

    The tally is dealt, exactly with the law of everybody's messages, so a billion people take
    milliseconds. The result has the guarantee of the protocol; `counts` itself is as secret as the data.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> run_counts(p, [10**8, 10**9, 10**7], SeededWords(3)).value.shape
    (3,)
    """
    inputs = np.asarray(counts)
    size = protocol.randomizer.domain.size
    if inputs.shape != (size,):
        raise MismatchError(f"counts of shape {inputs.shape} for a domain of {size} values")
    if inputs.dtype.kind not in "iu" or int(inputs.min()) < 0 or int(inputs.sum()) < 1:
        raise DataError("counts must be integers >= 0, and not all 0")
    source = SecureWords() if rng is None else rng
    return protocol.analyzer.estimate(tally_counts(protocol, inputs.astype(np.int64), source))


def tally(protocol: ShuffleProtocol, values: ArrayLike, rng: WordSource) -> Tally:
    """Group a column by code and deal the tally; where that cannot be, run everybody's device.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> tally(p, [0, 1, 1, 2, 2, 2], SeededWords(3)).users
    6
    """
    device = protocol.offers.stream
    if device is not None:
        codes = protocol.randomizer.domain.codes(values)
        dealt = deal_codes(device, [codes], rng)
        assert dealt is not None
        return dealt
    if not are_grouped(protocol):
        return tally_each(protocol, values, rng)
    return tally_counts(protocol, count_values(protocol.randomizer, column(values), rng), rng)


def tally_each(protocol: ShuffleProtocol, values: ArrayLike, rng: WordSource) -> Tally:
    """Run everybody's device, row by row, without ever holding more than a chunk of tape.

    `tally` has the same law, as tests prove by enumeration.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> tally_each(p, [0, 1, 1, 2, 2, 2], SeededWords(3)).counts
    array([1, 2, 3])
    """
    whole = column(values)
    keep_freed_memory()
    step = users_per_chunk(protocol.randomizer)
    total = _tally_part(protocol, whole, 0, step, rng)
    for start in range(step, len(whole), step):
        total += _tally_part(protocol, whole, start, step, rng)
    return total


def _tally_part(
    protocol: ShuffleProtocol, whole: NDArray[Any], start: int, step: int, rng: WordSource
) -> Tally:
    try:
        messages = randomize(protocol.randomizer, whole[start : start + step], rng)
    except PositionError as error:
        raise error.move(start) from None
    return protocol.analyzer.tally(forget(messages))


def tally_chunks(
    job: Job, protocol: ShuffleProtocol, rng: WordSource | None, threads: int | None
) -> Tallied:
    """Run everybody's device, chunk by chunk, in this many threads (None: all of the machine's)."""
    keep_freed_memory()
    randomizer, analyzer = protocol.randomizer, protocol.analyzer
    tapes = Tapes.of(randomizer, rng)

    def tally_some(row: int, some: Coded) -> Tally | None:
        return tally_codes(randomizer, analyzer, some.codes, tapes.at(row), some.kept)

    total: Tally | None = None
    with work_on_chunks(tally_some, job, threads) as parts:
        for part in parts:
            if part is not None:
                total = part if total is None else total + part
    if total is None:
        raise job.nobody()
    tapes.finish(parts.rows)
    return Tallied(tally=total, rows=parts.rows, invalid=parts.invalid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Counts and randomizes with NumPy on one thread."""

    name: ClassVar[str] = "memory"
    about: ClassVar[str] = "columns that fit in memory, on one thread"
    local: ClassVar[bool] = True
    threads: ClassVar[int] = 1

    def headcount(self, job: Job) -> Headcount:
        return count_users(job, self.threads)

    def counts(self, job: Job, rounding: Rounding | None = None) -> CodeCounts:
        return count_by_chunk(job, self.threads, rounding)

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Tallied:
        return tally_chunks(job, protocol, rng, self.threads)

    def reduce(self, reduction: Reduction) -> Reduced:
        return reduce_here(reduction, self.threads)

    def group(self, sets: Sequence[tuple[Column, ...]]) -> Iterator[Group] | None:
        return group_sets(sets, self.threads)


_MANY_CODES = (
    1 << 12
)  # of whole numbers, from which counters are faster than a hash table of values


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckDB:
    """Streams a column of any size through memory of constant size.

    One query groups the column by value. Real values, and numbers with many different values, are coded in chunks of
    a hundred thousand rows, by a pool of threads; nothing of a chunk is left when its codes have been counted.
    """

    threads: int | None = None
    """How many threads; None: all of the machine's."""

    name: ClassVar[str] = "duckdb"
    about: ClassVar[str] = "files of any size on this machine"
    local: ClassVar[bool] = True

    def __post_init__(self) -> None:
        thread_count(self.threads)

    def headcount(self, job: Job) -> Headcount:
        return count_users(job, self.threads)

    def counts(self, job: Job, rounding: Rounding | None = None) -> CodeCounts:
        domain = job.coder.domain
        if job.read is not None or isinstance(domain, Reals) or is_counted(job.column, domain):
            return count_by_chunk(job, self.threads, rounding)
        return count_by_query(job, self.threads)

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Tallied:
        return tally_chunks(job, protocol, rng, self.threads)

    def reduce(self, reduction: Reduction) -> Reduced:
        return reduce_here(reduction, self.threads)

    def group(self, sets: Sequence[tuple[Column, ...]]) -> Iterator[Group] | None:
        return group_sets(sets, self.threads)
