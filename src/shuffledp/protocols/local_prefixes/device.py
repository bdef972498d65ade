r"""What a device sends: one cell of its word in one random row, by randomized response.

Rows are numbered by elements r = 0 .. R-1 of GF(2^16). A row belongs to a level, and looks at the first `length` bits
of the stirred word y = A x; A is a public invertible matrix over GF(2). Its cell is the first log2(buckets) bits of

    a_0(y) + a_1(y) r + a_2(y) r^2 + a_3(y) r^3,

where the a_j are linear maps from the bits it looks at to GF(2^16), with independent uniform columns.

**The law of the functions.** In every row the map from words to cells is uniformly random among the linear ones: two
words that differ where it looks meet with probability exactly 1 / buckets, and any two others meet a third one
independently. In any four rows the maps are independent, since four coefficients make four values. All of them take
a few hundred numbers, so that they fit into the document of a live collection, and a device evaluates one polynomial.

**Privacy.** The row does not depend on the word, and the cell is sent by k-ary randomized response. So every message is
epsilon0-private by itself, for any functions, whoever chose them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shuffledp.accounting.blanket import Blanket
from shuffledp.core.arrays import Codes, Words
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import Law, Messages
from shuffledp.core.texts import Keys, Texts
from shuffledp.core.validate import whole
from shuffledp.numerics import tape
from shuffledp.numerics.entropy import SeededWords
from shuffledp.numerics.galois import multiply
from shuffledp.protocols.assembly import OneNumber
from shuffledp.protocols.hashed_prefixes.device import SEED_BITS
from shuffledp.protocols.hashed_prefixes.functions import Functions, apply_columns, draw_functions
from shuffledp.protocols.krr import KRR

__all__ = ["MOST_CELLS", "LocalPrefixes", "Polynomials"]

FIELD = 16
"""Bits of an element of the field."""
COEFFICIENTS = 4
WIDEST = 24
"""Bits that a level may add: all continuations of a prefix are looked at together."""
MOST_CELLS = 1 << 20
"""Rows times buckets: what a tally holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Polynomials:
    """Which cell of a row a stirred word is in.

    >>> some = Polynomials(bits=2, buckets=2, coefficients=((1, 3), (2, 1)), field=2)
    >>> [some.find_cells(np.arange(4), np.full(4, row)).tolist() for row in range(4)]
    [[0, 0, 1, 1], [0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0]]
    """

    bits: int
    """Of a word."""
    buckets: int
    coefficients: tuple[tuple[int, ...], ...]
    """The columns of a_0, a_1, ...: bit i of a word, from the lowest, adds element i."""
    field: int = FIELD

    @property
    def width(self) -> int:
        """Bits of a cell."""
        return self.buckets.bit_length() - 1

    def find_cells(self, stirred: Codes, rows: Codes) -> NDArray[np.int64]:
        """The cell of each word in the row beside it."""
        values = [
            apply_columns(columns, stirred).astype(np.uint32) for columns in self.coefficients
        ]
        return self._evaluate(values, rows)

    def tabulate(self, length: int, rows: range) -> NDArray[np.int64]:
        """[length, len(rows)]: what each of the first bits adds to the cell, the lowest of them first."""
        at = np.arange(rows.start, rows.stop)
        found = []
        for place in range(self.bits - length, self.bits):
            values = [np.full(len(at), each[place], dtype=np.uint32) for each in self.coefficients]
            found.append(self._evaluate(values, at))
        return np.array(found, dtype=np.int64).reshape(length, len(at))

    def _evaluate(self, values: Sequence[Words], rows: Codes) -> NDArray[np.int64]:
        """The first bits of the polynomial with these coefficients at each row, by Horner's rule."""
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
    """Of the public functions."""
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
        """The cell of each word in the row beside it, which looks at the first bits alone."""
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
        """What all words' laws have in common, for the accountant of the shuffled view.

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
    """The matrix that stirs, and the columns of the coefficients."""
    source = SeededWords(seed)
    stir = draw_functions(bits=bits, buckets=2, lengths=(), source=source).stir
    columns = (tuple(source.words(bits, FIELD).tolist()) for _ in range(COEFFICIENTS))
    return stir, tuple(columns)


@lru_cache(maxsize=8)
def _make_functions(bits: int, stir: tuple[int, ...]) -> Functions:
    return Functions(bits=bits, buckets=2, stir=stir, lengths=(), rows=())
