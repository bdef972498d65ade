"""How every engine on one machine processes data: group by code, then deal.

A tally depends on the data only through the number of people with each code. So every engine groups the column
by code, and what follows is the same for all of them: the protocol deals the tally of that many people
(`core.capabilities`), exactly with the law that their messages would have. It is the protocol, with its guarantee; only
the messages are left out. A protocol that cannot deal lets everybody's device run, in the order of their codes.

Real values take one word per row to be rounded to the grid without bias; the codes of the grid are grouped. Two columns
become one of joint codes, person by person; where nothing is rounded at random, how many people have each pair is
enough, and engines group by both columns.

The number of people with each code, or pair, is as secret as the data: it is never shown, logged or written to disk.

There are two engines here: for columns that fit in memory, and for files of any size.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.analyzer import CodeCounter, Estimate, Tally, count_codes
from shuffledp.core.arrays import Bools, Codes, Counts, keep_freed_memory
from shuffledp.core.capabilities import Stream
from shuffledp.core.domain import (
    Answers,
    Bins,
    Cells,
    Domain,
    Integers,
    Reals,
    column,
    read_places,
    round_places,
    rounding_words,
)
from shuffledp.core.errors import (
    DataError,
    MismatchError,
    ParameterError,
    PositionError,
    tell_value,
)
from shuffledp.core.protocol import ShuffleProtocol
from shuffledp.core.randomizer import Randomizer, WordSource, forget, randomize
from shuffledp.core.texts import Keys, Spelt, Texts
from shuffledp.engine.chunks import (
    CodeCounts,
    Engine,
    Headcount,
    Job,
    Rounding,
    Tallied,
    Tapes,
    add_invalid,
    code_chunk,
    count_users,
    tally_codes,
    users_per_chunk,
    work_on_chunks,
)
from shuffledp.engine.codes import Coded, Coder, OnInvalid
from shuffledp.engine.columns import (
    Column,
    Group,
    TooManyGroupsError,
    group_sets,
    group_values,
    read_chunks,
)
from shuffledp.engine.formats import Format
from shuffledp.engine.queries import thread_count
from shuffledp.engine.reducing import Reduced, Reduction, reduce_here
from shuffledp.engine.values import as_numpy
from shuffledp.numerics.entropy import SecureWords, SeededWords

MOST_CODES = 1 << 27
"""Domains up to this size are counted code by code: a gigabyte of counts."""

_AT_ONCE = 1 << 17  # values that stay in the cache until their codes are counted
# From so many codes of whole numbers on, counters are faster than a hash table of values.
_MANY_CODES = 1 << 12
_PEOPLE = 1 << 17  # whose devices one thread runs before it takes the next ones


def is_listable(domain: Domain) -> bool:
    """Say whether the codes of a domain can be counted one by one.

    >>> is_listable(Texts(alphabet="letters", max_length=12))
    False
    """
    return domain.size <= MOST_CODES and not isinstance(domain, Texts | Keys)


def is_counted(column: Column, domain: Domain) -> bool:
    """Say whether NumPy counts codes faster than DuckDB groups values: what is in memory, or mapped, and many numbers.

    >>> from shuffledp.engine import take_column
    >>> is_counted(take_column([1, 2]), Integers(lower=0, upper=9))
    True
    """
    if all(file.format is Format.ARROW for file in column.files):
        return True
    numbers = isinstance(domain, Integers | Cells | Bins)
    if not numbers or any(file.format is not Format.PARQUET for file in column.files):
        return False
    kind = column.type
    return kind in ("float", "double") or ("int" in kind and domain.size > _MANY_CODES)


def are_grouped(protocol: ShuffleProtocol) -> bool:
    """Say whether a column is grouped for this protocol; if not, each row has its device run.

    >>> from shuffledp import protocols
    >>> are_grouped(protocols.krr.make_local(k=4, epsilon=1.0))
    True
    """
    domain = protocol.randomizer.domain
    if not is_listable(domain):
        return False
    return protocol.dealt or not rounding_words(domain)


def tally_counts(
    protocol: ShuffleProtocol, counts: Counts, rng: WordSource, threads: int | None = 1
) -> Tally:
    """Return the tally of counts[x] people of each code x: dealt, or of everybody's messages.

    >>> from shuffledp import SeededWords, protocols
    >>> p = protocols.krr.make_local(k=3, epsilon=5.0)
    >>> tally_counts(p, np.array([10**9, 0, 5]), SeededWords(3)).users
    1000000005
    """
    deal = protocol.offers.deal
    if deal is not None:
        return deal(counts, rng)
    return _tally_everybody(protocol, counts, rng, thread_count(threads))


def _tally_everybody(
    protocol: ShuffleProtocol, counts: Counts, rng: WordSource, threads: int
) -> Tally:
    keep_freed_memory()
    randomizer, ends = protocol.randomizer, counts.cumsum()
    people = int(ends[-1])
    starts = range(0, people, _PEOPLE)

    def tally(start: int, source: WordSource) -> Tally:
        places = np.arange(start, min(start + _PEOPLE, people))
        codes = ends.searchsorted(places, side="right")
        part = tally_codes(randomizer, protocol.analyzer, codes, source)
        assert part is not None
        return part

    if threads == 1:
        return reduce(add, (tally(start, rng) for start in starts))
    tapes = Tapes.of(randomizer, rng)
    with ThreadPoolExecutor(threads) as pool:
        total = reduce(add, pool.map(lambda start: tally(start, tapes.at(start)), starts))
    tapes.finish(people)
    return total


def group_codes(codes: Codes) -> tuple[Spelt, Counts]:
    """Return codes of up to 64 bits that occur, in their order, and how often each does.

    >>> group_codes(np.array([7, 3, 7]))
    (array([3, 7], dtype=uint64), array([1, 2]))
    """
    values, times = np.unique(codes.astype(np.uint64, copy=False), return_counts=True)
    return values, times.astype(np.int64)


def deal_codes(device: Stream, parts: Iterable[Codes], rng: WordSource) -> Tally | None:
    """Deal the tally of people with these codes part by part, so that only the tally is in memory; None if nobody is there.

    With a seed all words are grouped first: the same people have the same tally, however they are cut into parts.
    """
    return deal_groups(device, (group_codes(codes) for codes in parts if len(codes)), rng)


def deal_groups(
    device: Stream, groups: Iterable[tuple[Spelt, Counts]], rng: WordSource
) -> Tally | None:
    """Deal the same tally from codes that occur, and how often each does; a code may occur in several groups."""
    groups = _join_groups(groups) if isinstance(rng, SeededWords) else groups
    n, total = 0, None
    for codes, times in groups:
        added = device.deal_words(codes, times, rng)
        total = added if total is None else total + added
        n += int(times.sum())
    if total is None:
        return None
    return Tally(counts=total + device.deal_noise(n, rng), users=n)


def _join_groups(groups: Iterable[tuple[Spelt, Counts]]) -> Iterator[tuple[Spelt, Counts]]:
    """Join all groups into one, if there are any."""
    listed = list(groups)
    if listed:
        codes, places = np.unique(np.concatenate([each for each, _ in listed]), return_inverse=True)
        times = np.zeros(len(codes), dtype=np.int64)
        np.add.at(times, places, np.concatenate([each for _, each in listed]))
        yield codes, times


def count_values(randomizer: Randomizer, values: NDArray[Any], rng: WordSource) -> Counts:
    """Count how many of these values have each code; real ones are rounded at random first.

    >>> from shuffledp import SeededWords, protocols
    >>> count_values(protocols.krr.KRR(k=4, epsilon0=1.0), np.array([3, 1, 3]), SeededWords(1))
    array([0, 1, 0, 2])
    """
    domain, bits = randomizer.domain, randomizer.word_bits
    if values.dtype.kind in "iu":
        domain = as_integers(domain)
    counter, width = CodeCounter(domain.size), rounding_words(domain)
    for start in range(0, len(values), _AT_ONCE):
        try:
            places = read_places(domain, values[start : start + _AT_ONCE])
        except PositionError as error:
            raise error.move(start) from None
        if width:
            words = rng.words(len(places) * width, bits).reshape(len(places), width)
            places = round_places(domain, places, words, bits)
        counter.add(places)
    return counter.total()


def as_integers(domain: Domain) -> Domain:
    """Return the integers, if those are the points of a grid of reals: on the grid already, they are not rounded.

    >>> as_integers(Reals(lower=0.0, upper=9.0, steps=9))
    Integers(lower=0, upper=9)
    >>> as_integers(Reals(lower=0.0, upper=9.0, steps=3)).steps
    3
    """
    if not isinstance(domain, Reals) or domain.upper - domain.lower != domain.steps:
        return domain
    if not domain.lower.is_integer():
        return domain
    return Integers(lower=int(domain.lower), upper=int(domain.upper))


def count_by_chunk(job: Job, threads: int | None, rounding: Rounding | None = None) -> CodeCounts:
    """Group a column with NumPy, chunk by chunk; real values are rounded if they are to be."""
    counter = CodeCounter(job.coder.domain.size)
    tapes = None if rounding is None else Tapes(rounding.rng, width=1, bits=rounding.bits)

    def find_codes(row: int, some: Coded) -> Codes:
        words = () if tapes is None else (tapes.at(row), tapes.bits)
        codes = job.coder.round(some.codes, *words)
        return codes if some.kept is None else codes[some.kept]

    with work_on_chunks(find_codes, job, threads) as parts:
        for codes in parts:
            counter.add(codes)
    if tapes is not None:
        tapes.finish(parts.rows)
    return CodeCounts(counts=counter.total(), rows=parts.rows, invalid=parts.invalid)


def count_by_query(job: Job, threads: int | None) -> CodeCounts:
    """Group a column with DuckDB: one query for headcount, invalid values and codes."""
    try:
        return add_groups(job, group_values(job.column, threads), find_row)
    except TooManyGroupsError:
        return count_by_chunk(job, threads)


def add_groups(
    job: Job, groups: Iterable[tuple[Any, Any]], refuse: Callable[[Job, DataError], NoReturn]
) -> CodeCounts:
    """Return the codes of distinct values, each with the number of rows that hold it, as Arrow arrays.

    `refuse` raises the error for a value that the policy does not allow.
    """
    counts = np.zeros(job.coder.domain.size, dtype=np.int64)
    rows, invalid = 0, add_invalid(())
    for some, times in code_groups(job, groups, refuse):
        np.add.at(counts, some.codes, np.where(some.valid, times, 0))
        rows += int(times.sum())
        invalid = add_invalid((invalid, some.invalid(times)))
        job.show(rows)
    return CodeCounts(counts=counts, rows=rows, invalid=invalid)


def code_groups(
    job: Job, groups: Iterable[tuple[Any, Any]], refuse: Callable[[Job, DataError], NoReturn]
) -> Iterator[tuple[Coded, Counts]]:
    """Code distinct values, group after group; `refuse` raises the error for one that the policy does not allow."""
    for values, times in groups:
        try:
            yield job.coder.codes(values), as_numpy(times)
        except DataError as error:
            refuse(job, error)


def find_row(job: Job, error: DataError) -> NoReturn:
    """Refuse a value, and name its row, which a group-by has forgotten."""
    count_users(job, threads=None)
    raise error


def refuse_value(job: Job, error: DataError) -> NoReturn:
    """Refuse a value whose row nobody knows."""
    said = (
        f"{tell_value(error.value)} {error.complaint}"
        if isinstance(error, PositionError)
        else error
    )
    raise DataError(f"column {job.column.name!r}: {said}") from None


def count_pairs(
    columns: tuple[Column, Column],
    domain: Answers,
    engine: Engine,
    *,
    on_invalid: OnInvalid = OnInvalid.ERROR,
    rng: WordSource | None = None,
) -> Counts:
    """Count how many people have each pair of codes; errors name the row.

    >>> from shuffledp import Bits, Categories
    >>> from shuffledp.engine import Memory, take_column
    >>> both = Answers(parts=(Bits(), Categories(k=2, names=("car", "bus"))))
    >>> count_pairs((take_column([True, False]), take_column(["bus", "car"])), both, Memory())
    array([1, 0, 0, 1])
    """
    if not on_invalid.drops and not any(isinstance(part, Reals) for part in domain.parts):
        groups = engine.group([columns])
        try:
            if groups is not None:
                return add_pairs(groups, domain, on_invalid)
        except (DataError, TooManyGroupsError):
            if not engine.local:  # otherwise row by row, which names the row
                raise
    joint = pair_people(*columns, domain, on_invalid=on_invalid, rng=rng).column
    return count_codes(joint.array.to_numpy(), domain.size)


def add_pairs(groups: Iterable[Group], domain: Answers, on_invalid: OnInvalid) -> Counts:
    """Count how many people have each pair of codes, from the pairs of values that occur."""
    coders = [Coder.for_part(part, on_invalid) for part in domain.parts]
    counts = np.zeros(domain.size, dtype=np.int64)
    for _, values, times in groups:
        codes = [coder.codes(part).codes for coder, part in zip(coders, values, strict=True)]
        np.add.at(counts, domain.join(codes), as_numpy(times))
    return counts


def group_pairs(
    columns: tuple[Column, Column], domain: Answers, engine: Engine, on_invalid: OnInvalid
) -> CodeCounts | None:
    """Count what `pair_people` lists, from the pairs of values that occur; None if rows must be read one by one.

    So only the counts are held, however many people there are, and an engine that reads elsewhere counts there.
    """
    if any(isinstance(part, Reals) for part in domain.parts) or not is_listable(domain):
        return None
    groups = engine.group([columns])
    if groups is None:
        return None
    try:
        return _count_grouped(groups, columns, domain, on_invalid)
    except (DataError, TooManyGroupsError):
        if not engine.local:  # otherwise row by row, which names the row
            raise
    return None


def _count_grouped(
    groups: Iterable[Group],
    columns: tuple[Column, Column],
    domain: Answers,
    on_invalid: OnInvalid,
) -> CodeCounts:
    jobs = [
        Job(column=column, coder=Coder.for_part(part, on_invalid, column.moments))
        for column, part in zip(columns, domain.parts, strict=True)
    ]
    counts = np.zeros(domain.size, dtype=np.int64)
    rows, invalid = 0, add_invalid(())
    for _, values, each in groups:
        times = as_numpy(each)
        first, second = (
            coded
            for job, part in zip(jobs, values, strict=True)
            for coded, _ in code_groups(job, [(part, each)], refuse_value)
        )
        kept = first.valid & second.valid
        joint = domain.join([part.codes[kept] for part in (first, second)])
        np.add.at(counts, joint, times[kept])
        rows += int(times.sum())
        own, others = map(_list_faults, (first, second))
        faults = Coded(first.codes, kept, np.where(own, own, others))
        invalid = add_invalid((invalid, faults.invalid(times)))
    return CodeCounts(counts=counts, rows=rows, invalid=invalid)


def _list_faults(coded: Coded) -> NDArray[np.uint8]:
    return np.zeros(len(coded.codes), np.uint8) if coded.faults is None else coded.faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The joint codes of those who take part, and who does not."""

    column: Column
    rows: int
    invalid: dict[str, int]
    """How many people have an invalid answer or, if that is valid, an invalid group; by reason."""


