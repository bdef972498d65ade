"""How releases add up: exact sums, the Renyi filter, and both against the exact composition."""

import dataclasses
import math
from fractions import Fraction
from functools import cache
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import shuffledp as sdp
from shuffledp.ledger.budget import (
    Budget,
    Charge,
    _bound_divergence,
    _compose_renyi,
    _convert,
    add_up,
    find_excess,
    price,
)

UNIT = 0.05
EPSILONS = (
    1e-30,
    3.1415926535897932e-35,
    1.7724538509055159e-36,
    1e-9,
    1e-6,
    0.001,
    0.01,
    0.037,
    0.3,
    0.77,
    1.0,
    2.5,
    4.0,
    30.0,
)
ALPHAS = (1 + 2.0**-40, 1.1, 1.5, 2.0, 2.25, 5.7, 13.6, 48.9, 300.0, 9999.5)


def charges(epsilon, delta, times):
    return [Charge(epsilon=epsilon, delta=delta)] * times


class TestSums:
    def test_ten_tenths_are_one(self):
        budget = Budget(epsilon=1.0, delta=1e-7)
        assert find_excess(charges(0.1, 1e-8, 10), budget) is None
        assert "epsilon would be 1.1" in find_excess(charges(0.1, 1e-9, 11), budget)
        assert "delta would be 1.1e-07" in find_excess(charges(0.01, 1e-8, 11), budget)

    def test_the_smallest_excess_is_noticed(self):
        budget = Budget(epsilon=1.0, delta=0.0)
        over = [*charges(0.5, 0.0, 1), Charge(epsilon=math.nextafter(0.5, 1), delta=0.0)]
        assert find_excess(over, budget)
        assert find_excess([*charges(1.0, 0.0, 1), Charge(epsilon=1e-300, delta=0.0)], budget)
        assert find_excess(charges(0.1, 1e-300, 1), budget)

    @given(st.lists(st.floats(1e-6, 3.0), min_size=1, max_size=20))
    def test_reported_sum_is_never_too_small(self, epsilons):
        total = add_up(
            [Charge(epsilon=e, delta=0.0) for e in epsilons], Budget(epsilon=1.0, delta=0.0)
        )
        assert Fraction(repr(total.epsilon)) >= sum(Fraction(repr(e)) for e in epsilons)
        assert total.epsilon <= math.fsum(epsilons) * (1 + 1e-15)

    def test_reported_delta_is_never_too_small(self):
        """Sums whose nearest float is below them, with and without the reserve."""
        for delta, times in product(
            (1.2345678901234567e-8, 3.3e-7, 7.7777777777777778e-17), (3, 7, 11, 13)
        ):
            found = add_up(charges(0.01, delta, times), Budget(epsilon=1.0, delta=0.5))
            exact = times * Fraction(repr(delta))
            assert exact <= Fraction(repr(found.delta)) <= exact * (1 + Fraction(4, 10**16))
        for reserve in (1.0000000000000001e-7, 2.3456789012345678e-9, 7.7e-8):
            budget = Budget(epsilon=50.0, delta=0.5, reserve=reserve)
            found = add_up(charges(0.01, 3.1234567890123457e-10, 3000), budget)
            exact = 3000 * Fraction(repr(3.1234567890123457e-10)) + Fraction(repr(reserve))
            assert found.rule == "renyi"
            assert exact <= Fraction(repr(found.delta)) <= exact * (1 + Fraction(4, 10**16))

    def test_a_sum_beyond_every_float(self):
        many = charges(1e308, 0.0, 3)
        assert add_up(many, Budget(epsilon=1.0, delta=0.0)).epsilon == math.inf
        assert "epsilon would be inf" in find_excess(many, Budget(epsilon=1.0, delta=0.0))

    def test_nothing_spent(self):
        total = add_up([], Budget(epsilon=1.0, delta=1e-6, reserve=1e-7))
        assert (total.epsilon, total.delta, total.rule) == (0.0, 0.0, "sums")


