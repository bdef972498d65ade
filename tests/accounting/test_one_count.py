"""One count: levels of noise, and shifts by more than one."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp import ParameterError, UnsupportedError
from shuffledp.accounting.central import BinomialCount, PoissonCount
from shuffledp.accounting.one_count import (
    BinomialNoise,
    PoissonNoise,
    ShiftedCount,
    binomial_level,
    poisson_level,
    shifted_binomial_level,
    shifted_poisson_level,
)
from shuffledp.core.privacy import Profile
from shuffledp.numerics.rounding import exp_bounds

mpmath.mp.dps = 40


@pytest.mark.parametrize(
    ("epsilon", "levels"),
    [
        (0.1, ("1408.7", "2255.3", "3140.2")),
        (0.25, ("280.1", "431.3", "588.8")),
        (0.5, ("90.14", "134.9", "181.2")),
        (1.0, ("34.07", "49.41", "65.08")),
        (2.0, ("17.31", "24.23", "31.34")),
    ],
)
def test_poisson_levels(epsilon, levels):
    for delta, printed in zip((1e-6, 1e-8, 1e-10), levels, strict=True):
        level = poisson_level(epsilon=epsilon, delta=delta)
        places = len(printed.split(".")[1])
        assert abs(level - float(printed)) <= 0.5 * 10.0**-places + 5e-5 * level
        assert PoissonCount(mean=level).delta(epsilon) <= delta
        assert PoissonCount(mean=level * (1 - 1e-4)).delta(epsilon) > delta


@pytest.mark.parametrize(("epsilon", "fewest"), [(0.1, 5279), (0.5, 268), (1.0, 80)])
def test_the_fewest_users(epsilon, fewest):
    gamma = binomial_level(n=fewest, epsilon=epsilon, delta=1e-6)
    assert gamma <= Fraction(1, 2)
    assert BinomialCount(n=fewest, gamma=gamma).delta(epsilon) <= 1e-6
    with pytest.raises(UnsupportedError, match="few"):
        binomial_level(n=fewest - 1, epsilon=epsilon, delta=1e-6)


@pytest.mark.parametrize(("n", "epsilon"), [(1_000, 1.0), (10**6, 0.1), (10**9, 1.0)])
def test_binomial_levels(n, epsilon):
    gamma = binomial_level(n=n, epsilon=epsilon, delta=1e-8)
    assert BinomialCount(n=n, gamma=gamma).delta(epsilon) <= 1e-8
    assert BinomialCount(n=n, gamma=gamma * Fraction(98, 100)).delta(epsilon) > 1e-8


def enumerated(masses, r, epsilon):
    """Both divergences between N and N + s, the largest over s = 1 .. r."""
    E, size = exp_bounds(epsilon, 60)[0], len(masses)
    lower = upper = Fraction(0)
    for s in range(1, r + 1):
        moved = [masses[y - s] if 0 <= y - s < size else Fraction(0) for y in range(size + s)]
        still = [*masses, *[Fraction(0)] * s]
        pairs = list(zip(still, moved, strict=True))
        lower = max(lower, sum(max(a - E * b, 0) for a, b in pairs))
        upper = max(upper, sum(max(b - E * a, 0) for a, b in pairs))
    return lower, upper


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 25),
    gamma=st.fractions(Fraction(1, 60), Fraction(59, 60), max_denominator=64),
    r=st.integers(1, 8),
    epsilon=st.floats(0, 4),
)
def test_shifts_by_enumeration(n, gamma, r, epsilon):
    masses = [math.comb(n, y) * gamma**y * (1 - gamma) ** (n - y) for y in range(n + 1)]
    found = BinomialNoise(n=n, gamma=gamma).divergences(r, epsilon)
    for bound, exact in zip(found, enumerated(masses, r, epsilon), strict=True):
        assert Fraction(bound) >= exact * (1 - Fraction(1, 10**40))
        # Two tails are subtracted, each within 5e-9 of itself.
        assert bound <= float(exact) + 3e-8
    assert ShiftedCount(noise=BinomialNoise(n=n, gamma=gamma), shift=r).delta(epsilon) == max(found)


@pytest.mark.parametrize(
    ("mean", "r", "epsilon"),
    [(30.0, 1, 1.0), (99.1, 2, 1.0), (1e4, 30, 1.0), (3.0, 5, 0.5), (0.2, 3, 40.0)],
)
def test_poisson_shifts(mean, r, epsilon):
    m, E = mpmath.mpf(mean), mpmath.exp(mpmath.mpf(epsilon))
    last = int(mean + 60 * math.sqrt(mean) + 80)
    masses, mass = [], mpmath.exp(-m)
    for y in range(last):
        masses.append(mass)
        mass *= m / (y + 1)
    lower = sum(max(f - E * (masses[y - r] if y >= r else 0), 0) for y, f in enumerate(masses))
    upper = sum(max(masses[y] - E * masses[y + r], 0) for y in range(last - r))
    found = PoissonNoise(mean=mean).divergences(r, epsilon)
    assert lower <= found[0] <= lower * (1 + mpmath.mpf(10) ** -5) + mpmath.mpf(10) ** -299
    assert upper <= found[1] <= upper * (1 + mpmath.mpf(10) ** -5) + mpmath.mpf(10) ** -299


def test_a_shift_of_one_is_the_plain_count():
    for mean, epsilon in ((30.0, 1.0), (100.0, 0.5), (1e4, 0.05)):
        exact = PoissonCount(mean=mean).directions(epsilon)
        assert PoissonNoise(mean=mean).divergences(1, epsilon) == pytest.approx(exact, rel=1e-4)
    exact = BinomialCount(n=1000, gamma=Fraction(1, 20)).directions(0.5)
    found = BinomialNoise(n=1000, gamma=Fraction(1, 20)).divergences(1, 0.5)
    assert found == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("shift", [2, 1_000, 31_623])
def test_shifted_levels(shift):
    mean = shifted_poisson_level(shift=shift, epsilon=1.0, delta=1e-6)
    assert ShiftedCount(noise=PoissonNoise(mean=mean), shift=shift).delta(1.0) <= 1e-6
    assert PoissonNoise(mean=mean * (1 - 1e-4)).lower(shift, 1.0) > 1e-6
    if shift > 2:  # in units of the shift: nearly the Gaussian mechanism
        assert math.sqrt(mean) / shift == pytest.approx(4.2254, abs=2e-3)


def test_shifted_binomial_levels():
    n = 10**8
    gamma = shifted_binomial_level(n=n, shift=100, epsilon=1.0, delta=1e-6)
    profile = ShiftedCount(noise=BinomialNoise(n=n, gamma=gamma), shift=100)
    assert profile.delta(1.0) <= 1e-6
    assert profile.epsilon(1e-6) == pytest.approx(1.0, abs=2e-5)
    assert float(n * gamma) == pytest.approx(
        shifted_poisson_level(shift=100, epsilon=1.0, delta=1e-6), rel=5e-3
    )
    with pytest.raises(UnsupportedError, match="few"):
        shifted_binomial_level(n=1000, shift=100, epsilon=1.0, delta=1e-6)


def test_profile():
    profile = ShiftedCount(noise=PoissonNoise(mean=400.0), shift=3)
    assert isinstance(profile, Profile)
    for delta in (1e-9, 1e-4, 1e-2):
        epsilon = profile.epsilon(delta)
        assert profile.delta(epsilon) <= delta < profile.delta(epsilon * (1 - 1e-4))
    assert profile.epsilon(0.5) == 0
    with pytest.raises(UnsupportedError, match="delta"):
        ShiftedCount(noise=PoissonNoise(mean=1.0), shift=3).epsilon(0.1)
    with pytest.raises(ParameterError, match="epsilon"):
        profile.delta(-1.0)
    with pytest.raises(ParameterError, match="shift"):
        ShiftedCount(noise=PoissonNoise(mean=1.0), shift=0)
    with pytest.raises(ParameterError, match="mean"):
        PoissonNoise(mean=0.0)
    with pytest.raises(ParameterError, match="gamma"):
        BinomialNoise(n=3, gamma=Fraction(1))
