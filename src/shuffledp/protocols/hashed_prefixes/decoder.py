r"""From tables of cells to words: level by level, in blocks, the largest first.

A level has some rows, all of which look at the first `length` bits of a stirred word. Candidates are all continuations of
the prefixes that the level before found. A candidate's sum over its cells, one in each row, is about
count * share above what nobody's cells hold; a candidate that many people have stands out.

**Collisions with large words are peeled.** A word with 100,000 people is in one cell of each row, and whoever shares one of
these cells looks large as well. So levels are searched in stages: first what has nearly as many people as the largest,
then an eighth of that, and so on. Cells of words that were found are left out of the sums of all others, which are
scaled up from the rows that remain. Within a stage the larger half is taken first, for the same reason. A word shares
one row with another one with probability 1 / buckets, so hardly any row is lost.

**Thresholds.** What the cells of a word that nobody has add up to is a sum of independent draws from the cells of its rows:
the functions are random, and the word is as good as any other. So the law of that sum is the convolution of how often
each value occurs among the cells (without those that were peeled), whatever the other people's words are. A level
before the last may pass on some false prefixes, `alarms` of them on average; the last one decides.

**Scans.** A prefix p has the cell head_r in row r, and its continuation c the cell head_r XOR M_r c. Looked up, the sums of all
2^w continuations take R 2^w steps, R the number of rows. All functions are linear over GF(2), so

    sum_r T_r[head_r XOR M_r c] = sum_s F(s) (-1)^<s, c>,    F(s) = sum_r sum_{u : M_r^t u = s} (-1)^<u, head_r> S_r(u),

where S_r is the Walsh-Hadamard transform of the row T_r, divided by its length b. F takes R b steps, and its transform
w 2^w steps of the kind that processors like best. So rows that are short beside 2^w are transformed.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.analyzer import Step
from shuffledp.core.arrays import Bools, Counts, Floats
from shuffledp.core.texts import Spelt
from shuffledp.protocols.hashed_prefixes.device import Functions, apply_columns, tabulate

_STAGE = 8.0  # by how much thresholds fall from stage to stage
_NEARLY = 0.7  # of a stage's threshold: who has fewer people is left to the next stage
_PEELED = (
    0.01  # of the cells of a row may be left out of others' sums for the sake of false prefixes
)
_LOST = 1e-4  # of the candidates may lose more rows to peeling than a scan takes into account
_CLEARLY = (
    2.0  # times the threshold: prefixes below it may be false, and would take rows from true ones
)
_MOST_HITS = 1 << 19
_MOST_PREFIXES = 20_000
_LIKELIEST = 1 / 16  # false alarm, where there are few candidates
_ROUNDS = 8
_ROUNDED = 0.25  # more than a sum of a scan is off: whoever it finds is measured exactly
_ELEMENTS = 1 << 18  # of a block of sums: what the cache of a core holds
_RADIX = 5  # bits that one multiplication of matrices transforms
_AT_ONCE = 128  # columns of one: so small ones are never shared between threads, which would cost more than they do
_THREADS = 2
# Nanoseconds, about: of a cell that is looked up, of one that is placed, and of a sum that is transformed.
_LOOK, _PLACE, _TRANSFORM = 1.3, 3.0, 5.0

Sums: TypeAlias = NDArray[np.float32]
Cells: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """Some rows that look at equally many bits, and what is in their cells."""

    length: int
    rows: tuple[int, ...]
    """Their numbers among the functions."""
    excess: Floats
    """[rows, buckets]: what each cell holds, less what a cell of nobody holds on average."""
    mean: float
    """What a cell of nobody holds on average."""
    share: float
    """The probability that a person is seen in these rows."""
    people: int
    """How many people there are."""


class Found(NamedTuple):
    """Words, in the order of their counts."""

    codes: Spelt
    values: Floats
    """Estimated counts, from the rows of the last level."""
    seen: tuple["Seen", ...]
    """How the levels looked."""

    @property
    def threshold(self) -> float:
        """The estimate from which on a word is reported, if it has all its rows."""
        return self.seen[-1].limit / self.seen[-1].share


class Seen(NamedTuple):
    """The total of the cells of a word that nobody has, at a level, without the words that were peeled."""

    share: float
    """The part of a word's people that its own cells hold beyond that."""
    mean: float
    variance: float
    limit: float
    """What a word must have beyond the mean."""
    lost: float
    """The part of its rows that a word loses to others that were found, on average."""


