"""Two columns as one: the codes of answers and of groups, joined person by person.

Where nothing is rounded at random, how many people have each pair is enough, and engines group by both columns. As in
`groups`, these counts are as secret as the data.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from shuffledp.core.answers import Answers
from shuffledp.core.arrays import Counts
from shuffledp.core.counting import count_codes
from shuffledp.core.domain import Domain, Reals
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.randomizer import WordSource
from shuffledp.engine.chunks import Engine, code_chunk
from shuffledp.engine.codes import Coder, OnInvalid, as_numpy
from shuffledp.engine.columns import Column, TooManyGroupsError, group_pairs, read_chunks
from shuffledp.engine.spark import Spark
from shuffledp.numerics.entropy import SecureWords

__all__ = ["count_pairs", "pair_columns"]


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
        coders = [_make_coder(part, on_invalid) for part in domain.parts]
        if isinstance(engine, Spark):
            return _add_up(engine.group_pairs(columns), domain, coders)
        if _are_groupable(columns):
            try:
                return _add_up(group_pairs(columns), domain, coders)
            except (DataError, TooManyGroupsError):  # row by row, which names the row
                pass
    joint = pair_columns(*columns, domain, on_invalid=on_invalid, rng=rng)
    return count_codes(joint.array.to_numpy(), domain.size)


def _are_groupable(columns: tuple[Column, Column]) -> bool:
    """Whether they are columns of the same files with few different values."""
    first, second = columns
    if first.array is not None or second.array is not None or first.where is not None:
        return False
    same = [file.path for file in first.files] == [file.path for file in second.files]
    return same and not any("double" in column.type or "float" in column.type for column in columns)


def _add_up(groups: Iterable[tuple[Any, Any, Any]], domain: Answers, coders: list[Coder]) -> Counts:
    counts = np.zeros(domain.size, dtype=np.int64)
    for *values, times in groups:
        codes = [coder.codes(part).codes for coder, part in zip(coders, values, strict=True)]
        np.add.at(counts, domain.join(codes), as_numpy(times))
    return counts


def pair_columns(
    answers: Column,
    groups: Column,
    domain: Answers,
    *,
    on_invalid: OnInvalid = OnInvalid.ERROR,
    rng: WordSource | None = None,
) -> Column:
    """The joint codes of an answer and a group, as a column in memory.

    Real numbers are rounded at random, without bias, to the points of their grid, as a device would.

    >>> from shuffledp import Bits, Categories
    >>> from shuffledp.engine import take_column
    >>> both = Answers(parts=(Bits(), Categories(k=2, names=("car", "bus"))))
    >>> pair_columns(take_column([True, False]), take_column(["bus", "car"]), both).array.to_pylist()
    [3, 0]
    """
    if on_invalid.drops:
        raise UnsupportedError(
            "on_invalid=drop is not for questions by group: declare a group 'other' (on_invalid=other), or "
            "clamp numbers"
        )
    own, groups_domain = domain.parts
    codes = [
        _read_codes(answers, own, on_invalid, rng),
        _read_codes(groups, groups_domain, on_invalid, rng),
    ]
    if len(codes[0]) != len(codes[1]):
        raise DataError(f"columns {answers.name!r} and {groups.name!r} differ in length")
    joint = domain.join(codes).astype(np.min_scalar_type(domain.size - 1))
    return Column(name=f"{answers.name} by {groups.name}", array=pa.array(joint))


def _read_codes(
    column: Column, domain: Domain, policy: OnInvalid, rng: WordSource | None
) -> np.ndarray[Any, Any]:
    coder = _make_coder(domain, policy)
    kind = np.min_scalar_type(domain.size - 1)
    words = SecureWords() if rng is None else rng
    found = []
    for chunk in read_chunks(column):
        if len(chunk.array):
            codes = code_chunk(coder, chunk).codes
            if isinstance(domain, Reals):
                codes = domain.round(codes, words.words(len(codes), 64), 64)
            found.append(codes.astype(kind))
    return np.concatenate(found) if found else np.zeros(0, dtype=kind)


def _make_coder(domain: Domain, policy: OnInvalid) -> Coder:
    try:
        return Coder(domain=domain, on_invalid=policy)
    except ParameterError:  # what is right for the answers need not be for the groups
        return Coder(domain=domain, on_invalid=OnInvalid.ERROR)
