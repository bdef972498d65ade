"""From values to codes: what is a valid value, and what happens to the others.

A column may hold anything; a protocol knows the codes 0 .. size-1 of a declared public domain. A
`Coder` stands between them. It sees one chunk of an Arrow column at a time and depends on nothing
else, so every engine treats the same value in the same way.

| domain | values | text (CSV, JSON lines, string columns) |
|---|---|---|
| `Bits` | booleans, the integers 0 and 1 | `true`, `false` in any case, `0`, `1` |
| `Categories` with names | strings, dictionaries, integers and booleans by their text | the names, letter by letter |
| `Categories` without names | the integers 0 .. k-1 | decimal integers |
| `Integers` | integers | decimal integers, `-12` |
| `Reals` | integers, floats, decimals | decimal numbers, `-1.5`, `2e3`, `inf`, `nan` |
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

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

__all__ = ["FAULTS", "OTHER", "Coded", "Coder", "OnInvalid", "as_numpy"]

FAULTS = ("null", "unknown", "out_of_range", "nan")
"""Why a value is not in the domain: missing; not a category or not a number; out of range; NaN."""

OTHER = "other"
"""The category that takes what has no category of its own."""

_FINE, _NULL, _UNKNOWN, _OUT_OF_RANGE, _NAN = range(5)
_INTEGER = r"^-?[0-9]{1,18}$"  # 18 digits always fit in 64 bits
_LONG_INTEGER = r"^-?[0-9]{19,}$"
_NUMBER = r"^-?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))$"

_Faults: TypeAlias = NDArray[np.uint8]


class OnInvalid(Enum):
    """How to handle values that are not in the declared domain.

    >>> OnInvalid.read("drop")
    <OnInvalid.DROP: 'drop'>
    """

    ERROR = "error"
    """Stop at the first one, and name it."""
    DROP = "drop"
    """Leave its owner out: n gets smaller, and the guarantee must be made for that n."""
    OTHER = "other"
    """A missing or unknown category becomes the declared category "other"."""
    CLAMP = "clamp"
    """A number out of range becomes the nearest end; a missing one is still an error."""

    @classmethod
    def read(cls, name: "OnInvalid | str") -> "OnInvalid":
        """The member of that name.

        >>> OnInvalid.read("ignore")
        Traceback (most recent call last):
        shuffledp.core.errors.ParameterError: on_invalid='ignore' must be one of error, drop, other, clamp
        """
        if name not in [*cls, *(each.value for each in cls)]:
            names = ", ".join(each.value for each in cls)
            raise ParameterError("on_invalid", name, f"must be one of {names}")
        return cls(name)


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
        if self.on_invalid is OnInvalid.CLAMP and not isinstance(self.domain, Integers | Reals):
            raise ParameterError("on_invalid", "clamp", "is for numbers: categories have no ends")
        if self.on_invalid is OnInvalid.OTHER and OTHER not in _names(self.domain):
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
        return here == there and self.on_invalid is other.on_invalid

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
        if self.on_invalid is OnInvalid.DROP:
            return Coded(read.codes, read.faults == _FINE, read.faults)
        if self.on_invalid is OnInvalid.OTHER:
            other = _names(self.domain).index(OTHER)
            return Coded(np.where(read.faults == _FINE, read.codes, other), None, read.faults)
        # Clamped: the code of a number out of range is that of the nearest end.
        return Coded(read.codes, None, read.faults)

    def _refuse(self, array: Any, faults: _Faults) -> None:
        allowed = {
            OnInvalid.ERROR: (),
            OnInvalid.DROP: (_NULL, _UNKNOWN, _OUT_OF_RANGE, _NAN),
            OnInvalid.OTHER: (_NULL, _UNKNOWN),
            OnInvalid.CLAMP: (_OUT_OF_RANGE,),
        }[self.on_invalid]
        refused = (faults != _FINE) & ~np.isin(faults, allowed)
        if not refused.any():
            return
        position = int(np.argmax(refused))
        complaint = _complaint(int(faults[position]), self.domain)
        advice = _ADVICE.get(self.on_invalid, "")
        raise PositionError(array[position].as_py(), position, complaint + advice)


_ADVICE = {
    OnInvalid.ERROR: "; on_invalid chooses how to handle such values",
    OnInvalid.CLAMP: "; on_invalid=clamp is for numbers out of range only",
}


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
    return "is none of the categories"


def _names(domain: Domain) -> tuple[str, ...]:
    return (domain.names or ()) if isinstance(domain, Categories) else ()


def _plain(array: Any) -> Any:
    """One array without a dictionary, and texts of a kind that PyArrow computes with."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def _reader(domain: Domain) -> Callable[[Any, Any], _Read]:
    readers: dict[type, Callable[[Any, Any], _Read]] = {
        Bits: _bits,
        Categories: _categories,
        Integers: _whole_numbers,
        Reals: _reals,
    }
    if type(domain) not in readers:
        raise UnsupportedError(f"files have no values for the domain {domain!r}")
    return readers[type(domain)]


