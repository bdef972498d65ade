r"""What a device sends: in each part one cell of its word in a random row, and uniform dummies.

A part has R = 2^j rows of `buckets` cells. The device draws a row r, and sends the cell (r, h_r(x)) of its word x in it;
then D dummies, each uniform on all R * buckets cells, D = floor(rho) or one more with probability frac(rho).

**Privacy.** It holds for *every fixed* functions h_r, whatever the other people's words are. Let D_all be the number of
dummies of the honest people, and compare with D_all + 1 messages that are uniform on all cells: the likelihood of a view
under the word x is buckets * N(S_x) / (D_all + 1) times as large, where N(S_x) counts the messages in
S_x = {(r, h_r(x)) : r}. So

    delta(epsilon) = E (buckets / (D_all + 1)) (N(S_x) - e^epsilon N(S_y))_+ ,

and N(S_x) - e^epsilon N(S_y) is a sum over independent messages of 1 in S_x alone, -e^epsilon in S_y alone, 1 - e^epsilon in both, and 0
elsewhere. If the sets are disjoint, that is the computation of two bins of a histogram with the same number of dummies and
`buckets` bins. If x and y share cells, masses at {1, -e^epsilon} are replaced by masses at {1 - e^epsilon, 0}, with the same mean
and in between: the expectation of a convex function of the sum becomes smaller. How many dummies there are is seen, and
does not depend on the word, so this holds for every D_all and then in the mean. Parts have dummies of their own: their
losses are independent and add up (`joint.Joint`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from shuffledp.accounting.moved_message import dummies
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Profile
from shuffledp.core.protocol import Cost
from shuffledp.core.randomizer import Law, Messages, WordSource, join_laws
from shuffledp.core.texts import Keys, Texts
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.dealing import binomial, deal, deal_uniform
from shuffledp.numerics.entropy import SeededWords
from shuffledp.protocols.dummies_histogram import DummiesHistogram
from shuffledp.protocols.hashed_prefixes.functions import Functions, draw_functions

SEED_BITS = 53
"""Of the seed of the functions: JSON numbers that every client reads as they are."""

_MOST_ROWS = 256
_WIDEST = 1 << 20
_AT_ONCE = 1 << 14  # words whose people are dealt to rows together
_DRAWN = 1 << 20  # dummies that are drawn one by one together
_DENSE = 32  # dummies per cell from which on they are dealt rather than drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedPart:
    """One part: how many rows read how many bits, and the dummies over all their cells."""

    levels: tuple[tuple[int, int], ...]
    """Pairs (bits, rows), in the order of the rows."""
    buckets: int
    noise: DummiesHistogram
    proof: ClassVar[str] = "how the dummies split between the cells of two words"

    def __post_init__(self) -> None:
        levels = tuple((int(bits), int(rows)) for bits, rows in self.levels)
        object.__setattr__(self, "levels", levels)
        if any(bits < 1 or rows < 1 for bits, rows in levels):
            raise ParameterError("parts", self.levels, "must be pairs of bits and rows, each >= 1")
        whole("rows", self.rows, at_least=1, at_most=_MOST_ROWS)
        if self.rows.bit_count() != 1:
            raise ParameterError("rows", self.rows, "of a part must be a power of two")
        whole("buckets", self.buckets, at_least=2, at_most=_WIDEST)
        if self.buckets.bit_count() != 1:
            raise ParameterError("buckets", self.buckets, "must be a power of two")
        if self.noise.k != self.cells:
            raise ParameterError("noise", self.noise.k, f"must be over {self.cells} cells")

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.levels)

    @property
    def cells(self) -> int:
        """The cells of all rows."""
        return self.rows * self.buckets

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many bits each row looks at."""
        return tuple(bits for bits, rows in self.levels for _ in range(rows))

    def delta(self, honest: int, epsilon: float) -> float:
        """As of two bins of a histogram: a dummy is in the cells of one word with probability rows * hit."""
        return self.open_curve(honest)[0].delta(epsilon)

    def open_curve(self, honest: int) -> tuple[Profile, float]:
        """Return the same for parts of equally many buckets and dummies, however many rows they have."""
        pair = 2 * self.rows * self.noise.hit
        return dummies(n=honest, rho=self.noise.rho, pair=pair), 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedPrefixes:
    """A message is the number of a cell, those of all parts and rows one after the other.

    >>> noise = DummiesHistogram(k=4, surely=1, threshold=0, word_bits=2)
    >>> part = HashedPart(levels=((1, 1), (2, 1)), buckets=2, noise=noise)
    >>> device = HashedPrefixes(domain=Keys(bits=2), parts=(part,), seed=1)
    >>> device.functions.find_cells(np.arange(4))
    array([[0, 0, 0, 0],
           [0, 0, 1, 1]])
    >>> device.pmf(3)[3, 0]
    Fraction(1, 8)
    """

    domain: Texts | Keys
    parts: tuple[HashedPart, ...]
    seed: int
    """Of the public functions."""
    epsilon0: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        whole("seed", self.seed, at_least=0, at_most=(1 << SEED_BITS) - 1)
        if not self.parts or len({part.buckets for part in self.parts}) != 1:
            raise ParameterError("parts", self.parts, "must be at least one, of the same buckets")
        if len({part.noise.word_bits for part in self.parts}) != 1:
            raise ParameterError("parts", self.parts, "must have words of the same bits")
        if max(self.lengths) != self.domain.bits:
            raise ParameterError("parts", self.parts, f"must end with all {self.domain.bits} bits")

    @property
    def word_bits(self) -> int:
        return self.parts[0].noise.word_bits

    @property
    def buckets(self) -> int:
        """Cells of a row."""
        return self.parts[0].buckets

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many bits the rows of all parts look at."""
        return tuple(bits for part in self.parts for bits in part.lengths)

    @property
    def cells(self) -> int:
        """The cells of all rows of all parts."""
        return sum(part.cells for part in self.parts)

    @property
    def functions(self) -> Functions:
        """The public functions that follow from the seed."""
        return _functions(self.domain.bits, self.buckets, self.lengths, self.seed)

    @property
    def words_per_input(self) -> int:
        """In each part one for the row, and those of the dummies."""
        return sum(1 + part.noise.words_per_input for part in self.parts)

    @property
    def cost(self) -> Cost:
        noise = [part.noise.cost for part in self.parts]
        return Cost.add(noise, (self.cells - 1).bit_length())

    def place_parts(self) -> Iterator[tuple[HashedPart, int, int]]:
        """Return each part with its first row and its first cell."""
        row = cell = 0
        for part in self.parts:
            yield part, row, cell
            row, cell = row + part.rows, cell + part.cells

    @property
    def _first_cells(self) -> list[int]:
        return [cell for _, _, cell in self.place_parts()]

    def encode(self, inputs: Codes, words: Words) -> Messages:
        sent, column = [], 0
        for part, first_row, _ in self.place_parts():
            rows = tape.uniform(words[:, column], part.rows, self.word_bits).astype(np.int64)
            cells = self.functions.find_own_cells(inputs, rows + first_row) + rows * part.buckets
            width = 1 + part.noise.words_per_input
            sent.append(part.noise.encode(cells, words[:, column + 1 : column + width]))
            column += width
        return Messages.join(sent, self._first_cells)

    def pmf(self, x: int) -> Law:
        found = self.functions.find_cells(np.array([x], dtype=np.uint64))[:, 0].tolist()
        laws = []
        for part, first_row, _ in self.place_parts():
            law: Law = {}
            for row in range(part.rows):
                cell = row * part.buckets + found[first_row + row]
                for sent, mass in part.noise.pmf(cell).items():
                    law[sent] = law.get(sent, Fraction(0)) + mass / part.rows
            laws.append(law)
        return join_laws(laws, self._first_cells)

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Return the tally of inputs[x] people of each code x."""
        held = np.flatnonzero(inputs)
        counts = self.deal_words(held, inputs[held], source)
        n = int(inputs.sum())
        return Tally(counts=counts + self.deal_noise(n, source), users=n)

    def deal_words(self, codes: Codes, times: Counts, source: WordSource) -> Counts:
        """Return what the words of times[i] people with each of these codes add to the cells, without the dummies."""
        counts = np.zeros(self.cells, dtype=np.int64)
        for start in range(0, len(codes), _AT_ONCE):
            some, people = codes[start : start + _AT_ONCE], times[start : start + _AT_ONCE]
            cells = self.functions.find_cells(some)
            for part, first_row, first_cell in self.place_parts():
                rows = np.arange(part.rows)[:, None]
                own = cells[first_row : first_row + part.rows] + first_cell + rows * part.buckets
                np.add.at(counts, own.T, _deal_rows(people, part.rows, source))
        return counts

    def deal_noise(self, n: int, source: WordSource) -> Counts:
        """Return what the dummies of n people add to the cells."""
        return np.concatenate([_deal_dummies(part.noise, n, source) for part in self.parts])


def _deal_rows(people: Counts, rows: int, source: WordSource) -> Counts:
    """[len(people), rows]: how many of the people of each word draw each row."""
    if rows == 1:
        return people[:, None]
    bits = rows.bit_length() - 1
    return deal(people, [[1] * rows], bits, source).own


def _deal_dummies(noise: DummiesHistogram, n: int, source: WordSource) -> Counts:
    tried = n * noise.surely + binomial(n, noise.threshold, noise.word_bits, source)
    if tried > _DENSE * noise.k:
        return deal_uniform(tried, noise.k, noise.word_bits, source)[0]
    counts = np.zeros(noise.k, dtype=np.int64)
    bits = noise.k.bit_length() - 1  # the cells are a power of two: no word is rejected
    for start in range(0, tried, _DRAWN):
        drawn = source.words(min(_DRAWN, tried - start), bits)
        counts += np.bincount(drawn.astype(np.int64), minlength=noise.k)
    return counts


@lru_cache(maxsize=8)
def _functions(bits: int, buckets: int, lengths: tuple[int, ...], seed: int) -> Functions:
    return draw_functions(bits=bits, buckets=buckets, lengths=lengths, source=SeededWords(seed))
