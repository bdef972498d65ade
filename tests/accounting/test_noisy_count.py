"""The privacy curve of binomial noise: published values, enumeration, 50 digits; levels and shifts."""

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from shuffledp import ParameterError, UnsupportedError
from shuffledp.accounting.noisy_count import BinomialCount, binomial_level
from shuffledp.core.privacy import Profile
from shuffledp.numerics.masses import (
    _log_factorial,
    binomial_at_least,
    binomial_at_most,
    binomial_log_ratio,
    binomial_mass,
)
from shuffledp.numerics.rounding import exp_bounds
from support import first

mpmath.mp.dps = 60


def poisson_limit(mean) -> BinomialCount:
    """Noise that nothing here tells from Poisson(mean)."""
    return BinomialCount(n=2**52, gamma=Fraction(mean) / 2**52)


def test_it_is_a_profile():
    assert isinstance(BinomialCount(n=3, gamma=Fraction(1, 2)), Profile)


@pytest.mark.parametrize(
    ("mean", "epsilon", "lower", "upper"),
    [
        (30.0, 1.0, 3.12675442114e-6, 1.37051187597e-16),
        (100.0, 0.5, 3.56846581323e-7, 2.69253667585e-11),
        (10.0, 2.0, 1.63936599485e-4, None),
    ],
)
def test_poisson_values(mean, epsilon, lower, upper):
    found = poisson_limit(mean).directions(epsilon)
    assert found[0] == pytest.approx(lower, rel=3e-12)
    if upper is not None:
        assert found[1] == pytest.approx(upper, rel=3e-12)
    assert poisson_limit(mean).delta(epsilon) == max(found)


@pytest.mark.parametrize(
    ("n", "gamma", "epsilon", "lower", "upper"),
    [
        (1000, Fraction(1, 20), 0.5, 9.13120637593e-5, 1.13226111926e-6),
        (500, Fraction(1, 2), 0.25, 8.13786873292e-5, 8.13786873292e-5),
        (200, Fraction(1, 10), 1.0, 8.23852463691e-5, 1.61096289131e-9),
    ],
)
def test_binomial_values(n, gamma, epsilon, lower, upper):
    found = BinomialCount(n=n, gamma=gamma).directions(epsilon)
    assert found == pytest.approx((lower, upper), rel=3e-12)


def enumerated(n, gamma, epsilon):
    """(lower, upper) direction, with e^epsilon rounded down: at least the exact delta."""
    E = exp_bounds(epsilon, 60)[0]
    masses = [math.comb(n, y) * gamma**y * (1 - gamma) ** (n - y) for y in range(n + 1)]
    padded = [Fraction(0), *masses, Fraction(0)]
    lower = sum(max(padded[i] - E * padded[i - 1], 0) for i in range(1, n + 2))
    upper = sum(max(padded[i] - E * padded[i + 1], 0) for i in range(1, n + 2))
    return lower, upper


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(1, 60),
    top=st.integers(1, 2**20 - 1),
    epsilon=st.floats(0, 8, allow_nan=False),
)
def test_binomial_is_a_tight_upper_bound(n, top, epsilon):
    gamma = Fraction(top, 2**20)
    for found, exact in zip(
        BinomialCount(n=n, gamma=gamma).directions(epsilon),
        enumerated(n, gamma, epsilon),
        strict=True,
    ):
        # The reference rounds e^epsilon down by 10^-60, hence may itself be that much too large.
        assert Fraction(found) >= exact * (1 - Fraction(1, 10**40))
        assert found <= max(float(exact) * (1 + 1e-9), 1e-300)


def fifty_digits(first, ratio, start, step, epsilon):
    E = mpmath.exp(epsilon)
    total, mass, y = mpmath.mpf(0), first, start
    while mass > first * mpmath.mpf(10) ** -35:
        r = ratio(y)
        total += mass * max(1 - E * r, 0)
        mass *= r
        y += step
    return total


