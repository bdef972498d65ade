"""The difference of two negative binomial numbers: the noise of correlated counting.

D = X - Y with X, Y ~ NB(r, p) independent; r = 1 is the discrete Laplace law. The tail is one sum of
positive numbers, Pr[D > t] = sum_y Pr[Y = y] Pr[X > y + t], so it is accurate however small it is.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.estimate import Interval, Value
from shuffledp.core.validate import level as valid_level
from shuffledp.numerics.masses import log_negative_binomial

__all__ = ["Difference", "DifferenceError"]

_LONGEST = 1 << 24
_SLACK = 1 + 1e-8
"""More than the relative errors of the masses and of the sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """X - Y with X, Y ~ NB(r, p).

    >>> noise = Difference(r=1.0, p=math.exp(-1.0))
    >>> round(noise.variance, 6), f"{noise.tail(3):.5f}", noise.radius(0.05)
    (1.841347, '0.02678', 3)
    """

    r: float
    p: float

    @property
    def variance(self) -> float:
        """2 r p / (1 - p)^2."""
        return 2 * self.r * self.p / (1 - self.p) ** 2

    def tail(self, t: int) -> float:
        """At least Pr[|X - Y| > t], t >= 0; by less than a part in 10^7."""
        length = t + 64
        while True:
            masses, survivals, rest = self._arrays(length)
            found = _tail(masses, survivals, t)
            if rest <= 1e-9 * found or length > _LONGEST:
                return min(1.0, (found + 2 * rest) * _SLACK)
            length *= 2

    def radius(self, beta: float) -> int:
        """The smallest t >= 0 with Pr[|X - Y| > t] <= beta.

        If a tail is within a part in 10^7 of beta, it may be the next one.
        """
        length = 64
        masses, survivals, rest = self._arrays(length)
        while 2 * rest > 1e-9 * beta:
            length *= 2
            if length > _LONGEST:
                raise UnsupportedError("the noise is too wide for an exact interval")
            masses, survivals, rest = self._arrays(length)
        low, high = -1, length
        while high - low > 1:
            middle = (low + high) // 2
            if (_tail(masses, survivals, middle) + 2 * rest) * _SLACK <= beta:
                high = middle
            else:
                low = middle
        return high

    def _arrays(self, length: int) -> tuple[Floats, Floats, float]:
        """Pr[X = k] and Pr[X > k] for k < length, and a bound of Pr[X >= length]."""
        k = np.arange(length, dtype=np.float64)
        masses = np.exp(log_negative_binomial(k, self.r, self.p))
        step = self.p * max(1.0, (self.r + length - 1) / length)
        rest = float(masses[-1]) * step / (1 - step) if step < 1 else 1.0
        survivals = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0) + rest
        return masses, survivals, rest


def _tail(masses: Floats, survivals: Floats, t: int) -> float:
    if t >= len(masses):
        return 0.0
    return 2 * float(masses[: len(masses) - t] @ survivals[t:])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DifferenceError:
    """The error of an integer answer with that noise, or of `shape` of them, each on its own.

    The law is discrete, so an interval covers a little more than its level. The sampled noise is
    within `distance` of the law, which is taken off what the interval may miss.

    >>> DifferenceError(noise=Difference(r=1.0, p=math.exp(-1.0)), shape=()).interval(10.0, 0.95)
    Interval(low=7.0, high=13.0)
    """

    noise: Difference
    shape: tuple[int, ...]
    distance: float = 0.0

    @property
    def stderr(self) -> Value:
        """Standard deviation of the noise."""
        stderr = math.sqrt(self.noise.variance)
        return np.full(self.shape, stderr) if self.shape else stderr

    def interval(self, value: Value, level: float) -> Interval:
        """The exact one: the law is known, so there is nothing to approximate."""
        return self.exact_interval(value, level)

    def exact_interval(self, value: Value, level: float) -> Interval:
        beta = float(1 - Fraction(valid_level(level)))
        if 2 * self.distance >= beta:
            raise UnsupportedError(
                f"level={level!r} is too close to 1 for noise that is known to {self.distance:.1e}"
            )
        radius = float(self.noise.radius(beta - self.distance))
        return Interval(value - radius, value + radius)
