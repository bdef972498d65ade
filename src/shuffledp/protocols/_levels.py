"""How many levels a rounded sum takes, and how often its randomized response must lie.

With k levels beyond 0, lies with probability gamma, and values in [0, 1], the exact variance of one user's
estimate is, z in [0, k] the value on the scale of the levels, f its fractional part and b = 1 - gamma,

    ( c - a^2 - 2 a b z + (b - b^2) z^2 + b f (1 - f) ) / (b k)^2,   a = gamma k / 2, c = gamma k (2k + 1) / 6:

and b f (1 - f) apart this is convex in z and symmetric. So it is largest below the first level (or above
the last but one), where it is c - a^2 + b (1 - 2 a) f - b^2 f^2: a parabola in f.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from shuffledp.accounting.base import SMALLEST_DELTA, gaussian_epsilon
from shuffledp.accounting.blanket import BlanketProfile, two_level_blanket
from shuffledp.core.errors import UnsupportedError
from shuffledp.numerics.rounding import exp_lower
from shuffledp.numerics.search import largest_above

__all__ = ["Levels", "fits", "largest_error", "largest_kept"]

_ROUGH, _FINE = 0.3, 2e-3  # how far below its limit delta may stay, relatively
_LARGEST_EPSILON0 = 60.0
_STEEPNESS = 12.0  # of ln delta in epsilon0, usually; where the secant method starts
_SECANTS = 8


def largest_kept(most: int, denominator: int, symbols: int, words: int) -> int | None:
    """The largest kept <= most that `denominator` divides, while `symbols` divides words - kept.

    >>> largest_kept(20, 2, 3, 32)
    20
    >>> largest_kept(20, 3, 3, 32) is None
    True
    """
    common = math.gcd(denominator, symbols)
    if words % common:
        return None
    period = symbols // common
    first = words // common * pow(denominator // common, -1, period) % period
    times = first + (most // denominator - first) // period * period
    return denominator * times if times > 0 else None


def fits(steps: int, levels: int, word_bits: int) -> bool:
    """Whether words can round so many steps to these levels without bias.

    >>> [k for k in range(1, 12) if fits(30, k, 64)]
    [1, 3, 6, 7, 10]
    """
    words = 1 << word_bits
    denominator = steps // math.gcd(steps, levels)
    return largest_kept(words // 2, denominator, levels + 1, words) is not None


def largest_error(k: int, gamma: float) -> float:
    """The largest variance of one user's estimate, over all real values.

    >>> round((10**6 * largest_error(33, 34 * 42.53e-6)) ** 0.5, 2)  # the sum of a million values
    26.44
    """
    a, b = gamma * k / 2, 1 - gamma
    f = min(max((1 - 2 * a) / (2 * b), 0.0), 1.0)
    at_zero = gamma * k * (2 * k + 1) / 6 - a * a
    return (at_zero + b * (1 - 2 * a) * f - (b * f) ** 2) / (b * k) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The search for k and gamma, for n honest users."""

    n: int
    epsilon: float
    delta: float
    possible: Callable[[int], bool]
    """Whether this number of levels fits the grid."""
    most: int

    def exact(self, levels: int | None) -> tuple[int, Fraction]:
        """The k of the smallest error (unless given), and its gamma by the blanket."""
        share = self._rough_share()
        if levels is None:
            # Lies per level and user hardly depend on k: once is enough to know how many.
            first = self._best(lambda k: self._gamma(k, share))
            share = 1 / (math.exp(self._epsilon0(first, share, _ROUGH)) + first)
            levels = self._best(lambda k: self._gamma(k, share))
        epsilon0 = self._epsilon0(levels, share, _FINE)
        return levels, (levels + 1) / (exp_lower(epsilon0) + levels)

    def published(self, levels: int | None) -> tuple[int, Fraction]:
        """The same with the published gamma."""
        if self.epsilon > 1 or self.n < 2:
            raise UnsupportedError(
                f"epsilon={self.epsilon!r}, n={self.n} is outside the theorem: epsilon <= 1, n >= 2"
            )
        each = max(14 * math.log(2 / self.delta) / self.epsilon**2, 27 / self.epsilon) / (
            self.n - 1
        )
        k = self._best(lambda k: (k + 1) * each) if levels is None else levels
        gamma = (k + 1) * each * (1 + 1e-12)
        if gamma >= 1:
            raise UnsupportedError(
                f"n={self.n} honest users are too few for the theorem at epsilon={self.epsilon!r}, "
                f"delta={self.delta!r}: gamma would be {gamma:.3g}"
            )
        return k, Fraction(gamma)

    def _gamma(self, k: int, share: float) -> float:
        """At most that of randomized response with epsilon0 = epsilon, which needs nobody else."""
        return min((k + 1) * share, (k + 1) / (math.exp(min(self.epsilon, 700.0)) + k))

    def _best(self, gamma_of: Callable[[int], float]) -> int:
        """Rounding falls and noise rises with k, so the first rise of the error ends the search."""
        best, smallest = 0, math.inf
        for k in range(1, self.most + 1):
            gamma = gamma_of(k)
            error = largest_error(k, gamma) if gamma < 1 else math.inf
            if error > smallest * 1.5:
                break
            if error < smallest and self.possible(k):
                best, smallest = k, error
        if best == 0:
            raise UnsupportedError(f"n={self.n} users are too few, or their words too short")
        return best

    def _rough_share(self) -> float:
        """Lies per level and user, if counts were normal: one count falls and another rises."""
        low, high = 1e-3, 1e18
        for _ in range(50):
            middle = math.sqrt(low * high)
            too_few = gaussian_epsilon(math.sqrt(2 / middle), self.delta) > self.epsilon
            low, high = (middle, high) if too_few else (low, middle)
        return 1.15 * high / self.n

    def _epsilon0(self, k: int, share: float, window: float) -> float:
        """Nearly the largest epsilon0 whose blanket suffices, and not more."""
        limit = self.delta * (1 - 1e-6)  # room for a gamma that is rounded up afterwards

        def spare(epsilon0: float) -> float:
            if epsilon0 <= self.epsilon:
                return 1.0
            E = exp_lower(epsilon0)
            q = 1 / (E + k)
            rest = (k - 1) * q
            blanket = two_level_blanket(ratio=E, one=q, both=Fraction(0), neither=rest)
            curve = BlanketProfile(blankets=(blanket,), n=self.n, epsilon0=epsilon0)
            return math.log(limit / max(curve.delta(self.epsilon), SMALLEST_DELTA))

        guess = math.log(max(1 / share - k, math.exp(min(1.01 * self.epsilon, 50.0))))
        found = _secant(spare, guess, window)
        if found is not None and found > self.epsilon:
            return found
        return largest_above(
            spare, end=_LARGEST_EPSILON0, guess=guess, tolerance=1e-5, floor=self.epsilon
        )


def _secant(spare: Callable[[float], float], guess: float, window: float) -> float | None:
    """An x with 0 < spare(x) < window, for a smooth decreasing function; None if it takes too long."""
    x, slope = guess, -_STEEPNESS
    value = spare(x)
    for _ in range(_SECANTS):
        if 0 < value < window:
            return x
        step = (window / 2 - value) / slope
        after = spare(x + step)
        if not math.isclose(after, value) and (after - value) / step < 0:
            slope = (after - value) / step
        x, value = x + step, after
    return None
