"""The laws of noise: their moments, their tails, and the intervals that follow from them.

Discrete Laplace: Pr[Z = z] = (1 - a) / (1 + a) a^|z| on the integers, a = e^-rate. Tails are compared with a level by
rational enclosures, so "covers with probability at least `level`" is a statement about the real law.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.core.estimate import Interval, Value
from shuffledp.core.validate import level as valid_level
from shuffledp.numerics.binomial import binomial_at_least
from shuffledp.numerics.rounding import exp_bounds

__all__ = ["BinomialError", "BinomialNoise", "DiscreteLaplace", "DiscreteLaplaceError"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace:
    """The law of `lazy.discrete_laplace`.

    >>> noise = DiscreteLaplace(rate=Fraction(1))
    >>> round(noise.variance, 6)
    1.841347
    >>> noise.radius(Fraction(5, 100))
    3
    """

    rate: Fraction

    @property
    def centre(self) -> Fraction:
        """The mean."""
        return Fraction(0)

    @property
    def variance(self) -> float:
        """2 a / (1 - a)^2."""
        rate = float(self.rate)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def mass(self, z: int, digits: int = 50) -> tuple[Fraction, Fraction]:
        """Fractions around Pr[Z = z].

        >>> low, high = DiscreteLaplace(rate=Fraction(1)).mass(0)
        >>> float(low) == float(high) == 0.46211715726000973
        True
        """
        low, high = exp_bounds(-self.rate, digits)
        power_low, power_high = exp_bounds(-self.rate * abs(z), digits)
        return (1 - high) / (1 + high) * power_low, (1 - low) / (1 + low) * power_high

    def tail(self, t: int, digits: int = 50) -> tuple[Fraction, Fraction]:
        """Fractions around Pr[|Z| > t] = 2 a^(t + 1) / (1 + a), t >= 0.

        >>> low, high = DiscreteLaplace(rate=Fraction(1)).tail(3)
        >>> round(float(high), 6)
        0.02678
        """
        low, high = exp_bounds(-self.rate, digits)
        power_low, power_high = exp_bounds(-self.rate * (t + 1), digits)
        return 2 * power_low / (1 + high), 2 * power_high / (1 + low)

    def radius(self, beta: Fraction, draws: int = 1) -> int:
        """The smallest t >= 0 with draws * Pr[|Z| > t] <= beta (union bound over the draws)."""
        share = beta / draws
        t = max(0, self._guess(share))
        while not self._within(t, share):
            t += 1
        while t > 0 and self._within(t - 1, share):
            t -= 1
        return t

    def _guess(self, share: Fraction) -> int:
        rate = float(self.rate)
        log_share = math.log(share.numerator) - math.log(share.denominator)
        return math.floor((math.log(2) - log_share - math.log1p(math.exp(-rate))) / rate)

    def _within(self, t: int, share: Fraction) -> bool:
        # The tail is a transcendental number and `share` a fraction: they differ, and some number
        # of digits shows which way.
        digits = 30
        while True:
            low, high = self.tail(t, digits)
            if high <= share:
                return True
            if low > share:
                return False
            digits *= 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiscreteLaplaceError:
    """The error of an answer on a grid of width `step` with discrete Laplace noise.

    The answer was moved by at most `rounding` onto the grid before the noise came. `draws` > 1 makes
    the interval hold for so many noisy answers at once (union bound).

    >>> error = DiscreteLaplaceError(noise=DiscreteLaplace(rate=Fraction(1)), shape=())
    >>> error.interval(10.0, 0.95)
    Interval(low=7.0, high=13.0)
    """

    noise: DiscreteLaplace
    shape: tuple[int, ...]
    step: float = 1.0
    rounding: float = 0.0
    draws: int = 1

    @property
    def stderr(self) -> Value:
        """Exact standard deviation of the noise."""
        stderr = self.step * math.sqrt(self.noise.variance)
        return np.full(self.shape, stderr) if self.shape else stderr

    def interval(self, value: Value, level: float) -> Interval:
        """The exact one: the law is known, so there is nothing to approximate."""
        return self.exact_interval(value, level)

    def exact_interval(self, value: Value, level: float) -> Interval:
        radius = self.radius(1 - Fraction(valid_level(level)))
        low, high = value - radius, value + radius
        if np.all(np.abs(value) + radius <= 2.0**52 * self.step):
            return Interval(low, high)  # nothing was rounded
        return Interval(_outward(low, -np.inf), _outward(high, np.inf))

    def radius(self, beta: Fraction) -> float:
        """How far off the answers are at most, except with probability beta."""
        return self.step * self.noise.radius(beta, self.draws) + self.rounding


def _outward(end: Value, direction: float) -> Value:
    # One unit for the rounding of the value to a float, one for that of the end.
    moved = np.nextafter(np.nextafter(end, direction), direction)
    return float(moved) if np.ndim(moved) == 0 else moved


@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialNoise:
    """The law of Bin(n, gamma).

    >>> coins = BinomialNoise(n=10, gamma=Fraction(1, 2))
    >>> coins.centre, coins.variance, coins.mass(10)
    (Fraction(5, 1), 2.5, (Fraction(1, 1024), Fraction(1, 1024)))
    >>> coins.range(Fraction(5, 100))
    (2, 8)
    """

    n: int
    gamma: Fraction

    @property
    def centre(self) -> Fraction:
        """The mean, n gamma."""
        return self.n * self.gamma

    @property
    def variance(self) -> float:
        """n gamma (1 - gamma)."""
        return float(self.centre * (1 - self.gamma))

    def mass(self, z: int) -> tuple[Fraction, Fraction]:
        """The exact probability of z, twice (meant for small n)."""
        if not 0 <= z <= self.n:
            return Fraction(0), Fraction(0)
        exact = math.comb(self.n, z) * self.gamma**z * (1 - self.gamma) ** (self.n - z)
        return exact, exact

    def range(self, beta: Fraction) -> tuple[int, int]:
        """Integers (low, high) with Pr[N < low] and Pr[N > high] each at most beta / 2."""
        tail = float(beta / 2) * (1 - 1e-15)
        return self.n - _quantile(self.n, 1 - self.gamma, tail), _quantile(self.n, self.gamma, tail)


def _quantile(n: int, p: Fraction, tail: float) -> int:
    """The smallest h from the mean on with Pr[Bin(n, p) > h] <= tail."""
    low, high = math.ceil(n * p), n
    while low < high:
        middle = (low + high) // 2
        if binomial_at_least(middle + 1, n, p) <= tail:
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BinomialError:
    """The error of `observed` - n gamma, where observed = truth + Bin(n, gamma).

    >>> coins = BinomialNoise(n=10, gamma=Fraction(1, 2))
    >>> BinomialError(noise=coins, observed=12).interval(7.0, 0.95)
    Interval(low=4.0, high=10.0)
    """

    noise: BinomialNoise
    observed: int

    @property
    def stderr(self) -> float:
        """Exact standard deviation of the noise."""
        return math.sqrt(self.noise.variance)

    def interval(self, value: Value, level: float) -> Interval:
        """The exact one: the law is known, so there is nothing to approximate."""
        return self.exact_interval(value, level)

    def exact_interval(self, value: Value, level: float) -> Interval:
        low, high = self.noise.range(1 - Fraction(valid_level(level)))
        return Interval(float(self.observed - high), float(self.observed - low))
