"""The piecewise mean: the paper's values, its exact law at full word size, and its error bar."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shuffledp as sdp
from mean_support import law_moments, p_values
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols.piecewise import Piecewise, make_local
from support import ALPHA


def unit(steps, epsilon, word_bits=64):
    domain = sdp.Reals(lower=-1.0, upper=1.0, steps=steps)
    return Piecewise(domain=domain, epsilon0=epsilon, word_bits=word_bits)


def ideal(x, epsilon):
    """The variance of the paper's continuous mechanism on [-1, 1]."""
    h = math.exp(epsilon / 2)
    return x**2 / (h - 1) + (h + 3) / (3 * (h - 1) ** 2)


@pytest.mark.parametrize("steps", [2, 10, 100, 1000, 2**15])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0])
def test_variance_is_the_papers_within_one_percent(steps, epsilon):
    piecewise = unit(steps, epsilon)
    for i in (0, steps // 4, steps // 2, steps):
        variance = float(piecewise.code_variance(i)) * (2 / steps) ** 2
        assert variance == pytest.approx(ideal(2 * i / steps - 1, epsilon), rel=0.01)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_window_has_the_papers_probability_and_length(epsilon):
    piecewise = unit(100, epsilon)
    h = math.exp(epsilon / 2)
    first = 30 * piecewise.stride
    law = piecewise.pmf(30)
    inside = sum(law[(y,)] for y in range(first, first + piecewise.window))
    assert float(inside) == pytest.approx(h / (h + 1), rel=0.01)
    assert piecewise.window / piecewise.alphabet == pytest.approx(1 / (h + 1), rel=0.01)
    C = (h + 1) / (h - 1)
    ends = [float(piecewise.decoder(y)) / 50 - 1 for y in (0, piecewise.alphabet - 1)]
    assert ends == pytest.approx([-C, C], rel=0.01)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 6.0])
def test_law_at_full_word_size_is_exact(epsilon):
    piecewise = unit(50, epsilon)
    for i in (0, 17, 50):
        assert sum(piecewise.pmf(i).values()) == 1
        assert law_moments(piecewise, i) == (i, piecewise.code_variance(i))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 6.0, 20.0])
def test_all_of_the_budget_is_used(epsilon):
    piecewise = unit(50, epsilon)
    ratio = Fraction(piecewise.low + piecewise.extra, piecewise.low)
    limit = exp_lower(epsilon)
    # Rounding `low` up costs one part in `low`, rounding `extra` down one in itself.
    worst = 1 - Fraction(2, piecewise.low) * (limit + 1) / (limit - 1)
    assert limit * worst <= ratio <= limit


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_every_threshold_at_full_word_size(epsilon):
    piecewise = unit(1000, epsilon)
    i, M, low, extra = 700, piecewise.alphabet, piecewise.low, piecewise.extra
    first, last = i * piecewise.stride, i * piecewise.stride + piecewise.window - 1
    window, end = M * low, M * low + piecewise.window * extra
    expected = {
        0: 0,
        low - 1: 0,
        low: 1,
        window - 1: M - 1,
        window: first,
        window + extra - 1: first,
        window + extra: first + 1,
        end - 1: last,
    }
    if piecewise.rest:
        expected |= {end: 0, 2**64 - 1: piecewise.rest - 1}
    words = np.array(list(expected), dtype=np.uint64)[:, None]
    sent = piecewise.encode(np.full(len(words), i), words).payload
    assert sent.tolist() == list(expected.values())


@settings(deadline=None)
@given(
    steps=st.integers(1, 6),
    epsilon=st.floats(1e-3, 1e5),
    word_bits=st.integers(1, 9),
)
def test_any_parameters_are_refused_or_right(steps, epsilon, word_bits):
    try:
        piecewise = unit(steps, epsilon, word_bits)
    except sdp.ParameterError:
        return
    laws = [piecewise.pmf(i) for i in range(steps + 1)]
    limit = exp_lower(min(epsilon, 1000))
    for y in range(piecewise.alphabet):
        masses = [law[(y,)] for law in laws]
        assert 0 < max(masses) <= limit * min(masses)
    for i, law in enumerate(laws):
        assert sum(law.values()) == 1
        assert law_moments(piecewise, i) == (i, piecewise.code_variance(i))


