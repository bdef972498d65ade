"""Rational enclosures of e^x against 120 digits of mpmath; floats on a side of exact numbers."""

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp.numerics.rounding import (
    exp_bounds,
    exp_lower,
    exp_upper,
    float_above,
    float_below,
    log_lower,
    log_upper,
)

POINTS = [
    Fraction(1),
    Fraction(-1),
    Fraction(1, 3),
    Fraction(-22, 7),
    Fraction(0.1),
    Fraction(700.5),
    Fraction(-745.2),
    Fraction(20_000),
    Fraction(-20_000),
    Fraction(19_999) + Fraction(1, 7),
    Fraction(1, 10**300),
    Fraction(-1, 10**300),
    Fraction(5e-324),
]


def true_exp(x, digits=120):
    """e^x as a fraction, right to `digits` digits."""
    with mpmath.workdps(digits + 20):
        value = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)
        mantissa, exponent = value.man_exp
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


@pytest.mark.parametrize("x", POINTS, ids=float)
@pytest.mark.parametrize("digits", [10, 50, 80])
def test_encloses(x, digits):
    low, high = exp_bounds(x, digits)
    truth = true_exp(x, 340 if abs(x) < Fraction(1, 10**200) else 120)
    assert low < truth < high
    assert high - low <= truth / 10 ** (digits - 1)


@settings(deadline=None)
@given(st.floats(min_value=-1000, max_value=1000))
def test_encloses_any_float(x):
    low, high = exp_bounds(x)
    truth = true_exp(Fraction(x), 400)
    assert low <= truth <= high
    assert high - low <= truth / 10**48


def test_zero_is_exact():
    assert exp_bounds(0) == exp_bounds(0.0) == (1, 1)


def test_ends():
    assert (exp_lower(0.7), exp_upper(0.7)) == exp_bounds(0.7)


def test_float_is_not_its_decimal():
    """0.1 is the double 0.1000000000000000055..., not one tenth."""
    assert exp_lower(0.1) > exp_upper(Fraction(1, 10))


def test_far_below():
    low, high = exp_bounds(-1e300)
    assert low == 0
    assert 0 < high < Fraction(1, 10**8000)
    assert high >= true_exp(Fraction(-20_000))


def test_far_above():
    with pytest.raises(OverflowError, match="too large"):
        exp_bounds(20_001)


def test_reciprocals_fit():
    for x in (0.3, 1.0, 12.5):
        assert exp_lower(x) * exp_lower(-x) < 1 < exp_upper(x) * exp_upper(-x)


class TestFloatsOnASide:
    @given(st.fractions(min_value=-(10**9), max_value=10**9))
    def test_nearest_of_each_side(self, value):
        above, below = float_above(value), float_below(value)
        assert Fraction(below) <= value <= Fraction(above)
        assert Fraction(math.nextafter(above, -math.inf)) < value
        assert Fraction(math.nextafter(below, math.inf)) > value

    @pytest.mark.parametrize("value", [0.0, 0.1, -0.1, 5e-324, 1e300])
    def test_floats_stay(self, value):
        assert float_above(Fraction(value)) == float_below(Decimal(value)) == value

    def test_below_the_smallest_float(self):
        tiny = Fraction(1, 10**400)
        assert (float_below(tiny), float_above(tiny)) == (0.0, 5e-324)
        assert float_above(Decimal("1e-400")) == 5e-324

    @pytest.mark.parametrize("text", ["0.1", "0.3", "-0.1", "2.675"])
    def test_decimals(self, text):
        value = Decimal(text)
        assert Decimal(float_below(value)) < value < Decimal(float_above(value))


@pytest.mark.parametrize(
    "ratio",
    [Fraction(5, 2), Fraction(10**9 + 1, 10**9), Fraction(10**60 + 1, 10**60), Fraction(10**40)],
)
def test_logarithm_is_rounded_up_and_no_further(ratio):
    with mpmath.workdps(200):
        true = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        found = log_upper(ratio)
        assert log_lower(1 / ratio) == -found
        assert found >= true
        assert math.nextafter(found, 0.0) < true