def _bits(array: Any, domain: Bits) -> _Read:
    import pyarrow as pa
    import pyarrow.compute as pc

    if _is_text(array.type):
        found = _look_up(pc.utf8_lower(array), ("false", "true", "0", "1"))
        return found._replace(codes=found.codes & 1)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    return _codes_below(_integers(array, "bits"), domain.size)


def _categories(array: Any, domain: Categories) -> _Read:
    import pyarrow as pa

    if domain.names is None:
        return _codes_below(_integers(array, "category codes"), domain.k)
    if _is_text(array.type):
        return _look_up(array, domain.names)
    if not (pa.types.is_integer(array.type) or pa.types.is_boolean(array.type)):
        raise _wrong_type(array, "categories")
    # Distinct values are few, and their text is what the names are compared with.
    distinct = array.dictionary_encode()
    text = pa.DictionaryArray.from_arrays(distinct.indices, distinct.dictionary.cast(pa.string()))
    return _look_up(text.dictionary_decode(), domain.names)


def _look_up(array: Any, names: tuple[str, ...]) -> _Read:
    import pyarrow.compute as pc

    found = pc.index_in(array, value_set=_text_array(names).cast(array.type))
    if found.null_count == 0:
        return _Read(as_numpy(found), None)
    absent, nulls = as_numpy(found.is_null()), _find_missing(array)
    return _Read(np.where(absent, 0, as_numpy(found)), _join_faults(nulls, absent & ~nulls))


@lru_cache(maxsize=4)
def _text_array(names: tuple[str, ...]) -> Any:
    """Names as an Arrow array. From its buffers: `pa.array` of a list imports pandas, which takes long."""
    import pyarrow as pa

    texts = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.large_string(), len(names), buffers)


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
        values = np.minimum(values, np.uint64(2**62))
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
        return _parse_integers(array)
    if not pa.types.is_integer(array.type):
        raise _wrong_type(array, wanted)
    return _fill(array)


def _floats(array: Any) -> _Numbers:
    import pyarrow as pa

    if _is_text(array.type):
        return _parse(array, _NUMBER, pa.float64())
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if not any(kind(array.type) for kind in kinds):
        raise _wrong_type(array, "numbers")
    return _fill(array.cast(pa.float64(), safe=False))


def _parse(texts: Any, pattern: str, kind: Any) -> _Numbers:
    import pyarrow.compute as pc

    matched, nulls = pc.match_substring_regex(texts, pattern), _find_missing(texts)
    fits = as_numpy(matched) & ~nulls
    if fits.all():
        return _Numbers(as_numpy(texts.cast(kind)), None)
    parsed = as_numpy(texts.filter(matched).cast(kind))
    values = np.zeros(len(texts), dtype=parsed.dtype)
    values[fits] = parsed
    return _Numbers(values, _join_faults(nulls, ~fits & ~nulls))


def _parse_integers(texts: Any) -> _Numbers:
    import pyarrow as pa

    found = _parse(texts, _INTEGER, pa.int64())
    if found.faults is not None:
        for position in np.flatnonzero(found.faults == _UNKNOWN):
            long = _read_long_integer(texts[int(position)].as_py())
            if long is not None:
                found.values[position], found.faults[position] = long, _FINE
    return found


def _read_long_integer(text: str) -> int | None:
    """Read an integer of many digits as the nearest 64-bit one, which is out of every declared range."""
    import re

    if not re.match(_LONG_INTEGER, text):
        return None
    limits = np.iinfo(np.int64)
    digits = text.lstrip("-").lstrip("0") or "0"
    if len(digits) > 19:
        return int(limits.min if text.startswith("-") else limits.max)
    value = int(digits) * (-1 if text.startswith("-") else 1)
    return min(max(value, int(limits.min)), int(limits.max))


def _find_missing(texts: Any) -> Bools:
    """Nulls and empty texts: readers of CSV do not agree on which an empty field is."""
    import pyarrow.compute as pc

    missing: Bools = as_numpy(texts.is_null()) | (as_numpy(pc.binary_length(texts)) == 0)
    return missing


def _join_faults(nulls: Bools, unknown: Bools) -> _Faults | None:
    if not (nulls.any() or unknown.any()):
        return None
    faults = np.where(nulls, _NULL, _FINE).astype(np.uint8)
    faults[unknown] = _UNKNOWN
    return faults


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
