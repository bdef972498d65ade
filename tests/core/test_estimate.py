"""Estimates: intervals, and post-processing that is asked for."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize, stats

from shuffledp import ParameterError, UnsupportedError
from shuffledp.core.analyzer import Estimate, NormalError

bins = arrays(np.float64, st.integers(1, 5), elements=st.floats(-100, 100))


def estimate(value, limits=(0.0, 10.0), stderr=1.0):
    return Estimate(value=value, error=NormalError(stderr=stderr), limits=limits)


def nearest_by_brute_force(value, total):
    """The best of the candidates, one for each set of bins that stays positive."""
    k = len(value)
    best, best_distance = None, math.inf
    for size in range(1, k + 1):
        for support in itertools.combinations(range(k), size):
            candidate = np.zeros(k)
            kept = list(support)
            candidate[kept] = value[kept] - (value[kept].sum() - total) / size
            distance = np.sum((candidate - value) ** 2)
            if candidate.min() >= -1e-9 and distance < best_distance:
                best, best_distance = candidate, distance
    return best


class TestSimplex:
    @given(bins, st.floats(0.5, 100))
    def test_is_the_nearest_histogram(self, value, total):
        projected = estimate(value, limits=(0.0, total)).simplex().value
        np.testing.assert_allclose(projected, nearest_by_brute_force(value, total), atol=1e-6)

    def test_agrees_with_a_general_solver(self):
        value = np.array([-2.0, 8.0, 4.0, 3.5, 0.1])
        solved = optimize.minimize(
            lambda z: np.sum((z - value) ** 2),
            np.full(5, 2.0),
            bounds=[(0, None)] * 5,
            constraints={"type": "eq", "fun": lambda z: z.sum() - 10},
        )
        np.testing.assert_allclose(estimate(value).simplex().value, solved.x, atol=1e-5)

    @given(arrays(np.float64, st.integers(1, 300), elements=st.floats(-1e6, 1e6)))
    def test_is_a_histogram_and_stays_one(self, value):
        once = estimate(value, limits=(0.0, 1000.0)).simplex().value
        assert once.min() >= 0
        assert once.sum() == pytest.approx(1000.0, rel=1e-6)
        twice = estimate(once, limits=(0.0, 1000.0)).simplex().value
        np.testing.assert_allclose(twice, once, atol=1e-6)

    def test_keeps_the_order_and_ties(self):
        projected = estimate(np.array([5.0, 5.0, 1.0, -9.0])).simplex().value
        np.testing.assert_allclose(projected, [14 / 3, 14 / 3, 2 / 3, 0.0], atol=1e-12)
        assert projected[0] == projected[1]

    def test_total_far_smaller_than_the_bins(self):
        projected = estimate(np.array([1e20, 0.0, -1e20]), limits=(0.0, 1.0)).simplex().value
        assert projected.tolist() == [1.0, 0.0, 0.0]

    def test_total_of_nobody(self):
        projected = estimate(np.array([3.0, 1.0]), limits=(0.0, 0.0)).simplex().value
        assert projected.tolist() == [0.0, 0.0]

    def test_says_what_it_did_and_keeps_the_original(self):
        raw = estimate(np.array([-1.0, 7.0]), limits=(0.0, 1234567.0))
        done = raw.simplex()
        assert done.step == "projected onto total 1234567"
        assert done.raw is raw
        assert raw.value.tolist() == [-1.0, 7.0]

    def test_one_number_is_no_histogram(self):
        with pytest.raises(UnsupportedError, match="histograms"):
            estimate(3.0).simplex()


class TestClipped:
    @pytest.mark.parametrize(("value", "expected"), [(-3.0, 0.0), (4.0, 4.0), (11.0, 10.0)])
    def test_number(self, value, expected):
        raw = estimate(value)
        done = raw.clip()
        assert type(done.value) is float
        assert done.value == expected
        assert done.step == "clipped to [0, 10]"
        assert done.raw is raw
        assert raw.value == value

    def test_bins(self):
        assert estimate(np.array([-1.0, 3.0, 12.0])).clip().value.tolist() == [0.0, 3.0, 10.0]

    def test_one_end_is_enough_and_none_is_refused(self):
        assert estimate(-3.0, limits=(0.0, math.inf)).clip().value == 0.0
        endless = estimate(-3.0, limits=(-math.inf, math.inf))
        with pytest.raises(UnsupportedError, match="no public range is known here"):
            endless.clip()
        assert endless.clip((0, 1)).value == 0.0


class TestInterval:
    @pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.95, 0.999, 1 - 1e-12])
    def test_has_the_level_of_the_normal_law(self, level):
        low, high = estimate(5.0, stderr=2.0).interval(level)
        covered = stats.norm.cdf(high, 5.0, 2.0) - stats.norm.cdf(low, 5.0, 2.0)
        assert covered == pytest.approx(level, rel=1e-9)
        assert high - 5.0 == pytest.approx(5.0 - low)

    def test_level_as_close_to_one_as_can_be(self):
        low, high = estimate(0.0).interval(math.nextafter(1.0, 0.0))
        assert high == -low == pytest.approx(-stats.norm.ppf(2**-54), rel=1e-9)

    def test_one_interval_for_each_bin(self):
        stderr = np.array([1.0, 2.0])
        low, high = estimate(np.array([3.0, 4.0]), stderr=stderr).interval(0.6826894921370859)
        np.testing.assert_allclose(low, [2.0, 2.0])
        np.testing.assert_allclose(high, [4.0, 6.0])

    @pytest.mark.parametrize("level", [0, 1, 0.0, 1.0, -0.5, 95, math.nan, "0.95", True])
    def test_bad_level(self, level):
        with pytest.raises(ParameterError, match="level="):
            estimate(1.0).interval(level)

    def test_exact_interval_is_not_invented(self):
        with pytest.raises(UnsupportedError, match="exact interval"):
            estimate(1.0).exact_interval(0.95)

    def test_stderr_is_that_of_the_law(self):
        assert estimate(1.0, stderr=2.5).stderr == 2.5
