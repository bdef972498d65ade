# ruff: noqa: S608  (the queries hold names of our own, and names of columns in quotes)
"""Whom a row is about, and what becomes of the rows of one person.

A row is not a person: with ten visits in a file, a promise about one visit is ten times weaker for the visitor.
`People` names the column that says which person a row is about. `engine.reducing` then makes one value of each
person's rows.

Typed columns of Parquet files do not leave the database for that. Whether a reduction is written in SQL depends only on
what is declared and on the types of the columns. The values are those that `engine.reducing` would make of the same
rows, bit by bit; as soon as something must be refused, with its row, the rows are read there.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from shuffledp.core.domain import Bins, Bits, Cells, Integers, Reals
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.task import Task, say_of
from shuffledp.core.validate import whole
from shuffledp.engine.codes import Action
from shuffledp.engine.formats import DataFile, Format
from shuffledp.engine.queries import name_column, read_table
from shuffledp.engine.values import BEYOND, as_numpy, is_text

if TYPE_CHECKING:
    from shuffledp.engine.reducing import Reduction


class Reduce(Enum):
    """What becomes of the values in one person's rows."""

    SUM = "sum"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    ANY = "any"
    """Yes, if one of the rows says yes."""
    ALL = "all"
    """Yes, if there are rows and all of them say yes."""
    ROWS = "rows"
    """How many rows there are."""
    FIRST = "first"
    """The value of the row that comes first by another column."""
    LAST = "last"
    ONE = "one"
    """The value of one row, chosen at random."""


class Of(Enum):
    """What an answer is about."""

    PEOPLE = "people"
    """Each person counts once, with the value that their rows are reduced to."""
    ROWS = "rows"
    """Each row counts, at most `max_rows` of a person."""


class MissingPerson(Enum):
    """What to do with a row that does not say whom it is about."""

    ERROR = "error"
    DROP = "drop"
    """Leave the row out."""
    OWN = "own"
    """Take the row to be a person of its own."""


_CHOICES = (Reduce.ONE, Reduce.FIRST, Reduce.LAST)
_OF_BITS = (Reduce.ANY, Reduce.ALL, *_CHOICES)
_OF_NUMBERS = (Reduce.MEAN, Reduce.SUM, Reduce.MIN, Reduce.MAX, Reduce.ROWS, *_CHOICES)
_ADDED = (Reduce.SUM, Reduce.MEAN, *_OF_NUMBERS[2:])
_OF_INTEGERS = (*_CHOICES, Reduce.SUM, Reduce.MIN, Reduce.MAX, Reduce.ROWS)
"""What the rows of a person may become; the first is the default."""
_MOST = 10_000  # values of a person
_EXACT = 2.0**53  # below it, floats are exact where they are whole
_LOOKS = re.compile(
    r"(^|_)(id|uid|uuid|guid|ssn|email|e_mail|user|username|person|people|patient|customer|client|member|subscriber|"
    r"account|passport|phone|imei|msisdn)($|_)"
)


def looks_like_person(names: Sequence[str]) -> list[str]:
    """Return the columns whose names look like those of people's ids; values are not read.

    >>> looks_like_person(["user_id", "distance", "customerId", "width", "E-Mail"])
    ['user_id', 'customerId', 'E-Mail']
    """
    return [name for name in names if _LOOKS.search(_split_words(name))]


