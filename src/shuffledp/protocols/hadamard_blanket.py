"""Hadamard blanket: histograms over huge domains from random rows that agree with the category.

As `hashed_histogram`, with another family of sets: a message is tau columns of a Hadamard matrix, and
supports the categories whose rows are +1 in all of them, one in 2^tau. It is the private-coin
protocol of the paper. Messages are longer than those of `hashed_histogram`, and the share of supported
categories is a power of two, so that one is the better choice; this one needs no field arithmetic.

Reference: Ghazi, Golowich, Kumar, Pagh, Velingker 2021, "On the power of multiple anonymous messages".
Deviation: the number of dummies is calibrated by the exact two-bin divergence. Which categories a message
supports together depends on its columns, so the tally is dealt only where there are few different messages.
"""

import math
from collections.abc import Set
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import find_outside
from shuffledp.core.errors import DataError
from shuffledp.core.protocol import LATE, Crowd, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.galois import parity, solutions
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

_LARGEST_K = (1 << 28) - 1  # a tally of all categories takes 2 GB


@dataclass(frozen=True, slots=True, kw_only=True)
class HadamardBlanket(Dummied):
    r"""One real message of tau columns and rho dummies.

    The entry of the Sylvester-Hadamard matrix at row x + 1 and column y is (-1)^|(x + 1) & y|, |.| the
    number of ones. A dummy is tau uniform columns; a real message tau uniform ones among those with +1
    in row x + 1. (Row 0 is +1 everywhere, and not used.) Different rows are independent coins in a random
    column, so a message that has nothing to do with x supports it with probability q = 2^-tau,
    and two categories with probability q^2, exactly.

    >>> blanket = HadamardBlanket(k=3, tau=1, dummies=2, word_bits=2)
    >>> blanket.pmf(0)[(0,),], blanket.rho
    (Fraction(1, 4), Fraction(1, 2))
    >>> sorted(blanket.find_supported((3,)))
    [2]
    """

    k: int
    tau: int
    dummies: int
    """rho in units of 2^-word_bits."""
    word_bits: int = 32

    def __post_init__(self) -> None:
        whole("k", self.k, at_least=2, at_most=_LARGEST_K)
        whole("tau", self.tau, at_least=1, at_most=32)
        whole("dummies", self.dummies, at_least=1)
        whole("word_bits", self.word_bits, at_least=self.column_bits, at_most=64)

    @property
    def column_bits(self) -> int:
        """Bits of a column: the matrix is the smallest with more than k rows."""
        return self.k.bit_length()

    @property
    def words_per_input(self) -> int:
        """The coin of the last dummy, the real message, the dummies."""
        return 1 + self.tau * (1 + math.ceil(self.rho))

    @property
    def p(self) -> Fraction:
        return Fraction(1)

    @property
    def q(self) -> Fraction:
        return Fraction(1, 1 << self.tau)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        drawn = words[:, 1:] & words.dtype.type((1 << self.column_bits) - 1)
        real = _agree(drawn[:, : self.tau], inputs)
        surely, share = divmod(self.dummies, 1 << self.word_bits)
        coins = tape.bernoulli(words[:, 0], share, self.word_bits)
        dummies = drawn[:, self.tau :].reshape(len(inputs), -1, self.tau)
        return add_dummies(real, dummies, coins, surely)

    @property
    def message_bits(self) -> int:
        """Bits of all columns together."""
        return self.tau * self.column_bits

    def unpack(self, numbers: Words) -> Words:
        """Return the columns of the messages with these numbers."""
        shifts = np.arange(self.tau, dtype=np.uint64) * np.uint64(self.column_bits)
        columns: Words = numbers[:, None] >> shifts & np.uint64((1 << self.column_bits) - 1)
        return columns

    def deal_few(self, inputs: Counts, source: WordSource) -> Tally:
        """Draw real messages, and deal dummies."""
        shifts = np.arange(self.tau, dtype=np.uint64) * np.uint64(self.column_bits)

        def draw(codes: Codes) -> Words:
            words = source.words(len(codes), self.message_bits).astype(np.uint64)
            columns = _agree(self.unpack(words), codes)
            packed: Words = np.bitwise_or.reduce(columns << shifts, axis=1)
            return packed

        return deal_dummied(self, inputs, draw, source)

    def pmf(self, x: int) -> Law:
        everything = 1 << (self.column_bits * self.tau)
        real: dict[Message, Fraction] = {}
        for message in product(range(1 << self.column_bits), repeat=self.tau):
            real[message] = Fraction(x in self.find_supported(message)) / (everything * self.q)
        return dummied_law(real, everything, self.rho)

    def find_supported(self, message: Message) -> Set[int]:
        assert isinstance(message, tuple)
        rows = np.arange(1, self.k + 1, dtype=np.uint32)
        odd = [parity(rows & np.uint32(column)) for column in message]
        return set(np.flatnonzero(~np.any(odd, axis=0)).tolist())

    def tally(self, shuffled: Shuffled) -> Tally:
        """Count, for each category, the messages that support it.

        The rows x + 1 are the solutions of tau linear equations over GF(2), so this takes time
        proportional to the messages and to what they support, not to their product with k.
        """
        columns = self._columns(shuffled).T.astype(np.uint64)  # [tau, messages]
        images = [np.zeros_like(columns[0]) for _ in range(self.column_bits)]
        for i, column in enumerate(columns):
            for bit, image in enumerate(images):
                image |= (column >> np.uint64(bit) & np.uint64(1)) << np.uint64(i)
        counts = np.zeros(1 << self.column_bits, dtype=np.int64)
        for found in solutions(images, np.zeros_like(columns[0]), 1):
            np.add.at(counts, found, 1)
        return Tally(counts=counts[1 : self.k + 1], users=shuffled.users)

    def _columns(self, shuffled: Shuffled) -> Words:
        messages = shuffled.payload
        if messages.ndim != 2 or messages.shape[1] != self.tau or messages.dtype.kind not in "iu":
            shown = f"an array of shape {messages.shape} and type {messages.dtype}"
            raise DataError(f"messages are rows of tau={self.tau} columns, not {shown}")
        if find_outside(messages, 1 << self.column_bits) is not None:
            raise DataError(f"a column of a message is outside 0 .. {(1 << self.column_bits) - 1}")
        return messages


