"""What the accountants share."""

import math

__all__ = ["SMALLEST_DELTA", "gaussian_epsilon"]

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
