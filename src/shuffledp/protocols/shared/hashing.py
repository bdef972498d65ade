"""A linear hash family over GF(2^r), and messages (a, v) of one of its functions and a value.

a is an element of the field and h_a(x) is the first s bits of the product a x. A message (a, v) supports the categories x
with h_a(x) XOR v < width. For x != y the difference h_a(x) XOR h_a(y) = h_a(x - y) is uniform if a is, so

* a uniform message supports any category with probability q = width / 2^s, and so does one that has nothing to do with it,
* any two categories are supported by the share q^2 of all messages,

both exactly: collision probabilities are known, and no estimate has a bias. Which categories a message supports are the
solutions of a linear system over GF(2), so that messages are counted in time proportional to what they support.
"""

from collections.abc import Set
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Words
from shuffledp.core.domain import Categories, find_outside
from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.core.randomizer import Message, NumberCode, Shuffled
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.galois import check_degree, multiples, multiply, solutions

DEGREES: tuple[int, ...] = (*range(2, 17), 32)
"""Of fields whose elements have two or four bytes."""
SPARE_BITS = 5
"""Of a value: the width is then 32 .. 64, so that rounding it up moves q by 3 % at most."""
_ALL = 1 << 28
"""Categories up to which a tally of all of them is made: 2 GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearHashing:
    """The messages (a, v) about k categories.

    >>> hashing = LinearHashing(k=4, r=2, s=2, width=1)
    >>> hashing.q, sorted(hashing.find_supported((1, 3)))
    (Fraction(1, 4), [3])
    """

    k: int
    r: int
    s: int
    width: int

    def __post_init__(self) -> None:
        check_degree(self.r)
        whole("k", self.k, at_least=2, at_most=1 << self.r)
        whole("s", self.s, at_least=1, at_most=self.r)
        whole("width", self.width, at_least=1, at_most=(1 << self.s) - 1)

    @property
    def q(self) -> Fraction:
        """The exact share of messages that support a category."""
        return Fraction(self.width, 1 << self.s)

    @property
    def bits(self) -> int:
        """Of the function and of the value."""
        return self.r + self.s

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        return np.min_scalar_type((1 << self.r) - 1)

    @property
    def code(self) -> NumberCode:
        """Messages as bytes."""
        return NumberCode(sizes=(1 << self.r, 1 << self.s), dtype=self.dtype.name, row=True)

    def split(self, words: Words) -> tuple[Words, Words]:
        """Return a function and a value, both uniform, from the low bits of a word."""
        word = words.dtype.type
        a = words & word((1 << self.r) - 1)
        v = (words >> word(self.r)) & word((1 << self.s) - 1)
        return a.astype(self.dtype), v.astype(self.dtype)

    def scatter(self, words: Words) -> Words:
        """Return a uniform message for each word, one per row.

        >>> LinearHashing(k=4, r=2, s=2, width=1).scatter(np.array([13, 2], dtype=np.uint8))
        array([[1, 3],
               [2, 0]], dtype=uint8)
        """
        return np.column_stack(self.split(words))

    def hash(self, a: Words, x: Codes) -> Words:
        """Return h_a(x), entry by entry."""
        return multiply(a, x, self.k, self.r) >> self.dtype.type(self.r - self.s)

    def send(
        self, inputs: Codes, functions: Words, near: Words, word_bits: int
    ) -> tuple[Words, Words]:
        """Return a random function and value of a message that supports the input; a rejected draw is uniform."""
        a, spare = self.split(functions)
        t = tape.uniform(near, self.width, word_bits)
        value = self.hash(a, inputs) ^ t.astype(self.dtype)
        return a, np.where(t < t.dtype.type(self.width), value, spare)

    def reject(self, word_bits: int) -> Fraction:
        """Return how often `send` rejects a draw (see `numerics.tape`)."""
        words = 1 << word_bits
        return Fraction(words % self.width, words)

    def find_supported(self, message: Message) -> Set[int]:
        """Return the categories that a message supports."""
        assert isinstance(message, tuple)
        a, v = message
        values = self.hash(np.full(self.k, a, dtype=self.dtype), np.arange(self.k))
        return set(np.flatnonzero((values ^ self.dtype.type(v)) < self.width).tolist())

    def tally(self, shuffled: Shuffled) -> Tally:
        """Count, for each category, the messages that support it."""
        if self.k > _ALL:
            raise UnsupportedError(
                f"a tally of all k={self.k} categories does not fit into memory: "
                "ask for some of them by tally_of"
            )
        a, v = self._columns(shuffled)
        counts = np.zeros(self.k, dtype=np.int64)
        drop = np.uint64(self.r - self.s)
        images = [multiple >> drop for multiple in multiples(a.astype(np.uint64), self.k, self.r)]
        for found in solutions(images, v, self.width):
            inside = found[found < self.k]
            if len(inside) * 8 > self.k:
                counts += np.bincount(inside, minlength=self.k)
            else:
                np.add.at(counts, inside, 1)
        return Tally(counts=counts, users=shuffled.users)

    def tally_of(self, shuffled: Shuffled, categories: ArrayLike) -> Tally:
        """Return the tally of some categories only."""
        a, v = self._columns(shuffled)
        codes = Categories(k=self.k).codes(categories)
        near = [self.hash(a, np.full(len(a), code)) ^ v for code in codes.tolist()]
        counts = [int(np.count_nonzero(values < self.width)) for values in near]
        return Tally(counts=np.array(counts, dtype=np.int64), users=shuffled.users)

    def _columns(self, shuffled: Shuffled) -> tuple[Words, Words]:
        messages = shuffled.payload
        if messages.ndim != 2 or messages.shape[1] != 2 or messages.dtype.kind not in "iu":
            shown = f"an array of shape {messages.shape} and type {messages.dtype}"
            raise DataError(f"messages are rows (a, v) of integers, not {shown}")
        for name, column, bits in (("a", messages[:, 0], self.r), ("v", messages[:, 1], self.s)):
            if find_outside(column, 1 << bits) is not None:
                raise DataError(f"the {name} of a message is outside 0 .. {(1 << bits) - 1}")
        return messages[:, 0].astype(self.dtype), messages[:, 1].astype(self.dtype)
