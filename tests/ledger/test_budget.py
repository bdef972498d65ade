"""How releases add up: exact sums, the Renyi filter, and both against the exact composition."""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.ledger.budget import Budget, Charge, _conversion, _renyi, charge_of, exceeds, spent

UNIT = 0.05


def charges(epsilon, delta, times):
    return [Charge(epsilon=epsilon, delta=delta)] * times


class TestSums:
    def test_ten_tenths_are_one(self):
        budget = Budget(epsilon=1.0, delta=1e-7)
        assert exceeds(charges(0.1, 1e-8, 10), budget) is None
        assert "epsilon would be 1.1" in exceeds(charges(0.1, 1e-9, 11), budget)
        assert "delta would be 1.1e-07" in exceeds(charges(0.01, 1e-8, 11), budget)

    def test_the_smallest_excess_is_noticed(self):
        budget = Budget(epsilon=1.0, delta=0.0)
        over = [*charges(0.5, 0.0, 1), Charge(epsilon=math.nextafter(0.5, 1), delta=0.0)]
        assert exceeds(over, budget)
        assert exceeds([*charges(1.0, 0.0, 1), Charge(epsilon=1e-300, delta=0.0)], budget)
        assert exceeds(charges(0.1, 1e-300, 1), budget)

    @given(st.lists(st.floats(1e-6, 3.0), min_size=1, max_size=20))
    def test_reported_sum_is_never_too_small(self, epsilons):
        from fractions import Fraction

        total = spent(
            [Charge(epsilon=e, delta=0.0) for e in epsilons], Budget(epsilon=1.0, delta=0.0)
        )
        assert Fraction(repr(total.epsilon)) >= sum(Fraction(repr(e)) for e in epsilons)
        assert total.epsilon <= math.fsum(epsilons) * (1 + 1e-15)

    def test_nothing_spent(self):
        total = spent([], Budget(epsilon=1.0, delta=1e-6, reserve=1e-7))
        assert (total.epsilon, total.delta, total.rule) == (0.0, 0.0, "sums")


class TestRenyi:
    @pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.3, 1.0, 4.0, 30.0])
    @pytest.mark.parametrize("alpha", [1.1, 2.0, 13.6, 300.0])
    def test_divergence_of_randomized_response(self, epsilon, alpha):
        """Against the definition, in 50 digits."""
        import mpmath

        with mpmath.workdps(50):
            e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)
            p = 1 / (1 + mpmath.exp(-e))
            q = 1 - p
            exact = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
        assert exact <= _renyi(epsilon, alpha) <= min(epsilon, float(exact) * (1 + 1e-6) + 1e-11)

    @pytest.mark.parametrize(
        ("epsilon", "times"), [(0.01, 1000), (0.05, 200), (0.3, 40), (1.0, 30)]
    )
    def test_is_an_upper_bound_of_the_exact_composition(self, epsilon, times):
        """k rounds of randomized response: delta at the reported epsilon is below the reserve."""
        budget = Budget(epsilon=5 * epsilon * math.sqrt(times), delta=1e-5, reserve=1e-6)
        found = spent(charges(epsilon, 0.0, times), budget)
        assert exact_delta(epsilon, times, found.epsilon) <= budget.reserve
        # A bound half as large would be wrong: the test can fail.
        assert exact_delta(epsilon, times, found.epsilon / 2) > budget.reserve

    def test_wins_for_many_small_releases_and_pays_with_delta(self):
        budget = Budget(epsilon=2.0, delta=1e-6, reserve=5e-7)
        small = charges(0.01, 1e-10, 1000)
        found = spent(small, budget)
        assert found.rule == "renyi"
        assert found.epsilon < 1.8
        assert found.delta == pytest.approx(6e-7)
        assert exceeds(small, budget) is None
        assert exceeds(small, Budget(epsilon=2.0, delta=1e-6)), "not without a reserve"

    def test_reserve_is_set_aside_even_when_sums_would_do(self):
        budget = Budget(epsilon=2.0, delta=1e-6, reserve=5e-7)
        assert exceeds(charges(0.1, 3e-7, 1), budget) is None
        assert "5e-07 is reserved" in exceeds(charges(0.1, 3e-7, 2), budget)

    def test_adaptive_histories_stay_within_the_budget(self):
        """All strategies of a small family: the next epsilon depends on what was seen so far.

        The adversary plays randomized response with epsilon from a menu, chosen by the sign of the
        loss so far, until the filter stops it. The exact delta at the budget is at most delta.
        """
        budget = Budget(epsilon=1.8, delta=0.05, reserve=0.049)
        menu = (6, 10)
        worst = max(
            strategy_delta(budget, dict(zip((-1, 0, 1), choice, strict=True)))
            for choice in product(menu, repeat=3)
        )
        assert worst <= budget.reserve
        assert worst > budget.reserve / 100, "some strategy goes well beyond the sum"

    def test_conversion_falls_with_the_order_for_tiny_delta(self):
        assert _conversion(2.0, 1e-6) > _conversion(50.0, 1e-6) > 0


