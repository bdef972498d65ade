r"""The public functions: which cell of a row a word belongs to.

Words are vectors of `bits` bits. First a uniformly random invertible matrix A over GF(2) stirs them, y = A x: words
that begin alike no longer do, so the first bits of y say as much about a word as any others. Row r then looks at the
first `lengths[r]` bits of y, and its cell is M_r y, M_r a uniformly random matrix with log2(buckets) rows.

**The law.** Over the words of the source, all A that are invertible are equally likely (a singular one is drawn again),
and the entries of all M_r are independent fair bits. So two words that differ within the first bits of y share a cell of
the row with probability exactly 1 / buckets, two words that do not share it always, and any two others meet a
third one independently. `count` people of one word are in one cell of each row: all sums over words below are exact.

Everything is linear: the cell of a prefix and a few more bits is the cell of the prefix XOR the cell of those bits. That
is how all words with one prefix are looked up together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Codes
from shuffledp.core.randomizer import WordSource
from shuffledp.core.texts import Spelt
from shuffledp.core.validate import whole

_BYTE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """Linear maps as columns: bit i of a number, from the lowest, adds column i.

    >>> same = Functions(bits=2, buckets=2, stir=(1, 2), lengths=(1, 2), rows=((0, 1), (1, 1)))
    >>> same.find_cells(np.arange(4, dtype=np.uint64))
    array([[0, 0, 1, 1],
           [0, 1, 1, 0]])
    """

    bits: int
    buckets: int
    stir: tuple[int, ...]
    """The columns of A."""
    lengths: tuple[int, ...]
    """How many of the first bits of y each row looks at."""
    rows: tuple[tuple[int, ...], ...]
    """The columns of each M_r; those of bits that it does not look at are 0."""
    back: tuple[int, ...] = field(init=False)
    """The columns of the inverse of A."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "back", invert_matrix(self.stir))

    def stir_words(self, codes: Codes) -> Spelt:
        """y of each word."""
        return apply_columns(self.stir, codes)

    def unstir(self, stirred: Codes) -> Spelt:
        """Return the word of each y."""
        return apply_columns(self.back, stirred)

    def find_cells(self, codes: Codes) -> NDArray[np.int64]:
        """[rows, len(codes)]: the cell of each word in each row."""
        stirred = self.stir_words(codes)
        return np.array(
            [apply_columns(columns, stirred) for columns in self.rows], dtype=np.int64
        ).reshape(len(self.rows), len(stirred))

    def find_own_cells(self, codes: Codes, rows: Codes) -> NDArray[np.int64]:
        """Return the cell of each word in the row that its owner drew."""
        stirred, cells = self.stir_words(codes), np.empty(len(codes), dtype=np.int64)
        order = np.argsort(rows, kind="stable")
        ends = np.searchsorted(rows[order], np.arange(len(self.rows) + 1))
        for row, columns in enumerate(self.rows):
            here = order[ends[row] : ends[row + 1]]
            cells[here] = apply_columns(columns, stirred[here])
        return cells

    def find_tails(self, row: int, start: int) -> NDArray[np.int64]:
        """Return the cells of all values of the bits from number `start` to the last one that the row looks at.

        XOR with the cell of the first `start` bits gives the cells of everything that begins with them.
        """
        return tabulate(self.tail_columns(row, start)).astype(np.int64)

    def tail_columns(self, row: int, start: int) -> tuple[int, ...]:
        """Return the columns of these bits."""
        return self.rows[row][self.bits - self.lengths[row] : self.bits - start]


def apply_columns(columns: Sequence[int], numbers: Codes) -> Spelt:
    """Return the matrix with these columns times each number: byte by byte from tables.

    >>> apply_columns((3, 1), np.array([0, 1, 2, 3]))
    array([0, 3, 1, 2], dtype=uint64)
    """
    numbers = np.asarray(numbers).astype(np.uint64, copy=False)
    result = np.zeros(len(numbers), dtype=np.uint64)
    for start in range(0, len(columns), _BYTE):
        table = tabulate(columns[start : start + _BYTE])
        byte = (numbers >> np.uint64(start)) & np.uint64(len(table) - 1)
        result ^= table[byte.astype(np.intp)]
    return result


def tabulate(columns: Sequence[int]) -> Spelt:
    """Return the matrix with these columns times every number that it takes.

    >>> tabulate((3, 1))
    array([0, 3, 1, 2], dtype=uint64)
    """
    table = np.zeros(1, dtype=np.uint64)
    for column in columns:
        table = np.concatenate((table, table ^ np.uint64(column)))
    return table


def draw_functions(
    *, bits: int, buckets: int, lengths: Sequence[int], source: WordSource
) -> Functions:
    """Functions with the law above, from uniform words.

    >>> from shuffledp import SeededWords
    >>> made = draw_functions(bits=64, buckets=1024, lengths=(16, 64), source=SeededWords(1))
    >>> words = np.array([1, 2, 2**64 - 1], dtype=np.uint64)
    >>> bool((made.unstir(made.stir_words(words)) == words).all())
    True
    """
    whole("bits", bits, at_least=1, at_most=64)
    width = whole("buckets", buckets, at_least=2).bit_length() - 1
    stir = tuple(source.words(bits, bits).tolist())
    while not _is_invertible(stir):
        stir = tuple(source.words(bits, bits).tolist())
    rows = []
    for length in lengths:
        drawn = source.words(length, width).tolist()
        rows.append((*(0,) * (bits - length), *drawn))
    return Functions(
        bits=bits, buckets=buckets, stir=stir, lengths=tuple(lengths), rows=tuple(rows)
    )


def _is_invertible(columns: Sequence[int]) -> bool:
    """Return whether no sum of some of them is 0."""
    by_top: dict[int, int] = {}
    for column in columns:
        left = column
        while left and left.bit_length() in by_top:
            left ^= by_top[left.bit_length()]
        if not left:
            return False
        by_top[left.bit_length()] = left
    return True


def invert_matrix(columns: Sequence[int]) -> tuple[int, ...]:
    """Return the columns of the inverse matrix.

    >>> invert_matrix((3, 1))
    (2, 3)
    """
    size = len(columns)
    # Each pair is a sum of some columns, and which ones: until the sums are the unit vectors.
    pairs = [(column, 1 << place) for place, column in enumerate(columns)]
    for bit in range(size):
        pivot = next(i for i in range(bit, size) if pairs[i][0] >> bit & 1)
        pairs[bit], pairs[pivot] = pairs[pivot], pairs[bit]
        for i in range(size):
            if i != bit and pairs[i][0] >> bit & 1:
                pairs[i] = (pairs[i][0] ^ pairs[bit][0], pairs[i][1] ^ pairs[bit][1])
    return tuple(which for _, which in pairs)
