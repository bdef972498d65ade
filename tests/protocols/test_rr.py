"""Binary randomized response: the textbook's numbers."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from mse import is_the_variance, resolution, squared_errors
from shuffledp.core.analyzer import Tally
from shuffledp.protocols.rr import RR, make_local


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 10.0])
def test_variance_of_warner(epsilon):
    e = math.exp(epsilon)
    for inputs in ([1000, 0], [0, 1000], [250, 750]):
        declared = make_local(epsilon=epsilon).analyzer.variance(np.array(inputs))
        assert declared == pytest.approx(1000 * e / (e - 1) ** 2, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0, 30.0])
def test_flips_with_the_ideal_probability(epsilon):
    ideal = 1 / (math.exp(epsilon) + 1)
    assert abs(float(RR(epsilon0=epsilon).q) - ideal) <= 2**-64 + 4e-16 * ideal


def test_three_quarters_is_log_three():
    # Two fair coins: with one tell the truth, with the other answer at random.
    rr = RR(epsilon0=math.nextafter(math.log(3), 2), word_bits=8)
    assert rr.threshold == 64


def test_a_little_less_than_log_three_flips_more():
    assert RR(epsilon0=math.nextafter(math.log(3), 1), word_bits=8).threshold == 65


def test_estimate_is_one_python_float():
    estimate = sdp.run(make_local(epsilon=1.0), np.ones(50, dtype=bool), sdp.SeededWords(1))
    assert type(estimate.value) is float
    assert estimate.limits == (0.0, 50.0)
    assert all(type(end) is float for end in estimate.exact_interval(0.9))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_exact_interval_covers_for_every_count(epsilon):
    n, level, protocol = 12, 0.8, make_local(epsilon=epsilon)
    p, q = float(protocol.randomizer.p), float(protocol.randomizer.q)
    intervals = [
        protocol.analyzer.estimate(Tally(counts=np.array([n - x, x]), users=n)).exact_interval(
            level
        )
        for x in range(n + 1)
    ]
    coverage, shorter = [], []
    for c in range(n + 1):
        law = np.convolve(binom.pmf(range(c + 1), c, p), binom.pmf(range(n - c + 1), n - c, q))
        coverage.append(sum(law[x] for x, (a, b) in enumerate(intervals) if a <= c <= b))
        shorter.append(sum(law[x] for x, (a, b) in enumerate(intervals) if a + 1 <= c <= b - 1))
    assert min(coverage) >= level
    if epsilon == 2.0:  # the test can fail: intervals one shorter do not cover
        assert min(shorter[1:-1]) < level


def test_hoeffding_radius():
    # B1: sqrt(n ln(2 / beta) / (8 gamma^2)) with gamma = (e - 1) / (2 (e + 1)).
    gamma = (math.e - 1) / (2 * (math.e + 1))
    expected = math.sqrt(1000 * math.log(2 / 0.01) / (8 * gamma**2))
    assert make_local(epsilon=1.0).analyzer.accuracy(1000, 0.01) == pytest.approx(expected)


@pytest.mark.parametrize("c", [0, 30, 60])
def test_hoeffding_holds_exactly(c):
    n, beta, protocol = 60, 0.1, make_local(epsilon=1.0)
    p, q = float(protocol.randomizer.p), float(protocol.randomizer.q)
    law = np.convolve(binom.pmf(range(c + 1), c, p), binom.pmf(range(n - c + 1), n - c, q))
    error = np.abs((np.arange(n + 1) - n * q) / (p - q) - c)
    radius = protocol.analyzer.accuracy(n, beta)
    assert law[error >= radius].sum() <= beta
    assert law[error >= radius / 2].sum() > beta  # the radius is not absurdly large


@pytest.mark.parametrize(("n", "beta"), [(0, 0.1), (10, 0.0), (10, 1.0), (2.5, 0.1)])
def test_accuracy_refuses(n, beta):
    with pytest.raises(sdp.ParameterError):
        make_local(epsilon=1.0).analyzer.accuracy(n, beta)


class TestMeanSquaredError:
    codes = np.repeat([0, 1], [120, 280])

    def test_is_the_variance(self):
        protocol = make_local(epsilon=1.0)
        terms = squared_errors(protocol.randomizer, protocol, self.codes, runs=20_000, seed=1)
        assert is_the_variance(terms)
        assert resolution(terms) < 0.065

    def test_mutant_with_more_noise_is_noticed(self):
        mutant, protocol = RR(epsilon0=0.9), make_local(epsilon=1.0)
        assert not is_the_variance(squared_errors(mutant, protocol, self.codes, runs=5_000, seed=1))


def test_epsilon_that_the_words_cannot_express():
    with pytest.raises(sdp.ParameterError, match=r"epsilon0=0\.1 must be larger"):
        make_local(epsilon=0.1, word_bits=4)
