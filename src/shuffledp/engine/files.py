"""A protocol on a column of a file or a frame, by any engine.

    column = open_column("people.parquet", "country")      # or 'data/*.csv', or several paths
    domain = Categories(k=3, names=("ch", "de", "other"))   # public: declared, not read
    found = headcount(column, domain, "other")              # how many users there are: n
    protocol = histogram(n=found.n, k=3, epsilon=1.0, delta=1e-8)
    result = run_file(protocol, column, domain=domain, on_invalid="other", found=found)
    result.estimate, result.n, result.invalid

`engine` is the name of one of `ENGINES`, or an engine with options of its own: `DuckDB(threads=4)`,
`Spark(master="local[4]")`. `report` is called with a `Progress` while rows are read.

A mechanism may take the place of the protocol: then this machine is a trusted curator, which adds up the column
exactly and releases one noisy answer. Integers, bits and categories are grouped by code. Real values are places, whole
multiples of 2^-42 of the range, and places are added up as integers, so one person moves the exact answer by what the
mechanism's sensitivity says, and no rounding of floats comes in between.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from shuffledp.core.analyzer import Estimate, Tally
from shuffledp.core.arrays import Codes, Counts
from shuffledp.core.capabilities import Stream
from shuffledp.core.domain import PLACE_BITS, Bits, Cells, Domain, Integers, Reals, rounding_words
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import Mechanism, ShuffleProtocol
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Task
from shuffledp.core.texts import Keys, Texts
from shuffledp.core.validate import level as valid_level
from shuffledp.engine.chunks import (
    DEALING,
    ESTIMATION,
    GROUPING,
    CodeCounts,
    Engine,
    Headcount,
    Job,
    Pass,
    Progress,
    Report,
    Rounding,
    Tallied,
    add_invalid,
    timed,
    work_on_chunks,
)
from shuffledp.engine.codes import Coded, Coder, OnInvalid
from shuffledp.engine.columns import Column, group_values
from shuffledp.engine.local import (
    DuckDB,
    Memory,
    add_groups,
    are_grouped,
    as_integers,
    code_groups,
    deal_codes,
    deal_groups,
    find_row,
    group_codes,
    is_listable,
    refuse_value,
    tally_counts,
)
from shuffledp.engine.spark import Spark
from shuffledp.engine.values import MISSING, find_missing, flatten, read_missing
from shuffledp.numerics.entropy import SecureWords, SeededWords

ENGINES: Mapping[str, type[Engine]] = MappingProxyType(
    {engine.name: engine for engine in (DuckDB, Memory, Spark)}
)
"""The engines by name; to add one, implement `Engine` and put it here."""


def find_engine(engine: Engine | str, **options: Any) -> Engine:
    """Return the engine of that name with these options; None stands for an option that is not given.

    >>> find_engine("duckdb", threads=2, master=None)
    DuckDB(threads=2)
    >>> find_engine("duckdb", master="local[2]")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: master='local[2]' is not an option of the duckdb engine
    >>> find_engine("abacus")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: engine='abacus' must be one of duckdb, memory, ...
    """
    if not isinstance(engine, str):
        return engine
    if engine not in ENGINES:
        raise ParameterError("engine", engine, f"must be one of {', '.join(ENGINES)}")
    made = ENGINES[engine]
    given = {name: value for name, value in options.items() if value is not None}
    own = {each.name for each in fields(made)}  # type: ignore[arg-type]
    for name in given.keys() - own:
        raise ParameterError(name, given[name], f"is not an option of the {engine} engine")
    return made(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRun:
    """The outcome of a run on a column: the tally and the estimate, and what was read."""

    tally: Tally
    estimate: Estimate
    n: int
    """How many users took part: the valid rows."""
    rows: int
    invalid: dict[str, int]
    """How many values were invalid, by reason: null, unknown, out_of_range, nan. Not private."""
    engine: str
    dealt: bool
    """Whether the tally was dealt; if not, everybody's device made messages."""


