"""Shuffled binary randomized response: its own privacy curve, over every data set, with a proof.

n users send their bit, flipped with probability f. The view is the number of ones. If s of the
other n - 1 users hold a one, they contribute N = Bin(s, 1 - f) + Bin(n - 1 - s, f), of law h, and

    delta = sum_c max(0, A h(c) - B h(c + 1)),   A = 1 - f - E f,   B = E (1 - f) - f,   E = e^epsilon,

is the divergence of "the target holds 1" from "the target holds 0". The other direction is the same
at n - 1 - s ones, so the maximum over s of this one covers both.

**One data set** is in `accounting/tilted`.

**All data sets.** Revealing the message of one more user only helps the attacker, so
delta(ones, zeros) does not increase in either argument. The range of s is cut into cells lo .. hi;
delta(lo, n - 1 - hi) is an upper bound for the whole cell. Cells are halved where this costs most. For
small n every s is a cell of its own. "All others equal" alone is not a bound: some other data set is
worse by up to 22 % in delta at n = 25, and by up to 2 % for n flip = 34 however large n is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.accounting.base import SMALLEST_DELTA, gaussian_epsilon
from shuffledp.accounting.tilted import Point
from shuffledp.core.arrays import Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import fraction_of_one, whole
from shuffledp.numerics.search import largest_above, smallest_safe

__all__ = ["LARGEST_VARIANCE", "BinaryResponse", "gaussian_epsilon0"]

_UNIT = 2.0**-53  # rounding error of one operation
_EXACT = 2000  # up to this n every data set is looked at
LARGEST_VARIANCE = 2.5e7  # n f (1 - f): windows of 10^5 places, seconds per epsilon
_TOLERANCE = 0.005  # cells are refined until the upper bound of delta is this close, relatively
_WORK = 1.2e7  # how many places all cells together may look at
_SMALLEST_FLIP = Fraction(1, 10**40)
_LARGEST_EPSILON0 = 60.0  # where a search ends
_WORST = 12  # cells that a search looks at before it asks all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryResponse:
    """n users, each bit flipped with probability `flip`: a `Profile`.

    >>> shuffled = BinaryResponse(n=1_000, flip=Fraction(1, 4))
    >>> round(shuffled.epsilon(1e-6), 4)
    0.1421
    >>> shuffled.delta_lower(0.1) <= shuffled.delta(0.1)
    True
    """

    n: int
    flip: Fraction
    epsilon0: float = field(init=False)
    """The local guarantee, rounded up: delta is 0 from here on."""

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=2**52)
        if not _SMALLEST_FLIP <= self.flip < Fraction(1, 2):
            raise ParameterError("flip", self.flip, "must be a Fraction >= 1e-40 and < 1/2")
        object.__setattr__(self, "flip", Fraction(self.flip))  # a float is taken for what it is
        local = math.log1p(float((1 - 2 * self.flip) / self.flip))
        object.__setattr__(self, "epsilon0", local * (1 + 1e-14))
        if self._variance > LARGEST_VARIANCE:
            raise UnsupportedError(
                f"n={self.n} users are too many for the exact accountant of binary randomized "
                f"response: n flip (1 - flip) = {self._variance:.3g} must be <= {LARGEST_VARIANCE:g}"
            )

    def delta(self, epsilon: float) -> float:
        """An upper bound over all data sets and both directions."""
        found = _worst(self, epsilon)
        return 0.0 if found is None else _as_delta(found[2])

    def better_epsilon0(self, epsilon: float, delta: float) -> float:
        """About the largest epsilon0 at which (epsilon, delta) holds, as the worst cells here say.

        A step of a search: whether it holds there must be asked.

        >>> shuffled = BinaryResponse(n=10_000, flip=Fraction(1, 4))
        >>> round(shuffled.better_epsilon0(0.1, 1e-6), 2)
        2.2
        """
        found = _worst(self, epsilon)
        if found is None:
            return self.epsilon0
        ones, zeros, _ = found

        def spare(epsilon0: float) -> float:
            return -_excess(_flip_of(epsilon0), ones, zeros, math.log(delta))(epsilon)

        return largest_above(
            spare, end=_LARGEST_EPSILON0, guess=self.epsilon0, tolerance=1e-5, floor=epsilon
        )

    def delta_lower(self, epsilon: float) -> float:
        """A lower bound: the delta of the worst data set that was found, rounded down."""
        point = Point.below(self.flip, epsilon)
        if point is None:
            return 0.0
        return math.exp(_truth(point, *self._cells(point, epsilon)))

    def delta_at(self, ones: int, zeros: int, epsilon: float) -> float:
        """The larger direction for one data set: so many of the others hold 1, and so many 0.

        >>> rr = BinaryResponse(n=100, flip=Fraction(1, 10))
        >>> f"{rr.delta_at(0, 99, 0.5):.6e}"
        '9.798434e-03'
        """
        return max(self.directions_at(ones, zeros, epsilon))

    def directions_at(self, ones: int, zeros: int, epsilon: float) -> tuple[float, float]:
        """Upper bounds of (target 1 against 0, target 0 against 1) for one data set.

        >>> rr = BinaryResponse(n=100, flip=Fraction(1, 10))
        >>> [f"{delta:.6e}" for delta in rr.directions_at(0, 99, 0.5)]
        ['1.322261e-03', '9.798434e-03']
        """
        whole("ones", ones, at_least=0, at_most=self.n - 1)
        whole("zeros", zeros, at_least=0, at_most=self.n - 1 - ones)
        point = Point.above(self.flip, epsilon)
        if point is None:
            return 0.0, 0.0
        first, second = point.logs(np.array([ones, zeros]), np.array([zeros, ones]))
        return _as_delta(float(first)), _as_delta(float(second))

    def epsilon(self, delta: float) -> float:
        """Nearly the smallest epsilon with delta(epsilon) <= delta, and always one of them.

        It is rounded up by a part in 10^6, and by what the cells leave open.
        """
        fraction_of_one("delta", delta)

        def all_of_them(epsilon: float) -> float:
            return math.log(max(self.delta(epsilon), SMALLEST_DELTA) / delta)

        # The worst cells decide. Solve for them alone, then ask all of them once.
        guess = gaussian_epsilon(self._mu, delta)
        for _ in range(5):
            guess = self._solve_for_worst(min(guess, 0.999 * self.epsilon0), math.log(delta))
            if all_of_them(guess) <= 0:
                return guess
        return smallest_safe(all_of_them, safe=self.epsilon0, guess=guess)

    def _solve_for_worst(self, guess: float, log_delta: float) -> float:
        point = Point.above(self.flip, guess)
        if point is None:
            return self.epsilon0
        lo, hi, upper = self._cells(point, guess)
        worst = np.argsort(upper)[-_WORST:]
        return smallest_safe(
            _excess(self.flip, lo[worst], self.n - 1 - hi[worst], log_delta),
            safe=self.epsilon0,
            guess=guess,
        )

    @property
    def _mu(self) -> float:
        """The view is about this Gaussian pair."""
        return float(1 - 2 * self.flip) / math.sqrt(self._variance)

    @property
    def _variance(self) -> float:
        """Of the number of ones, whatever the data."""
        return float(self.n * self.flip * (1 - self.flip))

    def _cells(self, point: Point, epsilon: float) -> tuple[Floats, Floats, Floats]:
        """First and last s of each cell, and the logarithm of its bound at this epsilon."""
        # Most of the work is done once, for a nearby flip and epsilon in coarse steps: any cells
        # that cover all s will do.
        smallest = 0.01 * min(self._mu, self.epsilon0)
        lo, hi = _cells(self.n, _coarse(self.epsilon0), _coarse(max(epsilon, smallest)))
        return _refined(point, lo, hi, len(lo) + _budget(self._variance) // 4)


@lru_cache(maxsize=64)
def _worst(response: BinaryResponse, epsilon: float) -> tuple[Floats, Floats, float] | None:
    """Ones and zeros of the worst cells, and the largest logarithm; None where delta is 0."""
    point = Point.above(response.flip, epsilon)
    if point is None:
        return None
    lo, hi, upper = response._cells(point, epsilon)
    worst = np.argsort(upper)[-_WORST:]
    return lo[worst], response.n - 1 - hi[worst], float(upper.max())


def gaussian_epsilon0(*, n: int, epsilon: float, delta: float) -> float:
    """About the epsilon0 of n shuffled bits at (epsilon, delta), if the view were Gaussian.

    mu = (1 - 2 f) / sqrt(n f (1 - f)) and 1 - 2 f = tanh(epsilon0 / 2).

    >>> round(gaussian_epsilon0(n=10_000, epsilon=0.1, delta=1e-6), 2)
    2.25
    """
    mu = epsilon
    for _ in range(12):
        mu *= (epsilon / gaussian_epsilon(mu, delta)) ** 0.8
    odds = mu * mu * n / 4
    return min(2 * math.asinh(math.sqrt(odds)), _LARGEST_EPSILON0)


def _flip_of(epsilon0: float) -> Fraction:
    return Fraction(1 / (1 + math.exp(epsilon0)))


def _coarse(value: float) -> float:
    return float(2.0 ** (round(2 * math.log2(value)) / 2))


def _excess(
    flip: Fraction, ones: Floats, zeros: Floats, log_delta: float
) -> Callable[[float], float]:
    floor = math.log(SMALLEST_DELTA)

    def excess(epsilon: float) -> float:
        point = Point.above(flip, epsilon)
        if point is None:
            return -math.inf
        return max(float(point.logs(ones, zeros).max()), floor) - log_delta

    return excess


def _as_delta(log: float) -> float:
    return min(1.0, max(math.exp(min(log, 0.0)) * (1 + 4 * _UNIT), SMALLEST_DELTA))


@lru_cache(maxsize=32)
def _cells(n: int, epsilon0: float, epsilon: float) -> tuple[Floats, Floats]:
    """First and last s of each cell; every s in 0 .. n - 1 is in one."""
    if n <= _EXACT:
        every = np.arange(n, dtype=np.float64)
        return every, every
    flip = _flip_of(epsilon0)
    point = Point.above(flip, min(epsilon, 0.98 * epsilon0))
    assert point is not None  # epsilon is below epsilon0
    lo, hi, _ = _refined(point, *_first_cells(n), _budget(float(n * flip * (1 - flip))))
    return lo, hi


def _refined(point: Point, lo: Floats, hi: Floats, budget: int) -> tuple[Floats, Floats, Floats]:
    """The same range in finer cells, and the logarithm of each cell's upper bound."""
    others = hi.max()
    upper = point.logs(lo, others - hi)
    while len(lo) < budget:
        loose = np.flatnonzero((upper > _truth(point, lo, hi, upper) + _TOLERANCE) & (hi > lo))
        if not len(loose):
            break
        # The worst half of them, so that a budget that runs out was spent where it matters.
        half = loose[np.argsort(upper[loose])][-max(len(loose) // 2, 8) :]
        half = half[-(budget - len(lo)) :]
        middle = np.floor((lo[half] + hi[half]) / 2)
        new_lo, new_hi = np.append(lo[half], middle + 1), np.append(middle, hi[half])
        new_upper = point.logs(new_lo, others - new_hi)
        lo, hi = np.append(np.delete(lo, half), new_lo), np.append(np.delete(hi, half), new_hi)
        upper = np.append(np.delete(upper, half), new_upper)
    return lo, hi, upper


def _truth(point: Point, lo: Floats, hi: Floats, upper: Floats) -> float:
    """ln of the largest delta among a few data sets: all equal, and the ends of the worst cells."""
    worst = np.argsort(upper)[-_WORST:]
    others = hi.max()
    ones = np.unique(np.concatenate([[0.0, others], lo[worst], hi[worst]]))
    return float(point.logs(ones, others - ones).max())


def _first_cells(n: int) -> tuple[Floats, Floats]:
    near = np.geomspace(1, n / 4, 24)
    starts = np.unique(np.floor(np.concatenate([[0.0], near, np.linspace(0, n, 33), n - near])))
    starts = starts[starts < n]
    return starts, np.append(starts[1:] - 1, n - 1.0)


def _budget(variance: float) -> int:
    return int(min(max(_WORK / (30 * math.sqrt(variance) + 100), 100), 1500))
