r"""Dealing: how n uniform words fall into cells, without drawing the n words.

What n people add to a tally is how often each outcome occurs among n independent uniform words of `bits`
bits. The words need not be drawn one by one. Start with all n of them at the root of the binary tree of
prefixes. An interval of words that lies in one cell adds its number of words to that cell; any other is
halved, and Bin(m, 1/2) of its m words go left: as many as there are ones among m random bits.

**Why the law is exact.** Claim: at every level, given the numbers of words at all nodes of that level, the
words at a node are independent and uniform on the node's interval. It holds at the root. If it holds at a
node with m words, the next bits of these words are m fair bits, independent of each other, of the bits
further down and of all other nodes. So the number that goes left is Bin(m, 1/2), independently for each
node, and given that number the words on either side are independent and uniform on their half. Each cell is
a union of nodes, at the latest of single words, so the numbers that arrive in the cells have the
multinomial law of n independent words: not approximately, but as fractions (the tests enumerate it).

**Several codes.** People with different codes have different tables. One walk serves them all, with a number
of words per code at each node. Below a node where the cells no longer depend on the code, the words of all
codes are independent and uniform on the same interval, so only their sum matters: it is dealt on as one
number. A word that is rejected or absorbed is a cell like any other. Nothing is ever conditioned on being
accepted: "a binomial number of acceptances, then uniform among them" would have a law that is no multiple
of 2^-bits.

Where few words are left at many nodes, the rest of their bits is drawn word by word: the claim above says
that these words are uniform on their intervals.

Everything is integers: no floating point, no rejection, no case for the width of words. Words are read in a
fixed order, so the same seed deals the same everywhere. Bin(m, 1/2) takes a word for each 2^20 of the m, and
some dozens (see below), so the work hardly grows with the number of people: it is that of the codes and
cells times log m. Nor does the memory.

The time depends on the counts that are dealt. Where an attacker can time it, that is a side channel.

**Fair coins.** Bin(m, 1/2) is the number of heads among m coins. Below 4,096 coins the heads are counted: m bits of
keystream, a popcount. More coins are tossed in blocks of B = 2^12, 2^16 and 2^20, and the heads of a block are drawn by
inversion, mostly from a single word.

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
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import accumulate, groupby, pairwise
from math import comb
from typing import NamedTuple

import numpy as np

from shuffledp.core.arrays import Bools, Counts, Words
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import WordSource

_FEW = 8  # people per node
_AT_ONCE = 1 << 17  # people who draw a word each
_NEAR = 8  # cells: among so few one is found by halving, among more in the whole table
_SHORT = 256  # codes and cells of a table whose steps are remembered
_SHARED = -1  # the code of people who are pooled, and the cell that their words are in
_LARGEST = 1 << 62  # people in all: every sum of counts fits into 64 bits
_BLOCKS = (1 << 20, 1 << 16, 1 << 12)  # coins: even numbers, from large to small
_WORD_BITS = 64  # of the words that decide a block
_GUARD_BITS = 64  # more bits than words have, for the weights
_GUIDE_BITS = 16  # of a word: they decide more than nine in ten
_CHUNK = 1 << 15  # words of keystream at a time: they stay in the cache
_NOWHERE = np.zeros(1, dtype=np.int64)
_ONE = np.uint64(1)


class CellCounts(NamedTuple):
    """How many words fell into each cell."""

    own: Counts
    """[codes, cells]: into the cells of each code's own."""
    common: Counts
    """[cells]: into the cells that all codes share."""


def binomial(m: int, threshold: int, bits: int, source: WordSource) -> int:
    """Return Bin(m, threshold / 2^bits): how many of m words are below the threshold.

    >>> from shuffledp import SeededWords
    >>> binomial(10**6, 2**62, 64, SeededWords(1))
    250174
    """
    return int(binomials([m], [threshold], bits, source)[0])


