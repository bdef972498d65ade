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

**The audit in integers** numbers the multisets that users may send.

A multiset over the messages y_0, y_1, ... is written as one number in a base that no count reaches, so
the union of two multisets is a sum. Level t holds the sorted numbers of all multisets that t users can
send together. Adding one user who sends s moves entry i of level t to entry `moves(t)[s][i]` of level
t + 1: a law on level t becomes a law on level t + 1 by as many scaled additions as there are sends.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.randomizer import Law
from shuffledp.numerics.rounding import UNIT, float_below

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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
    unsorted: list[Any] = list(items)
    try:
        return sorted(unsorted)
    except TypeError:
        return sorted(unsorted, key=repr)


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
        """Count the multisets of t sends: the views, if everybody sends one message."""
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
        """Return for each set of messages where the entries of level t go."""
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
        """Return `delta` for several ratios, in one pass over the data sets."""
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


LARGEST_SWEEP = 3 * 10**10
"""Floating-point steps that one sweep agrees to take: a minute or two."""

_HOPELESS = 1e16  # a full enumeration beyond this is not even begun
_TINY = 1e-290  # more than all underflows together can lose
_TIE = 1e-11  # boxes that can win by less than this part are dropped, and it is added to the result
_MOST_SYMMETRIC = 6
_LARGEST_RATIO = 10**250
_KEPT_MATRICES = 512
_DEVIATIONS = (-3, -2, -1, -0.5, 0, 0.5, 1)  # from the mean, where blankets are looked at

