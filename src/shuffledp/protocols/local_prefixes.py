r"""Words that many people have, in the local model: one random prefix each, hashed, by randomized response.

Everybody draws a row of public cells, and sends the cell of their word in it by k-ary randomized response.
Rows look at prefixes of several lengths; the analyzer extends prefixes that stand out, level by level, and counts
the words that are left from the rows of the last level. The noise grows with the square root of n, so a word
needs far more people than with a shuffler: that is the price of trusting nobody.

With g buckets and p, q the probabilities of one's own and of another cell, the estimate for a word of nobody has
variance

    n (1/g) (1 - 1/g) / (share (p - 1/g)^2) ,    p - 1/g = (p - q) (1 - 1/g) ,

share that of the last level among the rows; g is the power of two that makes this small, about e^epsilon.

**What a device sends.** Rows are numbered by elements r = 0 .. R-1 of GF(2^16). A row belongs to a level, and looks
at the first `length` bits of the stirred word y = A x; A is a public invertible matrix over GF(2). Its cell is the
first log2(buckets) bits of

    a_0(y) + a_1(y) r + a_2(y) r^2 + a_3(y) r^3,

where the a_j are linear maps from the bits it looks at to GF(2^16), with independent uniform columns.

**The law of the functions.** In every row the map from words to cells is uniformly random among the linear ones: two
words that differ where it looks meet with probability exactly 1 / buckets, and any two others meet a third one
independently. In any four rows the maps are independent, since four coefficients make four values. All of them take
a few hundred numbers, so that they fit into the document of a live collection, and a device evaluates one polynomial.

**Privacy.** The row does not depend on the word, and the cell is sent by k-ary randomized response. So every message
is epsilon0-private by itself, for any functions, whoever chose them.

**From messages to words.** A level's rows hold N[r, y] messages. What a cell has beyond the mean of its row is its
*excess*, and the sum of a candidate's excess over all rows of the level is `count * unit` on average, unit = share
(p - q) (1 - 1 / buckets): people of other words add nothing on average. All sums of the 2^b continuations of a
prefix are one Walsh-Hadamard transform: with E[r, a] = sum_y (-1)^|a & y| excess[r, y] and M_r the matrix of row r
over GF(2),

    sum_r excess[r, M_r c] = (1 / buckets) sum_{r, a} E[r, a] (-1)^|M_r^T a & c| ,

so E[r, a] is added up at the place M_r^T a, with a sign for the bits of the prefix, and transformed.

**Thresholds.** Given the functions, each message is in a cell of a word of nobody with probability 1 / buckets, but
for the share of rows in which that word meets the sender's, which is 1 / buckets on average as well. So the sum has
the tail of a binomial number, widened by what the cells show of uneven rows: large words. A level before the last
passes on some false prefixes, `ALARMS` on average; the last one decides.

**Peeling.** What the largest words found so far add to every cell on average is subtracted, and the level is looked
at again, until nothing new is found. Prefixes near the threshold are not peeled: many of them are noise, and noise
that is subtracted from the cells of others is one more noise.

References: Wang, Li, Jha 2021, "Locally differentially private heavy hitter identification" (PEM: people in groups,
one for each prefix length, and local hashing). Deviations: hash functions are linear, so that all continuations of a
prefix are decoded by one transform; words are stirred; large words are peeled; groups are as large as their
thresholds need."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.accounting.blanket import Blanket
from shuffledp.core.analyzer import Estimate, Step, Tally, Value, message_tally
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import LATE, Parts
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled
from shuffledp.core.texts import Keys, Spelt, Texts
from shuffledp.core.validate import positive, whole
from shuffledp.numerics import tape
from shuffledp.numerics.entropy import SeededWords
from shuffledp.numerics.galois import multiply, parity
from shuffledp.numerics.rounding import exp_lower, find_first
from shuffledp.protocols.hadamard import walsh_hadamard
from shuffledp.protocols.hashed_prefixes import (
    draw_seed,
    list_words,
    read_words_domain,
    report_counts,
)
from shuffledp.protocols.hashed_prefixes.decoder import Found, Seen, bound_tail
from shuffledp.protocols.hashed_prefixes.design import LevelSight, level_tails, split_bits
from shuffledp.protocols.hashed_prefixes.device import (
    SEED_BITS,
    Functions,
    apply_columns,
    draw_functions,
)
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.shared.assembly import OneNumber, local, register, shuffled

FIELD = 16
"""Bits of an element of the field."""
COEFFICIENTS = 4
WIDEST = 24
"""Bits that a level may add: all continuations of a prefix are tried together."""
MOST_CELLS = 1 << 20
"""Rows times buckets: what a tally holds."""
ALARMS = (100.0, 0.01)
"""False prefixes that a level lets through on average, and false words that are reported."""
_MOST_PREFIXES = 2000
_PEELED = 256  # the largest words: what the others do to each other is little
# Times the threshold: below, what is peeled may be noise, and would take from true words.
_CLEARLY = 2.0
_ROUNDS = 4
_FITTED = 3  # rounds of a fit: words hardly meet, so it ends soon
_AT_ONCE = 1 << 20  # candidates, of several prefixes together
_MOST_ROWS = 1 << 14
_MOST_BUCKETS = 1 << 8
_OTHERS = 50  # prefixes that are large indeed: a guess, for the number of candidates
_SURELY = 2.2  # standard errors above a level's threshold, where a word is hardly missed


@dataclass(frozen=True, slots=True, kw_only=True)
class Polynomials:
    """Which cell of a row a stirred word is in.

    >>> some = Polynomials(bits=2, buckets=2, coefficients=((1, 3), (2, 1)), field=2)
    >>> [some.find_cells(np.arange(4), np.full(4, row)).tolist() for row in range(4)]
    [[0, 0, 1, 1], [0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]]
    """

    bits: int
    """The bits of a word."""
    buckets: int
    coefficients: tuple[tuple[int, ...], ...]
    """The columns of a_0, a_1, ...: bit i of a word, from the lowest, adds element i."""
    field: int = FIELD

    @property
    def width(self) -> int:
        """Bits of a cell."""
        return self.buckets.bit_length() - 1

    def find_cells(self, stirred: Codes, rows: Codes) -> NDArray[np.int64]:
        """Return the cell of each word in the row beside it."""
        values = [
            apply_columns(columns, stirred).astype(np.uint32) for columns in self.coefficients
        ]
        return self._evaluate(values, rows)

    def tabulate(self, length: int, rows: range) -> NDArray[np.int64]:
        """Return [length, len(rows)]: what each of the first bits adds to the cell, the lowest of them first."""
        at = np.arange(rows.start, rows.stop)
        table = []
        for place in range(self.bits - length, self.bits):
            values = [np.full(len(at), each[place], dtype=np.uint32) for each in self.coefficients]
            table.append(self._evaluate(values, at))
        return np.array(table, dtype=np.int64).reshape(length, len(at))

    def _evaluate(self, values: Sequence[Words], rows: Codes) -> NDArray[np.int64]:
        """Return the first bits of the polynomial with these coefficients at each row, by Horner's rule."""
        total = values[-1]
        for value in reversed(values[:-1]):
            total = multiply(total, rows, 1 << self.field, self.field) ^ value
        return (total >> np.uint32(self.field - self.width)).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPrefixes(OneNumber):
    """The message is row * buckets + cell.

    >>> device = LocalPrefixes(
    ...     domain=Keys(bits=2), lengths=(1, 2), rows=(1, 3), buckets=2, seed=1, epsilon0=1.0, word_bits=3
    ... )
    >>> device.pmf(3)[0,], device.pmf(3)[1,]
    (Fraction(5, 32), Fraction(3, 32))
    """

    domain: Texts | Keys
    lengths: tuple[int, ...]
    """How many bits the rows of each level look at."""
    rows: tuple[int, ...]
    """How many rows each level has."""
    buckets: int
    seed: int
    """The seed of the public functions."""
    epsilon0: float
    word_bits: int = 64
    response: KRR = field(init=False)
    """Randomized response over the cells of a row."""
    stir: tuple[int, ...] = field(init=False)
    """The columns of A."""
    coefficients: tuple[tuple[int, ...], ...] = field(init=False)
    """Those of the polynomials."""
    words_per_input: ClassVar[int] = 2
    """One for the row, one for the response."""

    def __post_init__(self) -> None:
        whole("seed", self.seed, at_least=0, at_most=(1 << SEED_BITS) - 1)
        object.__setattr__(self, "lengths", _wholes("lengths", self.lengths, self.domain.bits))
        object.__setattr__(self, "rows", _wholes("rows", self.rows, 1 << FIELD))
        _check_levels(self.lengths, self.rows, self.domain.bits)
        whole("buckets", self.buckets, at_least=2, at_most=1 << FIELD)
        if self.buckets.bit_count() != 1 or self.alphabet > MOST_CELLS:
            raise ParameterError(
                "buckets",
                self.buckets,
                f"must be a power of two, with at most {MOST_CELLS} cells in all rows",
            )
        whole("word_bits", self.word_bits, at_least=self.row_bits, at_most=64)
        response = KRR(k=self.buckets, epsilon0=self.epsilon0, word_bits=self.word_bits)
        stir, coefficients = _draw(self.domain.bits, self.seed)
        object.__setattr__(self, "response", response)
        object.__setattr__(self, "stir", stir)
        object.__setattr__(self, "coefficients", coefficients)

    @property
    def all_rows(self) -> int:
        """R, of all levels."""
        return sum(self.rows)

    @property
    def row_bits(self) -> int:
        """Bits of the number of a row."""
        return self.all_rows.bit_length() - 1

    @property
    def alphabet(self) -> int:
        """The cells of all rows."""
        return self.all_rows * self.buckets

    @property
    def starts(self) -> tuple[int, ...]:
        """The first row of each level."""
        return tuple(accumulate(self.rows[:-1], initial=0))

    @property
    def polynomials(self) -> Polynomials:
        """The public functions of stirred words."""
        return Polynomials(
            bits=self.domain.bits, buckets=self.buckets, coefficients=self.coefficients
        )

    @property
    def stirring(self) -> Functions:
        """The public matrix, and its inverse."""
        return _make_functions(self.domain.bits, self.stir)

    def find_cells(self, codes: Codes, rows: Codes) -> NDArray[np.int64]:
        """Return the cell of each word in the row beside it, which looks at the first bits alone."""
        bits = self.domain.bits
        masks = [((1 << length) - 1) << (bits - length) for length in self.lengths]
        looked_at = np.repeat(np.array(masks, dtype=np.uint64), self.rows)
        stirred = apply_columns(self.stir, codes) & looked_at[rows]
        return self.polynomials.find_cells(stirred, rows)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        rows = tape.uniform(words[:, 0], self.all_rows, self.word_bits).astype(np.int64)
        cells = self.find_cells(inputs, rows)
        sent = self.response.encode(cells, words[:, 1:]).payload
        return Messages.one_each(rows * self.buckets + sent)

    def pmf(self, x: int) -> Law:
        rows = np.arange(self.all_rows)
        cells = self.find_cells(np.full(len(rows), x, dtype=np.uint64), rows).tolist()
        law: Law = {}
        for row, cell in enumerate(cells):
            for (y,), mass in self.response.pmf(cell).items():
                assert isinstance(y, int)
                law[row * self.buckets + y,] = mass / self.all_rows
        return law

    def blankets(self) -> tuple[Blanket, ...]:
        """Return what all words' laws have in common, for the accountant of the shuffled view.

        Two words that share no cell are the worst pair; rows in which they meet tell nothing.
        """
        return self.response.blankets()


