"""Smooth laws: the definition by hand, Lemma 2 for any law, Lemma 3 for binomials."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp import ParameterError
from shuffledp.accounting.noisy_count import binomial_smoothness, smoothness


def binomial(n, gamma):
    return {y: Fraction(math.comb(n, y)) * gamma**y * (1 - gamma) ** (n - y) for y in range(n + 1)}


def divergence(law, epsilon, step):
    """The exact delta of adding a number of that law to two answers that differ by `step`."""
    E = Fraction(math.exp(epsilon))
    places = set(law) | {y + step for y in law}
    return sum(max(Fraction(0), law.get(y, 0) - E * law.get(y - step, 0)) for y in places)


LAWS = st.dictionaries(st.integers(-6, 6), st.integers(1, 40), min_size=1, max_size=10)


@given(LAWS, st.floats(0.01, 3.0), st.integers(1, 3))
def test_lemma_2_for_any_law(weights, epsilon, size):
    """What is smooth is private, with exactly these parameters."""
    total = sum(weights.values())
    law = {y: Fraction(weight, total) for y, weight in weights.items()}
    delta = smoothness(law, epsilon, size)
    for step in range(1, size + 1):
        for sign in (1, -1):
            assert divergence(law, step * epsilon, sign * step) <= Fraction(delta) + Fraction(
                1, 10**12
            )


def test_it_asks_more_than_privacy():
    law = binomial(100, Fraction(3, 10))
    exact = max(divergence(law, 0.5, step) for step in (1, -1))
    assert 0 < float(exact) < smoothness(law, 0.5) / 5


@pytest.mark.parametrize("n", [40, 200])
@pytest.mark.parametrize("gamma", [Fraction(1, 10), Fraction(1, 2)])
@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.95])
def test_lemma_3(n, gamma, alpha):
    """The exact smoothness of a binomial, at every shift that the lemma allows, is at most the lemma's delta."""
    epsilon, delta, shift = binomial_smoothness(n=n, gamma=float(gamma), alpha=alpha)
    if shift >= 1:
        assert smoothness(binomial(n, gamma), epsilon, shift) <= delta


def test_lemma_3_needs_its_range_of_shifts():
    """Far beyond it the same epsilon and delta do not hold."""
    n, gamma, alpha = 2000, Fraction(1, 2), 0.3
    epsilon, delta, shift = binomial_smoothness(n=n, gamma=0.5, alpha=alpha)
    law = binomial(n, gamma)
    assert smoothness(law, epsilon, 1) <= delta < 1e-4
    far = 4 * shift
    broken = sum(
        mass
        for y, mass in law.items()
        if mass >= Fraction(math.exp(far * epsilon)) * law.get(y + far, 0)
    )
    assert broken > delta


def test_by_hand():
    """Ratios of Bin(4, 1/2) to the right: 1/4, 2/3, 3/2, 4, infinite."""
    law = binomial(4, Fraction(1, 2))
    assert smoothness(law, math.log(5)) == 1 / 16
    assert smoothness(law, math.log(3.9)) == 5 / 16
    assert smoothness(law, math.log(1.4)) == 11 / 16
    assert smoothness({3: 1}, 5.0) == 1.0


def test_missing_mass_is_added():
    law = dict.fromkeys((0, 1), (1 - 1e-10) / 2)
    assert smoothness(law, 10.0) > (1 - 1e-10) / 2


@pytest.mark.parametrize(
    ("law", "epsilon", "shift", "message"),
    [
        ({0: 0.5}, 1.0, 1, "sum to 1"),
        ({0: 1.5, 1: -0.5}, 1.0, 1, "negative"),
        ({0: 1.0}, -1.0, 1, "epsilon=-1.0"),
        ({0: 1.0}, 1.0, 0, "shift=0"),
        ({0.5: 1.0}, 1.0, 1, "law=0.5"),
    ],
)
def test_bad_input(law, epsilon, shift, message):
    with pytest.raises(ParameterError, match=message):
        smoothness(law, epsilon, shift)


@pytest.mark.parametrize("changed", [{"gamma": 0.6}, {"alpha": 1.0}, {"n": 0}])
def test_outside_the_lemma(changed):
    with pytest.raises(ParameterError, match=next(iter(changed))):
        binomial_smoothness(**{"n": 10, "gamma": 0.1, "alpha": 0.5, **changed})


def test_laws_that_miss_more_than_rounding_are_refused():
    for missing, fine in (
        (Fraction(1, 10**9), True),
        (Fraction(2, 10**9), False),
        (Fraction(-2, 10**9), False),
    ):
        law = {0: Fraction(1, 2), 1: Fraction(1, 2) - missing}
        if fine:
            assert smoothness(law, 1.0) >= missing
        else:
            with pytest.raises(ParameterError, match="sum to 1"):
                smoothness(law, 1.0)
