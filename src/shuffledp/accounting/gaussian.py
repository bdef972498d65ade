"""Gaussian pairs with about a given guarantee: where searches start, and how budgets are shared."""

import math

from shuffledp.core.protocol import Promise

__all__ = ["gaussian_epsilon", "gaussian_scale"]


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """The delta of a mu-Gaussian pair."""

    def below(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    return below(mu / 2 - epsilon / mu) - math.exp(epsilon) * below(-mu / 2 - epsilon / mu)


def gaussian_scale(promise: Promise) -> float:
    """About the mu of the Gaussian pair that keeps this promise and no better one.

    >>> round(gaussian_scale(Promise(epsilon=1.0, delta=1e-8)), 3)
    0.196
    """
    low, high = 1e-6, 50.0
    for _ in range(80):
        middle = math.sqrt(low * high)
        over = _gaussian_delta(middle, promise.epsilon) > promise.delta
        low, high = (low, middle) if over else (middle, high)
    return low


def gaussian_epsilon(mu: float, delta: float) -> float:
    """About the epsilon of a mu-Gaussian pair at delta."""
    low, high = 0.0, 40.0 * mu + mu * mu
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _gaussian_delta(mu, middle) > delta else (low, middle)
    return high