def binomials(
    counts: Counts | Sequence[int], thresholds: Sequence[int], bits: int, source: WordSource
) -> Counts:
    """Draw independent Bin(counts[i], thresholds[i] / 2^bits).

    At each level one node at most holds words on both sides of a threshold. If the threshold's next bit
    is 1, the words that go left are below it and the others undecided; if it is 0, those that go right
    are above it. No word is undecided when the bits that are left of the threshold are all 0.

    >>> from shuffledp import SeededWords
    >>> binomials([1000, 1000], [1, 3], 2, SeededWords(1))
    array([245, 750])
    """
    undecided, words = _check_counts(counts), 1 << _check_bits(bits)
    kinds = dict.fromkeys(thresholds)  # often one for a million counts
    if len(thresholds) != len(undecided) or not all(0 <= t <= words for t in kinds):
        raise ParameterError("thresholds", thresholds, f"must be one of 0 .. 2^{bits} per count")
    each = thresholds if len(kinds) > 1 else list(kinds)
    everything = np.array([threshold == words for threshold in each], dtype=np.bool_)
    below = np.where(everything, undecided, 0)
    left = np.array([threshold % words for threshold in each], dtype=np.uint64)
    left = np.broadcast_to(left, undecided.shape)
    who = np.arange(len(undecided))
    for level in range(bits - 1, -1, -1):
        open_ = (undecided > 0) & (left > 0)
        who, undecided, left = who[open_], undecided[open_], left[open_]
        if _are_few(undecided):
            below[who] += _count_below(undecided, left, level + 1, source)
            break
        halves = _toss(undecided, source)
        one = (left >> np.uint64(level)).astype(np.bool_)
        below[who] += np.where(one, halves, 0)
        undecided = np.where(one, undecided - halves, halves)
        left &= np.uint64((1 << level) - 1)
    return below


def _are_few(people: Counts) -> bool:
    """Return whether drawing a word for each of these people is less work than halving further."""
    total = int(people.sum())
    if total > _FEW * (256 + len(people)):
        return False
    return total <= _FEW * (256 + int(np.count_nonzero(people)))


def _one_by_one(people: Counts) -> Iterator[Counts]:
    """Yield the node of each person, for some people at a time."""
    ends = people.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    for start in range(0, total, _AT_ONCE):
        yield ends.searchsorted(np.arange(start, min(start + _AT_ONCE, total)), side="right")


def _count_below(people: Counts, thresholds: Words, bits: int, source: WordSource) -> Counts:
    below = np.zeros_like(people)
    for node in _one_by_one(people):
        words = source.words(len(node), bits)
        below += np.bincount(node[words < thresholds[node]], minlength=len(people))
    return below


def deal_uniform(m: int, cells: int, bits: int, source: WordSource) -> tuple[Counts, int]:
    """Return how m words fall into `cells` equal cells of floor(2^bits / cells) words, and how many into none.

    >>> from shuffledp import SeededWords
    >>> deal_uniform(1000, 3, 4, SeededWords(1))  # five words each, and one is left over
    (array([313, 298, 332]), 57)
    """
    return next(deal_uniforms([m], cells, bits, source))


def deal_uniforms(
    counts: Counts | Sequence[int], cells: int, bits: int, source: WordSource
) -> Iterator[tuple[Counts, int]]:
    """Yield the same for several numbers of words, one after the other: a million cells take memory for each number.

    >>> from shuffledp import SeededWords
    >>> list(deal_uniforms([3, 5], 3, 4, SeededWords(1)))
    [(array([1, 1, 1]), 0), (array([1, 2, 1]), 1)]
    """
    if not 1 <= cells <= 1 << _check_bits(bits):
        raise ParameterError("cells", cells, f"must be 1 .. 2^{bits}")
    share, rest = divmod(1 << bits, cells)
    walk = _start([[rest]], [share] * cells, bits, 1)
    for few, run in groupby(_check_counts(counts)[:, None], _are_few):
        if few and len(walk.root.open):
            for landed in _land(np.concatenate(list(run)), walk.table, bits, source):
                yield landed[:-1], int(landed[-1])
        else:
            for one in run:
                walked = _walk_down(walk, one, 1 + cells, bits, source)
                yield walked[1:], int(walked[0])


