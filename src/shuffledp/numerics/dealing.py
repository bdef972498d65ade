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
some dozens (`fair_coins`), so the work hardly grows with the number of people: it is that of the codes and
cells times log m. Nor does the memory.

The time depends on the counts that are dealt. Where an attacker can time it, that is a side channel.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from shuffledp.core.arrays import Bools, Counts, Words
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import whole
from shuffledp.numerics.fair_coins import binomial_half, binomial_halves, check_counts, toss

__all__ = [
    "Dealt",
    "binomial",
    "binomial_half",
    "binomial_halves",
    "binomials",
    "deal",
    "deal_uniform",
]

_FEW = 8  # people per node
_AT_ONCE = 1 << 17  # people who draw a word each
_SHARED = -1  # the code of people who are pooled, and the cell that their words are in


class Dealt(NamedTuple):
    """How many words fell into each cell."""

    own: Counts
    """[codes, cells]: into the cells of each code's own."""
    common: Counts
    """[cells]: into the cells that all codes share."""


def binomial(m: int, threshold: int, bits: int, source: WordSource) -> int:
    """Bin(m, threshold / 2^bits): how many of m words are below the threshold.

    >>> from shuffledp import SeededWords
    >>> binomial(10**6, 2**62, 64, SeededWords(1))
    250174
    """
    return int(binomials([m], [threshold], bits, source)[0])


def binomials(
    counts: Counts | Sequence[int], thresholds: Sequence[int], bits: int, source: WordSource
) -> Counts:
    """Independent Bin(counts[i], thresholds[i] / 2^bits).

    At each level one node at most holds words on both sides of a threshold. If the threshold's next bit
    is 1, the words that go left are below it and the others undecided; if it is 0, those that go right
    are above it. No word is undecided when the bits that are left of the threshold are all 0.

    >>> from shuffledp import SeededWords
    >>> binomials([1000, 1000], [1, 3], 2, SeededWords(1))
    array([245, 750])
    """
    undecided, words = check_counts(counts), 1 << _check_bits(bits)
    if len(thresholds) != len(undecided) or not all(0 <= t <= words for t in thresholds):
        raise ParameterError("thresholds", thresholds, f"must be one of 0 .. 2^{bits} per count")
    everything = np.array([threshold == words for threshold in thresholds], dtype=np.bool_)
    below = np.where(everything, undecided, 0)
    left = np.array([threshold % words for threshold in thresholds], dtype=np.uint64)
    who = np.arange(len(undecided))
    for level in range(bits - 1, -1, -1):
        open_ = (undecided > 0) & (left > 0)
        who, undecided, left = who[open_], undecided[open_], left[open_]
        if _are_few(undecided):
            below[who] += _count_below(undecided, left, level + 1, source)
            break
        halves = toss(undecided, source)
        one = (left >> np.uint64(level)).astype(np.bool_)
        below[who] += np.where(one, halves, 0)
        undecided = np.where(one, undecided - halves, halves)
        left &= np.uint64((1 << level) - 1)
    return below


def _are_few(people: Counts) -> bool:
    """Whether drawing a word for each of these people is less work than to go on halving."""
    return int(people.sum()) <= _FEW * (256 + len(people))


def _one_by_one(people: Counts) -> Iterator[Counts]:
    """The node of each person, for some people at a time."""
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
    """How m words fall into `cells` equal cells of floor(2^bits / cells) words, and how many into none.

    >>> from shuffledp import SeededWords
    >>> deal_uniform(1000, 3, 4, SeededWords(1))  # five words each, and one is left over
    (array([313, 298, 332]), 57)
    """
    if not 1 <= cells <= 1 << _check_bits(bits):
        raise ParameterError("cells", cells, f"must be 1 .. 2^{bits}")
    share, rest = divmod(1 << bits, cells)
    own, common = deal([m], [[rest]], bits, source, common=[share] * cells)
    return common, int(own[0, 0])


