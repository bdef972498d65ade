"""From values to codes: what is a valid value, and what happens to the others.

A column may hold anything; a protocol knows the codes 0 .. size-1 of a declared public domain. A
`Coder` stands between them. It sees one chunk of an Arrow column at a time and depends on nothing
else, so every engine treats the same value in the same way.

| domain | values | text (CSV, JSON lines, string columns) |
|---|---|---|
| `Bits` | booleans, the numbers 0 and 1 | `true`, `yes`, `t`, `y`, `1`, `1.0`; `false`, `no`, `f`, `n`, `0`, `0.0` |
| `Bits` with a `true_value` | all, by their text | 1 for that text, letter by letter, 0 for all others |
| `Categories` with names | strings, dictionaries; numbers, booleans and dates by their text | the names, letter by letter |
| `Categories` without names | the whole numbers 0 .. k-1 | as integers |
| `Integers` | whole numbers of any type | `-12`, `+12`, `12.0`, `1.2e+01` |
| `Reals` | numbers of any type | `-1.5`, `2e3`, `inf`, `nan` |
| any other | what its own `codes` takes | its texts, or the numbers that they spell |

As numbers, booleans (also the words `true` and `false`) are 1 and 0, dates are days since 1970-01-01, and times
and durations are seconds. Words are read in any case, and spaces around a text do not count. An empty text is
missing; where a number or yes or no is wanted, so are `NA`, `N/A`, `null` and `none`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Bools, Codes
from shuffledp.core.domain import (
    PLACE_BITS,
    Bits,
    Categories,
    Domain,
    Integers,
    Reals,
    outside,
)
from shuffledp.core.errors import DataError, ParameterError, PositionError, UnsupportedError

__all__ = ["FAULTS", "OTHER", "Action", "Coded", "Coder", "OnInvalid", "as_numpy"]

FAULTS = ("null", "unknown", "out_of_range", "nan")
"""Why a value is not in the domain: missing; not a category or not a number; out of range; NaN."""

OTHER = "other"
"""The category that takes what has no category of its own."""

_FINE, _NULL, _UNKNOWN, _OUT_OF_RANGE, _NAN = range(5)
_INTEGER = r"^[+-]?[0-9]{1,18}$"  # 18 digits always fit in 64 bits
_NUMBER = r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))$"

_GAPS = ("na", "n/a", "null", "none")  # what other tools write where a number is missing
_TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # in a second
_BEYOND = 2**62  # beyond every declared end

_Faults: TypeAlias = NDArray[np.uint8]


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
    def read(cls, given: "OnInvalid | Mapping[str, str] | str") -> "OnInvalid":
        """From text, or from a mapping of faults to actions.

        >>> OnInvalid.read({"null": "drop"}) == OnInvalid(null=Action.DROP)
        True
        >>> OnInvalid.read("ignore")
        Traceback (most recent call last):
        shuffledp.core.errors.ParameterError: on_invalid='ignore' must be one of error, drop, other, clamp, or one for each of null, unknown, out_of_range, nan: 'null=drop,out_of_range=clamp'
        """
        if isinstance(given, OnInvalid):
            return given
        wrong = ParameterError("on_invalid", given, _WANTED)
        if isinstance(given, str):
            parts = [part.strip() for part in given.split(",")]
        elif isinstance(given, Mapping):
            parts = [f"{fault}={action}" for fault, action in given.items()]
        else:
            raise wrong
        general = {part for part in parts if "=" not in part}
        named = [part.split("=", 1) for part in parts if "=" in part]
        known = {action.value: action for action in Action}
        if not (general <= set(known) and all(f in FAULTS and a in known for f, a in named)):
            raise wrong
        chosen: dict[str, Action] = {}
        for action, faults in _MEANT.items():
            if action.value in general:
                chosen |= dict.fromkeys(faults, action)
        return cls(**chosen | {fault: known[action] for fault, action in named})

    @property
    def value(self) -> str:
        """The shortest text that `read` takes for it."""
        for name in ("error", "drop", "other", "clamp"):
            if self == OnInvalid.read(name):
                return name
        actions = ((each.name, getattr(self, each.name)) for each in fields(self))
        return ",".join(f"{fault}={a.value}" for fault, a in actions if a is not Action.ERROR)

    def __str__(self) -> str:
        return self.value

    @property
    def drops(self) -> bool:
        """Whether somebody may be left out."""
        return bool(self.faults_with(Action.DROP))

    def faults_with(self, action: Action) -> tuple[str, ...]:
        """The faults that are handled in that way.

        >>> OnInvalid.read("clamp").faults_with(Action.CLAMP)
        ('out_of_range',)
        """
        return tuple(fault for fault in FAULTS if getattr(self, fault) is action)

    def choose(self, faults: NDArray[np.uint8], action: Action) -> Bools:
        """Which of these faults (0: none, otherwise 1 + the place in `FAULTS`) are handled so."""
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
        """Whose codes count."""
        return np.ones(len(self.codes), dtype=np.bool_) if self.kept is None else self.kept

    def invalid(self, times: NDArray[np.int64] | None = None) -> dict[str, int]:
        """How many values are invalid, by reason; `times` says how often each one occurs (None: once)."""
        if self.faults is None:
            return dict.fromkeys(FAULTS, 0)
        masks = (self.faults == 1 + place for place in range(len(FAULTS)))
        counts = (int((mask if times is None else times[mask]).sum()) for mask in masks)
        return dict(zip(FAULTS, counts, strict=True))


class _Read(NamedTuple):
    """Codes, and what is wrong with each value (None: nothing at all)."""

    codes: Codes
    faults: _Faults | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coder:
    """Values to codes under a policy.

    >>> import pyarrow as pa
    >>> coder = Coder(domain=Integers(lower=0, upper=9), on_invalid=OnInvalid.DROP)
    >>> coded = coder.codes(pa.array([3, None, 12, 9]))
    >>> coded.users, coded.invalid()
    (2, {'null': 1, 'unknown': 0, 'out_of_range': 1, 'nan': 0})
    """

    domain: Domain
    on_invalid: OnInvalid

    def __post_init__(self) -> None:
        object.__setattr__(self, "on_invalid", OnInvalid.read(self.on_invalid))
        clamps = self.on_invalid.out_of_range is Action.CLAMP
        if clamps and not isinstance(self.domain, Integers | Reals):
            raise ParameterError("on_invalid", "clamp", "is for numbers: categories have no ends")
        if self.on_invalid.faults_with(Action.OTHER) and OTHER not in _names(self.domain):
            raise ParameterError("on_invalid", OTHER, f"needs a declared category {OTHER!r}")

    @property
    def largest(self) -> int:
        """The largest code, or place of a real value."""
        return 1 << PLACE_BITS if isinstance(self.domain, Reals) else self.domain.size - 1

    def agrees(self, other: "Coder") -> bool:
        """Whether both make the same of every column: places of reals do not depend on the grid."""
        here, there = self.domain, other.domain
        if isinstance(here, Reals) and isinstance(there, Reals):
            here, there = replace(here, steps=1), replace(there, steps=1)
        return here == there and self.on_invalid == other.on_invalid

    def nearest(self, codes: Codes) -> Codes:
        """The codes themselves; of real values, the nearest point of the grid to each place."""
        if not isinstance(self.domain, Reals):
            return codes
        half = np.full(len(codes), 1 << (PLACE_BITS - 1), dtype=np.uint64)
        return self.domain.round(codes, half, PLACE_BITS)

    def codes(self, array: Any) -> Coded:
        """Turn an Arrow array into codes; `PositionError` for the first value that the policy refuses.

        Real values become places, which each person's device rounds.
        """
        plain = _plain(array)
        read = _reader(self.domain)(plain, self.domain)
        if read.faults is None:
            return Coded(read.codes, None, None)
        self._refuse(plain, read.faults)
        # The code of a number out of range is that of the nearest end already.
        codes, others = read.codes, self.on_invalid.choose(read.faults, Action.OTHER)
        if others.any():
            codes = np.where(others, _names(self.domain).index(OTHER), codes)
        left_out = self.on_invalid.choose(read.faults, Action.DROP)
        return Coded(codes, ~left_out if left_out.any() else None, read.faults)

    def _refuse(self, array: Any, faults: _Faults) -> None:
        refused = self.on_invalid.choose(faults, Action.ERROR)
        if not refused.any():
            return
        position = int(np.argmax(refused))
        fault = int(faults[position])
        said = _complaint(fault, self.domain) + _advise(fault, self.domain)
        raise PositionError(array[position].as_py(), position, said)


def _advise(fault: int, domain: Domain) -> str:
    """How one may go on in spite of a fault."""
    name = FAULTS[fault - 1]
    actions = [Action.DROP, Action.CLAMP, *([Action.OTHER] if OTHER in _names(domain) else [])]
    ways = [f"{name}={action.value}" for action in actions if name in _MEANT[action]]
    return f"; to go on: on_invalid {' or '.join(ways)}"


def _complaint(fault: int, domain: Domain) -> str:
    if fault == _NULL:
        return "is missing"
    if isinstance(domain, Integers | Reals) and fault == _OUT_OF_RANGE:
        return f"is outside the domain {domain.lower!r} .. {domain.upper!r}"
    if isinstance(domain, Integers | Reals):
        integer = "is not an integer (for real numbers, give steps)"
        return integer if isinstance(domain, Integers) else "is not a number"
    if isinstance(domain, Bits):
        return "is neither true nor false"
    if isinstance(domain, Categories):
        return "is none of the categories"
    return f"is not in the domain {domain}"


def _names(domain: Domain) -> tuple[str, ...]:
    return (domain.names or ()) if isinstance(domain, Categories) else ()


def _plain(array: Any) -> Any:
    """One array without a dictionary, and texts of a kind that PyArrow computes with."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def _reader(domain: Domain) -> Callable[[Any, Any], _Read]:
    readers: dict[type, Callable[[Any, Any], _Read]] = {
        Bits: _bits,
        Categories: _categories,
        Integers: _whole_numbers,
        Reals: _reals,
    }
    if type(domain) in readers:
        return readers[type(domain)]
    if not isinstance(domain, Domain):
        raise UnsupportedError(
            f"files have no values for the domain {domain!r}: a domain has size, labels, codes and values"
        )
    return _ask_domain


