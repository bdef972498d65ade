"""The exact audit in floating point, with every rounding on the safe side.

For each ordered pair (a, b) of inputs and every data set z of the other n - 1 users,

    F(z) = sum_o max(0, P_{z + a}(o) - e^epsilon P_{z + b}(o))

is wanted, and its maximum over z. Looking at fewer of the others only helps an attacker (what the rest
send can be added to the view afterwards, whoever they are), so F(z) <= F(c) whenever z contains c. The
data sets are cut into boxes low <= z <= high: F(low) bounds a whole box, boxes that cannot beat the
largest value found are dropped, and the others are halved, down to single data sets. Nothing is left
out: the result is the maximum over *all* data sets. The bound is sharpened by what all laws have in
common, their blanket, which the users of a box that are still open contribute whatever they hold.

Laws are sums of positive terms only, so that of n users is known within a relative error of
n (sends + 1) 2^-53. Most boxes are dropped by a quick look, at the law of the others moved by
R_a - e^epsilon R_b, whose cancellation costs an absolute error. What it cannot drop is looked at again with
both views, each moved to its safe side.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import permutations

import numpy as np

from shuffledp.audit.boxes import Blanket, Box
from shuffledp.audit.lattice import Lattice
from shuffledp.audit.steps import UNIT, Steps
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError

__all__ = ["LARGEST_SWEEP", "Bounds", "Sweep"]

LARGEST_SWEEP = 3 * 10**10
"""Floating-point steps that one sweep agrees to take: a minute or two."""

_HOPELESS = 1e16  # a full enumeration beyond this is not even begun
_TINY = 1e-290  # more than all underflows together can lose
_TIE = 1e-11  # boxes that can win by less than this part are dropped, and it is added to the result
_MOST_SYMMETRIC = 6

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Two ends between which a delta lies, for certain.

    >>> Bounds(lower=0.1, upper=0.2).upper
    0.2
    """

    lower: float
    upper: float


class Sweep:
    """The largest divergence over all data sets of the others.

    >>> rows = [{(0,): Fraction(3, 4), (1,): Fraction(1, 4)}, {(0,): Fraction(1, 4), (1,): Fraction(3, 4)}]
    >>> found = Sweep(Lattice(rows, 2)).bounds(Fraction(2), Fraction(2))
    >>> found.lower <= 3 / 16 <= found.upper < 3 / 16 + 1e-10
    True
    """

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.steps = Steps(lattice)
        self.laws = [tuple(float(q) for q in law) for law in lattice.laws]
        self.terms = max(sum(q > 0 for q in law) for law in lattice.laws)
        self.blanket = Blanket.of(lattice.laws)
        self.error = 1.01 * lattice.n * (self.terms + 1) * UNIT

    def bounds(self, low: Fraction, high: Fraction) -> Bounds:
        """The maximum over all data sets, at an e^epsilon between low and high."""
        pairs = [pair for pair in self._different if self._leaks(pair, low)]
        if not pairs:
            return Bounds(lower=0.0, upper=0.0)
        self._hopeful(len(pairs))
        self.steps.taken = 0
        search = _Search(self, pairs, math.nextafter(float(low), 0.0))
        search.run()
        upper = min(1.0, search.best * (1 + _TIE + 4 * UNIT) + _TINY * (1 + search.E))
        return Bounds(lower=self._lower(search, math.nextafter(float(high), math.inf)), upper=upper)

    def add(self, law: Floats, before: tuple[int, ...], after: tuple[int, ...]) -> Floats:
        """A law of the users `before`, with those that `after` has more."""
        t = sum(before)
        for x, (some, more) in enumerate(zip(before, after, strict=True)):
            for _ in range(more - some):
                law = self.steps.add(t, self.laws[x], law)
                t += 1
        return law

    def divergence(self, law: Floats, t: int, pair: Pair, scales: tuple[float, float]) -> float:
        """sum_o max(0, scales[0] P_a(o) - scales[1] P_b(o)), where t others have this law."""
        a, b = (self.steps.add(t, self.laws[x], law) for x in pair)
        return float(np.maximum(scales[0] * a - scales[1] * b, 0.0).sum())

    def _lower(self, search: "_Search", E: float) -> float:
        """The value of the worst data set, rounded down."""
        law = self.add(np.ones(1), (0,) * self.lattice.inputs, search.others)
        scales = (1 - self.error, E * (1 + self.error))
        value = self.divergence(law, self.lattice.n - 1, search.pair, scales)
        return max(0.0, value * (1 - self.summed) - _TINY * (1 + E))

    @property
    def summed(self) -> float:
        """Relative error of a sum over all views of positive terms, and of their making."""
        return 1.01 * (len(self.lattice.levels[-1]) + 8) * UNIT

    def _hopeful(self, pairs: int) -> None:
        views = len(self.lattice.levels[-1])
        full = float(self.lattice.data_sets) * views * len(self.lattice.sends) * (1 + pairs)
        if full <= _HOPELESS:
            return
        raise UnsupportedError(
            f"n={self.lattice.n} users of {self.lattice.inputs} different laws have "
            f"{self.lattice.data_sets:.2e} data sets with {views:.2e} views each, about "
            f"{full:.1e} steps, more than {_HOPELESS:.0e}"
        )

    @cached_property
    def _different(self) -> list[Pair]:
        """Ordered pairs of inputs, one of each kind: renaming inputs and messages changes nothing."""
        kinds: dict[Pair, Pair] = {}
        symmetries = self._symmetries()
        for pair in permutations(range(self.lattice.inputs), 2):
            images = ((p[pair[0]], p[pair[1]]) for p in symmetries)
            kinds.setdefault(min(images), pair)
        return list(kinds.values())

    def _symmetries(self) -> list[tuple[int, ...]]:
        """Permutations of the inputs that only permute the messages, if everybody sends one."""
        inputs = self.lattice.inputs
        if inputs > _MOST_SYMMETRIC or not self.lattice.single:
            return [tuple(range(inputs))]
        columns = sorted(zip(*self.lattice.laws, strict=True))
        return [
            p
            for p in permutations(range(inputs))
            if sorted(tuple(column[i] for i in p) for column in columns) == columns
        ]

    def _leaks(self, pair: Pair, low: Fraction) -> bool:
        """Whether one user alone is not epsilon-private already: otherwise the divergence is 0."""
        a, b = (self.lattice.laws[x] for x in pair)
        return any(p > low * q for p, q in zip(a, b, strict=True))


