"""Arithmetic in the field GF(2^r): words of r bits, with XOR as addition.

Multiplication is that of polynomials over GF(2), modulo an irreducible polynomial of degree r. For
uniform words a and b the values a x + b at two different x are uniform and independent, exactly (a
field has one line through two points), and doubling is a shift: that makes these fields good for
hashing, where arithmetic modulo a prime is neither dyadic nor fast.
"""

from collections.abc import Sequence

import numpy as np

from shuffledp.core.arrays import Codes, Words
from shuffledp.core.errors import ParameterError

__all__ = ["POLYNOMIALS", "double", "line", "multiples", "multiply"]

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
    """a z in GF(2^r), z being the word 2.

    >>> double(np.array([1, 5, 9], dtype=np.uint8), 4)
    array([ 2, 10,  1], dtype=uint8)
    """
    word = a.dtype.type
    kept = (a << word(1)) & word((1 << r) - 1)
    return kept ^ (a >> word(r - 1)) * word(_polynomial(r) & ((1 << r) - 1))


def multiples(a: Words, size: int, r: int) -> list[Words]:
    """a, 2 a, 4 a, ...: as many as the bits of size - 1.

    >>> [int(m[0]) for m in multiples(np.array([9], dtype=np.uint8), 8, 4)]
    [9, 1, 2]
    """
    found: list[Words] = []
    for _ in range((size - 1).bit_length()):
        found.append(a if not found else double(found[-1], r))
    return found


def multiply(a: Words, x: Codes, size: int, r: int) -> Words:
    """a x in GF(2^r), entry by entry, for x < size <= 2^r.

    >>> multiply(np.array([9, 9], dtype=np.uint8), np.array([2, 3]), 4, 4)
    array([1, 8], dtype=uint8)
    """
    factors = x.astype(a.dtype)
    word = a.dtype.type
    product = np.zeros_like(a)
    for i, multiple in enumerate(multiples(a, size, r)):
        product ^= multiple * (factors >> word(i) & word(1))
    return product


def line(b: Words, doublings: Sequence[Words], size: int) -> Words:
    """[size, n]: b + x a for x = 0 .. size-1 and every entry of a and b, given a, 2 a, 4 a, ...

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


def _polynomial(r: int) -> int:
    if r not in POLYNOMIALS:
        raise ParameterError("r", r, f"must be one of {', '.join(map(str, POLYNOMIALS))}")
    return POLYNOMIALS[r]