Pair = tuple[int, int]
_Users = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Certified lower and upper ends of a delta.

    >>> Bounds(lower=0.1, upper=0.2).upper
    0.2
    """

    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """All z with low <= z <= high (for each input) and `users` users in total; the ends are tight.

    >>> box = Box.whole(2, 4)
    >>> [half.low for half in box.halve()]
    [(0, 2), (3, 0)]
    """

    low: _Users
    high: _Users
    users: int

    @classmethod
    def whole(cls, inputs: int, users: int) -> "Box":
        """Return the box of every data set.

        >>> Box.whole(3, 5).high
        (5, 5, 5)
        """
        return cls(low=(0,) * inputs, high=(users,) * inputs, users=users)

    def halve(self) -> list["Box"]:
        """Cut across the widest side, into boxes that share nothing."""
        widths = [high - low for low, high in zip(self.low, self.high, strict=True)]
        side = widths.index(max(widths))
        middle = (self.low[side] + self.high[side]) // 2
        below = self._tighten(self.low, _replace_at(self.high, side, middle))
        above = self._tighten(_replace_at(self.low, side, middle + 1), self.high)
        return [half for half in (below, above) if half is not None]

    def _tighten(self, low: _Users, high: _Users) -> "Box | None":
        """Return the box with its ends tightened: the total is known. None if it is empty."""
        spare, missing = self.users - sum(low), self.users - sum(high)
        if spare < 0 or missing > 0:
            return None
        tight_high = tuple(min(h, lo + spare) for lo, h in zip(low, high, strict=True))
        tight_low = tuple(max(lo, h + missing) for lo, h in zip(low, high, strict=True))
        return Box(low=tight_low, high=tight_high, users=self.users)

    @property
    def single(self) -> bool:
        """Whether there is one data set left: `low` itself."""
        return sum(self.low) == self.users


def _replace_at(values: _Users, place: int, value: int) -> _Users:
    return (*values[:place], value, *values[place + 1 :])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonPart:
    """The common part of several laws: with probability gamma a user sends by `law`, whatever the input.

    >>> half = Fraction(1, 2)
    >>> CommonPart.of([(half, half, Fraction(0)), (Fraction(0), half, half)]).law
    (0.0, 1.0, 0.0)
    """

    gamma: float
    law: tuple[float, ...]

    @classmethod
    def of(cls, laws: Sequence[Sequence[Fraction]]) -> "CommonPart":
        """Return the largest common part.

        >>> half = Fraction(1, 2)
        >>> CommonPart.of([(half, half), (1 - half / 2, half / 2)]).gamma
        0.75
        """
        common = [min(column) for column in zip(*laws, strict=True)]
        gamma = sum(common, Fraction(0))
        if gamma == 0:
            return cls(gamma=0.0, law=(0.0,) * len(common))
        return cls(gamma=float_below(gamma), law=tuple(float(q / gamma) for q in common))


@lru_cache(maxsize=4096)
def share_out(users: int, gamma: float) -> tuple[tuple[int, float], ...]:
    """Return how many of the users send by the common law, rounded down to a few values, with their probabilities.

    Each is that of at least b and less than the next b of Bin(users, gamma). Fewer messages of the blanket hide
    less, so the tails Pr[at least b] are rounded down.

    >>> [(b, round(share, 4)) for b, share in share_out(2, 0.5)]
    [(0, 0.25), (1, 0.5), (2, 0.25)]
    """
    middle, spread = users * gamma, math.sqrt(users * gamma * (1 - gamma))
    some = range(users + 1) if users <= 4 else (math.ceil(middle + d * spread) for d in _DEVIATIONS)
    starts = sorted({0, *(b for b in some if 0 < b <= users)})
    weights = _weigh_binomial(users, gamma)
    # Each weight is a product of at most `users` ratios, each at most 5 roundings off; a sum adds at most
    # `users` more. A tail, the quotient of two of them, is off by less than this part of it.
    error = 1.01 * 12 * (users + 2) * UNIT
    whole = float(weights.sum())
    tails = [float(weights[b:].sum()) / whole * (1 - error) for b in starts]
    tails[0] = 1.0
    return tuple(
        (b, max(0.0, this - following) * (1 + 2 * UNIT))
        for b, (this, following) in zip(starts, pairwise([*tails, 0.0]), strict=True)
    )


def _weigh_binomial(users: int, gamma: float) -> Floats:
    """Return the probabilities of Bin(users, gamma), up to one factor: products of their ratios."""
    weights = np.zeros(users + 1)
    mode = min(users, math.floor((users + 1) * gamma))
    weights[mode] = 1.0
    if mode < users:
        k = np.arange(mode, users)
        weights[mode + 1 :] = np.cumprod((users - k) / (k + 1) * (gamma / (1 - gamma)))
    if mode > 0:
        k = np.arange(mode, 0, -1)
        weights[:mode] = np.cumprod(k / (users - k + 1) * ((1 - gamma) / gamma))[::-1]
    return weights


class Adder:
    """Adds a user with given weights on the sends; counts the elementary steps.

    >>> adder = Adder(Lattice([{(0,): Fraction(1)}, {(1,): Fraction(1)}], 2))
    >>> adder.add(1, (0.25, 0.75), np.array([0.5, 0.5]))
    array([0.125, 0.5  , 0.375])
    >>> adder.taken
    4
    """

    def __init__(self, lattice: Lattice) -> None:
        self.levels = [len(level) for level in lattice.levels]
        self.taken = 0
        self._moves = lattice.moves
        self._structure = lru_cache(maxsize=None)(self._sort_moves)
        self._matrix = lru_cache(maxsize=_KEPT_MATRICES)(self._make_matrix)

    def add(self, t: int, weights: tuple[float, ...], law: Floats) -> Floats:
        """Sum weights[s] times the law moved by s over all sends s: from level t to level t + 1."""
        self.taken += len(law) * len(weights)
        result: Floats = self._matrix(t, weights) @ law
        return result

    def _make_matrix(self, t: int, weights: tuple[float, ...]) -> "csr_array[Any]":
        from scipy.sparse import csr_array

        sends, columns, ends = self._structure(t)
        data = np.array(weights)[sends]
        return csr_array((data, columns, ends), shape=(self.levels[t + 1], self.levels[t]))

    def _sort_moves(self, t: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Sort the moves by the rows of level t + 1: which sends lead there, and from where."""
        moves = self._moves(t)
        rows = np.concatenate(moves)
        order = np.argsort(rows, kind="stable")
        sends = np.repeat(np.arange(len(moves), dtype=np.int32), self.levels[t])[order]
        columns = np.tile(np.arange(self.levels[t], dtype=np.int32), len(moves))[order]
        counts = np.bincount(rows, minlength=self.levels[t + 1])
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return sends, columns, ends


