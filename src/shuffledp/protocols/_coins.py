"""How many coins everybody tosses to hide a sum that one person moves by r."""

import math
from collections.abc import Callable
from fractions import Fraction

from shuffledp.accounting.base import gaussian_epsilon
from shuffledp.accounting.one_count import BinomialNoise, ShiftedCount, shifted_binomial_level
from shuffledp.core.errors import UnsupportedError

__all__ = ["MOST_COINS", "fewest_coins"]

MOST_COINS = 4096
"""Coins of one user."""
_MANY_COINS = 16


def fewest_coins(n: int, r: int, epsilon: float, delta: float, bits: int) -> tuple[int, Fraction]:
    """The fewest coins per user that suffice with gamma <= 1/2, and their gamma.

    Many coins are left fair: one less would not do, and the variance of a coin hardly depends on
    gamma there.

    >>> fewest_coins(10_000, 100, 1.0, 1e-6, 48)
    (72, Fraction(1, 2))
    """
    half = Fraction(1, 2)

    def enough(coins: int) -> bool:
        noise = BinomialNoise(n=n * coins, gamma=half)
        return ShiftedCount(noise=noise, shift=r).delta(epsilon) <= delta

    coins = _fewest(enough, math.ceil(4 * _normal_variance(r, epsilon, delta) / n))
    if coins is None:
        raise UnsupportedError(
            f"n={n} honest users would need more than {MOST_COINS} coins each for ones={r}: fewer "
            "ones, or more users"
        )
    if coins >= _MANY_COINS:
        return coins, half
    total = n * coins
    return coins, shifted_binomial_level(n=total, shift=r, epsilon=epsilon, delta=delta, bits=bits)


def _fewest(enough: Callable[[int], bool], guess: int) -> int | None:
    """The smallest number that is enough, from a guess that is seldom far off."""
    coins = min(max(guess, 1), MOST_COINS)
    while not enough(coins):
        coins += 1
        if coins > MOST_COINS or coins > 2 * guess + 64:
            return None
    while coins > 1 and enough(coins - 1):
        coins -= 1
    return coins


def _normal_variance(r: int, epsilon: float, delta: float) -> float:
    """About the variance of normal noise that hides a shift by r."""
    low, high = 1e-3 * r, 1e9 * r
    for _ in range(50):
        middle = math.sqrt(low * high)
        too_small = gaussian_epsilon(r / middle, delta) > epsilon
        low, high = (middle, high) if too_small else (low, middle)
    return high * high