class _Search:
    """Depth first; of two halves the more promising one first."""

    def __init__(self, sweep: Sweep, pairs: list[Pair], E: float) -> None:
        self.sweep = sweep
        self.E = E
        self.best = 0.0
        self.others = (sweep.lattice.n - 1, *(0,) * (sweep.lattice.inputs - 1))
        self.pair = pairs[0]
        self._weights = {
            (a, b): tuple(p - E * q for p, q in zip(sweep.laws[a], sweep.laws[b], strict=True))
            for a, b in pairs
        }
        # Errors of the law of the others, of weights, products and sums are relative to positive
        # terms that add up to at most 1 + E.
        self._absolute = 2 * (1 + E) * (sweep.error + (2 * sweep.terms + 6) * UNIT)

    def run(self) -> None:
        whole = Box.whole(self.sweep.lattice.inputs, self.sweep.lattice.n - 1)
        start = np.ones(1)
        stack = [(whole, start, self._look(whole, start, list(self._weights)))]
        while stack:
            box, law, bounds = stack.pop()
            alive = [pair for pair, bound in bounds.items() if bound > self._mark]
            halves = [self._half(half, box, law, alive) for half in box.halves() if alive]
            stack.extend(sorted(filter(_open, halves), key=_promise))
            self._afford()

    @property
    def _mark(self) -> float:
        """What a box must promise to be looked into."""
        return self.best * (1 + _TIE)

    def _half(
        self, half: Box, box: Box, law: Floats, alive: list[Pair]
    ) -> tuple[Box, Floats, dict[Pair, float]]:
        inner = self.sweep.add(law, box.low, half.low)
        return half, inner, self._look(half, inner, alive)

    def _look(self, box: Box, law: Floats, pairs: list[Pair]) -> dict[Pair, float]:
        """Bounds for the pairs that still promise something; a single data set is settled here."""
        bounds = {}
        for pair in pairs:
            bound = self._bound(box, law, pair)
            if bound <= self._mark:
                continue
            bounds[pair] = bound
            if box.single:
                self.best, self.others, self.pair = bound, box.low, pair
        return bounds if box.single else self._under_the_blanket(box, law, bounds)

    def _under_the_blanket(
        self, box: Box, law: Floats, bounds: dict[Pair, float]
    ) -> dict[Pair, float]:
        """The same, but the users that are still open hide the target at least by the blanket.

        With probability gamma each of them sends a message of the common law, whatever they hold.
        More such messages hide more, so their number is rounded down to a few values.
        """
        shares = self.sweep.blanket.shares(box.users - sum(box.low))
        if not bounds or len(shares) < 2:
            return bounds
        better = {pair: shares[0][1] * bound for pair, bound in bounds.items()}
        t, done = sum(box.low), 0
        for b, share in shares[1:]:
            for _ in range(b - done):
                law, t = self.sweep.steps.add(t, self.sweep.blanket.law, law), t + 1
            done = b
            for pair in better:
                better[pair] += share * self._quick(law, t, pair)
        return {pair: bound for pair, bound in better.items() if bound > self._mark}

    def _bound(self, box: Box, law: Floats, pair: Pair) -> float:
        """At least F(low); as precise as can be for a single data set that may be the worst."""
        t = sum(box.low)
        quick = self._quick(law, t, pair)
        rough = quick < 1000 * self._absolute
        if quick <= self._mark or not (box.single or rough):
            return quick
        scales = (1 + self.sweep.error, self.E * (1 - self.sweep.error))
        value = self.sweep.divergence(law, t, pair, scales)
        return min(quick, value * (1 + self.sweep.summed))

    def _quick(self, law: Floats, t: int, pair: Pair) -> float:
        moved = self.sweep.steps.add(t, self._weights[pair], law)
        total = float(np.maximum(moved, 0.0).sum())
        return total * (1 + self.sweep.summed) + self._absolute

    def _afford(self) -> None:
        lattice = self.sweep.lattice
        if self.sweep.steps.taken <= LARGEST_SWEEP:
            return
        raise UnsupportedError(
            f"the audit of n={lattice.n} users of {lattice.inputs} different laws gave up after "
            f"{LARGEST_SWEEP:.0e} steps; all {lattice.data_sets:,} data sets of the others with "
            f"{len(lattice.levels[-1]):,} views each take up to {lattice.work:.1e}"
        )


def _open(half: tuple[Box, Floats, dict[Pair, float]]) -> bool:
    box, _, bounds = half
    return bool(bounds) and not box.single


def _promise(half: tuple[Box, Floats, dict[Pair, float]]) -> float:
    return max(half[2].values())
