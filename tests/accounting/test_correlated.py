"""Correlated noise: both directions by brute force in two dimensions, published and table values."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import nbinom

from shuffledp import ParameterError, UnsupportedError
from shuffledp.accounting.correlated import (
    CorrelatedNoise,
    CorrelatedPair,
    NegativeBinomialFlood,
    ThinnedNoise,
    _accumulate,
    _below,
    flood_level,
    published_flood,
)
from shuffledp.core.privacy import Profile
from shuffledp.numerics.masses import negative_binomial_mass


def poisson_table(mean, size):
    k = np.arange(size)
    return np.exp(k * math.log(mean) - mean - np.array([math.lgamma(i + 1) for i in k]))


def nearly_poisson(mean):
    return NegativeBinomialFlood(r=1e12, p=mean / (1e12 + mean))


def nb_table(r, p, size):
    masses = [(1 - p) ** r]
    for k in range(size - 1):
        masses.append(masses[-1] * p * (r + k) / (k + 1))
    return np.array(masses)


def plane(flood, epsilon_star, size):
    """Pr[(Z1 + F, Z2 + F)] on a square, by definition."""
    p = math.exp(-epsilon_star)
    geometric = (1 - p) * p ** np.arange(size)
    law = np.zeros((size, size))
    for f, mass in enumerate(flood[:size]):
        law[f:, f:] += mass * np.outer(geometric[: size - f], geometric[: size - f])
    return law


def divergences(flood, epsilon_star, epsilon, size=150):
    """(S against S + 1, S + 1 against S): what lies outside the square is negligible."""
    law = plane(flood, epsilon_star, size)
    moved = np.zeros_like(law)
    moved[1:] = law[:-1]
    E = math.exp(epsilon)
    inner = slice(0, size - 1)
    return (
        np.maximum(law - E * moved, 0)[inner].sum(),
        np.maximum(moved - E * law, 0)[inner].sum(),
    )


FLOODS = {
    "narrow nb": (NegativeBinomialFlood(r=400.0, p=0.07), nb_table(400.0, 0.07, 150)),
    "small nb": (NegativeBinomialFlood(r=30.0, p=0.01), nb_table(30.0, 0.01, 150)),
    "nb": (NegativeBinomialFlood(r=5.5, p=0.75), nb_table(5.5, 0.75, 150)),
    "geometric": (NegativeBinomialFlood(r=1.0, p=0.6), nb_table(1.0, 0.6, 150)),
    "nb below 1": (NegativeBinomialFlood(r=0.3, p=0.7), nb_table(0.3, 0.7, 150)),
}


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize(("epsilon_star", "epsilon"), [(0.8, 1.0), (1.5, 1.5), (0.6, 2.5)])
def test_both_directions_in_the_plane(name, epsilon_star, epsilon):
    flood, table = FLOODS[name]
    losing, gaining = divergences(table, epsilon_star, epsilon)
    noise = CorrelatedNoise(epsilon_star=epsilon_star, flood=flood)
    assert gaining == pytest.approx(0, abs=1e-12)
    assert noise.bound_losing(epsilon) >= losing * (1 - 1e-12)
    assert noise.bound_losing(epsilon) == pytest.approx(losing, rel=1e-7)
    assert noise.delta(epsilon) == noise.bound_losing(epsilon)


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 0.79])
def test_below_epsilon_star_both_directions_are_covered(name, epsilon):
    flood, table = FLOODS[name]
    noise = CorrelatedNoise(epsilon_star=0.8, flood=flood)
    exact = max(divergences(table, 0.8, epsilon))
    assert exact * (1 - 1e-12) <= noise.delta(epsilon) <= 1


@pytest.mark.parametrize(
    ("epsilon", "epsilon_star", "flood", "delta", "digits"),
    [
        (1.0, 0.9, nearly_poisson(200.0), 2.14356e-3, 1e-5),
        (1.0, 0.8, NegativeBinomialFlood(r=20.0, p=0.85), 1.345556e-5, 1e-6),
        (1.0, 0.8, nearly_poisson(30.0), 1.1660619e-2, 1e-7),
    ],
)
def test_values(epsilon, epsilon_star, flood, delta, digits):
    found = CorrelatedNoise(epsilon_star=epsilon_star, flood=flood).delta(epsilon)
    assert found == pytest.approx(delta, rel=digits)


def test_it_is_the_shift_divergence_of_the_flood_plus_a_geometric():
    """delta = 1/(1+p) sum_a max(0, u(a) - e^(epsilon - epsilon_star) u(a-1)), u the law of F + Geom(p^2)."""
    p, table = math.exp(-0.7), nb_table(6.0, 0.7, 400)
    geometric = (1 - p * p) * p ** (2 * np.arange(400))
    u = np.convolve(table, geometric)[:400]
    terms = u - math.exp(0.2) * np.append(0.0, u[:-1])
    noise = CorrelatedNoise(epsilon_star=0.7, flood=NegativeBinomialFlood(r=6.0, p=0.7))
    assert noise.delta(0.9) == pytest.approx(np.maximum(terms, 0).sum() / (1 + p), rel=1e-8)


@pytest.mark.parametrize(
    "r", [0.01, 0.3, 1.0, 5.5, 300.25, pytest.param(1e5, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("p", [1e-6, 0.3, 0.95, 0.9999])
def test_windows_lie_within_their_error(r, p):
    flood = NegativeBinomialFlood(r=r, p=p)
    window = flood.window(200)
    first = math.floor(max(0, (r - 1) * p / (1 - p))) + 200 - len(window.masses)
    R, P = mpmath.mpf(r), mpmath.mpf(p)
    with mpmath.workdps(50):
        for i in {0, len(window.masses) // 2, len(window.masses) - 1}:
            k = first + i
            exact = mpmath.exp(
                mpmath.loggamma(R + k)
                - mpmath.loggamma(R)
                - mpmath.loggamma(mpmath.mpf(k + 1))
                + R * mpmath.log1p(-P)
                + k * mpmath.log(P)
            )
            off = window.error + window.scale_error
            assert exact < 1e-300 or abs(window.masses[i] / exact - 1) <= off < 1e-6


@pytest.mark.parametrize("r", [1e-6, 0.3, 1.0, 26.5, 40, 1e7])
@pytest.mark.parametrize("p", [1e-12, 0.1, 0.9467, 0.9999])
def test_the_mass_of_nothing_is_the_general_one(r, p):
    assert NegativeBinomialFlood(r=r, p=p)._find_mass(0) == negative_binomial_mass(
        0, Fraction(r), Fraction(p)
    )


@pytest.mark.parametrize(
    ("star", "epsilon", "r", "p"),
    [
        (0.9, 1.0, 17.6, 0.9445),
        (0.05, 0.06, 40.0, 0.995),
        (4.0, 6.0, 90.0, 0.5),
        (0.5, 2.0, 0.4, 0.9),
    ],
)
def test_losing_in_forty_digits(star, epsilon, r, p):
    """(1 - q) sum_a max(0, H(a) - e^(epsilon - star) H(a - 1)), q = e^-star, term by term."""
    with mpmath.workdps(40):
        decay, factor = mpmath.exp(-2 * mpmath.mpf(star)), mpmath.exp(mpmath.mpf(epsilon) - star)
        mass, H, total, a = (1 - mpmath.mpf(p)) ** mpmath.mpf(r), mpmath.mpf(0), mpmath.mpf(0), 0
        while a < 40 or mass > total * mpmath.mpf(10) ** -25:
            total += max(0, (mass + decay * H) - factor * H)
            H, a = mass + decay * H, a + 1
            mass *= p * (mpmath.mpf(r) + a - 1) / a
        exact = (1 - mpmath.exp(-mpmath.mpf(star))) * total
        found = CorrelatedNoise(
            epsilon_star=star, flood=NegativeBinomialFlood(r=r, p=p)
        ).bound_losing(epsilon)
        assert exact <= found <= exact * (1 + mpmath.mpf(10) ** -6)


def test_accumulated():
    f = np.random.default_rng(1).random(1000)
    H, expected = 0.0, []
    for value in f:
        H = value + 0.9 * H
        expected.append(H)
    assert _accumulate(f, 0.9) == pytest.approx(expected, rel=1e-13)


def test_large_floods_lose_nothing_below_the_window():
    """The window of a large flood starts far above 0; the sum over a plain table from 0 says the same."""
    flood, star, epsilon = nearly_poisson(5_000.0), 0.45, 0.5
    H = _accumulate(poisson_table(5_000.0, 6_000), math.exp(-2 * star))
    terms = H - math.exp(epsilon - star) * np.append(0.0, H[:-1])
    plain = -math.expm1(-star) * np.maximum(terms, 0).sum()
    assert flood.window(32).below > 0
    noise = CorrelatedNoise(epsilon_star=star, flood=flood)
    assert noise.delta(epsilon) == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "gap", "delta", "negative_binomial", "published"),
    [
        (0.1, 0.1, 1e-6, 2082, 22201),
        (0.1, 0.1, 1e-10, 5695, 36003),
        (0.5, 0.1, 1e-6, 541, 4423),
        (1.0, 0.1, 1e-6, 300, 2200),
        (1.0, 0.1, 1e-8, 478, 2884),
        (1.0, 0.1, 1e-10, 666, 3568),
        (1.0, 0.2, 1e-6, 159, 1089),
        (2.0, 0.1, 1e-6, 163, 1089),
    ],
)
def test_flood_levels(epsilon, gap, delta, negative_binomial, published):
    star = (1 - gap) * epsilon
    flood = flood_level(epsilon=epsilon, epsilon_star=star, delta=delta)
    paper = published_flood(epsilon=epsilon, gap=gap, delta=delta)
    assert negative_binomial * 0.99 <= flood.mean <= negative_binomial * 1.002
    assert paper.mean == pytest.approx(published, rel=3e-4)
    for found in (flood, paper):
        assert CorrelatedNoise(epsilon_star=star, flood=found).delta(epsilon) <= delta
    # Nearly the smallest: a little less flood is not enough, and no other r is much better.
    less = NegativeBinomialFlood(r=flood.r, p=flood.p - 1e-4 * (1 - flood.p))
    assert CorrelatedNoise(epsilon_star=star, flood=less).delta(epsilon) > delta
    for factor in (0.7, 1.4):
        r = flood.r * factor
        mean = flood.mean * 0.999
        other = NegativeBinomialFlood(r=r, p=mean / (mean + r))
        assert CorrelatedNoise(epsilon_star=star, flood=other).delta(epsilon) > delta


def test_published_constants_are_far_too_safe():
    paper = published_flood(epsilon=1.0, gap=0.1, delta=1e-6)
    assert CorrelatedNoise(epsilon_star=0.9, flood=paper).delta(1.0) < 1e-22


@pytest.mark.parametrize(
    ("epsilon", "at_6", "at_10"),
    [(0.1, 4189, 11412), (0.5, 1076, 2538), (1.0, 591, 1322), (2.0, 320, 680)],
)
def test_noise_messages_per_bin_of_the_histogram(epsilon, at_6, at_10):
    star, p = 0.45 * epsilon, math.exp(-0.45 * epsilon)
    for delta, expected in ((1e-6, at_6), (1e-10, at_10)):
        flood = flood_level(epsilon=0.55 * epsilon, epsilon_star=star, delta=delta)
        assert expected * 0.99 <= 2 * flood.mean + 2 * p / (1 - p) <= expected * 1.002
        pair = CorrelatedPair(noise=CorrelatedNoise(epsilon_star=star, flood=flood))
        assert pair.delta(epsilon) <= delta * (1 + 1e-9)


def test_the_pair_in_four_dimensions():
    """One bin moves from S+1 to S, the other from S to S+1: the exact divergence of the product."""
    star, size = 1.2, 18
    law = plane(nb_table(4.0, 0.3, size), star, size)
    moved = np.zeros_like(law)
    moved[1:] = law[:-1]
    pair = CorrelatedPair(
        noise=CorrelatedNoise(epsilon_star=star, flood=NegativeBinomialFlood(r=4.0, p=0.3))
    )
    for epsilon in (0.0, 0.5, 1.3, 2.4, 3.0):
        first = np.multiply.outer(law[:-1].ravel(), moved[:-1].ravel())
        second = np.multiply.outer(moved[:-1].ravel(), law[:-1].ravel())
        exact = np.maximum(first - math.exp(epsilon) * second, 0).sum()
        assert exact <= pair.delta(epsilon)
    assert exact > 0.2 * pair.delta(epsilon)


def test_epsilon_inverts_delta():
    noise = CorrelatedNoise(epsilon_star=0.9, flood=NegativeBinomialFlood(r=17.6, p=0.9445))
    pair = CorrelatedPair(noise=noise)
    assert isinstance(noise, Profile)
    assert isinstance(pair, Profile)
    for profile in (noise, pair):
        for delta in (1e-9, 1e-6, 1e-3):
            epsilon = profile.epsilon(delta)
            assert profile.delta(epsilon) <= delta
            assert profile.delta(epsilon * (1 - 1e-4)) > delta
    with pytest.raises(UnsupportedError, match="delta"):
        CorrelatedNoise(epsilon_star=0.9, flood=nearly_poisson(1.0)).epsilon(1e-3)


def test_more_flood_is_more_private():
    def delta(flood):
        return CorrelatedNoise(epsilon_star=0.9, flood=flood).delta(1.0)

    in_r = [delta(NegativeBinomialFlood(r=r, p=0.9)) for r in (0.5, 1.0, 2.0, 8.0, 20.0)]
    in_p = [delta(NegativeBinomialFlood(r=12.0, p=p)) for p in (0.1, 0.5, 0.9, 0.95, 0.99)]
    assert in_r == sorted(in_r, reverse=True)
    assert in_p == sorted(in_p, reverse=True)


def test_bad_parameters():
    with pytest.raises(ParameterError, match="epsilon_star"):
        flood_level(epsilon=1.0, epsilon_star=1.0, delta=1e-6)
    for wrong in ({"r": 0.0, "p": 0.5}, {"r": math.inf, "p": 0.5}, {"r": "1", "p": 0.5}):
        with pytest.raises(ParameterError, match="r="):
            NegativeBinomialFlood(**wrong)
    for wrong in (0, 1.0, math.nan):
        with pytest.raises(ParameterError, match="p="):
            NegativeBinomialFlood(r=1.0, p=wrong)
    with pytest.raises(ParameterError, match="epsilon"):
        CorrelatedNoise(epsilon_star=0.5, flood=nearly_poisson(3.0)).delta(-0.1)
    pair = CorrelatedPair(noise=CorrelatedNoise(epsilon_star=0.5, flood=nearly_poisson(3.0)))
    with pytest.raises(ParameterError, match="epsilon"):
        pair.delta(-0.1)
    assert 0 < pair.delta(0.4) <= 1


@pytest.mark.parametrize("r", [0.3, 1.0, 5.5, 300.25])
@pytest.mark.parametrize("p", [1e-6, 0.3, 0.95, 0.9999])
@pytest.mark.parametrize("beyond", [1, 64, 4096])
def test_what_lies_outside_a_window_is_bounded(r, p, beyond):
    window = NegativeBinomialFlood(r=r, p=p).window(beyond)
    last = math.floor(max(0, (r - 1) * p / (1 - p))) + beyond - 1
    first = last + 1 - len(window.masses)
    assert window.above >= nbinom.sf(last, r, 1 - p) * (1 - 1e-9)
    assert window.below >= nbinom.cdf(first - 1, r, 1 - p) * (1 - 1e-9)
    assert window.below <= 1e-18


def test_diagonals_are_as_wrong_as_their_window(monkeypatch):
    real = NegativeBinomialFlood.window
    noise = ThinnedNoise(epsilon_star=1.0, flood=NegativeBinomialFlood(r=5.5, p=0.75), share=1.0)
    _, error, outside = noise.find_diagonals()
    for name in ("error", "scale_error"):

        def window(flood, beyond, name=name):
            return replace(real(flood, beyond), **{name: 0.25})

        monkeypatch.setattr(NegativeBinomialFlood, "window", window)
        assert 0.25 < noise.find_diagonals()[1] < 0.25 + 2 * error
    monkeypatch.setattr(
        NegativeBinomialFlood, "window", lambda flood, more: replace(real(flood, more), below=0.125)
    )
    assert noise.find_diagonals()[2] == pytest.approx(0.125 + outside, rel=1e-9)


@pytest.mark.parametrize(
    "share", [Fraction(1, 3), Fraction(1, 2), Fraction(2, 7), Fraction(5, 3), Fraction(12)]
)
def test_shares_of_noise_are_rounded_down(share):
    """Less noise is less privacy: what is computed with is below the true share, by two units at most."""
    below = _below(share)
    assert share * (1 - Fraction(1, 2**51)) < Fraction(below) < share


@pytest.mark.parametrize("p", [0.9, 1e-9, 1e-15, 1e-23, 3e-28, 1e-100])
def test_the_mass_at_0_has_its_digits_however_small_p_is(p):
    flood = NegativeBinomialFlood(r=100 / p, p=p)
    with mpmath.workdps(150):
        truth = mpmath.exp(mpmath.mpf(flood.r) * mpmath.log(1 - mpmath.mpf(p)))
        assert abs(flood._find_mass(0) / truth - 1) <= 2.0**-52
