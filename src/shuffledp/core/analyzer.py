"""Concept 3, the analyzer A: deterministic post-processing of what the shuffler lets through.

`tally` turns shuffled messages into integers, and tallies add. That is why the same analyzer works
on chunks, on a SQL group-by, on Spark and on a stream. `estimate` turns a tally into an answer.

How many people have each code: `np.bincount`, at a fraction of its time if there are few codes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Codes, Counts
from shuffledp.core.domain import find_outside
from shuffledp.core.errors import DataError, MismatchError, ParameterError
from shuffledp.core.estimate import Estimate, Value
from shuffledp.core.randomizer import Message, Shuffled

_PACKED_BITS = 12  # 4,096 cells: 32 KB, which stay in the fastest cache
_AT_ONCE = 1 << 17  # codes: they stay in the cache until they are packed
_FEWEST = 1 << 15  # codes that are worth the packing


def count_codes(codes: Codes, size: int) -> Counts:
    """Return how many of the codes are 0, 1, ..., size - 1.

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
        """Return how many there were of each code."""
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
    """Integers that say everything the analyzer needs; tallies of disjoint groups add.

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
        """Return how many people it is of: at least one, or there is nothing to estimate.

        >>> Tally(counts=np.array([0, 0]), users=0).people()
        Traceback (most recent call last):
        shuffledp.core.errors.DataError: the tally is of no users: at least one is needed
        """
        if self.users < 1:
            raise DataError("the tally is of no users: at least one is needed")
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
        """Exact variance of the estimate for a data set with inputs[x] users of code x."""


def message_tally(shuffled: Shuffled, alphabet: int) -> Tally:
    """Return how often each message 0 .. alphabet-1 occurs.

    >>> message_tally(Shuffled(payload=np.array([2, 0, 2]), users=3), 4).counts
    array([1, 0, 2, 0])
    """
    payload = shuffled.payload
    check_messages(payload, alphabet)
    counts = count_codes(payload, alphabet)
    return Tally(counts=counts, users=shuffled.users)


def check_messages(payload: NDArray[Any], alphabet: int) -> None:
    """Refuses messages other than integers 0 .. alphabet-1."""
    if payload.ndim != 1 or payload.dtype.kind not in "iu":
        raise DataError(f"messages are integers 0 .. {alphabet - 1}, not {_describe(payload)}")
    if find_outside(payload, alphabet) is not None:
        raise DataError(f"a message is outside 0 .. {alphabet - 1}")


def tally_ones(shuffled: Shuffled) -> Tally:
    """Return how many messages there are, if every one of them is the number 1.

    >>> tally_ones(Shuffled(payload=np.array([1, 1]), users=3)).counts
    array([2])
    """
    tally = message_tally(shuffled, 2)
    if tally.counts[0]:
        raise DataError("a message is 0, and only 1 is ever sent")
    return Tally(counts=tally.counts[1:], users=tally.users)


def bit_tally(shuffled: Shuffled, k: int) -> Tally:
    """Return how many of the bit vectors have each of their k bits set.

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
