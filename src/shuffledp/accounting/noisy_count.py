r"""One count with binomial noise N: the whole privacy curve.

The view is S + N, and a neighbour moves S by at most r (`shift`, 1 unless stated), so the smallest valid delta
is the larger of

    lower = sum_y max(0, Pr[N = y] - e^epsilon Pr[N = y - r])     (S moves up)
    upper = sum_y max(0, Pr[N = y] - e^epsilon Pr[N = y + r])     (S moves down)

both of which grow with r: a smaller shift only raises what is subtracted. N is log-concave, so
the ratio rho(y) = Pr[y - r] / Pr[y] grows with y, and the positive terms are a tail y <= k. The last one,
k, is certain: fractions or 60 digits decide whether e^epsilon rho(k) < 1.

* r = 1: the terms are summed as they are, all positive, from a certified first mass: no cancellation.
* r > 1: Pr[N <= k] - e^epsilon Pr[N <= k - r], each tail between certified ends.

The bounds are upper bounds by proof. Values below 1e-300 are rounded up to that.

**Smooth laws**: when does adding a random integer to an answer make it private?

A law D on the integers is (epsilon, delta, k)-*smooth* if for every shift 1 <= |s| <= k

    Pr[ D(Y) >= e^(|s| epsilon) D(Y + s) ] <= delta,      Y ~ D.

**Lemma 2.** If f changes by at most k when one person's value is replaced, f(x) + Y is (k epsilon, delta)-private.

**Lemma 3.** Bin(n, gamma), gamma <= 1/2, is smooth for shifts up to alpha gamma n / 2, 0 < alpha < 1, with
epsilon = ln((1 + alpha) / (1 - alpha)) and delta = exp(-alpha^2 gamma n / 8) + exp(-alpha^2 gamma n / (8 + 2 alpha)).

Proofs in docs/theory/smoothness.md. Smoothness asks more than privacy: where a likelihood ratio is too large it counts all
of the mass, and privacy only what exceeds e^epsilon times the other. So the exact delta of the noise is smaller, and
protocols here are calibrated by that.

Reference: Ghazi, Golowich, Kumar, Pagh, Velingker 2019, "On the power of multiple anonymous messages" (the definition and
both lemmas).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shuffledp.accounting.base import check_budget, find_level, invert
from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import non_negative, whole
from shuffledp.numerics.masses import (
    TINY,
    binomial_log_ratio,
    binomial_mass,
    bound_at_most,
    sum_falling_series,
)
from shuffledp.numerics.rounding import dyadic_above, exp_lower, float_above
from shuffledp.numerics.tabulated import log_of

_LARGEST_EPSILON = 700.0  # delta does not increase with epsilon, so this one serves for all beyond
_BITS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class BinomialCount:
    """A count plus Bin(n, gamma), which a neighbour moves by at most `shift`: a `Profile`.

    >>> noise = BinomialCount(n=200, gamma=Fraction(1, 10))
    >>> [f"{delta:.6e}" for delta in noise.directions(1.0)]
    ['8.238525e-05', '1.610963e-09']
    >>> f"{noise.epsilon(1e-3):.4f}"
    '0.6951'
    >>> four = BinomialCount(n=4, gamma=Fraction(1, 2), shift=4)
    >>> round(four.delta(1.0), 6) == 15 / 16  # they share one value only
    True
    """

    n: int
    gamma: Fraction
    shift: int = 1

    def __post_init__(self) -> None:
        whole("n", self.n, at_least=1, at_most=2**52)
        whole("shift", self.shift, at_least=1)
        if not 0 < self.gamma < 1:
            raise ParameterError("gamma", self.gamma, "must be > 0 and < 1")

    def directions(self, epsilon: float) -> tuple[float, float]:
        """Bound (lower, upper)."""
        E = _factor(epsilon)
        return self._bound_lower(self.gamma, E), self._bound_lower(1 - self.gamma, E)

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at this epsilon from above."""
        return max(self.directions(epsilon))

    def epsilon(self, delta: float) -> float:
        """Bound the true epsilon at this delta from above; raise `UnsupportedError` if there is none."""
        return invert(self.delta, delta, tolerance=1e-12)

    def _bound_lower(self, gamma: Fraction, E: float) -> float:
        """Bound the lower direction; that of 1 - gamma is the mirror image of the upper one."""
        n, r = self.n, self.shift
        if r > 1:
            k = self._last_positive(gamma, E)
            low, high = bound_at_most(np.array([k - r, k]), n, gamma)
            return min(1.0, max(float(high[1] - E * low[0] * (1 - 2.0**-50)), TINY))
        # rho(y) = y / (n - y + 1) * odds, below 1 / E for y < (n + 1) / (1 + E odds).
        exact_odds = (1 - gamma) / gamma
        k = math.floor((n + 1) / (1 + Fraction(E) * exact_odds))
        first, odds = binomial_mass(k, n, gamma), float(exact_odds)
        return min(1.0, sum_falling_series(first, lambda i: (k - i) / (n - k + i + 1) * odds, E))

    def _last_positive(self, gamma: Fraction, E: float) -> int:
        """Return the largest y <= n with E rho(y) < 1, or r - 1, up to which rho is 0."""
        limit, r = -log_of(Fraction(E)), self.shift

        def holds(y: int) -> bool:
            return y < r or binomial_log_ratio(y, r, self.n, gamma) < limit

        # About where it is: rho(y) is e^(r (y - r/2 - n gamma) / variance), for a normal law.
        variance = float(self.n * gamma * (1 - gamma))
        guess = math.floor(self.n * gamma + r / 2 + variance / r * float(limit))
        return _find_last(holds, first=min(r - 1, self.n), last=self.n, guess=guess)


