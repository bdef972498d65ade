"""One count with integer noise N that does not depend on the data: the whole privacy curve.

The view is S + N, and a neighbour moves S by one, so the smallest valid delta is the larger of

    sum_y max(0, Pr[N = y] - e^epsilon Pr[N = y - 1])     (the lower tail: S moves up)
    sum_y max(0, Pr[N = y] - e^epsilon Pr[N = y + 1])     (the upper tail: S moves down)

For log-concave N (binomial, Poisson) the ratio of neighbouring masses is monotone, so the positive
terms are a tail. They are summed as they are, all positive, from a certified first mass: no
cancellation, and an upper bound by proof. Values below 1e-300 are rounded up to that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import fraction_of_one, number, positive, whole
from shuffledp.numerics.rounding import exp_lower
from shuffledp.numerics.tails import TINY, binomial_mass, falling_series, poisson_mass

__all__ = ["BinomialCount", "PoissonCount"]

_LARGEST_EPSILON = 700.0  # delta does not increase with epsilon, so this one serves for all beyond


@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialCount:
    """A count plus Bin(n, gamma): a `Profile`.

    >>> noise = BinomialCount(n=200, gamma=Fraction(1, 10))
    >>> [f"{delta:.6e}" for delta in noise.directions(1.0)]
    ['8.238525e-05', '1.610963e-09']
    >>> f"{noise.epsilon(1e-3):.4f}"
    '0.6951'
    """

    n: int
    gamma: Fraction

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=2**52)
        if not 0 < self.gamma < 1:
            raise ParameterError("gamma", self.gamma, "must be > 0 and < 1")

    def directions(self, epsilon: float) -> tuple[float, float]:
        """Upper bounds of (lower tail, upper tail)."""
        E = _factor(epsilon)
        return _binomial_lower(self.n, self.gamma, E), _binomial_lower(self.n, 1 - self.gamma, E)

    def delta(self, epsilon: float) -> float:
        """At least the true delta at this epsilon."""
        return max(self.directions(epsilon))

    def epsilon(self, delta: float) -> float:
        """At least the true epsilon at this delta; `UnsupportedError` if there is none."""
        return _inverse(self.delta, delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonCount:
    """A count plus Poisson(mean): a `Profile`.

    >>> [f"{delta:.6e}" for delta in PoissonCount(mean=30.0).directions(1.0)]
    ['3.126754e-06', '1.370512e-16']
    """

    mean: float

    def __post_init__(self) -> None:
        if positive("mean", self.mean) > 2**52:
            raise ParameterError("mean", self.mean, "must be <= 2^52")

    def directions(self, epsilon: float) -> tuple[float, float]:
        """Upper bounds of (lower tail, upper tail)."""
        E = _factor(epsilon)
        return self._lower(E), self._upper(E)

    def delta(self, epsilon: float) -> float:
        """At least the true delta at this epsilon."""
        return max(self.directions(epsilon))

    def epsilon(self, delta: float) -> float:
        """At least the true epsilon at this delta; `UnsupportedError` if there is none."""
        return _inverse(self.delta, delta)

    def _lower(self, E: float) -> float:
        mean = float(self.mean)
        # Pr[y - 1] / Pr[y] = y / mean, below 1 / E for y < mean / E.
        start = math.floor(Fraction(self.mean) / Fraction(E))
        first = poisson_mass(start, Fraction(self.mean))
        return min(1.0, falling_series(first, lambda i: (start - i) / mean, E))

    def _upper(self, E: float) -> float:
        mean = float(self.mean)
        if mean * E > 1e18:  # then E > 200, and Pr[N >= mean E] <= e^(mean E (1 - ln E)) is nothing
            return TINY
        # Pr[y + 1] / Pr[y] = mean / (y + 1), below 1 / E for y + 1 > mean E.
        start = math.floor(Fraction(self.mean) * Fraction(E))
        first = poisson_mass(start, Fraction(self.mean))
        return min(1.0, falling_series(first, lambda i: mean / (start + i + 1), E))


def _binomial_lower(n: int, gamma: Fraction, E: float) -> float:
    # Pr[y - 1] / Pr[y] = y / (n - y + 1) * odds, below 1 / E for y < (n + 1) / (1 + E odds).
    exact_odds = (1 - gamma) / gamma
    start = math.floor((n + 1) / (1 + Fraction(E) * exact_odds))
    first, odds = binomial_mass(start, n, gamma), float(exact_odds)
    return min(1.0, falling_series(first, lambda i: (start - i) / (n - start + i + 1) * odds, E))


def _factor(epsilon: float) -> float:
    """e^epsilon, or a little less."""
    if number("epsilon", epsilon) < 0:
        raise ParameterError("epsilon", epsilon, "must be >= 0")
    return math.nextafter(float(exp_lower(min(epsilon, _LARGEST_EPSILON))), 0.0)


def _inverse(delta_of: Callable[[float], float], delta: float) -> float:
    """The smallest epsilon, to 1e-12 and rounded up, with delta_of(epsilon) <= delta."""
    fraction_of_one("delta", delta)
    low, high = 0.0, _LARGEST_EPSILON
    if delta_of(high) > delta:
        raise UnsupportedError(f"no epsilon reaches delta={delta!r} with this noise")
    if delta_of(low) <= delta:
        return low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if delta_of(middle) <= delta:
            high = middle
        else:
            low = middle
    return high
