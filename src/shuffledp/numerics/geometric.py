"""Geometric numbers 1, 2, ... with Pr ~ e^(-rate k), from two words: however slowly they decay."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Counts, Words
from shuffledp.numerics.rounding import exp_lower

__all__ = ["FIXED", "TwoWordGeometric", "bound_distance", "find_exponent", "square_powers"]

FIXED = 128
"""Bits after the point of a probability."""


def square_powers(base: int, surplus: int) -> tuple[int, ...]:
    """p, p^2, p^4, ... in units of 2^-128, rounded down, as long as they are at least 2^(surplus - 128).

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
    found, power = 0, 1 << FIXED
    for bit in range(len(powers) - 1, -1, -1):
        longer = power * powers[bit] >> FIXED
        if longer >> surplus > wide:
            found, power = found + (1 << bit), longer
    return found


def bound_distance(powers: int, bits: int) -> float:
    """At least the total variation distance of `find_exponent` of two uniform words from a geometric law.

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
        """At least the total variation distance to the geometric law."""
        return bound_distance(_length(self.rate, self._surplus), self.bits)

    @property
    def _powers(self) -> tuple[int, ...]:
        return _powers(self.rate, self._surplus)

    @property
    def _surplus(self) -> int:
        return FIXED - 2 * self.bits

    def draw(self, words: Words) -> Counts:
        """Draws from words[n, 2]."""
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
    """p, p^2, p^4, ... in units of 2^-128, as long as they are at least 2^(surplus - 128)."""
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