def pair_people(
    answers: Column,
    groups: Column,
    domain: Answers,
    *,
    on_invalid: OnInvalid = OnInvalid.ERROR,
    rng: WordSource | None = None,
) -> Pairs:
    """Return the joint codes of an answer and a group; people may be left out, if one of the two is invalid.

    Real numbers are rounded at random, without bias, to the points of their grid, as a device would.

    >>> from shuffledp import Categories, Integers
    >>> from shuffledp.engine import take_column
    >>> both = Answers(parts=(Integers(lower=0, upper=9), Categories(k=2, names=("car", "bus"))))
    >>> ages, ways = take_column([3, None, 5]), take_column(["car", "bus", "boat"])
    >>> pairs = pair_people(ages, ways, both, on_invalid=OnInvalid.DROP)
    >>> pairs.column.array.to_pylist(), pairs.rows, pairs.invalid
    ([3], 3, {'null': 1, 'unknown': 1, 'out_of_range': 0, 'nan': 0})
    """
    import pyarrow as pa

    own, groups_domain = domain.parts
    first = _read_codes(answers, own, on_invalid, rng)
    second = _read_codes(groups, groups_domain, on_invalid, rng)
    rows = len(first.codes)
    if rows != len(second.codes):
        raise DataError(f"columns {answers.name!r} and {groups.name!r} differ in length")
    kept = first.valid & second.valid
    codes = [part.codes[kept] for part in (first, second)]
    joint = domain.join(codes).astype(np.min_scalar_type(domain.size - 1))
    column = Column(name=f"{answers.name} by {groups.name}", array=pa.array(joint))
    faults = np.where(first.faults, first.faults, second.faults)
    return Pairs(column=column, rows=rows, invalid=Coded(first.codes, None, faults).invalid())


