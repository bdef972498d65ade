"""A trusted curator: this machine adds up the column exactly, and releases one noisy answer.

There is no device and no shuffler. Integers, bits and categories are grouped by code. Real values are places,
whole multiples of 2^-42 of the range, and places are added up as integers, so one person moves the exact
answer by what the mechanism's sensitivity says, and no rounding of floats comes in between.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from shuffledp.core.arrays import Counts
from shuffledp.core.cells import Cells
from shuffledp.core.domain import PLACE_BITS, Bits, Domain, Integers, Reals
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.core.mechanism import Mechanism
from shuffledp.core.privacy import Guarantee
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import Task
from shuffledp.core.texts import Keys, Texts
from shuffledp.core.validate import level as valid_level
from shuffledp.engine.chunks import CodeCounts, Engine, Headcount, Job, Pass, Report, work_on_chunks
from shuffledp.engine.codes import Coded, Coder, OnInvalid
from shuffledp.engine.columns import Column, group_values
from shuffledp.engine.groups import group_codes
from shuffledp.engine.values import MISSING, find_missing, flatten, read_missing
from shuffledp.mechanisms.frequency_list import FrequencyList
from shuffledp.numerics.entropy import SecureWords
from shuffledp.numerics.leaves import TASKS

_HALF = PLACE_BITS // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """What a curator's run on a column gives."""

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
    on_invalid: OnInvalid | Mapping[str, str] | str = OnInvalid.ERROR,
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
    coder = Coder(domain=task.domain, on_invalid=OnInvalid.read(on_invalid))
    read = None if found is None else found.codes_of(column, coder)
    job = Job(column=column, coder=coder, report=report, read=read)
    source = SecureWords() if rng is None else rng
    if isinstance(task.domain, Reals):
        total, seen = _add_places(job, task.domain)
        return _report(_release(mechanism, task, total, seen.n, source), seen)
    if isinstance(task.domain, Texts | Keys):
        return _release_words(mechanism, task.domain, job, source)
    kept = None if found is None else found.groups_of(column, coder)
    groups = kept or engine.counts(job)
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
    found = mechanism.release(counts, rng)
    order = np.argsort(-np.asarray(found.value), kind="stable")
    assert found.labels is not None
    sorted_ = replace(
        found,
        value=np.asarray(found.value)[order],
        labels=tuple(found.labels[place] for place in order),
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
    """One number, with the limits that are publicly known."""
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
    """So many of the values exist, with confidence `level`: the places behind them may be noise alone."""


def release_frequencies(
    column: Column,
    *,
    epsilon: float,
    missing: Sequence[str] | str | None = None,
    level: float = 0.95,
    rng: WordSource | None = None,
    threads: int | None = None,
) -> Frequencies:
    """Release how often values occur, the most frequent first. To miss a value is a value like any other.

    >>> from shuffledp import SeededWords
    >>> from shuffledp.engine import take_column
    >>> pets = take_column(["cat"] * 500 + ["dog"] * 300)
    >>> found = release_frequencies(pets, epsilon=5.0, rng=SeededWords(1))
    >>> found.values, found.certain
    ((500, 301), 2)
    """
    valid_level(level)
    counted: Counter[Any] = Counter()
    spelt = MISSING if missing is None else read_missing(missing)
    for found, times in group_values(column, threads):
        values = flatten(found)
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
