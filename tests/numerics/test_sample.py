"""What a sample without replacement says about all: tails and limits against every sample of small populations."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from shuffledp.numerics.intervals import sample
from shuffledp.numerics.intervals.sample import bound_sampling

SIZES = [(1, 1), (1, 2), (3, 3), (2, 9), (5, 9), (8, 9), (4, 30), (15, 30), (29, 30), (7, 120)]


def at_most(x, holders, sampled, people):
    """Pr[X <= x] of the holders in a sample."""
    ways = sum(
        math.comb(holders, k) * math.comb(people - holders, sampled - k) for k in range(x + 1)
    )
    return Fraction(ways, math.comb(people, sampled))


@pytest.mark.parametrize(("sampled", "people"), SIZES)
@pytest.mark.parametrize("outside", [0.21, 0.025, 1e-6])
def test_shares_are_refused_exactly_by_their_tails(sampled, people, outside):
    shares = np.arange(sampled + 1) / sampled
    _, high = bound_sampling(shares, shares, sampled, people, outside)
    for x, end in enumerate((high * people).tolist()):
        kept = [
            holders
            for holders in range(people + 1)
            if at_most(x, holders, sampled, people) > outside / 2
        ]
        assert max(kept) <= end <= max(kept) + 1e-9
    low, _ = bound_sampling(shares, shares, sampled, people, outside)
    np.testing.assert_allclose(low, 1 - high[::-1], atol=1e-12)
    assert (low[::-1] * people <= people - np.rint(high * people)).all()


@pytest.mark.parametrize(("x", "holders"), [(0, 9), (3, 40), (20, 200), (0, 700)])
def test_tails_are_at_least_the_exact_ones(x, holders):
    found = sample._sum_tail(np.array([float(x)]), np.array([float(holders)]), 300, 1000)
    exact = at_most(x, holders, 300, 1000)
    assert exact <= Fraction(float(found[0])) <= exact * Fraction(1_000_001, 1_000_000)


def test_long_tails_take_several_blocks(monkeypatch):
    args = np.array([400.0]), np.array([4300.0]), 1000, 10_000
    whole = sample._sum_tail(*args)
    monkeypatch.setattr(sample, "_BLOCK", 3)
    np.testing.assert_allclose(sample._sum_tail(*args), whole, rtol=1e-6)


@pytest.mark.parametrize(
    "values", [(0, 0, 0, 0, 0, 0, 0, 9), (1, 2, 3, 4, 5, 6, 7, 8, 9), (0, 9) * 5]
)
@pytest.mark.parametrize("sampled", [2, 5, 8])
@pytest.mark.parametrize("outside", [0.4, 0.1])
def test_means_cover_over_every_sample(values, sampled, outside):
    means = np.array([np.mean(each) for each in combinations(values, sampled)])
    low, high = bound_sampling(means, means, sampled, len(values), outside, (0.0, 9.0))
    missed = (np.mean(values) < low) | (np.mean(values) > high)
    assert missed.mean() <= outside
    assert (low <= means).all()
    assert (means <= high).all()


def test_a_mean_near_an_end_is_known_better_than_one_in_the_middle():
    """By entropy near the ends, by Serfling's inequality if most people are asked."""
    low, high = bound_sampling(
        np.array([0.0, 2.0]), np.array([0.0, 2.0]), 100, 10_000, 0.05, (0.0, 4.0)
    )
    assert high[0] == pytest.approx(4 * (1 - 0.025**0.01), rel=1e-9)
    assert high[1] - 2 > 3 * high[0]
    assert high[1] - 2 == pytest.approx(2 - low[1])
    _, most = bound_sampling(2.0, 2.0, 9000, 10_000, 0.05, (0.0, 4.0))
    kept = 1 - 8999 / 10_000
    assert float(most) - 2 == pytest.approx(4 * math.sqrt(kept * math.log(40) / 18_000), rel=1e-9)


def test_everybody_is_no_sample():
    low, high = bound_sampling(0.25, 0.5, 8, 8, 0.05)
    assert (float(low), float(high)) == pytest.approx((0.25, 0.5), abs=1e-12)
    low, high = bound_sampling(1.25, 2.5, 8, 8, 0.05, (0.1, 3.3))
    assert (float(low), float(high)) == pytest.approx((1.25, 2.5), abs=1e-12)
    assert [float(end) for end in bound_sampling(-5.0, 9.0, 3, 8, 0.05, (0.1, 0.3))] == [0.1, 0.3]


def test_shares_of_many_millions_are_a_little_wider():
    exact = bound_sampling(0.3, 0.3, 10**6, 10**7, 0.05)
    wider = bound_sampling(0.3, 0.3, 10**6, 10**7 + 10, 0.05)
    assert exact[1] < wider[1] < 0.3 + 1.6 * (exact[1] - 0.3)
    assert 0.3 - 1.6 * (0.3 - exact[0]) < wider[0] < exact[0]


def test_no_count_between_the_limits_of_the_noise():
    low, high = bound_sampling(0.32, 0.34, 10, 100, 0.05)
    first, last = bound_sampling(0.3, 0.4, 10, 100, 0.05)
    assert (low, high) == (first, last)


def test_the_tail_of_a_difference_by_hand():
    """Z_R is beyond its points with 1/2 and 1/4; the last quarter may be anywhere."""
    tails = sample._Tails(
        tails=np.array([0.5, 0.25]), top=np.array([1.0, 2.0]), rows=np.array([1.0, 2.0])
    )
    found = tails.bound(np.array([2.5, 4.5, 2.5]), np.array([1.0, 1.0, 0.0]))
    # Left of 2.5 are 1.5 and 0.5, which Z_S exceeds with 1/4 and anything; of 4.5 both are beyond the last point.
    moved = [0.5 / 4 + 0.25 + 0.25, 0.5 / 8 + 0.25 / 8 + 0.25, 0.5 / 8 + 0.25 / 8 + 0.25]
    np.testing.assert_allclose(found, (0.125 + np.array(moved)) / 2, rtol=1e-8)
    assert (found >= (0.125 + np.array(moved)) / 2).all()