def _bits(array: Any, domain: Bits) -> _Read:
    import pyarrow as pa

    if domain.true_value is not None:
        return _compare(array, domain.true_value)
    if _is_text(array.type):
        numbers = _read_texts(array, _find_yes_or_no, _find_integers)
    elif pa.types.is_boolean(array.type):
        numbers = _fill(array.cast(pa.uint8()))
    else:
        numbers = _integers(array, "bits")
    return _codes_below(numbers, domain.size)


def _compare(array: Any, wanted: str) -> _Read:
    """1 for this value, 0 for all others; what is missing is neither."""
    found = _read_names(array, (wanted,))
    if found.faults is None:
        return _Read(np.ones(len(array), dtype=np.int64), None)
    missing = found.faults == _NULL
    faults = np.where(missing, _NULL, _FINE).astype(np.uint8) if missing.any() else None
    return _Read((found.faults == _FINE).astype(np.int64), faults)


def _categories(array: Any, domain: Categories) -> _Read:
    if domain.names is None:
        return _codes_below(_integers(array, "category codes"), domain.k)
    return _read_names(array, domain.names)


def _read_names(array: Any, names: tuple[str, ...]) -> _Read:
    """The place of each value's text among the names."""
    if _is_text(array.type):
        return _look_up(array, names)
    # Distinct values are few, and their text is what the names are compared with.
    distinct = array.dictionary_encode()
    codes = np.zeros(len(distinct.dictionary), dtype=np.int64)
    faults = np.full(len(codes), _UNKNOWN, dtype=np.uint8)
    for texts in _spell(distinct.dictionary):
        found = _look_up(texts, names)
        right = (
            faults > _FINE if found.faults is None else (faults > _FINE) & (found.faults == _FINE)
        )
        codes[right], faults[right] = found.codes[right], _FINE
    return _spread(distinct.indices, codes, faults)


