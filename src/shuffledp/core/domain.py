"""Public domains: the set a person's value comes from, declared before anybody looks at the data.

A domain numbers its values 0, 1, ..., size - 1. Randomizers see these codes only; `codes` turns
values into them and refuses everything outside, `values` turns them back. `Cells` and `Bins` are parts of a range of
which only the number is sent.

The domain of a person who answers several questions is `Answers`: one value of each of several domains. A joint code
counts all combinations, the last answer first: code = a_1 + size_1 (a_2 + size_2 (...)). Few questions have few enough
combinations for that, so whoever has the answers as columns keeps them as columns: `split` and `join` go from one to
the other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.core.arrays import Bools, Codes, Floats, Words
from shuffledp.core.errors import (
    DataError,
    MismatchError,
    ParameterError,
    PositionError,
    UnsupportedError,
)
from shuffledp.core.validate import number, whole

_AnyArray: TypeAlias = NDArray[Any]
_FINEST = 128  # points this many units in the last place apart survive all rounding below

PLACE_BITS = 41
"""Binary digits of a real value's place in its range: with 2^22 steps they fill a word."""


@runtime_checkable
class Domain(Protocol):
    """A finite public set of values, numbered from 0; as text it reads "3 categories"."""

    @property
    def size(self) -> int:
        """How many values there are."""

    @property
    def labels(self) -> tuple[str, ...]:
        """A readable name for each value, by code."""

    def codes(self, values: ArrayLike) -> Codes:
        """Return the code of each value; `DataError` if one is not in the domain."""

    def values(self, codes: Codes) -> Floats:
        """Return the number that each code stands for (a category stands for its own code)."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Bits:
    """Yes or no: booleans, or the integers 0 and 1; or, with a `true_value`, whether a text is that one.

    >>> Bits().codes([True, False])
    array([1, 0])
    >>> Bits(true_value="late").codes(["late", "on time", "cancelled"])
    array([1, 0, 0])
    """

    true_value: str | None = None

    def __post_init__(self) -> None:
        if self.true_value is not None and not _is_name(self.true_value):
            raise ParameterError("true_value", self.true_value, "must be a non-empty string")

    def __repr__(self) -> str:
        return "Bits()" if self.true_value is None else f"Bits(true_value={self.true_value!r})"

    def __str__(self) -> str:
        return "yes and no"

    @property
    def size(self) -> int:
        return 2

    @property
    def labels(self) -> tuple[str, ...]:
        return ("0", "1")

    def codes(self, values: ArrayLike) -> Codes:
        array = column(values)
        if self.true_value is not None:
            return np.where(array.astype(str) == self.true_value, 1, 0)
        if array.dtype == np.bool_:
            return array.astype(np.int64)
        return check_within(
            check_integers(array, "bits are booleans or the integers 0 and 1"), 2, "0 and 1"
        )

    def values(self, codes: Codes) -> Floats:
        return codes.astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Categories:
    """k categories, given as codes 0 .. k-1 or, if the domain has names, as those names.

    >>> Categories(k=3).codes([0, 2])
    array([0, 2])
    >>> Categories(k=2, names=("cat", "dog")).codes(["dog", "cat"])
    array([1, 0])
    >>> Categories(k=3).codes([0, 3])
    Traceback (most recent call last):
    shuffledp.core.errors.PositionError: value 3 at position 1 is outside the domain 0 .. 2
    """

    k: int
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        # The fields become Python's own numbers: NumPy's small integers would overflow in `size`.
        object.__setattr__(self, "k", whole("k", self.k, at_least=2))
        if self.names is None:
            return
        object.__setattr__(self, "names", tuple(self.names))
        if len(self.names) != self.k:
            raise ParameterError("names", self.names, f"must have k={self.k} entries")
        if not all(map(_is_name, self.names)):
            raise ParameterError("names", self.names, "must be non-empty strings")
        if len(set(self.names)) != self.k:
            raise ParameterError("names", self.names, "must be distinct")

    def __str__(self) -> str:
        return f"{self.k:,} categories"

    @property
    def size(self) -> int:
        return self.k

    @property
    def labels(self) -> tuple[str, ...]:
        return self.names if self.names is not None else _number(self.k)

    def codes(self, values: ArrayLike) -> Codes:
        array = column(values)
        if array.dtype.kind in "UTO" and self.names is not None:
            return self._codes_of_names(array)
        if array.dtype.kind in "UTO":
            raise DataError(
                f"categories are integer codes, but the values have type {array.dtype}: "
                f"if they are names, declare domain=Categories(k={self.k}, names=(...))"
            )
        wanted = "categories are integer codes" + (" or their names" if self.names else "")
        return check_within(check_integers(array, wanted), self.k, f"0 .. {self.k - 1}")

    def _codes_of_names(self, array: _AnyArray) -> Codes:
        assert self.names is not None
        code_of = {name: code for code, name in enumerate(self.names)}
        codes = np.empty(len(array), dtype=np.int64)
        for position, name in enumerate(array.tolist()):
            code = code_of.get(name) if isinstance(name, str) else None
            if code is None:
                raise PositionError(name, position, "is none of the categories")
            codes[position] = code
        return codes

    def values(self, codes: Codes) -> Floats:
        return codes.astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Integers:
    """The integers lower .. upper, both included; true is 1, and false is 0.

    >>> Integers(lower=-1, upper=1).codes([-1, 1])
    array([0, 2])
    >>> Integers(lower=0, upper=1).codes([True, False])
    array([1, 0])
    """

    lower: int
    upper: int

    def __post_init__(self) -> None:
        for name, end in (("lower", self.lower), ("upper", self.upper)):
            object.__setattr__(self, name, whole(name, end, at_least=-(2**53), at_most=2**53))
        if self.lower >= self.upper:
            raise ParameterError("upper", self.upper, f"must be > lower={self.lower}")

    def __str__(self) -> str:
        return f"integers {self.lower} .. {self.upper}"

    @property
    def size(self) -> int:
        return self.upper - self.lower + 1

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.lower, self.upper + 1)))

    def codes(self, values: ArrayLike) -> Codes:
        array = column(values)
        if array.dtype == np.bool_:
            array = array.astype(np.int64)
        check_integers(array, "the domain is integers")
        shown = f"{self.lower} .. {self.upper}"
        low, high = int(array.min()), int(array.max())
        if low < self.lower or high > self.upper:
            raise _locate_outside(array, (array < self.lower) | (array > self.upper), shown)
        codes: Codes = array.astype(np.int64, copy=False)
        return codes - self.lower if self.lower else codes

    def values(self, codes: Codes) -> Floats:
        return (codes.astype(np.int64) + self.lower).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reals:
    """Real numbers in [lower, upper], rounded to one of steps + 1 equally spaced points.

    A device first writes its value as a fixed-point number: its *place* between the ends, in units of 2^-41.
    Then it rounds the place to one of the two points around it, at random, with the probability that makes the
    expectation right. So no sum is biased, however coarse the grid; a value costs a variance of at most a
    quarter of a step's square; and privacy costs nothing, because the noise comes later.

    >>> temperature = Reals(lower=0.0, upper=1.0, steps=4)
    >>> place = temperature.places([0.3])  # 1.2 steps
    >>> {code: round(float(chance), 9) for code, chance in temperature.rounding_law(int(place[0]), 64).items()}
    {1: 0.8, 2: 0.2}
    >>> temperature.round(place, np.array([2**62], dtype=np.uint64), 64)
    array([1])
    >>> temperature.codes([0.0, 0.3, 1.0])  # the nearest points
    array([0, 1, 4])
    """

    lower: float
    upper: float
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", number("lower", self.lower))
        object.__setattr__(self, "upper", number("upper", self.upper))
        object.__setattr__(self, "steps", whole("steps", self.steps, at_least=1, at_most=2**32))
        if self.lower >= self.upper:
            raise ParameterError("upper", self.upper, f"must be > lower={self.lower!r}")
        number("upper - lower", self.upper - self.lower)
        if self._step < _FINEST * math.ulp(max(abs(self.lower), abs(self.upper))):
            raise ParameterError(
                "steps",
                self.steps,
                f"must be smaller: between {self.lower!r} and {self.upper!r} "
                "floating-point numbers are too far apart for so fine a grid",
            )

    @property
    def _step(self) -> float:
        return (self.upper - self.lower) / self.steps

    def __str__(self) -> str:
        return f"reals in [{self.lower:g}, {self.upper:g}] on {self.steps:,} steps"

    @property
    def size(self) -> int:
        return self.steps + 1

    @property
    def labels(self) -> tuple[str, ...]:
        # 15 digits tell neighbouring points apart and hide the rounding of 0.1 + 0.2.
        return tuple(f"{value:.15g}" for value in self.values(np.arange(self.size)))

    def codes(self, values: ArrayLike) -> Codes:
        return self._scale(read_reals(values, self.lower, self.upper), self.steps)

    def places(self, values: ArrayLike) -> Codes:
        """Place each value on 2^41 parts of the range; the grid does not matter."""
        return self._scale(read_reals(values, self.lower, self.upper), 1 << PLACE_BITS)

    def locate(self, places: Codes) -> Floats:
        """Return the values at these places.

        >>> Reals(lower=2.0, upper=4.0, steps=1).locate(np.array([0, 1 << 40]))
        array([2., 3.])
        """
        share: Floats = np.asarray(places, dtype=np.float64) / (1 << PLACE_BITS)
        return np.clip(self.lower + (self.upper - self.lower) * share, self.lower, self.upper)

    def round(self, places: Codes, words: Words, bits: int) -> Codes:
        """Return the code of one of the two points around each place, by a uniform word of `bits` bits each."""
        code, part = self.split(places)
        drawn = words.astype(np.uint64) >> np.uint64(max(bits - PLACE_BITS, 0))
        return code + (drawn < part.astype(np.uint64) >> np.uint64(max(PLACE_BITS - bits, 0)))

    def rounding_law(self, place: int, bits: int) -> dict[int, Fraction]:
        """Return the law of `round`: exactly unbiased for words of at least 41 bits."""
        code, part = (int(each[0]) for each in self.split(np.array([place])))
        kept = min(bits, PLACE_BITS)
        up = Fraction(part >> (PLACE_BITS - kept), 1 << kept)
        return {code: 1 - up} | ({code + 1: up} if up else {})

    def split(self, places: Codes) -> tuple[Codes, Codes]:
        """Return the point below each place, and what is above it in units of 2^-41 steps.

        A place is off by half a unit, so what is as near to a point as that is taken for the point: values on
        the grid stay there.
        """
        near = self.steps * 65 >> 7
        # places * steps + near, whose 73 bits are no integer: in two parts.
        high, low = places >> 20, places & ((1 << 20) - 1)
        low = low * self.steps + near
        high = high * self.steps + (low >> 20)
        code = high >> (PLACE_BITS - 20)
        part = ((high & ((1 << (PLACE_BITS - 20)) - 1)) << 20) + (low & ((1 << 20) - 1))
        return code, np.where(part <= 2 * near, 0, part - near)

    def _scale(self, reals: Floats, largest: int) -> Codes:
        # The quotient first: it is at most 1, so nothing overflows however short the range is.
        scaled = (reals - self.lower) / (self.upper - self.lower) * largest
        return np.rint(scaled).astype(np.int64).clip(0, largest)

    def values(self, codes: Codes) -> Floats:
        inner = self.lower + codes.astype(np.float64) * self._step
        # Rounding could push the last point out of the domain.
        return np.where(codes == self.steps, self.upper, inner)


def rounding_words(domain: Domain) -> int:
    """Count the words of a tape that it takes to get from a place to a code: one if values are real.

    >>> rounding_words(Bits()), rounding_words(Reals(lower=0.0, upper=1.0, steps=10))
    (0, 1)
    """
    return 1 if isinstance(domain, Reals) else 0


def read_places(domain: Domain, values: ArrayLike) -> Codes:
    """Return the place of each value: of a real one in its range, of any other its code.

    >>> read_places(Integers(lower=3, upper=9), [4, 9])
    array([1, 6])
    """
    return domain.places(values) if isinstance(domain, Reals) else domain.codes(values)


def round_places(domain: Domain, places: Codes, words: Words, bits: int) -> Codes:
    """Return the codes of places[n], by words[n, rounding_words].

    >>> round_places(Bits(), np.array([1, 0]), np.zeros((2, 0), dtype=np.uint64), 64)
    array([1, 0])
    """
    return domain.round(places, words[:, 0], bits) if isinstance(domain, Reals) else places


@lru_cache(maxsize=2)
def _number(k: int) -> tuple[str, ...]:
    return tuple(map(str, range(k)))


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name != ""


def column(values: ArrayLike) -> _AnyArray:
    """Return `values` as one array with one axis and at least one entry, none of them missing.

    A list, or a column of NumPy, pandas, Polars or PyArrow (categories and dictionaries included).

    >>> column([[1, 2], [3]])
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: values must be one column, but its rows have several lengths
    """
    if np.ma.is_masked(values):
        raise DataError("values has masked entries: first decide what becomes of them")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError("values must be one column, but its rows have several lengths") from error
    if array.ndim != 1:
        raise DataError(f"values must be one column, but have shape {array.shape}")
    if len(array) == 0:
        raise DataError("values is empty: at least one value is needed")
    _refuse_missing(values)
    return array


def _refuse_missing(values: object) -> None:
    # NumPy would turn nulls into NaN, and integers with them into floats. Polars and PyArrow call
    # the question `is_null`, pandas `isna`; asking by name needs none of them installed.
    ask = getattr(values, "is_null", None) or getattr(values, "isna", None)
    if ask is None:
        return
    missing = np.asarray(ask())
    if missing.any():
        complaint = "is missing: first decide what becomes of missing values"
        raise PositionError(None, int(np.argmax(missing)), complaint)


def read_reals(values: ArrayLike, lower: float, upper: float) -> Floats:
    """Read real numbers from lower to upper (true is 1, false is 0); raise `DataError` if there is anything else.

    >>> read_reals([0.5, 2], 0.0, 1.0)
    Traceback (most recent call last):
    shuffledp.core.errors.PositionError: value 2.0 at position 1 is outside the domain [0.0, 1.0]
    """
    array = column(values)
    if array.dtype.kind not in "biuf":
        raise DataError(f"the domain is real numbers, but the values have type {array.dtype}")
    reals = array.astype(np.float64)
    inside = (reals >= lower) & (reals <= upper)  # False for NaN
    if not inside.all():
        raise _locate_outside(array, ~inside, f"[{lower!r}, {upper!r}]")
    return reals


def find_outside(array: Codes, size: int) -> Bools | None:
    """Return which entries are not in 0 .. size-1, or None if all are.

    >>> find_outside(np.array([0, -1, 2]), 3)
    array([False,  True, False])
    """
    # A negative number read as unsigned is huge, so one pass over the data checks both ends.
    unsigned = array.view(array.dtype.str.replace("i", "u"))
    if len(array) == 0 or int(unsigned.max()) < size:
        return None
    return unsigned >= size


def check_integers(array: _AnyArray, wanted: str) -> Codes:
    """Return the array if it holds integers; otherwise raise a `DataError` that says what is wanted.

    >>> check_integers(np.array([0.5]), "bits are integers")
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: bits are integers, but the values have type float64
    """
    if array.dtype.kind not in "iu":
        raise DataError(f"{wanted}, but the values have type {array.dtype}")
    return array


def check_within(array: Codes, size: int, shown: str) -> Codes:
    """Return the array if all of it is in 0 .. size-1; otherwise raise a `PositionError`.

    >>> check_within(np.array([0, 7]), 5, "0 .. 4")
    Traceback (most recent call last):
    shuffledp.core.errors.PositionError: value 7 at position 1 is outside the domain 0 .. 4
    """
    wrong = find_outside(array, size)
    if wrong is not None:
        raise _locate_outside(array, wrong, shown)
    return array


def _locate_outside(array: _AnyArray, wrong: NDArray[np.bool_], shown: str) -> PositionError:
    position = int(np.argmax(wrong))
    return PositionError(array[position].item(), position, f"is outside the domain {shown}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Real numbers in [lower, upper], in `cells` parts of the same length.

    A value on the edge between two cells belongs to the lower one, `lower` to the first: so the cells up to an edge
    hold everybody with at most that value.

    >>> Cells(lower=0.0, upper=1.0, cells=4).codes([0.0, 0.3, 0.5, 1.0])
    array([0, 1, 1, 3])
    """

    lower: float
    upper: float
    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", number("lower", self.lower))
        object.__setattr__(self, "upper", number("upper", self.upper))
        if self.lower >= self.upper:
            raise ParameterError("upper", self.upper, f"must be > lower={self.lower!r}")
        object.__setattr__(self, "cells", whole("steps", self.cells, at_least=2))
        number("upper - lower", self.upper - self.lower)

    def __str__(self) -> str:
        return f"reals in [{self.lower:g}, {self.upper:g}] in {self.cells:,} cells"

    @property
    def size(self) -> int:
        return self.cells

    @property
    def edges(self) -> Floats:
        """The ends of the cells, from `lower` to `upper`.

        >>> Cells(lower=0.0, upper=8.25, cells=33).edges[:9].tolist()[-1]
        2.0
        """
        reach, places = self.upper - self.lower, np.arange(self.cells + 1)
        if math.isinf(reach * self.cells):
            inner = self.lower + reach * (places / self.cells)
        else:  # so that an edge that is a float is exact
            inner = self.lower + reach * places / self.cells
        inner[-1] = self.upper
        return inner

    @property
    def labels(self) -> tuple[str, ...]:
        return _name_cells(self.edges)

    def codes(self, values: ArrayLike) -> Codes:
        reals = read_reals(values, self.lower, self.upper)
        return _clip_to_cells(np.searchsorted(self.edges, reals, side="left"), self.size)

    def values(self, codes: Codes) -> Floats:
        """Return the middle of each cell."""
        return self.lower + (self.upper - self.lower) * ((codes + 0.5) / self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Real numbers in parts with the given edges; a value on an edge belongs to the upper part.

    >>> Bins(edges=(0, 18, 65, 120)).labels
    ('0 to 18', '18 to 65', '65 to 120')
    """

    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        edges = tuple(number("edges", edge) for edge in self.edges)
        object.__setattr__(self, "edges", edges)
        if len(edges) < 3:
            raise ParameterError("edges", self.edges, "must be at least three: two bins")
        if any(a >= b for a, b in pairwise(edges)):
            raise ParameterError("edges", self.edges, "must increase")

    @property
    def lower(self) -> float:
        """The smallest value."""
        return self.edges[0]

    @property
    def upper(self) -> float:
        """The largest value."""
        return self.edges[-1]

    def __str__(self) -> str:
        return f"reals in {self.size:,} bins from {self.edges[0]:g} to {self.edges[-1]:g}"

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        return _name_cells(np.array(self.edges))

    def codes(self, values: ArrayLike) -> Codes:
        reals = read_reals(values, self.lower, self.upper)
        return _clip_to_cells(np.searchsorted(self.edges, reals, side="right"), self.size)

    def values(self, codes: Codes) -> Floats:
        """Return the middle of each bin."""
        edges = np.array(self.edges)
        middles: Floats = (edges[:-1] + edges[1:]) / 2
        return middles[codes]


def _name_cells(edges: Floats) -> tuple[str, ...]:
    ends = [f"{edge:.12g}" for edge in edges.tolist()]
    return tuple(f"{low} to {high}" for low, high in pairwise(ends))


def _clip_to_cells(after: Codes, size: int) -> Codes:
    """Return the cells before these edges; the ends belong to the first and the last one."""
    return np.clip(after - 1, 0, size - 1).astype(np.int64)


Columns: TypeAlias = Sequence[Codes]
"""The codes of everybody's answers: one array for each question."""

_MOST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers to several questions, each from a domain of its own.

    >>> from shuffledp import Bits, Categories
    >>> both = Answers(parts=(Bits(), Categories(k=3)))
    >>> both.size, both.codes(([True, False], [2, 1]))
    (6, array([5, 2]))
    >>> both.split(np.array([5, 2]))
    (array([1, 0]), array([2, 1]))
    """

    parts: tuple[Domain, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts:
            raise ParameterError("parts", self.parts, "must be at least one domain")

    def __str__(self) -> str:
        return " and ".join(map(str, self.parts))

    @property
    def size(self) -> int:
        return math.prod(part.size for part in self.parts)

    @property
    def labels(self) -> tuple[str, ...]:
        columns = self.split(np.arange(self.size))
        names = [part.labels for part in self.parts]
        rows = zip(*(codes.tolist() for codes in columns), strict=True)
        return tuple(
            ", ".join(name[code] for name, code in zip(names, row, strict=True)) for row in rows
        )

    def codes(self, values: Any) -> Codes:
        """Return the joint codes of joint codes, or of a tuple, list or mapping of columns of values."""
        if isinstance(values, Mapping):
            values = tuple(values.values())
        if isinstance(values, tuple | list) and len(values) > 0 and np.ndim(values[0]) == 1:
            return self.join(self.columns(values))
        array = check_integers(column(values), "joint codes are integers")
        return check_within(array, self.size, f"0 .. {self.size - 1}")

    def columns(self, values: Sequence[ArrayLike]) -> tuple[Codes, ...]:
        """Return the codes of each column, by its own domain.

        >>> from shuffledp import Bits
        >>> Answers(parts=(Bits(), Bits())).columns(([0, 1], [1]))
        Traceback (most recent call last):
        shuffledp.core.errors.MismatchError: everybody answers every question, but the columns have 2 and 1 values
        """
        if len(values) != len(self.parts):
            raise MismatchError(f"{len(values)} columns for {len(self.parts)} questions")
        columns = tuple(part.codes(each) for part, each in zip(self.parts, values, strict=True))
        lengths = sorted({len(codes) for codes in columns}, reverse=True)
        if len(lengths) > 1:
            raise MismatchError(
                "everybody answers every question, but the columns have "
                f"{' and '.join(map(str, lengths))} values"
            )
        return columns

    def join(self, columns: Columns) -> Codes:
        """Return one code for each person; raise `UnsupportedError` if there are too many combinations."""
        if self.size > _MOST:
            raise UnsupportedError(
                f"{self.size:.3g} combinations of answers have no joint code: keep them as columns"
            )
        joint = np.zeros(len(columns[0]), dtype=np.int64)
        for part, codes in zip(reversed(self.parts), reversed(columns), strict=True):
            joint = joint * part.size + codes
        return joint

    def split(self, codes: Codes) -> tuple[Codes, ...]:
        """Return the code of each answer."""
        split: list[Codes] = []
        rest: Any = codes
        for part in self.parts:
            split.append(rest % part.size)
            rest = rest // part.size
        return tuple(split)

    def values(self, codes: Codes) -> Floats:
        return codes.astype(np.float64)
