"""A histogram with uniform dummies: everybody sends a fixed number of messages that mean nothing.

A user sends their category and D dummies, each a uniform bin; D = floor(rho), or one more with probability
frac(rho). rho is about 43 k / n at epsilon = 1, delta = 1e-6: the error depends neither on k nor on the counts. As
`sparse_histogram`, with a simpler sampler and hardly any spread in the number of messages.

A word that falls outside the k equal shares sends no dummy; that probability is part of the law. Dummies
fall into either of two given bins with the same probability, so with T of them there the attacker sees
(A + 1, T - A) or (A, T - A + 1), A ~ Bin(T, 1/2): the two-bins computation, exact.
Reference: Balcer, Cheu 2020, "Separating local and shuffled differential privacy via histograms" (the dense
original, `zsum_histogram`).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import ClassVar

import numpy as np

from shuffledp.accounting.moved_message import TwoBins, dummies, dummies_after, dummies_level
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Profile
from shuffledp.core.protocol import LATE, Cost, Crowd, Parts, Promise
from shuffledp.core.randomizer import Law, Messages, WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.dealing import binomial, deal_uniform
from shuffledp.protocols.shared.assembly import register, shuffle
from shuffledp.protocols.shared.frequency import FrequencyAnalyzer, Numbered

_MOST = 1 << 16  # words of tape per user


@dataclass(frozen=True, slots=True, kw_only=True)
class DummiesHistogram(Numbered):
    """The category, `surely` dummies, and one more with probability threshold / 2^word_bits.

    >>> noise = DummiesHistogram(k=3, surely=1, threshold=8, word_bits=4)
    >>> noise.rho, noise.hit, noise.pmf(0)[0, 1]
    (Fraction(3, 2), Fraction(5, 16), Fraction(45, 256))
    """

    k: int
    surely: int
    threshold: int
    word_bits: int = 64
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = "how the dummies split between the two bins that change"
    p: ClassVar[Fraction] = Fraction(1)
    q: ClassVar[Fraction] = Fraction(0)

    def __post_init__(self) -> None:
        whole("word_bits", self.word_bits, at_least=1, at_most=64)
        whole("k", self.k, at_least=2, at_most=1 << self.word_bits)
        whole("surely", self.surely, at_least=0, at_most=_MOST)
        whole("threshold", self.threshold, at_least=0, at_most=(1 << self.word_bits) - 1)
        if self.surely == self.threshold == 0:
            raise ParameterError("threshold", self.threshold, "must be > 0 if surely=0")

    @classmethod
    def sending(cls, rho: Fraction, *, k: int, word_bits: int) -> "DummiesHistogram":
        """Return the device that tries to send rho dummies on average, a multiple of 2^-word_bits."""
        surely = math.floor(rho)
        threshold = int((rho - surely) * (1 << word_bits))
        return cls(k=k, surely=surely, threshold=threshold, word_bits=word_bits)

    @property
    def words_per_input(self) -> int:
        return self.surely + (2 if self.threshold else 0)

    @property
    def rho(self) -> Fraction:
        """Exact mean number of dummies that a user tries to send."""
        return self.surely + self.more

    @property
    def more(self) -> Fraction:
        """Exact probability of one dummy more."""
        return Fraction(self.threshold, 1 << self.word_bits)

    @property
    def hit(self) -> Fraction:
        """Exact probability that a dummy is a given bin."""
        return Fraction((1 << self.word_bits) // self.k, 1 << self.word_bits)

    @property
    def noise(self) -> tuple[tuple[int, Fraction], ...]:
        """What each user adds to a given bin: a sum of these (number, probability) binomials."""
        return (self.surely, self.hit), (1, self.more * self.hit)

    @property
    def cost(self) -> Cost:
        return Cost(
            messages_mean=float(1 + self.rho * self.k * self.hit),
            messages_max=1 + math.ceil(self.rho),
            bits_per_message=(self.k - 1).bit_length(),
            count_depends_on_value=False,
        )

    def delta(self, honest: int, epsilon: float) -> float:
        return self._curve(honest).delta(epsilon)

    def open_curve(self, honest: int) -> tuple[Profile, float]:
        return self._curve(honest), 0.0

    def moved(self, honest: int, place: int) -> tuple[Profile, float]:
        """Return the curve of a message that moves after `place` others, between bins that theirs are not in."""
        return dummies_after(n=honest, rho=self.rho, pair=2 * self.hit, place=place)

    def _curve(self, honest: int) -> TwoBins:
        return dummies(n=honest, rho=self.rho, pair=2 * self.hit)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        users = np.arange(len(inputs))
        owners, sent = [users], [inputs.astype(np.int64)]
        for column in range(self.surely):
            owner, noise = self._dummies(users, words[:, column])
            owners.append(owner)
            sent.append(noise)
        if self.threshold:
            coin = tape.bernoulli(words[:, self.surely], self.threshold, self.word_bits)
            some = np.flatnonzero(coin)
            owner, noise = self._dummies(some, words[some, self.surely + 1])
            owners.append(owner)
            sent.append(noise)
        return Messages(
            payload=np.concatenate(sent), owner=np.concatenate(owners), users=len(inputs)
        )

    def _dummies(self, users: Counts, words: Words) -> tuple[Counts, Counts]:
        drawn = tape.uniform(words, self.k, self.word_bits)
        hits = drawn < self.k
        if hits.all():  # nearly always with words of 64 bits
            return users, drawn.astype(np.int64)
        return users[hits], drawn[hits].astype(np.int64)

    def pmf(self, x: int) -> Law:
        rejected = 1 - self.k * self.hit
        one: dict[tuple[int, ...], Fraction] = {(j,): self.hit for j in range(self.k)}
        one[()] = rejected
        last = {sent: self.more * mass for sent, mass in one.items()}
        last[()] += 1 - self.more
        law: Law = {}
        for draws in product(*[one.items()] * self.surely, last.items()):
            sent = (x, *sorted(j for one_sent, _ in draws for j in one_sent))
            law[sent] = law.get(sent, Fraction(0)) + math.prod(mass for _, mass in draws)
        return law

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal the tally: all dummies that are tried fall into the bins, or are rejected, like words of one crowd."""
        n = int(inputs.sum())
        tried = n * self.surely + binomial(n, self.threshold, self.word_bits, source)
        noise, _ = deal_uniform(tried, self.k, self.word_bits, source)
        return Tally(counts=inputs + noise, users=n)