def _spread(indices: Any, codes: Codes, faults: _Faults) -> _Read:
    """What was found for distinct values, for each value; `indices` has a null for a null."""
    places = _fill(indices)
    if len(codes) == 0:
        return _Read(np.zeros(len(indices), dtype=np.int64), places.faults)
    of_each = faults[places.values]
    if places.faults is not None:
        of_each = np.where(places.faults == _FINE, of_each, places.faults)
    return _Read(codes[places.values], of_each if of_each.any() else None)


def _spell(values: Any) -> list[Any]:
    """How the names of categories may spell values that are not text, likely ones first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = values.type, pa.types
    if types.is_boolean(kind):
        texts = values.cast(pa.string())
        return [
            texts,
            pc.utf8_capitalize(texts),
            pc.utf8_upper(texts),
            values.cast(pa.uint8()).cast(pa.string()),
        ]
    if types.is_integer(kind) or types.is_date(kind):
        return [values.cast(pa.string())]
    if types.is_floating(kind) or types.is_decimal(kind):
        texts = values.cast(pa.string())
        whole = pc.replace_substring_regex(texts, r"\.0*$", "")
        return [whole, pc.binary_join_element_wise(whole, ".0", ""), texts]
    if types.is_timestamp(kind) or types.is_time(kind):
        texts = pc.replace_substring_regex(values.cast(pa.string()), r"\.0*(Z?)$", r"\1")
        days = pc.replace_substring_regex(texts, r" 00:00:00Z?$", "")
        return [texts, pc.replace_substring(texts, " ", "T"), days]
    raise _wrong_type(values, "categories")


def _look_up(array: Any, names: tuple[str, ...]) -> _Read:
    texts = _text_array(names).cast(array.type)
    numbers = _read_texts(array, lambda some: _find(some, texts), gaps=())
    return _Read(numbers.values, numbers.faults)


@lru_cache(maxsize=4)
def _text_array(names: tuple[str, ...]) -> Any:
    """Names as an Arrow array. From its buffers: `pa.array` of a list imports pandas, which takes long."""
    import pyarrow as pa

    texts = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.large_string(), len(names), buffers)


def _ask_domain(array: Any, domain: Domain) -> _Read:
    """A domain of somebody else's: it says itself what the code of each distinct value is."""
    distinct = array.dictionary_encode()
    found = [_ask_about(domain, value) for value in distinct.dictionary.to_pylist()]
    codes = np.array([0 if code is None else code for code in found], dtype=np.int64)
    faults = np.array([_UNKNOWN if code is None else _FINE for code in found], dtype=np.uint8)
    return _spread(distinct.indices, codes, faults)


