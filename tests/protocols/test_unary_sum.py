"""Unary sums: figures, exactness on the grid, coverage."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, binomtest, chi2, chisquare

import shuffledp as sdp
from shuffledp import run_counts
from shuffledp.core.randomizer import Shuffled
from shuffledp.protocols.unary_sum import SPEC, UnaryDevice, _find_fewest, make
from shuffledp.testing import Examples
from support import ALPHA

EXAMPLES = Examples(
    SPEC,
    shuffled=(
        {"n": 10000, "epsilon": 1.0, "delta": 1e-06, "lower": 0, "upper": 10},
        {
            "n": 10000,
            "epsilon": 0.5,
            "delta": 1e-08,
            "lower": -1.0,
            "upper": 1.0,
            "steps": 1000,
            "task": "mean",
        },
    ),
    shuffled_tiny=(
        {
            "n": 3,
            "epsilon": 1.0,
            "delta": 0.3,
            "lower": 0,
            "upper": 3,
            "ones": 1,
            "honest": 1.0,
            "word_bits": 4,
        },
        {
            "n": 4,
            "epsilon": 1.5,
            "delta": 0.3,
            "lower": -1.0,
            "upper": 2.0,
            "steps": 4,
            "ones": 2,
            "honest": 1.0,
            "word_bits": 3,
        },
    ),
)


def worst(protocol):
    """RMSE if everybody's value were rounded by half a one."""
    device, n = protocol.randomizer, protocol.users
    noise = n * device.coins * float(device.gamma * (1 - device.gamma))
    return math.sqrt(noise + n / 4 * device.rounds) * float(1 / device.per_code) / 2**20


@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "figure"),
    [
        (10**3, 0.1, 1e-6, 36.5),
        (10**3, 1.0, 1e-6, 4.3),
        (10**3, 1.0, 1e-10, 5.9),
        (10**3, 2.0, 1e-6, 2.2),
        (10**6, 0.1, 1e-6, 36.7),
        (10**6, 0.1, 1e-10, 54.4),
        (10**6, 1.0, 1e-6, 4.3),
        (10**6, 1.0, 1e-10, 5.9),
        (10**9, 1.0, 1e-6, 4.3),
    ],
)
def test_error_is_the_known_figure(n, epsilon, delta, figure):
    p = make(n=n, epsilon=epsilon, delta=delta, lower=0.0, upper=1.0, steps=2**20, honest=1.0)
    assert worst(p) == pytest.approx(figure, abs=0.06, rel=0.01)
    assert p.guarantee.delta <= delta
    assert p.randomizer.ones == math.ceil(epsilon * math.sqrt(n))


@pytest.mark.parametrize("honest", [1000, 700])
def test_delta_against_the_masses_themselves(honest):
    p = make(n=1000, epsilon=1.0, delta=1e-3, lower=0, upper=20, honest=1.0)
    device = p.randomizer
    total = honest * device.coins
    masses = binom.pmf(np.arange(total + 1), total, float(device.gamma))
    masses = np.concatenate([masses, np.zeros(device.ones)])
    moved = np.roll(masses, device.ones)
    exact = max(np.maximum(a - math.e * b, 0).sum() for a, b in ((masses, moved), (moved, masses)))
    assert exact * (1 - 1e-7) <= p.accountant.guarantee(honest).delta <= exact * (1 + 1e-6)


def test_one_coin_less_is_not_enough():
    p = make(n=10_000, epsilon=1.0, delta=1e-6, lower=0, upper=100, honest=1.0)
    assert p.randomizer.gamma == Fraction(1, 2)
    fewer = replace(p.randomizer, coins=p.randomizer.coins - 1)
    assert fewer.delta(10_000, 1.0) > 1e-6


