"""Binomial tails with a certified side.

Masses come from Stirling's series in 60-digit decimals, tails are series of positive terms whose
rounding errors and remainder are bounded and added: an upper bound is one by proof.
"""

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.core.arrays import Floats
from shuffledp.numerics.rounding import UNIT

TINY = 1e-300
"""What upper bounds of smaller numbers are rounded up to."""

_DECIMAL = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
_HALF_LOG_2_PI = Decimal("0.918938533204672741780329736405617639861397473637783412817151540")
# B_2j / (2j (2j - 1)), j = 1 .. 10; the error is less than the next one, 3e-31 at n = 32.
_STIRLING = tuple(
    _DECIMAL.divide(Decimal(top), Decimal(bottom))
    for top, bottom in (
        (1, 12),
        (-1, 360),
        (1, 1260),
        (-1, 1680),
        (1, 1188),
        (-691, 360360),
        (1, 156),
        (-3617, 122400),
        (43867, 244188),
        (-174611, 125400),
    )
)


def binomial_mass(y: int, n: int, p: Fraction) -> float:
    """Pr[Bin(n, p) = y], within two units in the last place (0 if below the smallest float).

    >>> binomial_mass(5, 10, Fraction(1, 2)) == 252 / 1024
    True
    """
    if not 0 <= y <= n:
        return 0.0
    if p in (0, 1):
        return float(y == n * p)
    with localcontext(_DECIMAL):
        log = _log_factorial(n) - _log_factorial(y) - _log_factorial(n - y)
        return float((log + y * _log(p) + (n - y) * _log(1 - p)).exp())


def binomial_log_ratio(y: int, r: int, n: int, p: Fraction) -> Decimal:
    """ln (Pr[Bin(n, p) = y - r] / Pr[Bin(n, p) = y]), r <= y <= n, within 1e-24.

    >>> round(binomial_log_ratio(2, 1, 4, Fraction(1, 2)).exp(), 20) * 3
    Decimal('2.00000000000000000001')
    """
    with localcontext(_DECIMAL):
        log = _log_factorial(y) - _log_factorial(y - r)
        log += _log_factorial(n - y) - _log_factorial(n - y + r)
        return log + r * (_log(1 - p) - _log(p))


def negative_binomial_mass(k: int, r: Fraction, p: Fraction) -> float:
    """Pr[NB(r, p) = k] = C(k + r - 1, k) (1 - p)^r p^k, r > 0, within two units in the last place.

    >>> negative_binomial_mass(2, Fraction(1), Fraction(1, 2))
    0.125
    """
    with localcontext(_DECIMAL):
        size = Decimal(r.numerator) / Decimal(r.denominator)
        log = _log_gamma(size + k) - _log_gamma(size) - _log_factorial(k)
        return float((log + size * _log(1 - p) + k * _log(p)).exp())


def binomial_at_most(x: int, n: int, p: Fraction) -> float:
    """Pr[Bin(n, p) <= x], rounded up a little if x is below the mean n p; otherwise 1.

    >>> round(binomial_at_most(3, 10, Fraction(1, 2)), 9), 176 / 1024
    (0.171875, 0.171875)
    """
    if x < 0:
        return 0.0
    if x >= n * p:
        return 1.0
    odds = float((1 - p) / p)
    down = sum_falling_series(
        binomial_mass(x, n, p), lambda i: (x - i) / (n - x + i + 1) * odds, 0.0
    )
    return min(1.0, down)


def binomial_at_least(x: int, n: int, p: Fraction) -> float:
    """Pr[Bin(n, p) >= x], rounded up a little if x is above the mean n p; otherwise 1.

    >>> round(binomial_at_least(7, 10, Fraction(1, 2)), 9), 176 / 1024
    (0.171875, 0.171875)
    """
    return binomial_at_most(n - x, n, 1 - p)


def sum_falling_series(first: float, ratios: Callable[[Floats], Floats], factor: float) -> float:
    """Return an upper bound, tight to about 1e-12, of sum_i m_i max(0, 1 - factor ratios(i)).

    m_0 = first (two units in the last place off at most), m_(i+1) = m_i ratios(i); the ratios may be
    three rounding errors off, must not increase with i, and fall below 1 or end in 0. factor = 0
    gives the tail of a log-concave law, factor = e^epsilon its hockey-stick divergence from itself
    shifted by one.

    >>> round(sum_falling_series(0.5, lambda i: 0.5 + 0 * i, 0.0), 12)
    1.0
    """
    total, mass, running, done, size = 0.0, 0.0, 1.0, 0, 256
    remainder = math.inf
    while remainder > UNIT * mass:
        steps = np.maximum(ratios(np.arange(done, done + size, dtype=np.float64)), 0.0)
        products = running * np.cumprod(steps)
        weights = np.concatenate(([running], products[:-1]))
        total += float(weights @ np.maximum(1 - factor * steps, 0.0))
        mass += float(weights.sum())
        running, last = float(products[-1]), float(steps[-1])
        # What is left is at most a geometric series with the last ratio.
        remainder = running / (1 - last) if last < 1 else math.inf
        done, size = done + size, min(2 * size, 1 << 16)
    # Each weight is a product of up to `done` rounded factors; each 1 - factor ratio is a few
    # rounding errors off.
    relative = 8 * (done + 16) * UNIT
    bound = max(first, TINY) * (total + remainder + 8 * UNIT * mass) * (1 + relative)
    return max(bound, TINY)


def _log(x: Fraction) -> Decimal:
    with localcontext(_DECIMAL):
        return (Decimal(x.numerator) / Decimal(x.denominator)).ln()


@lru_cache(maxsize=4096)
def _log_factorial(n: int) -> Decimal:
    """ln n!, within 1e-25 for n up to 10^20."""
    return _log_gamma(Decimal(n + 1))


def _log_gamma(x: Decimal) -> Decimal:
    """ln Gamma(x), x > 0, with the same error."""
    with localcontext(_DECIMAL):
        product = Decimal(1)
        while x < 33:  # Gamma(x + 1) = x Gamma(x), up to where Stirling's series holds
            product, x = product * x, x + 1
        y, series = x - 1, Decimal(0)
        for coefficient in reversed(_STIRLING):  # Horner in 1 / y^2
            series = coefficient + series / (y * y)
        log = (y + Decimal("0.5")) * y.ln() - y + _HALF_LOG_2_PI + series / y
        return log - product.ln()
