r"""What a device sends: in each part one cell of its word in a random row, and uniform dummies.

A part has R = 2^j rows of `buckets` cells. The device draws a row r, and sends the cell (r, h_r(x)) of its word x in it;
then D dummies, each uniform on all R * buckets cells, D = floor(rho) or one more with probability frac(rho).

**Privacy.** It holds for *every fixed* functions h_r, whatever the other people's words are. Let D_all be the number of
dummies of the honest people, and compare with D_all + 1 messages that are uniform on all cells: the likelihood of a view
under the word x is buckets * N(S_x) / (D_all + 1) times as large, where N(S_x) counts the messages in
S_x = {(r, h_r(x)) : r}. So

    delta(epsilon) = E (buckets / (D_all + 1)) (N(S_x) - e^epsilon N(S_y))_+ ,

and N(S_x) - e^epsilon N(S_y) is a sum over independent messages of 1 in S_x alone, -e^epsilon in S_y alone, 1 -
e^epsilon in both, and 0 elsewhere. If the sets are disjoint, that is the computation of two bins of a histogram with
the same number of dummies and `buckets` bins. If x and y share cells, masses at {1, -e^epsilon} are replaced by masses
at {1 - e^epsilon, 0}, with the same mean and in between: the expectation of a convex function of the sum becomes
smaller. How many dummies there are is seen, and does not depend on the word, so this holds for every D_all and then on
average. Parts have dummies of their own: their losses are independent and add up (`joint.Joint`).

**The public functions** say which cell of a row a word belongs to. Words are vectors of `bits` bits. First a uniformly
random invertible matrix A over GF(2) stirs them, y = A x: words that begin alike no longer do, so the first bits of y
say as much about a word as any others. Row r then looks at the first `lengths[r]` bits of y, and its cell is M_r y, M_r
a uniformly random matrix with log2(buckets) rows.

*Their law.* Over the words of the source, all A that are invertible are equally likely (a singular one is drawn again),
and the entries of all M_r are independent fair bits. So two words that differ within the first bits of y share a cell of
the row with probability exactly 1 / buckets, two words that do not share it always, and any two others meet a
third one independently. `count` people of one word are in one cell of each row: all sums over words below are exact.

Everything is linear: the cell of a prefix and a few more bits is the cell of the prefix XOR the cell of those bits. That
is how all words with one prefix are looked up together.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.accounting.moved_message import dummies
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Profile
from shuffledp.core.protocol import Cost
from shuffledp.core.randomizer import Law, Messages, WordSource, join_laws
from shuffledp.core.texts import Keys, Spelt, Texts
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.dealing import binomial, deal, deal_uniform
from shuffledp.numerics.entropy import SeededWords
from shuffledp.protocols.dummies_histogram import DummiesHistogram

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
        """Return y = A x of each word x."""
        return apply_columns(self.stir, codes)

    def unstir(self, stirred: Codes) -> Spelt:
        """Return the word of each y."""
        return apply_columns(self.back, stirred)

    def find_cells(self, codes: Codes) -> NDArray[np.int64]:
        """Return [rows, len(codes)]: the cell of each word in each row."""
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
    """Draw functions with the law above, from uniform words.

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


SEED_BITS = 53
"""The bits of the seed of the functions: every client reads such JSON numbers exactly."""

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
        """Bound delta as for two histogram bins: a dummy is in the cells of one word with probability rows * hit."""
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
    """The seed of the public functions."""
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
        cells = self.functions.find_cells(np.array([x], dtype=np.uint64))[:, 0].tolist()
        laws = []
        for part, first_row, _ in self.place_parts():
            law: Law = {}
            for row in range(part.rows):
                cell = row * part.buckets + cells[first_row + row]
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
    """Return [len(people), rows]: how many of the people of each word draw each row."""
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
