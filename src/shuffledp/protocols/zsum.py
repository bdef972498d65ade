"""zsum: counting with noise messages that nearly everybody sends.

A user sends x copies of "1", and one more unless a coin of small probability gamma says no. With n users the
shuffler shows |y| = S + n - N messages, S the true count and N ~ Bin(n, gamma). The analyzer answers
|y| - n (1 - gamma) if |y| > n, and 0 otherwise. So a count of 0 is always answered by exactly 0: then
|y| <= n. That is what makes histograms with many empty bins cheap in error (`zsum_histogram`). The
price is a bias for counts below about 2 n gamma; where that matters use `zsum_sparse`, the same noise in
a mirror.
Reference: Balcer, Cheu 2020, "Separating local and shuffled differential privacy via histograms".

Deviations: answers are counts, where the paper has frequencies (|y| / n > 1). Besides the paper's
gamma there is the smallest one that the exact law allows.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Bits
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.estimate import Estimate
from shuffledp.core.protocol import HONEST, Calibration, Cost, ShuffleProtocol, Spec
from shuffledp.core.randomizer import Law, Message, Messages
from shuffledp.core.shuffler import Shuffled
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.draws import Draws
from shuffledp.numerics.intervals import BinomialSum, NoiseError
from shuffledp.protocols._cut import answers, moments
from shuffledp.protocols._noise_messages import (
    Accuracy,
    OneCount,
    assembled,
    count_gamma,
    counted_ones,
    sent_ones,
)

__all__ = ["SPEC", "Zsum", "ZsumAnalyzer", "make"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Zsum:
    """x + z copies of the message 1, z ~ Ber(1 - gamma), gamma = silent / 2^word_bits.

    >>> Zsum(silent=3, word_bits=4).pmf(1)
    {(1,): Fraction(3, 16), (1, 1): Fraction(13, 16)}
    """

    silent: int
    """How many of the words send no noise message."""
    word_bits: int = 64

    def __post_init__(self) -> None:
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        whole("silent", self.silent, at_least=1, at_most=(1 << self.word_bits) - 1)

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
        """Exact probability that a user sends no noise message."""
        return Fraction(self.silent, 1 << self.word_bits)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        threshold = (1 << self.word_bits) - self.silent
        return sent_ones(inputs, tape.bernoulli(words[:, 0], threshold, self.word_bits))

    def pmf(self, x: int) -> Law:
        return {(1,) * x: self.gamma, (1,) * (x + 1): 1 - self.gamma}

    def simulate(self, inputs: Counts, draws: Draws) -> Tally:
        """The count plus n - Bin(n, gamma)."""
        n = int(inputs.sum())
        ones = int(inputs[1]) + n - draws.binomial(n, float(self.gamma))
        return Tally(counts=np.array([ones], dtype=np.int64), users=n)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZsumAnalyzer:
    """|y| - n (1 - gamma) if |y| > n, else 0: not linear, and biased towards 0 for small counts.

    The interval comes from the law of |y|, so it holds for every count. For a count that was cut to
    0 it may lie above 0.

    >>> analyzer = ZsumAnalyzer(randomizer=Zsum(silent=1, word_bits=2))
    >>> analyzer.estimate(Tally(counts=np.array([100]), users=100)).value
    0.0
    >>> analyzer.estimate(Tally(counts=np.array([160]), users=100)).value
    85.0
    """

    randomizer: Zsum

    def tally(self, shuffled: Shuffled) -> Tally:
        return counted_ones(shuffled)

    def estimate(self, tally: Tally) -> Estimate:
        n, ones = tally.users, int(tally.counts[0])
        if n < 1:
            raise DataError("the tally is of no users: at least one is needed")
        gamma, limits = self.randomizer.gamma, (0.0, float(n))
        noise = BinomialSum(parts=((n, 1 - gamma),))
        return Estimate(
            value=float(answers(tally.counts, n, gamma)[0]),
            error=NoiseError(noise=noise, observed=ones, limits=limits),
            limits=limits,
        )

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError("the answer of zsum is not linear in the messages: use zsum_sparse")

    def variance(self, inputs: Counts) -> float:
        return float(moments(inputs[1:], int(inputs.sum()), self.randomizer.gamma).variance[0])

    def bias(self, inputs: Counts) -> float:
        """Exact mean error for a data set with inputs[1] ones: 0 for no ones and for many.

        >>> analyzer = ZsumAnalyzer(randomizer=Zsum(silent=1, word_bits=2))
        >>> round(analyzer.bias(np.array([80, 20])), 3), analyzer.bias(np.array([100, 0]))
        (-17.27, 0.0)
        """
        return float(moments(inputs[1:], int(inputs.sum()), self.randomizer.gamma).bias[0])

    def accuracy(self, n: int) -> Accuracy:
        """The error is at most 2 n gamma, except with probability exp(-n gamma / 3); for any data.

        If N < S it is |N - n gamma|, otherwise S <= N. Either way N <= 2 n gamma is enough, which fails with
        that probability by Chernoff's bound. With the paper's gamma the radius is
        100 ln(2 / delta) / epsilon^2, the probability (delta / 2)^(50 / (3 epsilon^2)).

        >>> p = make(n=10_000, epsilon=1.0, delta=1e-6, honest=1.0, calibration="paper")
        >>> radius, failure = p.analyzer.accuracy(n=10_000)
        >>> round(radius, 1), f"{failure:.1e}"
        (1450.9, '9.6e-106')
        """
        mean = float(whole("n", n, at_least=1) * self.randomizer.gamma)
        return Accuracy(radius=2 * mean, failure=math.exp(-mean / 3))


def make(
    *,
    n: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    calibration: Calibration | str = Calibration.EXACT,
    word_bits: int = 64,
) -> ShuffleProtocol:
    """zsum for n users; calibration "paper" is for epsilon, delta <= 1 and n >= 100 ln(2/delta)/epsilon^2.

    >>> p = make(n=100_000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> paper = make(n=100_000, epsilon=1.0, delta=1e-6, honest=1.0, calibration="paper")
    >>> [round(float(each.randomizer.gamma * 100_000), 1) for each in (p, paper)]
    [34.1, 725.4]
    >>> paper.guarantee.delta < p.guarantee.delta <= 1e-6
    True
    """
    n = whole("n", n, at_least=1)
    rule = Calibration.read(calibration)
    gamma = count_gamma(
        n=n, epsilon=epsilon, delta=delta, honest=honest, calibration=rule, bits=word_bits
    )
    randomizer = Zsum(silent=int(gamma * (1 << word_bits)), word_bits=word_bits)
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
        ZsumAnalyzer(randomizer=randomizer),
        OneCount(epsilon=epsilon, gamma=gamma),
        Cost(
            messages_mean=float(2 - gamma),
            messages_max=2,
            bits_per_message=1,
            count_depends_on_value=True,
        ),
    )


SPEC = Spec(
    name="zsum",
    title="Noise-message counting (zsum)",
    task="count",
    reference="Balcer, Cheu 2020",
    make=make,
)
