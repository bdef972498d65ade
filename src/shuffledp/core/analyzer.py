"""Concept 3, the analyzer A: deterministic post-processing of what the shuffler lets through.

`tally` turns shuffled messages into integers, and tallies add. That is why the same analyzer works
on chunks, on a SQL group-by, on Spark and on a stream. `estimate` turns a tally into an answer.

An `Estimate` is a value, how far off it may be, and an interval; mechanisms release one, too. The value is unbiased
and never clipped. `clip()` and `simplex()` are labelled post-processing: they cost no privacy and usually help a
reader, but what they return is biased, so they run only when asked for.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Codes, Counts, Floats
from shuffledp.core.display import Number, as_text, list_numbers, make_picture
from shuffledp.core.domain import Domain, find_outside
from shuffledp.core.errors import DataError, MismatchError, ParameterError, UnsupportedError
from shuffledp.core.notebook import (
    Columns,
    as_html,
    make_arrow,
    make_columns,
    make_pandas,
    make_polars,
    say,
    stack,
)
from shuffledp.core.randomizer import Message, Shuffled
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import number

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Value: TypeAlias = float | Floats
"""One number, or one per bin."""


class Interval(NamedTuple):
    """Both ends of a confidence interval, each with the shape of the value."""

    low: Value
    high: Value


class ErrorLaw(Protocol):
    """How the estimate is distributed around the truth."""

    @property
    def stderr(self) -> Value:
        """Standard deviation of the estimate, or the estimate of it."""

    def interval(self, value: Value, level: float) -> Interval:
        """Return an interval that covers the truth with probability about `level`."""

    def exact_interval(self, value: Value, level: float) -> Interval:
        """Return an interval that covers with probability at least `level`, or raise `UnsupportedError`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormalError:
    """A sum of many independent reports: close to normal from a few hundred users on.

    >>> NormalError(stderr=2.0).interval(10.0, 0.95)
    Interval(low=6.080072030919893, high=13.919927969080106)
    """

    stderr: Value

    def interval(self, value: Value, level: float) -> Interval:
        # From the lower tail, which does not round to 0 however close the level is to 1.
        radius = -NormalDist().inv_cdf((1 - valid_level(level)) / 2) * self.stderr
        return Interval(value - radius, value + radius)

    def exact_interval(self, value: Value, level: float) -> Interval:
        raise UnsupportedError("no exact interval is known for this estimate: use interval()")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScaledError:
    """The error of `times / over` times an answer: frequencies from counts, a sum from a mean.

    >>> ScaledError(error=NormalError(stderr=2.0), over=100).stderr
    0.02
    """

    error: ErrorLaw
    times: int = 1
    over: int = 1

    @property
    def stderr(self) -> Value:
        return self._scale(self.error.stderr)

    def interval(self, value: Value, level: float) -> Interval:
        low, high = self.error.interval(value * self.over / self.times, level)
        return Interval(self._scale(low), self._scale(high))

    def exact_interval(self, value: Value, level: float) -> Interval:
        low, high = self.error.exact_interval(value * self.over / self.times, level)
        return Interval(self._scale(low), self._scale(high))

    def _scale(self, value: Value) -> Value:
        return value * self.times / self.over


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PostProcessed:
    """A value after post-processing, with the unbiased estimate it was made from."""

    value: Value
    step: str
    raw: "Estimate"

    def _repr_html_(self) -> str:
        """Return how notebooks show it: the values, and what was done to them."""
        shown = make_picture(self.raw)
        values = np.atleast_1d(np.asarray(self.value, dtype=np.float64)).tolist()
        rows = (row._replace(value=x) for row, x in zip(shown.rows, values, strict=True))
        note = f"{self.step}; errors and intervals are those of the raw estimate"
        return stack(as_html(replace(shown, rows=tuple(rows))), say(note, small=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """An unbiased answer and the law of its error.

    >>> answer = Estimate(value=np.array([-1.0, 7.0]), error=NormalError(stderr=2.0), limits=(0, 6))
    >>> answer.clip().value
    array([0., 6.])
    """

    value: Value
    error: ErrorLaw
    limits: tuple[float, float]
    """The two ends between which the truth must lie, from public facts alone."""
    labels: tuple[str, ...] | None = None

    @property
    def stderr(self) -> Value:
        """Standard error of `value`."""
        return self.error.stderr

    def interval(self, level: float) -> Interval:
        """Return the interval to quote: covers the truth with probability `level`, or a little more."""
        return self.error.interval(self.value, level)

    def exact_interval(self, level: float) -> Interval:
        """Return an interval that covers the truth with probability at least `level` at any n, by inverting the exact
        law.
        """
        return self.error.exact_interval(self.value, level)

    def label(self, domain: Domain) -> "Estimate":
        """Return the same estimate with the domain's names of the bins.

        >>> from shuffledp import Categories, protocols, run
        >>> estimate = run(protocols.krr.make_local(k=2, epsilon=1.0), [0, 1, 1])
        >>> estimate.label(Categories(k=2, names=("cat", "dog"))).labels
        ('cat', 'dog')
        """
        if self.labels is None or len(self.labels) != domain.size:
            return self
        try:
            return replace(self, labels=domain.labels)
        except UnsupportedError:  # words that nobody listed: the estimate names what it found
            return self

    def __str__(self) -> str:
        return as_text(make_picture(self))

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        return as_html(make_picture(self))

    def to_pandas(self, level: float = 0.95) -> "pd.DataFrame":
        """Return a row for each number: label, value, stderr, low, high (the interval at this level).

        >>> Estimate(value=3.0, error=NormalError(stderr=1.0), limits=(0, 9)).to_pandas().shape
        (1, 5)
        """
        return make_pandas(self._columns(level))

    def to_polars(self, level: float = 0.95) -> "pl.DataFrame":
        """Return the same for Polars.

        >>> Estimate(value=3.0, error=NormalError(stderr=1.0), limits=(0, 9)).to_polars()["value"].to_list()
        [3.0]
        """
        return make_polars(self._columns(level))

    def to_arrow(self, level: float = 0.95) -> "pa.Table":
        """Return the same as an Arrow table.

        >>> Estimate(value=3.0, error=NormalError(stderr=1.0), limits=(0, 9)).to_arrow().column_names
        ['label', 'value', 'stderr', 'low', 'high']
        """
        return make_arrow(self._columns(level))

    def _columns(self, level: float) -> Columns:
        return make_columns(Number._fields, list_numbers(self, level))

    def clip(self, limits: tuple[float, float] | None = None) -> PostProcessed:
        """Clip the value to the public range of the truth: the estimate's own, or the one given."""
        low, high = self.limits if limits is None else limits
        if math.isinf(low) and math.isinf(high):
            raise UnsupportedError("no public range is known here: give it, clip((low, high))")
        value = np.clip(self.value, low, high)
        return PostProcessed(
            value=float(value) if np.ndim(value) == 0 else value,
            step=f"clipped to [{low:.15g}, {high:.15g}]",
            raw=self,
        )

    def simplex(self, total: float | None = None) -> PostProcessed:
        """Return the nearest histogram (in Euclidean distance) without negative bins and with this public total.

        >>> Estimate(value=np.array([-2.0, 8.0, 4.0]), error=NormalError(stderr=1.0),
        ...          limits=(0, 10)).simplex().value
        array([0., 7., 3.])
        """
        if np.ndim(self.value) != 1:
            raise UnsupportedError("simplex() is for histograms; this estimate is one number")
        wanted = self.limits[1] if total is None else number("total", total)
        if math.isinf(wanted):
            raise UnsupportedError("no public total is known here: give it, simplex(total)")
        value = _project(np.asarray(self.value), wanted)
        return PostProcessed(value=value, step=f"projected onto total {wanted:.15g}", raw=self)


def _project(value: Floats, total: float) -> Floats:
    # The projection is max(value - shift, 0); the shift follows from which bins stay positive.
    # Relative to the largest bin, so that a total far smaller than the bins is not rounded away.
    relative = value - value.max()
    descending = np.sort(relative)[::-1]
    shifts = (np.cumsum(descending) - total) / np.arange(1, len(value) + 1)
    # The largest bin stays positive, unless the total is 0 and no bin does.
    positive = np.flatnonzero(descending > shifts)
    shift = shifts[positive[-1]] if len(positive) else shifts[0]
    projected: Floats = np.maximum(relative - shift, 0.0)
    return projected


_PACKED_BITS = 12  # 4,096 cells: 32 KB, which stay in the fastest cache
_AT_ONCE = 1 << 17  # codes: they stay in the cache until they are packed
_FEWEST = 1 << 15  # codes that are worth the packing


def count_codes(codes: Codes, size: int) -> Counts:
    """Count the codes that are 0, 1, ..., size - 1.

    >>> count_codes(np.array([2, 0, 2]), 4)
    array([1, 0, 2, 0])
    """
    counter = CodeCounter(size)
    counter.add(codes)
    return counter.total()


class CodeCounter:
    """Counts codes 0, 1, ..., size - 1, some at a time; none may be outside.

    `np.bincount` takes its time per number. So if codes have six bits at most, as many of them as fit are packed
    into a number of twelve bits, with operations on whole words, and the numbers are counted.

    >>> counter = CodeCounter(3)
    >>> counter.add(np.array([1, 1, 2]))
    >>> counter.total()
    array([0, 2, 1])
    """

    __slots__ = ("_bits", "_cells", "_counts")

    def __init__(self, size: int) -> None:
        self._counts = np.zeros(size, dtype=np.int64)
        self._bits = next((b for b in (3, 4, 6) if size <= 1 << b), 0)
        self._cells = np.zeros(1 << _PACKED_BITS if self._bits else 0, dtype=np.int64)

    def add(self, codes: Codes) -> None:
        """Count these, too."""
        # Two codes to a number do not pay if they fill the memory's bandwidth anyway.
        worthwhile = self._bits in (3, 4) or (self._bits == 6 and codes.dtype.itemsize < 8)
        if worthwhile and len(codes) >= _FEWEST:
            codes = self._add_packed(codes)
        if len(codes) < len(self._counts):
            np.add.at(self._counts, codes, 1)
        else:
            codes = codes.astype(np.int64, copy=False)
            self._counts += np.bincount(codes, minlength=len(self._counts))

    def _add_packed(self, codes: Codes) -> Codes:
        """Count most of the codes, and leave the last."""
        each = _PACKED_BITS // self._bits
        words = min(len(codes), _AT_ONCE) // (4 * each)  # of four packed numbers
        step = 4 * each * words
        room = np.empty(step, dtype=np.uint16)
        lanes = room.view(np.uint64).reshape(each, words)
        shifted = np.empty(words, dtype=np.uint64)
        while len(codes) >= step:
            room[:] = codes[:step]
            for place in range(1, each):
                np.left_shift(lanes[place], np.uint64(self._bits * place), out=shifted)
                lanes[0] |= shifted
            packed = room[: 4 * words]
            self._cells += np.bincount(packed, minlength=len(self._cells))
            codes = codes[step:]
        return codes

    def total(self) -> Counts:
        """Return the count of each code."""
        counts, cells = self._counts.copy(), self._cells
        while len(cells) > 0:
            lanes = cells.reshape(1 << self._bits, -1)  # by the highest code that is left
            counts += lanes.sum(axis=1)[: len(counts)]
            cells = lanes.sum(axis=0) if len(cells) > 1 << self._bits else self._cells[:0]
        return counts


Step: TypeAlias = Callable[[float], object]
"""Called with the part of the work that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """Integers that hold everything the analyzer needs; tallies of disjoint groups can be added.

    >>> monday = Tally(counts=np.array([3, 1]), users=4)
    >>> tuesday = Tally(counts=np.array([0, 2]), users=2)
    >>> (monday + tuesday).counts, (monday + tuesday).users
    (array([3, 3]), 6)
    """

    counts: Counts
    users: int

    def __post_init__(self) -> None:
        if self.counts.dtype != np.int64:
            raise ParameterError("counts", self.counts.dtype, "must have dtype int64")
        if self.users < 0:
            raise ParameterError("users", self.users, "must be >= 0")

    def __add__(self, other: "Tally") -> "Tally":
        if not isinstance(other, Tally):
            return NotImplemented
        if self.counts.shape != other.counts.shape:
            raise MismatchError(
                f"tallies of shapes {self.counts.shape} and {other.counts.shape} do not add: "
                "they come from protocols with different parameters"
            )
        return Tally(counts=self.counts + other.counts, users=self.users + other.users)

    def people(self) -> int:
        """Return the number of people in it; refuse none, because then there is nothing to estimate.

        >>> Tally(counts=np.array([0, 0]), users=0).people()
        Traceback (most recent call last):
        shuffledp.core.errors.DataError: the tally has no users: at least one is needed
        """
        if self.users < 1:
            raise DataError("the tally has no users: at least one is needed")
        return self.users


class Analyzer(Protocol):
    """A : Y* -> Z, as tally then estimate."""

    def tally(self, shuffled: Shuffled) -> Tally:
        """Return the integers that the estimate needs. Does not depend on the order of the messages."""

    def estimate(self, tally: Tally) -> Estimate:
        """Return the answer."""

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        """Return what one message adds to the answer to the *total* (count, sum, histogram), exactly.

        The estimate is linear in the messages; with the declared law this makes unbiasedness and
        variance exact statements about fractions, which the contract tests check.
        """

    def variance(self, inputs: Counts) -> Value:
        """Compute the exact variance of the estimate for a data set with inputs[x] users of code x."""


def message_tally(shuffled: Shuffled, alphabet: int) -> Tally:
    """Count each of the messages 0 .. alphabet-1.

    >>> message_tally(Shuffled(payload=np.array([2, 0, 2]), users=3), 4).counts
    array([1, 0, 2, 0])
    """
    payload = shuffled.payload
    check_messages(payload, alphabet)
    counts = count_codes(payload, alphabet)
    return Tally(counts=counts, users=shuffled.users)


def check_messages(payload: NDArray[Any], alphabet: int) -> None:
    """Refuse messages other than integers 0 .. alphabet-1."""
    if payload.ndim != 1 or payload.dtype.kind not in "iu":
        raise DataError(f"messages are integers 0 .. {alphabet - 1}, not {_describe(payload)}")
    if find_outside(payload, alphabet) is not None:
        raise DataError(f"a message is outside 0 .. {alphabet - 1}")


def tally_ones(shuffled: Shuffled) -> Tally:
    """Count the messages, if every one of them is the number 1.

    >>> tally_ones(Shuffled(payload=np.array([1, 1]), users=3)).counts
    array([2])
    """
    tally = message_tally(shuffled, 2)
    if tally.counts[0]:
        raise DataError("a message is 0, and only 1 is ever sent")
    return Tally(counts=tally.counts[1:], users=tally.users)


def bit_tally(shuffled: Shuffled, k: int) -> Tally:
    """Count, for each of the k bits, the vectors that have it set.

    >>> bit_tally(Shuffled(payload=np.array([[1, 0], [1, 1]], dtype=bool), users=2), 2).counts
    array([2, 1])
    """
    payload = shuffled.payload
    if payload.ndim != 2 or payload.shape[1] != k or payload.dtype != np.bool_:
        raise DataError(f"messages are vectors of {k} bits, not {_describe(payload)}")
    # 255 rows of ones still fit in a byte, and adding bytes is eight times faster than adding ints.
    bits = payload.view(np.uint8)
    counts = np.zeros(k, dtype=np.int64)
    for start in range(0, len(bits), 255):
        counts += np.add.reduce(bits[start : start + 255], axis=0, dtype=np.uint8)
    return Tally(counts=counts, users=shuffled.users)


def _describe(payload: NDArray[Any]) -> str:
    return f"an array of shape {payload.shape} and type {payload.dtype}"