@shuffle(
    name="dummies_histogram",
    task="histogram",
    title="Histogram with uniform dummies",
    reference="Balcer, Cheu 2020",
)
def make(crowd: Crowd, promise: Promise, *, k: int, word_bits: int = 64) -> Parts:
    """Make a histogram over k bins with 1 + rho messages from everybody.

    >>> p = make(n=1_024_000, k=1024, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> p.analyzer.variance(np.full(1024, 1000))[:2].round(2), round(p.cost.messages_mean, 3)
    (array([42.65, 42.65]), 1.043)
    """
    words = 1 << whole("word_bits", word_bits, at_least=1, at_most=64)
    hit = Fraction(words // whole("k", k, at_least=2, at_most=words), words)
    rho = dummies_level(
        n=crowd.trusted, pair=2 * hit, epsilon=promise.epsilon, delta=promise.delta, bits=word_bits
    )
    if rho > _MOST:
        raise UnsupportedError(
            f"n={crowd.n} users are too few: each would send {float(rho):.3g} dummies"
        )
    device = DummiesHistogram.sending(rho, k=k, word_bits=word_bits)
    analyzer = FrequencyAnalyzer(oracle=device, noise=device.noise)
    return Parts(
        device,
        analyzer,
        deal=device.deal,
        curve=device.open_curve,
        moved=device.moved,
        influence=analyzer.influence,
        offset=analyzer.offset,
    )


SPEC = register(make, hints=LATE)