def headcount(
    column: Column,
    domain: Domain,
    on_invalid: OnInvalid | Mapping[str, str] | str = OnInvalid.ERROR,
    *,
    engine: Engine | str = "duckdb",
    report: Report | None = None,
) -> Headcount:
    """Count the users of a column under a policy, and its invalid values.

    Protocols are calibrated for n, so n must be known first. If every value must be valid and the
    files say how many rows they have, nothing is read here: the run itself will check.

    >>> from shuffledp import Categories
    >>> from shuffledp.engine import take_column
    >>> found = headcount(take_column(["cat", None, "cow"]), Categories(k=2, names=("cat", "dog")), "drop")
    >>> found.n, found.invalid
    (1, {'null': 1, 'unknown': 1, 'out_of_range': 0, 'nan': 0})
    """
    coder = _make_coder(column, domain, OnInvalid.read(on_invalid))
    chosen = find_engine(engine)
    if not coder.on_invalid.drops and column.rows:
        # Every row is a user, or the run stops at the one that is not.
        return Headcount(n=column.rows, rows=column.rows, invalid=None)
    job = Job(column=column, coder=coder, report=report)
    counted = _group_once(chosen, job) if _is_groupable(coder.domain) else chosen.headcount(job)
    if counted.n == 0:
        raise job.nobody()
    return counted


def group_early(
    column: Column,
    domain: Domain,
    on_invalid: OnInvalid = OnInvalid.ERROR,
    *,
    engine: Engine | str = "duckdb",
    groups: Iterable[tuple[Any, Any]] | None = None,
) -> Headcount | None:
    """Read and group a column before its protocol is known, for `run_file`; None if that cannot be.

    `groups` are its values and how often each occurs, if it was grouped by value already.

    >>> from shuffledp import Bits
    >>> from shuffledp.engine import take_column
    >>> group_early(take_column([True, False, True]), Bits(), engine="memory").n
    3
    """
    coder = _make_coder(column, domain, on_invalid)
    if not _is_groupable(coder.domain):
        return None
    chosen, job = find_engine(engine), Job(column=column, coder=coder)
    if groups is None:
        return _group_once(chosen, job)
    return _head(job, add_groups(job, groups, find_row if chosen.local else refuse_value))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodedColumn:
    """Everybody's code, in the order of the rows. As secret as the data, so it does not show them."""

    codes: Codes = field(repr=False)
    rows: int
    invalid: dict[str, int] = field(repr=False)
    """How many values were invalid, by reason: null, unknown, out_of_range, nan. Not private."""


def read_codes(
    column: Column,
    domain: Domain,
    on_invalid: OnInvalid | Mapping[str, str] | str = OnInvalid.ERROR,
    *,
    threads: int | None = None,
    report: Report | None = None,
) -> CodedColumn:
    """Read everybody's code, for uses that need people one by one; people who are dropped are left out.

    >>> from shuffledp import Categories
    >>> from shuffledp.engine import take_column
    >>> pets = Categories(k=2, names=("cat", "dog"))
    >>> found = read_codes(take_column(["dog", "cow", "cat"]), pets, "drop")
    >>> found.codes, found.rows, found.invalid["unknown"]
    (array([1, 0]), 3, 1)
    """
    coder = _make_coder(column, domain, OnInvalid.read(on_invalid))
    job = Job(column=column, coder=coder, report=report)
    with work_on_chunks(lambda _, some: some.codes[some.valid], job, threads) as parts:
        codes = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    parts.require_people()
    return CodedColumn(codes=codes, rows=parts.rows, invalid=parts.invalid)


def _make_coder(column: Column, domain: Domain, on_invalid: OnInvalid) -> Coder:
    whole = re.fullmatch(r"u?int\d+", column.type) is not None
    read = as_integers(domain) if whole else domain
    return Coder(domain=read, on_invalid=on_invalid, moments=column.moments)


def _is_groupable(domain: Domain) -> bool:
    """Return whether a column of it can be grouped before its protocol is known: reals have no grid yet."""
    return is_listable(domain) and not rounding_words(domain)


def _group_once(engine: Engine, job: Job) -> Headcount:
    """Make one pass for the headcount, the invalid values and the tally, which is dealt from the groups later."""
    return _head(job, engine.counts(job))


