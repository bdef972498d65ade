"""What the histograms share whose users add messages in random bins: counting, and removing the bias."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from shuffledp.core.analyzer import Tally, message_tally
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError
from shuffledp.core.estimate import Estimate
from shuffledp.core.randomizer import Message
from shuffledp.core.shuffler import Shuffled
from shuffledp.numerics.intervals import BinomialSum, NoiseError

__all__ = ["NoiseBins", "NoiseBinsAnalyzer"]


class NoiseBins(Protocol):
    """A randomizer that sends the category, and noise that does not depend on it."""

    @property
    def domain(self) -> Categories:
        """The categories."""

    @property
    def noise(self) -> tuple[tuple[int, Fraction], ...]:
        """What each user adds to a given bin: a sum of these (number, probability) binomials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseBinsAnalyzer:
    """Counts the messages of each bin, and subtracts the expected noise.

    estimate_j = N_j - n E[Z], variance_j = n Var[Z], where Z is what one user's noise adds to a bin: unbiased
    and exact, whatever the data are.

    >>> from shuffledp.protocols.dummies_histogram import DummiesHistogram
    >>> noise = DummiesHistogram(k=2, surely=1, threshold=0, word_bits=4)
    >>> NoiseBinsAnalyzer(randomizer=noise).estimate(Tally(counts=np.array([70, 130]), users=100)).value
    array([20., 80.])
    """

    randomizer: NoiseBins

    @property
    def offset(self) -> tuple[Fraction, ...]:
        """What each user adds to each bin before any message."""
        return (-self._noise(1).centre,) * self.randomizer.domain.k

    def _noise(self, n: int) -> BinomialSum:
        return BinomialSum(parts=tuple((n * times, p) for times, p in self.randomizer.noise))

    @property
    def influence(self) -> Fraction:
        """By how many people one message can move a bin."""
        return Fraction(1)

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.randomizer.domain.k)

    def estimate(self, tally: Tally) -> Estimate:
        n = tally.people()
        noise = self._noise(n)
        value: Floats = tally.counts - np.float64(noise.centre)
        return Estimate(
            value=value,
            error=NoiseError(noise=noise, observed=tally.counts),
            limits=(0.0, float(n)),
            labels=self.randomizer.domain.labels,
        )

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        k = self.randomizer.domain.k
        if not isinstance(message, int) or not 0 <= message < k:
            raise ParameterError("message", message, f"must be within 0 .. {k - 1}")
        return tuple(Fraction(int(j == message)) for j in range(k))

    def variance(self, inputs: Counts) -> Floats:
        return np.full(len(inputs), self._noise(int(inputs.sum())).variance)
