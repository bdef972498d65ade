"""Quantiles and spreads of groups, from intervals of sums of bins: exact ones show what is excluded, and what is not."""

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.domain import Cells
from shuffledp.tasks.groups import bound_quantiles, bound_spreads, find_quantiles, find_variances

SOURCE = np.random.default_rng(3)


def within(table, off):
    """Sums that are off by at most so much."""
    return lambda weights, _: (table @ weights - off, table @ weights + off)


def draw(size, people=400):
    values = SOURCE.integers(0, size, people)
    return values, np.bincount(values, minlength=size).astype(float)[None, :]


@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("size", [2, 7, 40])
def test_exact_sums_have_exact_quantiles(size, p):
    values, table = draw(size)
    domain = sdp.Integers(lower=0, upper=size - 1)
    truth = np.quantile(values, p, method="inverted_cdf")
    low, high = bound_quantiles(within(table, 1e-9), table, domain, (p,), 0.01)
    assert find_quantiles(table, domain, (p,)) == low == high == truth


def test_a_cell_is_excluded_by_its_own_sum_and_by_the_one_before():
    """Ten people each at 0 .. 9: the median is 4, and sums that are off by 7 leave 3 to 5, those off by 12 leave 3 to 6."""
    table, domain = np.full((1, 10), 10.0), sdp.Integers(lower=0, upper=9)
    for off, least, most in ((7, 4, 5), (12, 3, 6), (1000, 0, 9)):
        low, high = bound_quantiles(within(table, off), table, domain, (0.5,), 0.01)
        assert (low[0], high[0]) == (least, most)


def test_cells_have_two_edges():
    table, domain = np.array([[0.0, 5.0, 5.0, 0.0]]), Cells(lower=0.0, upper=8.0, cells=4)
    low, high = bound_quantiles(within(table, 1e-9), table, domain, (0.2, 0.7), 0.01)
    assert (low.tolist(), high.tolist()) == ([2.0, 4.0], [4.0, 6.0])
    assert find_quantiles(table, domain, (0.2, 0.7)) == pytest.approx([2.8, 4.8])


@pytest.mark.parametrize("size", [2, 5, 33])
def test_exact_sums_have_exact_spreads(size):
    values, table = draw(size)
    numbers = np.arange(size) + 100.0
    low, high = bound_spreads(within(table, 1e-7), table, numbers, 0.0, 0.1)
    assert find_variances(table, numbers) == pytest.approx(np.var(values))
    # The mean lies between two values, the centre is one of them: so the upper end is within half a value.
    assert low == pytest.approx(np.std(values), rel=1e-6)
    assert np.std(values) <= high <= np.hypot(np.std(values), 0.5) + 1e-6


def test_values_may_be_at_the_edges_of_their_cells():
    """Half of the people at 0 and half at 8: farther apart than the middles of their cells; and nearer, at 2 and 6."""
    table, numbers = np.array([[50.0, 0.0, 0.0, 50.0]]), np.array([1.0, 3.0, 5.0, 7.0])
    low, high = bound_spreads(within(table, 1e-7), table, numbers, 1.0, 0.1)
    assert low <= 2.0
    assert high >= 4.0


@pytest.mark.parametrize("turned", [1, -1])
@pytest.mark.parametrize("off", [1.0, 10.0, 30.0])
def test_sums_that_are_off_stay_inside(off, turned):
    """All three sums at their worst ends, in every combination; the mean above and below the centre."""
    numbers = np.arange(6.0)
    table = np.array([[30.0, 0.0, 40.0, 20.0, 0.0, 10.0][::turned]])
    low, high = bound_spreads(within(table, off), table, numbers, 0.0, 0.1)
    centre = numbers[np.abs(numbers - table[0] @ numbers / table.sum()).argmin()]
    away = numbers - centre
    found = [
        (second / people) - (first / people) ** 2
        for people in table.sum() + off * np.array([-1.0, 1.0])
        for first in table[0] @ away + off * np.array([-1.0, 0.0, 1.0])
        for second in table[0] @ away**2 + off * np.array([-1.0, 1.0])
    ]
    assert low[0] ** 2 <= max(min(found), 0.0) + 1e-9
    assert high[0] ** 2 >= max(found) - 1e-9


def test_of_nobody_nothing_is_known():
    table, numbers = np.zeros((1, 4)), np.arange(4.0)
    low, high = bound_spreads(within(table, 2.0), table, numbers, 0.5, 0.1)
    assert (low[0], high[0]) == (0.0, 2.0)
    domain = sdp.Integers(lower=0, upper=3)
    low, high = bound_quantiles(within(table, 2.0), table, domain, (0.5,), 0.1)
    assert (low[0], high[0]) == (0.0, 3.0)
