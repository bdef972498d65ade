r"""The ratio of two noisy sums: intervals by inverting the law of numerator - r denominator.

A mean is S / R, S and R sums of the same people with |S| <= R (values are measured from the middle of their range, in
halves of it). Both are released with independent noise, S + Z_S and R + Z_R. The true ratio r has S - r R = 0, so

    D(r) = (S + Z_S) - r (R + Z_R)   is   Z_S - r Z_R,

whose law is known for every r (Fieller's way). A ratio is refused if D(r) is where that noise is with probability at
most (1 - level) / 2, on its side. What is not refused covers the true ratio with at least the level. If R may be 0, then
nothing is refused, and the interval is the whole range.

**The tail.** Let Z_R be symmetric, and let Pr[Z_R > x_j] <= b_j / 2 at some points x_j, and the same for Z_S on both
sides. With probability at least 1/2, r Z_R does not help; otherwise it is at most r x_(j + 1), with probability
(b_j - b_(j + 1)) / 2 in the worst law that has these tails. So

    Pr[Z_S - r Z_R > t] <= (Pr[Z_S > t] + sum_j (b_j - b_(j + 1)) Pr[Z_S > t - |r| x_(j + 1)] + b_last) / 2.

For noise of Laplace's kind and r = 1 it is e^-t (3 + t) / 4 against the true e^-t (2 + t) / 4, but for the distance of the
points. It grows with |r|, so that a whole range of ratios is refused at once: by the smallest |D| and the largest |r| in it.

Where the laws of the noises are not known so well, both sums have intervals that hold together.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Bools, Floats
from shuffledp.core.estimate import ErrorLaw, Estimate, Interval, Value
from shuffledp.core.validate import level as valid_level
from shuffledp.numerics.intervals.laplace import (
    DifferenceError,
    DiscreteLaplaceError,
    SharedNoiseError,
)

_SYMMETRIC = (DifferenceError, DiscreteLaplaceError, SharedNoiseError)
_RATIO, _FARTHEST = 0.9, 1e-3  # of neighbouring tails; of what an interval may miss
_CELLS, _PARTS, _ROUNDS = 512, 64, 3  # of the ratios between -1 and 1
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RatioError:
    """The error of a mean: lower + (1 + S / (half R)) (upper - lower) / 2.

    >>> from fractions import Fraction
    >>> from shuffledp.numerics.intervals.laplace import DiscreteLaplace
    >>> law = DiscreteLaplaceError(noise=DiscreteLaplace(rate=Fraction(1, 2)), shape=())
    >>> top, rows = (Estimate(value=value, error=law, limits=(0.0, 1e3)) for value in (-20.0, 100.0))
    >>> error = RatioError(top=top, rows=rows, half=1.0, ends=(0.0, 10.0))
    >>> round(error.value, 2), [round(end, 2) for end in error.interval(error.value, 0.95)]
    (4.0, [3.69, 4.3])
    >>> error.covers_all(0.95)
    False
    """

    top: Estimate
    """The sum S, in units of which each row has at most `half`."""
    rows: Estimate
    half: float
    ends: tuple[float, float]
    """Between what the mean lies."""

    @property
    def _ratio(self) -> float:
        rows = max(float(self.rows.value), 1.0)
        return min(max(float(self.top.value) / (self.half * rows), -1.0), 1.0)

    def _place(self, ratio: float) -> float:
        lower, upper = self.ends
        return min(max(lower + (1 + ratio) * (upper - lower) / 2, lower), upper)

    @property
    def value(self) -> float:
        """The ratio of the noisy sums, within its ends: not quite unbiased, as no ratio is."""
        return self._place(self._ratio)

    @property
    def stderr(self) -> Value:
        """About the standard deviation, where there are many rows: of numerator - r denominator, over the rows."""
        lower, upper = self.ends
        noise = math.hypot(
            float(self.top.stderr) / self.half, self._ratio * float(self.rows.stderr)
        )
        return noise / max(float(self.rows.value), 1.0) * (upper - lower) / 2

    def interval(self, value: Value, level: float) -> Interval:
        """Covers with probability at least `level`, by bounds of the tails."""
        outside = 1 - valid_level(level)
        known = isinstance(self.top.error, _SYMMETRIC) and isinstance(self.rows.error, _SYMMETRIC)
        low, high = self._invert(outside) if known else self._cover(outside)
        lower, upper = self.ends
        slack = 1e-12 * (upper - lower)
        return Interval(max(self._place(low) - slack, lower), min(self._place(high) + slack, upper))

    exact_interval = interval

    def covers_all(self, level: float) -> bool:
        """Whether nothing is known of the mean: the noise may be all that was seen."""
        return self.interval(0.0, level) == self.ends

    def _invert(self, outside: float) -> tuple[float, float]:
        law = _find_tails(self.top.error, self.rows.error, self.half, outside)  # type: ignore[arg-type]
        seen, rows = float(self.top.value), float(self.rows.value) * self.half

        def refuse(starts: Floats, ends: Floats) -> Bools:
            first, last = seen - starts * rows, seen - ends * rows
            apart = np.where(first * last > 0, np.minimum(np.abs(first), np.abs(last)), 0.0)
            widest = np.maximum(np.abs(starts), np.abs(ends))
            refused: Bools = law.bound(apart / _ROUNDING, widest) <= outside / 2
            return refused

        low, high = (_seek(refuse, -side, side) for side in (1.0, -1.0))
        return (low, high) if low <= high else (self._ratio, self._ratio)

    def _cover(self, outside: float) -> tuple[float, float]:
        """From intervals of both sums, each of which misses with half of the probability."""
        low, high = (float(end) / self.half for end in self.top.interval(1 - outside / 2))
        least, most = (float(end) for end in self.rows.interval(1 - outside / 2))
        most = max(most, 1.0)
        fewest = max(least, 0.0)

        def divide(total: float) -> float:
            return math.copysign(1.0, total) if abs(total) >= fewest else total / fewest

        lowest = divide(low) if low < 0 else low / most
        highest = divide(high) if high > 0 else high / most
        return max(lowest, -1.0), min(highest, 1.0)


@lru_cache(maxsize=16)  # errors are compared by identity
def _find_tails(top: ErrorLaw, rows: ErrorLaw, half: float, outside: float) -> "_Tails":
    count = math.ceil(math.log(outside * _FARTHEST) / math.log(_RATIO))
    tails: Floats = np.power(_RATIO, np.arange(1, count + 1, dtype=np.float64))
    points = [
        np.array([float(law.interval(0.0, 1 - tail).high) for tail in tails]) for law in (top, rows)
    ]
    return _Tails(tails=tails, top=points[0], rows=points[1] * half)


def _seek(refuse: Callable[[Floats, Floats], Bools], start: float, end: float) -> float:
    """From the start on all ratios up to this one are refused; the end, if all of them are."""
    parts = _CELLS
    for _ in range(1 + _ROUNDS):
        edges = np.linspace(start, end, parts + 1)
        kept = np.flatnonzero(~refuse(edges[:-1], edges[1:]))
        if not len(kept):
            return end
        start, end = float(edges[kept[0]]), float(edges[kept[0] + 1])
        parts = _PARTS
    return start


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tails:
    """Points that the noises exceed with probability tails[j] / 2 at most, on either side."""

    tails: Floats
    top: Floats
    rows: Floats

    def bound(self, t: Floats, ratios: Floats) -> Floats:
        """At least Pr[Z_S - r Z_R > t] for each t >= 0 and each |r|."""
        masses = -np.diff(self.tails, prepend=1.0)  # b_j - b_(j + 1), from b_0 = 1
        left = t[:, None] - ratios[:, None] * self.rows  # [ratios, points]
        moved = self._exceed(left) @ masses + self.tails[-1]
        found: Floats = (self._exceed(t) + moved) / 2 * _ROUNDING
        return found

    def _exceed(self, x: Floats) -> Floats:
        """At least Pr[Z_S > x]."""
        place = np.searchsorted(self.top, x / _ROUNDING, side="right")
        halves = np.append(1.0, self.tails / 2)
        found: Floats = halves[place]
        return found