def pick_rows(column: Column, taken: Bools) -> Column:
    """Return the values of some of the people, as a column in memory.

    >>> from shuffledp.engine import take_column
    >>> pick_rows(take_column(["a", "b", "c"]), np.array([True, False, True])).array.to_pylist()
    ['a', 'c']
    """
    import pyarrow as pa

    pieces = []
    for chunk in read_chunks(column):
        own = taken[chunk.row : chunk.row + len(chunk.array)]
        if len(own) < len(chunk.array):
            raise DataError(f"column {column.name!r} has more values than there are people")
        pieces.append(chunk.array.filter(pa.array(own)))
    array = pa.chunked_array(pieces).combine_chunks()
    return Column(name=column.name, array=array, moments=column.moments)


class _Read(NamedTuple):
    """The codes of a column, whose count, and what is wrong with the others."""

    codes: NDArray[Any]
    valid: Bools
    faults: NDArray[np.uint8]


def _read_codes(column: Column, domain: Domain, policy: OnInvalid, rng: WordSource | None) -> _Read:
    coder = Coder.for_part(domain, policy, column.moments)
    kind = np.min_scalar_type(domain.size - 1)
    words = SecureWords() if rng is None else rng
    pieces = [_Read(np.zeros(0, kind), np.zeros(0, np.bool_), np.zeros(0, np.uint8))]
    for chunk in read_chunks(column):
        if len(chunk.array):
            coded = code_chunk(coder, chunk)
            codes = np.where(coded.valid, coded.codes, 0)
            if isinstance(domain, Reals):
                codes = domain.round(codes, words.words(len(codes), 64), 64)
            pieces.append(_Read(codes.astype(kind), coded.valid, _list_faults(coded)))
    return _Read(*map(np.concatenate, zip(*pieces, strict=True)))


