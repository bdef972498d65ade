"""Binary randomized response: tell the truth, or flip it, by a private coin.

The oldest local protocol, and the best possible one for a yes-or-no question up to constants: every
local protocol errs by the order of sqrt(n) / epsilon on a count.
Reference: Warner 1965, "Randomized response: a survey technique for eliminating evasive answer bias".
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from shuffledp.core.analyzer import Estimate, Tally, message_tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Bits
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.protocol import LATE, Calibration, Crowd, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.numerics import intervals
from shuffledp.numerics.dealing import binomials
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols.shared.assembly import (
    OneNumber,
    certify,
    fit,
    local,
    refuse_epsilon0,
    register,
)

if TYPE_CHECKING:
    from shuffledp.accounting.blanket import Blanket


@dataclass(frozen=True, slots=True, kw_only=True)
class RR(OneNumber):
    r"""Binary randomized response.

    Flips the bit with probability q = threshold / 2^word_bits, ideally 1 / (e^epsilon0 + 1);
    threshold = ceil(2^word_bits / (e^epsilon0 + 1)), so (1 - q) / q is at most e^epsilon0, exactly.

    >>> RR(epsilon0=1.0, word_bits=4).pmf(0)
    {(0,): Fraction(11, 16), (1,): Fraction(5, 16)}
    """

    epsilon0: float
    word_bits: int = 64
    threshold: int = field(init=False)
    domain: ClassVar[Bits] = Bits()
    words_per_input: ClassVar[int] = 1

    def __post_init__(self) -> None:
        positive("epsilon0", self.epsilon0)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        words = 1 << self.word_bits
        threshold = -(-words // (exp_lower(self.epsilon0) + 1))
        if 2 * threshold >= words:
            raise refuse_epsilon0(self.epsilon0, self.word_bits)
        object.__setattr__(self, "threshold", int(threshold))

    @property
    def alphabet(self) -> int:
        return 2

    @property
    def p(self) -> Fraction:
        """Exact probability that somebody with a one sends a one."""
        return 1 - self.q

    @property
    def q(self) -> Fraction:
        """Exact probability that somebody with a zero sends a one."""
        return Fraction(self.threshold, 1 << self.word_bits)

    @property
    def flip(self) -> Fraction:
        """The exact flip probability of the bit."""
        return self.q

    def blankets(self) -> "tuple[Blanket, ...]":
        """Return what both bits' laws have in common, for the accountant of the shuffled view."""
        from shuffledp.accounting.blanket import bit_blanket

        return (bit_blanket(self.flip),)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        flipped = words[:, 0] < words.dtype.type(self.threshold)
        return Messages.one_each(np.bitwise_xor(inputs, flipped, dtype=inputs.dtype))

    def pmf(self, x: int) -> Law:
        return {(y,): self.p if y == x else self.q for y in (0, 1)}

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Return the zeros and the ones that are flipped."""
        users, ones = int(inputs.sum()), int(inputs[1])
        up, down = binomials(inputs, [self.threshold] * 2, self.word_bits, source).tolist()
        sent = ones + up - down
        return Tally(counts=np.array([users - sent, sent], dtype=np.int64), users=users)


@dataclass(frozen=True, slots=True, kw_only=True)
class RRAnalyzer:
    r"""Counts the ones that were sent, and removes the bias.

        estimate = (N - n q) / (1 - 2 q)            (unbiased; N ones were sent)
        variance = n q (1 - q) / (1 - 2 q)^2        (exact, whatever the data are)

    The variance is ideally n e^epsilon / (e^epsilon - 1)^2.

    >>> RRAnalyzer(randomizer=RR(epsilon0=1.0)).variance(np.array([600, 400])) / 1000
    0.9206735942077924
    """

    randomizer: RR

    def influence(self) -> Fraction:
        """Return by how many people one message can move the count: 1 / (1 - 2 q)."""
        return 1 / (self.randomizer.p - self.randomizer.q)

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, 2)

    def estimate(self, tally: Tally) -> Estimate:
        n, ones = tally.people(), int(tally.counts[1])
        p, q = self.randomizer.p, self.randomizer.q
        value = float((ones - n * q) / (p - q))
        error = intervals.TwoBinomialsError(observed=ones, n=n, p=float(p), q=float(q), value=value)
        return Estimate(value=value, error=error, limits=(0.0, float(n)))

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        assert isinstance(message, int)
        p, q = self.randomizer.p, self.randomizer.q
        return ((message - q) / (p - q),)

    def variance(self, inputs: Counts) -> float:
        p, q = self.randomizer.p, self.randomizer.q
        return float(int(inputs.sum()) * p * q / (p - q) ** 2)

    def accuracy(self, n: int, beta: float) -> float:
        r"""Return a radius that the error of the count exceeds with probability at most beta.

        sqrt(n ln(2 / beta) / 2) / (1 - 2 q), by Hoeffding's inequality: the estimate is a sum of n
        independent terms, each in an interval of length 1 / (1 - 2 q). It holds for any data, before
        they are collected.

        >>> analyzer = RRAnalyzer(randomizer=RR(epsilon0=1.0))
        >>> round(analyzer.accuracy(n=10_000, beta=0.05), 1)
        293.9
        """
        whole("n", n, at_least=1)
        fraction_of_one("beta", beta)
        gap = self.randomizer.p - self.randomizer.q
        return math.sqrt(n * math.log(2 / beta) / 2) / float(gap)


@local(name="rr", task="count", title="binary randomized response", reference="Warner 1965")
def make_local(*, epsilon: float, word_bits: int = 64) -> Parts:
    """Make binary randomized response for the number of people whose bit is one.

    >>> print(make_local(epsilon=1.0).guarantee)
    epsilon = 1, delta = 0: local model, replace-one neighbours, no other honest user needed; by the likelihood ratio of the exact law of rr
    """
    rr = RR(epsilon0=epsilon, word_bits=word_bits)
    analyzer = RRAnalyzer(randomizer=rr)
    return Parts(
        rr,
        analyzer,
        deal=rr.deal,
        code=rr.code,
        blankets=rr.blankets,
        influence=analyzer.influence,
    )


@make_local.shuffle
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    calibration: Calibration = Calibration.EXACT,
    word_bits: int = 64,
) -> Parts:
    r"""Make binary randomized response, shuffled: about as many flips in all, however many users.

    `exact`: the fewest flips that the exact accountant of shuffled bits allows. `paper`: on average
    32 ln(4 / delta) / epsilon^2 flips (12 to 28 times more), as published by Cheu, Smith, Ullman,
    Zeber, Zhilyaev 2019, "Distributed differential privacy via shuffling", for epsilon <= 1 and
    n >= 14 ln(4 / delta), and more for few users; its guarantee is computed all the same.

    >>> count = make(n=1_000_000, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> math.sqrt(count.analyzer.variance(np.array([1_000_000, 0]))) <= 5.95
    True
    """
    if calibration is Calibration.EXACT:
        return fit(make_local, crowd, promise, word_bits=word_bits)
    flip = _published_flip(crowd.trusted, promise.epsilon, promise.delta)
    # A little less than the epsilon0 of that flip probability: a rounding error more noise.
    epsilon0 = math.log((1 - flip) / flip) * (1 - 2**-50)
    return certify(make_local(epsilon=epsilon0, word_bits=word_bits), crowd, promise)


def _published_flip(n: int, epsilon: float, delta: float) -> float:
    """Return lambda / (2 n) of Cheu, Smith, Ullman, Zeber, Zhilyaev 2019."""
    logarithm = math.log(4 / delta)
    if epsilon > 1 or n < 14 * logarithm:
        raise UnsupportedError(
            f"epsilon={epsilon} and n={n} honest users are outside the published theorem, which "
            f"asks for epsilon <= 1 and n >= 14 ln(4 / delta) = {14 * logarithm:.1f}"
        )
    if epsilon >= math.sqrt(192 * logarithm / n):
        return 32 * logarithm / (epsilon**2 * n)
    return (1 - epsilon * math.sqrt(n / (432 * logarithm))) / 2


SPEC = register(make_local, make, hints=LATE)