def _agree(columns: Words, inputs: Codes) -> Words:
    """Return columns[n, tau] that are all +1 in the row of n inputs: uniform among those, if they were uniform."""
    word = columns.dtype.type
    rows = inputs.astype(columns.dtype)[:, None] + word(1)
    # Flipping a bit of the row turns every -1 into a +1, one to one.
    lowest = rows & (~rows + word(1))
    agreeing: Words = columns ^ lowest * parity(columns & rows)
    return agreeing


@shuffle(
    name="hadamard_blanket",
    task="histogram",
    title="Hadamard blanket",
    reference="Ghazi, Golowich, Kumar, Pagh, Velingker 2021",
)
def make(
    crowd: Crowd, promise: Promise, *, k: int, messages: float = 2.0, word_bits: int = 32
) -> Parts:
    """Make a histogram over k < 2^28 categories, with at most about `messages` messages per user.

    tau is the largest number of columns with so few messages. A small n needs more than that, and gets it.

    >>> p = make(n=1_000_000, k=10**6, epsilon=1.0, delta=1e-6, honest=1.0)
    >>> round(p.cost.messages_mean, 2), p.cost.bits_per_message
    (1.7, 280)
    """
    whole("k", k, at_least=2, at_most=_LARGEST_K)
    whole("word_bits", word_bits, at_least=2, at_most=64)
    q = choose_support(crowd, promise, messages)
    tau = min(max(1, math.floor(-math.log2(q))), 32)
    rho = choose_rho(crowd, promise, Fraction(1, 1 << tau), word_bits)
    device = HadamardBlanket(k=k, tau=tau, dummies=rho, word_bits=word_bits)
    analyzer = analyze_dummied(device, device.rho)
    return Parts(
        device,
        analyzer,
        deal=device.deal_few if device.few else None,
        influence=analyzer.influence,
        offset=analyzer.offset,
    )


_WINS = (("n", 100_000), ("k", 4096), ("epsilon", 1.0), ("delta", 1e-8), ("max_messages", 1.75))
SPEC = register(make, hints=replace(LATE, wins=_WINS))