@given(steps=st.integers(1, 2**15), epsilon=st.floats(1e-6, 1e5))
def test_any_grid_up_to_the_limit(steps, epsilon):
    piecewise = unit(steps, epsilon)
    assert 0 <= piecewise.rest < piecewise.window
    assert piecewise.alphabet <= 2**16
    assert piecewise.low >= 1
    assert piecewise.extra >= 1


@pytest.mark.parametrize(
    ("steps", "epsilon", "word_bits"), [(2, 1.0, 8), (5, 3.0, 10), (20, 1, 64)]
)
def test_noise_is_unbiased_before_it_is_moved(steps, epsilon, word_bits):
    piecewise = unit(steps, epsilon, word_bits)
    one_of_each = np.eye(piecewise.alphabet, dtype=np.int64)
    for i in (0, 1, steps):
        expected = sum(
            mass * piecewise._unbiased_noise(one_of_each[y])
            for (y,), mass in piecewise.pmf(i).items()
        )
        assert expected == piecewise.code_variance(i)


def test_noise_is_moved_into_the_possible_range():
    piecewise = unit(20, 1.0)
    one_of_each = np.eye(piecewise.alphabet, dtype=np.int64)
    raw = [piecewise._unbiased_noise(counts) for counts in one_of_each]
    moved = [piecewise.noise(counts) for counts in one_of_each]
    variances = [piecewise.code_variance(i) for i in range(21)]
    smallest, largest = min(variances), max(variances)
    assert min(raw) < 0.5 * smallest  # why it is needed
    assert max(raw) > 1.5 * largest
    assert 0.999 * smallest < min(moved) <= smallest  # the vertex may lie between two codes
    assert max(moved) == largest
    inner = [y for y, noise in enumerate(raw) if smallest <= noise <= largest]
    assert inner
    for y in inner:
        assert piecewise.noise(3 * one_of_each[y]) == 3 * raw[y]


def test_error_bar_follows_the_values():
    # At epsilon = 5 values at the ends have three times the variance of those in the middle.
    protocol = make_local(lower=-1.0, upper=1.0, steps=100, epsilon=5.0)
    n = 100_000
    for values, mean_square in (([0.0], 0.0), ([-1.0, 1.0], 1.0)):
        estimate = sdp.run(protocol, np.resize(values, n), sdp.SeededWords(3))
        expected = math.sqrt(ideal(math.sqrt(mean_square), 5.0) / n)
        assert estimate.stderr == pytest.approx(expected, rel=0.02)


def test_errors():
    with pytest.raises(sdp.ParameterError, match=r"steps=32769 must be <= 32768"):
        make_local(lower=0.0, upper=1.0, steps=2**15 + 1, epsilon=1.0)
    with pytest.raises(sdp.ParameterError, match=r"steps=17 must be <= 16 with words of 8 bits"):
        unit(17, 1.0, word_bits=8)
    with pytest.raises(sdp.ParameterError, match=r"epsilon0=0.001 must be larger"):
        unit(2, 0.001, word_bits=8)
    with pytest.raises(sdp.ParameterError, match="word_bits"):
        unit(3, 1.0, word_bits=0)


def test_bias_and_error_are_as_declared():
    assert min(p_values(unit(10, 2.0), 9)) > ALPHA


def test_mutants_are_noticed():
    piecewise, louder = unit(10, 2.0), unit(10, 2.5)
    bias, _ = p_values(
        piecewise, 9, encode=lambda inputs, words: piecewise.encode(inputs - 1, words)
    )
    assert bias < ALPHA
    _, mse = p_values(piecewise, 9, claimed=louder.code_variance(9))
    assert mse < ALPHA
