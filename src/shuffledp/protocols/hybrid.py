"""The hybrid mean: a public coin chooses between one bit and the piecewise mean.

Values in the middle are hard for one bit and easy for the piecewise mean, those at the ends the
other way round; the mixture is equally good for all, and never worse than either in the worst case.
Reference: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu 2019, "Collecting and analyzing
multidimensional data with local differential privacy".
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from shuffledp.accounting.blanket import Blanket, mix
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Reals
from shuffledp.core.errors import ParameterError
from shuffledp.core.protocol import LATE, Parts
from shuffledp.core.randomizer import Law, Messages, WordSource
from shuffledp.core.validate import positive
from shuffledp.numerics.dealing import binomials
from shuffledp.numerics.tape import bernoulli
from shuffledp.protocols.duchi import Duchi
from shuffledp.protocols.piecewise import Piecewise
from shuffledp.protocols.shared.assembly import OneNumber, local, register, shuffled
from shuffledp.protocols.shared.sums import Affine, Quadratic, assemble_mean, growth, moment

_CROSSOVER = 0.61
"""Up to here one bit has the smaller variance for every value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid(OneNumber):
    r"""Piecewise with probability 1 - e^(-epsilon0 / 2), one bit otherwise; epsilon0 > 0.61.

    The coin does not depend on the value, so the ratio is at most e^epsilon0 because it is for both
    parts. Messages 0 .. M - 1 are those of the piecewise mean, M and M + 1 are the bits 0 and 1.
    Both parts are unbiased, so the variance is the average of theirs. On the scale of [-1, 1] the
    terms in x cancel, with h = e^(epsilon0 / 2):

        (1 - 1/h) (h + 3) / (3 (h - 1)^2)  +  (1/h) ((h^2 + 1) / (h^2 - 1))^2

    >>> p = Hybrid(domain=Reals(lower=-1.0, upper=1.0, steps=100), epsilon0=2.0)
    >>> round(float(p.coin), 6), p.piecewise.alphabet, p.alphabet
    (0.632121, 958, 960)
    >>> p.decoder(958) == p.duchi.decoder(0)
    True
    """

    domain: Reals
    epsilon0: float
    word_bits: int = 64
    piecewise: Piecewise = field(init=False)
    duchi: Duchi = field(init=False)
    threshold: int = field(init=False)
    words_per_input: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if positive("epsilon0", self.epsilon0) <= _CROSSOVER:
            raise ParameterError(
                "epsilon0", self.epsilon0, f"must be > {_CROSSOVER}: up to there use Duchi alone"
            )
        for name, part in (("piecewise", Piecewise), ("duchi", Duchi)):
            made = part(domain=self.domain, epsilon0=self.epsilon0, word_bits=self.word_bits)
            object.__setattr__(self, name, made)
        # The coin is public, so its rounding costs nothing but a little of the ideal mixture.
        threshold = (1 - 1 / growth(self.epsilon0 / 2)) * (1 << self.word_bits) // 1
        object.__setattr__(self, "threshold", threshold)

    @property
    def coin(self) -> Fraction:
        """Exact probability of the piecewise mean."""
        return Fraction(self.threshold, 1 << self.word_bits)

    @property
    def alphabet(self) -> int:
        return self.piecewise.alphabet + self.duchi.alphabet

    def encode(self, inputs: Codes, words: Words) -> Messages:
        chosen = bernoulli(words[:, 0], self.threshold, self.word_bits)
        sent = np.empty(len(inputs), dtype=np.int64)
        sent[chosen] = self.piecewise.encode(inputs[chosen], words[chosen, 1:]).payload
        bits = self.duchi.encode(inputs[~chosen], words[~chosen, 1:]).payload
        sent[~chosen] = bits + self.piecewise.alphabet
        return Messages.one_each(sent)

    def pmf(self, x: int) -> Law:
        law: Law = {sent: self.coin * mass for sent, mass in self.piecewise.pmf(x).items()}
        bits = self.duchi.pmf(x)
        for bit in range(2):
            law[(self.piecewise.alphabet + bit,)] = (1 - self.coin) * bits[(bit,)]
        return law

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal the two parts one after the other, each with the users whose coin chose it."""
        thresholds = [self.threshold] * len(inputs)
        chosen = binomials(inputs, thresholds, self.word_bits, source)
        numbers = self.piecewise.deal(chosen, source).counts
        bits = self.duchi.deal(inputs - chosen, source).counts
        return Tally(counts=np.append(numbers, bits), users=int(inputs.sum()))

    def blankets(self) -> tuple[Blanket, ...]:
        """Return what all values' laws have in common, for the accountant of the shuffled view.

        The two ends of the domain are the worst pair of both parts at once, and so of the mixture: the
        proof is in docs/theory/means.md.
        """
        (window,), (bit,) = self.piecewise.blankets(), self.duchi.blankets()
        return (mix(window, bit, self.coin),)

    @property
    def decoder(self) -> "Either":
        return Either(number=self.piecewise.decoder, bit=self.duchi.decoder)

    @property
    def code_variance(self) -> Quadratic:
        return self.piecewise.code_variance.mix(self.coin, self.duchi.code_variance)

    def noise(self, counts: Counts) -> Fraction:
        """Return n times the largest variance of any code.

        The variance hardly depends on the code, so the largest is close to all of them and nothing
        needs to be estimated.
        """
        _, largest = self.code_variance.range(self.domain.steps)
        return moment(counts, 0) * largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Either:
    """A `Decoder` of two kinds of messages: numbers, then bits."""

    number: Affine
    bit: Affine

    def __call__(self, y: int) -> Fraction:
        first = self.number.last + 1
        return self.number(y) if y < first else self.bit(y - first)

    def total(self, counts: Counts) -> Fraction:
        """Return the sum over counts[y] messages y."""
        numbers, bits = np.split(counts, [self.number.last + 1])
        return self.number.total(numbers) + self.bit.total(bits)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The smallest and the largest value."""
        lows, highs = zip(self.number.ends, self.bit.ends, strict=True)
        return min(lows), max(highs)


@local(
    name="hybrid",
    task="mean",
    title="hybrid of the one-bit and the piecewise mean",
    reference="Wang, Xiao, Yang et al. 2019",
)
def make_local(
    *,
    lower: float,
    upper: float,
    steps: int,
    epsilon: float,
    task: str = "mean",
    word_bits: int = 64,
) -> Parts:
    """Make a mean (or, with task="sum", the sum) of numbers in [lower, upper], rounded to a grid of at most 2^15 steps.

    Up to epsilon = 0.61 one bit is better for every value, and this is `duchi` under another name.

    >>> from shuffledp import SeededWords, run
    >>> ages = make_local(lower=0, upper=120, steps=120, epsilon=1.0)
    >>> answer = run(ages, [20, 40, 60] * 50_000, SeededWords(1))
    >>> round(answer.value, 1), round(answer.stderr, 1)
    (39.9, 0.3)
    >>> make_local(lower=0, upper=120, steps=120, epsilon=0.5).randomizer.alphabet
    2
    """
    part = Hybrid if positive("epsilon", epsilon) > _CROSSOVER else Duchi
    ends = {"lower": lower, "upper": upper, "steps": steps}
    return assemble_mean(part, task, epsilon=epsilon, word_bits=word_bits, **ends)


make = shuffled(make_local)
SPEC = register(make_local, make, hints=LATE)
