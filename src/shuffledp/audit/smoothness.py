"""Smooth noise: how likely is it that a step changes the probability of what was drawn by much?

A law D on the integers is (epsilon, delta, k)-smooth if for every integer k' with 1 <= |k'| <= k

    Pr over Y ~ D of [ D(Y) / D(Y + k') >= e^(|k'| epsilon) ] <= delta.

With alpha rational e^epsilon = (1 + alpha) / (1 - alpha) is rational, too, and so is everything else: the smallest
delta of a binomial is computed exactly.
"""

import math
from fractions import Fraction
from itertools import accumulate

from shuffledp.core.errors import ParameterError
from shuffledp.core.validate import whole

__all__ = ["lemma_delta", "smooth_delta"]


def lemma_delta(n: int, gamma: Fraction, alpha: Fraction) -> float:
    """exp(-alpha^2 gamma n / 8) + exp(-alpha^2 gamma n / (8 + 2 alpha)): what the lemma grants for k <= n alpha gamma / 2.

    >>> round(lemma_delta(1000, Fraction(1, 10), Fraction(3, 10)), 4)
    0.6758
    """
    _check(n, gamma, alpha)
    power = float(alpha**2 * gamma * n)
    return math.exp(-power / 8) + math.exp(-power / (8 + 2 * float(alpha)))


def smooth_delta(n: int, gamma: Fraction, alpha: Fraction, k: int) -> Fraction:
    """The smallest delta for which Bin(n, gamma) is (ln((1 + alpha) / (1 - alpha)), delta, k)-smooth, exactly.

    >>> smooth_delta(2, Fraction(1, 2), Fraction(1, 3), 1)
    Fraction(3, 4)
    """
    _check(n, gamma, alpha)
    masses = _masses(n, gamma)
    # A step to the left is a step to the right in a mirror.
    sides = [(towards, _tails(towards)) for towards in (masses, masses[::-1])]
    ratio = (1 + alpha) / (1 - alpha)
    worst = 0
    for size in range(1, k + 1):
        for towards, tails in sides:
            worst = max(worst, tails[_first(towards, size, ratio**size)])
    return Fraction(worst, sum(masses))


def _masses(n: int, gamma: Fraction) -> list[int]:
    """C(n, y) gamma^y (1 - gamma)^(n - y), over a common denominator."""
    yes, no = gamma.numerator, gamma.denominator - gamma.numerator
    masses = [no**n]
    for y in range(n):
        masses.append(masses[-1] * ((n - y) * yes) // ((y + 1) * no))  # divides without rest
    return masses


def _tails(masses: list[int]) -> list[int]:
    """The weight of y and all beyond it, for each y."""
    return list(accumulate(reversed(masses)))[::-1]


def _first(masses: list[int], size: int, ratio: Fraction) -> int:
    """The first y with D(y) >= ratio D(y + size); it is so for all beyond.

    D is log-concave, so D(y) / D(y + size) grows with y, and halving finds it. In the last `size`
    places D(y + size) is 0.
    """
    low, high = 0, max(0, len(masses) - size)
    while low < high:
        y = (low + high) // 2
        if masses[y] * ratio.denominator >= ratio.numerator * masses[y + size]:
            high = y
        else:
            low = y + 1
    return low


def _check(n: int, gamma: Fraction, alpha: Fraction) -> None:
    whole("n", n, at_least=1)
    if not 0 < gamma <= Fraction(1, 2):
        raise ParameterError("gamma", gamma, "must be a Fraction > 0 and <= 1/2")
    if not 0 < alpha < 1:
        raise ParameterError("alpha", alpha, "must be a Fraction > 0 and < 1")