def _ask_about(domain: Domain, value: object) -> int | None:
    for spelt in _read_python(value):
        with suppress(DataError, TypeError, ValueError):
            return int(domain.codes([spelt])[0])
    return None


def _read_python(value: object) -> Iterator[Any]:
    """The value, and if it is text the numbers that it may spell."""
    yield value
    if isinstance(value, str):
        for kind in (str.strip, int, float):
            with suppress(ValueError):
                yield kind(value)


class _Numbers(NamedTuple):
    """Numbers (0 where there is none) and what is wrong with each."""

    values: NDArray[Any]
    faults: _Faults | None


def _codes_below(numbers: _Numbers, size: int) -> _Read:
    wrong = outside(numbers.values, size)
    if wrong is None:
        return _Read(numbers.values, numbers.faults)
    return _Read(np.where(wrong, 0, numbers.values), _mark(numbers.faults, wrong, _UNKNOWN))


def _whole_numbers(array: Any, domain: Integers) -> _Read:
    numbers = _integers(array, "integers")
    values = _signed(numbers.values)
    wrong = (values < domain.lower) | (values > domain.upper)
    faults = _mark(numbers.faults, wrong, _OUT_OF_RANGE) if wrong.any() else numbers.faults
    return _Read(np.clip(values, domain.lower, domain.upper) - domain.lower, faults)


def _signed(values: NDArray[Any]) -> NDArray[np.int64]:
    if values.dtype == np.uint64:  # what does not fit is beyond every declared end
        values = np.minimum(values, np.uint64(_BEYOND))
    return values.astype(np.int64, copy=False)


def _reals(array: Any, domain: Reals) -> _Read:
    numbers = _floats(array)
    values = numbers.values
    inside = (values >= domain.lower) & (values <= domain.upper)
    faults = numbers.faults
    if not inside.all():
        not_numbers = np.isnan(values)
        faults = _mark(faults, not_numbers, _NAN)
        faults = _mark(faults, ~inside & ~not_numbers, _OUT_OF_RANGE)
        values = np.clip(np.nan_to_num(values, nan=domain.lower), domain.lower, domain.upper)
    return _Read(domain.places(values) if len(values) else values.astype(np.int64), faults)


