"""From values to codes: what is a valid value, and what happens to the others.

A column may hold anything; a protocol knows the codes 0 .. size-1 of a declared public domain. A
`Coder` stands between them. It sees one chunk of an Arrow column at a time and depends on nothing
else, so every engine treats the same value in the same way.

| domain | values | text (CSV, JSON lines, string columns) |
|---|---|---|
| `Bits` | booleans, the numbers 0 and 1 | `true`, `yes`, `t`, `y`, `1`, `1.0`; `false`, `no`, `f`, `n`, `0`, `0.0` |
| `Bits` with a `true_value` | all, by their text | 1 for that text (65 is 65.0), 0 for all others |
| `Categories` with names | strings, dictionaries; numbers, booleans and dates by their text | the names, letter by letter |
| `Categories` without names | the whole numbers 0 .. k-1 | as integers |
| `Integers` | whole numbers of any type | `-12`, `+12`, `12.0`, `1.2e+01` |
| `Reals`, `Cells`, `Bins` | numbers of any type | `-1.5`, `2e3`, `inf`, `nan` |
| any other | what its own `codes` takes | its texts, or the numbers that they spell |

How texts, dates and other types are read is the business of `engine.values`.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Bools, Codes
from shuffledp.core.display import MOMENTS
from shuffledp.core.domain import (
    PLACE_BITS,
    Bins,
    Bits,
    Categories,
    Cells,
    Domain,
    Integers,
    Reals,
    find_outside,
)
from shuffledp.core.errors import DataError, ParameterError, PositionError, UnsupportedError
from shuffledp.core.randomizer import WordSource
from shuffledp.core.task import read_moment
from shuffledp.core.texts import Keys, Texts
from shuffledp.engine.spelling import LIKE_DATE, OTHER_DATES, name_marks
from shuffledp.engine.values import (
    BEYOND,
    FINE,
    MISSING,
    NAN,
    NULL,
    OUT_OF_RANGE,
    UNKNOWN,
    Faults,
    Numbers,
    find_missing,
    flatten,
    is_number,
    list_distinct,
    mark,
    read_bits,
    read_integers,
    read_missing,
    read_names,
    read_numbers,
    spread,
)

FAULTS = ("null", "unknown", "out_of_range", "nan")
"""Why a value is not in the domain: missing; not a category or not a number; out of range; NaN."""

SEEDED = "the noise is seeded: whoever knows the seed can undo it, so this protects nobody"
"""What must be said of every answer with a seed."""
LEFT_OUT = "how many values were left out, and so n, is exact: that somebody's value was left out is not protected"
"""What must be said of every answer whose invalid values were dropped."""
FILTERED = "n is the exact number of people whom a filter takes: no noise protects who they are"
"""What messages say of a filter, whose words stay with the data."""
_DECIMAL = re.compile(r"[-+]?[0-9.]*[0-9],[0-9]+")
_THOUSANDS = re.compile(r"[-+]?[1-9][0-9]{0,2}(,[0-9]{3})+")
_WITH_DIGITS = re.compile(r"[^0-9A-Za-z]*[0-9][^A-Za-z]*")  # 12 %, $4.50, 1 234; not A4
_DATA_FILE = re.compile(r".+\.(csv|tsv|parquet|arrow|feather|jsonl|ndjson|json)(\.gz|\.zst|\.bz2)?")
# as accountants write one: (4.50), or 4.50-
_LOSS = re.compile(r"[^0-9]*\([^0-9]*[0-9][0-9.,]*[^0-9]*\)[^0-9]*|[^0-9]*[0-9][0-9.,]*\s*-")
_DATE = re.compile(rf"{LIKE_DATE}(?:[ T].*)?")

OTHER = "other"
"""The category that takes what has no category of its own."""


class Action(Enum):
    """What to do with a value that is not in the declared domain.

    >>> Action("drop").name
    'DROP'
    """

    ERROR = "error"
    """Stop at the first one, and name it."""
    DROP = "drop"
    """Leave its owner out: n gets smaller, and the guarantee must be made for that n."""
    OTHER = "other"
    """A missing or unknown category becomes the declared category "other"."""
    CLAMP = "clamp"
    """A number out of range becomes the nearest end."""


_MEANT: Mapping[Action, tuple[str, ...]] = {
    Action.ERROR: FAULTS,
    Action.DROP: FAULTS,
    Action.OTHER: ("null", "unknown"),
    Action.CLAMP: ("out_of_range",),
}
"""The faults that an action is for, from the widest to the narrowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnInvalid:
    """How to handle values that are not in the declared domain: an action for each fault.

    As text it is one action for the faults that it is for (the others are errors), several of them, or
    an action for each fault by name:

    >>> OnInvalid.read("drop").null, OnInvalid.read("clamp").null
    (<Action.DROP: 'drop'>, <Action.ERROR: 'error'>)
    >>> print(OnInvalid.read("clamp,drop"))
    null=drop,unknown=drop,out_of_range=clamp,nan=drop
    >>> print(OnInvalid.read("out_of_range=clamp,null=drop"))
    null=drop,out_of_range=clamp
    """

    null: Action = Action.ERROR
    """A missing value."""
    unknown: Action = Action.ERROR
    """Not a category, or not a number."""
    out_of_range: Action = Action.ERROR
    """A number outside the declared ends."""
    nan: Action = Action.ERROR
    """The float that is not a number."""
    missing: tuple[str, ...] = MISSING
    """How a missing value may be spelt, besides an empty text."""

    ERROR: ClassVar["OnInvalid"]
    DROP: ClassVar["OnInvalid"]
    OTHER: ClassVar["OnInvalid"]
    CLAMP: ClassVar["OnInvalid"]

    def __post_init__(self) -> None:
        for fault in FAULTS:
            action = getattr(self, fault)
            if fault not in _MEANT[action]:
                meant = " and ".join(_MEANT[action])
                raise ParameterError(fault, action.value, f"is for {meant} only")

    @classmethod
    def read(
        cls,
        given: "OnInvalid | Mapping[str, str] | str",
        missing: Sequence[str] | str | None = None,
    ) -> "OnInvalid":
        """Read a policy from text, or from a mapping of faults to actions; and how missing values may be spelt.

        >>> OnInvalid.read({"null": "drop"}) == OnInvalid(null=Action.DROP)
        True
        >>> OnInvalid.read("ignore")
        Traceback (most recent call last):
        shuffledp.core.errors.ParameterError: on_invalid='ignore' must be one of error, drop, other, clamp, or one for each of null, unknown, out_of_range, nan: 'null=drop,out_of_range=clamp'
        """
        if missing is not None:
            return replace(cls.read(given), missing=read_missing(missing))
        if isinstance(given, OnInvalid):
            return given
        if isinstance(given, str):
            parts = [part.strip() for part in given.split(",")]
        elif isinstance(given, Mapping):
            parts = [f"{fault}={action}" for fault, action in given.items()]
        else:
            raise ParameterError("on_invalid", given, _WANTED)
        general = {part for part in parts if "=" not in part}
        named = [part.split("=", 1) for part in parts if "=" in part]
        known = {action.value: action for action in Action}
        if not (general <= set(known) and all(f in FAULTS and a in known for f, a in named)):
            raise ParameterError("on_invalid", given, _WANTED)
        chosen: dict[str, Any] = {}
        for action, faults in _MEANT.items():
            if action.value in general:
                chosen |= dict.fromkeys(faults, action)
        return cls(**chosen | {fault: known[action] for fault, action in named})

    @property
    def value(self) -> str:
        """The shortest text that `read` takes for it."""
        for name in ("error", "drop", "other", "clamp"):
            if all(getattr(self, each) is getattr(OnInvalid.read(name), each) for each in FAULTS):
                return name
        actions = ((each, getattr(self, each)) for each in FAULTS)
        return ",".join(f"{fault}={a.value}" for fault, a in actions if a is not Action.ERROR)

    def __str__(self) -> str:
        return self.value

    @property
    def drops(self) -> bool:
        """Whether somebody may be left out."""
        return bool(self.faults_with(Action.DROP))

    @property
    def recodes(self) -> bool:
        """Whether a value may become another one: 'other', or the end of a range."""
        return bool(self.faults_with(Action.OTHER) or self.faults_with(Action.CLAMP))

    def skip_missing(self) -> "OnInvalid":
        """Return the same policy, which leaves out whoever has no answer.

        >>> print(OnInvalid.read("clamp").skip_missing())
        null=drop,out_of_range=clamp,nan=drop
        """
        return replace(self, null=Action.DROP, nan=Action.DROP)

    def faults_with(self, action: Action) -> tuple[str, ...]:
        """Return the faults that are handled in that way.

        >>> OnInvalid.read("clamp").faults_with(Action.CLAMP)
        ('out_of_range',)
        """
        return tuple(fault for fault in FAULTS if getattr(self, fault) is action)

    def choose(self, faults: NDArray[np.uint8], action: Action) -> Bools:
        """Return which of these faults (0: none, otherwise 1 + the place in `FAULTS`) are handled this way."""
        table = np.array([False, *(getattr(self, fault) is action for fault in FAULTS)])
        chosen: Bools = table[faults]
        return chosen


