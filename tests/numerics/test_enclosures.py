"""Enclosures of binomial masses and tails: identities of fractions, and 50 digits over the whole range."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from shuffledp.core.errors import UnsupportedError
from shuffledp.numerics import masses
from shuffledp.numerics.masses import (
    LARGEST_TRIALS,
    bound_at_most,
    bound_mass,
    bound_mills,
    bound_normal_mills,
    bound_poisson_mass,
)
from support import first

SIZES = [1, 2, 3, 7, 30, 400, 10**4, 10**6, 10**9, 10**12, LARGEST_TRIALS]
CHANCES = [0.5, 0.3, 1 / 3, 0.999, 1e-3, 1e-9, 1 - 2.0**-40]
DEVIATIONS = [0, 0.05, 0.3, 1, 3, 8, 20, 30, 37]


def places(N, p):
    """Places up to 37 standard deviations from the mean, and the ends."""
    mean, sd = N * p, math.sqrt(N * p * (1 - p))
    near = {math.floor(mean + sign * z * sd) for z in DEVIATIONS for sign in (-1, 1)}
    return sorted({min(max(k, 0), N) for k in near | {0, 1, N - 1, N}})


def mass(k, N, p):
    p = mp.mpf(p)
    log = mp.loggamma(N + 1) - mp.loggamma(k + 1) - mp.loggamma(N - k + 1)
    return mp.exp(log + k * mp.log(p) + (N - k) * mp.log1p(-p))


def mills(k, N, p, bits=160, longest=50_000):
    """Pr[<= k] / Pr[= k], term by term in fixed point; None if that takes too long."""
    odds = (1 - Fraction(p)) / Fraction(p)
    up, down = odds.numerator, odds.denominator
    term = total = 1 << bits
    for j in range(k, 0, -1):
        term = term * j * up // ((N - j + 1) * down)
        total += term
        if term >> 20 == 0:
            break
        if k - j > longest:
            return None
    return mp.mpf(total) / (1 << bits)


def holds(low, truth, high):
    return low <= truth <= high or (truth < 1e-300 and low == 0)


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(50):
        yield


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(1, 3), Fraction(7, 8)])
@pytest.mark.parametrize("N", [1, 2, 5, 9, 16])
def test_the_continued_fraction_is_an_identity(N, p):
    q = 1 - p
    for k in range(N):
        if k + 1 > (N + 1) * p:
            continue
        K = None
        for n in range(k + 1, -1, -1):
            alpha = (n + 1) * (k - n) * (N - k + n) * (N + n + 1) * q**2
            alpha /= (N - k + 2 * n + 1) ** 2
            beta = n + n * (k + 1 - n) * q / (N - k + 2 * n - 1) if n else Fraction(0)
            beta += (N - k + n) * ((N + 1) * p - k + n * (1 + p)) / (N - k + 2 * n + 1)
            assert beta > 0
            assert n > k or alpha >= 0
            K = beta if K is None else beta + alpha / K
        law = [math.comb(N, j) * p**j * q ** (N - j) for j in range(k + 1)]
        assert sum(law) == law[k] * p * (N - k) / K


@pytest.mark.parametrize("p", CHANCES)
@pytest.mark.parametrize("N", SIZES)
def test_masses(N, p):
    k = places(N, p)
    low, high = bound_mass(np.array(k), np.array(N), p)
    for i, place in enumerate(k):
        truth = mass(place, N, p)
        assert holds(low[i], truth, high[i])
        if truth > 1e-299:
            assert high[i] <= low[i] * (1 + (2e-10 if p == 0.5 else 3e-6))


@pytest.mark.parametrize("p", CHANCES)
@pytest.mark.parametrize("N", SIZES)
def test_tails(N, p):
    for k in places(N, p):
        left = k + 1 <= (N + 1) * Fraction(p)
        if k == N or N > LARGEST_TRIALS // 2 or (ratio := one_side(k, N, p, left)) is None:
            continue
        low, high = (float(end) for end in bound_at_most(np.array(k), np.array(N), p))
        if left:
            truth = ratio * mass(k, N, p)
            assert holds(low, truth, high)
            assert truth < 1e-299 or truth > 0.15 or high <= low * (1 + 1e-5)
        else:
            truth = ratio * mass(k + 1, N, p)
            assert low <= 1 - truth <= high
            assert truth > 0.15 or high - low <= 1e-5 * truth + 1e-15


def one_side(k, N, p, left):
    return mills(k, N, p) if left else mills(N - k - 1, N, 1 - Fraction(p))


@pytest.mark.parametrize("N", first([10**4, 10**12, 10**6, 10**10], 2))
@pytest.mark.parametrize("z", first([5, 37, 2, 12], 2))
def test_mills_ratios_of_many_coins(N, z):
    """Where a sum of all terms takes too long: the same fraction, 50 digits and 3000 steps."""
    k = math.floor(N / 2 - z * math.sqrt(N) / 2)
    p = q = mp.mpf(1) / 2
    K = mp.inf
    for n in range(3000, -1, -1):
        alpha = (
            (n + 1) * (k - n) * (N - k + n) * (N + n + 1) * q**2 / mp.mpf(N - k + 2 * n + 1) ** 2
        )
        beta = n + n * (k + 1 - n) * q / (N - k + 2 * n - 1)
        beta += (N - k + n) * ((N + 1) * p - k + n * (1 + p)) / (N - k + 2 * n + 1)
        K = beta + alpha / K
    low, high = (float(end) for end in bound_mills(np.array(k), np.array(N), 0.5))
    assert low <= p * (N - k) / K <= high <= low * (1 + 1e-6)


@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(2**63 + 1, 2**64), Fraction(1, 7 * 10**6)])
@pytest.mark.parametrize("N", [1, 7, 400, 10**6, 10**12])
def test_fractions_between_floats(N, p):
    """Neither float around p is p: the enclosure holds for p itself."""
    assert Fraction(float(p)) != p
    exact = mp.mpf(p.numerator) / p.denominator
    k = places(N, float(p))
    low, high = bound_mass(np.array(k), N, p)
    least, most = bound_at_most(np.array(k), N, p)
    for i, place in enumerate(k):
        truth = mass(place, N, exact)
        assert holds(low[i], truth, high[i])
        ratio = mills(place, N, p) if place + 1 <= (N + 1) * p else None
        if ratio is not None:
            assert holds(least[i], ratio * truth, most[i])


MEANS = [1e-9, 0.3, 1.0, 7.5, 400.0, 1e6 + 0.1, 1e9, 1e12]


def poisson_places(mean):
    near = {math.floor(mean + sign * z * math.sqrt(mean)) for z in DEVIATIONS for sign in (-1, 1)}
    return sorted({max(k, 0) for k in near | {0, 1, 2, 5}})


@pytest.mark.parametrize("mean", MEANS)
def test_poisson_masses(mean):
    k = poisson_places(mean)
    low, high = bound_poisson_mass(np.array(k), mean)
    m = mp.mpf(mean)
    for i, place in enumerate(k):
        truth = mp.exp(place * mp.log(m) - m - mp.loggamma(place + 1))
        assert holds(low[i], truth, high[i])
        if truth > 1e-299:
            assert high[i] <= low[i] * (1 + 1e-10)


def test_the_ends_of_the_range():
    low, high = bound_at_most(np.array([-5, -1, 4, 9]), np.array(4), 0.3)
    assert low.tolist() == [0, 0, 1, 1]
    assert high.tolist() == [0, 0, 1, 1]


def test_more_trials_than_floats_can_count_are_refused():
    with pytest.raises(UnsupportedError, match="no certified tails"):
        bound_mass(np.array(5), np.array(LARGEST_TRIALS + 1), 0.5)


class TestMutants:
    """What the added errors pay for: without them, masses and tails miss the truth."""

    def misses(self):
        found = 0
        for N in (50, 999, 10**5, 10**8):
            k = np.array([k for k in places(N, 0.3) if 0 < k < 0.3 * N])
            (least, most), (low, high) = bound_mass(k, N, 0.3), bound_mills(k, N, 0.3)
            for i, place in enumerate(k.tolist()):
                ratio = mills(place, N, 0.3)
                found += not holds(least[i], mass(place, N, 0.3), most[i])
                found += ratio is not None and not low[i] <= ratio <= high[i]
        return found

    def test_as_it_is(self):
        assert self.misses() == 0

    def test_without_the_error_of_the_logarithm(self, monkeypatch):
        real = masses._log_mass
        monkeypatch.setattr(masses, "_log_mass", lambda *given: (real(*given)[0], 0.0))
        assert self.misses() > 0

    def test_without_units(self, monkeypatch):
        monkeypatch.setattr(masses, "UNIT", 0.0)
        assert self.misses() > 0

    def test_with_too_few_steps_and_one_end_only(self, monkeypatch):
        """An enclosure that starts from a guess instead of infinity is none."""
        monkeypatch.setattr(masses, "_FEWEST", 2)
        monkeypatch.setattr(masses, "_STEPS", 0.0)
        monkeypatch.setattr(masses.math, "inf", 1e3)
        assert self.misses() > 0


class TestNormalMills:
    POINTS = (
        -10.0,
        -3.3,
        -1.0,
        -0.999,
        -1e-9,
        0.0,
        0.3,
        0.9999,
        1.1,
        1.9999,
        2.0,
        2.5,
        9.0,
        40.0,
        1e6,
    )

    def test_encloses_the_truth(self):
        low, high = bound_normal_mills(np.array(self.POINTS))
        with mp.workdps(60):
            for x, below, above in zip(self.POINTS, low, high, strict=True):
                exact = mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2 / mp.npdf(x)
                assert below <= exact <= above
                assert above - below <= exact * 2e-12

    @pytest.mark.parametrize("x", [0.5, 2.0])
    def test_the_fraction_is_an_identity(self, x):
        """(n + 1) I_(n+1) = I_(n-1) - x I_n, by quadrature."""

        def integrate(n):
            return mp.quad(lambda t: (t - x) ** n * mp.npdf(t), [x, x + 5, x + 30]) / mp.factorial(
                n
            )

        with mp.workdps(30):
            tails = [mp.npdf(x), *map(integrate, range(5))]
            for n in range(4):
                assert mp.almosteq((n + 1) * tails[n + 2], tails[n] - x * tails[n + 1], 1e-15)

    def test_far_below_is_refused(self):
        with pytest.raises(UnsupportedError, match="not certified"):
            bound_normal_mills(np.array([-10.5]))
        assert bound_normal_mills(np.empty(0))[0].size == 0


def test_many_laws_at_once_are_those_of_a_few(monkeypatch):
    """How many numbers are computed at once changes no bit."""
    rng = np.random.default_rng(3)
    N = rng.integers(100, 10**6, size=300).astype(np.float64)
    k = np.floor(N * rng.uniform(0.3, 0.499, size=300))
    whole = bound_mills(k, N, 0.5)
    for cells in (1, 1000, 7000):
        monkeypatch.setattr(masses, "_CELLS", cells)
        assert all(map(np.array_equal, whole, bound_mills(k, N, 0.5)))
