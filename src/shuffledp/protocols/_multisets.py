"""One user's share of a flood of multisets, in time proportional to what is drawn."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.accounting.flooding import STEEPNESS, Flooding
from shuffledp.core.arrays import Codes, Words
from shuffledp.numerics import tape
from shuffledp.numerics.geometric import Geometric
from shuffledp.numerics.tabulated import Tabulated, poisson

__all__ = ["MessageLaw", "MultisetFlood"]

MessageLaw = dict[tuple[int, ...], Fraction]
"""Probability of each sorted tuple of messages."""

_NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultisetFlood:
    """A Poisson number of events; each is a uniform multiset, sent a geometric number of times.

    So the number of each multiset is a Poisson number of geometric numbers, independently. An event
    that is rejected (the number of multisets is no power of two) sends nothing: that thins a Poisson
    number, whose mean is made larger in exchange.

    >>> flood = MultisetFlood.of(
    ...     Flooding(levels=10, budget=0.1), share=Fraction(50, 10**6), bits=64, most=None
    ... )
    >>> len(flood.cells), round(float(flood.share) * 10**6, 6)
    (15, 50.0)
    """

    flooding: Flooding
    number: Tabulated
    """How many events a user makes."""

    @classmethod
    def of(
        cls, flooding: Flooding, *, share: Fraction, bits: int, most: int | None
    ) -> "MultisetFlood":
        """The mean number of events of each multiset is `share`; all are cut after `most`."""
        rate = share / _landing(len(flooding.cells), bits)
        number = poisson(rate, bits) if most is None else poisson(rate, bits, most)
        return cls(flooding=flooding, number=number)

    @property
    def cells(self) -> tuple[tuple[int, ...], ...]:
        """The multisets, s_1 twice."""
        return tuple(cell.parts for cell in self.flooding.cells)

    @property
    def sizes(self) -> tuple[Geometric, ...]:
        """The law of an event's size, for each multiset."""
        return tuple(
            Geometric(rate=STEEPNESS * cell.rate, bits=self.number.bits)
            for cell in self.flooding.cells
        )

    @property
    def words(self) -> int:
        """How many words a user takes: the number of events, then multiset and size of each."""
        return self.number.words + 3 * self.number.largest

    @property
    def landing(self) -> Fraction:
        """The probability that an event is of a given multiset."""
        return _landing(len(self.flooding.cells), self.number.bits)

    @property
    def share(self) -> Fraction:
        """One user's mean number of events of a given multiset."""
        return self.number.size * self.landing

    @property
    def mean(self) -> float:
        """The expected number of messages of one user."""
        each = (
            len(parts) / -math.expm1(-size.rate)
            for parts, size in zip(self.cells, self.sizes, strict=True)
        )
        return float(self.share) * sum(each)

    @property
    def most(self) -> int:
        """The largest number of messages of one user."""
        longest = max(
            len(parts) * size.largest for parts, size in zip(self.cells, self.sizes, strict=True)
        )
        return self.number.largest * longest

    def distance(self, users: int) -> float:
        """At least that of what so many users draw from the ideal law."""
        sizes = users * float(self.share) * sum(size.distance for size in self.sizes)
        return (users * self.number.distance + sizes) * (1 + 1e-12)

    def draw(self, words: Words) -> tuple[Codes, Codes]:
        """(user, message)."""
        start, count, bits = self.number.words, len(self.cells), self.number.bits
        who, number = self.number.draw(words[:, :start])
        user = np.repeat(who, number)
        rank = np.arange(len(user)) - np.repeat(np.cumsum(number) - number, number)
        column = start + 3 * rank
        drawn = tape.uniform(words[user, column], count, bits)
        lands = np.flatnonzero(drawn < drawn.dtype.type(count))
        user, column, cell = user[lands], column[lands], drawn[lands].astype(np.int64)
        size = self._sizes(cell, words[user[:, None], column[:, None] + np.array([[1, 2]])])
        # s_1 has two elements only: what is missing is 0, and not sent.
        parts = np.array([(*parts, 0)[:3] for parts in self.cells], dtype=np.int64)
        messages = np.repeat(parts[cell], size, axis=0).reshape(-1)
        sent = messages != 0
        return np.repeat(np.repeat(user, size), 3)[sent], messages[sent]

    def _sizes(self, cell: Codes, words: Words) -> Codes:
        size = np.zeros(len(cell), dtype=np.int64)
        laws = self.sizes
        for c in np.unique(cell).tolist():
            here = np.flatnonzero(cell == c)
            size[here] = laws[c].draw(words[here])
        return size

    def law(self) -> MessageLaw:
        """The exact law of the messages, for words of a few bits."""
        one: MessageLaw = {(): 1 - len(self.cells) * self.landing}
        for parts, sizes in zip(self.cells, self.sizes, strict=True):
            for size, mass in sizes.law().items():
                drawn = tuple(sorted(parts * size))
                one[drawn] = one.get(drawn, _NOTHING) + mass * self.landing
        law: MessageLaw = {}
        events: MessageLaw = {(): Fraction(1)}
        masses = self.number.law()
        for number in range(self.number.largest + 1):
            for sent, mass in events.items():
                law[sent] = law.get(sent, _NOTHING) + mass * masses.get(number, _NOTHING)
            events = _joined(events, one)
        return law


def _landing(cells: int, bits: int) -> Fraction:
    return Fraction((1 << bits) // cells, 1 << bits)


def _joined(a: MessageLaw, b: MessageLaw) -> MessageLaw:
    law: MessageLaw = {}
    for x, left in a.items():
        for y, right in b.items():
            key = tuple(sorted(x + y))
            law[key] = law.get(key, _NOTHING) + left * right
    return law
