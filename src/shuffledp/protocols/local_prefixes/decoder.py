r"""From the messages of the local model to words: level by level, all candidates at once.

A level's rows hold N[r, y] messages. What a cell has beyond the mean of its row is its *excess*, and the sum of a
candidate's excess over all rows of the level is `count * unit` in the mean, unit = share (p - q) (1 - 1 / buckets):
people of other words add nothing in the mean. All sums of the 2^b continuations of a prefix are one Walsh-Hadamard
transform: with E[r, a] = sum_y (-1)^|a & y| excess[r, y] and M_r the matrix of row r over GF(2),

    sum_r excess[r, M_r c] = (1 / buckets) sum_{r, a} E[r, a] (-1)^|M_r^T a & c| ,

so E[r, a] is added up at the place M_r^T a, with a sign for the bits of the prefix, and transformed.

**Thresholds.** Given the functions, each message is in a cell of a word of nobody with probability 1 / buckets, but for
the share of rows in which that word meets the sender's, which is 1 / buckets in the mean as well. So the sum has the
tail of a binomial number, widened by what the cells show of uneven rows: large words. A level before the last passes
on some false prefixes, `ALARMS` in the mean; the last one decides.

**Peeling.** What the largest words found so far add to every cell in the mean is subtracted, and the level is looked at
again, until nothing new is found. Prefixes near the threshold are not peeled: many of them are noise, and noise that is
subtracted from the cells of others is one more noise.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.analyzer import Step
from shuffledp.core.arrays import Floats
from shuffledp.core.texts import Spelt
from shuffledp.numerics.galois import parity
from shuffledp.protocols.hadamard import walsh_hadamard
from shuffledp.protocols.hashed_prefixes.decoder import Found, Seen, bound_tail
from shuffledp.protocols.local_prefixes.device import LocalPrefixes

__all__ = ["ALARMS", "Level", "decode", "limit_sum"]

ALARMS = (100.0, 0.01)
"""False prefixes that a level passes on in the mean, and false words that are reported."""
_MOST_PREFIXES = 2000
_PEELED = 256  # the largest words: what the others do to each other is little
_CLEARLY = (
    2.0  # times the threshold: below, what is peeled may be noise, and would take from true words
)
_ROUNDS = 4
_FITTED = 3  # rounds of a fit: words hardly meet, so it ends soon
_AT_ONCE = 1 << 20  # candidates, of several prefixes together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """Some rows that look at equally many bits, and what is in their cells."""

    length: int
    start: int
    """How many bits are known from the level before."""
    people: int
    """How many messages there are."""
    gain: float
    """What a person adds in the mean to the own cell of each row, beyond what everybody adds."""
    excess: Floats
    """[rows, buckets]: what each cell holds, less the mean of its row."""
    columns: NDArray[np.int64]
    """[length, rows]: what each bit adds to the cell."""
    masks: Spelt
    """[rows, buckets]: M_r^T a."""

    @classmethod
    def of(cls, device: LocalPrefixes, place: int, counts: NDArray[np.int64]) -> "Level":
        """The level of that number, with its messages counts[rows, buckets]."""
        first, rows = device.starts[place], device.rows[place]
        length = device.lengths[place]
        columns = device.polynomials.tabulate(length, range(first, first + rows))
        return cls(
            length=length,
            start=device.lengths[place - 1] if place else 0,
            people=int(counts.sum()),
            gain=float(device.response.p - device.response.q) / device.all_rows,
            excess=counts - counts.mean(axis=1, keepdims=True),
            columns=columns,
            masks=_transpose(columns, device.buckets),
        )

    @property
    def buckets(self) -> int:
        return int(self.excess.shape[1])

    @property
    def unit(self) -> float:
        """What a person adds to the sum of the own word in the mean."""
        return len(self.excess) * self.gain * (1 - 1 / self.buckets)

    def tell(self, left: Floats, limit: float) -> Seen:
        """How it looked."""
        return Seen(self.unit, self.people / self.buckets, _spread(left), limit, lost=0.0)

    def find_cells(self, prefixes: Spelt) -> NDArray[np.int64]:
        """[rows, len(prefixes)]."""
        cells = np.zeros((len(self.excess), len(prefixes)), dtype=np.int64)
        for place, column in enumerate(self.columns):
            has = (prefixes >> np.uint64(place) & np.uint64(1)).astype(np.int64)
            cells ^= column[:, None] * has[None, :]
        return cells

    def fit(self, prefixes: Spelt, least: float) -> tuple[Floats, Floats]:
        """Estimated counts of prefixes, the largest of them from `least` on peeled; and the excess without those."""
        cells, rows = self.find_cells(prefixes), np.arange(len(self.excess))[:, None]
        values: Floats = self.excess[rows, cells].sum(axis=0) / self.unit
        largest = np.argsort(-values, kind="stable")[:_PEELED]
        largest = largest[values[largest] >= least]
        places = (rows * self.buckets + cells[:, largest]).ravel()
        left = self.excess
        for _ in range(_FITTED):
            peeled = values[largest]
            added = np.bincount(
                places, np.tile(self.gain * peeled, len(rows)), minlength=self.excess.size
            ).reshape(self.excess.shape)
            left = self.excess - (added - added.mean(axis=1, keepdims=True))
            values = left[rows, cells].sum(axis=0) / self.unit
            values[largest] += peeled
        return values, left


def _transpose(columns: NDArray[np.int64], buckets: int) -> Spelt:
    """[rows, buckets]: M_r^T a for all a, from what each bit adds to the cell."""
    masks = np.zeros((columns.shape[1], 1), dtype=np.uint64)
    for bit in range(buckets.bit_length() - 1):
        one = np.zeros(columns.shape[1], dtype=np.uint64)
        for place, column in enumerate(columns):
            one |= (column >> bit & 1).astype(np.uint64) << np.uint64(place)
        masks = np.concatenate((masks, masks ^ one[:, None]), axis=1)
    return masks


def _spread(left: Floats) -> float:
    """The variance of the sum of a word of nobody: of one draw from the cells of each row."""
    return float(np.square(left).mean(axis=1).sum())


def limit_sum(people: int, buckets: int, tail: float, spread: float | None = None) -> float:
    """What the excess of a word of nobody exceeds with probability `tail`; wider if the cells are spread more.

    >>> limit_sum(1000, 4, 0.01), limit_sum(1000, 4, 0.01, spread=750.0)
    (32.0, 64.0)
    """
    mean = people / buckets
    even = mean * (1 - 1 / buckets)
    wide = 1.0 if spread is None or not even else math.sqrt(max(1.0, spread / even))
    return max(0.5, (_find_binomial_end(people, 1 / buckets, tail) - mean) * wide)


def _find_binomial_end(people: int, share: float, tail: float) -> int:
    """The smallest number that a binomial one exceeds with probability `tail` at most.

    >>> _find_binomial_end(1000, 0.25, 0.01), _find_binomial_end(0, 0.25, 0.01)
    (282, 0)
    """
    from scipy.special import bdtrc  # scipy.stats takes a second to import

    low, high = -1, people
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bdtrc(middle, people, share) <= tail else (middle, high)
    return high


def decode(device: LocalPrefixes, counts: NDArray[np.int64], step: Step | None = None) -> Found:
    """The words that stand out in counts[cells], and how many people have them; nothing here is random."""
    table = counts.reshape(device.all_rows, device.buckets)
    prefixes, values, seen = np.zeros(1, dtype=np.uint64), np.zeros(1), []
    depth = len(device.lengths)
    for place, (first, rows) in enumerate(zip(device.starts, device.rows, strict=True)):
        level = Level.of(device, place, table[first : first + rows])
        alarms = ALARMS[place == depth - 1]
        prefixes, values, how = _search(level, prefixes, alarms)
        seen.append(how)
        if step is not None:
            step((place + 1) / depth)
    order = np.argsort(-values, kind="stable")
    return Found(
        codes=device.stirring.unstir(prefixes[order]), values=values[order], seen=tuple(seen)
    )


def _search(level: Level, parents: Spelt, alarms: float) -> tuple[Spelt, Floats, Seen]:
    """The continuations of the parents that stand out, their counts, and how the level looked."""
    tail = bound_tail(alarms, max(1, len(parents)) << (level.length - level.start))
    found, values, left = np.zeros(0, dtype=np.uint64), np.zeros(0), level.excess
    limit = limit_sum(level.people, level.buckets, tail, _spread(left))
    for _ in range(_ROUNDS):
        hits = _scan(level, left, parents, limit)
        more = hits[~np.isin(hits, found)]
        if not len(more):
            break
        found = np.concatenate((found, more))
        values, left = level.fit(found, _CLEARLY * limit / level.unit)
        limit = limit_sum(level.people, level.buckets, tail, _spread(left))
    stays = np.flatnonzero(values * level.unit > limit)
    stays = stays[np.argsort(-values[stays], kind="stable")][:_MOST_PREFIXES]
    return found[stays], values[stays], level.tell(left, limit)


def _scan(level: Level, left: Floats, parents: Spelt, limit: float) -> Spelt:
    """All continuations of the parents whose cells hold more than this."""
    width = level.length - level.start
    spectrum = walsh_hadamard(left).ravel() / level.buckets
    masks = level.masks.ravel()
    low = (masks & np.uint64((1 << width) - 1)).astype(np.int64)
    high = masks >> np.uint64(width)
    found = [parents[:0]]
    together = max(1, _AT_ONCE >> width)
    for first in range(0, len(parents), together):
        some = parents[first : first + together]
        sums = walsh_hadamard(
            np.array([_gather(spectrum, low, high, parent, width) for parent in some])
        )
        parent, child = np.nonzero(sums > limit)
        found.append(some[parent] << np.uint64(width) | child.astype(np.uint64))
    return np.concatenate(found)


def _gather(
    spectrum: Floats, low: NDArray[np.int64], high: Spelt, parent: np.uint64, width: int
) -> Floats:
    """The transform of the sums of all continuations of a parent."""
    signs = 1.0 - 2.0 * parity(high & parent).astype(np.float64)
    gathered: Floats = np.bincount(low, spectrum * signs, minlength=1 << width).astype(np.float64)
    return gathered
