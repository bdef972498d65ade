"""The engine for files of any size on this machine: DuckDB reads and groups them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from shuffledp.core.domain import Reals
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.chunks import CodeCounts, Headcount, Job, Rounding, Tallied, count_users
from shuffledp.engine.columns import Column, Group, group_sets
from shuffledp.engine.groups import count_by_chunk, count_by_query, is_counted
from shuffledp.engine.local import tally_chunks
from shuffledp.engine.queries import thread_count
from shuffledp.engine.reducing import Reduced, Reduction, reduce_here

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
