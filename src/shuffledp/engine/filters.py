"""Filters: whom a question is about, `distance > 1000 and carrier in ('AA', 'UA')`.

A filter is a text in a small language of its own. It is parsed into an object that can compare columns with values
or columns and nothing else: no part of the text reaches a database. A parser of SQL would let all of SQL in, to be shut
out again function by function, and would answer as its own dialect does; all engines here share one meaning.

| written | means |
|---|---|
| `distance > 1000` | also `>=`, `<`, `<=`, `=`, `==`, `!=`, `<>` |
| `carrier = 'AA'` | a text, in quotes of either kind |
| `day >= '2013-06-01'` | a date, where the column holds dates; as texts such dates compare in the same way |
| `carrier in ('AA', 'UA')`, `distance between 100 and 200` | also with `not` |
| `name like 'Mc%'` | a text with this pattern: `%` is any text, `_` any letter; also with `not` |
| `arrival > departure` | another column, row by row: two numbers, two dates or two texts |
| `delay is null`, `delay is not null` | whether there is a value |
| `cancelled`, `cancelled = true` | yes or no |
| `not (a > 1 or b > 2) and c > 3` | `not` before `and` before `or` |

A column whose name is not a word stands in double quotes or backquotes, `"air time" > 60`; on the right in backquotes.
Values are read as in a question: a number may be a text, above and below a number in quotes, too. A value that is
missing or cannot be read makes a comparison unknown, as in SQL, and nobody is taken whose filter is unknown.
"""

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from shuffledp.core.arrays import Bools
from shuffledp.core.errors import DataError, ParameterError, show_value
from shuffledp.core.task import read_moment
from shuffledp.engine.spelling import LIKE_DATE, OTHER_DATES
from shuffledp.engine.values import (
    FINE,
    MISSING,
    as_numpy,
    find_missing,
    flatten,
    is_text,
    measure_moments,
    read_bits,
    read_missing,
    read_names,
    read_numbers,
)

