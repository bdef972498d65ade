"""One-sided noise: private in one direction only; and the noisy maximum, private in both."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from shuffledp import DataError, ParameterError, SeededWords
from shuffledp.mechanisms import exponential, permute_and_flip
from shuffledp.mechanisms.geometric import OneSided
from shuffledp.numerics.rounding import exp_lower, exp_upper
from support import ALPHA

F = Fraction


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1), (0.5, 3), (3.0, 2)])
class TestOneSided:
    def test_one_direction_is_pure_and_the_other_has_the_stated_delta(self, epsilon, sensitivity):
        noise, reach = OneSided(epsilon=epsilon, sensitivity=sensitivity), range(400)
        E = exp_upper(epsilon)
        for z in reach:  # the larger count against the smaller one
            assert noise.mass(z)[0] <= E * noise.mass(z + sensitivity)[1] * (1 + F(1, 10**40))
        delta = sum(max(F(0), noise.mass(z)[1] - E * noise.mass(z - sensitivity)[0]) for z in reach)
        assert delta <= F(noise.guarantee.delta)
        assert delta > F(noise.guarantee.delta) * (1 - F(1, 10**12))

    def test_a_tenth_less_epsilon_would_be_false(self, epsilon, sensitivity):
        noise = OneSided(epsilon=epsilon, sensitivity=sensitivity)
        assert noise.mass(0)[0] > exp_upper(0.9 * epsilon) * noise.mass(sensitivity)[1]

    def test_the_law_sums_to_one_and_is_drawn(self, epsilon, sensitivity):
        noise = OneSided(epsilon=epsilon, sensitivity=sensitivity, k=20_000)
        assert abs(1 - sum(noise.mass(z)[0] for z in range(2000))) < F(1, 10**30)
        drawn = noise.release(np.full(20_000, 7), SeededWords(5)) - 7
        assert drawn.min() == 0
        for z in (0, 1, 5):
            p, seen = float(noise.mass(z)[0]), int((drawn == z).sum())
            assert binom.cdf(seen, 20_000, p) > ALPHA
            assert binom.sf(seen - 1, 20_000, p) > ALPHA
            wrong = 0.8 * p
            if z == 0:
                assert binom.sf(seen - 1, 20_000, wrong) < ALPHA

    def test_accuracy_is_the_smallest(self, epsilon, sensitivity):
        noise = OneSided(epsilon=epsilon, sensitivity=sensitivity, k=4)
        for beta in (0.5, 0.05, 1e-9):
            alpha = int(noise.accuracy(beta))
            rate = F(epsilon) / sensitivity
            assert 4 * exp_upper(-(alpha + 1) * rate) <= F(beta)
            assert alpha == 0 or 4 * exp_lower(-alpha * rate) > F(beta)


def test_bad_arguments():
    with pytest.raises(ParameterError, match="epsilon"):
        OneSided(epsilon=0.0, sensitivity=1)
    with pytest.raises(ParameterError, match="sensitivity"):
        OneSided(epsilon=1.0, sensitivity=0)
    with pytest.raises(DataError):
        OneSided(epsilon=1.0, sensitivity=1).release(1.5, SeededWords(1))


def law(flips):
    """The exact law of permute and flip, by enumeration of all orders."""
    k = len(flips)
    found = [F(0)] * k
    orders = list(itertools.permutations(range(k)))
    for order in orders:
        left = F(1, len(orders))
        for r in order:
            found[r] += left * flips[r]
            left *= 1 - flips[r]
    return found


def flips_of(mechanism, utilities):
    """e^-x as fractions, off by less than 10^-48."""
    return [exp_lower(-x) for x in mechanism.choice(utilities).exponents]


UTILITIES = [(3, 1, 2), (0, 0, 0), (5, 0, 4), (10, 9, 9), (1, 0), (7, 6, 5, 4)]


@pytest.mark.parametrize("utilities", UTILITIES)
def test_the_stated_probabilities_are_those_of_all_orders(utilities):
    mechanism = permute_and_flip.make(epsilon=0.9, sensitivity=1.0, k=len(utilities))
    exact = law(flips_of(mechanism, utilities))
    assert abs(sum(exact) - 1) < F(1, 10**40)
    np.testing.assert_allclose(
        mechanism.probabilities(utilities), [float(q) for q in exact], rtol=1e-13
    )


def test_ratio_between_all_neighbours():
    mechanism = permute_and_flip.make(epsilon=0.8, sensitivity=1.0, k=3)
    limit, largest = exp_upper(0.8) * (1 + F(1, 10**40)), F(0)
    for base in UTILITIES[:4]:
        before = law(flips_of(mechanism, base))
        for moves in itertools.product((-1, 0, 1), repeat=3):
            after = law(flips_of(mechanism, [u + m for u, m in zip(base, moves, strict=True)]))
            largest = max(largest, *(a / b for a, b in zip(before, after, strict=True)))
    assert exp_lower(0.7) < largest <= limit


def test_noise_of_half_the_scale_breaks_the_ratio():
    mechanism = permute_and_flip.make(epsilon=1.6, sensitivity=1.0, k=3)
    before, after = (law(flips_of(mechanism, u)) for u in ((5, 0, 4), (4, 1, 3)))
    assert max(b / a for a, b in zip(before, after, strict=True)) > exp_upper(0.8)


def test_it_is_the_maximum_with_exponential_noise():
    """Pr[r wins] = int prod_(s != r) F(z + u_r - u_s) f(z) dz, on a fine grid."""
    utilities, rate = np.array([3.0, 1.0, 2.0]), 0.45
    mechanism = permute_and_flip.make(epsilon=2 * rate, sensitivity=1.0, k=3)
    z = (np.arange(400_000) + 0.5) * 1e-4
    for r, wanted in enumerate(mechanism.probabilities([3, 1, 2])):
        below = [
            -np.expm1(-np.maximum(z + rate * (utilities[r] - u), 0))
            for u in np.delete(utilities, r)
        ]
        assert (np.prod(below, axis=0) * np.exp(-z) * 1e-4).sum() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("utilities", UTILITIES)
def test_never_worse_than_the_exponential_mechanism(utilities):
    k = len(utilities)
    for epsilon in (0.1, 1.0, 4.0):
        first = permute_and_flip.make(epsilon=epsilon, sensitivity=1.0, k=k).probabilities(
            utilities
        )
        second = exponential.make(epsilon=epsilon, sensitivity=1.0, k=k).probabilities(utilities)
        assert first @ np.array(utilities) >= second @ np.array(utilities) - 1e-12


def test_draws_have_the_stated_law():
    mechanism, rng, runs = (
        permute_and_flip.make(epsilon=1.0, sensitivity=1.0, k=3),
        SeededWords(9),
        3000,
    )
    drawn = np.bincount([mechanism.select([2, 0, 1], rng).index for _ in range(runs)], minlength=3)
    stated = mechanism.probabilities([2, 0, 1])
    for seen, p in zip(drawn.tolist(), stated.tolist(), strict=True):
        assert binom.cdf(seen, runs, p) > ALPHA
        assert binom.sf(seen - 1, runs, p) > ALPHA
    mutant = exponential.make(epsilon=1.0, sensitivity=1.0, k=3).probabilities([2, 0, 1])
    assert binom.sf(int(drawn[0]) - 1, runs, mutant[0]) < ALPHA


def test_many_candidates():
    mechanism = permute_and_flip.make(epsilon=1.0, sensitivity=1.0, k=5000)
    p = mechanism.probabilities(np.arange(5000) % 50)
    assert p.sum() == pytest.approx(1, rel=1e-9)
    assert 0.5 * 5000 / 50 * p[49] < p[49::50].sum() <= 1
    assert math.isfinite(mechanism.accuracy(1e-6))
