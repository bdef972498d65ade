"""k-ary randomized response: keep the category, or send a uniform one.

The simplest frequency oracle, and the best of those with short messages for few categories
(k < 3 e^epsilon + 2).
References: Warner 1965; Kairouz, Bonawitz, Ramage 2016, "Discrete distribution estimation under
local privacy".
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from shuffledp.accounting.blanket import Blanket, two_level_blanket
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.protocol import LATE, Parts
from shuffledp.core.randomizer import Law, Messages, WordSource
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.dealing import deal
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols.shared.assembly import (
    OneNumber,
    local,
    refuse_epsilon0,
    register,
    shuffled,
)
from shuffledp.protocols.shared.frequency import FrequencyAnalyzer, Numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class KRR(Numbered, OneNumber):
    r"""k-ary randomized response.

    Each category is sent by `share` of the 2^word_bits words whatever the truth is, and the truth x
    by all the words left over. share = ceil(2^word_bits / (e^epsilon0 + k - 1)), so the likelihood
    ratio is at most e^epsilon0, exactly; the ideal law is missed by less than one word in 2^word_bits.

    >>> KRR(k=3, epsilon0=1.0, word_bits=4).pmf(0)
    {(0,): Fraction(1, 2), (1,): Fraction(1, 4), (2,): Fraction(1, 4)}
    """

    k: int
    epsilon0: float
    word_bits: int = 64
    share: int = field(init=False)
    words_per_input: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", whole("k", self.k, at_least=2))
        positive("epsilon0", self.epsilon0)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        words = 1 << self.word_bits
        share = -(-words // (exp_lower(self.epsilon0) + self.k - 1))
        if self.k * share >= words:
            raise refuse_epsilon0(self.epsilon0, self.word_bits, k=self.k)
        object.__setattr__(self, "share", int(share))

    @property
    def alphabet(self) -> int:
        return self.k

    @property
    def p(self) -> Fraction:
        return 1 - (self.k - 1) * self.q

    @property
    def q(self) -> Fraction:
        return Fraction(self.share, 1 << self.word_bits)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        drawn = words[:, 0] // words.dtype.type(self.share)  # a category, or k and more: keep
        lies = drawn < drawn.dtype.type(self.k)
        truth = inputs.astype(np.int64, copy=False)
        # sent = drawn where lies, else truth. A choice by mask costs a mispredicted branch for most
        # people; arithmetic costs none. It is modulo 2^64, so a huge `drawn` does no harm.
        sent = drawn.astype(np.int64)
        sent -= truth
        sent *= lies
        sent += truth
        return Messages.one_each(sent)

    def pmf(self, x: int) -> Law:
        return {(y,): self.p if y == x else self.q for y in range(self.k)}

    def blankets(self) -> tuple[Blanket, ...]:
        """Return what all categories' laws have in common, for the accountant of the shuffled view."""
        rest = (self.k - 2) * self.q
        return (two_level_blanket(ratio=self.p / self.q, one=self.q, neither=rest),)

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal by one walk: lies are the same for all categories, and what is left is the truth."""
        left = (1 << self.word_bits) - self.k * self.share
        lies = [self.share] * self.k
        kept, lied = deal(inputs, [[left]], self.word_bits, source, common=lies)
        return Tally(counts=kept[:, 0] + lied, users=int(inputs.sum()))


@local(
    name="krr",
    task="histogram",
    title="k-ary randomized response",
    reference="Kairouz, Bonawitz, Ramage 2016",
)
def make_local(*, k: int, epsilon: float, word_bits: int = 64) -> Parts:
    """Make k-ary randomized response for histograms over k categories.

    >>> print(make_local(k=16, epsilon=1.0).guarantee)
    epsilon = 1, delta = 0: local model, replace-one neighbours, no other honest user needed; by the likelihood ratio of the exact law of krr
    """
    device = KRR(k=k, epsilon0=epsilon, word_bits=word_bits)
    analyzer = FrequencyAnalyzer(oracle=device, apart=True)
    return Parts(
        device,
        analyzer,
        deal=device.deal,
        code=device.code,
        blankets=device.blankets,
        influence=analyzer.influence,
    )


make = shuffled(make_local)
SPEC = register(make_local, make, hints=LATE)
