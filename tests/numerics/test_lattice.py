"""Intervals for whole-number noise cover what they say, as nearly as whole numbers can."""

import numpy as np
import pytest
from scipy.stats import binom, poisson

from shuffledp import ParameterError, UnsupportedError
from shuffledp.core.estimate import NormalError
from shuffledp.numerics.lattice import LatticeError


def coverage(noise, mean, sd, skewness, level, *, rough, slope=1.0, truth=0.0):
    """The exact probability that the interval holds the truth."""
    size = len(noise)
    observed = np.arange(size) + round(truth)
    value = (observed - mean - slope * truth) / slope + truth
    wide = np.full(size, sd)
    error = NormalError(stderr=wide / slope)
    if not rough:
        error = LatticeError(
            rough=error,
            observed=observed,
            base=mean + (1 - slope) * truth,
            slope=slope,
            sd=wide,
            skewness=np.full(size, skewness),
        )
    low, high = error.interval(value, level)
    return float(noise[(low <= truth) & (truth <= high)].sum())


MEANS = np.linspace(16, 120, 53)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_poisson_noise(level):
    worst = {True: 0.0, False: 0.0}
    for mean in MEANS:
        noise = poisson.pmf(np.arange(600), mean)
        edge = poisson.pmf(poisson.ppf((1 + level) / 2, mean), mean)
        for rough in worst:
            found = coverage(noise, mean, mean**0.5, mean**-0.5, level, rough=rough)
            worst[rough] = max(worst[rough], abs(found - level) / edge)
    # Half of a value's probability is what cannot be avoided; the normal interval misses it.
    assert worst[False] < 0.65
    assert worst[True] > 0.8


def test_noise_that_leans_the_other_way():
    for n in range(60, 200, 7):
        mean, sd = 0.8 * n, (0.16 * n) ** 0.5
        noise = binom.pmf(np.arange(n + 1), n, 0.8)
        found = coverage(noise, mean, sd, -0.6 / sd, 0.95, rough=False)
        edge = noise[int(binom.ppf(0.025, n, 0.8))]
        assert abs(found - 0.95) < 0.65 * edge


def test_slope_moves_the_noise():
    """Noise 60 - c / 50: at c = 1000 its mean is 40."""
    noise = poisson.pmf(np.arange(400), 40)
    found = coverage(noise, 40, 40**0.5, 40**-0.5, 0.95, rough=False, slope=0.98, truth=1000.0)
    assert abs(found - 0.95) < 0.006


def test_far_slope_is_left_to_the_rough_law():
    noise = poisson.pmf(np.arange(400), 40)
    arguments = (noise, 40, 40**0.5, 40**-0.5, 0.95)
    assert coverage(*arguments, rough=False, slope=0.5) == coverage(
        *arguments, rough=True, slope=0.5
    )


@pytest.mark.parametrize("skewness", [-1.0, 0.0, 0.3, 1.0])
def test_extreme_levels_stay_sensible(skewness):
    one = np.full(1, 5.0)
    error = LatticeError(
        rough=NormalError(stderr=one),
        observed=np.array([50]),
        base=50.0,
        slope=1.0,
        sd=one,
        skewness=np.full(1, skewness),
    )
    ends = [error.interval(np.zeros(1), 1 - tail) for tail in (0.5, 1e-3, 1e-9, 1e-15)]
    assert all(low < 0 < high for low, high in ends)
    lows = [float(low[0]) for low, _ in ends]
    assert lows == sorted(lows, reverse=True)
    assert lows[-1] < -15
    with pytest.raises(ParameterError, match="level"):
        error.interval(np.zeros(1), 1.0)
    with pytest.raises(UnsupportedError):
        error.exact_interval(np.zeros(1), 0.95)
