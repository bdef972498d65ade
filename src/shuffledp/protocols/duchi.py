"""The one-bit mean: a coin whose bias is the value.

At small epsilon no local protocol has a better rate, and one bit is all that leaves the device.
Reference: Duchi, Jordan, Wainwright 2018, "Minimax optimal procedures for locally private
estimation" (2013 in their earlier papers), for one dimension.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from shuffledp.accounting.blanket import Blanket, bit_blanket
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Reals
from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import LATE, Parts
from shuffledp.core.randomizer import Law, Messages, WordSource
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.dealing import binomials
from shuffledp.protocols.shared.assembly import OneNumber, local, register, shuffled
from shuffledp.protocols.shared.sums import Affine, Quadratic, assemble_mean, growth, moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Duchi(OneNumber):
    r"""One bit, which is 1 with probability (least + slope i) / 2^word_bits for code i = 0 .. G.

    least = (2^word_bits - G slope) / 2 makes the ends mirror images of each other, and slope is the
    largest integer for which their ratio (2^word_bits - least) / least is at most e^epsilon0. The
    probability is exactly affine in i, so the decoded code (2^word_bits y - least) / slope is
    exactly unbiased. On the scale of [-1, 1] its variance is C^2 - x^2 with
    C = (e^epsilon0 + 1) / (e^epsilon0 - 1), largest for values in the middle.

    >>> coin = Duchi(domain=Reals(lower=-1.0, upper=1.0, steps=2), epsilon0=1.0, word_bits=4)
    >>> [coin.pmf(i)[(1,)] for i in range(3)]
    [Fraction(5, 16), Fraction(1, 2), Fraction(11, 16)]
    >>> coin.decoder(0), coin.decoder(1)
    (Fraction(-5, 3), Fraction(11, 3))
    """

    domain: Reals
    epsilon0: float
    word_bits: int = 64
    slope: int = field(init=False)
    words_per_input: ClassVar[int] = 1

    def __post_init__(self) -> None:
        positive("epsilon0", self.epsilon0)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        limit = growth(self.epsilon0)
        slope = (limit - 1) * self._words // ((limit + 1) * self.domain.steps)
        if self.domain.steps % 2:
            slope -= slope % 2  # G slope must be even for `least` to be an integer
        if slope < 1:
            raise ParameterError(
                "steps",
                self.domain.steps,
                f"must be smaller: at epsilon0={self.epsilon0!r} and words of {self.word_bits} "
                "bits, neighbouring values would send the same",
            )
        object.__setattr__(self, "slope", slope)

    @property
    def _words(self) -> int:
        return 1 << self.word_bits

    @property
    def least(self) -> int:
        """How many of the 2^word_bits words send 1 for the smallest value."""
        return (self._words - self.domain.steps * self.slope) // 2

    @property
    def flip(self) -> Fraction:
        """The exact flip probability of the bit that the value is rounded to."""
        return Fraction(self.least, self._words)

    def blankets(self) -> tuple[Blanket, ...]:
        """Return what both bits' laws have in common, for the accountant of the shuffled view."""
        return (bit_blanket(self.flip),)

    @property
    def alphabet(self) -> int:
        return 2

    def encode(self, inputs: Codes, words: Words) -> Messages:
        kind = words.dtype.type
        threshold = inputs.astype(words.dtype) * kind(self.slope) + kind(self.least)
        return Messages.one_each((words[:, 0] < threshold).astype(np.int64))

    def pmf(self, x: int) -> Law:
        one = Fraction(self.least + x * self.slope, self._words)
        return {(0,): 1 - one, (1,): one}

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Return a binomial number of ones from the users of each code."""
        users, held = int(inputs.sum()), np.flatnonzero(inputs)
        thresholds = [self.least + x * self.slope for x in held.tolist()]
        ones = int(binomials(inputs[held], thresholds, self.word_bits, source).sum())
        return Tally(counts=np.array([users - ones, ones], dtype=np.int64), users=users)

    @property
    def decoder(self) -> Affine:
        return Affine(scale=self._words, offset=self.least, divisor=self.slope, last=1)

    @property
    def code_variance(self) -> Quadratic:
        # P (1 - P) (2^bits / slope)^2 with P = (least + slope i) / 2^bits
        most = self._words - self.least
        return Quadratic(
            constant=Fraction(self.least * most, self.slope**2),
            linear=Fraction(most - self.least, self.slope),
            square=Fraction(-1),
        )

    def noise(self, counts: Counts) -> Fraction:
        """Return the variance if all n users had the mean of the values, which is the worst case.

        P (1 - P) is concave, so by Jensen's inequality the n users together have at most the
        variance of n users at their mean. One bit cannot tell more: its square is itself. The mean
        code is estimated, and moved into 0 .. G first, where it is known to lie.
        """
        n = moment(counts, 0)
        mean = self.decoder.total(counts) / n
        return n * self.code_variance(min(max(mean, Fraction(0)), Fraction(self.domain.steps)))


@local(name="duchi", task="mean", title="one-bit mean", reference="Duchi, Jordan, Wainwright 2018")
def make_local(
    *,
    lower: float,
    upper: float,
    steps: int,
    epsilon: float,
    task: str = "mean",
    word_bits: int = 64,
) -> Parts:
    """Make a mean (or, with task="sum", the sum) of numbers in [lower, upper], on a grid of `steps` steps, from one bit each.

    Integers are numbers too: a grid with steps of 1 holds them exactly.

    >>> from shuffledp import SeededWords, run
    >>> ages = make_local(lower=0, upper=120, steps=120, epsilon=1.0)
    >>> answer = run(ages, [20, 40, 60] * 50_000, SeededWords(1))
    >>> round(answer.value, 1), round(answer.stderr, 1)
    (39.9, 0.3)
    """
    ends = {"lower": lower, "upper": upper, "steps": steps}
    return assemble_mean(Duchi, task, epsilon=epsilon, word_bits=word_bits, **ends)


make = shuffled(make_local)
SPEC = register(make_local, make, hints=LATE)
