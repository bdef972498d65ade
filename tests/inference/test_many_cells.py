"""Uniformity on very many categories: the simulation counts cells of each kind, and no single cell."""

from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import stats

from shuffledp import SeededWords
from shuffledp.inference import observers
from shuffledp.inference.observers import Dummies, ManyDummies, draw_occupancy
from shuffledp.inference.testers import make_tester
from support import ALPHA

QUESTION = {"model": "shuffle", "coin": "private", "method": "direct", "honest": 1.0}


def law_of_squares(balls, cells=3):
    """Of the sum of squared counts, exactly, for three cells."""
    law = Counter()
    for a in range(balls + 1):
        for b in range(balls - a + 1):
            ways = comb(balls, a) * comb(balls - a, b)
            law[a * a + b * b + (balls - a - b) ** 2] += Fraction(ways, cells**balls)
    return law


def fits(drawn, law):
    """Chi-squared, with the values of small probability together."""
    wanted = [value for value, chance in law.items() if chance * len(drawn) >= 20]
    seen = Counter(drawn)
    observed = [seen[value] for value in wanted]
    expected = [float(law[value]) * len(drawn) for value in wanted]
    observed.append(len(drawn) - sum(observed))
    expected.append(len(drawn) - sum(expected))
    return stats.chisquare(observed, expected).pvalue >= ALPHA


@pytest.mark.parametrize(("balls", "one_by_one"), [(7, 1 << 10), (60, 1 << 10), (60, 45)])
def test_the_occupancy_has_the_law_of_balls_in_cells(balls, one_by_one, monkeypatch):
    """60 are mostly a Poisson number, and the rest, which may be drawn likewise; 7 are too few for that."""
    monkeypatch.setattr(observers, "_FEW_BALLS", one_by_one)
    generator = np.random.default_rng(1)
    drawn = []
    for _ in range(4000):
        occupancy = draw_occupancy(balls, 3, generator)
        numbers = np.arange(len(occupancy))
        assert occupancy.sum() == 3
        assert occupancy @ numbers == balls
        drawn.append(int(occupancy @ numbers**2))
    assert fits(drawn, law_of_squares(balls))
    uneven = generator.multinomial(balls, [0.5, 0.25, 0.25], size=4000)
    assert not fits((uneven**2).sum(axis=1).tolist(), law_of_squares(balls))


def pair(n, k):
    """The same observer, cell by cell and by kinds of cells."""
    made = make_tester(n=n, k=k, epsilon=2.0, delta=1e-3, **QUESTION).observer
    assert isinstance(made, Dummies)
    return made, ManyDummies(dense=made)


@pytest.mark.parametrize("weights", [(1,) * 6, (1, 2, 3, 4, 5, 6), (1, 4, 4, 1, 4, 1)])
def test_both_simulations_have_one_law(weights):
    n, k, runs = 40, 6, 1500
    dense, many = pair(n, k)
    p = np.array(weights) / sum(weights)
    counts = dense.simulate(p, n, runs, np.random.default_rng(2))
    sums = many.simulate(p, n, runs, np.random.default_rng(3))
    for power, column in ((1, sums[:, 0]), (2, sums[:, 1])):
        found = stats.ks_2samp((counts**power).sum(axis=1), column, method="asymp")
        assert found.pvalue >= ALPHA
    wrong = many.simulate(p, n - 8, runs, np.random.default_rng(3))
    assert stats.ks_2samp(sums[:, 1], wrong[:, 1], method="asymp").pvalue < ALPHA


def test_the_statistic_is_that_of_the_counts():
    n, k = 40, 6
    dense, many = pair(n, k)
    r = np.full(k, 1 / k)
    counts = dense.simulate(r, n, 50, np.random.default_rng(4))
    sums = np.stack((counts.sum(axis=1), (counts**2).sum(axis=1)), axis=1)
    found = many.statistic(sums, r, n)
    assert found == pytest.approx(dense.statistic(counts, r, n), rel=1e-9, abs=1e-6)
    assert found.tolist() == [float(many.statistic(row.copy(), r, n)) for row in sums]


def test_what_is_observed_are_the_sums():
    dense, many = pair(40, 6)
    values = np.arange(40) % 6
    counts = dense.observe(values, SeededWords(5))
    assert many.observe(values, SeededWords(5)).tolist() == [counts.sum(), (counts**2).sum()]


def test_very_many_categories_take_it():
    tester = make_tester(n=500, k=1 << 14, epsilon=1.0, delta=1e-5, **QUESTION)
    assert isinstance(tester.observer, ManyDummies)
    far = tester.far(0.5, 3, np.random.default_rng(6))
    assert far.shape == tester.null(3, np.random.default_rng(6)).shape == (3,)