class Sweep:
    """The largest divergence over all data sets of the others.

    >>> rows = [{(0,): Fraction(3, 4), (1,): Fraction(1, 4)}, {(0,): Fraction(1, 4), (1,): Fraction(3, 4)}]
    >>> found = Sweep(Lattice(rows, 2)).bounds(Fraction(2), Fraction(2))
    >>> found.lower <= 3 / 16 <= found.upper < 3 / 16 + 1e-10
    True
    """

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.adder = Adder(lattice)
        self.laws = [tuple(float(q) for q in law) for law in lattice.laws]
        self.terms = max(sum(q > 0 for q in law) for law in lattice.laws)
        self.blanket = CommonPart.of(lattice.laws)
        self.error = 1.01 * lattice.n * (self.terms + 1) * UNIT

    def bounds(self, low: Fraction, high: Fraction) -> Bounds:
        """Return the maximum over all data sets, at an e^epsilon between low and high."""
        pairs = [pair for pair in self._distinct_pairs if self._leaks(pair, low)]
        if not pairs:
            return Bounds(lower=0.0, upper=0.0)
        if high > _LARGEST_RATIO:
            raise UnsupportedError("e^epsilon > 10^250 is too large for floating point")
        self._check_hope(len(pairs))
        self.adder.taken = 0
        search = _Search(self, pairs, math.nextafter(float(low), 0.0))
        search.run()
        upper = min(1.0, search.best * (1 + _TIE + 4 * UNIT) + _TINY * (1 + search.E))
        return Bounds(
            lower=self._evaluate_worst(search, math.nextafter(float(high), math.inf)), upper=upper
        )

    def add(self, law: Floats, before: tuple[int, ...], after: tuple[int, ...]) -> Floats:
        """Return the law of the users `after`, given that of the users `before`, which are some of them."""
        t = sum(before)
        for x, (some, more) in enumerate(zip(before, after, strict=True)):
            for _ in range(more - some):
                law = self.adder.add(t, self.laws[x], law)
                t += 1
        return law

    def divergence(self, law: Floats, t: int, pair: Pair, scales: tuple[float, float]) -> float:
        """Return sum_o max(0, scales[0] P_a(o) - scales[1] P_b(o)), where t others have this law."""
        a, b = (self.adder.add(t, self.laws[x], law) for x in pair)
        return float(np.maximum(scales[0] * a - scales[1] * b, 0.0).sum())

    def _evaluate_worst(self, search: "_Search", E: float) -> float:
        """Return the value of the worst data set, rounded down."""
        law = self.add(np.ones(1), (0,) * self.lattice.inputs, search.others)
        scales = (1 - self.error, E * (1 + self.error))
        value = self.divergence(law, self.lattice.n - 1, search.pair, scales)
        return max(0.0, value * (1 - self.summed) - _TINY * (1 + E))

    @property
    def summed(self) -> float:
        """Relative error of a sum over all views of positive terms, and of their making."""
        return 1.01 * (len(self.lattice.levels[-1]) + 8) * UNIT

    def _check_hope(self, pairs: int) -> None:
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
    def _distinct_pairs(self) -> list[Pair]:
        """Ordered pairs of inputs, one of each kind: renaming inputs and messages changes nothing."""
        kinds: dict[Pair, Pair] = {}
        symmetries = self._find_symmetries()
        for pair in permutations(range(self.lattice.inputs), 2):
            images = ((p[pair[0]], p[pair[1]]) for p in symmetries)
            kinds.setdefault(min(images), pair)
        return list(kinds.values())

    def _find_symmetries(self) -> list[tuple[int, ...]]:
        """Find permutations of the inputs that only permute the messages, if everybody sends one."""
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
        """Return whether one user alone is not epsilon-private already: otherwise the divergence is 0."""
        a, b = (self.lattice.laws[x] for x in pair)
        return any(p > low * q for p, q in zip(a, b, strict=True))