def sum_quantiles(values: Floats, most: int, tail: float) -> list[float]:
    """Return what the sum of 1, 2, ... `most` independent draws exceeds with probability at most `tail`.

    By convolution of how often each value occurs, on a grid of whole numbers above the smallest one.

    >>> sum_quantiles(np.array([0.0, 1.0]), 3, 0.2)
    [1.0, 2.0, 2.0]
    """
    lowest = float(values.min())
    counted = np.bincount(np.rint(values - lowest).astype(np.int64))
    size = 1 << (most * (len(counted) - 1)).bit_length()
    one = np.fft.rfft(counted / len(values), size)
    quantiles, power = [], np.ones_like(one)
    for draws in range(1, most + 1):
        power = power * one
        masses = np.fft.irfft(power, size).clip(0)
        above = masses[::-1].cumsum()[::-1]  # P[sum >= j]
        first = int(np.argmax(np.append(above[1:], 0.0) <= tail * (1 + 1e-9)))
        quantiles.append(first + draws * lowest)
    return quantiles


def decode(
    functions: Functions,
    levels: Sequence[Level],
    *,
    alarms: tuple[float, float],
    step: Step | None = None,
) -> Found:
    """Return the words that stand out, and how many people have them; nothing here is random.

    `alarms` are the false prefixes that a level lets through on average, and the false words that are reported.
    """
    prefixes = _Prefixes(stirred=np.zeros(1, dtype=np.uint64), values=np.full(1, np.inf))
    seen = []
    for place, level in enumerate(levels):
        start = 0 if place == 0 else levels[place - 1].length
        state = _State.of(functions, level, start)
        last = place == len(levels) - 1
        here = None if step is None else partial(_step_within, step, place, len(levels))
        prefixes = _search(state, prefixes, alarms=alarms[last], last=last, step=here)
        seen.append(state.tell(prefixes.threshold))
    order = np.argsort(-prefixes.values, kind="stable")
    return Found(
        codes=functions.unstir(prefixes.stirred[order]),
        values=prefixes.values[order],
        seen=tuple(seen),
    )


def _step_within(step: Step, place: int, places: int, part: float) -> None:
    step((place + part) / places)


class _Prefixes(NamedTuple):
    """The first bits of stirred words, as numbers with the other bits 0, and about how many people have them."""

    stirred: Spelt
    values: Floats
    threshold: float = 0.0


class _Sums(NamedTuple):
    """What is in those cells of the candidates that no other word found is in, and how many such cells there are."""

    sums: Floats
    rows: Counts


@dataclass(slots=True, kw_only=True, eq=False)
class _State:
    """A level while it is searched."""

    functions: Functions
    level: Level
    start: int
    """How many bits are known already."""
    held: NDArray[np.int16]
    """[rows, buckets]: how many of the words that were found are in each cell."""
    peeled: float = 0.0
    """How many people have the words that were found: they are in no clean cell."""
    scanned: NDArray[np.float32] = field(init=False)
    """The excess, 0 in the cells of words that were found."""
    normal: Floats = field(init=False)
    """The excess of clean cells, but for those of large words that are still to be found."""
    variance: float = field(init=False)
    """The variance of `normal`."""

    @classmethod
    def of(cls, functions: Functions, level: Level, start: int) -> "_State":
        made = cls(
            functions=functions,
            level=level,
            start=start,
            held=np.zeros(level.excess.shape, dtype=np.int16),
        )
        made.refresh()
        return made

    def refresh(self) -> None:
        """Recompute the cells after more words were found."""
        clean = self.held == 0
        self.scanned = np.where(clean, self.level.excess + self.gone, 0).astype(np.float32)
        some = self.level.excess[clean] + self.gone
        # Large words that are still to be found are no noise.
        self.normal = some[some <= np.median(some) + 8 * math.sqrt(self.mean) + 4]
        self.variance = float(np.mean(np.square(self.normal)))

    @property
    def mean(self) -> float:
        """The mean of a clean cell."""
        return max(self.level.mean - self.gone, 1e-3)

    @property
    def gone(self) -> float:
        """What a clean cell holds less than others on average: nobody whose word was found."""
        cells = len(self.level.rows) * self.functions.buckets
        return min(self.peeled, self.level.people) * self.level.share / cells

    @property
    def lost(self) -> float:
        """The share of the cells that were peeled."""
        return float(np.mean(self.held > 0))

    def quantiles(self, tail: float) -> Floats:
        """Return the threshold of a sum over 0, 1, ... clean rows."""
        return self._limit(self.normal, tail)

    def hope(self, tail: float) -> Floats:
        """Guess the thresholds once all words are found: very full cells are taken to belong to words."""
        most = np.median(self.normal) + 3 * math.sqrt(self.mean) + 2
        return self._limit(self.normal[self.normal <= most], tail)

    def _limit(self, values: Floats, tail: float) -> Floats:
        quantiles = sum_quantiles(values, len(self.level.rows), tail)
        # Sums are whole numbers apart: half of one decides how they are rounded. A sum of 0 is never a word.
        limits: Floats = np.maximum(np.array([np.inf, *quantiles]) + 0.5, 0.5)
        return limits

    def find_cells(self, stirred: Spelt) -> Cells:
        """Return [rows, len(stirred)]."""
        rows = self.functions.rows
        cells = [apply_columns(rows[row], stirred) for row in self.level.rows]
        return np.array(cells, dtype=np.int64).reshape(len(cells), len(stirred))

    def measure(self, cells: Cells, *, own: bool) -> _Sums:
        """Measure the candidates; `own`: of those that were found, and are in their own cells."""
        places = np.arange(len(cells))[:, None]
        held = self.held[places, cells]
        clean = held <= (1 if own else 0)
        rows = clean.sum(axis=0)
        # Whoever shares all rows is measured in all of them.
        clean |= rows == 0
        sums = np.where(clean, self.level.excess[places, cells] + self.gone, 0).sum(axis=0)
        return _Sums(sums, np.where(rows == 0, len(cells), rows))

    def estimate(self, sums: Floats, rows: Counts, *, own: bool) -> Floats:
        """Return the counts that sums over this many rows stand for; what was found collides with nobody any more."""
        share = self.level.share * rows / len(self.level.rows)
        counts: Floats = sums / (share * (1.0 if own else 1 - 1 / self.functions.buckets))
        return counts

    def scale(self, total: float) -> float:
        """Return the count that a sum over all rows stands for."""
        return total / (self.level.share * (1 - 1 / self.functions.buckets))

    def tell(self, limit: float) -> Seen:
        """Return how this level looked, if sums over all rows had to exceed the limit."""
        rows = len(self.level.rows)
        share = self.level.share * (1 - 1 / self.functions.buckets)
        return Seen(share, rows * self.mean, rows * self.variance, limit, self.lost)

    def mark(self, cells: Cells, counts: Floats, sign: int = 1) -> None:
        """Leave the cells of these words out of the sums of all others."""
        self.peeled += sign * float(counts.sum())
        for row, own in enumerate(cells):
            np.add.at(self.held[row], own, np.int16(sign))