def add_uniforms(
    counts: Counts, worths: Counts, cells: int, bits: int, source: WordSource
) -> Counts:
    """Return what falls into each cell if each of counts[i] words is worth worths[i].

    >>> from shuffledp import SeededWords
    >>> add_uniforms(np.array([3, 5]), np.array([1, 10]), 3, 4, SeededWords(1))
    array([11, 21, 11])
    """
    total = np.zeros(cells, dtype=np.int64)
    dealt = deal_uniforms(counts, cells, bits, source)
    for worth, (landed, _) in zip(worths.tolist(), dealt, strict=True):
        total += worth * landed
    return total


def _land(people: Counts, table: "_Table", bits: int, source: WordSource) -> Iterator[Counts]:
    """Yield how many words of each count land in each cell, drawn word by word, beyond the last cell included."""
    places = [table.find_common(source.words(len(row), bits)) for row in _one_by_one(people)]
    if places:
        for cell in np.split(np.concatenate(places), people.cumsum()[:-1]):
            yield np.bincount(cell, minlength=table.shared + 1)
    else:  # nobody
        yield from np.zeros((len(people), table.shared + 1), dtype=np.int64)


def deal(
    counts: Counts | Sequence[int],
    own: Sequence[Sequence[int]],
    bits: int,
    source: WordSource,
    *,
    common: Sequence[int] = (),
) -> CellCounts:
    """Return how the words of counts[x] people of each code x fall into cells.

    common[j] of the 2^bits words are in cell j whatever the code, and own[x][i] in cell i of code x; one
    row in `own` serves for all codes if they all have these shares. Codes are pooled in common cells.

    k-ary randomized response: each category has the same share, and what is left is the truth.

    >>> from shuffledp import SeededWords
    >>> truth, lies = deal([700, 200, 100], [[10]], 4, SeededWords(1), common=[2, 2, 2])
    >>> truth[:, 0], lies
    (array([446, 125,  60]), array([147,  98, 124]))
    """
    people = _check_counts(counts)
    walk = _start(own, common, _check_bits(bits), len(people))
    mine = len(people) * len(own[0])
    cells = _walk_down(walk, people, mine + len(common), bits, source)
    return CellCounts(cells[:mine].reshape(-1, len(own[0])), cells[mine:])


def _walk_down(walk: "_Walk", people: Counts, size: int, bits: int, source: WordSource) -> Counts:
    """Count how many of these people's words fall into each of `size` cells: the codes' own first, then the common."""
    cells = np.zeros(size, dtype=np.int64)
    step = walk.root
    people = step.settle(people, cells)
    for level in range(bits - 1, -1, -1):
        if _are_few(people):
            _finish(people, step.nodes, level + 1, walk.table, cells, source)
            break
        nodes = step.nodes
        if not walk.is_short:  # nobody's nodes take no words, only time
            inhabited = people > 0
            people, nodes = people[inhabited], nodes.pick(inhabited)
        left = _toss(people, source)
        step = walk.find_step(nodes, level)
        people = step.settle(np.concatenate((left, people - left)), cells)
    return cells


class _Nodes(NamedTuple):
    """Intervals of one level, each for the people of one code, or of all codes."""

    code: Counts
    start: Words
    low: Counts
    """The first and the last cell that the interval meets, as places in the table."""
    high: Counts

    def pick(self, which: Bools | Counts) -> "_Nodes":
        return _Nodes(self.code[which], self.start[which], self.low[which], self.high[which])

    def join(self, others: "_Nodes") -> "_Nodes":
        return _Nodes(
            code=np.concatenate((self.code, others.code)),
            start=np.concatenate((self.start, others.start)),
            low=np.concatenate((self.low, others.low)),
            high=np.concatenate((self.high, others.high)),
        )


