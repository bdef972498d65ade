"""The expected positive part of a sum: by listing, by Fourier, and by 40 digits."""

import math

import mpmath
import numpy as np
import pytest

from shuffledp.accounting import positive_part as module
from shuffledp.accounting.positive_part import mean_positive_part


def by_digits(masses, gains, n, largest):
    """(1/n) E[(G_1 + G_2 + ...)_+] for two values, each coming up at most `largest` times."""
    with mpmath.workdps(40):
        first, second = (mpmath.mpf(mass) for mass in masses)
        rest = mpmath.log(1 - first - second)
        logs = [mpmath.loggamma(i + 1) for i in range(largest + 1)]
        falling = [mpmath.mpf(0)]  # ln of n (n - 1) ... (n - i + 1)
        for i in range(2 * largest):
            falling.append(falling[-1] + mpmath.log(n - i))
        total = mpmath.mpf(0)
        for i in range(largest + 1):
            for j in range(largest + 1):
                value = i * mpmath.mpf(gains[0]) + j * mpmath.mpf(gains[1])
                if value <= 0:
                    continue
                log = falling[i + j] - logs[i] - logs[j] + (n - i - j) * rest
                log += i * mpmath.log(first) + j * mpmath.log(second)
                total += value * mpmath.exp(log)
        return float(total / n)


@pytest.mark.parametrize("n", [10**4, 10**6, 9 * 10**8])
@pytest.mark.parametrize("gains", [(1.0, -1.7), (1.0, -math.pi), (1.0, -1.0)])
def test_few_events_among_many_users(n, gains):
    masses = np.array([12 / n, 14 / n])
    exact = by_digits(masses, gains, n, 80)
    found = mean_positive_part(masses, np.array(gains), n)
    assert exact * (1 - 1e-12) <= found <= exact * 1.005


def test_the_bound_by_digits_tells_a_wrong_mass():
    n = 10**6
    exact = by_digits(np.array([12.3 / n, 14 / n]), (1.0, -1.7), n, 80)
    assert mean_positive_part(np.array([12 / n, 14 / n]), np.array([1.0, -1.7]), n) < exact


@pytest.mark.parametrize("n", [40, 150])
@pytest.mark.parametrize("shift", [0.05, 0.2, 0.5])
def test_listing_and_fourier_agree(n, shift):
    masses, gains = np.array([0.3, 0.3]), np.array([1.0, -1.0 - shift])
    listed = module._listed(masses, gains, n)
    tilt = module._Tilt.solve(masses, gains, n)
    fourier = tilt.scale(module._by_fourier(tilt))
    assert listed * (1 - 1e-9) <= fourier <= listed * 1.01


def test_a_stronger_blur_only_raises(monkeypatch):
    masses, gains = np.array([0.3, 0.2]), np.array([1.0, -1.8])
    tilt = module._Tilt.solve(masses, gains, 2_000)
    found = []
    for added in (1e-7, 1e-5, 1e-3, 1e-1):
        monkeypatch.setattr(module, "_ADDED_VARIANCE", added)
        found.append(module._by_fourier(tilt))
    assert found == sorted(found)
    assert found[-1] > 1.1 * found[0]
