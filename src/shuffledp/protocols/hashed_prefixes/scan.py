r"""What the cells of all continuations of a prefix hold, in all rows together: looked up, or by one transform.

A prefix p has the cell head_r in row r, and its continuation c the cell head_r XOR M_r c. Looked up, the sums of all
2^w continuations take R 2^w steps, R the number of rows. All functions are linear over GF(2), so

    sum_r T_r[head_r XOR M_r c] = sum_s F(s) (-1)^<s, c>,    F(s) = sum_r sum_{u : M_r^t u = s} (-1)^<u, head_r> S_r(u),

where S_r is the Walsh-Hadamard transform of the row T_r, divided by its length b. F takes R b steps, and its transform
w 2^w steps of the kind that processors like best. So rows that are short beside 2^w are transformed.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.protocols.hashed_prefixes.functions import Functions, tabulate

__all__ = ["Sums", "scan_sums", "transform_rows"]

_ELEMENTS = 1 << 18  # of a block of sums: what the cache of a core holds
_RADIX = 5  # bits that one multiplication of matrices transforms
_AT_ONCE = 128  # columns of one: so small ones are never shared between threads, which would cost more than they do
_THREADS = 2
# Nanoseconds, about: of a cell that is looked up, of one that is placed, and of a sum that is transformed.
_LOOK, _PLACE, _TRANSFORM = 1.3, 3.0, 5.0

Sums: TypeAlias = NDArray[np.float32]
_Cells: TypeAlias = NDArray[np.int64]


def scan_sums(
    functions: Functions, rows: Sequence[int], start: int, tables: Sums, heads: _Cells
) -> Iterator[tuple[int, int, Sums]]:
    """Blocks of sums over these rows, whose cells hold `tables`[rows, buckets].

    `heads`[rows, prefixes] are the cells of prefixes of `start` bits. A block is the number of its first prefix, that
    of its first continuation, and the sums of some prefixes (one after the other) and continuations.

    >>> same = Functions(bits=2, buckets=2, stir=(1, 2), lengths=(2, 2), rows=((0, 1), (1, 1)))
    >>> held = np.array([[5, 1], [0, 2]], dtype=np.float32)
    >>> list(scan_sums(same, (0, 1), 1, held, np.array([[0, 1], [0, 1]])))
    [(0, 0, array([[5., 7.],
           [3., 1.]], dtype=float32))]
    """
    width = functions.lengths[rows[0]] - start
    looked_up = _LOOK * len(rows) * 2**width
    transformed = _PLACE * tables.size + _TRANSFORM * 2**width
    work: _Transform | _LookUp
    if width > _RADIX and transformed < looked_up:
        work = _Transform.of(functions, rows, start, tables)
        wide = 1 << width
    else:
        work = _LookUp(tables=tables, tails=[functions.find_tails(row, start) for row in rows])
        wide = min(1 << width, _ELEMENTS)
    high = max(1, _ELEMENTS // wide)
    blocks = [
        (first, begin)
        for first in range(0, heads.shape[1], high)
        for begin in range(0, 1 << width, wide)
    ]

    def add_up(block: tuple[int, int]) -> tuple[int, int, Sums]:
        first, begin = block
        return first, begin, work.add_up(heads[:, first : first + high], begin, wide)

    with ThreadPoolExecutor(_THREADS) as pool:
        for at in range(0, len(blocks), 2 * _THREADS):  # no more than a few blocks are held
            yield from pool.map(add_up, blocks[at : at + 2 * _THREADS])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LookUp:
    tables: Sums
    tails: list[_Cells]
    """The cells of all continuations, by row."""

    def add_up(self, heads: _Cells, begin: int, wide: int) -> Sums:
        total = np.zeros((heads.shape[1], wide), dtype=np.float32)
        cells = np.empty(total.shape, dtype=np.int64)
        one = np.empty(total.shape, dtype=np.float32)
        for table, head, tails in zip(self.tables, heads, self.tails, strict=True):
            np.bitwise_xor(head[:, None], tails[None, begin : begin + wide], out=cells)
            np.take(table, cells, out=one, mode="clip")
            total += one
        return total


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Transform:
    spectra: Sums
    """[rows, buckets]: S_r."""
    places: _Cells
    """M_r^t u of all rows and all u, one after the other."""
    low: int = field(init=False)
    """Half of the bits of u: signs are products of those of both halves."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", (self.spectra.shape[1].bit_length() - 1) // 2)

    @classmethod
    def of(
        cls, functions: Functions, rows: Sequence[int], start: int, tables: Sums
    ) -> "_Transform":
        bits = functions.buckets.bit_length() - 1
        places = []
        for row in rows:
            columns = functions.tail_columns(row, start)
            across = [sum((c >> j & 1) << i for i, c in enumerate(columns)) for j in range(bits)]
            places.append(tabulate(across).astype(np.int64))
        spectra = transform_rows(tables) / np.float32(functions.buckets)
        return cls(spectra=spectra, places=np.concatenate(places))

    def add_up(self, heads: _Cells, _: int, wide: int) -> Sums:
        rows, buckets = self.spectra.shape
        low, high = 1 << self.low, buckets >> self.low
        found = np.empty((heads.shape[1], wide), dtype=np.float32)
        halves = self.spectra.reshape(rows, high, low)
        for prefix, head in enumerate(heads.T):
            signs = hadamard(high)[head >> self.low][:, :, None]
            signed = halves * signs * hadamard(low)[head & (low - 1)][:, None, :]
            found[prefix] = np.bincount(self.places, weights=signed.ravel(), minlength=wide)
        return transform_rows(found)


def transform_rows(rows: Sums) -> Sums:
    """The Walsh-Hadamard transform of each row; lengths are powers of two.

    >>> transform_rows(np.array([[5, 1, 0, 0]], dtype=np.float32))
    array([[6., 4., 6., 4.]], dtype=float32)
    """
    count, length = rows.shape
    done = min(1 << _RADIX, length)
    rows = rows.reshape(-1, math.gcd(_AT_ONCE, rows.size // done), done) @ hadamard(done)
    while done < length:
        size, some = min(1 << _RADIX, length // done), min(done, _AT_ONCE)
        # The bits that are done are the last two axes, those that come now the one before.
        result = np.empty((rows.size // (size * done), size, done // some, some), dtype=np.float32)
        before = rows.reshape(result.shape).swapaxes(1, 2)
        np.matmul(hadamard(size), before, out=result.swapaxes(1, 2))
        rows, done = result, done * size
    return rows.reshape(count, length)


@lru_cache(maxsize=32)
def hadamard(size: int) -> Sums:
    """Sylvester's matrix.

    >>> hadamard(2)
    array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    one = np.ones((1, 1), dtype=np.float32)
    for _ in range(round(math.log2(size))):
        one = np.block([[one, one], [one, -one]])
    return one