class TestRenyi:
    def test_divergence_of_randomized_response(self):
        """Against the definition, in 250 digits: never below it, and above it by nothing that matters."""
        for epsilon, alpha in product(EPSILONS, ALPHAS):
            bound, exact = (
                Fraction(_bound_divergence(epsilon, alpha)),
                exact_divergence(epsilon, alpha),
            )
            assert exact <= bound <= exact + Fraction(1, 10**45) / Fraction(alpha - 1), (
                epsilon,
                alpha,
            )

    def test_conversion(self):
        """Canonne, Kamath, Steinke 2020, Proposition 12, in 250 digits."""
        for delta, alpha in product((1e-300, 3e-17, 1e-6, 0.0123, 0.7, 0.1, 1e-9), ALPHAS):
            bound, exact = Fraction(_convert(alpha, delta)), exact_conversion(alpha, delta)
            assert exact <= bound <= exact + Fraction(1, 10**45) / Fraction(alpha - 1), (
                delta,
                alpha,
            )

    @pytest.mark.parametrize("alpha", [1.5, 2.25, 13.6, 300.0])
    def test_reported_epsilon_is_never_too_small(self, alpha):
        """As people read it, it is at least the sum of divergences and conversion, and hardly more."""
        for reserve in (1e-9, 2.5e-7, 3e-6):
            budget = Budget(epsilon=2.0, delta=1e-5, reserve=reserve, alpha=alpha)
            for epsilon, times in ((0.011, 900), (0.037, 77), (0.3, 5)):
                found = Fraction(repr(_compose_renyi(charges(epsilon, 0.0, times), budget)))
                exact = times * exact_divergence(epsilon, alpha) + exact_conversion(alpha, reserve)
                assert exact <= found <= exact * (1 + Fraction(1, 10**15))

    @pytest.mark.parametrize(
        ("epsilon", "times"), [(0.01, 1000), (0.05, 200), (0.3, 40), (1.0, 30)]
    )
    def test_is_an_upper_bound_of_the_exact_composition(self, epsilon, times):
        """k rounds of randomized response: delta at the reported epsilon is below the reserve."""
        budget = Budget(epsilon=5 * epsilon * math.sqrt(times), delta=1e-5, reserve=1e-6)
        found = add_up(charges(epsilon, 0.0, times), budget)
        assert exact_delta(epsilon, times, found.epsilon) <= budget.reserve
        # A bound half as large would be wrong: the test can fail.
        assert exact_delta(epsilon, times, found.epsilon / 2) > budget.reserve

    def test_wins_for_many_small_releases_and_pays_with_delta(self):
        budget = Budget(epsilon=2.0, delta=1e-6, reserve=5e-7)
        small = charges(0.01, 1e-10, 1000)
        found = add_up(small, budget)
        assert found.rule == "renyi"
        assert found.epsilon < 1.8
        assert found.delta == pytest.approx(6e-7)
        assert find_excess(small, budget) is None
        assert find_excess(small, Budget(epsilon=2.0, delta=1e-6)), "not without a reserve"

    def test_reserve_is_set_aside_even_when_sums_would_do(self):
        budget = Budget(epsilon=2.0, delta=1e-6, reserve=5e-7)
        assert find_excess(charges(0.1, 3e-7, 1), budget) is None
        assert "5e-07 is reserved" in find_excess(charges(0.1, 3e-7, 2), budget)

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
        assert _convert(2.0, 1e-6) > _convert(50.0, 1e-6) > 0


def precise(value):
    return mpmath.mpf(repr(value))


def exact_divergence(epsilon, alpha):
    """The divergence of order alpha of randomized response, by its definition."""
    with mpmath.workdps(250):
        e, a = precise(epsilon), mpmath.mpf(alpha)
        p = 1 / (1 + mpmath.exp(-e))
        q = mpmath.exp(-e) / (1 + mpmath.exp(-e))
        return fraction(mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1))


def exact_conversion(alpha, delta):
    with mpmath.workdps(250):
        a = mpmath.mpf(alpha)
        log = mpmath.log(1 / (precise(delta) * a)) / (a - 1)
        return fraction(log + mpmath.log(1 - 1 / a))


def fraction(value):
    """An mpf, exactly."""
    sign, mantissa, exponent, _ = value._mpf_
    return (-1) ** sign * Fraction(int(mantissa)) * Fraction(2) ** exponent


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
        if find_excess([Charge(epsilon=UNIT * e, delta=0.0) for e in wanted], budget):
            return max(0.0, 1 - math.exp(budget.epsilon - UNIT * net))
        truth = 1 / (1 + math.exp(-UNIT * units))
        return truth * play(wanted, net + units) + (1 - truth) * play(wanted, net - units)

    return play((), 0)


def add_remove(epsilon, delta):
    return sdp.Guarantee(
        epsilon=epsilon,
        delta=delta,
        model=sdp.Model.CENTRAL,
        proof="p",
        neighbours=sdp.Neighbours.ADD_REMOVE,
    )


class TestNeighbours:
    @pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.1, 0.5, 0.7, 1.3, 9.9])
    @pytest.mark.parametrize("delta", [1e-300, 3e-17, 1e-8, 0.00123])
    def test_add_remove_counts_as_two_steps(self, epsilon, delta):
        """(2 epsilon, (1 + e^epsilon) delta), as people read them: never less, and hardly more."""
        paid = price(add_remove(epsilon, delta))
        assert Fraction(repr(paid.epsilon)) == 2 * Fraction(repr(epsilon))
        with mpmath.workdps(60):
            factor = fraction(1 + mpmath.exp(mpmath.mpf(epsilon)))
        exact = min(Fraction(1), Fraction(repr(delta)) * factor)
        # The factor itself is known to 60 digits.
        assert exact * (1 - Fraction(1, 10**50)) <= Fraction(repr(paid.delta))
        assert Fraction(repr(paid.delta)) <= exact * (1 + Fraction(4, 10**16))

    @pytest.mark.parametrize("epsilon", [600.0, 760.0, 900.0, 30_000.0, 1e300])
    def test_delta_never_passes_one(self, epsilon):
        assert price(add_remove(epsilon, 0.1)).delta == 1.0
        assert price(add_remove(epsilon, 0.0)).delta == 0.0
        assert price(add_remove(900.0, 5e-324)).delta == 1.0
        assert price(add_remove(600.0, 5e-324)).delta < 1e-50

    def test_twice_the_largest_epsilon_is_refused(self):
        with pytest.raises(sdp.ParameterError, match="too large to be charged"):
            price(add_remove(1.7e308, 0.0))


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
        (
            {"epsilon": 1.0, "delta": 0.1, "reserve": 0.05, "alpha": 1e7},
            "must be > 1 and <= 1,000,000",
        ),
    ],
)
def test_bad_budgets(arguments, message):
    with pytest.raises(sdp.ParameterError, match=message):
        Budget(**arguments)


