r"""How far the people who were asked may differ from all: a sample that was drawn without replacement.

m of n people were asked. A truth about all is refused if samples at least as far from it have a probability of at
most `tail`. What is not refused covers except with that probability on either side, for any n and any data.

*Shares.* If K of the n hold something, a sample has X ~ Hypergeometric(n, K, m) of them, and Pr[X <= x] falls with K:
K is refused if that is at most the tail, as Clopper and Pearson do for the binomial law. The terms of the tail fall
faster and faster, so what is left after some of them is at most a geometric series. Rounding is bounded and added.

*Means* of values in [0, 1]. Pr[mean <= s] <= exp(-m KL(s || mu)) for s <= mu, without replacement, too (Hoeffding
1963, Theorems 1 and 4), and Pr[mean <= mu - t] <= exp(-2 m t^2 / (1 - (m - 1) / n)) (Serfling 1974). Given mu, each
refuses all s up to some point, so both together refuse no more than the one with the further point does: the better
bound may be taken. Shares of more than 10^7 people are bounded in this way, too.

**The ratio of two noisy sums**: intervals by inverting the law of numerator - r denominator.

A mean is S / R, S and R sums of the same people with |S| <= R (values are measured from the middle of their range, in
halves of it). Both are released with independent noise, S + Z_S and R + Z_R. The true ratio r has S - r R = 0, so

    D(r) = (S + Z_S) - r (R + Z_R)   is   Z_S - r Z_R,

whose law is known for every r (Fieller's way). A ratio is refused if D(r) is where that noise is with probability at
most (1 - level) / 2, on its side. What is not refused covers the true ratio with at least the level. If R may be 0,
then nothing is refused, and the interval is the whole range.

**The tail.** Let Z_R be symmetric, and let Pr[Z_R > x_j] <= b_j / 2 at some points x_j, and the same for Z_S on both
sides. With probability at least 1/2, r Z_R does not help; otherwise it is at most r x_(j + 1), with probability
(b_j - b_(j + 1)) / 2 in the worst law that has these tails. So

    Pr[Z_S - r Z_R > t] <= (Pr[Z_S > t] + sum_j (b_j - b_(j + 1)) Pr[Z_S > t - |r| x_(j + 1)] + b_last) / 2.

For noise of Laplace's kind and r = 1 it is e^-t (3 + t) / 4 against the true e^-t (2 + t) / 4, but for the distance
of the points. It grows with |r|, so that a whole range of ratios is refused at once: by the smallest |D| and the
largest |r| in it.

Where the laws of the noises are not known so well, both sums have intervals that hold together.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import ErrorLaw, Estimate, Interval, Value
from shuffledp.core.arrays import Bools, Floats
from shuffledp.core.validate import level as valid_level
from shuffledp.numerics.intervals.laplace import (
    DifferenceError,
    DiscreteLaplaceError,
    SharedNoiseError,
)
from shuffledp.numerics.rounding import UNIT

Ends = tuple[float, float] | None
"""The ends of the values that are averaged; None: the answer is a share."""

_MOST = 10**7  # people whose shares have exact tails, which take time in proportion to its root
_BLOCK = 256  # terms of a tail at a time
_LEFT = 1e-7  # of a tail: what its other terms may add to it
_HALVINGS = 60  # of an interval of means
_FEW_HALVINGS = 12  # of an interval of counts that is hardly too wide
_WHOLE = 1e-6  # by which a whole number may be off


def sampling_variance(value: ArrayLike, sampled: int, people: int, ends: Ends = None) -> Floats:
    """Return how far the share or mean of a sample varies: at most, if it is a mean.

    >>> round(float(sampling_variance(0.5, 100, 1000)), 6)
    0.00225
    """
    left = max(0.0, 1 - sampled / people) / sampled
    share = np.clip(np.asarray(value, dtype=np.float64), 0.0, 1.0)
    spread = (
        share * (1 - share) if ends is None else np.full_like(share, (ends[1] - ends[0]) ** 2 / 4)
    )
    variance: Floats = spread * left
    return variance


def bound_sampling(
    low: ArrayLike, high: ArrayLike, sampled: int, people: int, outside: float, ends: Ends = None
) -> tuple[Floats, Floats]:
    """Bound the share or mean of all, except with probability `outside`, if that of a sample is in low .. high.

    Where nobody of 100 has something, up to 34 of 1000 may have it:

    >>> [round(float(end), 3) for end in bound_sampling(0.0, 0.0, 100, 1000, 0.05)]
    [0.0, 0.034]
    >>> [round(float(end), 3) for end in bound_sampling(0.4, 0.6, 100, 1000, 0.05)]
    [0.308, 0.692]
    """
    lower, upper = ends or (0.0, 1.0)
    reach = upper - lower
    first, last = ((np.asarray(end, dtype=np.float64) - lower) / reach for end in (low, high))
    if ends is None:
        first, last = _round_counts(first, last, sampled)
    else:
        first, last = (np.clip(end, 0.0, 1.0) for end in (first - 4 * UNIT, last + 4 * UNIT))
    find = _bound_share if ends is None and people <= _MOST else _bound_mean
    least = 1 - find(1 - first, sampled, people, outside / 2)
    most = find(last, sampled, people, outside / 2)
    # Outwards by more than the roundings of these lines and of multiplying by the people.
    least, most = least - 4 * UNIT, most + 4 * UNIT
    return (
        np.where(least > 0, lower + reach * least, lower),
        np.where(most < 1, lower + reach * most, upper),
    )


def bound_population(low: Floats, high: Floats, sampled: int, tail: float) -> tuple[Floats, Floats]:
    """Bound the share of yes in a population, if `sampled` people are a random sample of it, and low to high of them
    said yes.

    Clopper and Pearson 1934: exact tails of the binomial law, `tail` on either side. A sample that was drawn without
    replacement has smaller tails (Hoeffding 1963, theorem 4).

    >>> [round(float(end[0]), 3) for end in bound_population(np.array([0.0]), np.array([5.0]), 100, 0.025)]
    [0.0, 0.113]
    """
    from scipy.special import betaincinv

    few, many = np.clip(np.ceil(low), 0, sampled), np.clip(np.floor(high), 0, sampled)
    below = np.where(few > 0, betaincinv(np.maximum(few, 1), sampled - few + 1, tail), 0.0)
    above = np.where(
        many < sampled, betaincinv(many + 1, np.maximum(sampled - many, 1), 1 - tail), 1.0
    )
    return np.maximum(below * (1 - 1e-9), 0.0), np.minimum(above * (1 + 1e-9), 1.0)


def _round_counts(low: Floats, high: Floats, sampled: int) -> tuple[Floats, Floats]:
    """Round to whole people: the shares of the first and the last count between two shares of a sample."""
    first = np.ceil(np.clip(low, 0.0, 1.0) * sampled - _WHOLE)
    last = np.floor(np.clip(high, 0.0, 1.0) * sampled + _WHOLE)
    return np.minimum(first, last) / sampled, np.maximum(first, last) / sampled


def _bound_mean(mean: Floats, sampled: int, people: int, tail: float) -> Floats:
    """Return the smallest mean of all that is refused if that of a sample is at most `mean`; values are in [0, 1]."""
    if sampled >= people:
        return mean
    needed = -math.log(tail) / sampled
    kept, refused = mean, np.ones_like(mean)
    for _ in range(_HALVINGS):
        middle = (kept + refused) / 2
        over = _diverge(mean, middle) >= needed
        kept, refused = np.where(over, kept, middle), np.where(over, middle, refused)
    serfling = math.sqrt((1 - (sampled - 1) / people) * needed / 2)
    first_refused: Floats = np.minimum(refused, mean + serfling * (1 + 8 * UNIT))
    return first_refused


def _diverge(s: Floats, p: Floats) -> Floats:
    """Return KL(s || p), or a little less, for s <= p."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ones = np.where(s > 0, s * np.log(s / p), 0.0)
        others = np.where(s < 1, (1 - s) * np.log((1 - s) / (1 - p)), 0.0)
        divergence: Floats = ones + others - 16 * UNIT * (1 + others)
    return divergence