class _Search:
    """A depth-first search that tries the more promising of two halves first."""

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
        stack = [self._look(whole, np.ones(1), dict.fromkeys(self._weights, 1.0))]
        while stack:
            box, law, bounds, _ = stack.pop()
            alive = {pair: bound for pair, bound in bounds.items() if bound > self._mark}
            if box.single or not alive:
                continue
            halves = [
                self._look(half, self.sweep.add(law, box.low, half.low), alive)
                for half in box.halve()
            ]
            stack.extend(sorted(halves, key=lambda each: each.promise))
            self._check_cost()

    @property
    def _mark(self) -> float:
        """What a box must promise to be looked into."""
        return self.best * (1 + _TIE)

    def _look(self, box: Box, law: Floats, known: dict[Pair, float]) -> "_Found":
        """Bound a box, given those of a box around it; a single data set is settled here."""
        if box.single:
            for pair in known:
                self._settle(box, law, pair)
            return _Found(box, law, {}, 0.0)
        covers = self._cover(box, law)
        hidden = {pair: self._bound_quickly(*covers[-1][1:], pair) for pair in known}
        bounds = {pair: self._bound(covers, pair, known[pair], hidden[pair]) for pair in known}
        return _Found(box, law, bounds, max(hidden.values()))

    def _settle(self, box: Box, law: Floats, pair: Pair) -> None:
        t = sum(box.low)
        if self._bound_quickly(law, t, pair) <= self._mark:
            return
        value = self._bound_precisely(law, t, pair)
        if value > self.best:
            self.best, self.others, self.pair = value, box.low, pair

    def _cover(self, box: Box, law: Floats) -> list[tuple[float, Floats, int]]:
        """Return the law of `low` under more and more messages of the blanket: (probability, law, users).

        With probability gamma each user who is still open sends by the common law, whatever they
        hold. More such messages hide more, so their number is rounded down to a few values.
        """
        t, done = sum(box.low), 0
        covers = []
        for b, share in share_out(box.users - t, self.sweep.blanket.gamma):
            for _ in range(b - done):
                law, t = self.sweep.adder.add(t, self.sweep.blanket.law, law), t + 1
            done = b
            covers.append((share, law, t))
        return covers

    def _bound(
        self, covers: list[tuple[float, Floats, int]], pair: Pair, known: float, hidden: float
    ) -> float:
        """Return the expected divergence under the blanket, or `known` as soon as it is too large to help.

        From the most hidden to the least: each value is at most the next, so what is left counts at
        least with the last one.
        """
        total, left = 0.0, sum(share for share, _, _ in covers)
        for share, law, t in reversed(covers):
            value = hidden if law is covers[-1][1] else self._bound_quickly(law, t, pair)
            if total + left * value > self._mark * (1 + 1e-6):
                return known
            total, left = total + share * value, left - share
        return min(known, total)

    def _bound_quickly(self, law: Floats, t: int, pair: Pair) -> float:
        """Bound the divergence from above, with an absolute error; if that is most of it, precisely."""
        moved = self.sweep.adder.add(t, self._weights[pair], law)
        total = float(np.maximum(moved, 0.0).sum()) * (1 + self.sweep.summed) + self._absolute
        return total if total > 1000 * self._absolute else self._bound_precisely(law, t, pair)

    def _bound_precisely(self, law: Floats, t: int, pair: Pair) -> float:
        """Bound the divergence from above, with a relative error of both views."""
        scales = (1 + self.sweep.error, self.E * (1 - self.sweep.error))
        return self.sweep.divergence(law, t, pair, scales) * (1 + self.sweep.summed)

    def _check_cost(self) -> None:
        lattice = self.sweep.lattice
        if self.sweep.adder.taken <= LARGEST_SWEEP:
            return
        raise UnsupportedError(
            f"the audit of n={lattice.n} users of {lattice.inputs} different laws gave up after "
            f"{LARGEST_SWEEP:.0e} steps; all {lattice.data_sets:,} data sets of the others with "
            f"{len(lattice.levels[-1]):,} views each take up to {lattice.work:.1e}"
        )


class _Found(NamedTuple):
    """A box, the law of its `low`, bounds for pairs, and a guess of what it holds."""

    box: Box
    law: Floats
    bounds: dict[Pair, float]
    promise: float
