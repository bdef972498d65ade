"""Arithmetic in the field GF(2^r): words of r bits, with XOR as addition.

Multiplication is that of polynomials over GF(2), modulo an irreducible polynomial of degree r. For
uniform words a and b the values a x + b at two different x are uniform and independent, exactly (a
field has one line through two points), and doubling is a shift: that makes these fields good for
hashing, where arithmetic modulo a prime is neither dyadic nor fast.

**Linear systems over GF(2), many at once**: which x have a linear image near a target? A word x of m bits
has the image XOR of the columns at its set bits. Each system has columns and a target of its own; `solutions` lists
every x < 2^m whose image, XOR the target, is below a bound. That takes about m^2 vector operations and then time
proportional to what is found, instead of 2^m trials.

The trick: a pair (image, x) is one 64-bit word, image in front. XOR of pairs stays a pair, and
min(word, word ^ other) clears the leading bit of `other`; so plain Gauss elimination is two NumPy calls
a step, and each system may have pivots of its own.

**A linear hash family** over GF(2^r): a message (a, v) is one of its functions and a value.

a is an element of the field and h_a(x) is the first s bits of the product a x. A message (a, v) supports the categories x
with h_a(x) XOR v < width. For x != y the difference h_a(x) XOR h_a(y) = h_a(x - y) is uniform if a is, so

* a uniform message supports any category with probability q = width / 2^s, and so does one that has nothing to do with it,
* any two categories are supported by the share q^2 of all messages,

both exactly: collision probabilities are known, and no estimate has a bias. Which categories a message supports are the
solutions of a linear system over GF(2), so that messages are counted in time proportional to what they support.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Bools, Codes, Counts, Words
from shuffledp.core.domain import Categories, find_outside
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.randomizer import Message, NumberCode, Shuffled
from shuffledp.core.validate import whole
from shuffledp.numerics import tape

_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)
_SYSTEMS = 1 << 12  # their pairs stay in the CPU's cache
_AT_ONCE = 1 << 14  # products: their factors stay there, too
_LOOKED_UP = 11  # bits: a table of their images stays in the cache
_LISTED = 1 << 20  # candidates listed at once

POLYNOMIALS = {
    2: 0x7,
    3: 0xB,
    4: 0x13,
    5: 0x25,
    6: 0x43,
    7: 0x83,
    8: 0x11B,
    9: 0x203,
    10: 0x409,
    11: 0x805,
    12: 0x1009,
    13: 0x201B,
    14: 0x4021,
    15: 0x8003,
    16: 0x1002B,
    17: 0x20009,
    18: 0x40009,
    19: 0x80027,
    20: 0x100009,
    21: 0x200005,
    22: 0x400003,
    23: 0x800021,
    24: 0x100001B,
    32: 0x10000008D,
}
"""The smallest irreducible polynomial of each degree r, bit i being the coefficient of z^i."""
DEGREES: tuple[int, ...] = (*range(2, 17), 32)
"""The degrees of fields whose elements have two or four bytes."""
SPARE_BITS = 5
"""Spare bits of a value: the width is then 32 .. 64, so that rounding it up moves q by 3 % at most."""
_ALL = 1 << 28
"""Categories up to which a tally of all of them is made: 2 GB."""


def double(a: Words, r: int) -> Words:
    """Return a z in GF(2^r), z being the word 2.

    >>> double(np.array([1, 5, 9], dtype=np.uint8), 4)
    array([ 2, 10,  1], dtype=uint8)
    """
    word = a.dtype.type
    kept = (a << word(1)) & word((1 << r) - 1)
    return kept ^ (a >> word(r - 1)) * word(POLYNOMIALS[check_degree(r)] & ((1 << r) - 1))


def multiples(a: Words, size: int, r: int) -> list[Words]:
    """Return a, 2 a, 4 a, ...: as many as the bits of size - 1.

    >>> [int(m[0]) for m in multiples(np.array([9], dtype=np.uint8), 8, 4)]
    [9, 1, 2]
    """
    doublings: list[Words] = []
    for _ in range((size - 1).bit_length()):
        doublings.append(a if not doublings else double(doublings[-1], r))
    return doublings


def multiply(a: Words, x: Codes, size: int, r: int) -> Words:
    """Return a x in GF(2^r), entry by entry, for x < size <= 2^r.

    >>> multiply(np.array([9, 9], dtype=np.uint8), np.array([2, 3]), 4, 4)
    array([1, 8], dtype=uint8)
    """
    if len(a) > _AT_ONCE:
        parts = (slice(start, start + _AT_ONCE) for start in range(0, len(a), _AT_ONCE))
        return np.concatenate([multiply(a[part], x[part], size, r) for part in parts])
    factors = x.astype(a.dtype)
    word = a.dtype.type
    product = np.zeros_like(a)
    for i, multiple in enumerate(multiples(a, size, r)):
        product ^= multiple * (factors >> word(i) & word(1))
    return product


def apply_linear(images: Words, words: Codes) -> Words:
    """Return the XOR of images[i] over the set bits i of each word, looked up for some bits at a time.

    >>> apply_linear(np.array([9, 1, 2], dtype=np.uint8), np.array([0, 3, 7]))
    array([ 0,  8, 10], dtype=uint8)
    """
    sums = np.zeros(len(words), dtype=images.dtype)
    for start in range(0, len(images), _LOOKED_UP):
        table = np.zeros(1, dtype=images.dtype)
        for image in images[start : start + _LOOKED_UP]:
            table = np.concatenate([table, table ^ image])
        sums ^= table[(words >> start) & (len(table) - 1)]
    return sums


def cubics(functions: tuple[tuple[int, int, int, int], ...], x: Codes, size: int, r: int) -> Words:
    """Return a x^3 + b x^2 + c x + d in GF(2^r), [functions, len(x)], for each (a, b, c, d) and x < size <= 2^r.

    Squaring is linear in the bits of x, and so is a product with a constant: one product is left for all functions.

    >>> cubics(((1, 0, 0, 0), (0, 1, 2, 3)), np.array([0, 1, 2]), 3, 4)
    array([[0, 1, 8],
           [3, 0, 3]], dtype=uint8)
    """
    powers, affine, leading, last = _find_images(functions, size, r)
    values = np.empty((len(functions), len(x)), dtype=last.dtype)
    for start in range(0, len(x), _AT_ONCE):
        part = x[start : start + _AT_ONCE]
        cube = multiply(apply_linear(powers, part), part, size, r).astype(np.int64)
        for t in range(len(functions)):
            value = apply_linear(affine[:, t], part) ^ apply_linear(leading[:, t], cube)
            values[t, start : start + _AT_ONCE] = value ^ last[t]
    return values


@lru_cache(maxsize=16)
def _find_images(
    functions: tuple[tuple[int, int, int, int], ...], size: int, r: int
) -> tuple[Words, Words, Words, Words]:
    """Return what the bits i of x add: (z^i)^2 to x^2, and b (z^i)^2 + c z^i and a z^i to each function; and the d."""
    a, b, c, d = np.array(functions, dtype=np.min_scalar_type((1 << r) - 1)).T
    bits = (size - 1).bit_length()
    powers = np.array(multiples(np.ones_like(a[:1]), 1 << 2 * bits, r))[::2, 0]
    squares = np.array(multiples(b, 1 << 2 * bits, r))[::2]  # [bits, functions]
    affine = squares ^ np.array(multiples(c, size, r))
    return powers, affine, np.array(multiples(a, 1 << r, r)), d


def line(b: Words, doublings: Sequence[Words], size: int) -> Words:
    """Return [size, n]: b + x a for x = 0 .. size-1 and every entry of a and b, given a, 2 a, 4 a, ...

    The second half of the table is the first half plus one multiple, so each value costs one XOR.

    >>> a, b = np.array([9], dtype=np.uint8), np.array([5], dtype=np.uint8)
    >>> line(b, multiples(a, 3, 4), 3)[:, 0]
    array([ 5, 12,  4], dtype=uint8)
    """
    table = np.empty((size, len(b)), dtype=b.dtype)
    table[0] = b
    for i, multiple in enumerate(doublings):
        done = 1 << i
        more = min(done, size - done)
        np.bitwise_xor(table[:more], multiple, out=table[done : done + more])
    return table


def check_degree(r: int) -> int:
    """Return r if there is a polynomial of this degree; raise otherwise.

    >>> check_degree(24)
    24
    """
    if r not in POLYNOMIALS:
        raise ParameterError("r", r, f"must be one of {', '.join(map(str, POLYNOMIALS))}")
    return r


def parity(words: Words) -> Words:
    """Return 1 where a word has an odd number of ones, else 0.

    >>> parity(np.array([0, 1, 3, 7, 255], dtype=np.uint8))
    array([0, 1, 0, 1, 0], dtype=uint8)
    """
    odd: Words = np.bitwise_count(words) & words.dtype.type(1)
    return odd


def solutions(columns: Sequence[Words], target: Words, below: int) -> Iterator[Counts]:
    """Yield every x with (image of x) ^ target < below, of all systems together, in portions.

    columns[i][s] is the image of bit i in system s; at most 32 columns of at most 32 bits.

    >>> columns = [np.array([1, 1]), np.array([2, 3]), np.array([3, 1])]
    >>> found = solutions(columns, np.array([3, 2]), 1)
    >>> sorted(int(x) for part in found for x in part)
    [3, 3, 4, 6]
    """
    for start in range(0, len(target), _SYSTEMS):
        part = slice(start, start + _SYSTEMS)
        pairs = [_pair(column[part], 1 << i) for i, column in enumerate(columns)]
        yield from _solve(pairs, _pair(target[part], 0), below)


def _pair(image: Words, x: int) -> Words:
    pairs: Words = (image.astype(np.uint64) << _HALF) | np.uint64(x)
    return pairs


def _solve(pairs: list[Words], target: Words, below: int) -> Iterator[Counts]:
    spare = np.empty_like(target)
    # Each is cleared of the leading bits of those before it, which are then all different.
    for i, pair in enumerate(pairs):
        for earlier in pairs[:i]:
            np.bitwise_xor(pair, earlier, out=spare)
            np.minimum(pair, spare, out=pair)
    for pair in pairs:
        np.bitwise_xor(target, pair, out=spare)
        np.minimum(target, spare, out=target)
    # Whatever lies below the power of two is combined freely, and what is not below `below` sorted out.
    free_below = np.uint64(1 << (below - 1).bit_length() + 32)
    possible = target < free_below
    basis = np.stack(pairs, axis=1)[possible]  # [systems, m]
    yield from _combine(basis, basis < free_below, target[possible], below)


def _combine(basis: Words, free: Bools, start: Words, below: int) -> Iterator[Counts]:
    dimensions = free.sum(axis=1)
    for dimension in np.unique(dimensions).tolist():
        chosen = dimensions == dimension
        vectors = basis[chosen][free[chosen]].reshape(int(chosen.sum()), dimension)
        starts = start[chosen]
        step = max(1, _LISTED >> dimension)
        for first in range(0, len(starts), step):
            part = slice(first, first + step)
            words = line(starts[part], list(vectors[part].T), 1 << dimension)
            yield (words[words < np.uint64(below << 32)] & _LOW).astype(np.int64)


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
        """The bits of the function and of the value."""
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