_Value: TypeAlias = float | str | bool
_Read: TypeAlias = Callable[[str], Any]
"""The Arrow array of a column by its name."""

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUALITIES = ("=", "==", "!=", "<>")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
      | (?P<word>[^\W\d]\w*(?:\.\w+)*)
      | (?P<mark><=|>=|<>|!=|==|[=<>(),])
    )""",
    re.VERBOSE,
)
_KEYWORDS = {"and", "or", "not", "in", "is", "like", "null", "between", "true", "false"}


class _Answer(NamedTuple):
    """For each row whether the filter says yes and whether it says no; neither where it is unknown."""

    yes: Bools
    no: Bools


class _Part(Protocol):
    def columns(self) -> Iterator[str]: ...

    def ask(self, read: _Read, missing: tuple[str, ...]) -> _Answer: ...


@dataclass(frozen=True, slots=True)
class _Compare:
    name: str
    mark: str
    value: _Value

    def columns(self) -> Iterator[str]:
        yield self.name

    def ask(self, read: _Read, missing: tuple[str, ...]) -> _Answer:
        values, known = _read_operands(read(self.name), self, missing)
        yes = np.asarray(_OPERATORS[self.mark](values, _find_right(self, values)), dtype=np.bool_)
        return _Answer(yes & known, ~yes & known)


@dataclass(frozen=True, slots=True)
class _CompareColumns:
    left: str
    mark: str
    right: str

    def columns(self) -> Iterator[str]:
        yield self.left
        yield self.right

    def ask(self, read: _Read, missing: tuple[str, ...]) -> _Answer:
        left, right = (_Side.of(flatten(read(name)), missing) for name in (self.left, self.right))
        order, alike = left.compare(right)
        yes = np.asarray(_OPERATORS[self.mark](order, 0), dtype=np.bool_)
        known = left.known & right.known
        if self.mark not in _EQUALITIES:
            known &= alike  # a number is not above a text
        return _Answer(yes & known, ~yes & known)


class _Side(NamedTuple):
    """A column to be compared with another one: each value is a number, a moment or a text."""

    numbers: Any
    moments: Any
    """In seconds; as the numbers, NaN where a value is none."""
    texts: Any
    known: Bools

    @classmethod
    def of(cls, array: Any, missing: tuple[str, ...]) -> "_Side":
        import pyarrow as pa
        import pyarrow.compute as pc

        known = ~find_missing(array, missing)
        nothing = np.full(len(array), np.nan)
        if pa.types.is_temporal(array.type):
            seconds = _read_or_nan(measure_moments(array, "seconds"), missing)
            return cls(nothing, seconds, pa.nulls(len(array), pa.large_string()), known)
        numbers = _read_or_nan(array, missing)
        if not is_text(array.type):
            return cls(numbers, nothing, pa.nulls(len(array), pa.large_string()), known)
        texts = pc.utf8_trim_whitespace(array).cast(pa.large_string())
        seconds = _read_or_nan(measure_moments(array, "seconds"), missing)
        return cls(numbers, np.where(np.isnan(numbers), seconds, np.nan), texts, known)

    def compare(self, other: "_Side") -> tuple[Any, Bools]:
        """Return how each value compares (-1, 0 or 1), and whether the two are of one kind; if not, the first is not 0."""
        order = _order(self.texts, other.texts)
        alike = np.ones(len(order), dtype=np.bool_)
        for mine, theirs in ((self.numbers, other.numbers), (self.moments, other.moments)):
            both, one = ~np.isnan(mine) & ~np.isnan(theirs), np.isnan(mine) != np.isnan(theirs)
            apart = (mine > theirs).astype(np.int8) - (mine < theirs)  # infinity is itself
            order = np.where(both, apart, np.where(one, 1, order))
            alike &= ~one
        return order, alike


def _read_or_nan(array: Any, missing: tuple[str, ...]) -> Any:
    numbers = read_numbers(array, missing)
    values = np.asarray(numbers.values, dtype=np.float64)
    return values if numbers.faults is None else np.where(numbers.faults == FINE, values, np.nan)


@dataclass(frozen=True, slots=True)
class _Like:
    name: str
    pattern: str

    def columns(self) -> Iterator[str]:
        yield self.name

    def ask(self, read: _Read, missing: tuple[str, ...]) -> _Answer:
        import pyarrow.compute as pc

        array = flatten(read(self.name))
        if not is_text(array.type):
            raise DataError(f"{self.name!r} holds {array.type}: like is for texts")
        texts, known = pc.utf8_trim_whitespace(array), ~find_missing(array, missing)
        yes = as_numpy(pc.match_like(texts, self.pattern)) & known
        return _Answer(yes, ~yes & known)


@dataclass(frozen=True, slots=True)
class _IsNull:
    name: str

    def columns(self) -> Iterator[str]:
        yield self.name

    def ask(self, read: _Read, missing: tuple[str, ...]) -> _Answer:
        null = find_missing(flatten(read(self.name)), missing)
        return _Answer(null, ~null)


@dataclass(frozen=True, slots=True)
class _Not:
    part: _Part

    def columns(self) -> Iterator[str]:
        yield from self.part.columns()

    def ask(self, read: _Read, missing: tuple[str, ...]) -> _Answer:
        yes, no = self.part.ask(read, missing)
        return _Answer(no, yes)


@dataclass(frozen=True, slots=True)
class _All:
    parts: tuple[_Part, ...]

    def columns(self) -> Iterator[str]:
        for part in self.parts:
            yield from part.columns()

    def ask(self, read: _Read, missing: tuple[str, ...]) -> _Answer:
        answers = [part.ask(read, missing) for part in self.parts]
        yes = np.logical_and.reduce([answer.yes for answer in answers])
        return _Answer(yes, np.logical_or.reduce([answer.no for answer in answers]))


def _some(parts: tuple[_Part, ...]) -> _Part:
    """Write that at least one of them holds: not all of them are not."""
    return _Not(_All(tuple(_Not(part) for part in parts)))


def _read_operands(array: Any, asked: _Compare, missing: tuple[str, ...]) -> tuple[Any, Bools]:
    """Return the values as what they are compared with, and which of them are known."""
    array = flatten(array)
    if isinstance(asked.value, bool):
        numbers = read_bits(array, missing)
    elif isinstance(asked.value, str) and _as_number(asked) is None:
        return _as_texts(array, asked, missing)
    else:
        numbers = read_numbers(array, missing)
    known = (
        np.ones(len(array), dtype=np.bool_) if numbers.faults is None else numbers.faults == FINE
    )
    return numbers.values, known & ~np.isnan(numbers.values)


def _as_number(asked: _Compare) -> float | None:
    """Return the number in quotes that values are above or below: in a text, too, 1000 is above '100'."""
    if not isinstance(asked.value, str) or asked.mark in _EQUALITIES:
        return None
    try:
        return float(asked.value)
    except ValueError:
        return None


def _as_texts(array: Any, asked: _Compare, missing: tuple[str, ...]) -> tuple[Any, Bools]:
    import pyarrow as pa
    import pyarrow.compute as pc

    known = ~find_missing(array, missing)
    if asked.mark in _EQUALITIES and not pa.types.is_temporal(array.type):
        named = read_names(array, (str(asked.value),), missing)
        if named.faults is None:
            return np.ones(len(array), dtype=np.bool_), np.ones(len(array), dtype=np.bool_)
        return named.faults == FINE, known | (named.faults == FINE)
    if is_text(array.type) and read_moment(asked.value) is not None:
        moments = read_numbers(measure_moments(array, "seconds"), missing)
        wanted = read_numbers(measure_moments(pa.array([asked.value]), "seconds")).values[0]
        dated = known & ~np.isnan(moments.values)
        dated = dated if moments.faults is None else dated & (moments.faults == FINE)
        _refuse_dates(asked.name, array, known & ~dated)
        apart = np.where(dated, moments.values, wanted) - wanted
        return np.sign(apart).astype(np.int8), dated
    if is_text(array.type):
        if re.fullmatch(LIKE_DATE, str(asked.value)):
            raise DataError(
                f"{asked.name!r} is compared with {asked.value!r}: in a filter, dates are written 2024-12-31"
            )
        wanted = pa.scalar(asked.value, array.type)
        return _order(pc.utf8_trim_whitespace(array), wanted), known
    if not pa.types.is_temporal(array.type):
        raise DataError(f"{asked.name!r} holds no texts: compare it with a number, without quotes")
    try:
        return _order(array, pa.scalar(asked.value).cast(array.type)), known
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"{asked.name!r} holds {array.type}, and {asked.value!r} is no such value"
        ) from None


def _refuse_dates(name: str, array: Any, unread: Bools) -> None:
    """Refuse to compare dates if some are written in another way: rows with those would never match."""
    import pyarrow.compute as pc

    wrong = as_numpy(pc.match_substring_regex(array, rf"^\s*{LIKE_DATE}").fill_null(False)) & unread
    if wrong.any():
        value = array[int(np.argmax(wrong))].as_py()
        raise DataError(
            f"{name!r} has the value {show_value(value)}, which cannot be compared with a date (dates are written "
            f"2024-12-31; {OTHER_DATES})"
        )


def _order(array: Any, wanted: Any) -> Any:
    """Return -1, 0 or 1 for values below, equal to and above the wanted one."""
    import pyarrow.compute as pc

    above, below = (as_numpy(ask(array, wanted)).astype(np.int8) for ask in (pc.greater, pc.less))
    return above - below


def _find_right(asked: _Compare, values: Any) -> Any:
    """Return what the values are compared with: texts have become places or truths on the way."""
    if not isinstance(asked.value, str):
        return asked.value
    if (number := _as_number(asked)) is not None:
        return number
    return True if values.dtype == np.bool_ else 0


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was read: it says whom a question is about.

    >>> adults = Filter.read("age >= 18 and not (way = 'car' or way is null)")
    >>> adults.columns
    ('age', 'way')
    >>> import pyarrow as pa
    >>> people = {"age": pa.array(["17", "18", "64", ""]), "way": pa.array(["bus", "bus", "car", "bus"])}
    >>> adults.choose(people.__getitem__)
    array([False,  True, False, False])
    >>> Filter.read("age > 18; drop table people")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: where='age > 18; drop table people' cannot be read at '; drop table people'
    """

    text: str
    part: Any
    missing: tuple[str, ...] = MISSING
    """How a missing value may be spelt, besides an empty text."""
    public: bool = False
    """Whether it was declared that everybody may know who is taken, so that their exact number tells nothing."""
    private: bool = False
    """Whether everybody stays, and whoever is not taken counts as nothing: then nobody learns their number."""

    @classmethod
    def read(
        cls,
        text: "str | Filter",
        missing: Sequence[str] | str | None = None,
        *,
        public: bool = False,
    ) -> "Filter":
        """Parse it."""
        if isinstance(text, Filter):
            spelt = text.missing if missing is None else read_missing(missing)
            return replace(text, missing=spelt, public=public or text.public)
        if not text.strip():
            raise ParameterError("where", text, "must be a comparison such as 'distance > 1000'")
        try:
            spelt = MISSING if missing is None else read_missing(missing)
            return cls(text.strip(), _Parser(text).parse(), spelt, public)
        except RecursionError:
            raise ParameterError("where", text, "has too many parentheses") from None

    def __str__(self) -> str:
        return self.text

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it needs, each once."""
        return tuple(dict.fromkeys(self.part.columns()))

    def expose(self) -> str | None:
        """Return what it reveals, by the number of people that it takes or by its own words; None if it is public.

        >>> Filter.read("vote = 'Y'").expose()
        "n is the exact number of people with vote = 'Y': no noise protects who they are"
        """
        if self.public:
            return None
        if self.private:
            return f"the words of the filter ({self.text}), which the answer and the ledger repeat"
        return f"n is the exact number of people with {self.text}: no noise protects who they are"

    def choose(self, read: _Read) -> Bools:
        """Return which rows it takes; `read` gives the Arrow array of a column by its name."""
        answer: _Answer = self.part.ask(read, self.missing)
        return answer.yes


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


class _Parser:
    """One token at a time, from left to right."""

    __slots__ = ("_next", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*self._split()]
        self._next = 0

    def _split(self) -> Iterator[_Token]:
        place = 0
        while place < len(self._text.rstrip()):
            match = _TOKEN.match(self._text, place)
            if match is None:
                raise self._complain(place)
            kind = str(match.lastgroup)
            word = match[kind]
            if kind == "word" and word.lower() in _KEYWORDS:
                kind, word = "keyword", word.lower()
            yield _Token(kind, word, match.start(str(match.lastgroup)))
            place = match.end()

    def _complain(self, place: int) -> ParameterError:
        left = self._text[place:].strip()
        before = re.search(r"[^\W\d]\w*(?=\s+$)", self._text[:place])
        word = re.match(r"\w+", left)
        hint = ""
        if before is not None and word is not None and before[0].lower() not in _KEYWORDS:
            named = f'"{before[0]} {word[0]}"'
            hint = f" (a column name with blanks goes in double quotes: {named})"
        return ParameterError(
            "where", self._text, f"cannot be read at {left!r}{hint}" if left else "ends too early"
        )

    def parse(self) -> _Part:
        asked = self._read_any()
        if self._next < len(self._tokens):
            raise self._complain(self._tokens[self._next].start)
        return asked

    def _take(self, *wanted: str) -> str | None:
        """Return the next mark or keyword, if it is one of these."""
        if self._next == len(self._tokens):
            return None
        token = self._tokens[self._next]
        if token.kind not in ("mark", "keyword") or token.text not in wanted:
            return None
        self._next += 1
        return token.text

    def _expect(self, wanted: str) -> None:
        if self._take(wanted) is None:
            raise self._complain_here()

    def _complain_here(self) -> ParameterError:
        ended = self._next == len(self._tokens)
        return self._complain(len(self._text) if ended else self._tokens[self._next].start)

    def _read_any(self) -> _Part:
        parts = [self._read_all()]
        while self._take("or"):
            parts.append(self._read_all())
        return parts[0] if len(parts) == 1 else _some(tuple(parts))

    def _read_all(self) -> _Part:
        parts = [self._read_not()]
        while self._take("and"):
            parts.append(self._read_not())
        return parts[0] if len(parts) == 1 else _All(tuple(parts))

    def _read_not(self) -> _Part:
        if self._take("not"):
            return _Not(self._read_not())
        if self._take("("):
            inside = self._read_any()
            self._expect(")")
            return inside
        return self._read_test()

    def _read_test(self) -> _Part:
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        if token is not None and token.kind in ("number", "text"):
            return self._read_turned()
        name = self._read_name()
        mark = self._take(*_OPERATORS)
        if mark is not None:
            return self._read_right(name, mark)
        if self._take("is"):
            missing: _Part = _IsNull(name)
            kept = self._take("not") is not None
            self._expect("null")
            return _Not(missing) if kept else missing
        negated = self._take("not") is not None
        choice = self._read_choice(name)
        if choice is None and negated:
            raise self._complain_here()
        if choice is None:
            return _Compare(name, "=", True)
        return _Not(choice) if negated else choice

    def _read_choice(self, name: str) -> _Part | None:
        """Return what comes after `not`, too: in, between, like."""
        if self._take("in"):
            return _some(tuple(_Compare(name, "=", value) for value in self._read_list()))
        if self._take("between"):
            low = self._read_value()
            self._expect("and")
            return _All((_Compare(name, ">=", low), _Compare(name, "<=", self._read_value())))
        if not self._take("like"):
            return None
        pattern = self._read_value()
        if not isinstance(pattern, str):
            raise ParameterError("where", self._text, "needs a text in quotes after like")
        return _Like(name, pattern)

    def _read_right(self, name: str, mark: str) -> _Part:
        """Read a value, or another column: double quotes are for texts on this side."""
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        if token is not None and (token.kind == "word" or token.text.startswith("`")):
            return _CompareColumns(name, mark, self._read_name())
        return _Compare(name, mark, self._read_value())

    def _read_turned(self) -> _Part:
        """Read a comparison that starts with the value, such as 1000 < distance."""
        value = self._read_value()
        mark = self._take(*_OPERATORS)
        if mark is None:
            raise self._complain_here()
        return _Compare(self._read_name(), _TURNED.get(mark, mark), value)

    def _read_list(self) -> list[_Value]:
        self._expect("(")
        values = [self._read_value()]
        while self._take(","):
            values.append(self._read_value())
        self._expect(")")
        return values

    def _read_name(self) -> str:
        if self._next == len(self._tokens):
            raise self._complain_here()
        token = self._tokens[self._next]
        if token.kind not in ("word", "quoted"):
            raise self._complain_here()
        self._next += 1
        return token.text if token.kind == "word" else _unquote(token.text)

    def _read_value(self) -> _Value:
        if self._next == len(self._tokens):
            raise self._complain_here()
        token = self._tokens[self._next]
        if token.kind == "keyword" and token.text in ("true", "false"):
            self._next += 1
            return token.text == "true"
        if token.kind not in ("number", "text", "quoted"):
            raise self._complain_here()
        self._next += 1
        return float(token.text) if token.kind == "number" else _unquote(token.text)


def _unquote(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])
