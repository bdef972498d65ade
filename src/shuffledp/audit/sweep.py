"""The exact audit in floating point, with every rounding on the safe side.

For each ordered pair (a, b) of inputs and every data set z of the other n - 1 users,

    F(z) = sum_o max(0, P_{z + a}(o) - e^epsilon P_{z + b}(o))

is wanted, and its maximum over z. Looking at fewer of the others only helps an attacker (what the rest
send can be added to the view afterwards, whoever they are), so F(z) <= F(c) whenever z contains c. The
data sets are cut into boxes low <= z <= high; F(low) bounds a box, and boxes that cannot beat the
largest value found are dropped. The others are halved until few data sets are left, which are
all evaluated. Nothing is left out: the result is the maximum over *all* data sets.

All sums have positive terms only, so a law of n users is known within a relative error of
n (sends + 1) 2^-53, which is added to one side and taken from the other.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffledp.audit.boxes import Box, chains
from shuffledp.audit.lattice import Lattice
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError

if TYPE_CHECKING:
    from scipy.sparse import csc_array

__all__ = ["LARGEST_SWEEP", "Bounds", "Sweep"]

LARGEST_SWEEP = 4e10
"""Floating-point steps that one sweep agrees to take: a minute or two."""

_HOPELESS = 1e15  # a full enumeration beyond this is not even begun
_UNIT = 2.0**-53
_TINY = 1e-290  # more than all underflows together can lose
_TIE = 1e-11  # boxes that can win by less than this part are dropped, and it is added to the result
_CELLS = 1 << 21  # numbers in one batch of laws
_COLUMNS = 160

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Two ends between which a delta lies, for certain.

    >>> Bounds(lower=0.1, upper=0.1).upper
    0.1
    """

    lower: float
    upper: float


@dataclass(slots=True)
class _Best:
    """The largest value found, and where."""

    upper: float = 0.0
    others: tuple[int, ...] = ()
    pair: Pair = (0, 0)


