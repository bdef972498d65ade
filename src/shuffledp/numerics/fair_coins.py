r"""Bin(m, 1/2), exactly, for any m: the number of heads among m fair coins.

Below 4,096 coins the heads are counted: m bits of keystream, a popcount. More coins are tossed in blocks of
B = 2^12, 2^16 and 2^20, and the heads of a block are drawn by inversion, mostly from a single word.

**Inversion of a block.** U is a uniform real in [0, 1), read word by word, and the draw is the k with
F(k - 1) <= U < F(k), where F(k) = 2^-B sum_(j <= k) C(B, j). So Pr[k] = C(B, k) / 2^B whatever the table
looks like, if the comparisons are right. The first word leaves an interval of width 2^-64 for U. If it lies
between two neighbouring F, which are known between integers in units of 2^-64, the draw is decided; if not
(about once in 2^50 blocks), more words are read, F is enclosed more narrowly, and so on. Nothing is rounded
and nothing rejected.

**Enclosing F.** With h = B/2, the weights w(d) = C(B, h - d) / C(B, h) obey w(0) = 1 and
w(d + 1) = w(d) (h - d) / (h + d + 1). In units of 2^-128 they are computed in integers, rounded down and up.
The ratios fall, so what lies beyond distance D is at most w(D) r / (1 - r) with the next ratio r. Partial
sums of these bounds, divided by those of their total, enclose F on the lower half, and F(h + d - 1) =
1 - F(h - d) gives the upper half. If B is at most 128, the recursion starts from C(B, h) itself, all
divisions come out even, and the enclosure is F: so tests enumerate every tape.

Everything is integers. Words are read in a fixed order, so the same seed gives the same heads everywhere.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from math import comb
from typing import NamedTuple

import numpy as np

from shuffledp.core.arrays import Counts, Words
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import WordSource

__all__ = ["LARGEST", "binomial_half", "binomial_halves", "check_counts", "toss"]

LARGEST = 1 << 62
"""How many coins there may be in all."""

_BLOCKS = (1 << 20, 1 << 16, 1 << 12)  # even numbers, from large to small
_WORD_BITS = 64  # of the words that decide a block
_GUARD_BITS = 64  # more bits than words have, for the weights
_GUIDE_BITS = 16  # of a word: they decide more than nine in ten
_CHUNK = 1 << 15  # words of keystream at a time: they stay in the cache
_NOWHERE = np.zeros(1, dtype=np.int64)
_ONE = np.uint64(1)


def binomial_half(m: int, source: WordSource) -> int:
    """Bin(m, 1/2).

    >>> from shuffledp import SeededWords
    >>> binomial_half(10**6, SeededWords(1))
    500494
    """
    return int(binomial_halves([m], source)[0])


def binomial_halves(counts: Counts | Sequence[int], source: WordSource) -> Counts:
    """Independent Bin(counts[i], 1/2).

    >>> from shuffledp import SeededWords
    >>> binomial_halves([1000, 0, 10, 1], SeededWords(1))
    array([481,   0,   5,   0])
    """
    return toss(check_counts(counts), source)


def check_counts(counts: Counts | Sequence[int]) -> Counts:
    """The counts as an array, if they are whole numbers >= 0 that sum to at most 2^62."""
    checked = np.asarray(counts)
    if checked.ndim != 1 or (len(checked) and checked.dtype.kind not in "iu"):
        raise ParameterError("counts", counts, "must be whole numbers in one row")
    if len(checked) and (int(checked.min()) < 0 or sum(checked.tolist()) > LARGEST):
        raise ParameterError("counts", counts, "must be >= 0 and sum to at most 2^62")
    return checked.astype(np.int64)


def toss(counts: Counts, source: WordSource) -> Counts:
    """`binomial_halves` for counts that have been checked."""
    heads, left = np.zeros_like(counts), counts
    most = int(counts.max(initial=0))
    for block in _BLOCKS:
        if most >= block:
            blocks, left = np.divmod(left, block)
            most = int(left.max())
            heads += _sum_runs(blocks, _CHUNK, partial(_add_blocks, source, block))
    return heads + _sum_runs(left, 64 * _CHUNK, partial(_count_ones, source))


def _sum_runs(
    lengths: Counts, chunk: int, read: Callable[[int, Counts], tuple[Counts, int]]
) -> Counts:
    """Sums over consecutive runs of a stream of numbers, read in chunks.

    read(size, ends) takes the next `size` numbers, and gives their sums up to these ends and in all.
    """
    ends = lengths.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    if 0 < total <= chunk:
        sums, _ = read(total, ends)
        sums[1:] -= sums[:-1].copy()
        return sums
    upto = np.zeros(len(ends) + 1, dtype=np.int64)
    done = so_far = first = 0
    while done < total:
        size = min(total - done, chunk)
        past = int(ends.searchsorted(done + size, side="right"))
        sums, whole = read(size, ends[first:past] - done)
        upto[first + 1 : past + 1] = so_far + sums
        done, so_far, first = done + size, so_far + whole, past
    return upto[1:] - upto[:-1]


def _read_bits(size: int, source: WordSource) -> Words:
    """`size` bits in words of 64, from the low end on; zeros fill up the last."""
    words = source.words(size >> 6)
    if size & 63:
        words = np.concatenate((words, source.words(1, size & 63).astype(np.uint64)))
    return words


def _count_ones(source: WordSource, size: int, ends: Counts) -> tuple[Counts, int]:
    words = _read_bits(size, source)
    word, bit = ends >> 6, (ends & 63).astype(np.uint64)
    upto = np.zeros(len(words) + 1, dtype=np.int64)
    np.bitwise_count(words).cumsum(dtype=np.int64, out=upto[1:])
    low = words[np.minimum(word, len(words) - 1)] & ((_ONE << bit) - _ONE)
    return upto[word] + np.bitwise_count(low), int(upto[-1])


def _add_blocks(source: WordSource, block: int, size: int, ends: Counts) -> tuple[Counts, int]:
    upto = np.concatenate((_NOWHERE, _toss_blocks(size, block, source).cumsum()))
    return upto[ends], int(upto[-1])


def _toss_blocks(size: int, block: int, source: WordSource) -> Counts:
    """The heads of each of `size` blocks."""
    table, words = _table(block, _WORD_BITS), source.words(size, _WORD_BITS)
    words = words.astype(np.uint64, copy=False)
    place = table.find(words)
    heads: Counts = table.heads[place]
    for i in np.flatnonzero((place < 0) | (words > table.last[place])).tolist():
        heads[i] = _decide(int(words[i]), block, source)
    return heads


def _decide(word: int, block: int, source: WordSource) -> int:
    number, bits = word, _WORD_BITS
    while True:
        number = (number << _WORD_BITS) | int(source.words(1, _WORD_BITS)[0])
        bits += _WORD_BITS
        cuts = _cuts(block, bits)
        place = bisect_right(cuts.first, number) - 1
        if place >= 0 and number <= cuts.last[place]:
            return cuts.heads[place]


class _Cuts(NamedTuple):
    """Numbers of some bits from first[i] to last[i] mean heads[i], whatever bits follow."""

    heads: list[int]
    first: list[int]
    last: list[int]


class _Table(NamedTuple):
    """The same for words, as arrays."""

    heads: Counts
    first: Words
    last: Words
    guide: Counts
    """How many of the first numbers are at most a word that begins with i and ends in zeros."""
    shift: np.uint64
    """How many bits of a word come after i."""

    def find(self, words: Words) -> Counts:
        """The last place whose first number is at most the word, or -1: mostly the high bits tell."""
        high = (words >> self.shift).astype(np.int64)
        past: Counts = self.guide[high]
        torn = np.flatnonzero(past != self.guide[high + 1])
        past[torn] = self.first.searchsorted(words[torn], side="right")
        return past - 1


@lru_cache(maxsize=8)
def _table(block: int, bits: int) -> _Table:
    cuts, high = _cuts(block, bits), min(bits, _GUIDE_BITS)
    first, shift = np.array(cuts.first, dtype=np.uint64), np.uint64(bits - high)
    starts = np.arange(1 << high, dtype=np.uint64) << shift
    return _Table(
        heads=np.array(cuts.heads, dtype=np.int64),
        first=first,
        last=np.array(cuts.last, dtype=np.uint64),
        guide=np.append(first.searchsorted(starts, side="right"), len(first)),
        shift=shift,
    )


@lru_cache(maxsize=8)
def _cuts(block: int, bits: int) -> _Cuts:
    """In the order of the heads; those that no number is sure to mean are left out."""
    scale, half = 1 << bits, block // 2
    lower = _enclose(block, bits)
    upper = [(scale - above, scale - below) for below, above in reversed(lower)]
    around = [*lower, *upper]  # of F(k), for k = half - D .. half + D - 1
    fewest = half - len(lower) + 1
    if fewest == 1:  # all of them, so F(-1) = 0 and F(block) = 1 are the next ones
        fewest, around = 0, [(0, 0), *around, (scale, scale)]
    sure = [
        (heads, above, below - 1)
        for heads, ((_, above), (below, _)) in enumerate(pairwise(around), fewest)
        if above < below
    ]
    return (
        _Cuts(*(list(column) for column in zip(*sure, strict=True))) if sure else _Cuts([], [], [])
    )


def _enclose(block: int, bits: int) -> list[tuple[int, int]]:
    """Integers around 2^bits F(h - d), for d = D, ..., 2, 1."""
    precision, half = bits + _GUARD_BITS, block // 2
    low = high = comb(block, half) if block <= precision else 1 << precision
    lows, highs = [low], [high]
    for d in range(half):
        low, high = low * (half - d) // (half + d + 1), -(-high * (half - d) // (half + d + 1))
        if low == 0:
            break
        lows.append(low)
        highs.append(high)
    D = len(highs) - 1
    rest = -(-highs[D] * (half - D) // (2 * D + 1))  # at least the sum of all weights further out
    sums_low = list(accumulate(reversed(lows[1:])))
    sums_high = list(accumulate(reversed(highs[1:]), initial=rest))[1:]
    least, most = lows[0] + 2 * sums_low[-1], highs[0] + 2 * sums_high[-1]
    return [
        ((a << bits) // most, -((-b << bits) // least))
        for a, b in zip(sums_low, sums_high, strict=True)
    ]