def _mark(faults: _Faults | None, wrong: Bools, fault: int) -> _Faults:
    """Note a further fault; the first one found in a value counts."""
    marked = np.zeros(len(wrong), dtype=np.uint8) if faults is None else faults.copy()
    marked[wrong & (marked == _FINE)] = fault
    return marked


def _integers(array: Any, wanted: str) -> _Numbers:
    import pyarrow as pa

    if _is_text(array.type):
        return _read_texts(array, _find_digits, _find_integers, _find_truth)
    array = _as_number(array, wanted)
    if pa.types.is_integer(array.type):
        return _fill(array)
    return _make_whole(_fill(array.cast(pa.float64(), safe=False)), array)


def _floats(array: Any) -> _Numbers:
    import pyarrow as pa

    if _is_text(array.type):
        return _read_texts(array, _find_floats, _find_truth)
    return _fill(_as_number(array, "numbers").cast(pa.float64(), safe=False))


def _as_number(array: Any, wanted: str) -> Any:
    """Booleans, dates and times as numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = array.type, pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return array
    if types.is_boolean(kind):
        return array.cast(pa.uint8())
    if types.is_date(kind):
        return array.cast(pa.date32()).cast(pa.int32())
    if types.is_timestamp(kind) or types.is_time(kind) or types.is_duration(kind):
        ticks = array.cast(pa.int32() if types.is_time32(kind) else pa.int64())
        return pc.divide(ticks.cast(pa.float64(), safe=False), _TICKS[kind.unit])
    raise _wrong_type(array, wanted)


def _make_whole(numbers: _Numbers, cells: Any) -> _Numbers:
    """Floats as integers: those with a fraction are none, those beyond every domain stay beyond it."""
    values, faults = numbers.values, numbers.faults
    not_numbers = np.isnan(values)
    if not_numbers.any():
        faults = _mark(faults, not_numbers, _NAN)
        values = np.where(not_numbers, 0, values)
    fractions = np.isfinite(values) & (values != np.floor(values))
    if fractions.any():
        faults = _mark(faults, fractions, _UNKNOWN)
    whole = np.clip(values, -_BEYOND, _BEYOND).astype(np.int64)
    # Above 2^53 floats have no units: what was written there decides.
    for place in np.flatnonzero(np.isfinite(values) & (np.abs(values) >= 2**53)):
        exact = Decimal(cells[int(place)].as_py())
        whole[place] = int(min(max(exact, Decimal(-_BEYOND)), Decimal(_BEYOND)))
        if exact != exact.to_integral_value():
            faults = _mark(faults, np.arange(len(values)) == place, _UNKNOWN)
    return _Numbers(whole, faults)


class _Found(NamedTuple):
    """What a reader of texts found: numbers, and which texts it can read."""

    values: NDArray[Any]
    fits: Bools
    faults: _Faults | None = None
    """What is wrong with those that it can read."""


def _read_texts(
    texts: Any, *readers: Callable[[Any], _Found], gaps: tuple[str, ...] = _GAPS
) -> _Numbers:
    """Each text by the first reader that can; `gaps` are words for a missing value.

    The first reader sees all texts as they are. Those that it cannot read have the spaces around them
    taken off, and go to all readers in turn.
    """
    import pyarrow.compute as pc

    found = readers[0](texts)
    if found.fits.all():
        return _Numbers(found.values, found.faults)
    values = np.where(found.fits, found.values, 0)
    faults = np.zeros(len(texts), dtype=np.uint8) if found.faults is None else found.faults.copy()
    left = np.flatnonzero(~found.fits)
    rest = pc.utf8_trim_whitespace(_take(texts, left))
    for read in readers:
        found = read(rest)
        here = left[found.fits]
        values[here] = found.values[found.fits]
        faults[here] = 0 if found.faults is None else found.faults[found.fits]
        if found.fits.any():
            left, rest = left[~found.fits], _take(rest, np.flatnonzero(~found.fits))
    faults[left] = np.where(_are_missing(rest, gaps), _NULL, _UNKNOWN)
    return _Numbers(values, faults if faults.any() else None)


def _take(array: Any, places: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    buffers = [None, pa.py_buffer(np.ascontiguousarray(places))]
    return array.take(pa.Array.from_buffers(pa.int64(), len(places), buffers))


def _are_missing(texts: Any, gaps: tuple[str, ...]) -> Bools:
    """Nulls and empty texts: readers of CSV do not agree on which an empty field is."""
    import pyarrow.compute as pc

    missing: Bools = as_numpy(texts.is_null()) | (as_numpy(pc.binary_length(texts)) == 0)
    if gaps:
        missing |= _find(pc.utf8_lower(texts), _text_array(gaps).cast(texts.type)).fits
    return missing


def _find(texts: Any, known: Any) -> _Found:
    """The place of each text among the known ones."""
    import pyarrow.compute as pc

    places = pc.index_in(texts, value_set=known)
    if places.null_count == 0:
        return _Found(as_numpy(places), np.ones(len(texts), dtype=np.bool_))
    absent = as_numpy(places.is_null())
    return _Found(np.where(absent, 0, as_numpy(places)), ~absent)


def _find_yes_or_no(texts: Any) -> _Found:
    return _find_words(texts, ("false", "true", "0", "1", "no", "yes", "f", "t", "n", "y"))


def _find_truth(texts: Any) -> _Found:
    return _find_words(texts, ("false", "true"))


def _find_words(texts: Any, words: tuple[str, ...]) -> _Found:
    """0 and 1 for words that stand for no and yes in turns."""
    import pyarrow.compute as pc

    found = _find(pc.utf8_lower(texts), _text_array(words).cast(texts.type))
    return found._replace(values=found.values & 1)


def _find_digits(texts: Any) -> _Found:
    import pyarrow as pa

    return _parse(texts, _INTEGER, pa.int64())


def _find_floats(texts: Any) -> _Found:
    import pyarrow as pa

    return _parse(texts, _NUMBER, pa.float64())


def _find_integers(texts: Any) -> _Found:
    """Whole numbers that are written with a decimal point, an exponent, or very many digits."""
    found = _find_floats(texts)
    whole = _make_whole(_Numbers(found.values, None), texts)
    return _Found(whole.values, found.fits, whole.faults)


def _parse(texts: Any, pattern: str, kind: Any) -> _Found:
    import pyarrow.compute as pc

    matched = pc.match_substring_regex(texts, pattern)
    fits = as_numpy(matched) & ~as_numpy(texts.is_null())
    if fits.all():
        return _Found(_cast(texts, kind), fits)
    parsed = _cast(texts.filter(matched), kind)
    values = np.zeros(len(texts), dtype=parsed.dtype)
    values[fits] = parsed
    return _Found(values, fits)


def _cast(texts: Any, kind: Any) -> NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return as_numpy(texts.cast(kind))
    except pa.ArrowInvalid:  # PyArrow does not read +12
        return as_numpy(pc.utf8_ltrim(texts, "+").cast(kind))


def _fill(array: Any) -> _Numbers:
    if array.null_count == 0:
        return _Numbers(as_numpy(array), None)
    nulls = as_numpy(array.is_null())
    values = np.where(nulls, 0, as_numpy(array))
    return _Numbers(values, np.where(nulls, _NULL, _FINE).astype(np.uint8))


def as_numpy(array: Any) -> NDArray[Any]:
    """The values of an Arrow array of numbers or booleans, whatever stands where there is a null.

    From the buffer: Arrow's own conversions (also of scalars) import pandas, which takes longer than
    a small file. Numbers are not copied.

    >>> import pyarrow as pa
    >>> as_numpy(pa.array([True, False, True]).slice(1)), as_numpy(pa.array([7, 8, 9]).slice(1))
    (array([False,  True]), array([8, 9]))
    """
    import pyarrow as pa

    name, data = str(array.type), array.buffers()[1]
    kind = np.dtype(_FLOATS.get(name, name))
    if len(array) == 0:
        return np.empty(0, dtype=kind)
    if not pa.types.is_boolean(array.type):
        return np.frombuffer(data, kind, count=len(array), offset=array.offset * kind.itemsize)
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


_FLOATS = {"halffloat": "float16", "float": "float32"}  # Arrow's names, where NumPy has others


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _wrong_type(array: Any, wanted: str) -> DataError:
    return DataError(f"the domain wants {wanted}, but the column holds values of type {array.type}")
