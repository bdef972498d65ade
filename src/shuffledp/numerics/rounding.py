"""Rational enclosures of e^x, logarithms and floats on a chosen side of exact numbers.

e^x is the only transcendental number that samplers need; audits need ln x, too.

Python's `decimal` rounds exp correctly at any precision, on every platform, so one unit in the last
place on either side is a proof, not a hope.
"""

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

UNIT = 2.0**-53
"""The relative rounding error of one floating-point operation.

One assumption is made about the machine: elementary functions (exp, log1p, sin, ...) of Python and NumPy are
wrong by at most eight of these, which are four units in the last place, as NumPy documents."""

_LOG_DIGITS = 40
_VANISHING = 20_000  # beyond this |x|, e^x has thousands of digits and nobody needs them


@lru_cache(maxsize=1024)
def exp_bounds(x: Fraction | float, digits: int = 50) -> tuple[Fraction, Fraction]:
    """Return fractions (low, high) with low <= e^x <= high, within 10^(1 - digits) of each other.

    >>> low, high = exp_bounds(1.0)
    >>> low < high and float(low) == float(high) == 2.718281828459045
    True
    """
    exact = Fraction(x)
    if exact == 0:
        return Fraction(1), Fraction(1)
    if exact > _VANISHING:
        raise OverflowError(f"e^{float(exact)} is too large to write down")
    if exact < -_VANISHING:
        return Fraction(0), exp_bounds(Fraction(-_VANISHING), 10)[1]
    # |x| <= 20000 has up to 5 digits before the point: carry them so that e^x keeps `digits`.
    down, up = _ratio(exact, digits + 8)
    context = _context(digits + 2)
    low = context.next_minus(down.exp(context))
    high = context.next_plus(up.exp(context))
    return Fraction(low), Fraction(high)


def exp_lower(x: Fraction | float) -> Fraction:
    """Return a fraction at most e^x: by less than one part in 10^48 up to x = 20,000, and e^20,000 beyond.

    >>> exp_lower(1.0) < exp_upper(1.0)
    True
    """
    return exp_bounds(min(Fraction(x), Fraction(_VANISHING)))[0]


def exp_upper(x: Fraction | float) -> Fraction:
    """Return a fraction at least e^x, by less than one part in 10^48."""
    return exp_bounds(x)[1]


def float_above(value: Fraction | Decimal) -> float:
    """Return the smallest float that is at least `value`.

    >>> float_above(Fraction(1, 3)) > Fraction(1, 3), float_above(Fraction(1, 4))
    (True, 0.25)
    >>> Decimal(float_above(Decimal("0.1"))) >= Decimal("0.1")
    True
    """
    near = float(value)  # rounded correctly, so one step is enough; comparisons are exact
    return near if near >= value else math.nextafter(near, math.inf)


def float_below(value: Fraction | Decimal) -> float:
    """Return the largest float that is at most `value`.

    >>> float_below(Fraction(2, 3)) < Fraction(2, 3) < float_above(Fraction(2, 3))
    True
    >>> float_below(Fraction(1, 4))
    0.25
    """
    near = float(value)
    return near if near <= value else math.nextafter(near, -math.inf)


def log_upper(ratio: Fraction | float) -> float:
    """Return the smallest float that is surely at least ln ratio, for a ratio above 0 (or infinite).

    >>> log_upper(Fraction(1)), log_upper(Fraction(5, 2)), log_upper(math.inf)
    (0.0, 0.9162907318741551, inf)
    """
    if ratio == math.inf:
        return math.inf
    exact = Fraction(ratio)
    if exact == 1:
        return 0.0
    # ln(1 + d) loses the digits that d has after the point, so small d are written with more.
    away = exact - 1
    small = (away.denominator.bit_length() - away.numerator.bit_length()) * 3 // 10
    context = Context(prec=_LOG_DIGITS + 2 * max(0, small), rounding=ROUND_CEILING)
    up = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return float_above(context.next_plus(up.ln(context)))


def log_lower(ratio: Fraction) -> float:
    """Return the largest float that is surely at most ln ratio; minus infinity at 0.

    >>> log_lower(Fraction(2, 5)), log_lower(Fraction(0))
    (-0.9162907318741551, -inf)
    """
    return -log_upper(1 / ratio) if ratio else -math.inf


def dyadic_above(x: Fraction | float, bits: int) -> Fraction:
    """Return the smallest multiple of 2^-bits that is at least x: what words of that many bits can decide.

    >>> dyadic_above(0.3, 2)
    Fraction(1, 2)
    """
    return Fraction(math.ceil(Fraction(x) * (1 << bits)), 1 << bits)


def _ratio(x: Fraction, digits: int) -> tuple[Decimal, Decimal]:
    numerator, denominator = Decimal(x.numerator), Decimal(x.denominator)
    down = _context(digits, ROUND_FLOOR).divide(numerator, denominator)
    up = _context(digits, ROUND_CEILING).divide(numerator, denominator)
    return down, up


def _context(digits: int, rounding: str | None = None) -> Context:
    return Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX)


def shorten(x: float) -> float:
    """Round x > 0 down to 30 bits, so at least to x (1 - 2^-29): nearly equal numbers become equal.

    >>> shorten(0.5), shorten(1e-8) == shorten(1e-8 * (1 + 1e-13)), shorten(1e-8) <= 1e-8
    (0.5, True, True)
    """
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(math.ldexp(mantissa, 30)), exponent - 30)
