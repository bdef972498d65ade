# ruff: noqa: S608  (the queries hold names of our own, and names of columns in quotes)
"""Rows become people without leaving the database: typed columns of Parquet files.

Whether a reduction is written in SQL depends on what is declared and on the types of the columns alone. The values are
those that `engine.reducing` would make of the same rows, bit by bit; as soon as something must be refused, with its
row, the rows are read there.
"""

import math
from typing import TYPE_CHECKING, Any

from shuffledp.core.domain import Bits
from shuffledp.engine.codes import Action
from shuffledp.engine.formats import DataFile, Format
from shuffledp.engine.people import Reduce
from shuffledp.engine.queries import name_column, read_table
from shuffledp.engine.values import BEYOND, as_numpy

if TYPE_CHECKING:
    from shuffledp.engine.reducing import Reduction

POINT_BITS = 52
"""Binary digits of a fixed-point number."""
BEYOND_BITS = 10
"""Binary digits of what may lie beyond the larger end."""

_SHORT = {"int8", "int16", "int32", "uint8", "uint16", "uint32"}
_WHOLE = {*_SHORT, "int64"}
_REAL = {"float", "double"}
_ADDED = (Reduce.SUM, Reduce.MEAN, Reduce.MIN, Reduce.MAX, Reduce.ROWS)


def write_direct(reduction: "Reduction", whole: tuple[bool, ...]) -> str | None:
    """Return the query that makes people of the rows of Parquet files; None if they must be read.

    `whole` says which of the columns that name a person hold integers by their type.
    """
    if not _is_plain(reduction, whole):
        return None
    column, people = reduction.column, reduction.people
    assert people is not None
    kinds = {file.type_of(column.name) for file in column.files}
    said = reduction.how in (Reduce.ANY, Reduce.ALL)
    typed = {"bool"} if said else _WHOLE if reduction.kind == "whole" else _WHOLE | _REAL
    if reduction.kind != "none" and not kinds <= typed:
        return None
    # Whole numbers are added up as they are, and made fixed-point numbers afterwards: that is exact.
    late = (
        reduction.kind == "point" and kinds <= _WHOLE and 1.0 >= reduction.unit >= 2.0**-POINT_BITS
    )
    rows = " union all ".join(
        _select_file(reduction, people.person, file, late=late) for file in column.files
    )
    keys = ", ".join(f"p{place}" for place in range(reduction.width))
    nobody = " or ".join(f"p{place} is null" for place in range(reduction.width))
    value = {
        Reduce.SUM: "sum(v)",
        Reduce.MEAN: "sum(v)",
        Reduce.MIN: "min(v)",
        Reduce.MAX: "max(v)",
        Reduce.ANY: "max(v)",
        Reduce.ALL: "min(v)",
        Reduce.ROWS: "count(v)",
    }[reduction.how]
    if reduction.kind == "point":
        scale = round(1 / reduction.unit) if late else 1
        value = f"({value}::hugeint * {scale})::double"
    elif reduction.how is Reduce.SUM:
        value = f"least(greatest({value}, {-BEYOND}), {BEYOND})::bigint"
    else:
        value = f"{value}::bigint"
    return (
        f"select {value} as v, count(v) as c, {nobody} as nobody from ({rows}) group by {keys} "
        f"order by {keys}"
    )


def count_rows(connection: Any, reduction: "Reduction") -> int:
    """Return how many rows the files have: they say so themselves."""
    tables = map(read_table, reduction.column.files)
    return sum(connection.sql(f"select count(*) from {each}").fetchone()[0] for each in tables)


def _is_plain(reduction: "Reduction", whole: tuple[bool, ...]) -> bool:
    """Return whether nothing but the columns of Parquet files, and a group-by, decides about the values."""
    column = reduction.column
    if reduction.people is None or not column.files or not all(whole):
        return False
    if column.where is not None or reduction.by is not None or column.moments is not None:
        return False
    said = reduction.how in (Reduce.ANY, Reduce.ALL) and reduction.domain == Bits()
    if not (reduction.how in _ADDED or said) or reduction.of_rows is not None:
        return False
    if any(map(_is_number, reduction.policy.missing)):
        return False
    return all(
        file.format is Format.PARQUET
        and not file.remote
        and {column.name, *reduction.names} <= set(file.columns)
        for file in column.files
    )


def _select_file(
    reduction: "Reduction", person: tuple[str, ...], file: DataFile, *, late: bool
) -> str:
    """Return the people and the values of a file, as SQL; what is missing is null."""
    value = name_column(reduction.column.name)
    kind = file.type_of(reduction.column.name)
    most = math.ldexp(reduction.unit, POINT_BITS) if reduction.kind == "point" else 0.0
    if reduction.kind == "none":
        written = "0::bigint"
    elif reduction.kind == "codes":
        written = value
    elif reduction.kind == "whole" or late:
        end = BEYOND if reduction.kind == "whole" else round(most)
        short = kind in _SHORT and end >= 1 << 32
        written = f"{value}::bigint" if short else _limit(f"{value}::bigint", str(-end), str(end))
    else:
        number = f"{value}::double"
        if kind in _REAL:
            number = f"(case when not isnan({value}) then {number} end)"
        # To cast is to round, a half to the even number; round_even is not exact for large numbers.
        limited = _limit(number, f"{-most!r}::double", f"{most!r}::double")
        written = f"({limited} / {reduction.unit!r}::double)::bigint"
    people = ", ".join(f"{name_column(name)}::bigint as p{i}" for i, name in enumerate(person))
    return f"select {people}, {written} as v from {read_table(file)}"


def _limit(number: str, least: str, most: str) -> str:
    """Limit a number to its ends; null stays null, which it would not with least and greatest."""
    return f"(case when {number} > {most} then {most} when {number} < {least} then {least} else {number} end)"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def is_clean(reduction: "Reduction", people: Any, rows: int) -> bool:
    """Return whether nothing was found that must be refused, with its row: a missing value, or a row of nobody."""
    if rows == 0 or as_numpy(people.column("nobody").combine_chunks()).any():
        return False
    policy = reduction.policy
    if policy.null is Action.DROP and policy.nan is Action.DROP:
        return True
    return int(as_numpy(people.column("c").combine_chunks()).sum()) == rows