def deal(
    counts: Counts | Sequence[int],
    own: Sequence[Sequence[int]],
    bits: int,
    source: WordSource,
    *,
    common: Sequence[int] = (),
) -> Dealt:
    """How the words of counts[x] people of each code x fall into cells.

    common[j] of the 2^bits words are in cell j whatever the code, and own[x][i] in cell i of code x; one
    row in `own` serves for all codes if they all have these shares. Codes are pooled in common cells.

    k-ary randomized response: each category has the same share, and what is left is the truth.

    >>> from shuffledp import SeededWords
    >>> truth, lies = deal([700, 200, 100], [[10]], 4, SeededWords(1), common=[2, 2, 2])
    >>> truth[:, 0], lies
    (array([446, 125,  60]), array([147,  98, 124]))
    """
    people = check_counts(counts)
    table = _Table.of(own, common, _check_bits(bits), len(people))
    dealt = Dealt(
        np.zeros((len(people), len(own[0])), dtype=np.int64), np.zeros(len(common), dtype=np.int64)
    )
    nodes = _Nodes.of(
        code=np.arange(len(people)),
        start=np.zeros(len(people), dtype=np.uint64),
        people=people,
        low=table.low,
        high=table.high,
    )
    nodes = _settle(nodes, 1 << bits, table, dealt)
    for level in range(bits - 1, -1, -1):
        if _are_few(nodes.people):
            _finish(nodes, level + 1, table, dealt, source)
            break
        nodes = _settle(_halve(nodes, 1 << level, table, source), 1 << level, table, dealt)
    return dealt


class _Nodes(NamedTuple):
    """Intervals of one level, and who is in them: people of one code, or of all codes.

    The rows of one array: it is cut and joined some dozen times, and each cut has its price.
    """

    rows: Counts
    """code, start (as it is in memory), people, low and high: the first and the last cell that the interval meets,
    as places in the table."""

    @classmethod
    def of(cls, code: Counts, start: Words, people: Counts, low: Counts, high: Counts) -> "_Nodes":
        return cls(np.array((code, start.view(np.int64), people, low, high)))

    @property
    def code(self) -> Counts:
        return self._row(0)

    @property
    def start(self) -> Words:
        return self._row(1).view(np.uint64)

    @property
    def people(self) -> Counts:
        return self._row(2)

    @property
    def low(self) -> Counts:
        return self._row(3)

    @property
    def high(self) -> Counts:
        return self._row(4)

    def _row(self, place: int) -> Counts:
        row: Counts = self.rows[place]
        return row

    def pick(self, which: Bools) -> "_Nodes":
        return _Nodes(self.rows[:, which])

    def join(self, others: "_Nodes") -> "_Nodes":
        return _Nodes(np.concatenate((self.rows, others.rows), axis=1))


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
    """How many common cells there are."""
    rows: int
    """How many rows of other cells."""

    @classmethod
    def of(
        cls, own: Sequence[Sequence[int]], common: Sequence[int], bits: int, codes: int
    ) -> "_Table":
        if len(own) not in (1, codes) or len({len(row) for row in own}) != 1:
            raise ParameterError("own", len(own), f"must be 1 or {codes} rows of equal length")
        cells = _lay_out(common, 0)
        shared, pooled, ends = len(cells), sum(common), [0]
        for row in own:
            if pooled + sum(row) != 1 << bits:
                raise ParameterError("own", row, f"must sum to 2^{bits} with the common shares")
            cells += [(pooled - 1, _SHARED)] if pooled else []
            cells += _lay_out(row, pooled)
            ends.append(len(cells) - shared)
        low = np.array(ends[:-1], dtype=np.int64) + shared
        high = np.array(ends[1:], dtype=np.int64) + shared - 1
        return cls(
            np.array([last for last, _ in cells], dtype=np.uint64),
            np.array([cell for _, cell in cells], dtype=np.int64),
            np.broadcast_to(low, codes),
            np.broadcast_to(high, codes),
            shared,
            len(own),
        )

    def find(self, word: Words, low: Counts, high: Counts) -> Counts:
        """The first of the cells low .. high that does not end before the word, which is in one of them."""
        if self.rows == 1:
            first: Counts = self.last[: self.shared].searchsorted(word)
            others = self.shared + self.last[self.shared :].searchsorted(word)
            return np.where(high < self.shared, first, others)
        while (low < high).any():
            middle = (low + high) >> 1
            before = self.last[middle] < word
            low, high = np.where(before, middle + 1, low), np.where(before, high, middle)
        return low


