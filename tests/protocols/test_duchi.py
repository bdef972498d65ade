"""The one-bit mean: the paper's values, its exact law at full word size, and its error bar."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shuffledp as sdp
from mean_support import law_moments, p_values
from shuffledp.numerics.rounding import exp_lower, exp_upper
from shuffledp.protocols.duchi import Duchi, make_local
from support import ALPHA


def unit(steps, epsilon, word_bits=64):
    domain = sdp.Reals(lower=-1.0, upper=1.0, steps=steps)
    return Duchi(domain=domain, epsilon0=epsilon, word_bits=word_bits)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
def test_variance_is_the_papers(epsilon):
    duchi = unit(200, epsilon)
    C = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    for i in range(201):
        x = -1 + i / 100
        assert float(duchi.code_variance(i)) / 100**2 == pytest.approx(C**2 - x**2, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
def test_messages_decode_to_plus_and_minus_C(epsilon):
    duchi = unit(200, epsilon)
    C = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    decoded = [float(duchi.decoder(bit)) / 100 - 1 for bit in (0, 1)]
    assert decoded == pytest.approx([-C, C], rel=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 999, 2**32])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_all_of_the_budget_is_used_and_no_more(steps, epsilon):
    duchi = unit(steps, epsilon)
    ratio = duchi.pmf(steps)[(1,)] / duchi.pmf(0)[(1,)]
    assert ratio <= exp_lower(epsilon)
    # What is lost is the rounding of `slope`: 2 `steps` words of `least` and of what is gained.
    spared = Fraction(2 * steps, duchi.least)
    gained = Fraction(2 * steps, duchi.slope * steps)
    assert ratio >= exp_upper(epsilon) * (1 - spared - gained)


@pytest.mark.parametrize("steps", [1, 2, 5, 1000])
def test_law_is_symmetric(steps):
    duchi = unit(steps, 1.3)
    for i in range(steps + 1):
        assert duchi.pmf(i)[(1,)] == duchi.pmf(steps - i)[(0,)]


@pytest.mark.parametrize("i", [0, 1, 700, 1000])
def test_threshold_at_full_word_size(i):
    duchi = unit(1000, 2.0)
    threshold = duchi.pmf(i)[(1,)] * 2**64
    assert threshold.denominator == 1
    words = np.array([[0], [threshold - 1], [threshold], [2**64 - 1]], dtype=np.uint64)
    assert duchi.encode(np.full(4, i), words).payload.tolist() == [1, 1, 0, 0]


@given(
    steps=st.integers(1, 6),
    epsilon=st.floats(1e-3, 1e5),
    word_bits=st.integers(1, 64),
)
def test_any_parameters_are_refused_or_right(steps, epsilon, word_bits):
    try:
        duchi = unit(steps, epsilon, word_bits)
    except sdp.ParameterError:
        return
    limit = exp_lower(min(epsilon, 1000))
    for bit in (0, 1):
        masses = [duchi.pmf(i)[(bit,)] for i in range(steps + 1)]
        assert 0 < max(masses) <= limit * min(masses)
    for i in range(steps + 1):
        assert law_moments(duchi, i) == (i, duchi.code_variance(i))


def test_noise_is_an_upper_bound_by_jensen():
    duchi = unit(4, 1.0)
    for codes in itertools.combinations_with_replacement(range(5), 3):
        inputs = np.bincount(codes, minlength=5)
        at_mean = 3 * duchi.code_variance(Fraction(sum(codes), 3))
        assert at_mean >= duchi.code_variance.total(inputs)
        assert (at_mean == duchi.code_variance.total(inputs)) == (len(set(codes)) == 1)


def test_noise_follows_the_bits_and_stays_in_range():
    duchi = unit(4, 1.0)
    half = duchi.noise(np.array([50, 50]))
    assert half == 100 * duchi.code_variance(2)
    # All ones decode to a mean beyond the largest value: the bound is that of the largest value.
    assert duchi.noise(np.array([0, 100])) == 100 * duchi.code_variance(4)
    assert duchi.noise(np.array([100, 0])) == 100 * duchi.code_variance(0)


def test_estimate_by_hand():
    protocol = make_local(lower=10.0, upper=20.0, steps=2, epsilon=math.log(3.001))
    tally = sdp.core.analyzer.Tally(counts=np.array([1, 3]), users=4)
    # e^epsilon = 3: the bit is 1 with probability 1/4, 1/2, 3/4; 3 of 4 ones is the largest value.
    estimate = protocol.analyzer.estimate(tally)
    assert isinstance(estimate.value, float)
    assert estimate.value == pytest.approx(20.0, abs=1e-2)
    assert estimate.limits == (10.0, 20.0)
    # variance of one code at the end: (1/4)(3/4) / (1/4)^2 = 3 steps^2, of 5 each
    assert estimate.stderr == pytest.approx(5 * math.sqrt(3 / 4), rel=1e-2)


def test_variance_is_that_of_the_mean():
    analyzer = make_local(lower=-1.0, upper=1.0, steps=2, epsilon=1.0).analyzer
    one, ten = (analyzer.variance(np.array([n, 0, 2 * n])) for n in (1, 10))
    assert ten == pytest.approx(one / 10, rel=1e-12)
    with pytest.raises(sdp.DataError, match="at least one user is needed"):
        analyzer.variance(np.zeros(3, dtype=np.int64))


def test_errors():
    with pytest.raises(sdp.ParameterError, match=r"steps=300 must be smaller"):
        unit(300, 1.0, word_bits=8)
    with pytest.raises(sdp.ParameterError, match="word_bits"):
        unit(3, 1.0, word_bits=65)
    with pytest.raises(sdp.ParameterError, match="steps"):
        make_local(lower=0.0, upper=1.0, steps=0, epsilon=1.0)
    with pytest.raises(sdp.ParameterError, match="upper"):
        make_local(lower=1.0, upper=1.0, steps=4, epsilon=1.0)


def test_bias_and_error_are_as_declared():
    assert min(p_values(unit(10, 1.0), 9)) > ALPHA


def test_mutants_are_noticed():
    duchi, louder = unit(10, 1.0), unit(10, 1.3)
    bias, _ = p_values(duchi, 9, encode=louder.encode)
    assert bias < ALPHA
    bias, _ = p_values(duchi, 9, encode=lambda inputs, words: duchi.encode(inputs - 1, words))
    assert bias < ALPHA
    _, mse = p_values(duchi, 9, claimed=louder.code_variance(9))
    assert mse < ALPHA
