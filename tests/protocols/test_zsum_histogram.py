"""zsum in every bin: composition and joint calibration, exact zeros, messages, bias, coverage."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import shuffledp as sdp
from branches import add_up
from shuffledp import run_counts
from shuffledp.core.analyzer import Tally
from shuffledp.protocols import zsum, zsum_histogram
from shuffledp.protocols.zsum_histogram import ZsumHistogram, ZsumHistogramAnalyzer
from support import ALPHA


def made(n, k, epsilon, delta, **more):
    return zsum_histogram.make(n=n, k=k, epsilon=epsilon, delta=delta, **{"honest": 1.0, **more})


def two_bins_delta(n, gamma, epsilon):
    """(A + 1, B) against (A, B + 1), A and B independent Bin(n, gamma), on the whole grid."""
    mass = binom.pmf(np.arange(-1, n + 2), n, gamma)
    here, before = mass[1:], mass[:-1]  # at 0 .. n+1, and one place earlier
    first, second = before[:, None] * here[None, :], here[:, None] * before[None, :]
    return np.maximum(first - math.exp(epsilon) * second, 0).sum()


class TestCalibration:
    @pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.4, 1e-4), (2.0, 1e-6)])
    def test_paper_runs_bins_at_half(self, epsilon, delta):
        n = 10**6
        bins = made(n, 4, epsilon, delta, calibration="paper").randomizer.gamma
        one = zsum.make(
            n=n, epsilon=epsilon / 2, delta=delta / 2, honest=1.0, calibration="paper"
        ).randomizer.gamma
        assert bins == one

    def test_composition_is_an_upper_bound_of_the_joint_delta(self):
        """Bins at (epsilon / 2, delta / 2) by the exact law of one count compose to (epsilon, delta)."""
        gamma = zsum.make(n=1000, epsilon=0.5, delta=5e-4, honest=1.0).randomizer.gamma
        assert two_bins_delta(1000, float(gamma), 1.0) < 1e-3

    def test_outside_the_theorem(self):
        with pytest.raises(sdp.UnsupportedError, match="epsilon"):
            made(10**6, 4, 2.01, 1e-6, calibration="paper")
        with pytest.raises(sdp.UnsupportedError, match="honest users"):
            made(6080, 4, 1.0, 1e-6, calibration="paper")
        assert made(6081, 4, 1.0, 1e-6, calibration="paper").guarantee.delta <= 1e-6
        assert made(10**6, 4, 2.01, 1e-6).guarantee.delta <= 1e-6
        with pytest.raises(sdp.UnsupportedError, match="too few"):
            made(60, 4, 1.0, 1e-6)

    @pytest.mark.parametrize(
        ("n", "epsilon", "delta"), [(1000, 1.0, 1e-6), (400, 0.5, 1e-3), (600, 2.0, 1e-9)]
    )
    def test_guarantee_by_another_evaluation(self, n, epsilon, delta):
        protocol = made(n, 5, epsilon, delta)
        gamma = float(protocol.randomizer.gamma)
        assert protocol.guarantee.delta == pytest.approx(
            two_bins_delta(n, gamma, epsilon), rel=1e-3
        )
        assert two_bins_delta(n, gamma, epsilon) <= delta
        assert two_bins_delta(n, 0.96 * gamma, epsilon) > delta

    def test_noise_against_the_paper(self):
        """Table D.4: 71 times less at (1, 1e-6), and the per-bin errors 6.5 and 55."""
        n = 10**6
        exact, paper = (
            n * float(made(n, 1024, 1.0, 1e-6, calibration=rule).randomizer.gamma)
            for rule in ("exact", "paper")
        )
        assert paper / exact == pytest.approx(71.3, rel=0.01)
        assert math.sqrt(exact) == pytest.approx(6.53, abs=0.01)
        assert math.sqrt(paper * (1 - paper / n)) == pytest.approx(55, abs=0.5)


class TestAnswers:
    def test_empty_bins_are_exactly_zero(self):
        protocol = made(3000, 6, 1.0, 1e-4)
        for seed in range(10):
            value = sdp.run(protocol, np.arange(3000) % 2, sdp.SeededWords(seed)).value
            np.testing.assert_array_equal(value[2:], 0.0)
            assert (value[:2] > 0).all()

    def test_messages(self):
        protocol = made(2000, 6, 1.0, 1e-4)
        values = np.zeros(2000, int)
        messages = sdp.randomize(protocol.randomizer, values, sdp.SeededWords(1))
        each = np.bincount(messages.owner, minlength=2000)
        gamma = float(protocol.randomizer.gamma)
        assert each.max() == protocol.cost.messages_max == 7
        law = binom(2000 * 6, 1 - gamma)
        assert law.ppf(ALPHA / 2) <= each.sum() - 2000 <= law.isf(ALPHA / 2)
        mutant = sdp.randomize(
            ZsumHistogram(k=6, silent=2 * protocol.randomizer.silent), values, sdp.SeededWords(1)
        )
        assert not law.ppf(ALPHA / 2) <= len(mutant.payload) - 2000 <= law.isf(ALPHA / 2)

    def test_bias_and_variance_by_enumeration(self):
        randomizer = ZsumHistogram(k=2, silent=3, word_bits=3)
        analyzer, inputs = ZsumHistogramAnalyzer(randomizer=randomizer), np.array([1, 3])
        sent = [
            {tuple(np.bincount(one, minlength=2).tolist()): mass for one, mass in law.items()}
            for law in (randomizer.pmf(0), randomizer.pmf(1))
        ]
        law = add_up([sent[0]] + [sent[1]] * 3)
        estimates = [analyzer.estimate(Tally(counts=np.array(c), users=4)).value for c in law]
        error = np.array(estimates) - inputs
        mass = np.array([float(q) for q in law.values()])
        mean = mass @ error
        np.testing.assert_allclose(analyzer.bias(inputs), mean, atol=1e-8)
        np.testing.assert_allclose(analyzer.variance(inputs), mass @ error**2 - mean**2, atol=1e-7)

    def test_not_linear(self):
        with pytest.raises(sdp.UnsupportedError, match="linear"):
            made(300, 3, 2.0, 1e-3).analyzer.weights(1)

    def test_accuracy_of_all_bins_by_enumeration(self):
        """Every histogram of 12 people in three bins, every noise: no larger radius is needed, and the bound holds."""
        n, k = 12, 3
        analyzer = ZsumHistogramAnalyzer(randomizer=ZsumHistogram(k=k, silent=1, word_bits=3))
        law = binom.pmf(np.arange(n + 1), n, 1 / 8)
        worst = {}
        for counts in product(range(n + 1), repeat=k):
            if sum(counts) != n:
                continue
            for radius in range(n):
                kept = 1.0
                for ones in counts:
                    N = np.arange(n + 1)
                    error = np.where(ones > N, np.abs(N - n / 8), ones)
                    kept *= law[error <= radius].sum()
                worst[radius] = max(worst.get(radius, 0.0), 1 - kept)
        for beta in (0.5, 0.2, 0.05, 1e-3, 1e-6):
            radius = analyzer.accuracy_of_all(n, beta)
            assert worst.get(radius, 0.0) <= beta
            assert radius <= 1 + min((r for r in worst if worst[r] <= beta), default=n)

    def test_k_hardly_matters(self):
        few, many = (made(1000, k, 1.0, 1e-3).analyzer for k in (10, 10**5))
        assert few.accuracy(1000, 0.05) == many.accuracy(1000, 0.05)
        assert many.accuracy_of_all(1000, 0.05) <= few.accuracy_of_all(1000, 0.05) + 3


@pytest.mark.slow
def test_coverage():
    """400 histograms of 1000 bins by the counts engine."""
    n, k = 10**6, 1000
    protocol = made(n, k, 1.0, 1e-6)
    inputs = np.full(k, n // k)
    hits = 0
    words = sdp.SeededWords(3)
    for _ in range(400):
        low, high = run_counts(protocol, inputs, words).interval(0.95)
        hits += int(((low <= inputs) & (inputs <= high)).sum())
    assert 0.945 <= hits / (400 * k) <= 0.955


def test_answers_are_named_and_what_is_foreseen_is_not():
    """A plan looks at the errors of a million bins, and at no name."""
    analyzer = ZsumHistogramAnalyzer(randomizer=ZsumHistogram(k=3, silent=1, word_bits=2))
    assert analyzer.estimate(Tally(counts=np.array([200, 20, 0]), users=400)).labels == (
        "0",
        "1",
        "2",
    )
    assert analyzer.foresee(np.array([200, 200, 0])).labels is None