@pytest.mark.parametrize(
    ("n", "gamma", "epsilon"),
    [
        (10**6, Fraction(1, 3), 0.02),
        (10**9, Fraction(1, 2**24), 0.7),
        (10**4, Fraction(1, 2), 1e-4),
        (10**12, Fraction(1, 2**30), 0.1),
        (2**52, Fraction(1, 2**47), 1.0),
        (50, Fraction(1, 2**40), 3.0),
    ],
)
def test_binomial_at_hard_points(n, gamma, epsilon):
    for p, found in zip(
        (gamma, 1 - gamma), BinomialCount(n=n, gamma=gamma).directions(epsilon), strict=True
    ):
        g = mpmath.mpf(p.numerator) / p.denominator
        start = int((n + 1) * g / (g + mpmath.exp(epsilon) * (1 - g)))
        first = mpmath.exp(
            mpmath.loggamma(n + 1)
            - mpmath.loggamma(start + 1)
            - mpmath.loggamma(n - start + 1)
            + start * mpmath.log(g)
            + (n - start) * mpmath.log(1 - g)
        )
        exact = fifty_digits(
            first, lambda y, g=g: y * (1 - g) / ((n - y + 1) * g), start, -1, epsilon
        )
        assert exact <= found <= exact * (1 + 1e-10)


def test_the_ratio_may_exceed_e_far_more_often_than_delta():
    """(epsilon, delta)-DP is weaker than "the ratio is at most e^epsilon except with delta"."""
    assert poisson_limit(34.07).delta(1.0) <= 1e-6
    from scipy.stats import poisson

    assert poisson.cdf(math.ceil(34.07 / math.e) - 1, 34.07) == pytest.approx(1.23e-5, rel=0.01)


@pytest.mark.parametrize("noise", [BinomialCount(n=400, gamma=Fraction(1, 8)), poisson_limit(40.0)])
def test_epsilon_inverts_delta(noise):
    previous = math.inf
    for delta in (1e-9, 1e-6, 1e-3, 0.05):
        epsilon = noise.epsilon(delta)
        assert noise.delta(epsilon) <= delta
        assert noise.delta(epsilon * (1 - 1e-9)) > delta
        assert epsilon < previous
        previous = epsilon
    assert noise.epsilon(0.5) == 0


def test_no_epsilon_reaches_less_than_the_mass_at_the_end():
    with pytest.raises(UnsupportedError, match="delta"):
        poisson_limit(1.0).epsilon(0.1)  # Pr[N = 0] = 0.37 whatever epsilon is


def test_delta_does_not_increase_with_poisson_noise():
    deltas = [poisson_limit(mean).delta(0.8) for mean in (1.0, 5.0, 20.0, 20.5, 80.0)]
    assert deltas == sorted(deltas, reverse=True)


def test_extremes():
    assert BinomialCount(n=10**12, gamma=Fraction(1, 2)).delta(1.0) == 1e-300
    assert BinomialCount(n=1, gamma=Fraction(1, 2)).delta(1e6) == pytest.approx(0.5)
    assert poisson_limit(1e-9).delta(0.0) == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf, "1"])
def test_bad_epsilon(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        poisson_limit(3.0).delta(epsilon)


def test_bad_parameters():
    for gamma in (Fraction(0), Fraction(1), Fraction(-1, 2)):
        with pytest.raises(ParameterError, match="gamma"):
            BinomialCount(n=3, gamma=gamma)
    with pytest.raises(ParameterError, match="delta"):
        poisson_limit(3.0).epsilon(0.0)


@pytest.mark.parametrize(
    ("y", "n"), [(0, 1), (31, 64), (32, 64), (33, 64), (500, 10**6), (0, 10**15)]
)
@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(1, 2**30), Fraction(7, 9)])
def test_masses(y, n, p):
    g = mpmath.mpf(p.numerator) / p.denominator
    exact = mpmath.exp(
        mpmath.loggamma(n + 1)
        - mpmath.loggamma(y + 1)
        - mpmath.loggamma(n - y + 1)
        + y * mpmath.log(g)
        + (n - y) * mpmath.log(1 - g)
    )
    assert binomial_mass(y, n, p) == pytest.approx(float(exact), rel=4e-16)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 40, 1000, 10**9, 2**52])
