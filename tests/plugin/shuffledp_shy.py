"""k-ary randomized response for people of whom a quarter say nothing."""

from collections.abc import Set
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp import Categories
from shuffledp.accounting.blanket import Blanket, two_level_blanket
from shuffledp.core.analyzer import Tally, message_tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.protocol import Cost, Parts
from shuffledp.core.randomizer import Law, Message, Messages, NumberCode, Shuffled, WordSource
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.dealing import deal
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols.shared.assembly import local, register, shuffled
from shuffledp.protocols.shared.frequency import FrequencyAnalyzer


@dataclass(frozen=True, slots=True, kw_only=True)
class Shy:
    """Sends no answer (the message k), a category that was drawn, or the truth."""

    k: int
    epsilon0: float
    word_bits: int = 64

    def __post_init__(self) -> None:
        whole("k", self.k, at_least=2)
        positive("epsilon0", self.epsilon0)
        whole("word_bits", self.word_bits, at_least=2, at_most=64)

    @property
    def domain(self) -> Categories:
        return Categories(k=self.k)

    @property
    def words_per_input(self) -> int:
        return 1

    @property
    def cost(self) -> Cost:
        return Cost.fixed(bits=self.k.bit_length())

    @property
    def answers(self) -> int:
        """How many words lead to an answer."""
        return 3 << (self.word_bits - 2)

    @property
    def share(self) -> int:
        """How many words send a given category, whatever the truth is."""
        return int(-(-self.answers // (exp_lower(self.epsilon0) + self.k - 1)))

    @property
    def q(self) -> Fraction:
        return Fraction(self.share, 1 << self.word_bits)

    @property
    def p(self) -> Fraction:
        return Fraction(3, 4) - (self.k - 1) * self.q

    def encode(self, inputs: Codes, words: Words) -> Messages:
        word = words[:, 0].astype(np.uint64)
        lies = np.uint64(self.k * self.share)
        sent = np.where(word < lies, word // np.uint64(self.share), inputs.astype(np.uint64))
        sent[word >= np.uint64(self.answers)] = self.k
        return Messages.one_each(sent.astype(np.int64))

    def pmf(self, x: int) -> Law:
        answers: Law = {(y,): self.p if y == x else self.q for y in range(self.k)}
        return answers | {(self.k,): Fraction(1, 4)}

    def blankets(self) -> tuple[Blanket, ...]:
        rest = (self.k - 2) * self.q + Fraction(1, 4)
        ratio = self.p / self.q
        return (two_level_blanket(ratio=ratio, one=self.q, both=Fraction(0), neither=rest),)

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        left = self.answers - self.k * self.share
        silent = (1 << self.word_bits) - self.answers
        common = [self.share] * self.k + [silent]
        kept, drawn = deal(inputs, [[left]], self.word_bits, source, common=common)
        return Tally(counts=kept[:, 0] + drawn[:-1], users=int(inputs.sum()))

    def find_supported(self, message: Message) -> Set[int]:
        return {message} & set(range(self.k))

    def tally(self, shuffled: Shuffled) -> Tally:
        counted = message_tally(shuffled, self.k + 1)
        return Tally(counts=counted.counts[:-1], users=counted.users)


@local(name="shy", task="histogram", title="shy randomized response", reference="this page")
def make_local(*, k: int, epsilon: float, word_bits: int = 64) -> Parts:
    """Shy randomized response over k categories."""
    device = Shy(k=k, epsilon0=epsilon, word_bits=word_bits)
    analyzer = FrequencyAnalyzer(oracle=device)
    return Parts(
        device,
        analyzer,
        deal=device.deal,
        code=NumberCode.of(k + 1),
        blankets=device.blankets,
        influence=analyzer.influence,
    )


make = shuffled(make_local)
SPEC = register(make_local, make)
