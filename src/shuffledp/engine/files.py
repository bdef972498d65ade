"""A protocol on a column, and the engines of this machine.

    column = open_column("people.parquet", "country")      # or 'data/*.csv', or several paths
    domain = Categories(k=3, names=("ch", "de", "other"))   # public: declared, not read
    found = headcount(column, domain, "other")              # how many users there are: n
    protocol = histogram(n=found.n, k=3, epsilon=1.0, delta=1e-8)
    result = run_file(protocol, column, domain=domain, on_invalid="other", found=found)
    result.estimate, result.n, result.invalid

`engine` is the name of one of `ENGINES`, or an engine with options of its own: `DuckDB(threads=4)`,
`Spark(master="local[4]")`. `report` is called with a `Progress` while rows are read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes
from shuffledp.core.arrays import Counts as Counted
from shuffledp.core.domain import PLACE_BITS, Domain, Reals
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.chunks import (
    CodeCounts,
    Engine,
    Headcount,
    Job,
    Report,
    Tallied,
    Tapes,
    add_invalid,
    count_users,
    keep_freed_memory,
    tally_codes,
    work_on_chunks,
)
from shuffledp.engine.codes import Coded, Coder, OnInvalid, as_numpy
from shuffledp.engine.columns import Column, group_values, thread_count
from shuffledp.engine.memory import simulate
from shuffledp.engine.spark import Spark
from shuffledp.numerics.dealing import binomials
from shuffledp.numerics.entropy import SecureWords

__all__ = [
    "ENGINES",
    "Counts",
    "DuckDB",
    "FileRun",
    "Memory",
    "find_engine",
    "headcount",
    "run_file",
]

_MOST_VALUES = 1 << 27  # a gigabyte of counts


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckDB:
    """Streams a column of any size through memory of constant size.

    Each thread of a pool turns chunks of a hundred thousand rows into codes, randomizes and tallies
    them. Nothing of a chunk is left when its tally has been added.
    """

    threads: int | None = None
    """How many threads; None: all of the machine's."""

    name: ClassVar[str] = "duckdb"
    about: ClassVar[str] = "files of any size on this machine"
    private: ClassVar[bool] = True

    def __post_init__(self) -> None:
        thread_count(self.threads)

    def headcount(self, job: Job) -> Headcount:
        return count_users(job, self.threads)

    def counts(self, job: Job) -> CodeCounts:
        return _count_codes(job, self.threads)

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Tallied:
        keep_freed_memory()
        randomizer, analyzer = protocol.randomizer, protocol.analyzer
        tapes = Tapes(randomizer, rng)

        def tally(row: int, some: Coded) -> Tally | None:
            return tally_codes(randomizer, analyzer, some.codes, tapes.at(row), some.kept)

        rows, invalid = 0, add_invalid(())
        total: Tally | None = None
        with work_on_chunks(tally, job, self.threads) as parts:
            for some, part in parts:
                rows += len(some.codes)
                invalid = add_invalid((invalid, some.invalid()))
                if part is not None:
                    total = part if total is None else total + part
        if total is None:
            raise job.nobody()
        tapes.finish(rows)
        return Tallied(tally=total, rows=rows, invalid=invalid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Reads the whole column first, then randomizes it on one thread."""

    name: ClassVar[str] = "memory"
    about: ClassVar[str] = "columns that fit in memory, on one thread"
    private: ClassVar[bool] = True

    def headcount(self, job: Job) -> Headcount:
        return count_users(job, threads=1)

    def counts(self, job: Job) -> CodeCounts:
        return _count_codes(job, threads=1)

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Tallied:
        with work_on_chunks(lambda *_: None, job, threads=1) as found:
            parts = [some for some, _ in found]
        tapes = Tapes(protocol.randomizer, rng)
        keep_freed_memory()
        codes = np.concatenate([part.codes for part in parts] or [np.empty(0, dtype=np.int64)])
        valid = np.concatenate([part.valid for part in parts] or [np.empty(0, dtype=np.bool_)])
        kept = None if valid.all() else valid
        total = tally_codes(protocol.randomizer, protocol.analyzer, codes, tapes.at(0), kept)
        if total is None:
            raise job.nobody()
        tapes.finish(len(codes))
        invalid = add_invalid(part.invalid() for part in parts)
        return Tallied(tally=total, rows=len(codes), invalid=invalid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts the values with a group-by, then draws the tally from its law: no messages are made.

    A simulation by somebody who sees the exact counts; the guarantee does not cover its result.
    """

    threads: int | None = None

    name: ClassVar[str] = "counts"
    about: ClassVar[str] = "simulations, NOT private"
    private: ClassVar[bool] = False

    def headcount(self, job: Job) -> Headcount:
        return count_users(job, self.threads)

    def counts(self, job: Job) -> CodeCounts:
        return _count_codes(job, self.threads)

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Tallied:
        source = SecureWords() if rng is None else rng
        found = _count_codes(job, self.threads, source)
        if not found.counts.any():
            raise job.nobody()
        tally = simulate(protocol, found.counts, source)
        return Tallied(tally=tally, rows=found.rows, invalid=found.invalid)


def _count_codes(job: Job, threads: int | None, source: WordSource | None = None) -> CodeCounts:
    """Group by code. Real values are rounded to the nearest point, or at random if there is a source."""
    size = job.coder.domain.size
    if size > _MOST_VALUES:
        raise UnsupportedError(f"a domain of {size:,} values has too many values to count")
    counts = np.zeros(size, dtype=np.int64)
    rows, invalid = 0, add_invalid(())
    for values, column in group_values(job.column, threads):
        times = as_numpy(column)
        some = _code_groups(job, values)
        _add_groups(counts, job.coder, some.codes, np.where(some.valid, times, 0), source)
        rows += int(times.sum())
        invalid = add_invalid((invalid, some.invalid(times)))
        job.show(rows)
    return CodeCounts(counts=counts, rows=rows, invalid=invalid)


def _add_groups(
    counts: Counted, coder: Coder, codes: Codes, times: Counted, source: WordSource | None
) -> None:
    """Add times[i] people of each of these codes or places."""
    if source is None or not isinstance(coder.domain, Reals):
        np.add.at(counts, coder.nearest(codes), times)
        return
    # The people of one place are rounded independently: a binomial number of them go up.
    below, part = coder.domain.split(codes)
    ups = binomials(times, part.tolist(), PLACE_BITS, source)
    np.add.at(counts, below, times - ups)
    np.add.at(counts, below + (part > 0), ups)


def _code_groups(job: Job, values: object) -> Coded:
    try:
        return job.coder.codes(values)
    except DataError:
        count_users(
            job, threads=None
        )  # finds the row, which a group-by has forgotten, and names it
        raise


ENGINES: Mapping[str, type[Engine]] = MappingProxyType(
    {engine.name: engine for engine in (DuckDB, Memory, Spark, Counts)}
)
"""The engines by name; to add one, implement `Engine` and put it here."""


def find_engine(engine: Engine | str, **options: Any) -> Engine:
    """The engine of that name with these options; None stands for an option that is not given.

    >>> find_engine("duckdb", threads=2, master=None)
    DuckDB(threads=2)
    >>> find_engine("duckdb", master="local[2]")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: master='local[2]' is not an option of the duckdb engine
    >>> find_engine("abacus")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: engine='abacus' must be one of duckdb, memory, spark, counts
    """
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        raise ParameterError("engine", engine, f"must be one of {', '.join(ENGINES)}")
    made = ENGINES[engine]
    given = {name: value for name, value in options.items() if value is not None}
    own = {field.name for field in fields(made)}  # type: ignore[arg-type]
    for name in given.keys() - own:
        raise ParameterError(name, given[name], f"is not an option of the {engine} engine")
    return made(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRun:
    """What a run on a column gives: the tally and the estimate, and what was read."""

    tally: Tally
    estimate: Estimate
    n: int
    """How many users took part: the valid rows."""
    rows: int
    invalid: dict[str, int]
    """How many values were invalid, by reason: null, unknown, out_of_range, nan. Not private."""
    engine: str


def headcount(
    column: Column,
    domain: Domain,
    on_invalid: OnInvalid | Mapping[str, str] | str = OnInvalid.ERROR,
    *,
    engine: Engine | str = "duckdb",
    report: Report | None = None,
) -> Headcount:
    """How many users the column has under a policy, and how many values are invalid.

    Protocols are calibrated for n, so n must be known first. If every value must be valid and the
    files say how many rows they have, nothing is read here: the run itself will check.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from shuffledp import Categories, open_column
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("pet,owner\\ncat,1\\n,2\\ncow,3\\n")
    ...     pets = Categories(k=2, names=("cat", "dog"))
    ...     found = headcount(open_column(path, "pet"), pets, "drop")
    >>> found.n, found.invalid
    (1, {'null': 1, 'unknown': 1, 'out_of_range': 0, 'nan': 0})
    """
    coder = Coder(domain=domain, on_invalid=OnInvalid.read(on_invalid))
    chosen = find_engine(engine)
    if not coder.on_invalid.drops and column.rows:
        # Every row is a user, or the run stops at the one that is not.
        return Headcount(n=column.rows, rows=column.rows, invalid=None)
    job = Job(column=column, coder=coder, report=report)
    found = chosen.headcount(job)
    if found.n == 0:
        raise job.nobody()
    return found


def run_file(
    protocol: ShuffleProtocol,
    column: Column,
    *,
    domain: Domain | None = None,
    on_invalid: OnInvalid | Mapping[str, str] | str = OnInvalid.ERROR,
    engine: Engine | str = "duckdb",
    rng: WordSource | None = None,
    report: Report | None = None,
    found: Headcount | None = None,
) -> FileRun:
    """Randomize, shuffle, tally and estimate a column; secure words unless a seed is given.

    `domain` gives the names of the categories; without it values are what the protocol's own domain
    says. Refuses fewer users than the guarantee counts on. With `SeededWords`, row r has the same
    words in every engine, so all of them but "counts" give the same tally. `found` is what
    `headcount` said about this column: codes that it kept are not read again.

    The engine "counts" is not a private release: it sees the exact counts and draws the tally from
    its law with NumPy's floating-point samplers, which the proof of the guarantee does not cover.
    Use it to plan and to simulate.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from shuffledp import Categories, SeededWords, open_column, protocols
    >>> pets = Categories(k=3, names=("bird", "cat", "dog"))
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("pet,owner\\nbird,1\\ncat,2\\ncat,3\\ndog,4\\ndog,5\\ndog,6\\n")
    ...     result = run_file(p, open_column(path, "pet"), domain=pets, rng=SeededWords(3))
    >>> result.n, result.tally.counts, result.estimate.labels
    (6, array([1, 2, 3]), ('bird', 'cat', 'dog'))
    """
    declared = protocol.match_domain(domain)
    coder = Coder(domain=declared, on_invalid=OnInvalid.read(on_invalid))
    chosen = find_engine(engine)
    if column.rows is not None:
        protocol.check_users(column.rows)
    read = None if found is None else found.codes_of(column, coder)
    job = Job(column=column, coder=coder, report=report, read=read)
    counted = chosen.tally(job, protocol, rng)
    protocol.check_users(counted.tally.users)
    return FileRun(
        tally=counted.tally,
        estimate=protocol.analyzer.estimate(counted.tally).label(declared),
        n=counted.tally.users,
        rows=counted.rows,
        invalid=counted.invalid,
        engine=chosen.name,
    )
