"""The exact audit in integers: every data set of the others, every view, nothing rounded."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp.audit.lattice import Lattice
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.randomizer import Law

__all__ = ["LARGEST_WORK", "Integers"]

LARGEST_WORK = 60_000_000
"""Elementary steps on integers that the audit agrees to take: about a minute."""

_Vector = NDArray[Any]
"""Python integers: a law on a level of the lattice, times denominator^level."""


class Integers:
    """All views of n users, as integer weights over denominator^n.

    >>> keep, lie = Fraction(3, 4), Fraction(1, 4)
    >>> views = Integers([{(0,): keep, (1,): lie}, {(0,): lie, (1,): keep}], 2)
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
        """The largest divergence at e^epsilon = ratio, over all neighbouring data sets."""
        self._affordable()
        up, down = ratio.numerator, ratio.denominator
        worst = max((_gain(down * a, up * b) for a, b in self._pairs()), default=0)
        return Fraction(worst, down * self.lattice.denominator**self.lattice.n)

    def deltas(self, ratios: Sequence[Fraction]) -> list[Fraction]:
        """`delta` for several ratios, in one pass over the data sets."""
        self._affordable()
        worst = [0] * len(ratios)
        for a, b in self._pairs():
            for i, ratio in enumerate(ratios):
                worst[i] = max(worst[i], _gain(ratio.denominator * a, ratio.numerator * b))
        whole = self.lattice.denominator**self.lattice.n
        return [
            Fraction(gain, ratio.denominator * whole)
            for gain, ratio in zip(worst, ratios, strict=True)
        ]

    def ratio(self) -> Fraction | float:
        """The largest likelihood ratio of a view; infinite if a view gives an input away."""
        self._affordable()
        worst: Fraction | float = Fraction(1)
        for a, b in self._pairs():
            worst = max(worst, _largest_ratio(a, b))
            if worst == math.inf:
                break
        return worst

    def _affordable(self) -> None:
        if self.cost <= LARGEST_WORK:
            return
        lattice = self.lattice
        raise UnsupportedError(
            f"exact enumeration of n={lattice.n} users takes {lattice.data_sets:,} data sets of the "
            f"others with {len(lattice.levels[-1]):,} views each, about {self.cost:.1e} steps, more "
            f"than {LARGEST_WORK:.0e}"
        )

    def _pairs(self) -> Iterator[tuple[_Vector, _Vector]]:
        """The views of every ordered pair of neighbouring data sets."""
        last = self.lattice.n - 1
        for others in self._data_sets():
            views = [self._step(last, x, others) for x in range(self.lattice.inputs)]
            yield from permutations(views, 2)

    def _data_sets(self) -> Iterator[_Vector]:
        """The laws of what n - 1 others send; data sets share their first users."""
        stack = [(0, 0, np.array([1], dtype=object))]
        while stack:
            first, t, law = stack.pop()
            if t == self.lattice.n - 1:
                yield law
                continue
            inputs = range(first, self.lattice.inputs)
            stack.extend((x, t + 1, self._step(t, x, law)) for x in inputs)

    def _step(self, t: int, x: int, law: _Vector) -> _Vector:
        """The law on level t + 1 after one more user, of input x."""
        wider = np.zeros(len(self.lattice.levels[t + 1]), dtype=object)
        for weight, places in zip(self._weights[x], self._moves(t), strict=True):
            if weight:
                wider[places] += weight * law
        return wider


def _gain(a: _Vector, b: _Vector) -> int:
    difference = a - b
    return int(difference[difference > 0].sum())


def _largest_ratio(a: _Vector, b: _Vector) -> Fraction | float:
    seen = a > 0
    a, b = a[seen], b[seen]
    if (b == 0).any():
        return math.inf
    # Python divides integers to the nearest float, so the largest is among the nearly largest.
    rough = (a / b).astype(np.float64)
    near = np.flatnonzero(rough >= rough.max() * (1 - 1e-12))
    return max(Fraction(a[i], b[i]) for i in near)
