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
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Bools, Codes, Counts, Words
from shuffledp.core.errors import ParameterError

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
    """Return r, if there is a polynomial of this degree.

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