class _Step(NamedTuple):
    """Where the people of some nodes go; it does not depend on how many they are."""

    pooled: Counts
    """Nodes in which all codes share their cells: their people become those of one more node, the last."""
    settled: Counts
    """Nodes that lie in one cell,"""
    cell: Counts
    """and that cell."""
    open: Counts
    """The other nodes, which are halved next;"""
    nodes: _Nodes
    """here they are."""

    def settle(self, people: Counts, cells: Counts) -> Counts:
        """Count the people who have arrived in a cell; who is left, by open node."""
        if len(self.pooled):
            people = np.concatenate((people, people[self.pooled].sum(keepdims=True)))
        np.add.at(cells, self.cell, people[self.settled])
        left: Counts = people[self.open]
        return left


class _Table(NamedTuple):
    """All cells that are not empty: the common ones first, then those of each row of `own`.

    Each row begins with one cell for everything common.
    """

    last: Words
    """The last word of each cell."""
    cell: Counts
    """Its number, or _SHARED."""
    low: Counts
    """Where the row of each code begins and ends."""
    high: Counts
    shared: int
    """How many common cells there are,"""
    width: int
    """and of how many words, if they are many and of one width; otherwise 0."""
    rows: int
    """How many rows of other cells,"""
    columns: int
    """with how many cells each, empty ones included."""

    @classmethod
    def of(
        cls, own: Sequence[Sequence[int]], common: Sequence[int], bits: int, codes: int
    ) -> "_Table":
        if len(own) not in (1, codes) or len({len(row) for row in own}) != 1:
            raise ParameterError("own", len(own), f"must be 1 or {codes} rows of equal length")
        last, cell, width = _lay_out_common(common)
        shared, pooled, ends = len(last), sum(common), [0]
        cells: list[tuple[int, int]] = []
        for row in own:
            if pooled + sum(row) != 1 << bits:
                raise ParameterError("own", row, f"must sum to 2^{bits} with the common shares")
            cells += [(pooled - 1, _SHARED)] if pooled else []
            cells += _lay_out(row, pooled)
            ends.append(len(cells))
        low = np.array(ends[:-1], dtype=np.int64) + shared
        high = np.array(ends[1:], dtype=np.int64) + shared - 1
        return cls(
            np.append(last, np.array([end for end, _ in cells], dtype=np.uint64)),
            np.append(cell, np.array([number for _, number in cells], dtype=np.int64)),
            np.broadcast_to(low, codes),
            np.broadcast_to(high, codes),
            shared,
            width,
            len(own),
            len(own[0]),
        )

    def number(self, code: Counts, cell: Counts) -> Counts:
        """Return the place of a cell among all cells: those of each code, then the common ones."""
        return np.where(code == _SHARED, len(self.low), code) * self.columns + cell

    def find(self, word: Words, low: Counts, high: Counts) -> Counts:
        """Return the first of the cells low .. high that does not end before the word, which is in one of them."""
        if self.rows == 1 and (self.width or int((high - low).max(initial=0)) > _NEAR):
            first = self.find_common(word)
            others = self.shared + self.last[self.shared :].searchsorted(word)
            cells: Counts = np.where(high < self.shared, first, others)
            return cells
        while (low < high).any():
            middle = (low + high) >> 1
            before = self.last[middle] < word
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        return low

    def find_common(self, word: Words) -> Counts:
        """Return the first common cell that does not end before the word, or how many there are if all do."""
        if not self.width:
            cell: Counts = self.last[: self.shared].searchsorted(word)
            return cell
        # A search in a million cells misses the cache at each of its steps.
        place = word // np.uint64(self.width)
        near: Counts = np.minimum(place, np.uint64(self.shared)).astype(np.int64)
        return near


def _lay_out_common(shares: Sequence[int]) -> tuple[Words, Counts, int]:
    """Lay out as `_lay_out` does from the first word on, for many cells; and their width, if they have the same."""
    if len(shares) < _SHORT or max(shares, default=0) >= 1 << 64:
        cells = _lay_out(shares, 0)
        ends, numbers = [end for end, _ in cells], [number for _, number in cells]
        return np.array(ends, dtype=np.uint64), np.array(numbers, dtype=np.int64), 0
    _check_shares(shares)
    sizes = np.array(shares, dtype=np.uint64)
    kept = np.flatnonzero(sizes)
    last = sizes.cumsum(dtype=np.uint64)[kept] - np.uint64(1)  # modulo 2^64, if they are all words
    alike = len(sizes) > 0 and (sizes == sizes[0]).all()
    return last, kept, int(sizes[0]) if alike else 0


