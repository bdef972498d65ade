"""Masses and the special functions behind the tails, against 40 digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import betainc, gammaincc

from shuffledp.accounting.cells import TAIL_ERROR
from shuffledp.numerics.binomial import (
    binomial_at_least,
    binomial_at_most,
    binomial_mass,
    falling_series,
    poisson_mass,
)
from shuffledp.numerics.masses import (
    RELATIVE_ERROR,
    binomial,
    log_negative_binomial,
    log_poisson,
    stirling_error,
)

mpmath.mp.dps = 50
DEVIATIONS = (-35, -12, -6, -3, -1, 0, 1, 3, 6, 12, 35)


def places(mean, sd, top):
    return sorted({min(max(int(mean + z * sd), 0), top) for z in DEVIATIONS} | {0, 1, 2})


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1, 0.5),
        (2, 0.25),
        (40, 0.1),
        (10**4, 0.3),
        (10**9, 4e-8),
        (10**9, 0.5),
        (10**12, 1e-3),
        (10**12, 0.5),
    ],
)
def test_binomial(n, p):
    for k in places(n * p, math.sqrt(n * p * (1 - p)), n):
        exact = binomial_mass(k, n, Fraction(p))
        found = float(binomial(np.array(float(k)), n, p))
        assert abs(found - exact) <= RELATIVE_ERROR * exact + 1e-300


@pytest.mark.parametrize("mean", [0.01, 1.0, 40.5, 84_336.0, 1e9, 1e12])
def test_poisson(mean):
    for k in places(mean, math.sqrt(mean), 10**13):
        exact = poisson_mass(k, Fraction(mean))
        found = float(np.exp(log_poisson(np.array(float(k)), mean)))
        assert abs(found - exact) <= RELATIVE_ERROR * exact + 1e-300


@pytest.mark.parametrize(
    ("r", "p"),
    [(1e-6, 0.5), (0.3, 0.7), (1.0, 0.9), (17.6, 0.9445), (28.6, 0.99999), (500.5, 0.999)],
)
def test_negative_binomial(r, p):
    R, P = mpmath.mpf(r), mpmath.mpf(p)
    mean, sd = r * p / (1 - p), math.sqrt(r * p) / (1 - p)
    for k in places(mean, sd, 10**9):
        exact = (
            mpmath.loggamma(k + R)
            - mpmath.loggamma(R)
            - mpmath.loggamma(k + 1)
            + R * mpmath.log(1 - P)
            + k * mpmath.log(P)
        )
        found = float(log_negative_binomial(np.array(float(k)), r, p))
        assert abs(found - exact) <= RELATIVE_ERROR


def test_stirling_error():
    for x in (1e-3, 0.5, 1.0, 15.9, 16.0, 17.3, 1e6):
        X = mpmath.mpf(x)
        exact = (
            mpmath.loggamma(X + 1) - (X + 0.5) * mpmath.log(X) + X - mpmath.log(2 * mpmath.pi) / 2
        )
        assert float(stirling_error(np.array(x))) == pytest.approx(float(exact), abs=3e-14)


TAILS = (3, 6, 12, 30)


def within(size):
    # At 10^12 the reference itself is rounded up by up to 2e-8, for its millions of terms.
    return TAIL_ERROR if size <= 10**9 else 2e-8


@pytest.mark.parametrize("mean", [5.3, 300.0, 5_282.0, 2e5, 1e9, 1e12])
def test_scipy_lower_poisson_tails(mean):
    """`gammaincc` alone: `gammainc` is wrong by 60 % at mean 10^9, six deviations above it."""
    for z in TAILS:
        k = int(mean - z * math.sqrt(mean))
        if k >= 0:
            first = poisson_mass(k, Fraction(mean))
            exact = falling_series(first, lambda i, k=k: (k - i) / mean, 0.0)
            assert gammaincc(k + 1, mean) == pytest.approx(exact, rel=within(mean), abs=1e-299)


@pytest.mark.parametrize(
    ("n", "p"),
    [(200, 0.1), (10**4, 0.3), (10**9, 0.001), (10**9, 0.5), (10**12, 1e-7), (10**12, 0.5)],
)
def test_scipy_binomial_tails(n, p):
    mean, sd = n * p, math.sqrt(n * p * (1 - p))
    for z in TAILS:
        k = int(mean - z * sd)
        if k >= 0:  # as the cells use it: 1 - p is rounded up
            keep = math.nextafter(float(1 - Fraction(p)), 1.0)
            exact = binomial_at_most(k, n, 1 - Fraction(keep))
            assert betainc(n - k, k + 1, keep) == pytest.approx(exact, rel=within(n), abs=1e-299)
        k = int(mean + z * sd)
        if k <= n:  # as the independent bins use it
            exact = binomial_at_least(k, n, Fraction(p))
            assert betainc(k, n - k + 1, p) == pytest.approx(exact, rel=within(n), abs=1e-299)
