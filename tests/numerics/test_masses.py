"""Masses and the special functions behind the tails, against 40 digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from shuffledp.numerics.masses import (
    FAR_ERROR,
    RELATIVE_ERROR,
    TINY,
    binomial_at_most,
    binomial_mass,
    binomial_masses,
    log_negative_binomial,
    stirling_error,
)

mpmath.mp.dps = 60
DEVIATIONS = (-35, -19, -12, -6, -3, -1, 0, 1, 3, 6, 12, 19, 35)


def places(mean, sd, top):
    return sorted({min(max(int(mean + z * sd), 0), top) for z in DEVIATIONS} | {0, 1, 2})


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1, 0.5),
        (2, 0.25),
        (40, 0.1),
        (10**4, 0.3),
        (10**7, 0.3),
        (10**9, 4e-8),
        (10**9, 0.5),
        (10**12, 1e-3),
        (10**12, 0.5),
    ],
)
def test_binomial(n, p):
    for k in places(n * p, math.sqrt(n * p * (1 - p)), n):
        exact = binomial_mass(k, n, Fraction(p))
        found = float(binomial_masses(np.array(float(k)), n, p))
        assert abs(found - exact) <= RELATIVE_ERROR * exact + 1e-300


@pytest.mark.parametrize("p", [0.3, 0.7123, 1e-4])
def test_binomial_of_very_many(p):
    n = 10**12 - 7
    sd = math.sqrt(n * p * (1 - p))
    for z in np.linspace(-20, 20, 29):
        k = int(n * p + z * sd)
        exact = binomial_mass(k, n, Fraction(p))
        assert abs(float(binomial_masses(np.array(float(k)), n, p)) - exact) <= FAR_ERROR * exact


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


def test_a_tail_below_the_floats_is_not_0():
    assert 0 < binomial_at_most(0, 10**6, Fraction(1, 2)) <= TINY * (1 + 1e-9)
