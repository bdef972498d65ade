"""The error that frequency oracles are tuned for."""

from fractions import Fraction

__all__ = ["light_variance"]


def light_variance(p: Fraction, q: Fraction) -> Fraction:
    """Variance, per user, of the estimate of a category that nobody holds: q (1 - q) / (p - q)^2.

    >>> light_variance(Fraction(3, 4), Fraction(1, 4))
    Fraction(3, 4)
    """
    return q * (1 - q) / (p - q) ** 2