def _check_shares(shares: Sequence[int]) -> None:
    if shares and min(shares) < 0:
        raise ParameterError("shares", min(shares), "must be >= 0")


def _lay_out(shares: Sequence[int], first: int) -> list[tuple[int, int]]:
    """Return the last word and the number of each cell that is not empty, from word `first` on."""
    _check_shares(shares)
    ends = accumulate(shares, initial=first)
    next(ends)
    return [(end - 1, i) for i, (end, share) in enumerate(zip(ends, shares, strict=True)) if share]


class _Walk:
    """The steps that a table leads to, level by level; those of a short one are kept for the next time."""

    __slots__ = ("_known", "is_short", "root", "table")

    def __init__(self, table: _Table, bits: int, *, is_short: bool) -> None:
        self.table, self.is_short = table, is_short
        codes = len(table.low)
        start = np.zeros(codes, dtype=np.uint64)
        nodes = _Nodes(code=np.arange(codes), start=start, low=table.low, high=table.high)
        self.root = _sort_out(nodes, 1 << bits, table)
        self._known: dict[int, _Step] = {}

    def find_step(self, nodes: _Nodes, level: int) -> _Step:
        """Find the step from these nodes to their halves of 2^level words."""
        known = self._known.get(level)
        if known is not None:
            return known
        half = 1 << level
        step = _sort_out(_halve(nodes, half, self.table), half, self.table)
        if self.is_short:
            self._known[level] = step
        return step


def _start(own: Sequence[Sequence[int]], common: Sequence[int], bits: int, codes: int) -> _Walk:
    if codes + len(common) + sum(map(len, own)) > _SHORT:
        return _Walk(_Table.of(own, common, bits, codes), bits, is_short=False)
    return _remember(tuple(map(tuple, own)), tuple(common), bits, codes)


@lru_cache(maxsize=16)
def _remember(
    own: tuple[tuple[int, ...], ...], common: tuple[int, ...], bits: int, codes: int
) -> _Walk:
    return _Walk(_Table.of(own, common, bits, codes), bits, is_short=True)


def _halve(nodes: _Nodes, half: int, table: _Table) -> _Nodes:
    """Return the left halves of all nodes, then the right ones, each `half` words long."""
    last = nodes.start + np.uint64(half - 1)  # of the left half
    cut = table.find(last, nodes.low, nodes.high)
    left = nodes._replace(high=cut)
    right = nodes._replace(start=last + np.uint64(1), low=cut + (table.last[cut] == last))
    return left.join(right)


def _sort_out(nodes: _Nodes, width: int, table: _Table) -> _Step:
    """Sort intervals: one cell holds them whole (settled), all codes share their cells (pooled), or they are halved."""
    pooled = (nodes.low == nodes.high) & (table.cell[nodes.low] == _SHARED)
    if pooled.any():
        # The common cells end at the same word for all codes: only one interval a level joins them.
        nodes = nodes.join(_pool(nodes.pick(pooled), width, table))
        pooled = np.append(pooled, False)
    single = nodes.low == nodes.high
    settled, halved = (single & ~pooled).nonzero()[0], (~single).nonzero()[0]
    return _Step(
        pooled=pooled.nonzero()[0],
        settled=settled,
        cell=table.number(nodes.code[settled], table.cell[nodes.low[settled]]),
        open=halved,
        nodes=nodes.pick(halved),
    )


def _pool(nodes: _Nodes, width: int, table: _Table) -> _Nodes:
    start = nodes.start[:1]
    low, high = np.zeros(1, dtype=np.int64), np.full(1, table.shared - 1)
    return _Nodes(
        code=np.full(1, _SHARED),
        start=start,
        low=table.find(start, low, high),
        high=table.find(start + np.uint64(width - 1), low, high),
    )


