"""What values mean, whatever their type: numbers, yes or no, names.

A file may hold a number as an integer, a float, a decimal, a boolean, a date or a text, and texts as other tools
write them. Each reader takes an Arrow array and says what is wrong with each value that it cannot read.

As numbers, booleans (also the words `true` and `false`) are 1 and 0, dates are days since 1970-01-01, and times
and durations are seconds. Words are read in any case, and spaces around a text do not count.

Missing is what has no value, an empty text, and what is spelt like one of the declared spellings (`MISSING`), in any
case; spellings that are numbers, such as -9, mean numbers of every type. A declared name is never missing. Names
compare letter by letter, but numbers and truths as they are written by any tool: 65 is 65.0, and True is true.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Bools, Codes
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.task import read_moment

FINE, NULL, UNKNOWN, OUT_OF_RANGE, NAN = range(5)
"""What is wrong with a value: nothing; it is missing, not of its kind, out of range, or not a number."""

BEYOND = 2**62
"""A number beyond every declared end."""

Faults: TypeAlias = NDArray[np.uint8]
"""For each value, what is wrong with it."""

_INTEGER = r"^[+-]?[0-9]{1,18}$"  # 18 digits always fit in 64 bits
_NUMBER = r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))$"
MISSING = ("NA", "N/A", "#N/A", "<NA>", "NaN", "null", "none")
"""What other tools write where a value is missing, unless something else is declared."""

_POINT = r"^([+-]?[0-9]+)\.0*$"  # 65.0
_ZEROS = r"^([+-]?[0-9]+\.[0-9]*[1-9])0+$"  # 2.50
_TRUTHS = {"true": ("true", "True", "TRUE", "1"), "false": ("false", "False", "FALSE", "0")}
_FEW = 64
_DAY = 86_400  # seconds
_DIGITS = 400  # more of them have only numbers that are no floats
_EXACT = 2.0**53  # below it, floats are exact where they are whole
_MISSING = ("NoneType", "NAType", "NaTType")  # two of them of pandas
_TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # in a second


class Numbers(NamedTuple):
    """Numbers or codes (0 where there is none), and what is wrong with each; None: nothing at all.

    >>> Numbers(np.array([7]), None).values
    array([7])
    """

    values: NDArray[Any]
    faults: Faults | None


def flatten(array: Any) -> Any:
    """Return one array without a dictionary, and texts of a kind that PyArrow computes with.

    >>> import pyarrow as pa
    >>> flatten(pa.chunked_array([["cat"], ["dog"]]).dictionary_encode()).to_pylist()
    ['cat', 'dog']
    """
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def read_bits(array: Any, missing: tuple[str, ...] = MISSING) -> Numbers:
    """Return 1 for yes and 0 for no; other numbers are for the caller to refuse.

    >>> import pyarrow as pa
    >>> read_bits(pa.array(["Yes", "n", "1.0"])).values.tolist()
    [1, 0, 1]
    """
    if is_text(array.type):
        numbers = _read_texts(array, _find_yes_or_no, _find_integers, gaps=missing)
        return _take_out(numbers, missing)
    return read_integers(array, "bits", missing)


def read_names(array: Any, names: tuple[str, ...], missing: tuple[str, ...] = MISSING) -> Numbers:
    """Return the place of each value's text among the names.

    >>> import pyarrow as pa
    >>> read_names(pa.array([" dog", "cow"]), ("cat", "dog")).faults
    array([0, 2], dtype=uint8)
    """
    if is_text(array.type):
        return _look_up(array, names, missing)
    # Distinct values are few, and their text is what the names are compared with.
    distinct = list_distinct(array, "categories")
    codes = np.zeros(len(distinct.dictionary), dtype=np.int64)
    faults = np.full(len(codes), UNKNOWN, dtype=np.uint8)
    for texts in _spell(distinct.dictionary):
        named = _look_up(texts, names, missing)
        right = faults > FINE if named.faults is None else (faults > FINE) & (named.faults == FINE)
        codes[right], faults[right] = named.values[right], FINE
        if named.faults is not None:
            faults[(faults == UNKNOWN) & (named.faults == NULL)] = NULL
    return spread(distinct.indices, codes, faults)


def list_distinct(array: Any, wanted: str) -> Any:
    """Return the distinct values and their places, as an Arrow dictionary; nested values have none.

    >>> import pyarrow as pa
    >>> list_distinct(pa.array([5, 7, 5]), "categories").indices.to_pylist()
    [0, 1, 0]
    """
    import pyarrow as pa

    try:
        return array.dictionary_encode()
    except pa.ArrowNotImplementedError:
        raise _complain(array, wanted) from None


def spread(indices: Any, codes: Codes, faults: Faults) -> Numbers:
    """Return what was found for distinct values, for each value; `indices` has a null for a null.

    >>> import pyarrow as pa
    >>> spread(pa.array([1, 1, 0]), np.array([7, 8]), np.zeros(2, dtype=np.uint8)).values
    array([8, 8, 7])
    """
    places = _fill(indices)
    if len(codes) == 0:
        return Numbers(np.zeros(len(indices), dtype=np.int64), places.faults)
    of_each = faults[places.values]
    if places.faults is not None:
        of_each = np.where(places.faults == FINE, of_each, places.faults)
    return Numbers(codes[places.values], of_each if of_each.any() else None)


def _spell(values: Any) -> list[Any]:
    """Return how the names of categories may spell values that are not text, likely ones first."""
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
        short = pc.replace_substring_regex(texts, r"(\.[0-9]*[1-9])0+$", r"\1")  # 2.5 of 2.50
        return [whole, pc.binary_join_element_wise(whole, ".0", ""), texts, short]
    if types.is_timestamp(kind) or types.is_time(kind):
        if types.is_timestamp(kind) and kind.tz is not None:  # engines do not agree on the zone
            values = values.cast(pa.timestamp(kind.unit, "UTC"))
        texts = pc.replace_substring_regex(values.cast(pa.string()), r"\.0*(Z?)$", r"\1")
        days = pc.replace_substring_regex(texts, r" 00:00:00Z?$", "")
        return [texts, pc.replace_substring(texts, " ", "T"), days]
    raise _complain(values, "categories")


def _look_up(array: Any, names: tuple[str, ...], missing: tuple[str, ...]) -> Numbers:
    return _read_texts(
        array,
        lambda some: _find_names(some, names),
        lambda some: _find_names(_shorten(some), _shorten_names(names)),
        lambda some: _find_truths(some, names),
        gaps=missing,
    )


@lru_cache(maxsize=16)
def _shorten_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names as `_shorten` writes them."""
    short = (re.sub(_POINT, r"\1", re.sub(_ZEROS, r"\1", name)) for name in names)
    return tuple(each.removeprefix("+") if re.match(_NUMBER, each) else each for each in short)