def _head(job: Job, groups: CodeCounts) -> Headcount:
    done = replace(job, groups=groups)
    return Headcount(n=groups.n, rows=groups.rows, invalid=groups.invalid, job=done)


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
    """Run a protocol on a column and return tally and estimate; words are secure unless a seed is given.

    The column is grouped by code, and the tally dealt: drawn with exactly the law that everybody's messages
    would have. So the guarantee is that of the protocol. A protocol that cannot deal has everybody's device
    run, in the order of codes.

    `domain` gives the names of the categories; without it values are what the protocol's own domain
    says. Refuses fewer users than the guarantee counts on. The same `SeededWords` give the same tally in
    every engine. `found` is what `headcount` said about this column: what it grouped is not read again.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from shuffledp import Categories, SeededWords, open_column, protocols
    >>> pets = Categories(k=3, names=("bird", "cat", "dog"))
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "pets.csv")
    ...     _ = path.write_text("pet,owner\\nbird,1\\ncat,2\\ncat,3\\ndog,4\\ndog,5\\ndog,6\\n")
    ...     result = run_file(p, open_column(path, "pet"), domain=pets, rng=SeededWords(3))
    >>> result.n, result.dealt, result.estimate.labels
    (6, True, ('bird', 'cat', 'dog'))
    """
    declared = protocol.match_domain(domain)
    coder = _make_coder(column, declared, OnInvalid.read(on_invalid))
    chosen = find_engine(engine)
    if column.rows is not None:
        protocol.check_users(column.rows)
    job = Job.of(column, coder, report, found)
    grouped = are_grouped(protocol)
    streamed = not grouped and _is_streamed(protocol, chosen, column)
    if grouped:
        counted = _deal(protocol, chosen, job, rng)
    elif streamed:
        counted = _stream(protocol, chosen, job, rng)
        protocol.check_users(counted.tally.users)
    else:
        with timed(DEALING):
            counted = chosen.tally(job, protocol, rng)
        protocol.check_users(counted.tally.users)
    with timed(ESTIMATION):
        estimate = _estimate(protocol, counted.tally, report).label(declared)
    return FileRun(
        tally=counted.tally,
        estimate=estimate,
        n=protocol.count_people(counted.tally.users),
        rows=counted.rows,
        invalid=counted.invalid,
        engine=chosen.name,
        dealt=protocol.dealt and (grouped or streamed),
    )


def _estimate(protocol: ShuffleProtocol, tally: Tally, report: Report | None) -> Estimate:
    """Return the estimate, with progress where it takes long and somebody wants to know."""
    stepwise = protocol.offers.estimate_stepwise
    if report is None or stepwise is None:
        return protocol.analyzer.estimate(tally)

    def step(part: float) -> None:
        done = math.floor(100 * part)
        report(Progress(rows=done, total_rows=100, total_bytes=0, estimating=True))

    return stepwise(tally, step)


def _stream(protocol: ShuffleProtocol, engine: Engine, job: Job, rng: WordSource | None) -> Tallied:
    """Deal words, which nobody can list, chunk by chunk: what is held is the tally, however many there are.

    An engine that reads elsewhere groups them by text there, and what it finds is dealt.
    """
    device = protocol.offers.stream
    assert device is not None
    source = SecureWords() if rng is None else rng
    if not engine.local and not job.column.reduced:
        return _stream_groups(device, engine, job, source)
    with (
        timed(DEALING),
        work_on_chunks(lambda _, some: some.codes[some.valid], job, engine.threads) as parts,
    ):
        tally = deal_codes(device, parts, source)
    if tally is None:
        raise job.nobody()
    return Tallied(tally=tally, rows=parts.rows, invalid=parts.invalid)


def _stream_groups(device: Stream, engine: Engine, job: Job, source: WordSource) -> Tallied:
    rows, invalid, groups = 0, add_invalid(()), []
    with timed(GROUPING):
        grouped = engine.group([(job.column,)]) or ()
        values = ((value, times) for _, (value,), times in grouped)
        for some, times in code_groups(job, values, refuse_value):
            groups.append((some.codes[some.valid].astype(np.uint64), times[some.valid]))
            rows += int(times.sum())
            invalid = add_invalid((invalid, some.invalid(times)))
    with timed(DEALING):
        tally = deal_groups(device, groups, source)
    if tally is None or tally.users == 0:
        raise job.nobody()
    return Tallied(tally=tally, rows=rows, invalid=invalid)


def _is_streamed(protocol: ShuffleProtocol, engine: Engine, column: Column) -> bool:
    """Return whether the tally is dealt from texts: an engine that reads elsewhere does not group filtered ones."""
    here = engine.local or column.reduced
    return protocol.offers.stream is not None and (here or column.where is None)


