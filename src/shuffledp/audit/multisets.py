"""The multisets that users may send, numbered, and the exact audit in integers on top of them.

A multiset over the messages y_0, y_1, ... is written as one number in a base that no count reaches, so
the union of two multisets is a sum. Level t holds the sorted numbers of all multisets that t users can
send together. Adding one user who sends s moves entry i of level t to entry `moves(t)[s][i]` of level
t + 1: a law on level t becomes a law on level t + 1 by as many scaled additions as there are sends.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.randomizer import Law

LARGEST_LEVEL = 2_000_000
"""Different multisets that the audit agrees to keep."""

LARGEST_WORK = 60_000_000
"""Elementary steps on integers that the audit agrees to take: about a minute."""

_Vector = NDArray[Any]
"""Python integers: numbers of multisets, or a law on a level of the lattice, times denominator^level."""


def sort_items(items: Iterable[Hashable]) -> list[Any]:
    """Return the items in their own order, or, if they have none, in that of their texts.

    >>> sort_items({10, 9}), sort_items({"b", 1})
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
        merged = [_merge_orders(law) for law in laws]
        sends = sort_items({sent for law in merged for sent in law})
        rows = [tuple(law.get(sent, Fraction(0)) for sent in sends) for law in merged]
        self.n = n
        # Inputs with one law are one input: replacing one by the other changes nothing.
        self.laws = _find_ends(list(dict.fromkeys(rows)))
        self.denominator = math.lcm(*(q.denominator for row in rows for q in row))
        self.single = all(sum(count for _, count in sent) == 1 for sent in sends)
        self.sends = _number_sends(sends, n)
        self.levels = [self.sends[:1] * 0]
        if self.single:
            self._check_size(n, self._count_multisets(n))
        for t in range(1, n + 1):
            below = self.levels[-1]
            self.levels.append(np.unique(np.concatenate([below + sent for sent in self.sends])))
            self._check_size(t, len(self.levels[-1]))

    def _count_multisets(self, t: int) -> int:
        """Return how many multisets of t sends there are: the views, if everybody sends one message."""
        return math.comb(t + len(self.sends) - 1, t)

    def _check_size(self, users: int, views: int) -> None:
        # Numbers beyond 64 bits are Python's own, and slow.
        limit = LARGEST_LEVEL if self.sends.dtype == np.int64 else LARGEST_LEVEL // 40
        if views <= limit:
            return
        raise UnsupportedError(
            f"{users} of n={self.n} users can send {float(views):.2g} different multisets of "
            f"messages, more than {limit:,}; all n up to {float(self._count_multisets(self.n)):.2g}"
        )

    def moves(self, t: int) -> list[NDArray[np.intp]]:
        """For each set of messages, where the entries of level t go."""
        below, above = self.levels[t], self.levels[t + 1]
        return [np.searchsorted(above, below + sent) for sent in self.sends]

    @property
    def inputs(self) -> int:
        """How many different laws there are."""
        return len(self.laws)

    @property
    def data_sets(self) -> int:
        """The possible data of the other n - 1 users, up to order."""
        return math.comb(self.n - 2 + self.inputs, self.inputs - 1)

    @property
    def work(self) -> int:
        """Steps of a full enumeration: data sets, times views, times what one of them takes."""
        each = len(self.sends) * self.inputs + self.inputs * (self.inputs - 1)
        return self.data_sets * len(self.levels[-1]) * each


def _find_ends(laws: list[tuple[Fraction, ...]]) -> list[tuple[Fraction, ...]]:
    """Return the two outermost laws, if all of them lie on one line; otherwise all.

    A law between two others is a mixture of them. Divergences are convex in the law of each user (and
    likelihood ratios quasi-convex), so the worst case is at the ends.
    """
    if len(laws) < 3:
        return laws
    origin = laws[0]
    away = [tuple(q - o for q, o in zip(law, origin, strict=True)) for law in laws]
    direction = away[1]
    place = next(i for i, step in enumerate(direction) if step)
    along = [law[place] / direction[place] for law in away]
    if any(
        tuple(t * step for step in direction) != law for t, law in zip(along, away, strict=True)
    ):
        return laws
    return [laws[along.index(end)] for end in (min(along), max(along))]


def _merge_orders(law: Law) -> dict[tuple[tuple[Any, int], ...], Fraction]:
    """Return the law of the multiset: tuples that differ in their order are one."""
    if any(q < 0 for q in law.values()) or sum(law.values()) != 1:
        raise ParameterError("law", law, "must have probabilities that sum to exactly 1")
    merged: dict[tuple[tuple[Any, int], ...], Fraction] = {}
    for sent, q in law.items():
        counts = Counter(sent)
        key = tuple((message, counts[message]) for message in sort_items(counts))
        if q:
            merged[key] = merged.get(key, Fraction(0)) + q
    return merged


