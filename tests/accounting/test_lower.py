"""Lower bounds: the exact loss on explicit data sets, never more than it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.accounting import blanket as blankets
from shuffledp.accounting.blanket import generic_data_sets, randomizer_data_sets
from shuffledp.core.errors import UnsupportedError
from shuffledp.numerics.rounding import exp_upper
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.rr import RR


def binary_equal_delta(epsilon0, epsilon, n):
    """The divergence of shuffled binary response, all others hold 0: a sum over the number of ones."""
    b = 1 / (1 + math.exp(epsilon0))
    others = stats.binom(n - 1, b)
    total = 0.0
    for ones in range(n + 1):
        first = (1 - b) * others.pmf(ones) + b * others.pmf(ones - 1)
        second = b * others.pmf(ones) + (1 - b) * others.pmf(ones - 1)
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


def multinomial_delta(laws, epsilon, others):
    """The exact divergence when `others` users hold x = 2 of 3-ary response, over all counts."""
    a, b, w = laws
    total = 0.0
    law = stats.multinomial(others, w)
    for first in range(others + 2):
        for second in range(others + 2 - first):
            counts = (first, second, others + 1 - first - second)
            rest = [
                law.pmf([c - (i == j) for i, c in enumerate(counts)]) if counts[j] else 0.0
                for j in range(3)
            ]
            here = sum(x * y for x, y in zip(a, rest, strict=True))
            there = sum(x * y for x, y in zip(b, rest, strict=True))
            total += max(0.0, here - math.exp(epsilon) * there)
    return total


@pytest.mark.parametrize("n", [1, 2, 7, 60])
@pytest.mark.parametrize("epsilon0", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.7])
def test_binary_response_is_the_exact_sum(n, epsilon0, share):
    epsilon = share * epsilon0
    rr = RR(epsilon0=epsilon0)
    exact = binary_equal_delta(epsilon0, epsilon, n)
    found = randomizer_data_sets(rr, n).delta(epsilon)
    assert exact * (1 - 1e-5) <= found  # it may be larger: also the data set of ones is tried
    assert found <= max(
        exact, binary_equal_delta(epsilon0, epsilon, n), mirrored(epsilon0, epsilon, n)
    ) * (1 + 1e-9)


def mirrored(epsilon0, epsilon, n):
    """The other direction: targets swapped, all others hold 0."""
    b = 1 / (1 + math.exp(epsilon0))
    others = stats.binom(n - 1, b)
    total = 0.0
    for ones in range(n + 1):
        first = b * others.pmf(ones) + (1 - b) * others.pmf(ones - 1)
        second = (1 - b) * others.pmf(ones) + b * others.pmf(ones - 1)
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


@pytest.mark.parametrize("n", [2, 12, 40])
def test_ternary_response_is_below_the_exact_sum(n):
    """Merging the third atom into its mean loses a little; without a third atom nothing is lost."""
    p = math.exp(1.0)
    w = (1 / (p + 2), 1 / (p + 2), p / (p + 2))
    laws = ((w[2], w[0], w[0]), (w[0], w[2], w[0]), w)
    for epsilon in (0.1, 0.4):
        exact = multinomial_delta(laws, epsilon, n - 1)
        found = generic_data_sets(epsilon0=1.0, n=n).delta(epsilon)
        binary = max(binary_equal_delta(1.0, epsilon, n), mirrored(1.0, epsilon, n))
        assert found <= max(exact, binary) * (1 + 1e-9)
        assert found >= 0.9 * exact


@pytest.mark.parametrize(
    ("n", "epsilon0", "epsilon"),
    [
        (1_000, 0.5, 0.05685),
        (1_000, 1.0, 0.13057),
        (1_000, 4.0, 1.7969),
        (10_000, 1.0, 0.03800),
        (100_000, 2.0, 0.03123),
        (10**6, 1.0, 0.003079),
        (10**7, 1.0, 0.000845),
    ],
)
def test_reference_values(n, epsilon0, epsilon):
    found = sdp.amplify_lower(epsilon0=epsilon0, n=n, delta=1e-6, honest=1)
    assert found == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-15])
@pytest.mark.parametrize("n", [10, 10**4, 10**8, 10**12])
def test_the_epsilon_is_not_above_the_curve(n, delta):
    sets = generic_data_sets(epsilon0=1.0, n=n)
    epsilon = sets.epsilon(delta)
    assert 0 <= epsilon < 1.0
    assert epsilon == 0 or sets.delta(epsilon) >= delta


def test_nothing_is_certain_at_a_large_delta():
    assert generic_data_sets(epsilon0=0.1, n=10**6).epsilon(0.5) == 0


def test_long_laws_are_listed_quickly_and_too_long_ones_are_refused():
    unary = sdp.protocols.spec("optimized_unary").make_local(k=10, epsilon=1.0).randomizer
    assert 0 < randomizer_data_sets(unary, 1_000).epsilon(1e-6) < 1
    for name in ("optimized_unary", "subset_selection", "local_hashing"):
        long = sdp.protocols.spec(name).make_local(k=64, epsilon=1.0).randomizer
        with pytest.raises(UnsupportedError, match="law"):
            sdp.amplify_lower(randomizer=long, n=1_000, delta=1e-6, honest=1)


def test_laws_that_share_nothing_give_no_lower_bound():
    class Telling:
        """Sends one of two private outputs: no other user ever sends them."""

        epsilon0 = 1.0
        domain = KRR(k=2, epsilon0=1.0).domain

        def pmf(self, x):
            return {(x,): Fraction(1)}

    with pytest.raises(UnsupportedError, match="no data set"):
        randomizer_data_sets(Telling(), 10)


@pytest.mark.parametrize("epsilon0", [60.0, 120.0, 500.0, 700.0])
@pytest.mark.parametrize("n", [10, 1_000_000])
def test_absurd_epsilons_are_no_overflow(epsilon0, n):
    found = sdp.amplify_lower(epsilon0=epsilon0, n=n, delta=1e-8, honest=1)
    assert 0 < found <= sdp.amplify(epsilon0=epsilon0, n=n, delta=1e-8, honest=1).epsilon


@pytest.mark.parametrize("n", [10**5, 10**6, 10**7, 10**9])
@pytest.mark.parametrize("epsilon0", [0.1, 0.25])
def test_nearly_touches_the_upper_bound_for_small_epsilon0(epsilon0, n):
    """Where exact sums hand over to the normal law, too."""
    upper = sdp.amplify(epsilon0=epsilon0, n=n, delta=1e-6, honest=1).epsilon
    found = sdp.amplify_lower(epsilon0=epsilon0, n=n, delta=1e-6, honest=1)
    assert 0.85 * upper < found <= upper


def exact_two_values(n, share, heads, high, low, rest):
    """(1/n) E[(high N + low (C - N) + rest (n - C))_+] for a law of floats, as a Fraction."""
    share, heads, high, low, rest = map(Fraction, (share, heads, high, low, rest))
    best, worst = share * heads, share * (1 - heads)
    total = Fraction(0)
    for i in range(n + 1):
        for j in range(n - i + 1):
            ways = math.comb(n, i) * math.comb(n - i, j)
            mass = best**i * worst**j * (1 - share) ** (n - i - j)
            total += ways * mass * max(0, high * i + low * j + rest * (n - i - j))
    return total / n


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_sums_of_two_values_are_never_above_the_truth(n):
    random = np.random.default_rng(n)
    for _ in range(30):
        share, heads = (float(x) for x in random.uniform(0.05, 0.95, 2))
        high, low = float(random.uniform(0.1, 3)), -float(random.uniform(0.1, 3))
        rest = float(random.uniform(low, high / 2))
        for part in (share, 1.0):
            truth = exact_two_values(n, part, heads, high, low, rest)
            found = Fraction(blankets._sum_two_values(n, part, heads, high, low, rest))
            assert truth * (1 - Fraction(1, 10**9)) <= found <= truth


@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.1, 0.4])
@pytest.mark.parametrize("n", [2, 30, 400])
def test_binary_response_is_never_above_the_truth(n, epsilon):
    """All others hold 0 or 1, exactly: the law of the randomizer itself, in fractions."""
    rr = RR(epsilon0=1.0, word_bits=16)
    E = exp_upper(epsilon)
    f = rr.flip
    others = [math.comb(n - 1, i) * f**i * (1 - f) ** (n - 1 - i) for i in range(n)]
    here, there = [Fraction(0)] * (n + 1), [Fraction(0)] * (n + 1)
    for i, mass in enumerate(others):
        for law, one in ((here, f), (there, 1 - f)):
            law[i] += mass * (1 - one)
            law[i + 1] += mass * one
    truth = max(
        sum(max(0, a - E * b) for a, b in zip(x, y, strict=True))
        for x, y in ((here, there), (there, here))
    )
    found = Fraction(randomizer_data_sets(rr, n).delta(epsilon))
    assert truth * (1 - Fraction(1, 10**8)) <= found <= truth


def test_the_normal_law_is_below_the_enumeration():
    """Large n by normal laws, against the same by binomial sums."""
    sets = generic_data_sets(epsilon0=1.0, n=100_000)
    for epsilon in (0.0, 0.005, 0.01):
        for blanket in sets.blankets:
            gains = blanket.gains(epsilon) - blanket.bound_rounding(epsilon)
            normal = blankets._bound_by_normal(np.array(blanket.mass), gains, sets.n)
            assert normal <= blankets._delta_lower(blanket, epsilon, sets.n) * 1.2


@pytest.mark.parametrize("heads", [0.03, 0.5, 0.77])
def test_expected_excess_is_close_and_never_above_the_truth(heads):
    thresholds = np.linspace(-1, 13, 57)
    found = blankets._bound_excess(thresholds, np.full(57, 12.0), heads)
    p = Fraction(heads)
    masses = [math.comb(12, k) * p**k * (1 - p) ** (12 - k) for k in range(13)]
    for t, bound in zip(thresholds.tolist(), found.tolist(), strict=True):
        true = sum(mass * max(k - Fraction(t), 0) for k, mass in enumerate(masses))
        assert true * (1 - Fraction(1, 10**10)) <= Fraction(bound) <= true


def test_expected_excess_far_below_the_mean_where_masses_vanish():
    (found,) = blankets._bound_excess(np.array([1e3]), np.array([1e6]), 0.5)
    assert 499_000 * (1 - 1e-12) < found <= 499_000


@pytest.mark.parametrize(
    ("epsilon0", "share"), [(40.0, 0.95), (50.0, 0.9), (80.0, 0.9), (150.0, 0.5), (200.0, 0.98)]
)
def test_no_bound_where_the_deviation_is_lost_in_rounding(epsilon0, share):
    """The message is a lie or that of one of the others with probability n / (p + 1): then nothing is told for sure."""
    n, epsilon = 10**6, share * epsilon0
    alone = (math.exp(epsilon0) - math.exp(epsilon)) / (math.exp(epsilon0) + 1)
    assert generic_data_sets(epsilon0=epsilon0, n=n).delta(epsilon) <= alone


def test_no_bound_above_what_is_proved():
    asked = {"epsilon0": 200.0, "n": 10**6, "delta": 0.999, "honest": 1.0}
    assert sdp.amplify_lower(**asked) <= sdp.amplify(**asked).epsilon