_WANTED = (
    f"must be one of {', '.join(action.value for action in Action)}, or one for each of "
    f"{', '.join(FAULTS)}: 'null=drop,out_of_range=clamp'"
)
OnInvalid.ERROR, OnInvalid.DROP = OnInvalid.read("error"), OnInvalid.read("drop")
OnInvalid.OTHER, OnInvalid.CLAMP = OnInvalid.read("other"), OnInvalid.read("clamp")


class Coded(NamedTuple):
    """The codes of a chunk; those that `kept` (None: all) leaves out mean nothing."""

    codes: Codes
    kept: Bools | None
    faults: NDArray[np.uint8] | None
    """0 for a valid value, otherwise 1 + its reason's place in `FAULTS`; None if all are valid."""

    @property
    def users(self) -> int:
        """How many people the chunk holds."""
        return len(self.codes) if self.kept is None else int(self.kept.sum())

    @property
    def valid(self) -> Bools:
        """Which codes are valid."""
        return np.ones(len(self.codes), dtype=np.bool_) if self.kept is None else self.kept

    def invalid(self, times: NDArray[np.int64] | None = None) -> dict[str, int]:
        """Say how many values are invalid, by reason; `times` says how often each one occurs (None: once)."""
        if self.faults is None:
            return dict.fromkeys(FAULTS, 0)
        masks = (self.faults == 1 + place for place in range(len(FAULTS)))
        counts = (int((mask if times is None else times[mask]).sum()) for mask in masks)
        return dict(zip(FAULTS, counts, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coder:
    """Turns values into codes under a policy.

    >>> import pyarrow as pa
    >>> coder = Coder(domain=Integers(lower=0, upper=9), on_invalid=OnInvalid.DROP)
    >>> coded = coder.codes(pa.array([3, None, 12, 9]))
    >>> coded.users, coded.invalid()
    (2, {'null': 1, 'unknown': 0, 'out_of_range': 1, 'nan': 0})
    """

    domain: Domain
    on_invalid: OnInvalid
    moments: str | None = None
    """What dates are counted in, days or seconds since 1970-01-01: errors write them as dates."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "on_invalid", OnInvalid.read(self.on_invalid))
        if self.on_invalid.faults_with(Action.CLAMP) and not _has_ends(self.domain):
            raise ParameterError("on_invalid", "clamp", "is for numbers: categories have no ends")
        if self.on_invalid.faults_with(Action.OTHER) and OTHER not in _list_names(self.domain):
            raise ParameterError(
                "on_invalid", OTHER, f"needs a declared category {OTHER!r}: add it to them"
            )

    @classmethod
    def for_part(cls, domain: Domain, on_invalid: OnInvalid, moments: str | None = None) -> "Coder":
        """Return the policy for one column of a survey: an action that does not apply to it becomes an error.

        >>> policy = OnInvalid.read("other,clamp")
        >>> print(Coder.for_part(Integers(lower=0, upper=9), policy).on_invalid)
        clamp
        >>> print(Coder.for_part(Categories(k=2, names=("cat", "other")), policy).on_invalid)
        other
        """
        useless = [
            *([] if OTHER in _list_names(domain) else [Action.OTHER]),
            *([] if _has_ends(domain) else [Action.CLAMP]),
        ]
        errors: dict[str, Any] = {
            fault: Action.ERROR for each in useless for fault in on_invalid.faults_with(each)
        }
        return cls(domain=domain, on_invalid=replace(on_invalid, **errors), moments=moments)

    @property
    def largest(self) -> int:
        """The largest code, or place of a real value."""
        return 1 << PLACE_BITS if isinstance(self.domain, Reals) else self.domain.size - 1

    def agrees(self, other: "Coder") -> bool:
        """Return whether both code every column alike: places of reals do not depend on the grid."""
        here, there = self.domain, other.domain
        if isinstance(here, Reals) and isinstance(there, Reals):
            here, there = replace(here, steps=1), replace(there, steps=1)
        return here == there and self.on_invalid == other.on_invalid

    def round(
        self, codes: Codes, source: WordSource | None = None, bits: int = PLACE_BITS
    ) -> Codes:
        """Return the codes; of real values, a point of the grid by a word each, or the one nearest to each place."""
        if not isinstance(self.domain, Reals):
            return codes
        if source is None:
            return self.domain.round(codes, np.full(len(codes), 1 << (bits - 1), np.uint64), bits)
        return self.domain.round(codes, source.words(len(codes), bits), bits)

    def codes(self, array: Any) -> Coded:
        """Turn an Arrow array into codes; `PositionError` for the first value that the policy refuses.

        Real values become places, which each person's device rounds.
        """
        plain = flatten(array)
        read = _choose_reader(self.domain)(plain, self.domain, self.on_invalid.missing)
        if read.faults is None:
            return Coded(read.values, None, None)
        self.refuse(plain, read.faults)
        # The code of a number out of range is that of the nearest end already.
        codes, others = read.values, self.on_invalid.choose(read.faults, Action.OTHER)
        if others.any():
            codes = np.where(others, _list_names(self.domain).index(OTHER), codes)
        left_out = self.on_invalid.choose(read.faults, Action.DROP)
        return Coded(codes, ~left_out if left_out.any() else None, read.faults)

    def refuse(self, array: Any, faults: Faults) -> None:
        """Raise `PositionError` for the first of these faults that the policy does not allow."""
        self._refuse_fractions(array, faults)
        refused = self.on_invalid.choose(faults, Action.ERROR)
        if not refused.any():
            return
        position = int(np.argmax(refused))
        fault = int(faults[position])
        value = array[position].as_py()
        fraction = _is_fraction(value, self.domain)
        said = _complain(fault, self.domain, fraction=fraction)
        if self.moments is not None and fault == OUT_OF_RANGE:
            value, said = _write_moments(value, self.domain, self.moments)
        elif self.moments is not None and fault != NULL and not fraction:
            said = "is not a date"
        doubtful = fault == UNKNOWN or isinstance(value, date)
        meant = _suspect(value, self.domain) if doubtful and not fraction else ""
        # To leave out what was only written in another way would leave out a part of the range.
        misread = bool(meant) or (fault == UNKNOWN and fraction)
        advice = "" if misread else _advise(fault, self.domain, self.on_invalid)
        if meant:  # one hint, and the one that helps
            said = said.partition(" (")[0]
        raise PositionError(value, position, said + meant + advice)

    def _refuse_fractions(self, array: Any, faults: Faults) -> None:
        """Refuse fractions among declared integers: to leave them out would leave out a part of the range."""
        if not isinstance(self.domain, Integers) or self.on_invalid.unknown is Action.ERROR:
            return
        for position in np.flatnonzero(faults == UNKNOWN).tolist():
            value = array[position].as_py()
            if _is_fraction(value, self.domain):
                said = _complain(UNKNOWN, self.domain, fraction=True)
                rule = "; on_invalid does not leave out fractions"
                raise PositionError(value, position, said + rule)


def _write_moments(value: object, domain: Any, moments: str) -> tuple[object, str]:
    """Return a date that is out of range, and what is wrong with it, as dates are written.

    >>> _write_moments("15890", Integers(lower=0, upper=365), "days")
    ('2013-07-04', 'is outside the domain 1970-01-01 .. 1971-01-01')
    """
    make = MOMENTS[moments]
    with suppress(TypeError, ValueError):
        value = f"{make(value)}"  # type: ignore[arg-type]
    return value, f"is outside the domain {make(domain.lower)} .. {make(domain.upper)}"


_REALS = "for real numbers, write an end with a point, such as 0.0, or give `steps`"
_IS_DATE = " (it is a date: ends may be dates, such as 2024-12-31)"


def _is_fraction(value: object, domain: Domain) -> bool:
    """Say whether a value is a number where an integer is wanted.

    >>> _is_fraction("3.5", Integers(lower=0, upper=9)), _is_fraction("x", Integers(lower=0, upper=9))
    (True, False)
    """
    if not isinstance(domain, Integers):
        return False
    if isinstance(value, str) and not is_number(value):  # Python's numbers may have 1_000 and ٣
        return False
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _suspect(value: object, domain: Domain) -> str:
    """Guess what a text that is not understood may mean, as a hint.

    >>> _suspect("172,5", Reals(lower=0, upper=250, steps=10)), _suspect("Ja", Bits())
    (' (decimals have a point; `decimal` declares commas)', ' (true_value says which one is yes)')
    >>> print(_suspect("Bern, CH", Categories(k=2, names=("Bern", "CH"))).strip())
    (a name that has a comma needs quotes: '"Bern, CH"')
    >>> _suspect("$27.60", Reals(lower=0, upper=250, steps=10))
    " (write numbers without units and spaces, as 1234.5; for files, `strip` '$' removes them)"
    >>> _suspect("(27.60)", Reals(lower=0, upper=250, steps=10))
    ' (write negative numbers as -1234.5)'
    """
    if isinstance(value, date) and isinstance(domain, Integers | Reals | Cells | Bins):
        return _IS_DATE
    if not isinstance(value, str) or isinstance(domain, Texts | Keys):
        return ""
    if _DATA_FILE.fullmatch(value.strip()):
        return (
            " (a list of strings is a column of values; several files are Path objects, or Files)"
        )
    if isinstance(domain, Bits):
        return " (true_value says which one is yes)"
    moment = read_moment(value.strip())
    if isinstance(domain, Categories):
        parts = [part.strip() for part in value.split(",")]
        if len(parts) > 1 and set(parts) <= set(_list_names(domain)):
            return f""" (a name that has a comma needs quotes: '"{value.strip()}"')"""
        timed = moment is not None and moment[1] == "seconds"
        dates = timed and any(read_moment(name) is not None for name in _list_names(domain))
        return " (it has a time of day: `bins` counts moments between `edges`)" if dates else ""
    if moment is not None:
        return _IS_DATE
    known = (
        (
            _THOUSANDS,
            " (write thousands without commas; for files, `strip` ',' removes them, and `decimal` ',' declares "
            "decimal commas)",
        ),
        (_DECIMAL, " (decimals have a point; `decimal` declares commas)"),
        (
            _DATE,
            f" (dates are written 2024-12-31; {OTHER_DATES})",
        ),
        (_LOSS, " (write negative numbers as -1234.5)"),
        (_WITH_DIGITS, _name_units(value.strip())),
    )
    return next((hint for pattern, hint in known if pattern.fullmatch(value.strip())), "")


def _name_units(text: str) -> str:
    marks = name_marks(text)
    if not marks:
        return " (write numbers as 1234.5)"
    return f" (write numbers without units and spaces, as 1234.5; for files, `strip` '{marks}' removes them)"


def _advise(fault: int, domain: Domain, policy: OnInvalid) -> str:
    """Suggest how to go on in spite of a fault, in addition to what the policy says already.

    >>> _advise(NULL, Integers(lower=0, upper=9), OnInvalid.CLAMP)
    '; to go on: on_invalid out_of_range=clamp,null=drop'
    >>> _advise(UNKNOWN, Categories(k=2, names=("cat", "dog")), OnInvalid.ERROR)
    "; to go on: declare it or a category 'other' (on_invalid unknown=other), or leave such people out (on_invalid unknown=drop)"
    """
    name = FAULTS[fault - 1]
    actions = {each: getattr(policy, each) for each in FAULTS}
    decided = "".join(f"{each}={a.value}," for each, a in actions.items() if a is not Action.ERROR)
    names = _list_names(domain)
    if names and OTHER not in names and name == "unknown":
        return (
            f"; to go on: declare it or a category {OTHER!r} (on_invalid {decided}{name}=other), or leave such "
            f"people out (on_invalid {decided}{name}=drop)"
        )
    # Whoever is out of range counts as the end: to leave them out would bias the answer.
    known = [Action.CLAMP] if name == "out_of_range" else [Action.DROP]
    known += [Action.OTHER] if OTHER in names else []
    ways = [f"{decided}{name}={action.value}" for action in known if name in _MEANT[action]]
    return f"; to go on: on_invalid {' or '.join(ways)}"


def _complain(fault: int, domain: Domain, *, fraction: bool = False) -> str:
    if isinstance(domain, Texts | Keys):
        return domain.complain(fault)
    if fault == NULL:
        return "is missing"
    if isinstance(domain, Integers | Reals | Cells | Bins) and fault == OUT_OF_RANGE:
        return f"is outside the domain {domain.lower!r} .. {domain.upper!r}"
    if isinstance(domain, Integers | Reals | Cells | Bins):
        return f"is not an integer ({_REALS})" if fraction else "is not a number"
    if isinstance(domain, Bits):
        return "is neither true nor false"
    if isinstance(domain, Categories):
        return "is none of the categories"
    return f"is not in the domain {domain}"


def _has_ends(domain: Domain) -> bool:
    return isinstance(domain, Integers | Reals | Cells | Bins | Texts | Keys)


def _list_names(domain: Domain) -> tuple[str, ...]:
    return (domain.names or ()) if isinstance(domain, Categories) else ()


def _choose_reader(domain: Domain) -> Callable[[Any, Any, tuple[str, ...]], Numbers]:
    readers: dict[type, Callable[[Any, Any, tuple[str, ...]], Numbers]] = {
        Bits: _code_bits,
        Categories: _code_names,
        Integers: _code_integers,
        Reals: _code_numbers,
        Cells: _code_numbers,
        Bins: _code_numbers,
        Texts: _code_words,
        Keys: _code_words,
    }
    if type(domain) in readers:
        return readers[type(domain)]
    try:
        _ = domain.size, domain.labels, domain.codes, domain.values
    except AttributeError:
        raise UnsupportedError(
            f"files cannot be read as {domain!r}: a domain has size, labels, codes and values"
        ) from None
    return _ask_domain


def _code_bits(array: Any, domain: Bits, missing: tuple[str, ...]) -> Numbers:
    if domain.true_value is not None:
        return _compare(array, domain.true_value, missing)
    return _limit_codes(read_bits(array, missing), domain.size)


def _compare(array: Any, wanted: str, spelt: tuple[str, ...]) -> Numbers:
    """Return 1 for this value, 0 for all others; what is missing is neither."""
    named = read_names(array, (wanted,), spelt)
    if named.faults is None:
        return Numbers(np.ones(len(array), dtype=np.int64), None)
    missing = named.faults == NULL
    faults = np.where(missing, NULL, FINE).astype(np.uint8) if missing.any() else None
    return Numbers((named.faults == FINE).astype(np.int64), faults)


def _code_names(array: Any, domain: Categories, missing: tuple[str, ...]) -> Numbers:
    if domain.names is None:
        return _limit_codes(read_integers(array, "category codes", missing), domain.k)
    return read_names(array, domain.names, missing)


def _code_words(array: Any, domain: Texts | Keys, missing: tuple[str, ...]) -> Numbers:
    """Code words; words that are too long have already been cut if they are to be clamped."""
    distinct = list_distinct(array, "words")
    codes, faults = domain.read(distinct.dictionary.to_pylist())
    gone = find_missing(distinct.dictionary, missing)
    return spread(distinct.indices, codes, np.where(gone, NULL, faults).astype(np.uint8))


def _ask_domain(array: Any, domain: Domain, missing: tuple[str, ...]) -> Numbers:
    """Ask a domain from a plug-in for the code of each distinct value."""
    distinct = list_distinct(array, "values")
    answers = [_ask_about(domain, value) for value in distinct.dictionary.to_pylist()]
    codes = np.array([0 if code is None else code for code in answers], dtype=np.int64)
    faults = np.array([UNKNOWN if code is None else FINE for code in answers], dtype=np.uint8)
    gone = find_missing(distinct.dictionary, missing) & (faults != FINE)
    return spread(distinct.indices, codes, np.where(gone, NULL, faults).astype(np.uint8))


def _ask_about(domain: Domain, value: object) -> int | None:
    for spelt in _read_python(value):
        with suppress(DataError, TypeError, ValueError):
            return int(domain.codes([spelt])[0])
    return None


def _read_python(value: object) -> Iterator[Any]:
    """Yield the value and, if it is text, the numbers that it may spell."""
    yield value
    if isinstance(value, str):
        for kind in (str.strip, int, float):
            with suppress(ValueError):
                yield kind(value)


def _limit_codes(numbers: Numbers, size: int) -> Numbers:
    wrong = find_outside(numbers.values, size)
    if wrong is None:
        return Numbers(numbers.values, numbers.faults)
    return Numbers(np.where(wrong, 0, numbers.values), mark(numbers.faults, wrong, UNKNOWN))


def _code_integers(array: Any, domain: Integers, missing: tuple[str, ...]) -> Numbers:
    values, faults = read_integers(array, "integers", missing)
    if values.dtype == np.uint64:  # what does not fit is beyond every declared end
        values = np.minimum(values, np.uint64(BEYOND))
    values = values.astype(np.int64, copy=False)
    wrong = (values < domain.lower) | (values > domain.upper)
    if wrong.any():
        faults = mark(faults, wrong, OUT_OF_RANGE)
    return Numbers(np.clip(values, domain.lower, domain.upper) - domain.lower, faults)


def _code_numbers(array: Any, domain: Reals | Cells | Bins, missing: tuple[str, ...]) -> Numbers:
    """Return places of reals, or codes; numbers that are missing or out of range are moved to an end."""
    values, faults = read_numbers(array, missing)
    inside = (values >= domain.lower) & (values <= domain.upper)
    if not inside.all():
        not_numbers = np.isnan(values)
        faults = mark(faults, not_numbers, NAN)
        faults = mark(faults, ~inside & ~not_numbers, OUT_OF_RANGE)
        values = np.clip(np.nan_to_num(values, nan=domain.lower), domain.lower, domain.upper)
    place = domain.places if isinstance(domain, Reals) else domain.codes
    return Numbers(place(values) if len(values) else values.astype(np.int64), faults)