def bound_tail(alarms: float, candidates: float) -> float:
    """Return the probability with which a candidate may raise a false alarm; no prefix found, no candidates.

    >>> bound_tail(0.01, 10**6), bound_tail(2000, 100), bound_tail(2000, 0)
    (1e-08, 0.0625, 0.0625)
    """
    return min(_LIKELIEST, alarms / max(candidates, 1))


def _search(
    state: _State, parents: _Prefixes, *, alarms: float, last: bool, step: Step | None
) -> _Prefixes:
    """Return the continuations of the parents that stand out."""
    width = state.level.length - state.start
    candidates = len(parents.stirred) << width
    tail = bound_tail(alarms, candidates)
    surely = bound_tail(min(alarms, _PEELED * state.functions.buckets), candidates)
    stirred = np.zeros(0, dtype=np.uint64)
    values = np.zeros(0)
    most = float(np.abs(state.level.excess).max()) * len(state.level.rows)
    theta = state.scale(most)
    ended = False
    while not ended:
        limits = state.quantiles(tail)
        lowest = state.scale(float(limits[-1]))
        theta /= _STAGE
        ended = theta <= lowest
        some = parents.values >= (0.0 if ended else theta / 2)
        if not some.any():
            continue
        if ended:
            least = _scan_limit(state, np.minimum(limits, state.hope(tail)))
        else:
            least = max(_scan_limit(state, limits), _NEARLY * theta * state.level.share)
        hits = _scan(state, parents.stirred[some], least, step if ended else None)
        hits = hits[~np.isin(hits, stirred)]
        floor = 0.0 if ended else _NEARLY * theta
        least_peeled = max(state.scale(float(state.quantiles(surely)[-1])), _CLEARLY * lowest)
        peeled = None if last else least_peeled
        more, counts, limits = _resolve(state, hits, tail, floor=floor, peeled=peeled)
        stirred, values = np.concatenate((stirred, more)), np.concatenate((values, counts))
    # Who passed a scan may fall below the threshold without the words found later, and the other way round.
    settled = _settle(state, stirred, values, state.quantiles(tail), last=last)
    return settled._replace(threshold=max(settled.threshold, float(limits[-1])))


def _scan_limit(state: _State, limits: Floats) -> float:
    """Return the threshold of a scan, for nearly the fewest clean rows that a candidate may have."""
    from scipy.special import bdtr

    every = len(limits) - 1
    at_most = bdtr(np.arange(every + 1), every, 1 - state.lost)
    return float(limits[max(1, int(np.argmax(at_most >= _LOST)))])


