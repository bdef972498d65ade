"""Unary encodings: one bit per category, each randomized by itself.

The value x becomes the vector of k bits with a single one, at position x. Each bit is then sent as
one with probability p if it is the one, and q if it is a zero. Two values differ in two bits, so
the likelihood ratio of a message is at most p (1 - q) / (q (1 - p)).

The symmetric encoding flips every bit with the same probability: RAPPOR's permanent response for a
value in plain unary (no Bloom filter, no instantaneous response). The optimized one keeps the one by
a fair coin and turns few zeros into ones: of all p and q it has the smallest variance for categories
that few users hold. For small epsilon both are equally good.
References: Erlingsson, Pihur, Korolova 2014, "RAPPOR: randomized aggregatable privacy-preserving
ordinal response"; Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for
frequency estimation" (there SUE and OUE).
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np

from shuffledp.accounting.blanket import Blanket, two_level_blanket
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import LATE, Cost, Least, Parts
from shuffledp.core.randomizer import BitCode, Law, Messages, WordSource
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.dealing import binomials
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols.shared.assembly import local, refuse_epsilon0, register, shuffled
from shuffledp.protocols.shared.frequency import FrequencyAnalyzer, Marked

WORD_BITS = 32
"""A user needs k words, so words are the cost: half the usual width is twice as fast. The law is
exact for any width; the width only says how closely it can come to the ideal one."""

_LAW_MAX_K = 16  # the law has 2^k messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Marked):
    """A unary encoding: bit j is sent as one iff word j is below a threshold.

    `one` is the threshold at the position of the value, `zero` everywhere else. Construction fails
    unless one (2^word_bits - zero) <= e^epsilon0 zero (2^word_bits - one), which is the privacy
    claim as a statement about integers.

    >>> Unary(k=2, epsilon0=1.0, one=2, zero=1, word_bits=2)
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: epsilon0=1.0 must be larger: the thresholds have a likelihood ratio of 3
    >>> Unary(k=2, epsilon0=1.1, one=2, zero=1, word_bits=2).pmf(0)[(1, 0),]
    Fraction(3, 8)
    """

    k: int
    epsilon0: float
    one: int
    zero: int
    word_bits: int

    def __post_init__(self) -> None:
        whole("k", self.k, at_least=2)
        positive("epsilon0", self.epsilon0)
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        words = 1 << self.word_bits
        whole("one", self.one, at_least=1, at_most=words - 1)
        whole("zero", self.zero, at_least=1, at_most=self.one - 1)
        ratio = Fraction(self.one * (words - self.zero), self.zero * (words - self.one))
        if ratio > exp_lower(self.epsilon0):
            raise ParameterError(
                "epsilon0",
                self.epsilon0,
                f"must be larger: the thresholds have a likelihood ratio of {float(ratio):.17g}",
            )

    @classmethod
    def symmetric(cls, *, k: int, epsilon0: float, word_bits: int = WORD_BITS) -> "Unary":
        r"""Flip every bit with probability q, ideally 1 / (e^(epsilon0 / 2) + 1).

        Two values differ in two bits, and each takes half of epsilon0. q is rounded up to a multiple
        of 2^-word_bits, which is the private direction. For every category, whatever its count,

            variance = n q (1 - q) / (1 - 2 q)^2, ideally n e^(epsilon0 / 2) / (e^(epsilon0 / 2) - 1)^2

        >>> symmetric = Unary.symmetric(k=4, epsilon0=2.0, word_bits=8)
        >>> symmetric.p, symmetric.q
        (Fraction(187, 256), Fraction(69, 256))
        """
        positive("epsilon0", epsilon0)
        flips = _flips(exp_lower(Fraction(epsilon0) / 2), epsilon0, word_bits)
        one = (1 << word_bits) - flips
        return cls(k=k, epsilon0=epsilon0, one=one, zero=flips, word_bits=word_bits)

    @classmethod
    def optimized(cls, *, k: int, epsilon0: float, word_bits: int = WORD_BITS) -> "Unary":
        r"""Set p = 1/2 exactly, and q to 1 / (e^epsilon0 + 1), rounded up to a multiple of 2^-word_bits.

        Rounding up is the private direction. For a category that c of n users hold,

            variance = 4 (n - c) q (1 - q) / (1 - 2 q)^2 + c / (1 - 2 q)^2,
            ideally 4 n e^epsilon0 / (e^epsilon0 - 1)^2 + c

        >>> optimized = Unary.optimized(k=4, epsilon0=2.0, word_bits=8)
        >>> optimized.p, optimized.q
        (Fraction(1, 2), Fraction(31, 256))
        """
        positive("epsilon0", epsilon0)
        zero = _flips(exp_lower(epsilon0), epsilon0, word_bits)
        one = (1 << word_bits) // 2
        return cls(k=k, epsilon0=epsilon0, one=one, zero=zero, word_bits=word_bits)

    @property
    def cost(self) -> Cost:
        return Cost.fixed(self.k)

    @property
    def code(self) -> BitCode:
        return BitCode(k=self.k)

    @property
    def words_per_input(self) -> int:
        return self.k

    @property
    def p(self) -> Fraction:
        return Fraction(self.one, 1 << self.word_bits)

    @property
    def q(self) -> Fraction:
        return Fraction(self.zero, 1 << self.word_bits)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        word = words.dtype.type
        sent = words < word(self.zero)  # [n, k], as if every bit were a zero
        rows = np.arange(len(inputs))
        sent[rows, inputs] = words[rows, inputs] < word(self.one)
        return Messages.one_each(sent)

    def pmf(self, x: int) -> Law:
        if self.k > _LAW_MAX_K:
            raise UnsupportedError(f"the law of k={self.k} bits has 2^{self.k} messages")
        return {(bits,): self._probability(bits, x) for bits in product((0, 1), repeat=self.k)}

    def _probability(self, bits: tuple[int, ...], x: int) -> Fraction:
        others = sum(bits) - bits[x]
        own = self.p if bits[x] else 1 - self.p
        return own * self.q**others * (1 - self.q) ** (self.k - 1 - others)

    def blankets(self) -> tuple[Blanket, ...]:
        """Return what all categories' laws have in common, for the accountant of the shuffled view.

        Relative to the least likely value of a message, only the two bits in question matter.
        """
        p, q = self.p, self.q
        return (
            two_level_blanket(
                ratio=p * (1 - q) / (q * (1 - p)),
                one=q * (1 - p),
                both=q * q * (1 - p) / (1 - q),
                neither=(1 - q) * (1 - p),
            ),
        )

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal each category's bits: those of its holders, and those of everybody else."""
        users = int(inputs.sum())
        bits = np.concatenate([inputs, users - inputs])
        thresholds = [self.one] * self.k + [self.zero] * self.k
        ones = binomials(bits, thresholds, self.word_bits, source)
        return Tally(counts=ones[: self.k] + ones[self.k :], users=users)


