r"""Smooth laws: when does adding an integer random number to an answer make it private?

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
from collections.abc import Mapping
from fractions import Fraction

from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import non_negative, whole
from shuffledp.numerics.rounding import exp_lower, float_above

__all__ = ["binomial_smoothness", "smoothness"]

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
    """Lemma 3: epsilon, delta and the largest shift for which Bin(n, gamma) is smooth.

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
