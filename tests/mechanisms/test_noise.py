"""Geometric and Laplace mechanisms: closed forms, the grid, and what the sampler releases."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from shuffledp import DataError, ParameterError, SeededWords
from shuffledp.mechanisms import geometric, laplace
from shuffledp.numerics.intervals import DiscreteLaplace
from support import ALPHA


def test_closed_forms():
    for epsilon in (0.1, 1.0, 3.0):
        a = mpmath.exp(-epsilon)
        mechanism = geometric.make(epsilon=epsilon, sensitivity=1)
        assert mechanism.variance() == pytest.approx(float(2 * a / (1 - a) ** 2), rel=1e-14)
        for t in (0, 1, 7, 50):
            low, high = mechanism.noise.tail(t)
            assert float(high) == pytest.approx(float(2 * a ** (t + 1) / (1 + a)), rel=1e-14)
            assert low <= high


@settings(max_examples=100, deadline=None)
@given(
    rate=st.floats(1e-12, 50),
    beta=st.floats(1e-200, 0.999),
    draws=st.integers(1, 10**6),
)
def test_radius_is_the_smallest(rate, beta, draws):
    noise = DiscreteLaplace(rate=Fraction(rate))
    t = noise.radius(Fraction(beta), draws)
    assert draws * noise.tail(t, 60)[1] <= Fraction(beta)
    if t > 0:
        assert draws * noise.tail(t - 1, 60)[0] > Fraction(beta)


def test_small_rates_do_not_lose_the_variance():
    assert DiscreteLaplace(rate=Fraction(1e-12)).variance == pytest.approx(2e24, rel=1e-12)
    assert DiscreteLaplace(rate=Fraction(3000)).variance == 0.0


def test_sensitivity_scales_the_noise():
    assert geometric.make(epsilon=3.0, sensitivity=3).noise.rate == 1
    assert geometric.make(epsilon=0.1, sensitivity=1).noise.rate == Fraction(0.1)


def test_accuracy_over_many_coordinates():
    one, many = (geometric.make(epsilon=0.5, sensitivity=2, k=k) for k in (1, 1000))
    gap = many.accuracy(0.05) - one.accuracy(0.05)
    assert gap == pytest.approx(math.log(1000) / 0.25, abs=1.01)


def test_textbook_bound_and_the_sampled_law_agree():
    """Pr[max |Y| >= bound] = 1 - (1 - beta/k)^k for continuous noise; 0.0489 at k=10, beta=0.05."""
    mechanism = laplace.make(epsilon=2.0, sensitivity=3.0, k=10)
    bound = 1.5 * math.log(200)  # ln(k / beta) sensitivity / epsilon
    assert mechanism.accuracy(0.05) == pytest.approx(bound, rel=3e-6)
    tail = float(mechanism.noise.tail(int(bound / mechanism.unit))[1])
    assert 1 - (1 - tail) ** 10 == pytest.approx(0.0489, abs=1e-4)


def test_laplace_is_nearly_the_continuous_one():
    for parameters in (
        {"epsilon": 1.0, "sensitivity": 1.0},
        {"epsilon": 0.1, "sensitivity": 0.003, "k": 50},
        {"epsilon": 20.0, "sensitivity": 1e6, "k": 3},
    ):
        mechanism = laplace.make(**parameters)
        textbook = 2 * (parameters["sensitivity"] / parameters["epsilon"]) ** 2
        assert mechanism.variance() == pytest.approx(textbook, rel=1e-5)


def test_laplace_reach_counts_the_rounding():
    assert laplace.make(epsilon=1.0, sensitivity=1.0, step_exponent=-2).reach == 4
    assert laplace.make(epsilon=1.0, sensitivity=0.9, step_exponent=-2).reach == 4
    for wrong in (-501, 401, 0.5):
        with pytest.raises(ParameterError, match="step_exponent"):
            laplace.make(epsilon=1.0, sensitivity=1.0, step_exponent=wrong)
    assert laplace.make(epsilon=1.0, sensitivity=1.0, k=3, step_exponent=-2).reach == 6
    assert laplace.make(epsilon=1.0, sensitivity=0.01, step_exponent=0).reach == 1


class Silent:
    """A source of words that make no noise: all digits and all trials come out as 0."""

    def words(self, count, bits=64):
        return np.full(count, (1 << bits) - 1, dtype=np.uint64)


@settings(max_examples=300, deadline=None)
@given(
    x=st.floats(-1e9, 1e9),
    step_exponent=st.integers(-20, 10),
)
def test_rounding_is_exactly_half_up(x, step_exponent):
    mechanism = laplace.make(epsilon=1.0, sensitivity=1e4, step_exponent=step_exponent)
    step = Fraction(2) ** step_exponent
    expected = math.floor(Fraction(x) / step + Fraction(1, 2)) * step
    assert mechanism.release(x, Silent()).value == float(expected)


@pytest.mark.parametrize(
    "x", [0.5, -0.5, 0.49999999999999994, -1e-300, 2.5, 3.5, -2.5, 2.0**52 + 1]
)
def test_rounding_at_the_edges(x):
    mechanism = laplace.make(epsilon=1.0, sensitivity=1e4, step_exponent=0)
    assert mechanism.release(x, Silent()).value == math.floor(Fraction(x) + Fraction(1, 2))


@settings(max_examples=300, deadline=None)
@given(
    x=st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    moves=st.lists(st.floats(-1, 1), min_size=3, max_size=3),
)
def test_rounded_neighbours_are_within_reach(x, moves):
    mechanism = laplace.make(epsilon=1.0, sensitivity=1.0, k=3, step_exponent=-3)
    other = [a + b for a, b in zip(x, moves, strict=True)]
    if sum(abs(Fraction(a) - Fraction(b)) for a, b in zip(x, other, strict=True)) > 1:
        return
    gap = mechanism.release(x, Silent()).value - mechanism.release(other, Silent()).value
    assert np.abs(gap).sum() / mechanism.unit <= mechanism.reach


def test_reach_is_attained():
    mechanism = laplace.make(epsilon=1.0, sensitivity=1.0, k=3, step_exponent=-3)
    eighth = 1 / 8
    # Just below a midpoint against just above: every coordinate gains almost one step.
    x = np.array([eighth / 2 - 1e-9] * 3)
    y = np.array([eighth / 2] * 2 + [x[2] + 1 - 3e-9])
    gap = mechanism.release(y, Silent()).value - mechanism.release(x, Silent()).value
    assert np.abs(gap).sum() / mechanism.unit == mechanism.reach


def outside_count(mechanism, radius, seed):
    exact = np.full(mechanism.k, 5)
    value = mechanism.release(exact, SeededWords(seed)).value
    return int((np.abs(value - exact) > radius).sum())


@pytest.mark.parametrize("module", [geometric, laplace], ids=["geometric", "laplace"])
def test_released_noise(module):
    k = 4000
    mechanism = module.make(epsilon=0.3, sensitivity=1, k=k)
    radius = round(3 / mechanism.unit)
    tail = float(mechanism.noise.tail(radius)[0])
    seen = outside_count(mechanism, radius * mechanism.unit, seed=21)
    assert min(binom.cdf(seen, k, tail), binom.sf(seen - 1, k, tail)) > ALPHA
    # Mutant: half the noise.
    weaker = module.make(epsilon=0.6, sensitivity=1, k=k)
    seen = outside_count(weaker, radius * mechanism.unit, seed=21)
    assert binom.cdf(seen, k, tail) < ALPHA


def test_coordinates_get_independent_noise():
    value = geometric.make(epsilon=0.001, sensitivity=1, k=50).release(
        np.zeros(50, int), SeededWords(1)
    )
    assert len(set(value.value.tolist())) > 45


def test_geometric_refuses_reals():
    with pytest.raises(DataError, match="integers"):
        geometric.make(epsilon=1.0, sensitivity=1).release(1.5, SeededWords(1))
    with pytest.raises(DataError, match=r"2\^53"):
        geometric.make(epsilon=1.0, sensitivity=1).release(2**60, SeededWords(1))
    with pytest.raises(DataError, match="k=2"):
        geometric.make(epsilon=1.0, sensitivity=1, k=2).release([1, 2, 3], SeededWords(1))
    with pytest.raises(ParameterError, match="sensitivity"):
        geometric.make(epsilon=1.0, sensitivity=1.5)


def test_laplace_refuses_what_it_cannot_represent():
    mechanism = laplace.make(epsilon=1.0, sensitivity=1.0)
    with pytest.raises(DataError, match="steps"):
        mechanism.release(1e300, SeededWords(1))
    with pytest.raises(DataError, match="float64"):
        mechanism.release(np.float32(1.5), SeededWords(1))
    with pytest.raises(ParameterError, match="step_exponent"):
        laplace.make(epsilon=1.0, sensitivity=1.0, step_exponent=-70)
    with pytest.raises(ParameterError, match="epsilon"):
        laplace.make(epsilon=1e-12, sensitivity=1.0, step_exponent=-40)
    with pytest.raises(ParameterError, match="sensitivity"):
        laplace.make(epsilon=1.0, sensitivity=Fraction(1, 3))


def test_interval_counts_the_rounding():
    mechanism = laplace.make(epsilon=1.0, sensitivity=1.0, step_exponent=-2)
    low, high = mechanism.release(0.3, Silent()).interval(0.9)
    radius = mechanism.noise.radius(1 - Fraction(0.9)) * 0.25
    assert (low, high) == (0.25 - radius - 0.125, 0.25 + radius + 0.125)


def test_interval_is_widened_where_floats_are_coarse():
    mechanism = laplace.make(epsilon=1.0, sensitivity=1.0)
    exact = 2.0**39  # 2^59 steps: the grid is finer than the floats here
    low, high = mechanism.release(exact, Silent()).interval(0.5)
    assert low < exact - 0.69
    assert high > exact + 0.69
