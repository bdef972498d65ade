"""How many people have each code: `np.bincount`, at a fraction of its time if there are few codes."""

import numpy as np

from shuffledp.core.arrays import Codes, Counts

__all__ = ["CodeCounter", "count_codes"]

_PACKED_BITS = 12  # 4,096 cells: 32 KB, which stay in the fastest cache
_AT_ONCE = 1 << 17  # codes: they stay in the cache until they are packed
_FEWEST = 1 << 15  # codes that are worth the packing


def count_codes(codes: Codes, size: int) -> Counts:
    """Return how many of the codes are 0, 1, ..., size - 1.

    >>> count_codes(np.array([2, 0, 2]), 4)
    array([1, 0, 2, 0])
    """
    counter = CodeCounter(size)
    counter.add(codes)
    return counter.total()


class CodeCounter:
    """Counts codes 0, 1, ..., size - 1, some at a time; none may be outside.

    `np.bincount` takes its time per number. So if codes have six bits at most, as many of them as fit are packed
    into a number of twelve bits, with operations on whole words, and the numbers are counted.

    >>> counter = CodeCounter(3)
    >>> counter.add(np.array([1, 1, 2]))
    >>> counter.total()
    array([0, 2, 1])
    """

    __slots__ = ("_bits", "_cells", "_counts")

    def __init__(self, size: int) -> None:
        self._counts = np.zeros(size, dtype=np.int64)
        self._bits = next((b for b in (3, 4, 6) if size <= 1 << b), 0)
        self._cells = np.zeros(1 << _PACKED_BITS if self._bits else 0, dtype=np.int64)

    def add(self, codes: Codes) -> None:
        """Count these, too."""
        # Two codes to a number do not pay if they fill the memory's bandwidth anyway.
        worthwhile = self._bits in (3, 4) or (self._bits == 6 and codes.dtype.itemsize < 8)
        if worthwhile and len(codes) >= _FEWEST:
            codes = self._add_packed(codes)
        if len(codes) < len(self._counts):
            np.add.at(self._counts, codes, 1)
        else:
            codes = codes.astype(np.int64, copy=False)
            self._counts += np.bincount(codes, minlength=len(self._counts))

    def _add_packed(self, codes: Codes) -> Codes:
        """Count most of the codes, and leave the last."""
        each = _PACKED_BITS // self._bits
        words = min(len(codes), _AT_ONCE) // (4 * each)  # of four packed numbers
        step = 4 * each * words
        room = np.empty(step, dtype=np.uint16)
        lanes = room.view(np.uint64).reshape(each, words)
        shifted = np.empty(words, dtype=np.uint64)
        while len(codes) >= step:
            room[:] = codes[:step]
            for place in range(1, each):
                np.left_shift(lanes[place], np.uint64(self._bits * place), out=shifted)
                lanes[0] |= shifted
            packed = room[: 4 * words]
            self._cells += np.bincount(packed, minlength=len(self._cells))
            codes = codes[step:]
        return codes

    def total(self) -> Counts:
        """Return how many there were of each code."""
        counts, cells = self._counts.copy(), self._cells
        while len(cells) > 0:
            lanes = cells.reshape(1 << self._bits, -1)  # by the highest code that is left
            counts += lanes.sum(axis=1)[: len(counts)]
            cells = lanes.sum(axis=0) if len(cells) > 1 << self._bits else self._cells[:0]
        return counts
