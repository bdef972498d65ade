"""Frequency oracles that count, for each category, the messages that support it.

A message of a user with category j supports j with probability p, and every other category with
probability q. So with N_j supporting messages among n users

    estimate_j = (N_j - n q) / (p - q)                              (unbiased)
    variance_j = (c_j p (1 - p) + (n - c_j) q (1 - q)) / (p - q)^2  (exact, c_j the true count)

Reference: Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency
estimation" (their pure protocols). p and q are exact fractions of the sampled law, not the ideal
ones, so the estimate is exactly unbiased.
"""

from collections.abc import Set
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.domain import Categories
from shuffledp.core.estimate import Estimate
from shuffledp.core.randomizer import Message
from shuffledp.core.shuffler import Shuffled
from shuffledp.numerics.intervals import TwoBinomialsError

__all__ = ["FrequencyAnalyzer", "FrequencyOracle", "light_variance"]


class FrequencyOracle(Protocol):
    """A randomizer whose messages each support a set of categories."""

    @property
    def domain(self) -> Categories:
        """The categories."""

    @property
    def p(self) -> Fraction:
        """Exact probability that a message supports its sender's category."""

    @property
    def q(self) -> Fraction:
        """Exact probability that a message supports a given other category."""

    def __hash__(self) -> int:
        """Its parameters never change."""

    def find_supported(self, message: Message) -> Set[int]:
        """The categories that a message supports."""

    def tally(self, shuffled: Shuffled) -> Tally:
        """For each category, the number of messages that support it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyAnalyzer:
    """Counts the messages that support each category, and removes the bias."""

    oracle: FrequencyOracle

    @property
    def influence(self) -> Fraction:
        """By how many people one message can move a bin: 1 / (p - q)."""
        return 1 / (self.oracle.p - self.oracle.q)

    def tally(self, shuffled: Shuffled) -> Tally:
        return self.oracle.tally(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n, domain = tally.people(), self.oracle.domain
        p, q = self.oracle.p, self.oracle.q
        value: Floats = (tally.counts - np.float64(n * q)) / np.float64(p - q)
        error = TwoBinomialsError(observed=tally.counts, n=n, p=float(p), q=float(q), value=value)
        return Estimate(value=value, error=error, limits=(0.0, float(n)), labels=domain.labels)

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        q, gap = self.oracle.q, self.oracle.p - self.oracle.q
        supported = self.oracle.find_supported(message)
        yes, no = (1 - q) / gap, -q / gap
        return tuple(yes if j in supported else no for j in range(self.oracle.domain.k))

    def variance(self, inputs: Counts) -> Floats:
        holder, other = _variances(self.oracle)
        own = inputs.astype(np.float64)
        variance: Floats = own * holder + (own.sum() - own) * other
        return variance


def light_variance(p: Fraction, q: Fraction) -> Fraction:
    """Variance, per user, of the estimate of a category that nobody holds: q (1 - q) / (p - q)^2.

    This is what frequency oracles are tuned for.

    >>> light_variance(Fraction(3, 4), Fraction(1, 4))
    Fraction(3, 4)
    """
    return q * (1 - q) / (p - q) ** 2


@lru_cache(maxsize=256)
def _variances(oracle: FrequencyOracle) -> tuple[float, float]:
    """What a user of the category, and one of another, adds to the variance."""
    p, q = _short(oracle.p), _short(oracle.q)
    return float(p * (1 - p) / (p - q) ** 2), float(q * (1 - q) / (p - q) ** 2)


def _short(x: Fraction) -> Fraction:
    """Cut after 256 bits: an exact p can have thousands of digits, more than any float shows."""
    if x.denominator >> _BITS == 0:
        return x
    return Fraction((x.numerator << _BITS) // x.denominator, 1 << _BITS)


_BITS = 256