def _lay_out(shares: Sequence[int], first: int) -> list[tuple[int, int]]:
    """The last word and the number of each cell that is not empty, from word `first` on."""
    if shares and min(shares) < 0:
        raise ParameterError("shares", min(shares), "must be >= 0")
    ends = accumulate(shares, initial=first)
    next(ends)
    return [(end - 1, i) for i, (end, share) in enumerate(zip(ends, shares, strict=True)) if share]


def _halve(nodes: _Nodes, half: int, table: _Table, source: WordSource) -> _Nodes:
    """Both halves of all nodes, each `half` words long."""
    left = toss(nodes.people, source)
    last = nodes.start + np.uint64(half - 1)  # of the left half
    cut = table.find(last, nodes.low, nodes.high)
    both = nodes.join(nodes)
    lefts, rights = both.rows[:, : len(left)], both.rows[:, len(left) :]
    lefts[2], lefts[4] = left, cut
    rights[1].view(np.uint64)[:] += np.uint64(half)
    rights[2] -= left
    rights[3] = cut + (table.last[cut] == last)
    return both


def _settle(nodes: _Nodes, width: int, table: _Table, dealt: Dealt) -> _Nodes:
    """Count what lies in one cell, pool the codes where they share cells; the rest is to be halved."""
    inhabited, single = nodes.people > 0, nodes.low == nodes.high
    here, nodes = nodes.pick(inhabited & single), nodes.pick(inhabited & ~single)
    cell = table.cell[here.low]
    pooled = cell == _SHARED
    if pooled.any():
        # The common cells end at the same word for all codes: only one interval a level joins them.
        one = _pool(here.pick(pooled), width, table)
        nodes = nodes.join(_settle(one, width, table, dealt))
        here, cell = here.pick(~pooled), cell[~pooled]
    _add(dealt, here.code, cell, here.people)
    return nodes


def _finish(nodes: _Nodes, bits: int, table: _Table, dealt: Dealt, source: WordSource) -> None:
    """Draw the last `bits` bits of everybody's word."""
    for node in _one_by_one(nodes.people):
        word = nodes.start[node] + source.words(len(node), bits)
        place = table.find(word, nodes.low[node], nodes.high[node])
        code, cell = nodes.code[node], table.cell[place]
        pooled = cell == _SHARED
        code[pooled] = _SHARED
        cell[pooled] = table.cell[table.last[: table.shared].searchsorted(word[pooled])]
        _add(dealt, code, cell, np.ones_like(cell))


def _pool(nodes: _Nodes, width: int, table: _Table) -> _Nodes:
    start = nodes.start[:1]
    low, high = np.zeros(1, dtype=np.int64), np.full(1, table.shared - 1)
    return _Nodes.of(
        code=np.full(1, _SHARED),
        start=start,
        people=nodes.people.sum(keepdims=True),
        low=table.find(start, low, high),
        high=table.find(start + np.uint64(width - 1), low, high),
    )


def _add(dealt: Dealt, code: Counts, cell: Counts, people: Counts) -> None:
    shared = code == _SHARED
    np.add.at(dealt.common, cell[shared], people[shared])
    np.add.at(dealt.own, (code[~shared], cell[~shared]), people[~shared])


def _check_bits(bits: int) -> int:
    return whole("bits", bits, at_least=1, at_most=64)