def _finish(
    people: Counts, nodes: _Nodes, bits: int, table: _Table, cells: Counts, source: WordSource
) -> None:
    """Draw the last `bits` bits of everybody's word."""
    for node in _one_by_one(people):
        word = nodes.start[node] + source.words(len(node), bits)
        place = table.find(word, nodes.low[node], nodes.high[node])
        code, cell = nodes.code[node], table.cell[place]
        pooled = cell == _SHARED
        code[pooled] = _SHARED
        cell[pooled] = table.cell[table.find_common(word[pooled])]
        np.add.at(cells, table.number(code, cell), 1)


def _check_bits(bits: int) -> int:
    if not 1 <= bits <= 64:
        raise ParameterError("bits", bits, "must be 1 .. 64")
    return bits


def _check_counts(counts: Counts | Sequence[int]) -> Counts:
    """Return the counts as an array, if they are whole numbers >= 0 that sum to at most 2^62."""
    checked = np.asarray(counts)
    if checked.ndim != 1 or (len(checked) and checked.dtype.kind not in "iu"):
        raise ParameterError("counts", counts, "must be whole numbers in one row")
    if len(checked) and (int(checked.min()) < 0 or sum(checked.tolist()) > _LARGEST):
        raise ParameterError("counts", counts, "must be >= 0 and sum to at most 2^62")
    return checked.astype(np.int64)


def _toss(counts: Counts, source: WordSource) -> Counts:
    """Draw independent Bin(counts[i], 1/2)."""
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
    """Sum consecutive runs of a stream of numbers, read in chunks.

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
    """Return `size` bits in words of 64, from the low end on; zeros fill up the last."""
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
    """Return the heads of each of `size` blocks."""
    table, words = _tabulate_heads(block, _WORD_BITS), source.words(size, _WORD_BITS)
    words = words.astype(np.uint64, copy=False)
    place = table.find(words)
    heads: Counts = table.heads[place]
    # Words between two cuts, about one in 2^50: more words decide.
    for i in ((place < 0) | (words > table.last[place])).nonzero()[0].tolist():
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


class _Heads(NamedTuple):
    """The same for words, as arrays."""

    heads: Counts
    first: Words
    last: Words
    guide: Counts
    """How many of the first numbers are at most a word that begins with i and ends in zeros."""
    shift: np.uint64
    """How many bits of a word come after i."""

    def find(self, words: Words) -> Counts:
        """Return the last place whose first number is at most the word, or -1: mostly the high bits tell."""
        high = (words >> self.shift).astype(np.int64)
        past: Counts = self.guide[high]
        torn = (past != self.guide[high + 1]).nonzero()[0]
        if len(torn):
            past[torn] = self.first.searchsorted(words[torn], side="right")
        return past - 1


@lru_cache(maxsize=8)
def _tabulate_heads(block: int, bits: int) -> _Heads:
    cuts, high = _cuts(block, bits), min(bits, _GUIDE_BITS)
    first, shift = np.array(cuts.first, dtype=np.uint64), np.uint64(bits - high)
    starts = np.arange(1 << high, dtype=np.uint64) << shift
    return _Heads(
        heads=np.array(cuts.heads, dtype=np.int64),
        first=first,
        last=np.array(cuts.last, dtype=np.uint64),
        guide=np.append(first.searchsorted(starts, side="right"), len(first)),
        shift=shift,
    )


@lru_cache(maxsize=8)
def _cuts(block: int, bits: int) -> _Cuts:
    """Return the cuts in the order of the heads; those that no number is sure to mean are left out."""
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
    """Return integers around 2^bits F(h - d), for d = D, ..., 2, 1."""
    precision, half = bits + _GUARD_BITS, block // 2
    low = high = comb(block, half) if block <= precision else 1 << precision
    lows, highs = [low], [high]
    for d in range(half):
        low, high = low * (half - d) // (half + d + 1), -(-high * (half - d) // (half + d + 1))
        if low == 0:  # it and all that follow are part of `rest`
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
