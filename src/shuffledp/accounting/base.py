"""What the accountants share: how small a delta can be, and from delta back to epsilon."""

import math
from collections.abc import Callable

from shuffledp.numerics.search import smallest_safe

__all__ = ["SMALLEST_DELTA", "find_epsilon", "gaussian_epsilon"]

SMALLEST_DELTA = 1e-300
"""Below this a delta is not told from 0: floating-point numbers end near 1e-308."""


def gaussian_epsilon(mu: float, delta: float) -> float:
    """About the epsilon of a mu-Gaussian pair at delta: where a search for the true one may start.

    Solves delta = mu (phi(z) - z Q(z)), the limit for small mu, and returns mu z + mu^2 / 2.

    >>> round(gaussian_epsilon(0.01, 1e-6), 4)
    0.0337
    """
    low, high = 0.0, 40.0
    for _ in range(60):
        z = (low + high) / 2
        tail = math.erfc(z / math.sqrt(2)) / 2
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        # Above z = 5 the difference cancels; phi / (z^2 + 2) has its size.
        value = mu * (density - z * tail if z < 5 else density / (z * z + 2))
        low, high = (z, high) if value > delta else (low, z)
    return mu * low + mu * mu / 2


def find_epsilon(
    delta_at: Callable[[float], float], delta: float, *, epsilon0: float, guess: float
) -> float:
    """Nearly the smallest epsilon with delta_at(epsilon) <= delta, and always one of them.

    It is 0 if delta_at(0) is small enough. Otherwise it is rounded up by at most a part in 10^6, and to
    at least 10^-12 epsilon0; epsilon0 itself must be safe.

    >>> round(find_epsilon(lambda epsilon: math.exp(-epsilon) / 2, 0.1, epsilon0=9.0, guess=1.0), 5)
    1.60944
    """
    if delta_at(0.0) <= delta:
        return 0.0
    return smallest_safe(
        lambda epsilon: math.log(max(delta_at(epsilon), SMALLEST_DELTA) / delta),
        safe=epsilon0,
        guess=guess,
        floor=_LEAST * epsilon0,
    )


_LEAST = 1e-12  # without a floor above 0, a search for 0 would go on through all floats
