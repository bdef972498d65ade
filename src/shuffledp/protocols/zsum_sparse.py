"""Counting with rare noise messages: everybody may add a "1" that means nothing.

A user sends x copies of "1", and one more with a small probability gamma. The shuffler shows their
number alone, the true count plus Bin(n, gamma): the noise of `zsum` seen in a mirror, so the same privacy,
but unbiased and with x + gamma messages instead of x + 1 - gamma.
Reference: Balcer, Cheu 2020, "Separating local and shuffled differential privacy via histograms" (the
dense original).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Bits
from shuffledp.core.errors import DataError, ParameterError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import HONEST, Calibration, Cost, ShuffleProtocol, Spec
from shuffledp.core.randomizer import Law, Message, Messages
from shuffledp.core.shuffler import Shuffled
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.draws import Draws
from shuffledp.numerics.intervals import BinomialSum, NoiseError
from shuffledp.protocols._noise_messages import (
    OneCount,
    assembled,
    count_gamma,
    counted_ones,
    sent_ones,
)

__all__ = ["SPEC", "SparseZsum", "SparseZsumAnalyzer", "make"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseZsum:
    """x + z copies of the message 1, z ~ Ber(gamma), gamma = threshold / 2^word_bits.

    >>> SparseZsum(threshold=3, word_bits=4).pmf(1)
    {(1,): Fraction(13, 16), (1, 1): Fraction(3, 16)}
    """

    threshold: int
    word_bits: int = 64

    def __post_init__(self) -> None:
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        whole("threshold", self.threshold, at_least=1, at_most=(1 << self.word_bits) - 1)

    @property
    def domain(self) -> Bits:
        return Bits()

    @property
    def epsilon0(self) -> float:
        return math.inf

    @property
    def words_per_input(self) -> int:
        return 1

    @property
    def gamma(self) -> Fraction:
        """Exact probability of a noise message."""
        return Fraction(self.threshold, 1 << self.word_bits)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        return sent_ones(inputs, tape.bernoulli(words[:, 0], self.threshold, self.word_bits))

    def pmf(self, x: int) -> Law:
        return {(1,) * x: 1 - self.gamma, (1,) * (x + 1): self.gamma}

    def simulate(self, inputs: Counts, draws: Draws) -> Tally:
        """The count plus Bin(n, gamma)."""
        n = int(inputs.sum())
        ones = int(inputs[1]) + draws.binomial(n, float(self.gamma))
        return Tally(counts=np.array([ones], dtype=np.int64), users=n)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseZsumAnalyzer:
    """Counts the messages, and subtracts the expected noise.

        estimate = |y| - n gamma          (unbiased)
        variance = n gamma (1 - gamma)    (exact, whatever the data are)

    >>> SparseZsumAnalyzer(randomizer=SparseZsum(threshold=1, word_bits=2)).variance(np.array([9, 7]))
    3.0
    """

    randomizer: SparseZsum

    @property
    def offset(self) -> tuple[Fraction, ...]:
        """What each user adds before any message."""
        return (-self.randomizer.gamma,)

    def tally(self, shuffled: Shuffled) -> Tally:
        return counted_ones(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n, ones = tally.users, int(tally.counts[0])
        if n < 1:
            raise DataError("the tally is of no users: at least one is needed")
        noise = BinomialSum(parts=((n, self.randomizer.gamma),))
        return Estimate(
            value=float(ones - noise.centre),
            error=NoiseError(noise=noise, observed=ones),
            limits=(0.0, float(n)),
        )

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        if message != 1:
            raise ParameterError("message", message, "must be 1")
        return (Fraction(1),)

    def variance(self, inputs: Counts) -> float:
        gamma = self.randomizer.gamma
        return float(int(inputs.sum()) * gamma * (1 - gamma))


def make(
    *,
    n: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    calibration: Calibration | str = Calibration.EXACT,
    word_bits: int = 64,
) -> ShuffleProtocol:
    """Counting among n users with about one noise message in n / 34 at epsilon = 1, delta = 1e-6.

    >>> p = make(n=1_000_000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> round(p.analyzer.variance(np.array([0, 1_000_000])), 2)
    34.07
    >>> paper = make(n=1_000_000, epsilon=1.0, delta=1e-6, honest=1.0, calibration="paper")
    >>> round(paper.analyzer.variance(np.array([0, 1_000_000])), 1)
    724.9
    """
    n = whole("n", n, at_least=1)
    rule = Calibration.read(calibration)
    gamma = count_gamma(
        n=n, epsilon=epsilon, delta=delta, honest=honest, calibration=rule, bits=word_bits
    )
    randomizer = SparseZsum(threshold=int(gamma * (1 << word_bits)), word_bits=word_bits)
    parameters = {
        "n": n,
        "epsilon": epsilon,
        "delta": delta,
        "honest": honest,
        "calibration": rule.value,
        "word_bits": word_bits,
    }
    return assembled(
        SPEC,
        parameters,
        randomizer,
        SparseZsumAnalyzer(randomizer=randomizer),
        OneCount(epsilon=epsilon, gamma=gamma),
        Cost(
            messages_mean=float(1 + gamma),
            messages_max=2,
            bits_per_message=1,
            count_depends_on_value=True,
        ),
    )


SPEC = Spec(
    name="zsum_sparse",
    title="Noise-message counting, sparse",
    task="count",
    reference="Balcer, Cheu 2020",
    make=make,
)
