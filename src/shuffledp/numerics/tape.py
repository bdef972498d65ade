"""From uniform words to Bernoulli, uniform, tabulated and combinatorial draws, with their exact law.

A word is uniform on 0 .. 2^bits - 1. Every function here maps words to draws by integer thresholds and states
its law; `uniform_law` and `table_law` give it as fractions. Tests run each function over every word of a few
bits and require equality.

Uniform draws over k values are exact: 2^bits = k m + r, and a word below k m gives `word // m`. The
r words left over (a fraction below k / 2^bits, 2^-54 for k = 1024) are *not* folded onto some values,
which would make them more likely: the draw says "rejected" and the caller declares what follows in
its own law (k-ary randomized response keeps the truth, subset selection sends the empty set). No
loop is needed, so the tape has a fixed length, and estimators stay exactly unbiased.

Geometric numbers k = 1, 2, ... of probability proportional to e^(-rate k) take two words, however slowly they decay.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Bools, Codes, Counts, Words
from shuffledp.core.errors import ParameterError
from shuffledp.numerics.rounding import exp_lower


def word_type(bits: int) -> str:
    """Return NumPy's type of words of that many bits.

    >>> word_type(6), word_type(64)
    ('u1', 'u8')
    """
    return f"u{next(size for size in (1, 2, 4, 8) if 8 * size >= bits)}"


def bernoulli(words: Words, threshold: int, bits: int) -> Bools:
    """Return booleans that are true with probability threshold / 2^bits.

    >>> bernoulli(np.arange(4, dtype=np.uint8), 3, 2)
    array([ True,  True,  True, False])
    """
    if not 0 <= threshold <= 1 << bits:
        raise ParameterError("threshold", threshold, f"must be >= 0 and <= 2^{bits}")
    if threshold == 1 << bits:  # does not fit into a word
        return np.ones(words.shape, dtype=np.bool_)
    return words < words.dtype.type(threshold)


def uniform(words: Words, k: int, bits: int) -> Codes:
    """Draw uniformly from 0 .. k-1, or some number >= k: rejected.

    >>> uniform(np.arange(8, dtype=np.uint8), 3, 3)
    array([0, 0, 1, 1, 2, 2, 3, 3], dtype=uint8)
    """
    share = _share(k, bits)
    if k == 1:  # the share is 2^bits, which does not fit into a word
        return np.zeros_like(words)
    return words // words.dtype.type(share)


@lru_cache(maxsize=256)  # the same few, over and over
def uniform_share(k: int, bits: int) -> Fraction:
    """Return the probability that `uniform` draws a given one of the k values.

    >>> uniform_share(3, 3)
    Fraction(1, 4)
    """
    return Fraction(_share(k, bits), 1 << bits)


def uniform_law(k: int, bits: int) -> dict[int | None, Fraction]:
    """Return the law of `uniform`; None is a rejection."""
    share = uniform_share(k, bits)
    law: dict[int | None, Fraction] = dict.fromkeys(range(k), share)
    if k * share < 1:
        law[None] = 1 - k * share
    return law


def table(words: Words, shares: tuple[int, ...], bits: int) -> Codes:
    """Draw value i with probability shares[i] / 2^bits, by inversion of the cumulative table.

    >>> table(np.arange(4, dtype=np.uint8), (1, 0, 3), 2)
    array([0, 2, 2, 2])
    """
    _check_shares(shares, bits)
    upto = np.cumsum(np.array(shares, dtype=object))[:-1]  # the last end, 2^bits, fits no word
    ends = np.array([min(end, (1 << bits) - 1) for end in upto], dtype=words.dtype)
    values = np.searchsorted(ends, words, side="right")
    full = [end >> bits for end in upto]
    if not any(full):
        return values
    # Values whose cumulative share is already everything: no word lies beyond their end.
    return np.minimum(values, full.index(1))


def table_law(shares: tuple[int, ...], bits: int) -> dict[int, Fraction]:
    """Return the law of `table`."""
    _check_shares(shares, bits)
    return {i: Fraction(share, 1 << bits) for i, share in enumerate(shares) if share}


def add_distinct(chosen: Bools, words: Words, first: int, bits: int) -> Bools:
    """Add one element to each row of `chosen` for each column of words, in place.

    Floyd's method: for top = first, first + 1, ... draw t uniform on 0 .. top and add t, or top if t
    is already in. If the row was a uniform subset of 0 .. first-1, it is a uniform subset of
    0 .. top afterwards. Returns which rows are accepted; the bits of the others mean nothing.

    >>> chosen = np.array([[True, False, False, False]])
    >>> add_distinct(chosen, np.array([[0, 1]], dtype=np.uint64), 2, 64)
    array([ True])
    >>> chosen
    array([[ True, False,  True,  True]])
    """
    n, width = chosen.shape
    if not chosen.flags.c_contiguous:
        raise ParameterError("chosen", chosen.strides, "must be rows without gaps in memory")
    flat = chosen.reshape(-1)
    drawn, accepted = _draw_below(words, first, bits)
    drawn += np.arange(n) * width
    for step, spots in enumerate(drawn):
        # No row holds top yet, so its column may be overwritten with "t is already in".
        chosen[:, first + step] = flat.take(spots)
        flat[spots] = True
    return accepted


def _draw_below(words: Words, first: int, bits: int) -> tuple[NDArray[np.intp], Bools]:
    """Return t[size, n], column i of words giving t[i] uniform on 0 .. first + i, and the accepted rows."""
    n, size = words.shape
    drawn: NDArray[np.intp] = np.empty((size, n), dtype=np.intp)
    # Each column in a row of its own: long contiguous loops are fast.
    for step, column in enumerate(np.ascontiguousarray(words.T)):
        drawn[step] = uniform(column, first + step + 1, bits)
    tops = np.arange(first, first + size)
    if not (drawn.max(axis=1, initial=0) > tops).any():
        return drawn, np.ones(n, dtype=np.bool_)
    rejected = drawn > tops[:, None]
    drawn[rejected] = 0
    accepted: Bools = np.logical_not(rejected.any(axis=0))
    return drawn, accepted


@lru_cache(maxsize=64)  # exact, hence long: thousands of digits for large sets
def acceptance(first: int, size: int, bits: int) -> Fraction:
    """Return the probability that `add_distinct` accepts a row of `size` words.

    >>> acceptance(2, 1, 3)
    Fraction(3, 4)
    """
    words = prod(k * _share(k, bits) for k in range(first + 1, first + size + 1))
    return Fraction(words, 1 << bits * size)


@lru_cache(maxsize=1024)
def acceptance_float(first: int, size: int, bits: int) -> float:
    """Return `acceptance`, within a few rounding errors: for those who do not need all its digits.

    >>> acceptance_float(2, 1, 3)
    0.75
    """
    tops = np.arange(first + 1, first + size + 1, dtype=np.uint64)
    rejected = (np.uint64((1 << bits) - 1) % tops + np.uint64(1)) % tops  # of 2^bits words
    return float(np.exp(np.log1p(-(2.0**-bits) * rejected.astype(np.float64)).sum()))


def _share(k: int, bits: int) -> int:
    if k < 1 or k > 1 << bits:
        raise ParameterError("k", k, f"must be >= 1 and at most 2^{bits} for words of {bits} bits")
    return (1 << bits) // k


def _check_shares(shares: tuple[int, ...], bits: int) -> None:
    if any(share < 0 for share in shares) or sum(shares) != 1 << bits:
        raise ParameterError("shares", shares, f"must be >= 0 and sum to 2^{bits}")


FIXED = 128
"""Bits after the point of a probability."""


def square_powers(base: int, surplus: int) -> tuple[int, ...]:
    """Return p, p^2, p^4, ... in units of 2^-128, rounded down, as long as they are at least 2^(surplus - 128).

    >>> [power >> 120 for power in square_powers(1 << 127, 120)]  # 1/2, 1/4, 1/16 and 1/256
    [128, 64, 16, 1]
    """
    powers = [base]
    while powers[-1] >> surplus:
        powers.append(powers[-1] ** 2 >> FIXED)
    return tuple(powers[:-1])


def find_exponent(powers: tuple[int, ...], wide: int, surplus: int) -> int:
    """Return the largest g with wide < 2^(128 - surplus) p^g, found bit by bit from the top.

    >>> find_exponent(square_powers(1 << 127, 120), 31, 120)  # 31 < 2^8 2^-3
    3
    """
    exponent, power = 0, 1 << FIXED
    for bit in range(len(powers) - 1, -1, -1):
        longer = power * powers[bit] >> FIXED
        if longer >> surplus > wide:
            exponent, power = exponent + (1 << bit), longer
    return exponent


def bound_distance(powers: int, bits: int) -> float:
    """Bound from above the total variation distance of `find_exponent` of two uniform words from a geometric law.

    A tail p^g is a product of at most `powers` rounded factors, and p^(2^j) is off by less than 2^(j+1)
    units of 2^-128; then it is rounded to a unit of two words. All tails are added, and the ideal one beyond
    the largest number, once more for a search that rounding errors mislead.

    >>> bound_distance(29, 64) < 2**-67
    True
    """
    product = ((2 << powers) + powers) * 2.0**-FIXED
    return (2 << powers) * (product + 2 * 0.25**bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoWordGeometric:
    """Two words make a number w of 2 bits; it gives the largest k with w < 2^(2 bits) e^(-rate (k-1)).

    >>> law = TwoWordGeometric(rate=1.0, bits=64)
    >>> law.draw(np.array([[0, 1], [2**63, 0]], dtype=np.uint64)), law.distance < 1e-33
    (array([89,  1]), True)
    """

    rate: float
    bits: int

    @property
    def largest(self) -> int:
        return 1 << _length(self.rate, self._surplus)

    @property
    def distance(self) -> float:
        """An upper bound on the total variation distance to the geometric law."""
        return bound_distance(_length(self.rate, self._surplus), self.bits)

    @property
    def _powers(self) -> tuple[int, ...]:
        return _powers(self.rate, self._surplus)

    @property
    def _surplus(self) -> int:
        return FIXED - 2 * self.bits

    def draw(self, words: Words) -> Counts:
        """Return draws from words[n, 2]."""
        values = [self._value((high << self.bits) + low) for high, low in words.tolist()]
        return np.array(values, dtype=np.int64)

    def _value(self, wide: int) -> int:
        return 1 + find_exponent(self._powers, wide, self._surplus)

    def law(self) -> dict[int, Fraction]:
        """Return the exact law, for words of a few bits."""
        words = 1 << 2 * self.bits
        law: dict[int, Fraction] = {}
        for wide in range(words):
            value = self._value(wide)
            law[value] = law.get(value, Fraction(0)) + Fraction(1, words)
        return law


@lru_cache(maxsize=1 << 13)
def _powers(rate: float, surplus: int) -> tuple[int, ...]:
    """Return p, p^2, p^4, ... in units of 2^-128, as long as they are at least 2^(surplus - 128)."""
    return square_powers(int(exp_lower(-Fraction(rate)) * (1 << FIXED)), surplus)


def _length(rate: float, surplus: int) -> int:
    """Return how many powers there are, mostly without computing them."""
    top = (FIXED - surplus) * math.log(2)
    length = max(math.floor(math.log2(top / rate)) + 1, 0)
    # The last power is e^(-last), and the next would be its square. A factor of 4 is more than all
    # the roundings down: where it does not decide, they are counted.
    last = math.ldexp(rate, length - 1)
    if length and last < top - 2 * math.log(2) and 2 * last > top * (1 + 1e-9):
        return length
    return len(_powers(rate, surplus))
