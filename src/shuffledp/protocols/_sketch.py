"""The device's part of the count-min sketch: public functions, the cells of a category, the dummies."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.core.domain import Categories
from shuffledp.core.errors import ParameterError
from shuffledp.core.randomizer import Law, Message, Messages
from shuffledp.core.validate import whole
from shuffledp.numerics.draws import Draws
from shuffledp.numerics.galois import POLYNOMIALS, multiply
from shuffledp.protocols.dummies_histogram import DummiesHistogram

__all__ = ["MOST_ROWS", "WIDEST", "CountMin"]

WIDEST = 1 << 26
"""Cells of a row, at most."""
MOST_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CountMin:
    """In each row t the message t width + h_t(x), and dummies: `DummiesHistogram` over the row's cells.

    `functions` are the coefficients in GF(2^r) of the rows, that of x^3 first. rho is surely + threshold / 2^word_bits.

    >>> sketch = CountMin(k=4, width=2, r=2, functions=((0, 0, 1, 0), (0, 0, 2, 3)), surely=0, threshold=1, word_bits=1)
    >>> sketch.cells(np.arange(4))
    array([[0, 0, 1, 1],
           [3, 2, 2, 3]])
    >>> sketch.pmf(0)[0, 3]
    Fraction(1, 4)
    """

    k: int
    width: int
    r: int
    functions: tuple[tuple[int, int, int, int], ...]
    surely: int
    threshold: int
    word_bits: int = 64

    def __post_init__(self) -> None:
        if self.r not in POLYNOMIALS:
            raise ParameterError("r", self.r, f"must be one of {', '.join(map(str, POLYNOMIALS))}")
        whole("k", self.k, at_least=2, at_most=1 << self.r)
        whole("width", self.width, at_least=2, at_most=min(WIDEST, 1 << self.r))
        if self.width.bit_count() != 1:
            raise ParameterError("width", self.width, "must be a power of two")
        functions = tuple((a, b, c, d) for a, b, c, d in self.functions)
        whole("rows", len(functions), at_least=1, at_most=MOST_ROWS)
        for coefficient in sum(functions, ()):
            whole("functions", coefficient, at_least=0, at_most=(1 << self.r) - 1)
        object.__setattr__(self, "functions", functions)
        assert self.row.k == self.width  # checks the noise

    @property
    def domain(self) -> Categories:
        return Categories(k=self.k)

    @property
    def epsilon0(self) -> float:
        return math.inf

    @property
    def rows(self) -> int:
        return len(self.functions)

    @property
    def row(self) -> DummiesHistogram:
        """What happens in one row, given the cell."""
        return DummiesHistogram(
            k=self.width, surely=self.surely, threshold=self.threshold, word_bits=self.word_bits
        )

    @property
    def words_per_input(self) -> int:
        return self.rows * self.row.words_per_input

    def cells(self, codes: Codes) -> Counts:
        """[rows, len(codes)]: the message of each category in each row."""
        dtype = np.min_scalar_type((1 << self.r) - 1)
        shift = dtype.type(self.r - (self.width.bit_length() - 1))
        found = np.empty((self.rows, len(codes)), dtype=np.int64)
        for t, (leading, *rest) in enumerate(self.functions):
            value = np.full(len(codes), leading, dtype=dtype)
            for coefficient in rest:
                value = multiply(value, codes, self.k, self.r) ^ dtype.type(coefficient)
            found[t] = (value >> shift).astype(np.int64) + t * self.width
        return found

    def encode(self, inputs: Codes, words: Words) -> Messages:
        row, each = self.row, self.row.words_per_input
        cells = self.cells(inputs)
        payload, owner = [], []
        for t in range(self.rows):
            start = t * self.width
            sent = row.encode(cells[t] - start, words[:, t * each : (t + 1) * each])
            payload.append(sent.payload + start)
            owner.append(np.asarray(sent.owner))
        return Messages(
            payload=np.concatenate(payload), owner=np.concatenate(owner), users=len(inputs)
        )

    def pmf(self, x: int) -> Law:
        cells = self.cells(np.array([x]))[:, 0].tolist()
        laws = [self.row.pmf(cell - t * self.width) for t, cell in enumerate(cells)]
        law: Law = {}
        for rows in product(*(one.items() for one in laws)):
            sent: list[Message] = []
            for t, (messages, _) in enumerate(rows):
                sent += [int(s) + t * self.width for s in messages if isinstance(s, int)]
            law[tuple(sent)] = math.prod((mass for _, mass in rows), start=Fraction(1))
        return law

    def simulate(self, inputs: Counts, draws: Draws) -> Tally:
        """Row by row: the users' cells, and all dummies as one multinomial number."""
        n, row = int(inputs.sum()), self.row
        held = np.flatnonzero(inputs)
        cells, counts = self.cells(held), []
        for t in range(self.rows):
            own = np.zeros(self.width, dtype=np.int64)
            np.add.at(own, cells[t] - t * self.width, inputs[held])
            counts.append(row.simulate(own, draws).counts)
        return Tally(counts=np.concatenate(counts), users=n)