def _flips(odds: Fraction, epsilon0: float, word_bits: int) -> int:
    """Return how many words must flip a bit for it to be kept with at most these odds."""
    words = 1 << whole("word_bits", word_bits, at_least=1, at_most=64)
    flips = int(-(-words // (odds + 1)))
    if 2 * flips >= words:
        raise refuse_epsilon0(epsilon0, word_bits)
    return flips


def _assemble(unary: Unary) -> Parts:
    analyzer = FrequencyAnalyzer(oracle=unary, apart=True)
    return Parts(
        unary,
        analyzer,
        deal=unary.deal,
        code=unary.code,
        blankets=unary.blankets,
        influence=analyzer.influence,
    )


@local(
    name="symmetric_unary",
    task="histogram",
    title="symmetric unary encoding (basic RAPPOR)",
    reference="Erlingsson, Pihur, Korolova 2014",
)
def make_symmetric(*, k: int, epsilon: float, word_bits: int = WORD_BITS) -> Parts:
    """Make symmetric unary encoding for histograms over k categories.

    >>> SYMMETRIC.make_local(k=16, epsilon=1.0).cost.bits_per_message
    16
    """
    unary = Unary.symmetric(k=k, epsilon0=epsilon, word_bits=word_bits)
    return _assemble(unary)


@local(
    name="optimized_unary",
    task="histogram",
    title="optimized unary encoding",
    reference="Wang, Blocki, Li, Jha 2017",
)
def make_optimized(*, k: int, epsilon: float, word_bits: int = WORD_BITS) -> Parts:
    """Make optimized unary encoding for histograms over k categories.

    >>> OPTIMIZED.make_local(k=16, epsilon=1.0).cost.bits_per_message
    16
    """
    unary = Unary.optimized(k=k, epsilon0=epsilon, word_bits=word_bits)
    return _assemble(unary)


def send_bits(*_: object, k: int, **_others: object) -> Least:
    """Return what a person sends at least: a bit for each category, whatever is promised."""
    return Least(bits_per_message=k)


_HINTS = replace(LATE, least=send_bits)
SYMMETRIC = register(make_symmetric, shuffled(make_symmetric), hints=_HINTS)
OPTIMIZED = register(make_optimized, shuffled(make_optimized), hints=_HINTS)
