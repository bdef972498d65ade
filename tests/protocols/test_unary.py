"""Unary encodings: the papers' numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from mse import is_the_variance, resolution, squared_errors
from shuffledp.protocols import optimized_unary, symmetric_unary
from shuffledp.protocols.unary import Unary

BOTH = pytest.mark.parametrize(
    ("make_local", "randomizer"),
    [
        pytest.param(symmetric_unary.make_local, Unary.symmetric, id="symmetric"),
        pytest.param(optimized_unary.make_local, Unary.optimized, id="optimized"),
    ],
)


def symmetric_variance(n, c, epsilon):
    root = math.exp(epsilon / 2)
    return n * root / (root - 1) ** 2


def optimized_variance(n, c, epsilon):
    e = math.exp(epsilon)
    return 4 * e * n / (e - 1) ** 2 + c


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(
    ("spec", "variance"),
    [(symmetric_unary, symmetric_variance), (optimized_unary, optimized_variance)],
)
def test_variance_of_the_paper(spec, variance, epsilon):
    inputs = np.array([0, 100, 900])
    declared = spec.make_local(k=3, epsilon=epsilon).analyzer.variance(inputs)
    expected = [variance(1000, c, epsilon) for c in inputs]
    np.testing.assert_allclose(declared, expected, rtol=1e-7)  # q is a multiple of 2^-32


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0, 12.0])
def test_probabilities_of_the_papers(epsilon):
    symmetric = Unary.symmetric(k=3, epsilon0=epsilon, word_bits=64)
    assert float(symmetric.q) == pytest.approx(1 / (math.exp(epsilon / 2) + 1), rel=1e-12)
    assert symmetric.p == 1 - symmetric.q
    optimized = Unary.optimized(k=3, epsilon0=epsilon, word_bits=64)
    assert float(optimized.q) == pytest.approx(1 / (math.exp(epsilon) + 1), rel=1e-12)
    assert optimized.p == Fraction(1, 2)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_optimized_beats_symmetric_on_rare_categories(epsilon):
    nobody = np.array([0, 1000])
    optimized = optimized_unary.make_local(k=2, epsilon=epsilon).analyzer.variance(nobody)[0]
    symmetric = symmetric_unary.make_local(k=2, epsilon=epsilon).analyzer.variance(nobody)[0]
    assert optimized < symmetric


@pytest.mark.parametrize("step", [-1, 1])
def test_no_other_kept_fraction_is_better(step):
    # The paper's optimum p = 1/2: another p, with the q that the same epsilon allows, is worse.
    epsilon, p = 1.0, 0.5 + step * 0.05
    odds = p / (1 - p) / math.exp(epsilon)
    q = odds / (1 + odds)
    ours = optimized_unary.make_local(k=2, epsilon=epsilon).analyzer.variance(np.array([0, 1]))[0]
    assert ours < q * (1 - q) / (p - q) ** 2


@BOTH
class TestMeanSquaredError:
    codes = np.repeat(np.arange(50), np.arange(50))

    def test_is_the_variance(self, make_local, randomizer):
        protocol = make_local(k=50, epsilon=1.0)
        terms = squared_errors(protocol.randomizer, protocol, self.codes, runs=400, seed=1)
        assert is_the_variance(terms)
        assert resolution(terms) < 0.065

    def test_mutant_with_more_noise_is_noticed(self, make_local, randomizer):
        mutant, protocol = randomizer(k=50, epsilon0=0.9), make_local(k=50, epsilon=1.0)
        assert not is_the_variance(squared_errors(mutant, protocol, self.codes, runs=400, seed=1))


@BOTH
def test_epsilon_that_the_words_cannot_express(make_local, randomizer):
    with pytest.raises(sdp.ParameterError, match=r"epsilon0=0\.1 must be larger"):
        make_local(k=3, epsilon=0.1, word_bits=4)


@BOTH
def test_law_of_many_bits_is_refused(make_local, randomizer):
    with pytest.raises(sdp.UnsupportedError, match=r"2\^1000"):
        randomizer(k=1000, epsilon0=1.0).pmf(0)
