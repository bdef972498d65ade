"""Moments of noise: at least the exact ones of the law, and hardly more; for sums with weights of both signs, too."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from shuffledp.numerics.intervals import BinomialSum, NoiseError, TwoBinomialsError
from shuffledp.numerics.intervals.laplace import Difference, DifferenceError, log_moments
from shuffledp.numerics.tabulated import CutLaplace, CutLaplaceSum

PLACES = np.array([[-2.0, -0.3, 0.0], [1e-6, 0.4, 3.0]])


def log_mean(values, masses, s):
    """ln E[e^(s X)] by its sum."""
    return np.array(
        [math.log(math.fsum(np.exp(each * values) * masses)) for each in s.ravel()]
    ).reshape(s.shape)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize(("rate", "most"), [(1.0, 1), (0.5, 6), (0.1, 30)])
def test_moments_of_what_servers_add(times, rate, most):
    noise = CutLaplace(rate=rate, most=most)
    law = np.array([float(share) for share in noise.shares]) / 2.0**128
    total = law
    for _ in range(times - 1):
        total = np.convolve(total, law)
    both = CutLaplaceSum(noise=noise, times=times)
    z = np.arange(-times * most, times * most + 1.0)
    exact, found = log_mean(z, total, PLACES), both.log_moments(PLACES)
    assert (found >= exact).all()
    np.testing.assert_allclose(found, exact, rtol=1e-10, atol=1e-12)
    # And tails: from nothing beyond the ends to everything.
    x = np.arange(-times * most - 1.0, times * most + 2.5, 0.5)
    tails = np.array([math.fsum(total[z >= each]) for each in x])
    assert (both.at_least(x) >= np.minimum(tails, 1.0) * (1 - 1e-15)).all()
    np.testing.assert_allclose(both.at_least(x), tails, rtol=1e-10)
    assert both.at_least(np.array([times * most + 0.1]))[0] == 0.0
    assert both.variance == pytest.approx(float(total @ z**2), rel=1e-12)


def test_moments_of_binomial_numbers():
    parts = ((7, Fraction(1, 3)), (4, Fraction(9, 10)))
    noise = BinomialSum(parts=parts)
    law = np.convolve(*(binom.pmf(np.arange(n + 1), n, float(p)) for n, p in parts))
    exact = log_mean(np.arange(12.0) - float(noise.centre), law, PLACES)
    np.testing.assert_allclose(noise.log_moments(PLACES), exact, rtol=1e-9, atol=1e-14)
    assert noise.log_moments(np.array([1e4]))[0] == math.inf


@pytest.mark.parametrize("r", [0.5, 1.0, 7.0])
def test_moments_of_differences(r):
    masses = Difference(r=r, p=0.5)._arrays(400)[0]
    law = np.convolve(masses, masses[::-1])
    s = np.array([-0.4, -0.1, 0.0, 0.3, 0.6])
    exact = log_mean(np.arange(-399.0, 400.0), law, s)
    np.testing.assert_allclose(log_moments(s, r, math.log(2)), exact, rtol=1e-9, atol=1e-12)
    error = DifferenceError(noise=Difference(r=r, p=0.5), shape=(2,), distance=0.0)
    weights = np.array([[0.3, -0.4], [0.0, 0.6]])
    expected = log_moments(weights, r, math.log(2)).sum(axis=1)
    np.testing.assert_allclose(error.log_moment(weights), expected)
    assert log_moments(np.array([0.7]), r, math.log(2))[0] == math.inf


WEIGHTS = np.array([[0.5, 0.2], [0.5, -0.2], [-0.7, 0.7], [-1.0, -0.1], [0.0, 2.0]])


def test_noise_in_several_bins_is_covered_whether_trials_share_them_or_not():
    n, p = 6, Fraction(1, 3)
    error = NoiseError(noise=BinomialSum(parts=((n, p),)), observed=np.array([3, 2]))
    found = error.log_moment(WEIGHTS)
    apart = error.noise.log_moments(WEIGHTS).sum(axis=1)
    law = multinomial(n, [1 / 3, 1 / 3, 1 / 3])
    pairs = [pair for pair in product(range(n + 1), repeat=2) if sum(pair) <= n]
    masses = [law.pmf([*pair, n - sum(pair)]) for pair in pairs]
    shared = [
        math.log(
            sum(
                m * math.exp(w @ (np.array(pair) - 2))
                for pair, m in zip(pairs, masses, strict=True)
            )
        )
        for w in WEIGHTS
    ]
    assert (found >= np.maximum(apart, shared) - 1e-12).all()
    mixed = [False, True, True, False, False]
    poisson = 2 * (np.expm1(WEIGHTS) - WEIGHTS).sum(axis=1)
    np.testing.assert_allclose(found, np.where(mixed, poisson, apart), rtol=1e-12)
    alone = error.log_moment(WEIGHTS[:1])
    np.testing.assert_allclose(alone, apart[:1], rtol=1e-12)
    assert error.distance == 0.0


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(
    "added", [None, CutLaplaceSum(noise=CutLaplace(rate=1.0, most=4), times=2)]
)
def test_moments_of_counts_are_at_least_those_of_any_data(apart, added):
    n, p, q = 40, 0.75, 0.25
    lead = p - q
    error = TwoBinomialsError(
        observed=np.array([20, 20]),
        n=n,
        p=p,
        q=q,
        value=np.array([20.0, 20.0]),
        added=added,
        apart=apart,
    )
    for size in (1e-5, 0.01, 0.2, 1.0):
        weights = size * np.array([[1.0, 0.0], [-1.0, 0.0], [0.6, 0.8], [0.6, -0.8]])
        found = error.log_moment(weights)
        more = 0.0 if added is None else added.log_moments(weights / lead).sum(axis=1)
        exact = np.max(
            [
                sum(
                    m * np.log1p(r * np.expm1(u)) - m * r * u
                    for u in (weights / lead).T
                    for m, r in ((c, p), (n - c, q))
                )
                for c in (0, 20, 40)
            ],
            axis=0,
        )
        assert (found >= (exact + more) * (1 - 1e-6)).all()
        if size < 1e-4:  # then it is about half the variance
            each = n * p * (1 - p) / lead**2 * size**2 / 2
            times = [1, 1, 1, 1.96] if apart else [1, 1, 1.96, 1.96]
            np.testing.assert_allclose(found - more, each * np.array(times), rtol=1e-3)
    assert error.distance == 0.0
    # By Bennett's inequality: reach 1.4 / lead at weights 0.6 and 0.8.
    reach = 1.4 / lead
    growth = (math.exp(reach) - 1 - reach) / reach**2
    wide = error.log_moment(np.array([[0.6, 0.8]]))[0]
    more = 0.0 if added is None else added.log_moments(np.array([0.6, 0.8]) / lead).sum()
    square = 1.0 if apart else 1.96
    assert wide - more == pytest.approx(n * p * (1 - p) / lead**2 * square * growth, rel=1e-9)
