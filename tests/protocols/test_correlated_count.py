"""Counting with correlated noise: the figures, the table of constants, the law of the error."""

import math

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp import run_counts
from shuffledp.accounting.correlated import CorrelatedNoise, NegativeBinomialFlood
from shuffledp.protocols import correlated_count
from support import ALPHA

make = correlated_count.make

SOME_RUNS = pytest.mark.parametrize("runs", [2000, pytest.param(8000, marks=pytest.mark.slow)])


def rmse(protocol, n):
    return math.sqrt(protocol.analyzer.variance(np.array([n - n // 3, n // 3])))


def test_figures_at_a_million():
    n = 1_000_000
    protocol = make(n=n, epsilon=1.0, delta=1e-6, honest=1.0)
    assert rmse(protocol, n) <= 1.53
    assert protocol.cost.messages_mean <= 1.01
    assert protocol.guarantee.delta <= 1e-6
    assert protocol.guarantee.epsilon == 1.0
    assert protocol.local_floor is None


@pytest.mark.parametrize(
    ("epsilon", "gap", "delta", "mean", "error"),
    [
        (0.1, 0.1, 1e-6, 2082, 15.71),
        (0.5, 0.1, 1e-6, 541, 3.12),
        (1.0, 0.1, 1e-6, 300, 1.52),
        (1.0, 0.1, 1e-8, 478, 1.52),
        (1.0, 0.1, 1e-10, 666, 1.52),
        (1.0, 0.2, 1e-6, 159, 1.72),
        (2.0, 0.1, 1e-6, 163, 0.69),
    ],
)
def test_table_of_floods(epsilon, gap, delta, mean, error):
    n = 1_000_000
    protocol = make(n=n, epsilon=epsilon, delta=delta, gap=gap, honest=1.0)
    assert n * float(protocol.randomizer.flood.moment(1)) == pytest.approx(mean, rel=0.03)
    assert rmse(protocol, n) == pytest.approx(error, abs=0.01)


def test_published_constants():
    protocol = make(n=10_000, epsilon=1.0, delta=1e-6, honest=1.0, calibration="paper")
    assert protocol.randomizer.r_flood == pytest.approx(3 * (1 + math.log(1e6)))
    assert protocol.randomizer.p_flood == pytest.approx(math.exp(-0.02))
    assert 10_000 * float(protocol.randomizer.flood.moment(1)) == pytest.approx(2200, rel=0.01)
    # What is stated is the delta of what is sampled: far below what was asked for.
    assert protocol.guarantee.delta < 1e-12


@pytest.mark.parametrize(
    "parameters", [{"epsilon": 1.5}, {"delta": 0.6}, {"gap": 0.6}], ids=lambda p: next(iter(p))
)
def test_published_constants_have_a_range(parameters):
    wanted = {"n": 1000, "epsilon": 1.0, "delta": 1e-6, **parameters}
    with pytest.raises(sdp.UnsupportedError, match=next(iter(parameters))):
        make(**wanted, calibration="paper")
    assert make(**wanted).guarantee.delta <= wanted["delta"]


@pytest.mark.parametrize("n", [1000, 10**6, 10**9])
def test_guarantee_is_that_of_the_formula_and_the_tables_cost_nothing(n):
    protocol = make(n=n, epsilon=1.0, delta=1e-6, honest=1.0)
    device = protocol.randomizer
    flood = NegativeBinomialFlood(r=device.r_flood, p=device.p_flood)
    ideal = CorrelatedNoise(epsilon_star=device.star, flood=flood).delta(1.0)
    assert protocol.guarantee.delta == pytest.approx(ideal, rel=1e-6)
    assert device.distance(n) < 1e-13
    # Shares are rounded up, never down.
    assert n * device.noise_share >= 1
    assert n * float(device.flood_share) >= device.r_flood * (1 - 1e-15)


def test_half_of_the_users_is_not_enough_and_said_so():
    protocol = make(n=100_000, epsilon=1.0, delta=1e-6, honest=1.0)
    assert protocol.guarantee_if(honest=0.99).delta == pytest.approx(1.85e-6, rel=0.02)
    assert 0.25 < protocol.guarantee_if(honest=0.5).delta < 0.35


def test_more_users_than_counted_on_add_noise():
    protocol = make(n=100_000, epsilon=1.0, delta=1e-6, honest=0.8)
    whole = make(n=100_000, epsilon=1.0, delta=1e-6, honest=1.0)
    ratio = rmse(protocol, 100_000) / rmse(whole, 100_000)
    assert ratio == pytest.approx(math.sqrt(1 / 0.8), rel=1e-6)
    assert protocol.guarantee_if(honest=1.0).delta < protocol.guarantee.delta


def errors_of(protocol, n, runs, seed):
    words = sdp.SeededWords(seed)
    inputs = np.array([n - n // 4, n // 4])
    tallies = [protocol.randomizer.deal(inputs, words).counts for _ in range(runs)]
    return np.array([tally[1] - tally[0] - n // 4 for tally in tallies])


def fits(errors, rate):
    """Chi-square of the errors against discrete Laplace(rate), the tails in one cell."""
    z = np.arange(-6, 7)
    a = math.exp(-rate)
    masses = (1 - a) / (1 + a) * a ** np.abs(z)
    observed = np.array([(errors == value).sum() for value in z])
    observed = np.append(observed, len(errors) - observed.sum())
    expected = len(errors) * np.append(masses, 1 - masses.sum())
    return stats.chisquare(observed, expected).pvalue > ALPHA


@pytest.mark.parametrize(
    ("runs", "wrong"), [(1000, 1.2), pytest.param(8000, 1.0, marks=pytest.mark.slow)]
)
def test_error_is_discrete_laplace(runs, wrong):
    """A wrong rate is found out, by more runs a nearer one."""
    errors = errors_of(make(n=10**6, epsilon=1.0, delta=1e-6, honest=1.0), 10**6, runs, seed=11)
    assert fits(errors, 0.9)
    assert not fits(errors, wrong)


@pytest.mark.slow
@SOME_RUNS
def test_mutant_that_draws_each_share_twice_is_caught(runs):
    protocol = make(n=10**6, epsilon=1.0, delta=1e-6, honest=0.5)
    assert not fits(errors_of(protocol, 10**6, runs, seed=12), 0.9)


@pytest.mark.slow
@SOME_RUNS
@pytest.mark.parametrize("honest", [0.9, 1.0])
def test_intervals_cover_what_the_discrete_law_allows(honest, runs):
    """|error| <= 3 has probability 96.1 %, |error| <= 2 only 90.4 %: no interval has 95 %."""
    protocol = make(n=10**6, epsilon=1.0, delta=1e-6, honest=honest)
    estimate = run_counts(protocol, [750_000, 250_000], sdp.SeededWords(1))
    low, high = estimate.interval(0.95)
    radius = (high - low) / 2
    law = estimate.error.noise
    assert law.tail(int(radius)) <= 0.05 < law.tail(int(radius) - 1)
    covered = (np.abs(errors_of(protocol, 10**6, runs, seed=13)) <= radius).sum()
    wanted = 1 - law.tail(int(radius))
    assert stats.binomtest(int(covered), runs, wanted).pvalue > ALPHA


def test_intervals_cover_95_percent_where_steps_are_small():
    protocol = make(n=10**5, epsilon=0.05, delta=1e-6, honest=1.0)
    error = run_counts(protocol, [75_000, 25_000], sdp.SeededWords(1)).error
    radius = error.noise.radius(0.05)
    assert 0.95 <= 1 - error.noise.tail(radius) <= 0.955


def test_messages_are_mostly_the_bit_itself():
    protocol = make(n=10**5, epsilon=1.0, delta=1e-6)
    values = np.arange(10**5) % 2
    messages = sdp.randomize(protocol.randomizer, values, sdp.SeededWords(5))
    each = np.bincount(messages.owner, minlength=10**5)
    assert (each == values).mean() > 0.99


def test_numbers_of_numpy_make_the_same_protocol():
    given = make(n=np.int64(1_000), epsilon=np.float32(1.0), delta=np.float64(1e-6))
    assert given.guarantee.delta == make(n=1_000, epsilon=1.0, delta=1e-6).guarantee.delta
