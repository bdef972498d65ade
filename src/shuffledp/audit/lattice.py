"""The multisets that users may send, numbered: the ground of the exact audit.

A multiset over the messages y_0, y_1, ... is written as one number in a base that no count reaches, so
the union of two multisets is a sum. Level t holds the sorted numbers of all multisets that t users can
send together. Adding one user who sends s moves entry i of level t to entry `moves(t)[s][i]` of level
t + 1: a law on level t becomes a law on level t + 1 by as many scaled additions as there are sends.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.randomizer import Law

__all__ = ["LARGEST_LEVEL", "Lattice", "ordered"]

LARGEST_LEVEL = 2_000_000
"""Different multisets that the audit agrees to keep."""

_Array = NDArray[Any]


def ordered(items: Iterable[Hashable]) -> list[Any]:
    """The items in their own order, or, if they have none, in that of their texts.

    >>> ordered({10, 9}), ordered({"b", 1})
    ([9, 10], ['b', 1])
    """
    found: list[Any] = list(items)
    try:
        return sorted(found)
    except TypeError:
        return sorted(found, key=repr)


class Lattice:
    """The levels 0 .. n, and the different laws on the sends of one user.

    >>> half = Fraction(1, 2)
    >>> lattice = Lattice([{(0, 1): half, (1, 0): half}, {(0, 0): half, (1, 1): half}], 2)
    >>> [len(level) for level in lattice.levels]
    [1, 3, 5]
    >>> [[str(q) for q in law] for law in lattice.laws]
    [['1', '0', '0'], ['0', '1/2', '1/2']]
    """

    def __init__(self, laws: Sequence[Law], n: int) -> None:
        merged = [_multisets(law) for law in laws]
        sends = ordered({sent for law in merged for sent in law})
        rows = [tuple(law.get(sent, Fraction(0)) for sent in sends) for law in merged]
        self.n = n
        # Inputs with one law are one input: replacing one by the other changes nothing.
        self.laws = list(dict.fromkeys(rows))
        self.denominator = math.lcm(*(q.denominator for row in rows for q in row))
        self.single = all(sum(count for _, count in sent) == 1 for sent in sends)
        self.sends = _numbers(sends, n)
        self.levels = [self.sends[:1] * 0]
        if self.single:
            self._fits(n, self._most(n))
        for t in range(1, n + 1):
            below = self.levels[-1]
            self.levels.append(np.unique(np.concatenate([below + sent for sent in self.sends])))
            self._fits(t, len(self.levels[-1]))

    def _most(self, t: int) -> int:
        """Multisets of t sends; so many views, if everybody sends one message."""
        return math.comb(t + len(self.sends) - 1, t)

    def _fits(self, users: int, views: int) -> None:
        # Numbers beyond 64 bits are Python's own, and slow.
        limit = LARGEST_LEVEL if self.sends.dtype == np.int64 else LARGEST_LEVEL // 40
        if views <= limit:
            return
        raise UnsupportedError(
            f"{users} of n={self.n} users can send {float(views):.2g} different multisets of "
            f"messages, more than {limit:,}; all n up to {float(self._most(self.n)):.2g}"
        )

    def moves(self, t: int) -> list[NDArray[np.intp]]:
        """For each send, where the entries of level t go."""
        below, above = self.levels[t], self.levels[t + 1]
        return [np.searchsorted(above, below + sent) for sent in self.sends]

    @property
    def inputs(self) -> int:
        """How many different laws there are."""
        return len(self.laws)

    @property
    def data_sets(self) -> int:
        """What the other n - 1 users may hold, up to order."""
        return math.comb(self.n - 2 + self.inputs, self.inputs - 1)

    @property
    def work(self) -> int:
        """Steps of a full enumeration: data sets, times views, times what one of them takes."""
        each = len(self.sends) * self.inputs + self.inputs * (self.inputs - 1)
        return self.data_sets * len(self.levels[-1]) * each


def _multisets(law: Law) -> dict[tuple[tuple[Any, int], ...], Fraction]:
    """The law of the multiset: tuples that differ in their order are one."""
    if any(q < 0 for q in law.values()) or sum(law.values()) != 1:
        raise ParameterError("law", law, "must have probabilities that sum to exactly 1")
    merged: dict[tuple[tuple[Any, int], ...], Fraction] = {}
    for sent, q in law.items():
        counts = Counter(sent)
        key = tuple((message, counts[message]) for message in ordered(counts))
        if q:
            merged[key] = merged.get(key, Fraction(0)) + q
    return merged


def _numbers(sends: list[tuple[tuple[Any, int], ...]], n: int) -> _Array:
    symbols = ordered({message for sent in sends for message, _ in sent})
    base = n * max(sum(count for _, count in sent) for sent in sends) + 1
    digit = {message: base**place for place, message in enumerate(symbols)}
    numbers = [sum(digit[message] * count for message, count in sent) for sent in sends]
    small = base ** len(symbols) < 1 << 62
    return np.array(numbers, dtype=np.int64 if small else object)
