"""The exponential mechanism: its law, its ratio, its utility."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from shuffledp import DataError, ParameterError, SeededWords
from shuffledp.mechanisms import exponential
from shuffledp.numerics.rounding import exp_lower
from support import ALPHA


def test_thirty_votes_against_twenty_nine():
    vote = exponential.make(epsilon=1.0, sensitivity=1.0, k=2)
    assert vote.probabilities([30, 29])[0] == pytest.approx(1 / (1 + math.exp(-0.5)), rel=1e-15)


@pytest.mark.parametrize("utility_error", [0.0, 0.25])
def test_ratio_between_all_neighbours(utility_error):
    """Computed utilities of neighbours are within sensitivity + 2 utility_error of each other."""
    mechanism = exponential.make(epsilon=0.8, sensitivity=1.0, k=3, utility_error=utility_error)
    reach = 1 + 2 * Fraction(utility_error)
    limit = exp_lower(0.8) * (1 + Fraction(1, 2**90))
    largest = Fraction(0)
    base = [Fraction(3), Fraction(1), Fraction(3, 2)]
    before = mechanism.choice(base).bounds(100)
    for moves in itertools.product((-reach, 0, reach), repeat=3):
        after = mechanism.choice([u + m for u, m in zip(base, moves, strict=True)]).bounds(100)
        for (low, _), (_, high) in zip(before, after, strict=True):
            largest = max(largest, low / high)
    assert largest <= limit
    assert largest > exp_lower(0.4)  # more than half of epsilon is used


def test_too_small_a_sensitivity_breaks_the_ratio():
    mechanism = exponential.make(epsilon=0.8, sensitivity=0.5, k=2)
    before = mechanism.choice([5, 0]).bounds(100)[1][0]
    after = mechanism.choice([6, -1]).bounds(100)[1][1]
    assert before / after > exp_lower(0.8)


def test_utility_bound_holds():
    mechanism = exponential.make(epsilon=1.0, sensitivity=1.0, k=6)
    utilities = np.array([0, -3, -9, -10, -12, -20])
    p = mechanism.probabilities(utilities)
    for beta in (0.5, 0.1, 0.01):
        assert p[utilities < -mechanism.accuracy(beta)].sum() <= beta


def test_declared_error_costs_accuracy():
    plain = exponential.make(epsilon=1.0, sensitivity=1.0, k=6)
    rough = exponential.make(epsilon=1.0, sensitivity=1.0, k=6, utility_error=0.5)
    assert rough.accuracy(0.1) == pytest.approx(2 * plain.accuracy(0.1) + 1)


def test_kinds_of_numbers_agree():
    mechanism = exponential.make(epsilon=1.0, sensitivity=1.0, k=3)
    for utilities in ([3, 1, 2], [3.0, 1.0, 2.0], np.array([3, 1, 2]), [Fraction(3), 1, 2.0]):
        assert mechanism.choice(utilities) == mechanism.choice([3, 1, 2])


def test_large_utilities_do_not_overflow():
    mechanism = exponential.make(epsilon=1.0, sensitivity=1.0, k=3)
    assert mechanism.probabilities([10**30, 0, 10**30]).tolist() == [0.5, 0.0, 0.5]
    assert mechanism.select([0.0, 1e300, -1e300], SeededWords(1)).index == 1


def wins(mechanism, utilities, rounds, seed):
    return int((mechanism.choice(utilities).draw(rounds, SeededWords(seed)) == 0).sum())


def test_selected_as_declared():
    rounds, p = 4000, 1 / (1 + math.exp(-0.5))
    seen = wins(exponential.make(epsilon=1.0, sensitivity=1.0, k=2), [30, 29], rounds, seed=31)
    assert min(binom.cdf(seen, rounds, p), binom.sf(seen - 1, rounds, p)) > ALPHA
    # Mutant: the factor 2 is forgotten.
    seen = wins(exponential.make(epsilon=2.0, sensitivity=1.0, k=2), [30, 29], rounds, seed=31)
    assert binom.sf(seen - 1, rounds, p) < ALPHA


def test_labels():
    mechanism = exponential.make(epsilon=50.0, sensitivity=1.0, k=2, labels=["a", "b"])
    assert mechanism.select([0, 9], SeededWords(1)).label == "b"
    with pytest.raises(ParameterError, match="labels"):
        exponential.make(epsilon=1.0, sensitivity=1.0, k=3, labels=["a", "b"])
    with pytest.raises(ParameterError, match="utility_error"):
        exponential.make(epsilon=1.0, sensitivity=1.0, k=3, utility_error=-1.0)


@pytest.mark.parametrize(
    "utilities",
    [[1, math.nan], ["a", "b"], [True, False], [1, 2, 3], [1, None], [Fraction(1), math.inf]],
)
def test_bad_utilities(utilities):
    with pytest.raises(DataError, match="utilit"):
        exponential.make(epsilon=1.0, sensitivity=1.0, k=2).select(utilities, SeededWords(1))


@pytest.mark.parametrize("k", [2, 3, 50, 1000])
@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-9])
def test_accuracy_is_above_the_bound_and_hardly_more(k, beta):
    epsilon, sensitivity, error = 0.7, 1.5, 0.1
    mechanism = exponential.make(epsilon=epsilon, sensitivity=sensitivity, k=k, utility_error=error)
    with localcontext() as context:
        context.prec = 40
        logarithm = (Decimal(k) / Decimal(beta)).ln()
        scale = 2 * (Decimal(sensitivity) + 2 * Decimal(error)) / Decimal(epsilon)
        exact = scale * logarithm + 2 * Decimal(error)
    assert exact < Decimal(mechanism.accuracy(beta)) < exact * (1 + Decimal("1e-12"))
