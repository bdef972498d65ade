r"""Unbiased answers whose law depends on more than the truth: intervals by certified bounds of their tails.

An answer is a sum of independent terms, each within `reach` of its expectation, and of its variance v it is known
that least <= v <= most, over all data with the same true answer. Two bounds hold for Pr[answer - truth >= t]:

    exp(-(v / reach^2) h(reach t / v)),  h(u) = (1 + u) ln(1 + u) - u,  at v = most       (Bennett)
    Phi(-t / sqrt(most)) + 0.56 reach / sqrt(least)                                       (Berry, Esseen)

The first is good for few people, the second for many: 0.56 is the constant for independent terms of different laws of
Shevtsova 2010, "An improvement of convergence rate estimates in the Lyapunov theorem", Doklady Mathematics 82(3),
862-864, in front of the sum of the third absolute moments over v^(3/2); that sum is at most reach * v. The interval holds every truth that the smaller of the two
does not refuse at (1 - level) / 2. If `most` is a concave function of the truth, then what is not refused is an
interval around the answer (both bounds are quasi-convex), so that bisection finds its ends.
"""

import math
from dataclasses import dataclass

import numpy as np

from shuffledp.core.arrays import Bools, Floats
from shuffledp.core.estimate import Interval, Value
from shuffledp.core.validate import level as valid_level

__all__ = ["BoundedError", "bound_tail"]

_ESSEEN = 0.56
_HALVINGS = 60
_MANY = 4096


def bound_tail(t: Floats, *, most: Floats, least: Value, reach: float) -> Floats:
    """At least Pr[answer - truth >= t], t >= 0.

    >>> bound_tail(np.array([2.0]), most=np.array([1.0]), least=1.0, reach=1e-3).round(4)
    array([0.0233])
    """
    u = reach * t / most
    bennett = np.exp(-most / reach**2 * ((1 + u) * np.log1p(u) - u))
    esseen = _normal_tail(t / np.sqrt(most)) + _ESSEEN * reach / np.sqrt(least)
    return np.minimum(bennett, esseen) * (1 + 1e-9)


def _normal_tail(z: Floats) -> Floats:
    """Pr[normal >= z]. Importing SciPy takes longer than a few thousand values."""
    if z.size > _MANY:
        from scipy.special import ndtr

        tail: Floats = ndtr(-z)
        return tail
    each = [math.erfc(value) / 2 for value in (z / math.sqrt(2)).ravel().tolist()]
    return np.array(each).reshape(z.shape)


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

    def exact_interval(self, value: Value, level: float) -> Interval:
        """The same: it holds at any n."""
        return self.interval(value, level)

    def leave_out(self, tail: float, value: Value) -> Interval:
        """The truths that are not refused at this tail, on either side."""
        seen = np.asarray(value, dtype=np.float64)
        start = np.clip(seen, *self.limits)
        low = self._end(seen, start, np.broadcast_to(self.limits[0], seen.shape), tail)
        high = self._end(seen, start, np.broadcast_to(self.limits[1], seen.shape), tail)
        if seen.ndim:
            return Interval(low, high)
        return Interval(float(low), float(high))

    def _end(self, seen: Floats, kept: Floats, refused: Floats, tail: float) -> Floats:
        """Where truths begin to be refused on the way from `kept` to `refused`."""
        everything = ~self._refuses(seen, refused, tail)
        edge = refused
        for _ in range(_HALVINGS):
            middle = (kept + refused) / 2
            over = self._refuses(seen, middle, tail)
            kept, refused = np.where(over, kept, middle), np.where(over, middle, refused)
        return np.where(everything, edge, refused)

    def _refuses(self, seen: Floats, truth: Floats, tail: float) -> Bools:
        a, b, c = self.most
        x = truth - self.origin
        most = a + x * (b + x * c)
        off = np.maximum(np.abs(seen - truth) - self.bias, 0.0)
        return bound_tail(off, most=most, least=self.least, reach=self.reach) <= tail