def spell_names(array: Any) -> Any:
    """Write the names of people as texts: 17 is 17.0, whichever tool wrote it and whatever the type.

    Otherwise somebody whose rows lie in two files would be two people, and protected only half as well.

    >>> import pyarrow as pa
    >>> spell_names(pa.array([12345678901.0, 2.5])).to_pylist(), spell_names(pa.array([" 17.0", "017"])).to_pylist()
    (['12345678901', '2.5'], ['17', '017'])
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = array.cast(pa.string())
    if pa.types.is_floating(array.type):  # texts of floats have an exponent from 10^10 on
        values = array.cast(pa.float64())
        exact = pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), _EXACT))
        exact = exact.fill_null(False)
        whole_part = pc.if_else(exact, values, 0.0).cast(pa.int64()).cast(pa.string())
        return pc.if_else(exact, whole_part, texts)
    if is_text(array.type):
        texts = pc.utf8_trim_whitespace(texts)
    return pc.replace_substring_regex(texts, r"^([+-]?[0-9]+)\.0*$", r"\1")


def _split_words(name: str) -> str:
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The columns that say whom a row is about, and what becomes of somebody's rows.

    >>> visitors = People.read("visitor", reduce="last by day")
    >>> visitors.person, visitors.reduce.value, visitors.order
    (('visitor',), 'last', 'day')
    >>> People.read("visitor", of="rows")
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: of='rows' needs max_rows: how many rows of a person count at most, from public knowledge
    """

    person: tuple[str, ...]
    """The columns that name the person."""
    reduce: Reduce | None = None
    """None: what is usual for the question."""
    order: str | None = None
    """The column that `first` and `last` are by."""
    of: Of = Of.PEOPLE
    max_rows: int | None = None
    """The most rows of a person that count; if there are more, this many at random."""
    missing: MissingPerson = MissingPerson.ERROR
    max_categories: int | None = None
    """The most categories in which a person counts, once in each; if there are more, this many at random."""

    def __post_init__(self) -> None:
        if not self.person or not all(self.person):
            raise ParameterError("person", self.person, "must name a column")
        if len(set(self.person)) < len(self.person):
            raise ParameterError("person", ",".join(self.person), "names a column twice")
        if (self.order is not None) != (self.reduce in (Reduce.FIRST, Reduce.LAST)):
            kinds = "first and last need another column to order the rows: reduce='last by day'"
            raise ParameterError(
                "reduce", _spell(self.reduce, self.order), f"must be clear: {kinds}"
            )
        self._check_limits()

    def _check_limits(self) -> None:
        """Check how many rows, or categories, of a person count."""
        if self.of is Of.ROWS and self.max_rows is None:
            raise UnsupportedError(
                "of='rows' needs max_rows: how many rows of a person count at most, from public knowledge"
            )
        if self.of is Of.ROWS and self.reduce is not None:
            raise UnsupportedError(
                "reduce is for answers about people: with of='rows' rows are not combined"
            )
        if self.max_rows is not None:
            if self.of is not Of.ROWS:
                raise UnsupportedError("max_rows is for answers about rows: of='rows'")
            whole("max_rows", self.max_rows, at_least=1)
        if self.max_categories is not None:
            if self.of is Of.ROWS or self.reduce is not None:
                raise UnsupportedError(
                    "max_categories already decides what becomes of a person's rows: leave out reduce, and of='rows'"
                )
            whole("max_categories", self.max_categories, at_least=1, at_most=_MOST)

    @classmethod
    def read(
        cls,
        person: "People | Sequence[str] | str | None",
        *,
        reduce: str | None = None,
        of: str | None = None,
        max_rows: int | None = None,
        max_categories: int | None = None,
        missing_person: str | None = None,
    ) -> "People | None":
        """Read what a question, a survey or a command says; None if no person is named.

        >>> People.read(None) is None
        True
        >>> People.read(None, reduce="sum")
        Traceback (most recent call last):
        shuffledp.core.errors.UnsupportedError: reduce needs person: the column that says which person a row is about
        """
        given = {"reduce": reduce, "of": of, "max_rows": max_rows, "missing_person": missing_person}
        given["max_categories"] = max_categories
        said = [name for name, value in given.items() if value is not None]
        if isinstance(person, People):
            if said:
                raise UnsupportedError(f"{said[0]} is already part of person")
            return person
        if person is None:
            if said:
                raise UnsupportedError(
                    f"{said[0]} needs person: the column that says which person a row is about"
                )
            return None
        name, _, order = (reduce or "").partition(" by ")
        return cls(
            person=(person,) if isinstance(person, str) else tuple(person),
            reduce=None if reduce is None else _find(Reduce, "reduce", name.strip(), reduce),
            order=order.strip() or None,
            of=Of.PEOPLE if of is None else _find(Of, "of", of),
            max_rows=max_rows,
            max_categories=max_categories,
            missing=MissingPerson.ERROR
            if missing_person is None
            else _find(MissingPerson, "missing_person", missing_person),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs besides those of the question."""
        return (*self.person, *(() if self.order is None else (self.order,)))

    def choose(self, task: Task) -> Reduce:
        """Return what the rows become for a question.

        >>> from shuffledp.tasks import Count, Mean
        >>> People.read("visitor").choose(Mean.declare({"lower": 0, "upper": 9}).task)
        <Reduce.MEAN: 'mean'>
        >>> People.read("visitor", reduce="sum").choose(Count.declare({}).task)
        Traceback (most recent call last):
        shuffledp.core.errors.ParameterError: reduce='sum' must be one of any, all, one, 'first by COLUMN', 'last by COLUMN' for a count
        """
        allowed = _list_reductions(task)
        if self.reduce is None:
            return allowed[0]
        if self.reduce not in allowed:
            listed = _list(each.value for each in allowed)
            raise ParameterError(
                "reduce", self.reduce.value, f"must be one of {listed} for {say_of(task.name)}"
            )
        return self.reduce

    def tell(self, how: Reduce) -> str:
        """Say what became of the rows, for readers of the answer.

        >>> print(People.read("visitor").tell(Reduce.SUM))
        Rows with the same visitor are one person, who counts once, with the sum of their rows.
        """
        named = " and ".join(self.person)
        extra = {
            MissingPerson.ERROR: "",
            MissingPerson.DROP: " Rows that name no person were left out.",
            MissingPerson.OWN: " Each row that names no person was counted as a separate person, and is protected by itself.",
        }[self.missing]
        if self.of is Of.ROWS:
            return (
                f"Rows with the same {named} are one person. The answer is about rows: at most {self.max_rows:,} of "
                f"each person, chosen at random if there are more.{extra}"
            )
        if self.max_categories is not None:
            return (
                f"Rows with the same {named} are one person, who counts once in each of their categories, or in "
                f"{self.max_categories:,} of them, chosen at random, if there are more.{extra}"
            )
        return f"Rows with the same {named} are one person, who counts once, with {_WORDS[how].format(self.order)}.{extra}"


_WORDS = {
    Reduce.SUM: "the sum of their rows",
    Reduce.MEAN: "the mean of their rows",
    Reduce.MIN: "the smallest value of their rows",
    Reduce.MAX: "the largest value of their rows",
    Reduce.ANY: "yes if any of their rows says yes",
    Reduce.ALL: "yes if all of their rows say yes",
    Reduce.ROWS: "the number of their rows",
    Reduce.FIRST: "the row that is first by {}",
    Reduce.LAST: "the row that is last by {}",
    Reduce.ONE: "one of their rows, chosen at random",
}


def _list_reductions(task: Task) -> tuple[Reduce, ...]:
    """Return what a person's rows may become for this question, by what its values are."""
    if isinstance(task.domain, Bits) and task.yes_or_no:
        return _OF_BITS
    if not isinstance(task.domain, Bits | Integers | Reals | Cells | Bins):
        return _CHOICES
    if isinstance(task.domain, Integers) and task.bins:
        return _OF_INTEGERS
    return _ADDED if task.adds and not task.average else _OF_NUMBERS


def _spell(reduce: Reduce | None, order: str | None) -> str:
    return (reduce.value if reduce is not None else "") + (f" by {order}" if order else "")


_Kind = TypeVar("_Kind", bound=Enum)


def _find(kind: type[_Kind], name: str, value: str, said: str | None = None) -> _Kind:
    known = {str(each.value): each for each in kind}
    if value not in known:
        raise ParameterError(
            name, value if said is None else said, f"must be one of {_list(known)}"
        )
    return known[value]


def _list(known: Iterable[str]) -> str:
    """List values as they are given.

    >>> _list(["sum", "last"])
    "sum, 'last by COLUMN'"
    """
    ordered = (Reduce.FIRST.value, Reduce.LAST.value)
    return ", ".join(f"'{each} by COLUMN'" if each in ordered else each for each in known)


POINT_BITS = 52
"""Binary digits of a fixed-point number."""
BEYOND_BITS = 10
"""Binary digits of what may lie beyond the larger end."""

_SHORT = {"int8", "int16", "int32", "uint8", "uint16", "uint32"}
_WHOLE = {*_SHORT, "int64"}
_REAL = {"float", "double"}
_IN_SQL = (Reduce.SUM, Reduce.MEAN, Reduce.MIN, Reduce.MAX, Reduce.ROWS)


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
    """Count the rows of the files, which say so themselves."""
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
    if not (reduction.how in _IN_SQL or said) or reduction.of_rows is not None:
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
