"""Geometric numbers 1, 2, ... with Pr ~ e^(-rate k), from two words: however slowly they decay."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Counts, Words
from shuffledp.numerics.rounding import exp_lower

__all__ = ["Geometric"]

_FIXED = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometric:
    """Two words make a number w of 2 bits; it gives the largest k with w < 2^(2 bits) e^(-rate (k-1)).

    >>> law = Geometric(rate=1.0, bits=64)
    >>> law.draw(np.array([[0, 1], [2**63, 0]], dtype=np.uint64)), law.distance < 1e-33
    (array([89,  1]), True)
    """

    rate: float
    bits: int

    @property
    def largest(self) -> int:
        return 1 << len(self._powers)

    @property
    def distance(self) -> float:
        """At least the total variation distance to the geometric law.

        A tail p^g is a product of at most len(powers) rounded factors, and p^(2^j) is off by less than
        2^(j+1) units of 2^-128; then it is rounded to a unit of two words. All tails are added, and
        the ideal one beyond `largest`, once more for a search that rounding errors mislead.
        """
        product = (2 * self.largest + len(self._powers)) * 2.0**-_FIXED
        return 2 * self.largest * (product + 2 * 0.25**self.bits)

    @property
    def _powers(self) -> tuple[int, ...]:
        return _powers(self.rate, self._surplus)

    @property
    def _surplus(self) -> int:
        return _FIXED - 2 * self.bits

    def draw(self, words: Words) -> Counts:
        """From words[n, 2]."""
        values = [self._value((high << self.bits) + low) for high, low in words.tolist()]
        return np.array(values, dtype=np.int64)

    def _value(self, wide: int) -> int:
        """Found bit by bit from the top."""
        found, power = 0, 1 << _FIXED
        for bit in range(len(self._powers) - 1, -1, -1):
            longer = power * self._powers[bit] >> _FIXED
            if longer >> self._surplus > wide:
                found, power = found + (1 << bit), longer
        return 1 + found

    def law(self) -> dict[int, Fraction]:
        """The exact law, for words of a few bits."""
        words = 1 << 2 * self.bits
        law: dict[int, Fraction] = {}
        for wide in range(words):
            value = self._value(wide)
            law[value] = law.get(value, Fraction(0)) + Fraction(1, words)
        return law


@lru_cache(maxsize=1 << 13)
def _powers(rate: float, surplus: int) -> tuple[int, ...]:
    """p, p^2, p^4, ... in units of 2^-128, as long as they are at least 2^(surplus - 128)."""
    powers = [int(exp_lower(-Fraction(rate)) * (1 << _FIXED))]
    while powers[-1] >> surplus:
        powers.append(powers[-1] ** 2 >> _FIXED)
    return tuple(powers[:-1])
