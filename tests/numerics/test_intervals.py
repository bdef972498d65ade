"""Intervals cover what they say: binomial windows, whole-number noise, shares of discrete Laplace noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, nbinom, norm

from shuffledp.core.errors import UnsupportedError
from shuffledp.numerics.intervals import (
    BinomialLaw,
    BinomialSum,
    NoiseError,
    SharedNoise,
    SharedNoiseError,
    binomial,
    counts,
    laplace,
)
from shuffledp.numerics.intervals.laplace import Difference, DifferenceError

LAWS = [(10, Fraction(1, 3)), (1000, Fraction(1, 30)), (10**6, Fraction(1, 2)), (10**9, Fraction(1, 10**8)),
        (500, Fraction(29, 30))]  # fmt: skip
LEVELS = [0.5, 0.95, 0.999, 1 - 1e-12]


@pytest.mark.parametrize(("n", "p"), LAWS)
@pytest.mark.parametrize("level", LEVELS)
class TestBinomial:
    def test_equal_tails_and_no_wider(self, n, p, level):
        low, high = BinomialSum(parts=((n, p),)).window().cut_equally(level)
        law, tail = binom(n, float(p)), (1 - level) / 2
        assert law.cdf(low - 1) <= tail
        assert law.sf(high) <= tail
        assert law.cdf(low) > tail * (1 - 1e-6)
        assert law.sf(high - 1) > tail * (1 - 1e-6)

    def test_tight_covers_and_is_tighter(self, n, p, level):
        window = BinomialSum(parts=((n, p),)).window()
        law, beta = binom(n, float(p)), 1 - level

        def missed(ends):
            return law.cdf(ends[0] - 1) + law.sf(ends[1])

        tight = missed(window.cut_tightly(level))
        assert tight <= beta
        assert tight >= missed(window.cut_equally(level)) * (1 - 1e-6)


def test_sum_of_two():
    noise = BinomialSum(parts=((40, Fraction(1, 4)), (30, Fraction(1, 10))))
    window = noise.window()
    exact = np.convolve(binom.pmf(np.arange(41), 40, 0.25), binom.pmf(np.arange(31), 30, 0.1))
    np.testing.assert_allclose(window.masses, exact, rtol=1e-8, atol=1e-300)
    assert (window.first, noise.centre) == (0, 13)
    assert noise.variance == pytest.approx(40 * 3 / 16 + 30 * 0.09)


@pytest.mark.parametrize(("n", "p"), [(0, Fraction(1, 2)), (7, Fraction(0)), (7, Fraction(1))])
def test_no_noise(n, p):
    noise = BinomialSum(parts=((n, p),))
    assert noise.window().cut_tightly(0.95) == (n * p, n * p)
    assert noise.variance == 0


def test_shapes_and_limits():
    noise = BinomialSum(parts=((100, Fraction(1, 2)),))
    one = NoiseError(noise=noise, observed=60, limits=(0.0, 15.0))
    assert one.interval(10.0, 0.95).high == 15.0
    assert one.stderr == 5.0
    many = NoiseError(noise=noise, observed=np.array([60, 70]))
    low, high = many.interval(np.array([10.0, 20.0]), 0.95)
    assert low.shape == high.shape == many.stderr.shape == (2,)
    assert math.isclose(low[1] - low[0], 10.0)


@pytest.mark.parametrize("shape", [Fraction(10, 9), Fraction(1, 2), Fraction(3), Fraction(1)])
@pytest.mark.parametrize("beta", [Fraction(1, 20), Fraction(1, 1000)])
def test_radius_is_the_smallest(shape, beta):
    rate = Fraction(1, 20)
    one = nbinom.pmf(np.arange(3000), float(shape), -np.expm1(-float(rate)))
    masses = np.correlate(one, one, "full")[len(one) - 1 :]
    tails = 1 - masses[0] - 2 * np.append(0, np.cumsum(masses[1:]))
    t = SharedNoise(rate=rate, shape=shape).radius(beta)
    assert tails[t] <= beta < tails[t - 1]


@pytest.mark.parametrize("rate", [Fraction(1, 2000), Fraction(1, 7000)])
@pytest.mark.parametrize("shape", [Fraction(10, 9), Fraction(7, 10), Fraction(1, 5), Fraction(4)])
def test_coarse_radius_covers_and_is_hardly_longer(shape, rate):
    """At a rate where numbers are put into blocks, against the fine law."""
    beta = Fraction(1, 20)
    t = SharedNoise(rate=rate, shape=shape).radius(beta)
    size = 2**20
    masses = nbinom.pmf(np.arange(size // 2), float(shape), -np.expm1(-float(rate)))
    both = np.abs(np.fft.rfft(masses, size)) ** 2
    law = np.fft.irfft(both, size)
    covered = law[0] + 2 * law[1 : t + 1].sum()
    assert 0.95 <= covered <= 0.9503


@pytest.mark.parametrize("shape", [0.01, 0.6, 1.0, 1.1, 7.0])
@pytest.mark.parametrize("size", [1, 3, 64])
def test_masses_of_blocks_are_upper_bounds(shape, size):
    rate = 2.0**-10 / size
    found, rest = laplace._block_masses(rate, shape, size)
    exact = nbinom.pmf(np.arange(len(found) * size), shape, -np.expm1(-rate))
    sums = exact.reshape(-1, size).sum(axis=1)
    assert np.all(found >= sums * (1 - 1e-10))
    assert found.sum() <= 1 + 1e-3
    assert rest >= nbinom.sf(len(found) * size - 1, shape, -np.expm1(-rate))
    assert rest <= 1e-14


def test_blocks_go_on_until_hardly_anything_is_left_out():
    """Of large shapes six standard deviations and 34 are not enough."""
    rate, shape = 2.0**-4, 100.0
    found, rest = laplace._block_masses(rate, shape, 1)
    exact = nbinom.pmf(np.arange(len(found)), shape, -np.expm1(-rate))
    assert np.all(found >= exact * (1 - 1e-10))
    assert nbinom.sf(len(found) - 1, shape, -np.expm1(-rate)) <= rest <= 1e-14


def test_blocks_have_the_tails_of_their_difference():
    """Against a plain convolution: what rounding adds is tiny, and enough."""
    blocks = laplace._block(0.03, 0.8)
    one, _ = laplace._block_masses(0.03, 0.8, 1)
    law = np.convolve(one, one[::-1])[len(one) - 1 :]
    exact = 2 * np.append(np.cumsum(law[:0:-1])[::-1], 0.0)
    assert np.all(blocks.tails >= exact)
    assert np.all(blocks.tails <= exact * (1 + 1e-7) + 1e-10)


def test_rounded_values_widen_a_radius_by_little():
    """Against the convolution of the noise with fair coins, the worst rounding."""
    for rate, people in ((Fraction(1, 40), 400), (Fraction(1, 5), 2000)):
        one = nbinom.pmf(np.arange(4000), 1.0, -np.expm1(-float(rate)))
        law = np.convolve(
            np.correlate(one, one, "full"), binom.pmf(np.arange(people + 1), people, 0.5)
        )
        away = np.abs(np.arange(len(law)) - (3999 + people / 2))
        t = SharedNoise(rate=rate, shape=Fraction(1), rounded=people).radius(Fraction(1, 20))
        assert law[away > t].sum() <= 0.05
        assert law[away > 0.7 * t].sum() > 0.05


def test_far_tails_are_covered():
    noise = SharedNoise(rate=Fraction(1), shape=Fraction(10, 9))
    near, far = (noise.radius(Fraction(1, 10**k)) for k in (8, 12))
    assert near < far < 2 * near
    error = SharedNoiseError(rate=Fraction(1), shape=Fraction(10, 9), step=0.5)
    low, high = error.interval(0.0, 1 - 1e-12)
    assert high == -low == pytest.approx(far / 2)


def binomial_masses(n, p):
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


@pytest.mark.parametrize(("n", "p"), [(40, Fraction(1, 4)), (101, Fraction(1, 2))])
def test_tails_of_a_window_are_at_least_the_exact_ones(n, p):
    window, exact = BinomialSum(parts=((n, p),)).window(), binomial_masses(n, p)
    below, above = window._tails()
    for place in range(n + 1):
        assert Fraction(below[place - window.first]) >= sum(exact[:place])
        assert Fraction(above[place - window.first]) >= sum(exact[place + 1 :])


@pytest.mark.parametrize("beta", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 1000)])
def test_a_range_leaves_half_of_beta_on_each_side(beta):
    exact = binomial_masses(30, Fraction(1, 3))
    low, high = BinomialLaw(n=30, gamma=Fraction(1, 3)).range(beta)
    assert sum(exact[:low]) <= beta / 2 < sum(exact[: low + 1])
    assert sum(exact[high + 1 :]) <= beta / 2 < sum(exact[high:])


def test_normal_quantiles():
    tail = np.concatenate([10.0 ** -np.arange(1, 300), np.linspace(0.001, 0.999, 999)])
    np.testing.assert_allclose(counts._isf(tail), norm.isf(tail), rtol=1e-11, atol=1e-14)
    assert np.all(np.isinf(counts._isf(np.array([0.0, -1.0]))))


def test_scores_are_near_normal_quantiles():
    p = np.concatenate([10.0 ** -np.arange(1, 300), np.linspace(0.001, 0.999, 999)])
    np.testing.assert_allclose(counts._score(p), norm.ppf(p), atol=1e-4)


def test_what_is_not_known_of_the_noise_is_taken_off_the_tails():
    """A law that is off by d covers at 1 - beta what it covers at 1 - (beta - d)."""
    noise = Difference(r=2.0, p=0.99)
    off, sharp = (DifferenceError(noise=noise, shape=(), distance=d) for d in (0.02, 0.0))
    assert off.exact_interval(0.0, 0.95) == sharp.exact_interval(0.0, 0.97)
    assert off.exact_interval(0.0, 0.95).high > sharp.exact_interval(0.0, 0.95).high
    with pytest.raises(UnsupportedError, match="too close to 1"):
        off.exact_interval(0.0, 0.97)


def test_a_bias_widens_both_sides():
    plain, biased = (
        SharedNoiseError(rate=Fraction(1, 10), shape=Fraction(1), step=0.5, bias=bias)
        for bias in (0.0, 3.0)
    )
    low, high = plain.interval(10.0, 0.95)
    assert biased.interval(10.0, 0.95) == pytest.approx((low - 3, high + 3))
    plain, biased = (
        counts.BoundedError(
            stderr=1.0, most=(1.0, 0.0, 0.0), least=1.0, reach=0.001, limits=(0.0, 99.0), bias=bias
        )
        for bias in (0.0, 3.0)
    )
    low, high = plain.interval(50.0, 0.95)
    assert biased.interval(50.0, 0.95) == pytest.approx((low - 3, high + 3), abs=1e-6)


@pytest.mark.parametrize(
    "parts", [((900, 0.3), (4000, 0.01)), ((10**6, 0.4), (3000, 0.002), (50, 0.5))]
)
def test_sums_by_transform_are_as_exact_as_they_say(parts, monkeypatch):
    """The fast Fourier transform serves where the direct sum takes seconds, unless tiny tails matter."""
    noise = BinomialSum(parts=tuple((n, Fraction(p)) for n, p in parts))
    direct = noise.window()
    monkeypatch.setattr(binomial, "_DIRECT", 0)
    assert noise.window().error == 0
    found = noise.window(tail=0.05)
    assert 0 < found.error < 1e-9
    assert (found.first, len(found.masses)) == (direct.first, len(direct.masses))
    sums = [np.cumsum(each.masses) for each in (found, direct)]
    assert np.abs(sums[0] - sums[1]).max() < found.error
    for level in (0.5, 0.95, 0.999):
        assert found.cut_equally(level) == direct.cut_equally(level)


@pytest.mark.parametrize(("r", "p"), [(50.0, 0.9), (3.0, 0.95), (1.0, 0.5), (0.3, 0.9)])
def test_what_is_beyond_a_window_of_negative_binomials_is_bounded(r, p):
    """Before the mode the masses still grow: a ratio of neighbours is no bound of the later ones there."""
    for length in (4, 64, 256):
        _, survivals, rest = Difference(r=r, p=p)._arrays(length)
        beyond = nbinom.sf(length - 1, r, 1 - p)
        assert beyond * (1 - 1e-9) <= rest <= 1
        assert (survivals * (1 + 1e-9) >= nbinom.sf(np.arange(length), r, 1 - p)).all()