def run(
    protocol: ShuffleProtocol,
    values: ArrayLike,
    rng: WordSource | None = None,
    *,
    domain: Domain | None = None,
) -> Estimate:
    """Run a protocol on a column and return the estimate; words are secure unless a source is given.

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
    """Estimate for counts[x] people of code x: what `run` makes of their column, without the column.

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


class _Here(ABC):
    """The base of engines that read on this machine."""

    __slots__ = ()
    local: ClassVar[bool] = True

    @property
    @abstractmethod
    def threads(self) -> int | None:
        """How many threads of this machine it may use; None: all."""

    def headcount(self, job: Job) -> Headcount:
        return count_users(job, self.threads)

    def tally(self, job: Job, protocol: ShuffleProtocol, rng: WordSource | None) -> Tallied:
        return tally_chunks(job, protocol, rng, self.threads)

    def reduce(self, reduction: Reduction) -> Reduced:
        return reduce_here(reduction, self.threads)

    def group(self, sets: Sequence[tuple[Column, ...]]) -> Iterator[Group] | None:
        return group_sets(sets, self.threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(_Here):
    """Counts and randomizes with NumPy on one thread."""

    name: ClassVar[str] = "memory"
    about: ClassVar[str] = "columns that fit in memory, on one thread"
    threads: ClassVar[int] = 1

    def counts(self, job: Job, rounding: Rounding | None = None) -> CodeCounts:
        return count_by_chunk(job, self.threads, rounding)


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckDB(_Here):
    """Streams a column of any size through memory of constant size.

    One query groups the column by value. Real values, and numbers with many different values, are coded in chunks of
    a hundred thousand rows, by a pool of threads; nothing of a chunk is left when its codes have been counted.
    """

    threads: int | None = None
    """How many threads; None: all of the machine's."""

    name: ClassVar[str] = "duckdb"
    about: ClassVar[str] = "files of any size on this machine"

    def __post_init__(self) -> None:
        thread_count(self.threads)

    def counts(self, job: Job, rounding: Rounding | None = None) -> CodeCounts:
        domain = job.coder.domain
        if job.read is not None or isinstance(domain, Reals) or is_counted(job.column, domain):
            return count_by_chunk(job, self.threads, rounding)
        return count_by_query(job, self.threads)
