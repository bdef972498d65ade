"""Linear systems over GF(2), many at once: which x have a linear image near a target?

A word x of m bits has the image XOR of the columns at its set bits. Each system has columns and a
target of its own; `solutions` lists every x < 2^m whose image, XOR the target, is below a bound. That
takes about m^2 vector operations and then time proportional to what is found, instead of 2^m trials.

The trick: a pair (image, x) is one 64-bit word, image in front. XOR of pairs stays a pair, and
min(word, word ^ other) clears the leading bit of `other`; so plain Gauss elimination is two NumPy calls
a step, and each system may have pivots of its own.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from shuffledp.core.arrays import Bools, Counts, Words
from shuffledp.numerics.galois import line

__all__ = ["parity", "solutions"]

_HALF = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)
_SYSTEMS = 1 << 12  # their pairs stay in the CPU's cache
_LISTED = 1 << 20  # candidates listed at once


def parity(words: Words) -> Words:
    """1 where a word has an odd number of ones, else 0.

    >>> parity(np.array([0, 1, 3, 7, 255], dtype=np.uint8))
    array([0, 1, 0, 1, 0], dtype=uint8)
    """
    folded, shift = words, 4 * words.dtype.itemsize
    while shift:
        folded = folded ^ (folded >> words.dtype.type(shift))
        shift //= 2
    return folded & words.dtype.type(1)


def solutions(columns: Sequence[Words], target: Words, below: int) -> Iterator[Counts]:
    """Every x with (image of x) ^ target < below, of all systems together, in portions.

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
