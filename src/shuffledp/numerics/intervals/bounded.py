r"""Unbiased answers whose law depends on more than the truth: intervals by certified bounds of their tails.

An answer is a sum of independent terms, each within `reach` of its expectation, and of its variance v it is known
that least <= v <= most, over all data with the same true answer. Two bounds hold for Pr[answer - truth >= t]:

    exp(-(v / reach^2) h(reach t / v)),  h(u) = (1 + u) ln(1 + u) - u                     (Bennett)
    Phi(-t / sqrt(v)) + 0.56 reach / sqrt(v)                                              (Berry, Esseen)

The first is good for few people, the second for many: 0.56 is the constant for independent terms of different laws of
Shevtsova 2010, "An improvement of convergence rate estimates in the Lyapunov theorem", Doklady Mathematics 82(3),
862-864, in front of the sum of the third absolute moments over v^(3/2); that sum is at most reach * v.

A truth is refused if, for every v, one of the bounds is at most (1 - level) / 2. From `least` to `most` is cut into
ranges of v. In each, the first bound and Phi are largest at its upper end, a share of `most`, and 0.56 reach / sqrt(v)
at its lower one. If `most` is a concave function of the truth, then the first bound alone leaves an interval around
the answer (it is quasi-convex). The smallest `most` in that interval makes 0.56 reach / sqrt(v) a constant in each
range, so that the second bound is quasi-convex, too. What is left in each range is an interval around the answer,
and all together are one: bisection finds its ends.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from shuffledp.core.arrays import Bools, Floats
from shuffledp.core.estimate import Interval, Value
from shuffledp.core.validate import level as valid_level

_ESSEEN = 0.56
_HALVINGS = 40
_SHARES = (1.0, 0.8, 0.64, 0.5, 0.4, 0.3)
"""The upper ends of ranges of variances, as shares of the largest."""
_ROUNDING = 1 + 1e-9
_LARGEST_TAIL = 0.2  # where the argument of `OneBitError` holds, with room
_ROUNDED = 1e-8  # of the width of an interval: more than SciPy's roots are off
_TINY = 1e-4  # below, h is bounded by its series: no digits are lost


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundedError:
    """The error of an unbiased answer to which each person adds at most `reach` more than expected.

    With x = truth - origin, the variance is at most a + b x + c x^2, (a, b, c) = `most`, c <= 0; and at least `least`.

    >>> error = BoundedError(
    ...     stderr=1.0, most=(1.0, 0.0, 0.0), least=1.0, reach=0.001, limits=(0.0, 100.0)
    ... )
    >>> [round(end, 2) for end in error.interval(50.0, 0.95)]
    [48.03, 51.97]
    """

    stderr: Value
    most: tuple[Value, float, float]
    least: Value
    reach: float
    limits: tuple[float, Value]
    """Between what the truth lies."""
    origin: float = 0.0
    bias: float = 0.0
    """By how much the answer is off at most on average."""

    def interval(self, value: Value, level: float) -> Interval:
        """Covers with probability at least `level` at any n, by bounds of the tails."""
        return self.leave_out((1 - valid_level(level)) / 2, value)

    exact_interval = interval

    def leave_out(self, tail: float, value: Value) -> Interval:
        """Return the truths that are not refused at this tail, on either side."""
        seen = np.asarray(value, dtype=np.float64)
        start = np.clip(seen, *self.limits)

        def few(truth: Floats) -> Bools:
            return self._bennett(self._off(seen, truth), self._variance(truth), tail)

        ends = [np.broadcast_to(np.asarray(end, np.float64), seen.shape) for end in self.limits]
        low, high = (_search(start, end, few) for end in ends)
        scores = self._scores(np.minimum(self._variance(low), self._variance(high)), tail)

        def many(truth: Floats) -> Bools:
            off, most = self._off(seen, truth), self._variance(truth)
            score, refused = off / np.sqrt(most), np.ones(seen.shape, dtype=bool)
            for share, least in zip(_SHARES, scores, strict=True):
                normal = score >= least * math.sqrt(share)
                refused &= normal | self._bennett(off, most * share, tail)
            return refused

        low, high = (_search(start, end, many) for end in (low, high))
        if seen.ndim:
            return Interval(low, high)
        return Interval(float(low), float(high))

    def _variance(self, truth: Floats) -> Floats:
        """Return the largest one of data with this answer."""
        a, b, c = self.most
        x = truth - self.origin
        variance: Floats = np.asarray(a + x * (b + x * c))
        return variance

    def _off(self, seen: Floats, truth: Floats) -> Floats:
        off: Floats = np.maximum(np.abs(seen - truth) - self.bias, 0.0)
        return off

    def _bennett(self, off: Floats, most: Floats, tail: float) -> Bools:
        """Return whether the first bound is at most `tail`."""
        u = self.reach * off / most
        h = np.where(u < _TINY, u * u / 2 * (1 - u / 3), (1 + u) * np.log1p(u) - u)
        refused: Bools = most / self.reach**2 * h >= -math.log(tail) * _ROUNDING
        return refused

    def _scores(self, smallest: Floats, tail: float) -> list[Floats]:
        """For each range, the smallest t / sqrt(v) at which the second bound is at most `tail`."""
        floors = [np.maximum(self.least, smallest * share) for share in _SHARES[1:]]
        ends = [*floors, np.broadcast_to(np.asarray(self.least, np.float64), smallest.shape)]
        left = (tail - _ESSEEN * self.reach / np.sqrt(end) for end in ends)
        return [_ROUNDING * _isf(each) for each in left]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OneBitError:
    r"""The error of a mean of n people who send one bit each, with a chance of a one that is affine in their value.

    The number of ones S is a sum of independent coins, and the truth tells the mean m = E[S], but not the coins. By
    Hoeffding 1956, "On the distribution of the number of successes in independent trials" (Theorem 4), no coins of
    the same mean have Pr[S <= c] smaller than n equal ones if c >= m. So Pr[S >= k] <= Pr[Bin(n, m / n) >= k] if
    k >= m + 1, and likewise on the other side: the interval of Clopper and Pearson covers, whatever the coins are.
    It ends where k >= m + 1: for k > 1 and m = k - 1 that probability is at least 1/4, far more than a tail. For k = 1
    Markov's inequality, Pr[S >= 1] <= m, stands in. No interval could be narrower, since equal values are among the
    data with that mean.

    >>> error = OneBitError(stderr=0.1, n=100, chances=(0.25, 0.75), limits=(0.0, 1.0))
    >>> [round(end, 3) for end in error.interval(0.5, 0.95)]
    [0.297, 0.703]
    """

    stderr: Value
    n: int
    chances: tuple[float, float]
    """Of a one, at either end of the range."""
    limits: tuple[float, float]
    bias: float = 0.0
    """By how much the answer is off at most on average."""

    def interval(self, value: Value, level: float) -> Interval:
        """Covers with probability at least `level` at any n and for any data."""
        from scipy.special import betaincinv

        tail, n = min((1 - valid_level(level)) / 2, _LARGEST_TAIL), self.n
        (start, end), (lower, upper) = self.chances, self.limits
        slope = (end - start) / (upper - lower)
        shares = start + slope * (np.asarray(value, dtype=np.float64) - lower)
        ones = np.rint(np.clip(n * shares, 0, n))

        def least(seen: Floats) -> Floats:
            """Return the smallest mean share of ones that is not refused."""
            inner = betaincinv(np.maximum(seen, 1), n - np.maximum(seen, 1) + 1, tail)
            return np.where(seen > 1, inner, np.where(seen > 0, tail / n, 0.0))

        low, high = least(ones), 1 - least(n - ones)
        off = self.bias + _ROUNDED * (high - low) / slope
        ends = (lower + (low - start) / slope - off, lower + (high - start) / slope + off)
        first, second = (np.clip(each, lower, upper) for each in ends)
        if np.ndim(value):
            return Interval(first, second)
        return Interval(float(first), float(second))

    exact_interval = interval


def _isf(tail: Floats) -> Floats:
    """z with Pr[normal >= z] = tail; infinite where there is none."""
    normal = NormalDist()
    distinct, back = np.unique(tail, return_inverse=True)
    found = [-normal.inv_cdf(each) if each > 0 else math.inf for each in distinct.tolist()]
    return np.array(found)[back].reshape(tail.shape)


def _search(kept: Floats, end: Floats, refuses: Callable[[Floats], Bools]) -> Floats:
    """Return the first truth that is rejected between `kept` and `end`, or the end."""
    everything, refused = ~refuses(end), end
    for _ in range(_HALVINGS):
        middle = (kept + refused) / 2
        over = refuses(middle)
        kept, refused = np.where(over, kept, middle), np.where(over, middle, refused)
    return np.where(everything, end, refused)