def test_log_factorial(n):
    exact = mpmath.loggamma(n + 1)
    assert abs(mpmath.mpf(str(_log_factorial(n))) - exact) < mpmath.mpf(10) ** -30


def test_masses_outside():
    assert binomial_mass(-1, 3, Fraction(1, 2)) == binomial_mass(4, 3, Fraction(1, 2)) == 0
    assert binomial_mass(0, 3, Fraction(0)) == binomial_mass(3, 3, Fraction(1)) == 1


@pytest.mark.parametrize("n", [1, 7, 30])
@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(1, 10), Fraction(99, 100)])
def test_tails_are_tight_upper_bounds(n, p):
    masses = [math.comb(n, y) * p**y * (1 - p) ** (n - y) for y in range(n + 1)]
    for x in range(-1, n + 2):
        exact_low, exact_high = sum(masses[: x + 1]), sum(masses[max(x, 0) :])
        assert Fraction(binomial_at_most(x, n, p)) >= exact_low
        assert Fraction(binomial_at_least(x, n, p)) >= exact_high
        if x < n * p:
            assert binomial_at_most(x, n, p) <= float(exact_low) * (1 + 1e-11)
        if x > n * p:
            assert binomial_at_least(x, n, p) <= float(exact_high) * (1 + 1e-11)


def test_tails_agree_with_scipy():
    for x in (400, 450, 490):
        assert binomial_at_most(x, 1000, Fraction(1, 2)) == pytest.approx(
            binom.cdf(x, 1000, 0.5), rel=1e-9
        )


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
    """The printed means are the smallest, to the digits that are printed."""
    for delta, printed in zip((1e-6, 1e-8, 1e-10), levels, strict=True):
        level, half = float(printed), 0.5 * 10.0 ** -len(printed.split(".")[1])
        slack = half + 1e-4 * level
        assert poisson_limit(level + slack).delta(epsilon) <= delta
        assert poisson_limit(level - slack).delta(epsilon) > delta


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


def enumerate_shifts(masses, r, epsilon):
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
    found = BinomialCount(n=n, gamma=gamma, shift=r).directions(epsilon)
    for bound, exact in zip(found, enumerate_shifts(masses, r, epsilon), strict=True):
        assert Fraction(bound) >= exact * (1 - Fraction(1, 10**40))
        assert bound <= float(exact) + 1e-11


def fixed_point_shift(n, gamma, r, epsilon, bits=400):
    """The lower direction in fixed point: all masses that count, and what they are compared with."""
    up, down = gamma.numerator, gamma.denominator - gamma.numerator
    E = exp_bounds(epsilon, 60)[0]
    mean, sd = n * gamma, math.sqrt(n * gamma * (1 - gamma))
    first = max(0, math.floor(mean - 45 * sd - r))
    mode = math.floor((n + 1) * gamma)
    masses, y = {mode: 1 << bits}, mode
    while y > first and masses[y]:
        masses[y - 1] = masses[y] * y * down // ((n - y + 1) * up)
        y -= 1
    y = mode
    while y < n and masses[y] and y < mean + 12 * sd:
        masses[y + 1] = masses[y] * (n - y) * up // ((y + 1) * down)
        y += 1
    total = sum(max(mass - E * masses.get(y - r, 0), 0) for y, mass in masses.items())
    return mpmath.mpf(total.numerator) / total.denominator / sum(masses.values())