def _number_sends(sends: list[tuple[tuple[Any, int], ...]], n: int) -> _Vector:
    symbols = sort_items({message for sent in sends for message, _ in sent})
    base = n * max(sum(count for _, count in sent) for sent in sends) + 1
    digit = {message: base**place for place, message in enumerate(symbols)}
    numbers = [sum(digit[message] * count for message, count in sent) for sent in sends]
    small = base ** len(symbols) < 1 << 62
    return np.array(numbers, dtype=np.int64 if small else object)


class ExactViews:
    """All views of n users, as integer weights over denominator^n.

    >>> keep, lie = Fraction(3, 4), Fraction(1, 4)
    >>> views = ExactViews([{(0,): keep, (1,): lie}, {(0,): lie, (1,): keep}], 2)
    >>> views.delta(Fraction(2)), views.ratio()
    (Fraction(3, 16), Fraction(3, 1))
    """

    def __init__(self, laws: Sequence[Law], n: int) -> None:
        self.lattice = Lattice(laws, n)
        d = self.lattice.denominator
        self._weights = [[int(q * d) for q in law] for law in self.lattice.laws]
        self._moves = lru_cache(maxsize=None)(self.lattice.moves)

    @property
    def cost(self) -> float:
        """Elementary steps, estimated; long integers count for more."""
        lattice = self.lattice
        # Data sets share their first users: those of every number of users are met once.
        met = sum(
            math.comb(t + lattice.inputs - 1, t) * len(lattice.levels[t]) for t in range(lattice.n)
        )
        last = lattice.data_sets * len(lattice.levels[-1]) * lattice.inputs**2
        bits = lattice.n * lattice.denominator.bit_length()
        return (met * len(lattice.sends) + last) * (1 + bits / 1000)

    def delta(self, ratio: Fraction) -> Fraction:
        """Return the largest divergence at e^epsilon = ratio, over all neighbouring data sets."""
        return self.deltas([ratio])[0]

    def deltas(self, ratios: Sequence[Fraction]) -> list[Fraction]:
        """`delta` for several ratios, in one pass over the data sets."""
        self._check_cost()
        worst = [0] * len(ratios)
        for a, b in self._compare_pairs():
            for i, ratio in enumerate(ratios):
                worst[i] = max(worst[i], _measure_gain(ratio.denominator * a, ratio.numerator * b))
        whole = self.lattice.denominator**self.lattice.n
        return [
            Fraction(gain, ratio.denominator * whole)
            for gain, ratio in zip(worst, ratios, strict=True)
        ]

    def ratio(self) -> Fraction | float:
        """Return the largest likelihood ratio of a view; infinite if a view gives an input away."""
        self._check_cost()
        worst: Fraction | float = Fraction(1)
        for a, b in self._compare_pairs():
            worst = max(worst, _find_largest_ratio(a, b))
            if worst == math.inf:
                break
        return worst

    def _check_cost(self) -> None:
        if self.cost <= LARGEST_WORK:
            return
        lattice = self.lattice
        raise UnsupportedError(
            f"exact enumeration of n={lattice.n} users takes {lattice.data_sets:,} data sets of the "
            f"others with {len(lattice.levels[-1]):,} views each, about {self.cost:.1e} steps, more "
            f"than {LARGEST_WORK:.0e}"
        )

    def _compare_pairs(self) -> Iterator[tuple[_Vector, _Vector]]:
        """Yield the views of every ordered pair of neighbouring data sets."""
        last = self.lattice.n - 1
        for others in self._walk_data_sets():
            views = [self._add_user(last, x, others) for x in range(self.lattice.inputs)]
            yield from permutations(views, 2)

    def _walk_data_sets(self) -> Iterator[_Vector]:
        """Yield the laws of what n - 1 others send; data sets share their first users."""
        stack = [(0, 0, np.array([1], dtype=object))]
        while stack:
            first, t, law = stack.pop()
            if t == self.lattice.n - 1:
                yield law
                continue
            inputs = range(first, self.lattice.inputs)
            stack.extend((x, t + 1, self._add_user(t, x, law)) for x in inputs)

    def _add_user(self, t: int, x: int, law: _Vector) -> _Vector:
        """Return the law on level t + 1 after one more user, of input x."""
        wider = np.zeros(len(self.lattice.levels[t + 1]), dtype=object)
        for weight, places in zip(self._weights[x], self._moves(t), strict=True):
            if weight:
                wider[places] += weight * law
        return wider


def _measure_gain(a: _Vector, b: _Vector) -> int:
    difference = a - b
    return int(difference[difference > 0].sum())


def _find_largest_ratio(a: _Vector, b: _Vector) -> Fraction | float:
    seen = a > 0
    a, b = a[seen], b[seen]
    if (b == 0).any():
        return math.inf
    # Python divides integers to the nearest float, so the largest is among the nearly largest.
    try:
        rough = (a / b).astype(np.float64)
    except OverflowError:  # beyond every float
        return max(map(Fraction, a, b))
    near = np.flatnonzero(rough >= rough.max() * (1 - 1e-12))
    return max(Fraction(a[i], b[i]) for i in near)