def _bound_share(share: Floats, sampled: int, people: int, tail: float) -> Floats:
    """Return the largest share of all that is not refused if a sample has at most this one."""
    x, back = np.unique(np.rint(share * sampled), return_inverse=True)
    bound = _bound_mean(x / sampled, sampled, people, tail)
    kept = np.floor(x * (people / sampled) * (1 - 4 * UNIT))  # with a median of at most x
    refused = np.minimum(np.ceil(people * bound) + 1, people - sampled + x + 1)
    for _ in range(_FEW_HALVINGS):
        middle = np.floor((kept + refused) / 2)
        over = _sum_tail(x, middle, sampled, people) <= tail
        kept, refused = np.where(over, kept, middle), np.where(over, middle, refused)
    largest: Floats = ((refused - 1) / people)[back].reshape(np.shape(share))
    return largest


def _sum_tail(x: Floats, holders: Floats, sampled: int, people: int) -> Floats:
    """Return Pr[X <= x], or a little more, X the number of holders in a sample.

    >>> _sum_tail(np.array([1.0]), np.array([3.0]), 2, 5).round(6)
    array([0.7])
    """
    from scipy.special import gammaln

    def choose(n: ArrayLike, k: ArrayLike) -> Floats:
        log_ways: Floats = (
            gammaln(np.add(n, 1)) - gammaln(np.add(k, 1)) - gammaln(np.subtract(n, k) + 1)
        )
        return log_ways

    others = people - holders
    size = choose(holders, x) + choose(others, sampled - x) - choose(people, sampled)
    error = 128 * UNIT * (1 + float(gammaln(people + 1)))  # of nine logarithms, none larger
    total, term, left = np.ones_like(x), np.ones_like(x), np.full_like(x, np.inf)
    start = 0
    while (left > _LEFT * total).any():
        k = x[:, None] - np.arange(start, start + _BLOCK)
        down = np.maximum(k, 0) * np.maximum(others[:, None] - sampled + k, 0)
        ratios = down / ((holders[:, None] - k + 1) * (sampled - k + 1))
        terms = term[:, None] * np.cumprod(ratios, axis=1)
        total, term, ratio = total + terms.sum(axis=1), terms[:, -1], ratios[:, -1]
        left = np.where(ratio < 1, term * ratio / np.maximum(1 - ratio, UNIT), np.inf)
        start += _BLOCK
    tail: Floats = np.exp(size + error) * (total + left) * (1 + _LEFT)
    return tail


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
    """The two ends between which the mean lies."""

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
        """Return an interval that covers the truth with probability at least `level`, by bounds of the tails."""
        outside = 1 - valid_level(level)
        known = isinstance(self.top.error, _SYMMETRIC) and isinstance(self.rows.error, _SYMMETRIC)
        low, high = self._invert(outside) if known else self._cover(outside)
        lower, upper = self.ends
        slack = 1e-12 * (upper - lower)
        return Interval(max(self._place(low) - slack, lower), min(self._place(high) + slack, upper))

    exact_interval = interval

    def covers_all(self, level: float) -> bool:
        """Return whether nothing is known about the mean: all that was seen may be noise."""
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
        """Combine intervals of both sums, each of which misses with half of the probability."""
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
    """Return a ratio up to which all ratios from the start on are refused; the end, if all of them are."""
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
        """Bound Pr[Z_S - r Z_R > t] from above, for each t >= 0 and each |r|."""
        masses = -np.diff(self.tails, prepend=1.0)  # b_j - b_(j + 1), from b_0 = 1
        left = t[:, None] - ratios[:, None] * self.rows  # [ratios, points]
        moved = self._exceed(left) @ masses + self.tails[-1]
        bounds: Floats = (self._exceed(t) + moved) / 2 * _ROUNDING
        return bounds

    def _exceed(self, x: Floats) -> Floats:
        """Bound Pr[Z_S > x] from above."""
        place = np.searchsorted(self.top, x / _ROUNDING, side="right")
        halves = np.append(1.0, self.tails / 2)
        bounds: Floats = halves[place]
        return bounds
