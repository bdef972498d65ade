"""Losses of several pairs of bins: against the joint law, outcome by outcome."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from shuffledp.accounting.moved_message import BinomialTotal, PoissonTotal, TwoBins, dummies
from shuffledp.protocols.count_min import rows_delta, rows_level


def pair(total):
    """(P, Q): masses of all outcomes (T, u) of one pair."""
    sizes = range(total.n + 1)
    law = binom.pmf(np.arange(total.n + 1), total.n, float(total.p))
    p = [law[t] * binom.pmf(np.arange(t + 2) - 1, t, 0.5) for t in sizes]
    q = [law[t] * binom.pmf(np.arange(t + 2), t, 0.5) for t in sizes]
    return np.concatenate(p), np.concatenate(q)


def joint_delta(total, rows, epsilon):
    one = pair(total)
    p, q = one
    for _ in range(rows - 1):
        p, q = (
            np.multiply.outer(joint, each).ravel() for joint, each in ((p, one[0]), (q, one[1]))
        )
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize(
    ("n", "p", "rows", "epsilon"),
    [(60, 0.5, 1, 1.0), (60, 0.5, 2, 1.0), (40, 0.9, 2, 2.0), (16, 0.75, 3, 2.0), (3, 0.5, 2, 1.0)],
)
def test_joint_law(n, p, rows, epsilon):
    total = BinomialTotal(n=n, p=Fraction(p))
    exact, bound = (
        joint_delta(total, rows, epsilon),
        rows_delta(total=total, rows=rows, epsilon=epsilon),
    )
    assert exact <= bound <= exact * (1.1 if n > 3 else 1.3)


def test_better_than_adding_up():
    total = PoissonTotal(mean=300.0)
    bound = rows_delta(total=total, rows=4, epsilon=1.0)
    assert bound < 1e-3 * 4 * TwoBins(total=total).delta(0.25)


def test_coarse_cells_of_large_totals():
    """In the normal limit delta is in proportion to epsilon, if the mean is to 1 / epsilon^2."""
    small = rows_delta(total=PoissonTotal(mean=3e4), rows=3, epsilon=0.1)
    large = rows_delta(total=PoissonTotal(mean=3e8), rows=3, epsilon=0.001)
    assert small == pytest.approx(100 * large, rel=0.1)


@pytest.mark.parametrize("mean", [1e-3, 1e-6])
@pytest.mark.parametrize("epsilon", [0.0, 5.0, 1e4])
def test_hardly_any_dummies(mean, epsilon):
    """Nearly every loss is infinite: what is left is less than what a composition cuts off."""
    assert 0.99 < rows_delta(total=PoissonTotal(mean=mean), rows=3, epsilon=epsilon) <= 1


def test_level_is_nearly_the_smallest():
    asked = {"n": 10**5, "pair": Fraction(2, 256), "rows": 3, "epsilon": 1.0}
    rho = rows_level(**asked, delta=1e-6, bits=64)
    for factor, enough in ((1, True), (Fraction(99, 100), False)):
        total = dummies(n=10**5, rho=rho * factor, pair=asked["pair"]).total
        assert (rows_delta(total=total, rows=3, epsilon=1.0) <= 1e-6) is enough