def _shorten(texts: Any) -> Any:
    """Write numbers without a point or zeros at the end: 65 for 65.0, as tools write one and the same number."""
    import pyarrow.compute as pc

    short = pc.replace_substring_regex(texts, _ZEROS, r"\1")
    return pc.replace_substring_regex(short, _POINT, r"\1")


def _find_truths(texts: Any, names: tuple[str, ...]) -> "_Found":
    """Return the place of true and false, which tools write in several ways, among the names."""
    import pyarrow.compute as pc

    truths = _find(pc.utf8_lower(texts), _make_texts(tuple(_TRUTHS)).cast(texts.type))
    values = np.zeros(len(texts), dtype=np.int64)
    fits = np.zeros(len(texts), dtype=np.bool_)
    for truth, spelt in enumerate(_TRUTHS.values()):
        place = next((names.index(each) for each in spelt if each in names), None)
        if place is not None:
            here = truths.fits & (truths.values == truth)
            values[here], fits = place, fits | here
    return _Found(values, fits)


def is_number(text: str) -> bool:
    """Return whether a text is a number as readers of texts understand it.

    >>> is_number(" 3.5"), is_number("1_000"), is_number("٣")
    (True, False, False)
    """
    return re.fullmatch(_NUMBER, text.strip()) is not None


