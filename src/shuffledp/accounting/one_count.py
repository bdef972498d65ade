"""How much noise one count needs; and one count that a person moves by up to r.

`central.PoissonCount` and `central.BinomialCount` are the curves for a step of one; the levels here
invert them. `ShiftedCount` is the curve for S + N where a neighbour moves S by up to r. For N with a
log-concave mass f, the ratio f(y - r) / f(y) grows with y, so the best events are tails:

    lower = max_k Pr[N <= k] - E Pr[N <= k - r],    upper = max_k Pr[N >= k] - E Pr[N >= k + r].

Both grow with r (a smaller shift only raises what is subtracted), so the largest shift is the worst.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.accounting.central import BinomialCount, PoissonCount
from shuffledp.core.arrays import Bools, Floats
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.validate import fraction_of_one, number, positive, whole
from shuffledp.numerics.masses import log_binomial, log_poisson
from shuffledp.numerics.search import smallest_parameter
from shuffledp.numerics.tails import binomial_at_most, falling_series, poisson_mass

__all__ = [
    "BinomialNoise",
    "PoissonNoise",
    "ShiftedCount",
    "binomial_level",
    "poisson_level",
    "shifted_binomial_level",
    "shifted_poisson_level",
]

_LARGEST_EPSILON = 700.0
_LARGEST = 10**12
_BITS = 48
_SLACK = 5e-9  # masses and tails are within 1e-9; a threshold placed by them costs as much again


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonNoise:
    """Poisson(mean).

    >>> [f"{value:.4e}" for value in PoissonNoise(mean=30.0).divergences(1, 1.0)]
    ['3.1268e-06', '1.3705e-16']
    """

    mean: float

    def __post_init__(self) -> None:
        if positive("mean", self.mean) > _LARGEST:
            raise ParameterError("mean", self.mean, "must be <= 10^12")

    def divergences(self, shift: int, epsilon: float) -> tuple[float, float]:
        """(lower, upper), rounded up."""
        return self.lower(shift, epsilon), self.upper(shift, epsilon)

    def lower(self, shift: int, epsilon: float) -> float:
        """The lower one alone, which is fast at every mean."""
        last = math.ceil(self.mean) + shift
        k = _last(last, lambda y: self._log(y - shift) + epsilon < self._log(y))
        return _difference(self._at_most(k), self._at_most(k - shift), epsilon)

    def upper(self, shift: int, epsilon: float) -> float:
        """The upper one alone."""
        # f(y + r) / f(y) <= (mean / (y + 1))^r: small enough from here on, or nothing is left.
        top = max(1000, math.ceil(self.mean * math.exp(min(epsilon / shift, 30.0))))
        k = top - _last(top, lambda i: self._log(top - i + shift) + epsilon < self._log(top - i))
        return _difference(self._at_least(k), self._at_least(k + shift), epsilon)

    def _log(self, y: Floats) -> Floats:
        return np.where(y >= 0, log_poisson(np.maximum(y, 0.0), self.mean), -math.inf)

    def _at_most(self, k: int) -> float:
        from scipy.special import gammaincc

        return float(gammaincc(k + 1, self.mean)) if k >= 0 else 0.0

    def _at_least(self, k: int) -> float:
        if k <= self.mean:
            return 1.0 - self._at_most(k - 1) if k > 0 else 1.0
        # SciPy's gammainc loses its digits in this tail at large means: a series instead.
        first = poisson_mass(k, Fraction(self.mean))
        return min(1.0, falling_series(first, lambda i: self.mean / (k + i + 1), 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialNoise:
    """Bin(n, gamma).

    >>> lower, upper = BinomialNoise(n=4, gamma=Fraction(1, 2)).divergences(4, 1.0)
    >>> round(lower, 6) == round(upper, 6) == 15 / 16  # they share one value only
    True
    """

    n: int
    gamma: Fraction

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=_LARGEST)
        if not 0 < self.gamma < 1:
            raise ParameterError("gamma", self.gamma, "must be > 0 and < 1")

    def divergences(self, shift: int, epsilon: float) -> tuple[float, float]:
        """(lower, upper), rounded up."""
        mirrored = BinomialNoise(n=self.n, gamma=1 - self.gamma)
        return self.lower(shift, epsilon), mirrored.lower(shift, epsilon)

    def lower(self, shift: int, epsilon: float) -> float:
        """The lower one alone."""
        last = min(math.ceil(self.n * self.gamma) + 1 + shift, self.n)
        k = _last(last, lambda y: self._log(y - shift) + epsilon < self._log(y))
        return _difference(self._at_most(k), self._at_most(k - shift), epsilon)

    def _log(self, y: Floats) -> Floats:
        inside = log_binomial(np.maximum(y, 0.0), self.n, float(self.gamma))
        return np.where(y >= 0, inside, -math.inf)

    def _at_most(self, k: int) -> float:
        from scipy.special import betainc

        keep = float(1 - self.gamma)
        if 0 <= k < self.n and keep == 1 - self.gamma:  # else rounding 1 - gamma could matter
            return float(betainc(self.n - k, k + 1, keep))
        if k < self.n * self.gamma:
            return binomial_at_most(k, self.n, self.gamma)
        return 1.0 - binomial_at_most(self.n - k - 1, self.n, 1 - self.gamma)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedCount:
    """A count plus noise, which a neighbour moves by at most `shift`: a `Profile`.

    >>> profile = ShiftedCount(noise=PoissonNoise(mean=30.0), shift=1)
    >>> f"{profile.delta(1.0):.4e}"
    '3.1268e-06'
    """

    noise: PoissonNoise | BinomialNoise
    shift: int

    def __post_init__(self) -> None:
        whole("shift", self.shift, at_least=1)

    def delta(self, epsilon: float) -> float:
        """At least the true delta at this epsilon."""
        if number("epsilon", epsilon) < 0:
            raise ParameterError("epsilon", epsilon, "must be >= 0")
        return max(self.noise.divergences(self.shift, min(epsilon, _LARGEST_EPSILON)))

    def epsilon(self, delta: float) -> float:
        """At least the true epsilon at this delta; `UnsupportedError` if there is none."""
        fraction_of_one("delta", delta)
        if self.delta(0.0) <= delta:
            return 0.0
        epsilon = smallest_parameter(
            lambda epsilon: math.log(self.delta(epsilon) / delta),
            guess=1.0,
            largest=_LARGEST_EPSILON,
        )
        if epsilon is None:
            raise UnsupportedError(f"no epsilon reaches delta={delta!r} with this noise")
        return epsilon


def poisson_level(*, epsilon: float, delta: float) -> float:
    """The smallest mean, rounded up by at most a part in 10^6, with Poisson noise for one count.

    >>> round(poisson_level(epsilon=1.0, delta=1e-6), 2)
    34.07
    """
    _check(epsilon, delta)
    return _level(
        lambda mean: math.log(PoissonCount(mean=mean).delta(epsilon) / delta),
        guess=_guess(epsilon, delta),
        largest=float(_LARGEST),
    )


def binomial_level(*, n: int, epsilon: float, delta: float, bits: int = _BITS) -> Fraction:
    """A gamma <= 1/2 such that Bin(n, gamma) suffices for one count, nearly the smallest.

    It is a multiple of 2^-bits. delta ripples in gamma; the gamma returned was itself certified.

    >>> gamma = binomial_level(n=1_000, epsilon=1.0, delta=1e-6)
    >>> round(float(1_000 * gamma), 2), BinomialCount(n=1_000, gamma=gamma).delta(1.0) <= 1e-6
    (34.0, True)
    """
    _check(epsilon, delta)
    whole("n", n, at_least=1)

    def excess(gamma: float) -> float:
        return math.log(BinomialCount(n=n, gamma=_dyadic(gamma, bits)).delta(epsilon) / delta)

    return _dyadic(_level(excess, guess=min(_guess(epsilon, delta) / n, 0.5), largest=0.5), bits)


def shifted_poisson_level(*, shift: int, epsilon: float, delta: float) -> float:
    """The smallest mean, rounded up by at most a part in 10^6, when the count moves by `shift`.

    >>> mean = shifted_poisson_level(shift=100, epsilon=1.0, delta=1e-6)
    >>> round(mean ** 0.5 / 100, 2)
    4.24
    """
    _check(epsilon, delta)
    whole("shift", shift, at_least=1)
    guess = _guess(epsilon, delta) * shift**2

    # The lower tail is nearly always the worse, and far cheaper: look there first, then certify.
    def lower(mean: float) -> float:
        return math.log(PoissonNoise(mean=mean).lower(shift, epsilon) / delta)

    def both(mean: float) -> float:
        return math.log(max(PoissonNoise(mean=mean).divergences(shift, epsilon)) / delta)

    mean = _level(lower, guess=guess, largest=float(_LARGEST))
    if both(mean) <= 0:
        return mean
    return _level(both, guess=mean, largest=float(_LARGEST))


def shifted_binomial_level(
    *, n: int, shift: int, epsilon: float, delta: float, bits: int = _BITS
) -> Fraction:
    """A gamma <= 1/2 such that Bin(n, gamma) suffices when the count moves by `shift`.

    >>> gamma = shifted_binomial_level(n=10_000_000, shift=100, epsilon=1.0, delta=1e-6)
    >>> round(float(10_000_000 * gamma) ** 0.5 / 100, 2)
    4.28
    """
    _check(epsilon, delta)
    whole("shift", shift, at_least=1)
    whole("n", n, at_least=1)

    def excess(gamma: float) -> float:
        noise = BinomialNoise(n=n, gamma=_dyadic(gamma, bits))
        return math.log(max(noise.divergences(shift, epsilon)) / delta)

    guess = min(_guess(epsilon, delta) * shift**2 / n, 0.5)
    return _dyadic(_level(excess, guess=guess, largest=0.5), bits)


def _last(largest: int, holds: Callable[[Floats], Bools]) -> int:
    """The largest y in 0 .. largest with holds(y), which is true at 0 and then false from somewhere on."""
    low, high = 0, largest + 1
    while high - low > 1:
        # Sixty places at once cost little more than one.
        step = 1 + (high - low - 1) // 60
        places = np.arange(low + step, high, step)
        true = int(np.append(holds(places.astype(np.float64)), False).argmin())
        low, high = low + true * step, min(low + (true + 1) * step, high)
    return low


def _difference(first: float, second: float, epsilon: float) -> float:
    """first - e^epsilon second, rounded up; the threshold may be off where the terms vanish."""
    if second < 1e-299:  # may have been rounded up to 1e-300
        second = 0.0
    value = first * (1 + _SLACK) - math.exp(epsilon) * second * (1 - _SLACK)
    return min(1.0, max(value, 1e-300))


def _check(epsilon: float, delta: float) -> None:
    positive("epsilon", epsilon)
    fraction_of_one("delta", delta)


def _level(excess: Callable[[float], float], *, guess: float, largest: float) -> float:
    level = smallest_parameter(excess, guess=min(guess, largest), largest=largest)
    if level is None:
        raise UnsupportedError(f"no noise level up to {largest:g} suffices: too few users")
    return level


def _guess(epsilon: float, delta: float) -> float:
    """About the smallest mean: where a search may start."""
    return max(math.log(1 / delta) * (1 / epsilon**2 + 1), 1.0)


def _dyadic(x: float, bits: int) -> Fraction:
    return Fraction(math.ceil(Fraction(x) * 2**bits), 2**bits)
