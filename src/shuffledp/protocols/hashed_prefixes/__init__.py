r"""Words that many people have, without a list of words: hashed prefixes, one round.

Everybody sends, in one or two parts, one cell of their word in a random row of public hash cells, and uniform dummies
(`device`, which also knows the public functions). Rows look at prefixes of several lengths of the stirred word; the
analyzer extends prefixes that stand out, level by level (`decoder`), and counts the words that are left from all rows.
`design` chooses levels, rows and buckets.

References: Bassily, Nissim, Stemmer, Thakurta 2017, "Practical locally private heavy hitters" (prefix trees of hashed
counts); Ghazi, Golowich, Kumar, Pagh, Velingker 2021, "On the power of multiple anonymous messages" (hashed counts
with blankets in the shuffle model). Deviations: one message in a random row instead of one in each; dummies for noise,
accounted for exactly and jointly for all parts; words are stirred; large words are peeled; the last level counts.

**Counts** of words, of those that were found and of any others, are from all rows of all parts. A word of c people
holds c / R of its cell in a row, R the number of rows of the part, whatever the level of the row: a prefix is the
word's own, unless somebody else's begins alike. So everybody who has the word is somewhere in its R cells, and with
several parts once in each. A row is left out if a word that was found shares its cell (all rows of a level, if one
begins alike). What else is in the other cells, on average, is subtracted: dummies, and the people whose words were not
found, each with the probability q that their word shares the cell, exactly

    q = a + (1 - a) / b,    a = (2^(w - l) - 1) / (2^w - 1) that the first l of w stirred bits are the same.

So counts are unbiased over the functions and the noise for words that were chosen before looking. **Errors.** With a share s
of the rows left,

    Var = (sum over these rows of the variance of clean cells, as measured) / s^2 + c (1 - s) / s + Q (sum a^(1/2) / R)^2 / s^2;

the second term are the people in rows that were left out, the third one are words that were not found and begin alike: they
are in all rows of a level together. Q = sum of n_y^2 over these words is what the cells vary more than Poisson numbers do.
Parts are independent, and weighted by their variances.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.accounting.moved_message import dummies_level
from shuffledp.core.analyzer import (
    Estimate,
    Interval,
    NormalError,
    Step,
    Tally,
    Value,
    message_tally,
)
from shuffledp.core.arrays import Bools, Counts, Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.protocol import LATE, Crowd, Parts, Promise
from shuffledp.core.randomizer import Message, Shuffled
from shuffledp.core.texts import Keys, Spelt, Texts
from shuffledp.core.validate import whole
from shuffledp.numerics.entropy import SecureWords
from shuffledp.numerics.rounding import dyadic_above
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.hashed_prefixes.decoder import Found, Level, decode
from shuffledp.protocols.hashed_prefixes.design import (
    ALARMS,
    MESSAGES,
    Design,
    LevelSight,
    choose_design,
    predict,
)
from shuffledp.protocols.hashed_prefixes.device import (
    SEED_BITS,
    Functions,
    HashedPart,
    HashedPrefixes,
)
from shuffledp.protocols.shared.assembly import register, shuffle
from shuffledp.protocols.shared.joint import Joint
from shuffledp.protocols.tree import search_noise

_Cells = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """The cells of a part."""

    first: int
    """The number of its first row among the functions."""
    held: Floats
    """[rows, buckets]: how many messages are in each cell, less the dummies on average."""
    noise: float
    """The dummies of a cell on average."""


class CountedWords(NamedTuple):
    """Counts of words, and their standard errors."""

    values: Floats
    stderr: Floats


class _Part(NamedTuple):
    """What one part says about each word."""

    values: Floats
    shares: Floats
    """The share of the people who are in clean rows; 0: this part says nothing about the word."""
    noise: Floats
    """The variance without the people of the word itself."""

    def variances(self, counts: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = np.maximum(counts, 0.0) * (1 - self.shares) / self.shares
            return np.where(self.shares > 0, self.noise + drawn, np.inf)


def count_words(
    functions: Functions,
    tables: Sequence[Table],
    codes: Spelt,
    *,
    found: Spelt,
    values: Floats,
    people: int,
) -> CountedWords:
    """Return the counts of `codes`, where the words `found`, with about these values, are known to collide."""
    listed = dict(zip(found.tolist(), values.tolist(), strict=True))
    known = np.array([code in listed for code in codes.tolist()], dtype=np.bool_)
    itself = np.array([listed.get(code, 0.0) for code in codes.tolist()])
    rest = max(people - float(values.sum()), 0.0)
    peeled, cells = functions.find_cells(found), functions.find_cells(codes)
    looks = [_Look.of(functions, table, peeled, rest) for table in tables]
    squares = max([rest, *(look.sum_squares(rest) for look in looks)])
    clean = [look.find_clean(cells, known) for look in looks]
    # Whoever shares all rows is measured in all of them.
    clean[-1] |= ~np.any([some.any(axis=0) for some in clean], axis=0)
    parts = [
        look.measure(cells, some, rest + itself, squares)
        for look, some in zip(looks, clean, strict=True)
    ]
    return _weigh(parts, _weigh(parts, np.zeros(len(codes))).values)


def _weigh(parts: Sequence[_Part], counts: Floats) -> CountedWords:
    """Return the mean of the parts, each with the weight that its variance at these counts gives it."""
    weights = np.array([1 / part.variances(counts) for part in parts])
    values = np.array([part.values for part in parts])
    total = weights.sum(axis=0)
    return CountedWords((weights * values).sum(axis=0) / total, 1 / np.sqrt(total))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Look:
    """A part, and what is known about its rows and cells."""

    table: Table
    here: slice
    """Its rows among all."""
    taken: _Cells
    """[rows, buckets]: how many of the words that were found are in each cell."""
    alike: Floats
    """The probability that another word is in the same cell of a row because it begins alike."""
    spread: Floats
    """The variance of the clean cells of each row, measured over all rows of the same length."""

    @classmethod
    def of(cls, functions: Functions, table: Table, peeled: _Cells, rest: float) -> "_Look":
        rows, buckets = table.held.shape
        here = slice(table.first, table.first + rows)
        taken = np.array([np.bincount(own, minlength=buckets) for own in peeled[here]])
        lengths, bits = functions.lengths[here], functions.bits
        spread = np.empty(rows)
        for length in set(lengths):
            same = np.array(lengths) == length
            some = table.held[same][taken[same] == 0] - rest / table.held.size
            spread[same] = np.mean(np.square(some))
        alike = np.array([(2 ** (bits - length) - 1) / (2**bits - 1) for length in lengths])
        return cls(table=table, here=here, taken=taken, alike=alike, spread=spread)

    def sum_squares(self, rest: float) -> float:
        """Return Q, from rows that look at all bits; 0 if there are none."""
        rows, buckets = self.table.held.shape
        whole = self.alike == 0
        if not whole.any():
            return 0.0
        beyond = float(self.spread[whole].mean()) - self.table.noise - rest / self.table.held.size
        return float(beyond * rows**2 * buckets)

    def find_clean(self, cells: _Cells, known: Bools) -> Bools:
        """Return [rows, words]: whether no other word that was found is in the cell."""
        each = np.arange(len(self.taken))[:, None]
        return np.asarray(self.taken[each, cells[self.here]] == known, dtype=np.bool_)

    def measure(self, cells: _Cells, clean: Bools, others: Floats, squares: float) -> _Part:
        """Measure; `others`: how many people have neither the word nor one of those that were found, or have it
        themselves.
        """
        rows, buckets = self.table.held.shape
        meets = (self.alike + (1 - self.alike) / buckets)[:, None]
        held = self.table.held[np.arange(rows)[:, None], cells[self.here]]
        sums = np.where(clean, held - others * meets / rows, 0.0).sum(axis=0)
        shares = (clean * (1 - meets)).sum(axis=0) / rows
        together = (clean * np.sqrt(self.alike)[:, None]).sum(axis=0) / rows
        noise = (clean * self.spread[:, None]).sum(axis=0) + squares * together**2
        with np.errstate(divide="ignore", invalid="ignore"):
            return _Part(np.where(shares > 0, sums / shares, 0.0), shares, noise / shares**2)


__all__ = [
    "SPEC",
    "WordsAnalyzer",
    "WordsError",
    "draw_seed",
    "list_words",
    "make",
    "read_words_domain",
    "report_counts",
]


_HALVINGS = 50  # of an interval of counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordsError:
    """The errors of counts of words, and which words could be found.

    Standard errors are those of a word that was chosen before looking. A word is reported because its count came out
    large, so words near the threshold are rather too large than too small. Intervals count that in: their lower end is
    the least count c for which a normal number around c, given that it exceeds the threshold, is as large as this one
    with probability (1 - level) / 2. Near the threshold that is far below: little is known of such a word.
    """

    stderr: Floats
    threshold: float
    """How many people a word must stand for at the last level to be reported."""
    sight: LevelSight
    """How likely a word of a given count is found, with the noise that was measured."""

    def interval(self, value: Value, level: float) -> Interval:
        low, high = NormalError(stderr=self.stderr).interval(value, level)
        tail = (1 - level) / 2
        least = _find_least(np.asarray(value), self.stderr, self.threshold, tail, np.asarray(low))
        return Interval(least, np.asarray(high))

    def exact_interval(self, value: Value, level: float) -> Interval:
        raise UnsupportedError("no exact interval is known for this estimate: use interval()")


def _find_least(
    value: Floats, stderr: Floats, threshold: float, tail: float, low: Floats
) -> Floats:
    """Return the least counts >= 0 that reach these values, above the threshold, with probability `tail`.

    >>> values, errors = np.array([100.0, 100.0, 100.0]), np.array([1.0, 10.0, 10.0])
    >>> _find_least(values[:2], errors[:2], 70.0, 0.025, values[:2] - 1.96 * errors[:2]).round(1)
    array([98. , 79.6])
    """
    from scipy.special import log_ndtr  # scipy.stats takes a second to import

    kept, refused = np.maximum(low, 0.0), np.zeros(len(value))
    wanted, spread = math.log(tail), np.maximum(stderr, 1e-300)

    def reach(count: Floats) -> Floats:
        found: Floats = log_ndtr((count - value) / spread) - log_ndtr((count - threshold) / spread)
        return found

    all_kept = reach(refused) > wanted
    for _ in range(_HALVINGS):
        middle = (kept + refused) / 2
        over = reach(middle) > wanted
        kept, refused = np.where(over, middle, kept), np.where(over, refused, middle)
    return np.where(all_kept, 0.0, refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsAnalyzer:
    """Counts the messages in each cell, and looks for words."""

    device: HashedPrefixes

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.device.cells)

    @property
    def design(self) -> Design:
        """The parts without their noise."""
        parts = tuple(part.levels for part in self.device.parts)
        return Design(parts=parts, buckets=self.device.buckets)

    def influence(self) -> float:
        """Return infinity: no bound is known.

        A message in a cell of a word counts for about one person. But which words are found decides which rows
        the others are counted in, and one message can change it: see docs/theory/robustness.md.
        """
        return math.inf

    def predict(self, n: int) -> LevelSight:
        """Foresee, without a bound, what is seen among n people if other words collide as often as on average.

        Where many other words are about as frequent, fewer are found (0.28 instead of 0.38 among 20,000 people with
        words as of Zipf's law). What `estimate` says after the fact, `WordsError.sight`, knows the words beside.
        """
        part = self.device.parts[0]
        return predict(self.design, n=n, mu=float(n * part.rows * part.noise.rho * part.noise.hit))

    def _split(self, tally: Tally) -> Iterator[tuple[HashedPart, int, Counts]]:
        """Return each part, its first row, and what its cells hold: [rows, buckets]."""
        for part, first_row, first_cell in self.device.place_parts():
            cells = tally.counts[first_cell : first_cell + part.cells]
            yield part, first_row, cells.reshape(part.rows, part.buckets)

    def levels(self, tally: Tally) -> list[Level]:
        """Return the cells, level by level."""
        n, found = tally.people(), []
        for part, first_row, table in self._split(tally):
            mean = float(n * (part.noise.rho * part.noise.hit + Fraction(1, part.cells)))
            start = 0
            for bits, rows in part.levels:
                own = table[start : start + rows]
                found.append(
                    Level(
                        length=bits,
                        rows=tuple(range(first_row + start, first_row + start + rows)),
                        excess=(own - mean).astype(np.float64),
                        mean=mean,
                        share=rows / part.rows,
                        people=n,
                    )
                )
                start += rows
        return sorted(found, key=lambda level: level.length)

    def find(self, tally: Tally, step: Step | None = None) -> Found:
        """Return the words that stand out, by code."""
        return decode(self.device.functions, self.levels(tally), alarms=ALARMS, step=step)

    def estimate(self, tally: Tally) -> Estimate:
        """Return the words that were found, the most frequent first."""
        return self.estimate_stepwise(tally, None)

    def estimate_stepwise(self, tally: Tally, step: Step | None) -> Estimate:
        """Estimate as `estimate` does, but call `step` after every block of candidates."""
        found = self.find(tally, step)
        values, stderr = self._count_codes(tally, found.codes, found)
        return list_words(self.device.domain, found, values, stderr, tally.people())

    def count(self, tally: Tally, words: ArrayLike) -> Estimate:
        """Count the people who have each of these words, chosen before looking: found or not, without bias.

        >>> from shuffledp import SeededWords
        >>> made = make(n=20_000, alphabet="letters", max_length=4, epsilon=1.0, delta=1e-6, seed=1)
        >>> codes = made.randomizer.domain.codes(["cat", "dog"])
        >>> cells = made.randomizer.deal_words(codes, np.array([15_000, 5_000]), SeededWords(1))
        >>> noise = made.randomizer.deal_noise(20_000, SeededWords(2))
        >>> counted = made.analyzer.count(Tally(counts=cells + noise, users=20_000), ["cat", "cow"])
        >>> [round(value, -2) for value in counted.value.tolist()]
        [15000.0, -0.0]
        """
        codes = self.device.domain.codes(words).astype(np.uint64)
        values, stderr = self._count_codes(tally, codes, self.find(tally))
        return report_counts(self.device.domain, codes, values, stderr, tally.people())

    def _count_codes(self, tally: Tally, codes: Spelt, found: Found) -> CountedWords:
        tables = []
        for part, first_row, cells in self._split(tally):
            noise = float(tally.people() * part.noise.rho * part.noise.hit)
            held: Floats = cells.astype(np.float64) - noise
            tables.append(Table(first=first_row, held=held, noise=noise))
        return count_words(
            self.device.functions,
            tables,
            codes,
            found=found.codes,
            values=found.values,
            people=tally.people(),
        )

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError("which words are counted depends on the messages: none has a weight")

    def variance(self, inputs: Counts) -> Value:
        """Return the variance for a rare word, without collisions beyond the mean: noise, and others' messages."""
        n, part = int(inputs.sum()), self.device.parts[0]
        dummies = float(n * part.rows * part.noise.rho * part.noise.hit)
        return (dummies + n / part.buckets) / len(self.device.parts)


def list_words(
    domain: Texts | Keys, found: Found, values: Floats, stderr: Floats, people: int
) -> Estimate:
    """Return the words that were found, with these counts and errors, the most frequent first."""
    order = np.argsort(-values, kind="stable")
    words = domain.spell(found.codes[order])
    kept = order[np.array([word is not None for word in words], dtype=np.bool_)]
    return Estimate(
        value=values[kept],
        error=WordsError(
            stderr=stderr[kept], threshold=found.threshold, sight=LevelSight.of(found.seen)
        ),
        limits=(0.0, float(people)),
        labels=tuple(word for word in words if word is not None),
    )


def report_counts(
    domain: Texts | Keys, codes: Spelt, values: Floats, stderr: Floats, people: int
) -> Estimate:
    """Return words that were chosen before looking, with these counts and errors."""
    return Estimate(
        value=values,
        error=NormalError(stderr=stderr),
        limits=(0.0, float(people)),
        labels=tuple(word or "" for word in domain.spell(codes)),
    )


def draw_seed() -> int:
    """Return a seed of public functions that nobody could know before."""
    return int(SecureWords().words(1, SEED_BITS)[0])


def read_words_domain(
    alphabet: str | None, max_length: int | None, bits: int | None
) -> Texts | Keys:
    """Read the domain: texts over an alphabet, or integers of `bits` bits.

    >>> read_words_domain(None, None, 20)
    Keys(bits=20)
    """
    if (bits is None) == (alphabet is None):
        raise ParameterError(
            "alphabet", alphabet, "must be given with max_length, or else bits for integers"
        )
    if bits is not None:
        if max_length is not None:
            raise ParameterError("max_length", max_length, "is for texts, bits for integers")
        return Keys(bits=bits)
    if max_length is None:
        raise ParameterError("max_length", None, "must be given with an alphabet")
    assert alphabet is not None
    return Texts(alphabet=alphabet, max_length=max_length)


@shuffle(
    name="hashed_prefixes",
    task="words",
    title="hashed prefixes with dummies",
    reference="Bassily, Nissim, Stemmer, Thakurta 2017",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    alphabet: str | None = None,
    max_length: int | None = None,
    bits: int | None = None,
    max_messages: float | None = None,
    parts: Sequence[Sequence[Sequence[int]]] | None = None,
    buckets: int | None = None,
    seed: int | None = None,
    word_bits: int = 64,
) -> Parts:
    """Make a protocol for words over an alphabet up to a length, or integers of `bits` bits, with at most
    `max_messages` messages.

    `parts` and `buckets` are chosen for the budget unless given. The `seed` of the public functions comes from secure
    words unless given: whoever chooses it must not know the words, and whoever knows it must not choose them.

    >>> p = make(n=10**6, bits=64, epsilon=1.0, delta=1e-8, honest=1.0, seed=1)
    >>> round(p.cost.messages_mean, 1), p.analyzer.predict(10**6).find_count(0.95)
    (9.2, 144)
    """
    domain = read_words_domain(alphabet, max_length, bits)
    if (parts is None) != (buckets is None):
        raise ParameterError("buckets", buckets, "must be given with parts, and only then")
    if parts is None or buckets is None:
        budget = MESSAGES if max_messages is None else max_messages
        design = choose_design(domain.bits, crowd, promise, budget)
    else:
        layout = tuple(tuple((int(b), int(r)) for b, r in part) for part in parts)
        design = Design(parts=layout, buckets=whole("buckets", buckets, at_least=2))
    chosen = draw_seed() if seed is None else seed
    made = _fit_noise(crowd, promise, design, word_bits)
    device = HashedPrefixes(domain=domain, parts=made, seed=chosen)
    joint = Joint.of(made, promise)
    analyzer = WordsAnalyzer(device=device)
    return Parts(
        device,
        analyzer,
        deal=device.deal,
        stream=device,
        influence=analyzer.influence,
        predict=analyzer.predict,
        estimate_stepwise=analyzer.estimate_stepwise,
        accountant=joint if len(made) > 1 else joint.parts[0],
        resolved={
            "parts": [[list(level) for level in part] for part in design.parts],
            "buckets": design.buckets,
            "seed": chosen,
        },
    )


def _make_parts(design: Design, rho: Fraction, word_bits: int) -> tuple[HashedPart, ...]:
    made = []
    for levels in design.parts:
        cells = design.buckets * sum(rows for _, rows in levels)
        noise = DummiesHistogram.sending(rho, k=cells, word_bits=word_bits)
        made.append(HashedPart(levels=levels, buckets=design.buckets, noise=noise))
    return tuple(made)


def _fit_noise(
    crowd: Crowd, promise: Promise, design: Design, word_bits: int
) -> tuple[HashedPart, ...]:
    """Fit parts with the same number of dummies, nearly the least that keeps the promise."""
    words = 1 << whole("word_bits", word_bits, at_least=1, at_most=64)
    if len(design.parts) == 1:
        rho = dummies_level(
            n=crowd.trusted,
            pair=Fraction(2, design.buckets),
            epsilon=promise.epsilon,
            delta=promise.delta,
            bits=word_bits,
        )
        return _make_parts(design, rho, word_bits)

    def build(mu: float) -> tuple[HashedPart, ...]:
        rho = max(dyadic_above(mu * design.buckets / crowd.trusted, word_bits), Fraction(1, words))
        return _make_parts(design, rho, word_bits)

    return search_noise(crowd, promise, len(design.parts), build, lambda parts: parts)


SPEC = register(make, hints=LATE)
