"""Histogram with uniform dummies: figures, exact accounting, rejection, coverage, error."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from mse import is_the_variance, resolution, squared_errors
from shuffledp import run_counts
from shuffledp.protocols import dummies_histogram
from shuffledp.protocols.dummies_histogram import DummiesHistogram


def made(n, k, epsilon, delta, **more):
    return dummies_histogram.make(n=n, k=k, epsilon=epsilon, delta=delta, **{"honest": 1.0, **more})


def split_delta(n, randomizer, epsilon):
    """E over T of the divergence of (A + 1, T - A) from (A, T - A + 1), as a plain sum."""
    E, pair, more = math.exp(epsilon), 2 * float(randomizer.hit), float(randomizer.more)
    top = 600
    t = np.arange(top)
    law = np.convolve(binom.pmf(t, n * randomizer.surely, pair), binom.pmf(t, n, more * pair))[:top]
    total = 0.0
    for size, weight in zip(t.tolist(), law, strict=True):
        a = np.arange(size + 2)
        here, before = binom.pmf(a, size, 0.5), binom.pmf(a - 1, size, 0.5)
        total += weight * np.maximum(before - E * here, 0).sum()
    return total


@pytest.mark.parametrize(
    ("n", "k", "epsilon", "delta"),
    [(1000, 50, 1.0, 1e-6), (1000, 16, 1.0, 1e-6), (10**6, 1024, 0.5, 1e-8), (30, 7, 2.0, 1e-4)],
)
def test_guarantee_by_another_evaluation(n, k, epsilon, delta):
    protocol = made(n, k, epsilon, delta)
    exact = split_delta(n, protocol.randomizer, epsilon)
    assert exact <= protocol.guarantee.delta <= delta
    assert protocol.guarantee.delta == pytest.approx(exact, rel=1e-3)
    less = 0.97 * protocol.randomizer.rho
    weaker = DummiesHistogram(
        k=k, surely=math.floor(less), threshold=int((less - math.floor(less)) * 2**64)
    )
    assert split_delta(n, weaker, epsilon) > delta


@pytest.mark.parametrize(
    ("n", "k", "epsilon", "delta", "rmse", "messages"),
    [
        (10**6, 1024, 1.0, 1e-6, 6.53, 1.044),
        (10**6, 16, 0.1, 1e-6, 51.4, 1.04),
        (10**6, 1024, 0.1, 1e-6, 51.4, 3.7),
        (10**6, 10**6, 1.0, 1e-6, 6.53, 44),
        (10**9, 10**6, 1.0, 1e-10, 9.06, 1.08),
    ],
)
def test_table_of_histograms(n, k, epsilon, delta, rmse, messages):
    protocol = made(n, k, epsilon, delta)
    inputs = np.zeros(k, dtype=np.int64)
    inputs[0] = n
    assert math.sqrt(protocol.analyzer.variance(inputs)[0]) == pytest.approx(rmse, abs=0.1)
    assert protocol.cost.messages_mean == pytest.approx(messages, rel=0.03)


def test_few_users_send_many_dummies():
    protocol = made(10, 5, 1.0, 1e-6)
    assert protocol.randomizer.surely > 10
    assert protocol.guarantee.delta <= 1e-6
    with pytest.raises(sdp.UnsupportedError, match="too few"):
        made(1, 10**6, 0.5, 1e-6)


def test_a_rejected_dummy_is_not_sent():
    randomizer = DummiesHistogram(k=3, surely=2, threshold=0, word_bits=4)
    assert randomizer.words_per_input == 2
    messages = randomizer.encode(np.array([1]), np.array([[15, 14]], dtype=np.uint8))
    assert messages.of(0) == (1, 2)  # 15 is rejected, 14 is in the third share
    assert randomizer.pmf(1)[(1,)] == Fraction(1, 16) ** 2


def test_no_dummies_at_all_are_refused():
    with pytest.raises(sdp.ParameterError, match="threshold"):
        DummiesHistogram(k=3, surely=0, threshold=0)


@pytest.mark.parametrize("surely", [0, 2])
def test_law_with_and_without_sure_dummies(surely):
    randomizer = DummiesHistogram(k=2, surely=surely, threshold=3, word_bits=3)
    mean = sum(mass * (len(sent) - 1) for sent, mass in randomizer.pmf(0).items())
    assert mean == randomizer.rho == surely + Fraction(3, 8)


def test_mean_squared_error_and_a_mutant():
    protocol = made(1000, 64, 1.0, 1e-3)
    codes = np.arange(1000) % 7
    terms = squared_errors(protocol.randomizer, protocol, codes, runs=60, seed=5)
    assert is_the_variance(terms)
    rho = protocol.randomizer.rho * Fraction(1.1 + resolution(terms))
    mutant = DummiesHistogram(
        k=64, surely=math.floor(rho), threshold=int((rho - math.floor(rho)) * 2**64)
    )
    assert not is_the_variance(squared_errors(mutant, protocol, codes, runs=60, seed=5))


@pytest.mark.parametrize(("n", "k"), [(10**6, 1000), (10**4, 1000), (10**9, 1000)])
def test_coverage(n, k):
    protocol = made(n, k, 1.0, 1e-6)
    inputs = np.full(k, n // k)
    hits, words = 0, sdp.SeededWords(3)
    for _ in range(200):
        low, high = run_counts(protocol, inputs, words).interval(0.95)
        hits += int(((low <= inputs) & (inputs <= high)).sum())
    assert 0.945 <= hits / (200 * k) <= 0.955


@pytest.mark.parametrize("name", ["dummies_histogram", "sparse_histogram", "krr"])
@pytest.mark.parametrize("message", [-1, 4, (1, 0)])
def test_a_foreign_message_has_no_weights(name, message):
    protocol = sdp.make(name, n=1_000, k=4, epsilon=1.0, delta=1e-3)
    with pytest.raises(sdp.ParameterError, match=r"must be within 0 \.\. 3"):
        protocol.analyzer.weights(message)


@pytest.mark.parametrize(("surely", "threshold"), [(0, 3), (1, 0), (2, 5)])
def test_the_most_messages_are_those_of_the_law(surely, threshold):
    device = DummiesHistogram(k=2, surely=surely, threshold=threshold, word_bits=4)
    assert device.cost.messages_max == max(
        len(sent) for sent, mass in device.pmf(0).items() if mass
    )
