"""Histogram with rare noise messages: law of the sets, figures, guarantee, coverage, error."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from mse import is_the_variance, resolution, squared_errors
from shuffledp import run_counts
from shuffledp.accounting.moved_message import IndependentBins
from shuffledp.protocols import sparse_histogram
from shuffledp.protocols.sparse_histogram import SparseHistogram


def made(n, k, epsilon, delta, **more):
    return sparse_histogram.make(n=n, k=k, epsilon=epsilon, delta=delta, **{"honest": 1.0, **more})


def split_delta(n, single, epsilon):
    """E over T ~ Bin(n, single) of the divergence of (A + 1, T - A) from (A, T - A + 1), as a sum."""
    E, total = math.exp(epsilon), 0.0
    mean = n * single
    t = np.arange(int(mean + 12 * math.sqrt(mean)) + 50)
    for size, weight in zip(t.tolist(), binom.pmf(t, n, single), strict=True):
        a = np.arange(size + 2)
        here, before = binom.pmf(a, size, 0.5), binom.pmf(a - 1, size, 0.5)
        total += weight * np.maximum(before - E * here, 0).sum()
    return total


class TestSets:
    SMALL = SparseHistogram(k=3, shares=(5, 4, 4, 3), word_bits=4)

    def test_sizes_sum_to_one(self):
        assert sum(self.SMALL.sizes()) == 1

    def test_gamma_and_single_are_those_of_the_law(self):
        law = self.SMALL.pmf(0)
        sets = [(set(sent[1:]), mass) for sent, mass in law.items()]
        assert self.SMALL.gamma == sum(mass for bins, mass in sets if 2 in bins)
        assert self.SMALL.single == sum(mass for bins, mass in sets if len(bins & {0, 2}) == 1)

    def test_a_bin_is_sent_at_most_once_as_noise(self):
        randomizer = SparseHistogram(k=5, shares=(0, 0, 0, 2**64))
        messages = sdp.randomize(randomizer, np.zeros(500, int), sdp.SeededWords(4))
        noise = messages.payload[500:], messages.owner[500:]
        assert len(set(zip(*noise, strict=True))) == len(noise[0])
        assert 500 < len(noise[0]) < 1500

    def test_bins_are_all_but_independent(self):
        """The cut and the table move the law by little: single is 2 gamma (1 - gamma)."""
        randomizer = made(2000, 100, 1.0, 1e-6).randomizer
        ideal = 2 * randomizer.gamma * (1 - randomizer.gamma)
        assert float(randomizer.single / ideal) == pytest.approx(1, abs=2e-3)

    @pytest.mark.parametrize("shares", [(16,), (8, 7), (17, -1)])
    def test_bad_tables(self, shares):
        with pytest.raises(sdp.ParameterError, match="shares"):
            SparseHistogram(k=3, shares=shares, word_bits=4)

    def test_a_word_names_every_bin(self):
        assert SparseHistogram(k=16, shares=(15, 1), word_bits=4).k == 16
        with pytest.raises(sdp.ParameterError, match="k=17"):
            SparseHistogram(k=17, shares=(15, 1), word_bits=4)

    def test_nobody_sends_noise(self):
        randomizer = SparseHistogram(k=3, shares=(15, 1), word_bits=4)
        messages = randomizer.encode(np.array([2]), np.array([[15, 0]], dtype=np.uint8))
        assert messages.of(0) == (2,)


class TestFigures:
    def test_accuracy_to_reach(self):
        protocol = made(10**6, 1024, 1.0, 1e-6)
        inputs = np.zeros(1024, dtype=np.int64)
        inputs[0] = 10**6
        assert math.sqrt(protocol.analyzer.variance(inputs)[0]) <= 6.6
        assert protocol.cost.messages_mean <= 1.1

    @pytest.mark.parametrize(
        ("n", "k", "epsilon", "delta", "rmse", "messages"),
        [
            (10**3, 16, 1.0, 1e-6, 6.5, 1.7),
            (10**3, 16, 1.0, 1e-10, 9.1, 2.43),  # dummies: 2.3; coins have less variance
            (10**3, 1024, 1.0, 1e-6, 6.5, 45),
            (10**6, 16, 0.1, 1e-6, 51.4, 1.04),
            (10**6, 1024, 1.0, 1e-10, 9.1, 1.08),
            (10**6, 1024, 0.1, 1e-6, 51.4, 3.7),
            (10**6, 10**6, 1.0, 1e-6, 6.5, 44),
            (10**6, 10**6, 2.0, 1e-10, 5.8, 34),
            (10**9, 10**6, 1.0, 1e-6, 6.5, 1.04),
        ],
    )
    def test_table_of_histograms(self, n, k, epsilon, delta, rmse, messages):
        protocol = made(n, k, epsilon, delta)
        gamma = protocol.randomizer.gamma
        assert math.sqrt(n * gamma * (1 - gamma)) == pytest.approx(rmse, abs=0.1)
        assert protocol.cost.messages_mean == pytest.approx(messages, rel=0.05)


class TestGuarantee:
    @pytest.mark.parametrize(
        ("n", "epsilon", "delta"), [(1000, 1.0, 1e-6), (10**6, 0.5, 1e-8), (200, 2.0, 1e-4)]
    )
    def test_by_another_evaluation(self, n, epsilon, delta):
        protocol = made(n, 50, epsilon, delta)
        single = float(protocol.randomizer.single)
        exact = split_delta(n, single, epsilon)
        assert exact <= protocol.guarantee.delta <= delta
        assert protocol.guarantee.delta == pytest.approx(exact, rel=1e-3)
        assert split_delta(n, 0.97 * single, epsilon) > delta

    @pytest.mark.parametrize("n", [1000, 10**5])
    def test_next_to_independent_bins(self, n):
        """What the attacker is told besides costs little: some percent of delta."""
        protocol = made(n, 100, 1.0, 1e-6)
        alike = Fraction((1 - math.sqrt(1 - 2 * float(protocol.randomizer.single))) / 2)
        joint = IndependentBins(n=n, gamma=alike).delta(1.0)
        assert joint <= protocol.guarantee.delta * (1 + 1e-3)
        assert joint >= protocol.guarantee.delta * (0.7 if n == 1000 else 0.97)

    def test_too_few(self):
        with pytest.raises(sdp.UnsupportedError, match="too few"):
            made(100, 16, 1.0, 1e-6)
        with pytest.raises(sdp.UnsupportedError, match="too few"):
            made(3, 16, 1.0, 1e-6)

    def test_one_honest_user(self):
        """T is 0 or 1; with epsilon = 1 the one coin hides half of it."""
        device = SparseHistogram(k=2, shares=(12, 4), word_bits=4)
        assert device.single == Fraction(1, 4)
        assert device.delta(1, 1.0) == pytest.approx(0.75 + 0.25 / 2, rel=1e-6)


def test_mean_squared_error_and_a_mutant():
    protocol = made(1000, 64, 1.0, 1e-3)
    codes = np.arange(1000) % 7
    terms = squared_errors(protocol.randomizer, protocol, codes, runs=60, seed=5)
    assert is_the_variance(terms)
    none, *some = protocol.randomizer.shares
    more = [round(share * (1.1 + resolution(terms))) for share in some]
    mutant = SparseHistogram(k=64, shares=(none - sum(more) + sum(some), *more))
    assert not is_the_variance(squared_errors(mutant, protocol, codes, runs=60, seed=5))


@pytest.mark.parametrize(("n", "epsilon"), [(10**6, 1.0), (10**9, 0.3)])
def test_coverage(n, epsilon):
    k = 1000
    protocol = made(n, k, epsilon, 1e-6)
    inputs = np.full(k, n // k)
    hits, words = 0, sdp.SeededWords(3)
    for _ in range(100):
        low, high = run_counts(protocol, inputs, words).interval(0.95)
        hits += int(((low <= inputs) & (inputs <= high)).sum())
    assert 0.945 <= hits / (100 * k) <= 0.955


def test_thousands_of_messages_each_are_refused_at_once():
    with pytest.raises(sdp.UnsupportedError, match="noise messages"):
        sparse_histogram.make(n=1_000, k=100_000, epsilon=2.0, delta=1e-8)
