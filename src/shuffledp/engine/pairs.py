"""Two columns as one: the codes of answers and of groups, joined person by person.

Where nothing is rounded at random, how many people have each pair is enough, and engines group by both columns. As in
`groups`, these counts are as secret as the data.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shuffledp.core.answers import Answers
from shuffledp.core.arrays import Bools, Counts
from shuffledp.core.counting import count_codes
from shuffledp.core.domain import Domain, Reals
from shuffledp.core.errors import DataError
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.chunks import Engine, code_chunk
from shuffledp.engine.codes import Coded, Coder, OnInvalid, as_numpy
from shuffledp.engine.columns import Column, Group, TooManyGroupsError, read_chunks
from shuffledp.numerics.entropy import SecureWords

__all__ = ["Pairs", "add_pairs", "count_pairs", "pair_people", "pick_rows"]


def count_pairs(
    columns: tuple[Column, Column],
    domain: Answers,
    engine: Engine,
    *,
    on_invalid: OnInvalid = OnInvalid.ERROR,
    rng: WordSource | None = None,
) -> Counts:
    """How many people have each pair of codes; errors name the row.

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
    """How many people have each pair of codes, from the pairs of values that occur."""
    coders = [Coder.for_part(part, on_invalid) for part in domain.parts]
    counts = np.zeros(domain.size, dtype=np.int64)
    for _, values, times in groups:
        codes = [coder.codes(part).codes for coder, part in zip(coders, values, strict=True)]
        np.add.at(counts, domain.join(codes), as_numpy(times))
    return counts


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
    """The joint codes of an answer and a group; people may be left out, if one of the two is invalid.

    Real numbers are rounded at random, without bias, to the points of their grid, as a device would.

    >>> from shuffledp import Categories, Integers
    >>> from shuffledp.engine import take_column
    >>> both = Answers(parts=(Integers(lower=0, upper=9), Categories(k=2, names=("car", "bus"))))
    >>> ages, ways = take_column([3, None, 5]), take_column(["car", "bus", "boat"])
    >>> pairs = pair_people(ages, ways, both, on_invalid=OnInvalid.DROP)
    >>> pairs.column.array.to_pylist(), pairs.rows, pairs.invalid
    ([3], 3, {'null': 1, 'unknown': 1, 'out_of_range': 0, 'nan': 0})
    """
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
    """The values of some of the people, as a column in memory.

    >>> from shuffledp.engine import take_column
    >>> pick_rows(take_column(["a", "b", "c"]), np.array([True, False, True])).array.to_pylist()
    ['a', 'c']
    """
    pieces = []
    for chunk in read_chunks(column):
        own = taken[chunk.row : chunk.row + len(chunk.array)]
        if len(own) < len(chunk.array):
            raise DataError(f"column {column.name!r} has more values than there are people")
        pieces.append(chunk.array.filter(pa.array(own)))
    found = pa.chunked_array(pieces).combine_chunks()
    return Column(name=column.name, array=found, moments=column.moments)


class _Read(NamedTuple):
    """The codes of a column, whose count, and what is wrong with the others."""

    codes: NDArray[Any]
    valid: Bools
    faults: NDArray[np.uint8]


def _read_codes(column: Column, domain: Domain, policy: OnInvalid, rng: WordSource | None) -> _Read:
    coder = Coder.for_part(domain, policy)
    kind = np.min_scalar_type(domain.size - 1)
    words = SecureWords() if rng is None else rng
    found = [_Read(np.zeros(0, kind), np.zeros(0, np.bool_), np.zeros(0, np.uint8))]
    for chunk in read_chunks(column):
        if len(chunk.array):
            coded = code_chunk(coder, chunk)
            codes = np.where(coded.valid, coded.codes, 0)
            if isinstance(domain, Reals):
                codes = domain.round(codes, words.words(len(codes), 64), 64)
            faults = np.zeros(len(codes), np.uint8) if coded.faults is None else coded.faults
            found.append(_Read(codes.astype(kind), coded.valid, faults))
    return _Read(*map(np.concatenate, zip(*found, strict=True)))