def read_missing(given: Sequence[str] | str) -> tuple[str, ...]:
    """Read the spellings of missing values, from a list or from a text with commas between them.

    >>> read_missing("NA, -9"), read_missing("")
    (('NA', '-9'), ())
    """
    parts = given.split(",") if isinstance(given, str) else given
    if not all(isinstance(part, str) for part in parts):
        raise ParameterError("missing", given, "must be a list of texts such as 'NA' and '-9'")
    return tuple(part.strip() for part in parts if part.strip())


def find_missing(array: Any, missing: tuple[str, ...] = MISSING) -> Bools:
    """Return which values are missing: nulls, floats that are not numbers, empty texts, and what is spelt as missing.

    >>> import pyarrow as pa
    >>> find_missing(pa.array(["65", "NA", " ", None])), find_missing(pa.array([-9, 65]), ("-9",))
    (array([False,  True,  True,  True]), array([ True, False]))
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if is_text(array.type):
        return _are_missing(pc.utf8_trim_whitespace(array), missing)
    null = as_numpy(array.is_null())
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = as_numpy(array.cast(pa.float64(), safe=False))
        gone: Bools = null | np.isnan(values) | np.isin(values, _list_numbers(missing))
        return gone
    return null


@lru_cache(maxsize=16)
def _list_numbers(missing: tuple[str, ...]) -> tuple[float, ...]:
    """Return spellings of missing values that are numbers."""
    return tuple(float(each) for each in missing if re.match(_NUMBER, each) and each[-1:].isdigit())


def _take_out(numbers: Numbers, missing: tuple[str, ...]) -> Numbers:
    """Take out numbers that stand for a missing value."""
    known = _list_numbers(missing)
    if not known:
        return numbers
    gone = np.isin(numbers.values, known)
    if numbers.faults is not None:
        gone &= numbers.faults == FINE
    return Numbers(numbers.values, mark(numbers.faults, gone, NULL)) if gone.any() else numbers


@lru_cache(maxsize=4)
def _make_texts(names: tuple[str, ...]) -> Any:
    """Return names as an Arrow array. From its buffers: `pa.array` of a list imports pandas, which takes long."""
    import pyarrow as pa

    texts = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.large_string(), len(names), buffers)


def mark(faults: Faults | None, wrong: Bools, fault: int) -> Faults:
    """Note a further fault; the first one found in a value counts.

    >>> mark(None, np.array([False, True]), NAN)
    array([0, 4], dtype=uint8)
    """
    marked = np.zeros(len(wrong), dtype=np.uint8) if faults is None else faults.copy()
    marked[wrong & (marked == FINE)] = fault
    return marked


def read_integers(array: Any, wanted: str, missing: tuple[str, ...] = MISSING) -> Numbers:
    """Return whole numbers; `wanted` says for what, if the column holds something else.

    >>> import pyarrow as pa
    >>> read_integers(pa.array(["2.0", "1.4e+03"]), "integers").values
    array([   2, 1400])
    """
    import pyarrow as pa

    if is_text(array.type):
        texts = _read_texts(array, _find_digits, _find_integers, _find_truth, gaps=missing)
        return _take_out(texts, missing)
    array = _as_number(array, wanted)
    if pa.types.is_integer(array.type):
        return _take_out(_fill(array), missing)
    return _take_out(_make_whole(_fill(array.cast(pa.float64(), safe=False)), array), missing)


def read_numbers(array: Any, missing: tuple[str, ...] = MISSING) -> Numbers:
    """Return numbers as floats.

    >>> import pyarrow as pa
    >>> read_numbers(pa.array(["2", " 3.5"])).values
    array([2. , 3.5])
    """
    import pyarrow as pa

    if is_text(array.type):
        return _take_out(_read_texts(array, _find_floats, _find_truth, gaps=missing), missing)
    numbers = _as_number(array, "numbers").cast(pa.float64(), safe=False)
    return _take_out(_fill(numbers), missing)


def _as_number(array: Any, wanted: str) -> Any:
    """Return booleans, dates and times as numbers."""
    import pyarrow as pa

    kind, types = array.type, pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return array
    if types.is_boolean(kind):
        return array.cast(pa.uint8())
    if types.is_date(kind):
        return array.cast(pa.date32()).cast(pa.int32())
    if types.is_timestamp(kind) or types.is_time(kind) or types.is_duration(kind):
        import pyarrow.compute as pc

        ticks = array.cast(pa.int32() if types.is_time32(kind) else pa.int64())
        return pc.divide(ticks.cast(pa.float64(), safe=False), _TICKS[kind.unit])
    raise _complain(array, wanted)


def _make_whole(numbers: Numbers, cells: Any) -> Numbers:
    """Turn floats into integers: those with a fraction are invalid, those beyond every domain stay beyond it."""
    values, faults = numbers.values, numbers.faults
    not_numbers = np.isnan(values)
    if not_numbers.any():
        faults = mark(faults, not_numbers, NAN)
        values = np.where(not_numbers, 0, values)
    fractions = np.isfinite(values) & (values != np.floor(values))
    if fractions.any():
        faults = mark(faults, fractions, UNKNOWN)
    whole = np.clip(values, -BEYOND, BEYOND).astype(np.int64)
    # Above 2^53 floats have no units: what was written there decides.
    for place in np.flatnonzero(np.isfinite(values) & (np.abs(values) >= 2**53)):
        exact = Decimal(cells[int(place)].as_py())
        whole[place] = int(min(max(exact, Decimal(-BEYOND)), Decimal(BEYOND)))
        if exact != exact.to_integral_value():
            faults = mark(faults, np.arange(len(values)) == place, UNKNOWN)
    return Numbers(whole, faults)


class _Found(NamedTuple):
    """What a reader of texts found: numbers, and which texts it can read."""

    values: NDArray[Any]
    fits: Bools
    faults: Faults | None = None
    """What is wrong with those that it can read."""


def _read_texts(
    texts: Any, *readers: Callable[[Any], _Found], gaps: tuple[str, ...] = MISSING
) -> Numbers:
    """Read each text by the first reader that can; `gaps` are words for a missing value.

    The first reader sees all texts as they are. Those that it cannot read have the spaces around them
    taken off, and go to all readers in turn.
    """
    reading = readers[0](texts)
    if reading.fits.all():
        return Numbers(reading.values, reading.faults)
    import pyarrow.compute as pc

    values = np.where(reading.fits, reading.values, 0)
    faults = (
        np.zeros(len(texts), dtype=np.uint8) if reading.faults is None else reading.faults.copy()
    )
    left = np.flatnonzero(~reading.fits)
    rest = pc.utf8_trim_whitespace(_take(texts, left))
    for read in readers:
        reading = read(rest)
        here = left[reading.fits]
        values[here] = reading.values[reading.fits]
        faults[here] = 0 if reading.faults is None else reading.faults[reading.fits]
        if reading.fits.any():
            left, rest = left[~reading.fits], _take(rest, np.flatnonzero(~reading.fits))
    faults[left] = np.where(_are_missing(rest, gaps), NULL, UNKNOWN)
    return Numbers(values, faults if faults.any() else None)


def _take(array: Any, places: NDArray[np.int64]) -> Any:
    return array.take(as_arrow(places))


def _are_missing(texts: Any, gaps: tuple[str, ...]) -> Bools:
    """Find nulls and empty texts: readers of CSV do not agree on which an empty field is."""
    import pyarrow.compute as pc

    missing: Bools = as_numpy(texts.is_null()) | (as_numpy(pc.binary_length(texts)) == 0)
    if gaps:
        small = tuple(each.lower() for each in _shorten_names(gaps))
        missing |= _find(pc.utf8_lower(_shorten(texts)), _make_texts(small).cast(texts.type)).fits
    return missing


def _take_few(texts: Any) -> list[str] | None:
    """Return the texts as Python's, if they are few: to load PyArrow's functions takes longer than to read these."""
    if len(texts) > _FEW or texts.null_count or not is_text(texts.type):
        return None
    kind = np.dtype(np.int32 if str(texts.type) == "string" else np.int64)
    _, ends, data = texts.buffers()
    if ends is None or data is None:
        return None
    start = texts.offset * kind.itemsize
    places = np.frombuffer(ends, kind, count=len(texts) + 1, offset=start).tolist()
    with suppress(UnicodeDecodeError):
        return [data[low:high].to_pybytes().decode() for low, high in pairwise(places)]
    return None


def _find_names(texts: Any, names: tuple[str, ...]) -> _Found:
    """Return the place of each text among the names."""
    few = _take_few(texts)
    if few is None or len(names) > _FEW:
        return _find(texts, _make_texts(names).cast(texts.type))
    known = {name: place for place, name in enumerate(names)}
    places = np.array([known.get(text, -1) for text in few], dtype=np.int64)
    return _Found(np.maximum(places, 0), places >= 0)


def _find(texts: Any, known: Any) -> _Found:
    """Return the place of each text among the known ones."""
    import pyarrow.compute as pc

    places = pc.index_in(texts, value_set=known)
    place = as_numpy(places).astype(np.int64)  # other readers may find large numbers beside it
    if places.null_count == 0:
        return _Found(place, np.ones(len(texts), dtype=np.bool_))
    absent = as_numpy(places.is_null())
    return _Found(np.where(absent, 0, place), ~absent)


def _find_yes_or_no(texts: Any) -> _Found:
    return _find_words(texts, ("false", "true", "0", "1", "no", "yes", "f", "t", "n", "y"))


def _find_truth(texts: Any) -> _Found:
    return _find_words(texts, ("false", "true"))


def _find_words(texts: Any, words: tuple[str, ...]) -> _Found:
    """Return 0 and 1 for words that stand for no and yes in turns."""
    few = _take_few(texts)
    if few is not None:
        places = [words.index(text.lower()) if text.lower() in words else -1 for text in few]
        place = np.array(places, dtype=np.int64)
        return _Found(place & 1, place >= 0)
    import pyarrow.compute as pc

    every = _find(pc.utf8_lower(texts), _make_texts(words).cast(texts.type))
    return every._replace(values=every.values & 1)


def _find_digits(texts: Any) -> _Found:
    import pyarrow as pa

    return _parse(texts, _INTEGER, pa.int64())


def _find_floats(texts: Any) -> _Found:
    import pyarrow as pa

    return _parse(texts, _NUMBER, pa.float64())


def _find_integers(texts: Any) -> _Found:
    """Return whole numbers that are written with a decimal point, an exponent, or very many digits."""
    floats = _find_floats(texts)
    whole = _make_whole(Numbers(floats.values, None), texts)
    return _Found(whole.values, floats.fits, whole.faults)


def _parse(texts: Any, pattern: str, kind: Any) -> _Found:
    few = _take_few(texts)
    if few is not None:
        number = int if str(kind) == "int64" else float
        read = [number(text) if re.fullmatch(pattern, text) else None for text in few]
        values = np.array([each or 0 for each in read], dtype=np.int64 if number is int else float)
        return _Found(values, np.array([each is not None for each in read], dtype=np.bool_))
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


def _fill(array: Any) -> Numbers:
    if array.null_count == 0:
        return Numbers(as_numpy(array), None)
    nulls = as_numpy(array.is_null())
    values = np.where(nulls, 0, as_numpy(array))
    return Numbers(values, np.where(nulls, NULL, FINE).astype(np.uint8))


def measure_moments(array: Any, unit: str) -> Any:
    """Return dates and moments as numbers, days or seconds since 1970-01-01; in texts as texts, the others as they
    are.

    Days are whole: a moment belongs to its day, also to the last one of a range.

    >>> import pyarrow as pa
    >>> measure_moments(pa.array(["2013-07-04", "soon", None]), "days").to_pylist()
    ['15890', 'soon', None]
    >>> measure_moments(pa.array([129600], pa.timestamp("s")), "days").to_pylist()
    [1]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = flatten(array)
    if pa.types.is_date(array.type):
        days = _as_number(array, "dates")
        return days if unit == "days" else pc.multiply(days.cast(pa.int64()), _DAY)
    if pa.types.is_timestamp(array.type):
        seconds = _as_number(array, "dates")
        if unit == "seconds":
            return seconds
        return pc.floor(pc.divide(seconds, float(_DAY))).cast(pa.int64())
    if not is_text(array.type):
        return array
    distinct = array.dictionary_encode()
    texts = [_measure_text(text, unit) for text in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _measure_text(text: str, unit: str) -> str:
    moment = read_moment(text.strip())
    if moment is None:
        return text
    number, own = moment
    if own == unit:
        return repr(number)
    return repr(number * _DAY if own == "days" else math.floor(number / _DAY))


def spell_out(values: list[Any]) -> Any:
    """Spell values of no declared type as texts, each by itself: no value decides how another one is read.

    >>> spell_out([3, 3.0, 3.5, True, None, " three"]).to_pylist()
    ['3', '3', '3.5', 'true', None, ' three']
    """
    import pyarrow as pa

    kinds = set(map(type, values))
    texts: list[Any] = values
    if kinds == {int}:
        texts = list(map(_write_integer, values))
    elif kinds != {str}:
        texts = [_write(value, place) for place, value in enumerate(values)]
    try:
        return pa.array(texts, pa.large_string())
    except (pa.ArrowException, UnicodeError) as error:
        raise DataError("the values are not text in Unicode") from error


def _write(value: Any, place: int) -> str | None:
    """Write a value as text; None if it is missing."""
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    named = type(value).__name__
    if named in _MISSING:
        return None
    raise DataError(f"the value at position {place} is of type {named}: neither text nor a number")


def _write_integer(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes at most 4,300 digits of an integer, and all of a decimal
        return str(Decimal(value))


def _write_float(value: float) -> str | None:
    if math.isnan(value):
        return None
    whole = math.isfinite(value) and value == math.floor(value) and abs(value) < _EXACT
    return str(int(value)) if whole else repr(value)


def _write_decimal(value: Decimal) -> str | None:
    if not value.is_finite() or abs(value.adjusted()) > _DIGITS:
        return None if value.is_nan() else str(value)
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _write_moment(value: date | time) -> str | None:
    return str(value) if value == value else None  # pandas: what is not a time is not itself


def _write_duration(value: np.timedelta64) -> str | None:
    if np.isnat(value):
        return None
    months = np.datetime_data(value.dtype)[0] in ("Y", "M")  # which have no length in seconds
    return str(value) if months else repr(float(value / np.timedelta64(1, "s")))


_WRITERS: Mapping[Any, Callable[[Any], str | None]] = {
    str: str,
    bool | np.bool_: lambda value: "true" if value else "false",
    np.timedelta64: _write_duration,  # for NumPy an integer, too
    int | np.integer: lambda value: _write_integer(int(value)),
    float | np.floating: lambda value: _write_float(float(value)),
    Decimal: _write_decimal,
    date | time: _write_moment,
    timedelta: lambda value: repr(value.total_seconds()),
    np.datetime64: lambda value: None if np.isnat(value) else str(value).replace("T", " "),
}
"""How values of no declared type are spelt: the first that fits."""


def as_numpy(array: Any) -> NDArray[Any]:
    """Return the values of an Arrow array of numbers or booleans, whatever stands where there is a null.

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


def as_arrow(values: NDArray[Any], missing: Bools | None = None) -> Any:
    """Return numbers or booleans as an Arrow array, null where they are missing; from the buffer, as `as_numpy`.

    >>> as_arrow(np.array([2.5, 0.0]), np.array([False, True])).to_pylist(), as_arrow(np.array([True])).to_pylist()
    ([2.5, None], [True])
    """
    import pyarrow as pa

    plain = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else values
    valid = None
    if missing is not None and missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [valid, pa.py_buffer(np.ascontiguousarray(plain))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), buffers)


_FLOATS = {"halffloat": "float16", "float": "float32"}  # Arrow's names, where NumPy has others


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is that of texts.

    >>> import pyarrow as pa
    >>> is_text(pa.string()), is_text(pa.int8())
    (True, False)
    """
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _complain(array: Any, wanted: str) -> DataError:
    return DataError(f"the domain wants {wanted}, but the column holds values of type {array.type}")