def _wholes(name: str, values: Sequence[int], most: int) -> tuple[int, ...]:
    return tuple(whole(name, value, at_least=1, at_most=most) for value in values)


def _check_levels(lengths: Sequence[int], rows: Sequence[int], bits: int) -> None:
    steps = [end - start for start, end in zip((0, *lengths), lengths, strict=False)]
    if not lengths or lengths[-1] != bits or not all(1 <= step <= WIDEST for step in steps):
        raise ParameterError(
            "lengths", lengths, f"must rise by 1 to {WIDEST} bits each, and end with all {bits}"
        )
    if len(rows) != len(lengths) or sum(rows).bit_count() != 1 or sum(rows) > 1 << FIELD:
        raise ParameterError(
            "rows",
            rows,
            f"must be as many as lengths, with a power of two up to {1 << FIELD} in all",
        )


@lru_cache(maxsize=8)
def _draw(bits: int, seed: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return the matrix that stirs, and the columns of the coefficients."""
    source = SeededWords(seed)
    stir = draw_functions(bits=bits, buckets=2, lengths=(), source=source).stir
    columns = (tuple(source.words(bits, FIELD).tolist()) for _ in range(COEFFICIENTS))
    return stir, tuple(columns)


@lru_cache(maxsize=8)
def _make_functions(bits: int, stir: tuple[int, ...]) -> Functions:
    return Functions(bits=bits, buckets=2, stir=stir, lengths=(), rows=())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """Some rows that look at equally many bits, and what is in their cells."""

    length: int
    start: int
    """How many bits are known from the level before."""
    people: int
    """How many messages there are."""
    gain: float
    """What a person adds on average to their own cell of each row, beyond what everybody adds."""
    excess: Floats
    """[rows, buckets]: what each cell holds, less the mean of its row."""
    columns: NDArray[np.int64]
    """[length, rows]: what each bit adds to the cell."""
    masks: Spelt
    """[rows, buckets]: M_r^T a."""

    @classmethod
    def of(cls, device: LocalPrefixes, place: int, counts: NDArray[np.int64]) -> "Level":
        """Return the level of that number, with its messages counts[rows, buckets]."""
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
        """What a person adds to the sum of their own word on average."""
        return len(self.excess) * self.gain * (1 - 1 / self.buckets)

    def tell(self, left: Floats, limit: float) -> Seen:
        """Return how it looked."""
        return Seen(self.unit, self.people / self.buckets, _spread(left), limit, lost=0.0)

    def find_cells(self, prefixes: Spelt) -> NDArray[np.int64]:
        """Return [rows, len(prefixes)]."""
        cells = np.zeros((len(self.excess), len(prefixes)), dtype=np.int64)
        for place, column in enumerate(self.columns):
            has = (prefixes >> np.uint64(place) & np.uint64(1)).astype(np.int64)
            cells ^= column[:, None] * has[None, :]
        return cells

    def fit(self, prefixes: Spelt, least: float) -> tuple[Floats, Floats]:
        """Estimate the counts of prefixes, the largest of them from `least` on peeled; and the excess without
        those.
        """
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
    """Return [rows, buckets]: M_r^T a for all a, from what each bit adds to the cell."""
    masks = np.zeros((columns.shape[1], 1), dtype=np.uint64)
    for bit in range(buckets.bit_length() - 1):
        one = np.zeros(columns.shape[1], dtype=np.uint64)
        for place, column in enumerate(columns):
            one |= (column >> bit & 1).astype(np.uint64) << np.uint64(place)
        masks = np.concatenate((masks, masks ^ one[:, None]), axis=1)
    return masks


def _spread(left: Floats) -> float:
    """Return the variance of the sum of a word of nobody: of one draw from the cells of each row."""
    return float(np.square(left).mean(axis=1).sum())


def limit_sum(people: int, buckets: int, tail: float, spread: float | None = None) -> float:
    """Return what the excess of a word of nobody exceeds with probability `tail`; wider if the cells are spread more.

    >>> limit_sum(1000, 4, 0.01), limit_sum(1000, 4, 0.01, spread=750.0)
    (32.0, 64.0)
    """
    mean = people / buckets
    even = mean * (1 - 1 / buckets)
    wide = 1.0 if spread is None or not even else math.sqrt(max(1.0, spread / even))
    return max(0.5, (_find_binomial_end(people, 1 / buckets, tail) - mean) * wide)


def _find_binomial_end(people: int, share: float, tail: float) -> int:
    """Return the smallest number that a binomial one exceeds with probability `tail` at most.

    >>> _find_binomial_end(1000, 0.25, 0.01), _find_binomial_end(0, 0.25, 0.01)
    (282, 0)
    """
    from scipy.special import bdtrc  # scipy.stats takes a second to import

    return find_first(lambda count: bool(bdtrc(count, people, share) <= tail), -1, people)


def decode(device: LocalPrefixes, counts: NDArray[np.int64], step: Step | None = None) -> Found:
    """Return the words that stand out in counts[cells], and how many people have them; nothing here is random."""
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
    """Return the continuations of the parents that stand out, their counts, and how the level looked."""
    tail = bound_tail(alarms, max(1, len(parents)) << (level.length - level.start))
    standing, values, left = np.zeros(0, dtype=np.uint64), np.zeros(0), level.excess
    limit = limit_sum(level.people, level.buckets, tail, _spread(left))
    for _ in range(_ROUNDS):
        hits = _scan(level, left, parents, limit)
        more = hits[~np.isin(hits, standing)]
        if not len(more):
            break
        standing = np.concatenate((standing, more))
        values, left = level.fit(standing, _CLEARLY * limit / level.unit)
        limit = limit_sum(level.people, level.buckets, tail, _spread(left))
    stays = np.flatnonzero(values * level.unit > limit)
    stays = stays[np.argsort(-values[stays], kind="stable")][:_MOST_PREFIXES]
    return standing[stays], values[stays], level.tell(left, limit)


def _scan(level: Level, left: Floats, parents: Spelt, limit: float) -> Spelt:
    """Return all continuations of the parents whose cells hold more than this."""
    width = level.length - level.start
    spectrum = walsh_hadamard(left).ravel() / level.buckets
    masks = level.masks.ravel()
    low = (masks & np.uint64((1 << width) - 1)).astype(np.int64)
    high = masks >> np.uint64(width)
    hits = [parents[:0]]
    together = max(1, _AT_ONCE >> width)
    for first in range(0, len(parents), together):
        some = parents[first : first + together]
        sums = walsh_hadamard(
            np.array([_gather(spectrum, low, high, parent, width) for parent in some])
        )
        parent, child = np.nonzero(sums > limit)
        hits.append(some[parent] << np.uint64(width) | child.astype(np.uint64))
    return np.concatenate(hits)


def _gather(
    spectrum: Floats, low: NDArray[np.int64], high: Spelt, parent: np.uint64, width: int
) -> Floats:
    """Return the transform of the sums of all continuations of a parent."""
    signs = 1.0 - 2.0 * parity(high & parent).astype(np.float64)
    gathered: Floats = np.bincount(low, spectrum * signs, minlength=1 << width).astype(np.float64)
    return gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWordsAnalyzer:
    """Counts the messages in each cell, and looks for words."""

    device: LocalPrefixes

    def influence(self) -> float:
        """Return infinity: no bound is known.

        A message moves the sum of its word by one. But a word that crosses the count from which words are peeled
        changes the counts of all others, by hundreds of people in a million: see docs/theory/robustness.md.
        """
        return math.inf

    @property
    def _shares(self) -> tuple[float, ...]:
        """The probability of each level."""
        return tuple(rows / self.device.all_rows for rows in self.device.rows)

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.device.alphabet)

    def predict(self, n: int) -> LevelSight:
        """Foresee, without a bound, what is seen among n people if other words collide as often as on average.

        >>> made = make_local(bits=64, epsilon=1.0, seed=1)
        >>> made.analyzer.predict(10**6).find_count(0.95) > 20_000
        True
        """
        device, seen = self.device, []
        lead = float(device.response.p - device.response.q) * (1 - 1 / device.buckets)
        tails = level_tails(device.lengths, ALARMS, _OTHERS)
        for share, tail in zip(self._shares, tails, strict=True):
            mean = n * share / device.buckets
            limit = limit_sum(round(n * share), device.buckets, tail)
            seen.append(Seen(share * lead, mean, mean * (1 - 1 / device.buckets), limit, lost=0.0))
        return LevelSight.of(seen)

    def find(self, tally: Tally, step: Step | None = None) -> Found:
        """Return the words that stand out, by code."""
        return decode(self.device, tally.counts, step)

    def estimate(self, tally: Tally) -> Estimate:
        """Return the words that were found, the most frequent first."""
        return self.estimate_stepwise(tally, None)

    def estimate_stepwise(self, tally: Tally, step: Step | None) -> Estimate:
        """Return the same, with a call of `step` after every level."""
        n, found = tally.people(), self.find(tally, step)
        stderr = self._stderr(found.values, found.seen[-1], n)
        return list_words(self.device.domain, found, found.values, stderr, n)

    def count(self, tally: Tally, words: ArrayLike) -> Estimate:
        """Count the people who have each of these words, chosen before looking: found or not, without bias.

        >>> from shuffledp import SeededWords, run
        >>> made = make_local(alphabet="letters", max_length=4, epsilon=4.0, seed=1)
        >>> people = ["cat"] * 15_000 + ["dog"] * 5_000
        >>> from shuffledp.engine.local import tally_each
        >>> counted = made.analyzer.count(tally_each(made, people, SeededWords(1)), ["cat", "cow"])
        >>> [round(value, -3) for value in counted.value.tolist()]
        [15000.0, 0.0]
        """
        device, n, place = self.device, tally.people(), len(self.device.lengths) - 1
        codes = device.domain.codes(words).astype(np.uint64)
        table = tally.counts.reshape(device.all_rows, device.buckets)
        level = Level.of(device, place, table[device.starts[place] :])
        values, left = level.fit(device.stirring.stir_words(codes), math.inf)
        stderr = self._stderr(values, level.tell(left, 0.0), n)
        return report_counts(device.domain, codes, values, stderr, n)

    def _stderr(self, values: Floats, seen: Seen, n: int) -> Floats:
        """Estimate the error: noise and collisions as in the other cells, and the word's own people, who may draw
        another level or cell.
        """
        share, g, p = self._shares[-1], self.device.buckets, float(self.device.response.p)
        held = np.clip(values, 0.0, n)
        own = share * (p * (1 - 1 / g) ** 2 + (1 - p) / g**2) - seen.share**2
        stderr: Floats = np.sqrt(seen.variance * (1 - held / n) + held * own) / seen.share
        return stderr

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError("which words are counted depends on the messages: none has a weight")

    def variance(self, inputs: Counts) -> Value:
        """Return the variance for a word that few have, without collisions beyond the mean."""
        said = self.predict(int(inputs.sum()))
        assert said.spreads is not None
        return said.spreads[-1] / said.shares[-1] ** 2


@local(
    name="local_prefixes",
    task="words",
    title="hashed prefixes by randomized response",
    reference="Wang, Li, Jha 2021",
)
def make_local(
    *,
    epsilon: float,
    alphabet: str | None = None,
    max_length: int | None = None,
    bits: int | None = None,
    lengths: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    buckets: int | None = None,
    seed: int | None = None,
    word_bits: int = 64,
) -> Parts:
    """Make a protocol for words over an alphabet up to a length, or integers of `bits` bits.

    `lengths` (of the prefixes), `rows` and `buckets` are chosen unless given. The `seed` of the public functions comes
    from secure words unless given: whoever chooses it must not know the words.

    >>> p = make_local(bits=64, epsilon=1.0, seed=1)
    >>> p.parameters["lengths"], p.parameters["buckets"], p.cost.bits_per_message
    ([20, 35, 49, 64], 4, 16)

    Behind a shuffler:

    >>> p = make(n=10**6, bits=64, epsilon=1.0, delta=1e-8, seed=1)
    >>> p.cost.messages_max, 9 < p.local_floor.epsilon < 10
    (1, True)
    """
    domain = read_words_domain(alphabet, max_length, bits)
    g = _choose_buckets(positive("epsilon", epsilon)) if buckets is None else buckets
    levels = split_bits(domain.bits) if lengths is None else tuple(lengths)
    each = _share_rows(levels, g) if rows is None else tuple(rows)
    device = LocalPrefixes(
        domain=domain,
        lengths=levels,
        rows=each,
        buckets=g,
        seed=draw_seed() if seed is None else seed,
        epsilon0=epsilon,
        word_bits=word_bits,
    )
    analyzer = LocalWordsAnalyzer(device=device)
    return Parts(
        device,
        analyzer,
        code=device.code,
        blankets=device.blankets,
        influence=analyzer.influence,
        predict=analyzer.predict,
        estimate_stepwise=analyzer.estimate_stepwise,
        resolved={
            "lengths": list(device.lengths),
            "rows": list(device.rows),
            "buckets": g,
            "seed": device.seed,
        },
    )


def _choose_buckets(epsilon0: float) -> int:
    """Return the power of two with the smallest variance of a word that nobody has."""
    e = float(exp_lower(min(epsilon0, 60.0)))

    def variance(g: int) -> float:
        p = e / (e + g - 1)
        return (1 / g) * (1 - 1 / g) / (p - 1 / g) ** 2

    return min((1 << j for j in range(1, _MOST_BUCKETS.bit_length())), key=variance)


def _share_rows(lengths: Sequence[int], buckets: int) -> tuple[int, ...]:
    """Give more rows where the threshold is higher, so that a word that one level sees is seen by all."""
    from scipy.special import ndtri  # scipy.stats takes a second to import

    every = min(_MOST_ROWS, MOST_CELLS // max(2, buckets))
    tails = level_tails(lengths, ALARMS, _OTHERS)
    needs = [(float(-ndtri(tail)) + _SURELY) ** 2 for tail in tails]
    shares = [max(1, math.floor(every * need / sum(needs))) for need in needs]
    return (*shares[:-1], every - sum(shares[:-1]))


make = shuffled(make_local, draw={"seed": draw_seed})

SPEC = register(make_local, make, hints=LATE)
