"""Logarithms of exact ratios, rounded to a side."""

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from shuffledp.numerics.rounding import float_above

__all__ = ["log_upper"]

_DIGITS = 40


def log_upper(ratio: Fraction | float) -> float:
    """The smallest float that is surely at least ln ratio, for a ratio >= 1 (or infinite).

    >>> log_upper(Fraction(1)), log_upper(Fraction(5, 2)), log_upper(math.inf)
    (0.0, 0.9162907318741551, inf)
    """
    if ratio == math.inf:
        return math.inf
    exact = Fraction(ratio)
    if exact == 1:
        return 0.0
    # ln(1 + d) loses the digits that d has after the point, so small d are written with more.
    small = max(0, -_exponent(exact - 1))
    context = Context(prec=_DIGITS + 2 * small, rounding=ROUND_CEILING)
    up = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return float_above(context.next_plus(up.ln(context)))


def _exponent(value: Fraction) -> int:
    """About the decimal exponent."""
    return (value.numerator.bit_length() - value.denominator.bit_length()) * 3 // 10