class Sweep:
    """The largest divergence over all data sets at one e^epsilon, between low and high.

    >>> rows = [{(0,): Fraction(3, 4), (1,): Fraction(1, 4)}, {(0,): Fraction(1, 4), (1,): Fraction(3, 4)}]
    >>> sweep = Sweep(Lattice(rows, 2))
    >>> found = sweep.bounds(Fraction(2), Fraction(2))
    >>> found.lower <= 3 / 16 <= found.upper < 3 / 16 + 1e-10
    True
    """

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.last = lattice.n - 1
        self._moves = lru_cache(maxsize=None)(lattice.moves)
        self._matrix = lru_cache(maxsize=None)(self._made)
        weights = np.array([[float(q) for q in law] for law in lattice.laws])
        self._sent = [np.flatnonzero(row) for row in weights]
        self._weights = [row[sent] for row, sent in zip(weights, self._sent, strict=True)]
        terms = max(len(sent) for sent in self._sent)
        self.error = 1.01 * lattice.n * (terms + 1) * _UNIT
        self.spent = 0.0

    def bounds(self, low: Fraction, high: Fraction) -> Bounds:
        """The maximum over all data sets, at an e^epsilon between low and high."""
        pairs = [pair for pair in self._different if self._leaks(pair, low)]
        if not pairs:
            return Bounds(lower=0.0, upper=0.0)
        self._hopeful(len(pairs))
        self.spent = 0.0
        E = math.nextafter(float(low), 0.0)
        best = _Best()
        self._search(pairs, E, best)
        slack = 1 + _TIE + 1e-15
        # What nobody exceeds by more than a tie, and what somebody reaches.
        upper = min(1.0, best.upper * slack + _TINY * (1 + E))
        return Bounds(lower=self._lower(best, math.nextafter(float(high), math.inf)), upper=upper)

    def _hopeful(self, pairs: int) -> None:
        full = float(self.lattice.data_sets) * len(self.lattice.levels[-1]) * (4 + pairs)
        if full <= _HOPELESS:
            return
        raise UnsupportedError(
            f"n={self.lattice.n} users of {self.lattice.inputs} different laws have "
            f"{self.lattice.data_sets:.2e} data sets with {len(self.lattice.levels[-1]):.2e} views "
            f"each, about {full:.1e} steps, more than {_HOPELESS:.0e}"
        )

    @cached_property
    def _different(self) -> list[Pair]:
        """Ordered pairs of inputs, one of each kind: renaming inputs and messages changes nothing."""
        inputs = self.lattice.inputs
        kinds: dict[Pair, Pair] = {}
        symmetries = self._symmetries()
        for pair in permutations(range(inputs), 2):
            images = ((p[pair[0]], p[pair[1]]) for p in symmetries)
            kinds.setdefault(min(images), pair)
        return list(kinds.values())

    def _symmetries(self) -> list[tuple[int, ...]]:
        """Permutations of the inputs that only permute the messages, if everybody sends one."""
        inputs = self.lattice.inputs
        same = tuple(range(inputs))
        one_each = len(self.lattice.levels[-1]) == math.comb(
            self.lattice.n + len(self.lattice.sends) - 1, self.lattice.n
        )
        if inputs > 6 or not one_each:
            return [same]
        columns = sorted(zip(*self.lattice.laws, strict=True))
        return [
            p
            for p in permutations(range(inputs))
            if sorted(tuple(column[i] for i in p) for column in columns) == columns
        ]

    def _leaks(self, pair: Pair, low: Fraction) -> bool:
        """Whether one user alone is not epsilon-private already: then the divergence is 0."""
        a, b = (self.lattice.laws[x] for x in pair)
        return any(p > low * q for p, q in zip(a, b, strict=True))

    def _search(self, pairs: list[Pair], E: float, best: _Best) -> None:
        """Depth first; of two halves the more promising one first."""
        inputs = self.lattice.inputs
        whole = Box.whole(inputs, self.last)
        stack = [(whole, np.ones((1, 1)), pairs)]
        while stack:
            box, law, alive = stack.pop()
            if box.size_at_most(self._columns):
                self._finish(box, law, alive, E, best)
                continue
            halves = []
            for half in box.halves():
                inner = self._extended(law, box.low, half.low)
                left, bound = self._alive(half, inner, alive, E, best)
                if left:
                    halves.append((bound, half, inner, left))
            halves.sort(key=lambda each: each[0])
            stack.extend(each[1:] for each in halves)

    @property
    def _columns(self) -> int:
        return max(1, min(_COLUMNS, _CELLS // len(self.lattice.levels[-1])))

    def _alive(
        self, box: Box, law: Floats, pairs: list[Pair], E: float, best: _Best
    ) -> tuple[list[Pair], float]:
        """The pairs for which this box may still hold something larger, and the largest bound."""
        values = self._divergences(sum(box.low), law, pairs, (1 + self.error, E * (1 - self.error)))
        tall = values[:, 0] > best.upper * (1 + _TIE)
        left = [pair for pair, keep in zip(pairs, tall, strict=True) if keep]
        return left, float(values.max())

    def _finish(self, box: Box, law: Floats, pairs: list[Pair], E: float, best: _Best) -> None:
        """Every data set of a small box."""
        data_sets, laws = self._grown(box, law)
        values = self._divergences(self.last, laws, pairs, (1 + self.error, E * (1 - self.error)))
        place = np.unravel_index(int(values.argmax()), values.shape)
        if values[place] > best.upper:
            best.upper = float(values[place])
            best.pair, best.others = pairs[place[0]], data_sets[place[1]]

    def _lower(self, best: _Best, E: float) -> float:
        law = self._extended(np.ones((1, 1)), (0,) * self.lattice.inputs, best.others)
        scales = (1 - self.error, E * (1 + self.error))
        value = self._divergences(self.last, law, [best.pair], scales, side=-1)
        return max(0.0, float(value[0, 0]) - _TINY * (1 + E))

    def _divergences(
        self, t: int, laws: Floats, pairs: list[Pair], scales: tuple[float, float], side: int = 1
    ) -> Floats:
        """sum_o max(0, scales[0] P_a(o) - scales[1] P_b(o)) for each pair and each column."""
        views = {x: self._step(t, x, laws) for x in sorted({x for pair in pairs for x in pair})}
        rows, columns = len(self.lattice.levels[t + 1]), laws.shape[1]
        self._spend(rows * columns * 2 * len(pairs))
        total = np.zeros((len(pairs), columns))
        chunk = max(1, (1 << 15) // columns)  # what stays in the nearest cache
        room, other = np.empty((chunk, columns)), np.empty((chunk, columns))
        for start in range(0, rows, chunk):
            count = min(chunk, rows - start)
            gain, loss = room[:count], other[:count]
            for i, (a, b) in enumerate(pairs):
                np.multiply(views[a][start : start + count], scales[0], out=gain)
                np.multiply(views[b][start : start + count], scales[1], out=loss)
                gain -= loss
                np.maximum(gain, 0.0, out=gain)
                total[i] += gain.sum(axis=0)
        # A sum of so many positive terms, and three operations on each of them.
        return total * (1 + side * (rows + 8) * 1.01 * _UNIT)

    def _extended(self, law: Floats, low: tuple[int, ...], high: tuple[int, ...]) -> Floats:
        """A law of the users `low`, after those that `high` has more."""
        t = sum(low)
        for x, (before, after) in enumerate(zip(low, high, strict=True)):
            for _ in range(after - before):
                law = self._step(t, x, law)
                t += 1
        return law

    def _grown(self, box: Box, law: Floats) -> tuple[list[tuple[int, ...]], Floats]:
        """All data sets of a box and their laws, a column for each."""
        t = sum(box.low)
        columns = [box.low]
        for columns, steps in chains(box):
            wider = np.empty((len(self.lattice.levels[t + 1]), len(columns)))
            for x, (children, parents) in steps.items():
                wider[:, children] = self._step(t, x, law[:, parents])
            law, t = wider, t + 1
        return columns, law

    def _step(self, t: int, x: int, laws: Floats) -> Floats:
        self._spend(len(self.lattice.levels[t]) * laws.shape[1] * len(self._sent[x]))
        result: Floats = self._matrix(t, x) @ laws
        return result

    def _made(self, t: int, x: int) -> "csc_array[Any]":
        """Level t to level t + 1 by one user of input x, as a sparse matrix."""
        from scipy.sparse import csc_array

        moves = self._moves(t)
        sent = self._sent[x]
        below, above = len(self.lattice.levels[t]), len(self.lattice.levels[t + 1])
        indices = np.stack([moves[s] for s in sent], axis=1).ravel().astype(np.int32)
        data = np.tile(self._weights[x], below)
        ends = np.arange(below + 1, dtype=np.int32) * len(sent)
        return csc_array((data, indices, ends), shape=(above, below))

    def _spend(self, steps: float) -> None:
        self.spent += steps
        if self.spent <= LARGEST_SWEEP:
            return
        raise UnsupportedError(
            f"the audit of n={self.lattice.n} users of {self.lattice.inputs} different laws gave up "
            f"after {LARGEST_SWEEP:.0e} steps; all {self.lattice.data_sets:,} data sets with "
            f"{len(self.lattice.levels[-1]):,} views each would take up to {self.lattice.work:.1e}"
        )
