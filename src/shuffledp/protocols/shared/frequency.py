"""Histograms from messages that each support some categories.

A message of a user with category j supports j with probability p, and every other category with
probability q; besides, each user may add noise to every category, a sum of binomials Bin(t, r) whatever
the value is. So with N_j supporting messages of n users, m the mean of one user's noise and v its variance,

    estimate_j = (N_j - n (q + m)) / (p - q)                                (unbiased)
    variance_j = (c_j p (1 - p) + (n - c_j) q (1 - q) + n v) / (p - q)^2    (exact, c_j the true count)

Reference: Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency
estimation" (their pure protocols, without noise). p and q are exact fractions of the sampled law, not the
ideal ones, so the estimate is exactly unbiased.
"""

from collections.abc import Set
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from shuffledp.core.analyzer import ErrorLaw, Estimate, Tally
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import Message, Shuffled
from shuffledp.numerics.intervals import BinomialSum, NoiseError, TwoBinomialsError


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
        """Hash the parameters, which never change."""

    def find_supported(self, message: Message) -> Set[int]:
        """Return the categories that a message supports."""

    def tally(self, shuffled: Shuffled) -> Tally:
        """Count, for each category, the messages that support it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequencyAnalyzer:
    """Counts the messages that support each category, and removes the bias.

    >>> from shuffledp.protocols.dummies_histogram import DummiesHistogram
    >>> bins = DummiesHistogram(k=2, surely=1, threshold=0, word_bits=4)
    >>> analyzer = FrequencyAnalyzer(oracle=bins, noise=bins.noise)
    >>> analyzer.estimate(Tally(counts=np.array([70, 130]), users=100)).value
    array([20., 80.])
    """

    oracle: FrequencyOracle
    noise: tuple[tuple[int, Fraction], ...] = ()
    """(t, r) of the binomials that each user adds to every category; without any, everybody sends one message."""
    apart: bool = False
    """Whether a message supports no two categories together more often than if it did so independently."""

    def influence(self) -> Fraction:
        """Return by how many people one message can move a bin: 1 / (p - q)."""
        return 1 / self._gap

    @property
    def _gap(self) -> Fraction:
        return self.oracle.p - self.oracle.q

    @property
    def _expected(self) -> Fraction:
        """How many messages of one user are expected to support a category that they do not hold."""
        return self.oracle.q + sum(times * r for times, r in self.noise)

    def offset(self) -> tuple[Fraction, ...]:
        """Return what each user adds to the answer before any message."""
        one = -self._expected / self._gap if self.noise else Fraction(0)
        return (one,) * self.oracle.domain.k

    def tally(self, shuffled: Shuffled) -> Tally:
        return self.oracle.tally(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n, domain = tally.people(), self.oracle.domain
        value: Floats = (tally.counts - np.float64(n * self._expected)) / np.float64(self._gap)
        everything = len(value) == domain.k  # or the tally is of some categories only
        return Estimate(
            value=value,
            error=self._error(tally.counts, n, value),
            limits=(0.0, float(n)),
            labels=domain.labels if everything else None,
        )

    def _error(self, observed: Counts, n: int, value: Floats) -> ErrorLaw:
        if self._gap == 1:  # each person supports their own category alone: all the rest is noise
            noise = BinomialSum(parts=tuple((n * times, r) for times, r in self.noise))
            return NoiseError(noise=noise, observed=observed)
        p, q = float(self.oracle.p), float(self.oracle.q)
        extra = tuple((n * times, float(r)) for times, r in self.noise)
        return TwoBinomialsError(
            observed=observed, n=n, p=p, q=q, value=value, extra=extra, apart=self.apart
        )

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        supported = self.oracle.find_supported(message)
        no = Fraction(0) if self.noise else -self._expected / self._gap
        yes = no + 1 / self._gap
        return tuple(yes if j in supported else no for j in range(self.oracle.domain.k))

    def variance(self, inputs: Counts) -> Floats:
        holder, other, noise = _variances(self)
        own = inputs.astype(np.float64)
        # In place: a million categories are long arrays.
        variance: Floats = own.sum() - own
        variance *= other
        own *= holder
        variance += own
        variance += float(int(inputs.sum()) * noise)
        return variance


def find_named(message: Message, k: int) -> Set[int]:
    """Return what a message supports that is the number of a category: that category alone.

    >>> find_named(2, 4)
    {2}
    """
    if not isinstance(message, int) or not 0 <= message < k:
        raise ParameterError("message", message, f"must be within 0 .. {k - 1}")
    return {message}


def light_variance(p: Fraction, q: Fraction) -> Fraction:
    """Return the variance, per user, of the estimate of a category that nobody holds: q (1 - q) / (p - q)^2.

    This is what frequency oracles are tuned for.

    >>> light_variance(Fraction(3, 4), Fraction(1, 4))
    Fraction(3, 4)
    """
    return q * (1 - q) / (p - q) ** 2


@lru_cache(maxsize=256)
def _variances(analyzer: FrequencyAnalyzer) -> tuple[float, float, Fraction]:
    """Return what a user of the category adds to the variance, what one of another, and what the noise of either."""
    p, q = _cut(analyzer.oracle.p), _cut(analyzer.oracle.q)
    square = (p - q) ** 2
    noise = sum((times * r * (1 - r) for times, r in analyzer.noise), Fraction(0))
    return float(p * (1 - p) / square), float(q * (1 - q) / square), noise / square


def _cut(x: Fraction) -> Fraction:
    """Cut after 256 bits: an exact p can have thousands of digits, more than any float shows."""
    if x.denominator >> _BITS == 0:
        return x
    return Fraction((x.numerator << _BITS) // x.denominator, 1 << _BITS)


_BITS = 256