def _deal(protocol: ShuffleProtocol, engine: Engine, job: Job, rng: WordSource | None) -> Tallied:
    if rng is not None and not isinstance(rng, SecureWords | SeededWords):
        raise ParameterError("rng", rng, "must be SecureWords or SeededWords")
    real = rounding_words(job.coder.domain) > 0
    rounding = Rounding(rng=rng, bits=protocol.randomizer.word_bits) if real else None
    with timed(GROUPING):
        groups = job.groups or engine.counts(job, rounding)
    if groups.n == 0:
        raise job.nobody()
    protocol.check_users(groups.n)
    source = SecureWords() if rng is None else rng
    with timed(DEALING):
        tally = tally_counts(protocol, groups.counts, source, engine.threads)
    return Tallied(tally=tally, rows=groups.rows, invalid=groups.invalid)


_HALF = PLACE_BITS // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The outcome of a curator's run on a column."""

    estimate: Estimate
    n: int
    rows: int
    invalid: dict[str, int]


def release_column(
    mechanism: Mechanism,
    task: Task,
    column: Column,
    *,
    engine: Engine,
    on_invalid: OnInvalid = OnInvalid.ERROR,
    rng: WordSource | None = None,
    report: Report | None = None,
    found: Headcount | None = None,
) -> Released:
    """Answer the task about the column exactly, and release that answer once, with secure words.

    >>> from shuffledp import Bits, SeededWords, mechanisms, tasks
    >>> from shuffledp.engine import find_engine, take_column
    >>> count, people = tasks.Count(domain=Bits()), take_column([True, False] * 500)
    >>> geometric = mechanisms.geometric.make(epsilon=1.0, sensitivity=1)
    >>> release_column(geometric, count, people, engine=find_engine("memory"), rng=SeededWords(1)).estimate.value
    499.0
    """
    coder = Coder(domain=task.domain, on_invalid=on_invalid)
    job = Job.of(column, coder, report, found)
    source = SecureWords() if rng is None else rng
    if isinstance(task.domain, Reals):
        total, seen = _add_places(job, task.domain)
        return _report(_release(mechanism, task, total, seen.n, source), seen)
    if isinstance(task.domain, Texts | Keys):
        return _release_words(mechanism, task.domain, job, source)
    groups = job.groups or engine.counts(job)
    if groups.n == 0:
        raise job.nobody()
    return _report(release_counts(mechanism, task, groups.counts, source), groups)


def _report(estimate: Estimate, seen: Pass[Any] | CodeCounts) -> Released:
    return Released(estimate=estimate, n=seen.n, rows=seen.rows, invalid=seen.invalid)


def _release_words(
    mechanism: Mechanism, domain: Texts | Keys, job: Job, rng: WordSource
) -> Released:
    """Return the words that a curator who counts them all may publish, the most frequent first."""
    total: Counter[int] = Counter()
    with work_on_chunks(lambda _, some: group_codes(some.codes[some.valid]), job, None) as parts:
        for codes, times in parts:
            total.update(dict(zip(codes.tolist(), times.tolist(), strict=True)))
    parts.require_people()
    words = domain.spell(np.array(list(total), dtype=np.uint64))
    counts = {str(word): count for word, count in zip(words, total.values(), strict=True)}
    released = mechanism.release(counts, rng)
    order = np.argsort(-np.asarray(released.value), kind="stable")
    assert released.labels is not None
    sorted_ = replace(
        released,
        value=np.asarray(released.value)[order],
        labels=tuple(released.labels[place] for place in order),
    )
    return _report(sorted_, parts)


def release_counts(mechanism: Mechanism, task: Task, counts: Counts, rng: WordSource) -> Estimate:
    """Return the answer about counts[x] people of each code x, with noise.

    >>> from shuffledp import Integers, SeededWords, mechanisms, tasks
    >>> ages = tasks.Sum(domain=Integers(lower=10, upper=12))
    >>> geometric = mechanisms.geometric.make(epsilon=100.0, sensitivity=2)
    >>> release_counts(geometric, ages, np.array([1, 0, 4]), SeededWords(1)).value
    58.0
    """
    from shuffledp.numerics.leaves import TASKS

    n = int(counts.sum())
    if isinstance(task.domain, Cells | Integers) and task.name in TASKS:
        return mechanism.release(counts, rng)  # it knows the question
    if task.bins:
        return _name_bins(mechanism.release(counts, rng), task.domain, n)
    return _release(mechanism, task, _add_values(task.domain, counts), n, rng)