def _scan(state: _State, parents: Spelt, least: float, step: Step | None) -> Spelt:
    """Return all continuations of the parents whose cells hold more than this, in blocks."""
    children = 1 << (state.level.length - state.start)
    shift = np.uint64(state.functions.bits - state.level.length)
    heads = state.find_cells(parents)
    hits, sums = [parents[:0]], [np.zeros(0, dtype=np.float32)]
    for first, begin, block in scan_sums(
        state.functions, state.level.rows, state.start, state.scanned, heads
    ):
        parent, child = np.nonzero(block > least - _ROUNDED)
        hits.append(parents[first + parent] | (child + begin).astype(np.uint64) << shift)
        sums.append(block[parent, child])
        if step is not None:
            step((first + (begin + block.shape[1]) / children * len(block)) / len(parents))
    words = np.concatenate(hits)
    if len(words) <= _MOST_HITS:
        return words
    return words[np.argpartition(-np.concatenate(sums), _MOST_HITS)[:_MOST_HITS]]


def _resolve(
    state: _State, hits: Spelt, tail: float, *, floor: float, peeled: float | None
) -> tuple[Spelt, Floats, Floats]:
    """Return those of the hits that stand out when the larger ones are peeled, their counts, and the last thresholds.

    Marks their cells (`peeled`: only those of words above it). What is peeled no longer adds noise, so thresholds fall.
    """
    standing, values = [hits[:0]], [np.zeros(0)]
    cells = state.find_cells(hits)
    while True:
        limits = state.quantiles(tail)
        sums, rows = state.measure(cells, own=False)
        counts = state.estimate(sums, rows, own=False)
        above = (sums > limits[rows]) & (counts >= floor)
        if not above.any():
            return np.concatenate(standing), np.concatenate(values), limits
        taken = above & (counts >= counts[above].max() / 2)
        standing.append(hits[taken])
        values.append(counts[taken])
        marked = taken if peeled is None else taken & (counts >= peeled)
        state.mark(cells[:, marked], counts[marked])
        hits, cells = hits[~taken], cells[:, ~taken]
        state.refresh()


def _settle(
    state: _State, stirred: Spelt, values: Floats, limits: Floats, *, last: bool
) -> _Prefixes:
    """Return what was found, measured once more without what was found later; who falls below the threshold goes."""
    cells = state.find_cells(stirred)
    own = _are_marked(state, cells)
    for _ in range(_ROUNDS):
        sums, rows = _measure_each(state, cells, own)
        stays = sums > limits[rows]
        leaving = ~stays & own
        state.mark(cells[:, leaving], values[leaving], -1)
        stirred, cells, own, values = stirred[stays], cells[:, stays], own[stays], values[stays]
        if stays.all():
            break
    state.refresh()
    values = np.where(
        own, state.estimate(sums, rows, own=True), state.estimate(sums, rows, own=False)
    )
    if not last and len(stirred) > _MOST_PREFIXES:
        best = np.argpartition(-values, _MOST_PREFIXES)[:_MOST_PREFIXES]
        stirred, values = stirred[best], values[best]
    return _Prefixes(stirred, values, float(limits[-1]))


def _are_marked(state: _State, cells: Cells) -> Bools:
    """Return whether all cells of a word that was found are held: those of prefixes near the threshold are not."""
    places = np.arange(len(cells))[:, None]
    return np.asarray((state.held[places, cells] > 0).all(axis=0), dtype=np.bool_)


def _measure_each(state: _State, cells: Cells, own: Bools) -> _Sums:
    alone, others = state.measure(cells, own=True), state.measure(cells, own=False)
    return _Sums(np.where(own, alone.sums, others.sums), np.where(own, alone.rows, others.rows))


def scan_sums(
    functions: Functions, rows: Sequence[int], start: int, tables: Sums, heads: Cells
) -> Iterator[tuple[int, int, Sums]]:
    """Return blocks of sums over these rows, whose cells hold `tables`[rows, buckets].

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
    tails: list[Cells]
    """The cells of all continuations, by row."""

    def add_up(self, heads: Cells, begin: int, wide: int) -> Sums:
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
    places: Cells
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

    def add_up(self, heads: Cells, _: int, wide: int) -> Sums:
        rows, buckets = self.spectra.shape
        low, high = 1 << self.low, buckets >> self.low
        sums = np.empty((heads.shape[1], wide), dtype=np.float32)
        halves = self.spectra.reshape(rows, high, low)
        for prefix, head in enumerate(heads.T):
            signs = hadamard(high)[head >> self.low][:, :, None]
            signed = halves * signs * hadamard(low)[head & (low - 1)][:, None, :]
            sums[prefix] = np.bincount(self.places, weights=signed.ravel(), minlength=wide)
        return transform_rows(sums)


def transform_rows(rows: Sums) -> Sums:
    """Return the Walsh-Hadamard transform of each row; lengths are powers of two.

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
    """Return Sylvester's matrix.

    >>> hadamard(2)
    array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    one = np.ones((1, 1), dtype=np.float32)
    for _ in range(round(math.log2(size))):
        one = np.block([[one, one], [one, -one]])
    return one