def test_few_coins_are_biased_to_spare_messages():
    p = make(n=10_000, epsilon=1.0, delta=1e-6, lower=0, upper=1, honest=1.0)
    assert p.randomizer.coins == 1
    assert float(p.randomizer.gamma) == pytest.approx(0.0034, rel=0.01)
    weaker = replace(p.randomizer, threshold=p.randomizer.threshold * 9 // 10)
    assert weaker.delta(10_000, 1.0) > 1e-6


@pytest.mark.parametrize(("steps", "ones"), [(3, 2), (7, 3), (1000, 17), (2**32, 1 << 14)])
def test_slope_is_hardly_below_what_was_asked(steps, ones):
    domain = sdp.Reals(lower=0.0, upper=1.0, steps=steps)
    device = UnaryDevice(domain=domain, ones=ones, coins=1, threshold=1 << 62)
    most = device.per_code * steps
    assert ones - Fraction(steps, 1 << device.fraction_bits) < most <= ones
    top = sdp.randomize(device, np.ones(50), sdp.SeededWords(1))
    each = np.bincount(top.owner, minlength=50)
    assert each.max() <= ones + 1
    assert each.min() >= ones - (most < ones)


def answers(p, inputs, runs, seed):
    rng = sdp.SeededWords(seed)
    return [run_counts(p, inputs, rng) for _ in range(runs)]


@pytest.mark.slow
@pytest.mark.parametrize(("level", "right"), [(0.95, True), (0.9, False)])
def test_coverage(level, right):
    steps = 77
    p = make(n=2000, epsilon=1.0, delta=1e-6, lower=0, upper=steps)
    inputs = np.bincount(np.linspace(0, steps, 2000).astype(int), minlength=steps + 1)
    truth = float(np.arange(steps + 1) @ inputs)
    hits = 0
    for answer in answers(p, inputs, 1500, 1):
        low, high = answer.interval(level)
        hits += low - 1e-9 <= truth <= high + 1e-9
    assert (binomtest(hits, 1500, 0.95).pvalue > ALPHA) == right


def test_exact_interval_covers_by_the_law():
    p = make(n=2000, epsilon=1.0, delta=1e-6, lower=3, upper=43, honest=1.0)
    device = p.randomizer
    assert not device.rounds
    answer = run_counts(p, np.eye(41, dtype=int)[0] * 2000, sdp.SeededWords(1))
    low, high = answer.exact_interval(0.95)
    coins = 2000 * device.coins
    observed = (answer.value - 6000) * float(device.per_code) + coins * float(device.gamma)
    fewest, most = (observed - (end - 6000) * float(device.per_code) for end in (high, low))
    law = binom(coins, float(device.gamma))
    covered = law.cdf(round(most)) - law.cdf(round(fewest) - 1)
    assert 0.95 <= covered <= 0.955


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.6, False)])
def test_squared_error_is_the_declared_variance(factor, right):
    """Coins that come up less often are noticed by the bias as well as by the spread."""
    p = make(n=500, epsilon=1.0, delta=1e-6, lower=-1.0, upper=1.0, steps=77)
    mutant = replace(p.randomizer, threshold=int(p.randomizer.threshold * factor))
    inputs = np.bincount(np.linspace(0, 77, 500).astype(int), minlength=78)
    truth = float(p.randomizer.domain.values(np.arange(78)) @ inputs)
    lying = replace(p, randomizer=mutant, offers=replace(p.offers, deal=mutant.deal))
    runs = answers(lying, inputs, 1000, 3)
    terms = [(answer.value - truth) ** 2 / p.analyzer.variance(inputs) for answer in runs]
    low, high = (chi2.ppf(q, 1000) for q in (ALPHA / 2, 1 - ALPHA / 2))
    assert (low < sum(terms) < high) == right


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.02, False)])
def test_dealt_number_of_messages_has_its_law(factor, right):
    """At production width: rounded values and coins, all of which send the same message."""
    p = make(n=500, epsilon=1.0, delta=1e-6, lower=-1.0, upper=1.0, steps=77)
    device, rng = p.randomizer, sdp.SeededWords(4)
    exact = 30 * device.per_code
    low, up = int(exact), float(exact - int(exact))
    coins = binom(500 * device.coins, float(device.gamma) * factor)
    law = np.convolve(
        binom.pmf(np.arange(501), 500, up), coins.pmf(np.arange(500 * device.coins + 1))
    )
    inputs = np.eye(78, dtype=int)[30] * 500
    seen = [int(device.deal(inputs, rng).counts[0]) - 500 * low for _ in range(4000)]
    edges = np.searchsorted(np.cumsum(law), np.arange(1, 20) / 20)
    found = np.bincount(np.searchsorted(edges, seen, side="right"), minlength=20)
    ideal = np.add.reduceat(law, np.append(0, edges))
    assert (chisquare(found, 4000 * ideal / ideal.sum()).pvalue > ALPHA) == right


def test_mean_is_the_sum_over_n():
    common = {"n": 1000, "epsilon": 1.0, "delta": 1e-6, "lower": 5, "upper": 15}
    values = np.random.default_rng(1).integers(5, 16, 1000)
    total, mean = (
        sdp.run(make(**common, task=question), values, sdp.SeededWords(4))
        for question in ("sum", "mean")
    )
    assert mean.value == pytest.approx(total.value / 1000)
    np.testing.assert_allclose(mean.interval(0.9), np.array(total.interval(0.9)) / 1000)
    assert total.interval(0.9).low < total.value < total.interval(0.9).high


class TestRefusals:
    def test_other_messages(self):
        p = make(n=100, epsilon=1.0, delta=1e-6, lower=0, upper=1)
        with pytest.raises(sdp.DataError, match="message"):
            p.analyzer.tally(Shuffled(payload=np.array([1, 2, 1]), users=3))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"calibration": "paper"}, "calibration"),
            ({"n": 4, "ones": 100}, "n=3"),
            ({"ones": 0}, "ones"),
            ({"upper": 10**6, "ones": 1, "word_bits": 10}, "ones"),
            ({"upper": 0.5}, "upper"),
        ],
    )
    def test_parameters(self, change, message):
        common = {"n": 10_000, "epsilon": 1.0, "delta": 1e-6, "lower": 0, "upper": 10}
        with pytest.raises((sdp.ParameterError, sdp.UnsupportedError), match=message):
            make(**{**common, **change})


@pytest.mark.parametrize(
    ("fewest", "guess"), [(1, 1), (1, 50), (70, 10), (84, 10), (4096, 4100), (4096, 2100)]
)
def test_the_fewest_coins_are_found_from_any_guess_that_is_near(fewest, guess):
    assert _find_fewest(lambda coins: coins >= fewest, guess) == fewest


def test_coins_that_are_never_enough():
    assert _find_fewest(lambda _: False, 10) is None
    assert (
        _find_fewest(lambda coins: coins >= 85, 10) is None
    )  # far beyond the guess: other searches are faster
    assert _find_fewest(lambda coins: coins >= 4097, 4090) is None
