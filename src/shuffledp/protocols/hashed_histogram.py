"""Hashed blanket: histograms over huge domains with about two short messages per user.

Uniform dummies over d bins cost d times the noise of a bin. Here categories share bins by hashing: a
message is a random hash function and a value of it, and supports all categories near that value, one in
g. Dummies need only reach each category, not each bin, so a user sends about g mu / n of them,
whatever d is; the price is a variance of n / g from other users' messages that collide. With
g = n / mu that is one dummy each and twice the variance of plain dummies.

Reference: Ghazi, Golowich, Kumar, Pagh, Velingker 2021, "On the power of multiple anonymous messages".
Deviations: hashing is linear over GF(2^r), so that collision probabilities are known exactly and
need no random shift (messages of r + s bits); noise is calibrated by the exact two-bin divergence.
Which categories a message supports together depends on the hash function, so the tally's joint law is not
simpler than the messages themselves: it is dealt only where all different ones can be counted one by one.
"""

import math
from collections.abc import Set
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.protocol import Crowd, Hints, Look, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.galois import DEGREES, SPARE_BITS, LinearHashing
from shuffledp.protocols.shared.assembly import register, shuffle
from shuffledp.protocols.shared.frequency import (
    Dummied,
    add_dummies,
    analyze_dummied,
    choose_rho,
    choose_support,
    deal_dummied,
    dummied_law,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedHistogram(Dummied):
    r"""One real message (a, v) and rho dummies.

    The messages are those of `LinearHashing`. The real one has v = h_a(x) XOR t, t uniform below `width`; a dummy is
    uniform. `rho` is dummies / 2^word_bits. A real message whose t is rejected (see `numerics.tape`, probability below
    width / 2^word_bits) is a dummy.

    >>> hashed = HashedHistogram(k=4, r=2, s=2, width=1, dummies=8, word_bits=4)
    >>> hashed.p, hashed.q, hashed.rho
    (Fraction(1, 1), Fraction(1, 4), Fraction(1, 2))
    >>> sorted(hashed.find_supported((1, 3)))
    [3]
    """

    k: int
    r: int
    s: int
    width: int
    dummies: int
    """rho in units of 2^-word_bits."""
    word_bits: int = 64

    def __post_init__(self) -> None:
        _ = self.hashing
        whole("dummies", self.dummies, at_least=1)
        whole("word_bits", self.word_bits, at_least=self.r + self.s, at_most=64)

    @property
    def hashing(self) -> LinearHashing:
        """The hash family."""
        return LinearHashing(k=self.k, r=self.r, s=self.s, width=self.width)

    @property
    def words_per_input(self) -> int:
        """A function (and a spare value), t, the coin of the last dummy, the dummies."""
        return 3 + math.ceil(self.rho)

    @property
    def q(self) -> Fraction:
        return Fraction(self.width, 1 << self.s)

    @property
    def p(self) -> Fraction:
        return 1 - self._rejected * (1 - self.q)

    @property
    def _rejected(self) -> Fraction:
        return self.hashing.reject(self.word_bits)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        hashing = self.hashing
        real = np.column_stack(hashing.send(inputs, words[:, 0], words[:, 1], self.word_bits))
        surely, share = divmod(self.dummies, 1 << self.word_bits)
        coins = tape.bernoulli(words[:, 2], share, self.word_bits)
        dummies = np.stack(hashing.split(words[:, 3:]), axis=-1)
        return add_dummies(real, dummies, coins, surely)

    @property
    def message_bits(self) -> int:
        """Bits of the function and of the value."""
        return self.r + self.s

    def unpack(self, numbers: Words) -> Words:
        """Return the functions and values of the messages with these numbers."""
        return self.hashing.scatter(numbers)

    def deal_few(self, inputs: Counts, source: WordSource) -> Tally:
        """Draw real messages, and deal dummies."""
        hashing = self.hashing

        def draw(codes: Codes) -> Words:
            functions = source.words(len(codes), self.message_bits)
            near = source.words(len(codes), self.word_bits)
            a, v = hashing.send(codes, functions.astype(np.uint64), near, self.word_bits)
            packed: Words = a.astype(np.uint64) | v.astype(np.uint64) << np.uint64(self.r)
            return packed

        return deal_dummied(self, inputs, draw, source)

    def pmf(self, x: int) -> Law:
        everything = 1 << (self.r + self.s)
        real: dict[Message, Fraction] = {}
        for message in product(range(1 << self.r), range(1 << self.s)):
            likely = (1 - self._rejected) / (self.width << self.r)
            real[message] = self._rejected / everything + likely * (
                x in self.find_supported(message)
            )
        return dummied_law(real, everything, self.rho)

    def find_supported(self, message: Message) -> Set[int]:
        return self.hashing.find_supported(message)

    def tally(self, shuffled: Shuffled) -> Tally:
        return self.hashing.tally(shuffled)

    def tally_of(self, shuffled: Shuffled, categories: ArrayLike) -> Tally:
        """Return the tally of some categories only; the analyzer's `estimate` takes it as well.

        >>> p = make(n=10_000, k=2**32, epsilon=1.0, delta=1e-6)
        >>> from shuffledp import SeededWords, randomize, shuffle
        >>> sent = randomize(p.randomizer, np.full(5_000, 123_456_789), SeededWords(1))
        >>> some = p.randomizer.tally_of(shuffle(sent, SeededWords(2)), [123_456_789, 5])
        >>> [round(value) for value in p.analyzer.estimate(some).value.tolist()]
        [5001, -4]
        """
        return self.hashing.tally_of(shuffled, categories)


@shuffle(
    name="hashed_histogram",
    task="histogram",
    title="hashed blanket",
    reference="Ghazi, Golowich, Kumar, Pagh, Velingker 2021",
)
def make(
    crowd: Crowd, promise: Promise, *, k: int, messages: float = 2.0, word_bits: int = 64
) -> Parts:
    """Make a histogram over k <= 2^32 categories, with about `messages` messages per user.

    `messages` = 1 + c buys the variance mu + mu / c per category, mu the noise of plain dummies. A
    small n needs more than that, and gets it.

    >>> p = make(n=1_000_000, k=10**6, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> round(p.cost.messages_mean, 2), p.cost.bits_per_message
    (1.99, 52)
    >>> inputs = np.zeros(10**6, dtype=np.int64)
    >>> inputs[7] = 10**6
    >>> round(float(p.analyzer.variance(inputs)[8]) ** 0.5, 2)
    9.25
    """
    whole("k", k, at_least=2, at_most=1 << 32)
    whole("word_bits", word_bits, at_least=3, at_most=64)
    q = choose_support(crowd, promise, messages)
    s = min(math.ceil(-math.log2(q)) + SPARE_BITS, 32, word_bits // 2)
    width = min(math.ceil(q * (1 << s)), 1 << (s - 1))
    device = HashedHistogram(
        k=k,
        r=_degree(k, s),
        s=s,
        width=width,
        dummies=choose_rho(crowd, promise, Fraction(width, 1 << s), word_bits),
        word_bits=word_bits,
    )
    analyzer = analyze_dummied(device, device.rho)
    return Parts(
        device,
        analyzer,
        deal=device.deal_few if device.few else None,
        influence=analyzer.influence,
        offset=analyzer.offset,
    )


def _degree(k: int, s: int) -> int:
    needed = max(s, (k - 1).bit_length())
    return min(r for r in DEGREES if r >= needed)


SPEC = register(make, hints=Hints(look=Look.LATE, any_size=True))
