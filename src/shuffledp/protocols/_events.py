"""Rare noise in many cells at once, in time proportional to what is drawn."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.core.arrays import Codes, Counts, Words
from shuffledp.numerics import tape
from shuffledp.numerics.draws import Draws
from shuffledp.numerics.tabulated import Tabulated, log_of, logarithmic, poisson
from shuffledp.protocols._correlated import NOTHING, VectorLaw, summed

__all__ = ["Events"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """A Poisson number of events; each falls on one of `cells` cells and has a logarithmic size.

    So every cell gets NB(share, p), independently.

    >>> events = Events.of(cells=6, share=Fraction(1, 1000), p=0.5, bits=64, most=None)
    >>> round(float(events.share * 1000), 12), events.words
    (1.0, 16)
    """

    cells: int
    p: float
    number: Tabulated
    size: Tabulated

    @classmethod
    def of(cls, *, cells: int, share: Fraction, p: float, bits: int, most: int | None) -> "Events":
        """The number of events is cut after `most`, or where its mass is nothing to a word."""
        exact = Fraction(p)
        rate = -share * Fraction(log_of(1 - exact)) / _landing(cells, bits)
        number = poisson(rate, bits) if most is None else poisson(rate, bits, most)
        return cls(cells=cells, p=p, number=number, size=logarithmic(exact, bits))

    @property
    def words(self) -> int:
        """How many words a user takes: the number of events, then position and size of each."""
        return self.number.words + 2 * self.number.largest

    @property
    def landing(self) -> Fraction:
        """The probability that an event falls on a given cell."""
        return _landing(self.cells, self.number.bits)

    @property
    def share(self) -> Fraction:
        """The s of NB(s, p) in one cell."""
        return -self.number.size * self.landing / Fraction(log_of(1 - Fraction(self.p)))

    def per_cell(self, power: int) -> Fraction:
        """The expected number of events in a cell, each counted as its size^power."""
        return self.number.moment(1) * self.landing * self.size.moment(power)

    def distance(self, users: int, cells: int) -> float:
        """At least the distance of what falls on so many cells from independent NB(users share, p).

        The number of events is off once for each user, the size once for each event that is seen.
        """
        seen = users * cells * float(self.number.size * self.landing)
        return (users * self.number.distance + seen * self.size.distance) * (1 + 1e-12)

    def draw(self, words: Words) -> tuple[Codes, Codes]:
        """(user, cell), each as often as the sizes of the events say."""
        bits, start = self.number.bits, self.number.words
        who, number = self.number.draw(words[:, :start])
        user = np.repeat(who, number)
        rank = np.arange(len(user)) - np.repeat(np.cumsum(number) - number, number)
        column = start + 2 * rank
        cell = tape.uniform(words[user, column], self.cells, bits)
        lands = np.flatnonzero(cell < cell.dtype.type(self.cells))
        size = self.size.values(words[user[lands], column[lands] + 1])
        return np.repeat(user[lands], size), np.repeat(cell[lands].astype(np.int64), size)

    def law(self) -> VectorLaw:
        """The exact law of the number of times each cell is drawn."""
        cells = tape.uniform_law(self.cells, self.number.bits)
        zero = (0,) * self.cells
        one: VectorLaw = {zero: cells.get(None, NOTHING)}
        for size, mass in self.size.law().items():
            for cell in range(self.cells):
                drawn = tuple(size * (j == cell) for j in range(self.cells))
                one[drawn] = mass * self.landing
        law: VectorLaw = {}
        events: VectorLaw = {zero: Fraction(1)}
        masses = self.number.law()
        for number in range(self.number.largest + 1):
            for drawn, mass in events.items():
                law[drawn] = law.get(drawn, NOTHING) + mass * masses.get(number, NOTHING)
            events = summed(events, one)
        return law

    def simulate(self, n: int, draws: Draws) -> Counts:
        """How often each cell is drawn by n users together."""
        number = self.number.simulate(n, draws)
        events = draws.binomial(
            int(number @ np.arange(len(number))), float(self.cells * self.landing)
        )
        counts = np.zeros(self.cells, dtype=np.int64)
        for size, times in enumerate(self.size.simulate(events, draws).tolist()):
            if times:
                counts += size * draws.multinomial(times, np.full(self.cells, 1 / self.cells))
        return counts


def _landing(cells: int, bits: int) -> Fraction:
    return Fraction((1 << bits) // cells, 1 << bits)
