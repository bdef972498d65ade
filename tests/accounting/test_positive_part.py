"""The expected positive part of a sum: by listing, by Fourier, and by 40 digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from shuffledp.accounting import positive_part as module
from shuffledp.accounting.blanket import Blanket
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


def by_contour(masses, gains, n):
    """(1/n) E[(G_1 + ... + G_n)_+] by Bromwich's integral, for n so large that lattices do not matter."""

    def moment(s, power):
        return mpmath.fsum(
            w * g**power * mpmath.exp(s * g) for w, g in zip(masses, gains, strict=True)
        )

    def mgf(s):
        return 1 + mpmath.fsum(w * mpmath.expm1(s * g) for w, g in zip(masses, gains, strict=True))

    low, high = mpmath.mpf(0), 1 / max(gains)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if moment(middle, 1) < 0 else (low, middle)
    sd = mpmath.sqrt(n * moment(high, 2) / mgf(high))
    step = mpmath.mpf(14) / sd / 120

    def term(k):
        s = mpmath.mpc(high, k * step)
        return (mpmath.exp(n * mpmath.log(mgf(s) / mgf(high))) / s**2).real

    total = (term(0) + 2 * mpmath.fsum(map(term, range(1, 120)))) * step / (2 * mpmath.pi)
    return total * mgf(high) ** n / n


def nearly_equal_laws(seed, tiny):
    random = np.random.default_rng(seed)
    base = [Fraction(int(b)) for b in random.integers(1, 100, 5)]
    laws = []
    for _ in range(3):
        sizes = [
            b * (1 + Fraction(float(x) * tiny)) for b, x in zip(base, random.random(5), strict=True)
        ]
        laws.append([size / sum(sizes) for size in sizes])
    return laws


def near_misses(tiny, n):
    """How far above the truth, in parts of it, the deltas of some nearly equal laws are."""
    found = []
    for seed in range(6):
        first, second, third = nearly_equal_laws(seed, tiny)
        w = [min(column) for column in zip(first, second, third, strict=True)]
        a, b = ([x / y for x, y in zip(law, w, strict=True)] for law in (first, second))
        blanket = Blanket(
            mass=tuple(map(float, w)), first=tuple(map(float, a)), second=tuple(map(float, b))
        )
        spread = float(sum(c * (x - y) ** 2 for c, x, y in zip(w, a, b, strict=True)))
        epsilon = 8 * math.sqrt(spread / n)
        with mpmath.workdps(50):
            exactly = [[mpmath.mpf(x.numerator) / x.denominator for x in row] for row in (w, a, b)]
            E = mpmath.exp(mpmath.mpf(epsilon))
            gains = [x - E * y for x, y in zip(exactly[1], exactly[2], strict=True)]
            truth = by_contour(exactly[0], gains, n)
            found.append(float(mpmath.mpf(blanket.delta(epsilon, n)) / truth - 1))
    return found


@pytest.mark.parametrize(
    ("tiny", "n", "most"), [(1e-2, 10**12, 1e-4), (1e-7, 10**10, 0.5), (1e-7, 10**12, 10.0)]
)
def test_rounded_ratios_of_nearly_equal_laws(tiny, n, most):
    found = near_misses(tiny, n)
    assert min(found) > 0
    # Even a factor of delta is a small part of epsilon, which is below 10^-12 there.
    assert max(found) < most


def test_without_their_rounding_some_of_them_are_too_small(monkeypatch):
    monkeypatch.setattr(Blanket, "rounding", lambda *_: 0.0)
    assert min(near_misses(1e-7, 10**10)) < 0


def test_hardly_any_mass_is_left_for_the_value_0():
    masses, gains, n = np.array([5.9e-12, 1 - 6.9e-12]), np.array([0.375, -1.125]), 11
    (first, second), rest = map(Fraction, masses), 1 - sum(map(Fraction, masses))
    exact = sum(
        math.factorial(n)
        * (first**i / math.factorial(i))
        * (second**j / math.factorial(j))
        * (rest ** (n - i - j) / math.factorial(n - i - j))
        * max(0, i * Fraction(gains[0]) + j * Fraction(gains[1]))
        for i in range(n + 1)
        for j in range(n + 1 - i)
    )
    found = Fraction(mean_positive_part(masses, gains, n)) * n
    assert exact <= found <= exact * Fraction(101, 100)


def test_values_that_are_all_positive_need_no_evaluation():
    assert mean_positive_part(np.array([0.5]), np.array([3.0]), 10**4) == pytest.approx(1.5)
    assert mean_positive_part(np.array([0.5, 0.5]), np.array([3.0, -1.0]), 1) == pytest.approx(1.5)
    # A value that never comes up is none.
    assert mean_positive_part(np.array([0.0, 0.5]), np.array([3.0, -1.0]), 10) == 0


def test_a_sum_of_mean_0():
    masses, gains, n = np.array([0.25, 0.25]), np.array([1.0, -1.0]), 10**6
    half_mean_size = math.sqrt(n / 2 / (2 * math.pi)) / n
    assert 1 <= mean_positive_part(masses, gains, n) / half_mean_size < 1.005


@pytest.mark.parametrize("mass", [1e-300, 1e-12, 0.3])
@pytest.mark.parametrize("loss", [1.0001, 2.0, 1e8])
@pytest.mark.parametrize("n", [10**6, 10**12])
def test_extreme_laws_neither_overflow_nor_lose_the_bound(mass, loss, n):
    w, g = np.array([mass, 0.5]), np.array([1.0, -loss])
    assert 0 < mean_positive_part(w, g, n) <= mass * (1 + 1e-7)