@pytest.mark.parametrize(
    ("n", "gamma", "r", "epsilon"),
    [
        (5_000, Fraction(1, 2), 20, 3.0),
        (2_000, Fraction(1, 3), 2, 0.5),
        (1_000, Fraction(1, 50), 5, 1.0),
        (20_000, Fraction(1, 2), 300, 1.0),
        (20_000, Fraction(1, 7), 3, 0.02),
        (300, Fraction(99, 100), 7, 0.3),
    ],
)
def test_shifts_in_fixed_point(n, gamma, r, epsilon):
    for p, bound in zip(
        (gamma, 1 - gamma),
        BinomialCount(n=n, gamma=gamma, shift=r).directions(epsilon),
        strict=True,
    ):
        exact = fixed_point_shift(n, p, r, epsilon)
        assert exact <= bound <= max(exact * (1 + 1e-4), 1e-299)


@pytest.mark.parametrize(("n", "r", "delta"), [(20_000, 3, 1e-250), (20_000, 6, 1e-100)])
def test_tails_that_scipy_takes_for_zero(n, r, delta):
    """Its betainc returned 0 where the truth is 7e-246, and the certificate said 1e-300."""
    gamma = binomial_level(n=n, shift=r, epsilon=3.0, delta=delta)
    bound = BinomialCount(n=n, gamma=gamma, shift=r).delta(3.0)
    exact = max(fixed_point_shift(n, p, r, 3.0, bits=2400) for p in (gamma, 1 - gamma))
    assert delta / 2 < exact <= bound <= delta


@pytest.mark.parametrize("r", [2, 30])
@pytest.mark.parametrize("epsilon", first([0.0, 0.3, 2.0, 1e4, 1e-6, 50.0], 4))
@pytest.mark.parametrize("n", [1, 40, 10**6, 10**12])
def test_shifts_over_the_whole_range(n, r, epsilon):
    """Between the shift by one and 1, and falling with epsilon."""
    gamma = Fraction(1, 3)
    one, many = (BinomialCount(n=n, gamma=gamma, shift=s).delta(epsilon) for s in (1, r))
    assert one * (1 - 1e-4) <= many <= 1
    assert many >= BinomialCount(n=n, gamma=gamma, shift=r).delta(epsilon + 0.1) * (1 - 1e-4)


def test_the_last_positive_term_is_certain():
    noise = BinomialCount(n=10**9, gamma=Fraction(1, 3), shift=1000)
    k = noise._last_positive(noise.gamma, math.e)
    ratios = [binomial_log_ratio(y, 1000, 10**9, noise.gamma) for y in (k, k + 1)]
    assert ratios[0] < -1 <= ratios[1]


def test_a_shift_by_more_than_there_is():
    assert BinomialCount(n=5, gamma=Fraction(1, 2), shift=9).delta(1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("shift", [2, 1_000, 31_623])
def test_shifted_levels(shift):
    n = 10**12
    gamma = binomial_level(n=n, shift=shift, epsilon=1.0, delta=1e-6)
    assert BinomialCount(n=n, gamma=gamma, shift=shift).delta(1.0) <= 1e-6
    less = BinomialCount(n=n, gamma=gamma * Fraction(999, 1000), shift=shift)
    assert less.delta(1.0) > 1e-6
    if shift > 2:  # in units of the shift: nearly the Gaussian mechanism
        assert math.sqrt(n * gamma) / shift == pytest.approx(4.2254, rel=0.02)


def test_shifted_profile():
    n = 10**8
    gamma = binomial_level(n=n, shift=100, epsilon=1.0, delta=1e-6)
    profile = BinomialCount(n=n, gamma=gamma, shift=100)
    assert isinstance(profile, Profile)
    assert profile.epsilon(1e-6) == pytest.approx(1.0, abs=2e-5)
    for delta in (1e-9, 1e-4, 1e-2):
        epsilon = profile.epsilon(delta)
        assert profile.delta(epsilon) <= delta < profile.delta(epsilon * (1 - 1e-4))
    with pytest.raises(UnsupportedError, match="few"):
        binomial_level(n=1000, shift=100, epsilon=1.0, delta=1e-6)
    with pytest.raises(ParameterError, match="shift"):
        BinomialCount(n=3, gamma=Fraction(1, 2), shift=0)