def exact_delta(epsilon, times, at):
    """delta at `at` of `times` rounds of randomized response, by the binomial law of the loss."""
    ones = np.arange(times + 1)
    loss = epsilon * (2 * ones - times)
    p = 1 / (1 + math.exp(-epsilon))
    law = binom.pmf(ones, times, p)
    return float(np.maximum(0, law * (1 - np.exp(np.minimum(at - loss, 0)))).sum())


def strategy_delta(budget, menu):
    """The hockey-stick divergence at the budget's epsilon of everything that one strategy sees."""

    @cache
    def play(used, net):
        """From here on, per unit of probability; `net` is the loss so far, in units of UNIT."""
        units = menu[(net > 0) - (net < 0)]
        wanted = tuple(sorted((*used, units)))
        if exceeds([Charge(epsilon=UNIT * e, delta=0.0) for e in wanted], budget):
            return max(0.0, 1 - math.exp(budget.epsilon - UNIT * net))
        truth = 1 / (1 + math.exp(-UNIT * units))
        return truth * play(wanted, net + units) + (1 - truth) * play(wanted, net - units)

    return play((), 0)


class TestNeighbours:
    def test_add_remove_counts_as_two_steps(self):
        one = sdp.Guarantee(
            epsilon=0.5, delta=1e-8, model=sdp.Model.CENTRAL, proof="p",
            neighbours=sdp.Neighbours.ADD_REMOVE,
        )  # fmt: skip
        price = charge_of(one)
        assert price.epsilon == 1.0
        exact = 1e-8 * (1 + math.exp(0.5))
        assert exact <= price.delta <= exact * (1 + 1e-8)

    def test_delta_never_passes_one(self):
        one = sdp.Guarantee(
            epsilon=900.0, delta=0.1, model=sdp.Model.CENTRAL, proof="p",
            neighbours=sdp.Neighbours.ADD_REMOVE,
        )  # fmt: skip
        assert charge_of(one).delta == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0, "delta": 0.0}, "budget epsilon=0.0 must be > 0"),
        ({"epsilon": math.nan, "delta": 0.0}, "budget epsilon=nan must be finite"),
        ({"epsilon": 1.0, "delta": 1.0}, "budget delta=1.0 must be >= 0 and < 1"),
        ({"epsilon": 1.0, "delta": -0.1}, "budget delta=-0.1"),
        (
            {"epsilon": 1.0, "delta": 0.1, "reserve": 0.1},
            "reserve=0.1 must be >= 0 and < delta=0.1",
        ),
        ({"epsilon": 1.0, "delta": 0.1, "reserve": -0.1}, "reserve=-0.1"),
        ({"epsilon": 1.0, "delta": 0.1, "reserve": 0.05, "alpha": 1.0}, "alpha=1.0 must be > 1"),
    ],
)
def test_bad_budgets(arguments, message):
    with pytest.raises(sdp.ParameterError, match=message):
        Budget(**arguments)