def binomial_level(
    *, n: int, epsilon: float, delta: float, shift: int = 1, bits: int = _BITS
) -> Fraction:
    """Return a gamma <= 1/2 such that Bin(n, gamma) suffices for one count, nearly the smallest.

    It is a multiple of 2^-bits. delta ripples in gamma; the gamma returned was itself certified.

    >>> gamma = binomial_level(n=1_000, epsilon=1.0, delta=1e-6)
    >>> round(float(1_000 * gamma), 2), BinomialCount(n=1_000, gamma=gamma).delta(1.0) <= 1e-6
    (34.0, True)
    >>> gamma = binomial_level(n=10_000_000, shift=100, epsilon=1.0, delta=1e-6)
    >>> round(float(10_000_000 * gamma) ** 0.5 / 100, 2)
    4.28
    """
    check_budget(epsilon, delta)
    whole("n", n, at_least=1)

    def delta_at(gamma: float) -> float:
        return BinomialCount(n=n, gamma=dyadic_above(gamma, bits), shift=shift).delta(epsilon)

    guess = max(math.log(1 / delta) * (1 / epsilon**2 + 1), 1.0) * shift**2 / n
    gamma = find_level(
        delta_at,
        delta,
        guess=guess,
        largest=0.5,
        refusal=f"{n} honest users are too few for epsilon={epsilon!r}, delta={delta!r}",
        epsilon=epsilon,
    )
    return dyadic_above(gamma, bits)


def _factor(epsilon: float) -> float:
    """Return e^epsilon, or a little less."""
    largest = min(non_negative("epsilon", epsilon), _LARGEST_EPSILON)
    return math.nextafter(float(exp_lower(largest)), 0.0)


def _find_last(holds: Callable[[int], bool], *, first: int, last: int, guess: int) -> int:
    """Return the largest y in first .. last with holds(y), which is true at first and then false from somewhere on."""
    low, high, step = first, last + 1, 1
    y = min(max(guess, low + 1), high - 1)
    while high - low > 1:
        if holds(y):
            low = y
            y = min(y + step, (low + high) // 2 if high <= last else high - 1)
        else:
            high = y
            y = max(y - step, (low + high) // 2 if low > first else low + 1)
        step *= 4
        y = min(max(y, low + 1), high - 1)
    return low


_SLACK = Fraction(1, 10**9)
_FARTHEST = 10**18


def smoothness(law: Mapping[int, Fraction | float], epsilon: float, shift: int = 1) -> float:
    """Return the smallest delta for which the law is (epsilon, delta, shift)-smooth, rounded up.

    `law` has the mass of each integer, as fractions or floats that sum to 1. Floats are taken as they are; what the
    rounding of a law leaves out (up to 10^-9) is added.

    >>> coins = {y: Fraction(math.comb(4, y), 16) for y in range(5)}
    >>> smoothness(coins, math.log(4))
    0.3125
    >>> geometric = {y: (math.e - 1) / (math.e + 1) * math.exp(-abs(y)) for y in range(-700, 701)}
    >>> smoothness(geometric, 1.01) < 1e-9
    True
    """
    masses = _check(law)
    budget = non_negative("epsilon", epsilon)
    most = whole("shift", shift, at_least=1)
    missing = max(Fraction(0), 1 - sum(masses.values(), Fraction(0)))
    worst = Fraction(0)
    for size in range(1, most + 1):
        # A smaller factor makes more ratios too large: the safe side.
        factor = Fraction(exp_lower(size * budget))
        for step in (size, -size):
            large = (
                mass
                for y, mass in masses.items()
                if mass >= factor * masses.get(y + step, Fraction(0))
            )
            worst = max(worst, sum(large, Fraction(0)))
    return min(1.0, float_above(worst + missing))


def _check(law: Mapping[int, Fraction | float]) -> dict[int, Fraction]:
    masses = {
        whole("law", y, at_least=-_FARTHEST): Fraction(mass) for y, mass in law.items() if mass != 0
    }
    if any(mass < 0 for mass in masses.values()):
        raise ParameterError("law", min(law.values()), "must have no negative mass")
    total = sum(masses.values(), Fraction(0))
    if abs(total - 1) > _SLACK:
        raise ParameterError("law", float(total), "must have masses that sum to 1")
    return masses


def binomial_smoothness(*, n: int, gamma: float, alpha: float) -> tuple[float, float, int]:
    """Apply Lemma 3: epsilon, delta and the largest shift for which Bin(n, gamma) is smooth.

    >>> epsilon, delta, shift = binomial_smoothness(n=1000, gamma=0.1, alpha=0.3)
    >>> round(epsilon, 3), round(delta, 2), shift
    (0.619, 0.68, 15)
    """
    whole("n", n, at_least=1)
    if not 0 < gamma <= 0.5:
        raise ParameterError("gamma", gamma, "must be > 0 and <= 1/2")
    if not 0 < alpha < 1:
        raise ParameterError("alpha", alpha, "must be > 0 and < 1")
    mean = n * gamma
    delta = math.exp(-(alpha**2) * mean / 8) + math.exp(-(alpha**2) * mean / (8 + 2 * alpha))
    shift = math.floor(Fraction(alpha) * Fraction(gamma) * n / 2)
    return math.log((1 + alpha) / (1 - alpha)), delta, shift