def _add_values(domain: Domain, counts: Counts) -> Fraction:
    """Return the exact sum of everybody's values."""
    if not isinstance(domain, Bits | Integers):
        raise UnsupportedError(f"{domain} cannot be added up")
    lower = domain.lower if isinstance(domain, Integers) else 0
    seen = np.flatnonzero(counts)
    pairs = zip(seen.tolist(), counts[seen].tolist(), strict=True)
    return Fraction(sum((lower + code) * count for code, count in pairs))


def _add_places(job: Job, domain: Reals) -> tuple[Fraction, Pass[int]]:
    """Return the exact sum of everybody's places as values, and what was read."""

    def add(_: int, some: Coded) -> int:
        kept = some.codes if some.kept is None else some.codes[some.kept]
        # In two halves, so that no number of rows overflows.
        high, low = kept >> _HALF, kept & ((1 << _HALF) - 1)
        return (int(high.sum(dtype=np.int64)) << _HALF) + int(low.sum(dtype=np.int64))

    with work_on_chunks(add, job, None) as parts:
        places = sum(parts)
    parts.require_people()
    lower, upper = Fraction(domain.lower), Fraction(domain.upper)
    return parts.n * lower + (upper - lower) * Fraction(places, 1 << PLACE_BITS), parts


def _release(
    mechanism: Mechanism, task: Task, total: Fraction, n: int, rng: WordSource
) -> Estimate:
    """Release one number, with the limits that are publicly known."""
    exact: Any = total / task.scale(n)
    if exact.denominator == 1:
        exact = int(exact)
    people = Fraction(n, task.scale(n))
    lower, upper = (task.domain.values(np.array([code]))[0] for code in (0, task.domain.size - 1))
    limits = (float(people * Fraction(lower)), float(people * Fraction(upper)))
    return replace(mechanism.release(exact, rng), limits=limits)


def _name_bins(estimate: Estimate, domain: Domain, n: int) -> Estimate:
    """Return the estimate with the names of its bins: all of them, or those that were published."""
    names = domain.labels
    if estimate.labels is not None:
        names = tuple(names[int(place)] for place in estimate.labels)
    return replace(estimate, labels=names, limits=(0.0, float(n)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequencies:
    """How many people have the most frequent value, the second most frequent, and so on, without the values."""

    values: tuple[int, ...]
    """Without the zeros at the end."""
    n: int
    guarantee: Guarantee
    estimate: Estimate
    """The same numbers with their errors and intervals."""
    level: float
    certain: int
    """How many of the values surely exist, with confidence `level`: the places behind them may be noise alone."""


def release_frequencies(
    column: Column,
    *,
    epsilon: float,
    missing: Sequence[str] | str | None = None,
    level: float = 0.95,
    rng: WordSource | None = None,
    threads: int | None = None,
) -> Frequencies:
    """Release how often values occur, the most frequent first. A missing value counts as a value like any other.

    >>> from shuffledp import SeededWords
    >>> from shuffledp.engine import take_column
    >>> pets = take_column(["cat"] * 500 + ["dog"] * 300)
    >>> found = release_frequencies(pets, epsilon=5.0, rng=SeededWords(1))
    >>> found.values, found.certain
    ((500, 301), 2)
    """
    from shuffledp.mechanisms.frequency_list import FrequencyList

    valid_level(level)
    counted: Counter[Any] = Counter()
    spelt = MISSING if missing is None else read_missing(missing)
    for chunk, times in group_values(column, threads):
        values = flatten(chunk)
        rows = zip(values.to_pylist(), find_missing(values, spelt), times.to_pylist(), strict=True)
        for value, gone, often in rows:
            counted[None if gone else value] += often
    n = counted.total()
    if n == 0:
        raise DataError(f"column {column.name!r} has no rows")
    mechanism = FrequencyList(n=n, epsilon=epsilon)
    released = mechanism.release(list(counted.values()), SecureWords() if rng is None else rng)
    return Frequencies(
        values=tuple(released[released > 0].tolist()),
        n=n,
        guarantee=mechanism.guarantee,
        estimate=mechanism.estimate(released),
        level=level,
        certain=mechanism.count_certain(released, level),
    )
