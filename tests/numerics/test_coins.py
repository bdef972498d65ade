"""Fair coins against 50-digit arithmetic."""

import math

import mpmath as mp
import numpy as np
import pytest

from shuffledp.numerics import coins

SIZES = [1, 2, 3, 15, 16, 17, 100, 1_001, 30_000, 10**6, 10**9]
DEVIATIONS = [-36.0, -20.0, -5.0, -1.0, -0.1, 0.0, 0.7, 3.0, 12.0]


def exact_pmf(k: int, C: int) -> mp.mpf:
    log = mp.loggamma(C + 1) - mp.loggamma(k + 1) - mp.loggamma(C - k + 1) - C * mp.log(2)
    return mp.exp(log)


def beta_fraction(a: int, b: int, x: mp.mpf) -> mp.mpf:
    """The continued fraction of the incomplete beta function (Lentz), for x < (a + 1) / (a + b + 2)."""
    c, d = mp.mpf(1), 1 / (1 - (a + b) * x / (a + 1))
    h, m = d, 0
    while True:
        m += 1
        even = m * (b - m) * x / ((a - 1 + 2 * m) * (a + 2 * m))
        d, c = 1 / (1 + even * d), 1 + even / c
        h *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 1 + 2 * m))
        d, c = 1 / (1 + odd * d), 1 + odd / c
        h *= d * c
        if abs(d * c - 1) < mp.mpf(10) ** -30:
            return h


def exact_cdf(k: int, C: int) -> mp.mpf:
    """Pr[Bin(C, 1/2) <= k] = I_{1/2}(C - k, k + 1), from its smaller side."""
    if k >= C:
        return mp.mpf(1)
    if 2 * k >= C:
        return 1 - exact_cdf(C - k - 1, C)
    if k < 0:
        return mp.mpf(0)
    a, b = C - k, k + 1
    log = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b) - (a + b) * mp.log(2)
    return mp.exp(log) / a * beta_fraction(a, b, mp.mpf(1) / 2)


def places(C: int) -> list[int]:
    middle = [round(C / 2 + z * math.sqrt(C) / 2) for z in DEVIATIONS]
    return sorted({k for k in [0, 1, C - 1, C, *middle] if 0 <= k <= C})


def test_the_reference_is_right_at_small_sizes():
    mp.mp.dps = 50
    for k in range(-1, 12):
        direct = sum(math.comb(11, j) for j in range(min(k, 11) + 1)) / mp.mpf(2) ** 11
        assert abs(exact_cdf(k, 11) - direct) < mp.mpf(10) ** -25


@pytest.mark.parametrize("C", SIZES)
def test_relative_errors_in_the_tails(C):
    mp.mp.dps = 50
    ks = places(C)
    k, size = np.array(ks, dtype=float), np.full(len(ks), float(C))
    for function, exact in ((coins.pmf, exact_pmf), (coins.cdf, exact_cdf)):
        for at, computed in zip(ks, function(k, size), strict=True):
            if exact is exact_cdf and C >= 10**9 and abs(2 * at - C) < 0.05 * math.sqrt(C):
                continue  # the reference itself converges too slowly next to the middle
            truth = exact_pmf(at, C) if exact is exact_pmf else exact_cdf(at, C)
            if truth < 1e-300:
                assert computed < 1e-299
            else:
                assert abs(computed / truth - 1) < coins.RELATIVE_ERROR / 10, (C, at)


def test_the_largest_sizes():
    mp.mp.dps = 50
    C = 10**12
    for z in (-36, -25, -15, -10, -5, -2, -1):
        k = round(C / 2 + z * math.sqrt(C) / 2)
        at = np.array([float(k)]), np.array([float(C)])
        assert abs(coins.pmf(*at)[0] / exact_pmf(k, C) - 1) < 1e-12
        assert abs(coins.cdf(*at)[0] / exact_cdf(k, C) - 1) < coins.RELATIVE_ERROR / 2


def test_outside_the_support():
    k, C = np.array([-1.0, 4.0, 0.0, -1.0]), np.array([3.0, 3.0, 0.0, 0.0])
    assert coins.pmf(k, C).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert coins.cdf(k, C).tolist() == [0.0, 1.0, 1.0, 0.0]
