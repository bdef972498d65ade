"""Histograms with correlated noise: the figures, the constants, the law of the errors."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp import run_counts
from shuffledp.accounting.correlated import (
    CorrelatedNoise,
    CorrelatedPair,
    NegativeBinomialFlood,
)
from shuffledp.numerics.tabulated import Events
from shuffledp.protocols import correlated_count, correlated_histogram
from support import ALPHA, all_tapes

make = correlated_histogram.make


def rmse(protocol, n):
    k = protocol.randomizer.k
    inputs = np.zeros(k, dtype=np.int64)
    inputs[0] = n
    return math.sqrt(protocol.analyzer.variance(inputs)[0])


def test_figures_at_a_million():
    n = 1_000_000
    protocol = make(n=n, k=1024, epsilon=1.0, delta=1e-6, honest=1.0)
    assert rmse(protocol, n) <= 3.15
    assert protocol.cost.messages_mean <= 1.7
    assert protocol.guarantee.delta <= 1e-6
    assert protocol.cost.bits_per_message == 11
    assert protocol.randomizer.words_per_input <= 40


@pytest.mark.parametrize(
    ("epsilon", "delta", "messages", "error"),
    [
        (0.1, 1e-6, 4189, 31.4),
        (0.5, 1e-6, 1076, 6.27),
        (1.0, 1e-6, 591, 3.12),
        (2.0, 1e-6, 320, 1.52),
        (0.5, 1e-10, 2538, 6.27),
        (1.0, 1e-10, 1322, 3.12),
        (2.0, 1e-10, 680, 1.52),
    ],
)
def test_noise_messages_per_bin(epsilon, delta, messages, error):
    n, k = 1_000_000, 16
    protocol = make(n=n, k=k, epsilon=epsilon, delta=delta, honest=1.0)
    per_bin = (protocol.cost.messages_mean - 1) * n / k
    assert per_bin == pytest.approx(messages, rel=0.03)
    assert rmse(protocol, n) == pytest.approx(error, rel=0.01)


def test_guarantee_is_that_of_the_pair():
    n = 10**6
    protocol = make(n=n, k=1000, epsilon=1.0, delta=1e-6, honest=1.0)
    device = protocol.randomizer
    flood = NegativeBinomialFlood(r=device.r_flood, p=device.p_flood)
    pair = CorrelatedPair(noise=CorrelatedNoise(epsilon_star=device.star, flood=flood))
    assert protocol.guarantee.delta == pytest.approx(pair.delta(1.0), rel=1e-6)
    assert device.distance(n) < 1e-13
    # 1000 is no power of two: rejected positions are made up for.
    assert n * device.noise_share >= 1
    assert n * float(device.flood_share) >= device.r_flood * (1 - 1e-15)


def test_published_constants():
    protocol = make(n=10**6, k=16, epsilon=1.0, delta=1e-6, calibration="paper")
    assert protocol.randomizer.r_flood == pytest.approx(3 * (1 + math.log(1e6)))
    assert protocol.randomizer.p_flood == pytest.approx(math.exp(-0.2 * 0.1))
    with pytest.raises(sdp.UnsupportedError, match="epsilon"):
        make(n=10**6, k=16, epsilon=3.0, delta=1e-6, calibration="paper")


def test_cutting_the_number_of_events_costs_delta():
    wanted = {"n": 1000, "k": 16, "epsilon": 1.0, "delta": 1e-6, "honest": 1.0}
    assert make(**wanted, most_events=12).randomizer.words_per_input <= 2 * (2 + 24)
    with pytest.raises(sdp.UnsupportedError, match="delta"):
        make(**wanted, most_events=2)


@pytest.mark.parametrize("most", [5, 7])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_what_cutting_changes_counts_for_both_data_sets(most, epsilon):
    device = make(n=1000, k=16, epsilon=1.0, delta=1e-6, honest=1.0).randomizer
    cut = replace(device, most_events=most)
    apart = (1 + math.exp(epsilon)) * cut.distance(1000)
    assert apart <= cut.delta(1000, epsilon) <= apart * (1 + 1e-9) + device.delta(1000, epsilon)


def test_few_honest_users():
    protocol = make(n=10**5, k=16, epsilon=1.0, delta=1e-6, honest=1.0)
    assert protocol.guarantee_if(honest=0.99).delta < 4e-6
    assert 0.1 < protocol.guarantee_if(honest=0.5).delta < 0.6


@pytest.mark.parametrize("most", [1, 2])
def test_every_tape_of_events_gives_the_declared_law(most):
    """Three cells on words of 3 or 4 bits: positions are rejected, which the law says."""
    from fractions import Fraction

    events = Events.of(cells=3, share=Fraction(1, 2), p=0.5, bits=3 if most == 2 else 4, most=most)
    tapes = all_tapes(events.number.bits, events.words)
    user, cell = events.draw(tapes)
    counts = np.zeros((len(tapes), 3), dtype=np.int64)
    np.add.at(counts, (user, cell), 1)
    rows, times = np.unique(counts, axis=0, return_counts=True)
    seen = {
        tuple(map(int, row)): Fraction(int(c), len(tapes))
        for row, c in zip(rows, times, strict=True)
    }
    assert seen == {drawn: mass for drawn, mass in events.law().items() if mass}


def errors_of(protocol, n, seed):
    k = protocol.randomizer.k
    inputs = np.random.default_rng(seed).multinomial(n, np.full(k, 1 / k))
    estimate = run_counts(protocol, inputs, sdp.SeededWords(seed))
    return estimate, estimate.value - inputs


def fits(errors, rate):
    z = np.arange(-12, 13)
    a = math.exp(-rate)
    masses = (1 - a) / (1 + a) * a ** np.abs(z)
    observed = np.array([(errors == value).sum() for value in z])
    observed = np.append(observed, len(errors) - observed.sum())
    expected = len(errors) * np.append(masses, 1 - masses.sum())
    return stats.chisquare(observed, expected).pvalue > ALPHA


def test_errors_are_discrete_laplace():
    n = 10**7
    _, errors = errors_of(make(n=n, k=20_000, epsilon=1.0, delta=1e-6, honest=1.0), n, seed=3)
    assert fits(errors, 0.45)
    assert not fits(errors, 0.5)


def test_mutant_with_too_much_noise_is_caught():
    n = 10**7
    _, errors = errors_of(make(n=n, k=20_000, epsilon=1.0, delta=1e-6, honest=0.7), n, seed=3)
    assert not fits(errors, 0.45)


@pytest.mark.slow
def test_intervals_cover_what_the_discrete_law_allows():
    n = 10**7
    protocol = make(n=n, k=20_000, epsilon=0.2, delta=1e-6)
    estimate, errors = errors_of(protocol, n, seed=4)
    low, high = estimate.interval(0.95)
    radius = (high[0] - low[0]) / 2
    exact = 1 - estimate.error.noise.tail(int(radius))
    assert 0.95 <= exact <= 0.955
    covered = int((np.abs(errors) <= radius).sum())
    assert stats.binomtest(covered, len(errors), exact).pvalue > ALPHA
    assert 0.945 <= covered / len(errors) <= 0.96


def test_one_bin_looks_like_the_count():
    """Devices' messages in one bin have the moments of the counting protocol with the same noise."""
    histogram = make(n=1000, k=2, epsilon=2.0, delta=1e-3, honest=1.0).randomizer
    count = correlated_count.CorrelatedCount(
        star=histogram.star,
        r_flood=histogram.r_flood,
        p_flood=histogram.p_flood,
        sharers=1000,
    )
    assert float(histogram.flood.per_cell(1)) == pytest.approx(float(count.flood.moment(1)))
    assert float(histogram.noise.per_cell(1)) == pytest.approx(float(count.noise.moment(1)))
    values = np.zeros(100_000, dtype=np.int64)
    messages = sdp.randomize(histogram, values, sdp.SeededWords(2))
    noise = np.bincount(messages.payload, minlength=4) - np.array([0, 100_000, 0, 0])
    wanted = 100_000 * float(histogram.noise.per_cell(1) + histogram.flood.per_cell(1))
    spread = math.sqrt(
        100_000 * float(histogram.noise.per_cell(2) + histogram.flood.per_cell(2)) * 1.1
    )
    assert np.all(np.abs(noise - wanted) <= -stats.norm.ppf(ALPHA / 8) * spread)