def refuse_budget(match, **fields):
    with pytest.raises(sdp.ParameterError) as caught:
        Budget(**{"epsilon": 1.0, "delta": 1e-6} | fields)
    assert str(caught.value) == match


def test_budgets_end_where_their_errors_say():
    """The last value that is taken, and the first one that is not."""
    assert Budget(epsilon=5e-324, delta=0.0).epsilon == 5e-324
    refuse_budget("budget epsilon=0.0 must be > 0", epsilon=0.0)
    assert Budget(epsilon=1.0, delta=math.nextafter(1.0, 0)).delta < 1
    refuse_budget("budget delta=1.0 must be >= 0 and < 1", delta=1.0)
    refuse_budget("budget delta=-1e-09 must be >= 0 and < 1", delta=-1e-9)
    assert Budget(epsilon=1.0, delta=1e-6, reserve=9e-7).reserve == 9e-7
    assert Budget(epsilon=1.0, delta=1e-6, reserve=0.0, alpha=7.0).alpha is None
    for reserve in (1e-6, 2e-6, -1e-9):
        refuse_budget(f"reserve={reserve} must be >= 0 and < delta=1e-06", reserve=reserve)
    for alpha in (1 + 2.0**-40, 1_000_000.0):
        assert Budget(epsilon=1.0, delta=1e-6, reserve=5e-7, alpha=alpha).alpha == alpha
    for alpha in (1.0, 1_000_001.0):
        said = f"alpha={alpha} must be > 1 and <= 1,000,000"
        refuse_budget(said, reserve=5e-7, alpha=alpha)


def test_no_budget_has_a_delta_of_1():
    most = math.nextafter(1.0, 0.0)
    assert Budget.for_releases(10, epsilon=0.1, delta=0.1).delta == most
    assert Budget.for_releases(10, epsilon=0.1, delta=0.05) == Budget(epsilon=1.0, delta=0.5)
    assert Budget.for_releases(3, epsilon=0.1, delta=0.0) == Budget(epsilon=0.3, delta=0.0)


def test_the_divergence_of_hardly_anything_is_half_of_alpha_times_its_square():
    """Where the exact one has lost its digits; it is rounded up."""
    for epsilon, alpha in ((1e-35, 3.0), (4e-40, 1.5), (1e-100, 2.0)):
        wanted = Fraction(alpha) * Fraction(repr(epsilon)) ** 2 / 2
        found = Fraction(_bound_divergence(epsilon, alpha))
        assert wanted <= found <= wanted * (1 + Fraction(1, 10**50))


@pytest.mark.parametrize(
    ("epsilon", "delta", "charged"),
    [
        (0.5, 0.0, (1.0, 0.0)),
        (750.0, 1e-320, (1500.0, 1.0)),
        (math.nextafter(750.0, 800.0), 5e-324, (1500.0000000000002, 1.0)),
        (0.0, 0.25, (0.0, 0.5)),
        (0.0, 0.5, (0.0, 1.0)),
        (8e307, 0.0, (1.6e308, 0.0)),
    ],
)
def test_add_and_remove_are_charged_as_two_steps(epsilon, delta, charged):
    alone = sdp.Guarantee(
        epsilon=epsilon,
        delta=delta,
        model=sdp.Model.CENTRAL,
        proof="some mechanism",
        neighbours=sdp.Neighbours.ADD_REMOVE,
    )
    found = price(alone)
    assert (found.epsilon, found.delta) == charged
    replaced = dataclasses.replace(alone, neighbours=sdp.Neighbours.REPLACE_ONE)
    assert price(replaced) == Charge(epsilon=epsilon, delta=delta)


def test_a_charge_beyond_every_float_is_refused():
    alone = sdp.Guarantee(
        epsilon=9e307,
        delta=0.0,
        model=sdp.Model.CENTRAL,
        proof="some mechanism",
        neighbours=sdp.Neighbours.ADD_REMOVE,
    )
    with pytest.raises(sdp.ParameterError, match=r"^epsilon=9e\+307 is too large to be charged$"):
        price(alone)
