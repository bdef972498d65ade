"""Split and mix: figures, guarantees, and what goes wrong when something is missing."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

import shuffledp as sdp
from shuffledp import run_counts
from shuffledp.accounting.exact import shuffled_delta
from shuffledp.core.randomizer import Shuffled, forget
from shuffledp.numerics.intervals import DiscreteLaplace
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols.split_and_mix import SPEC, make
from shuffledp.protocols.split_and_mix.noise import NoiseShare
from shuffledp.testing import Examples
from support import ALPHA

EXAMPLES = Examples(
    SPEC,
    shuffled=(
        {"n": 100000, "epsilon": 1.0, "delta": 1e-08, "lower": 0, "upper": 120},
        {
            "n": 10000,
            "epsilon": 0.5,
            "delta": 1e-06,
            "lower": -1.0,
            "upper": 1.0,
            "steps": 1000,
        },
        {
            "n": 1000,
            "epsilon": 1.0,
            "delta": 1e-06,
            "lower": 0,
            "upper": 1,
            "task": "mean",
            "calibration": "paper",
            "honest": 1.0,
        },
    ),
    shuffled_tiny=(
        {
            "n": 2,
            "epsilon": 0.5,
            "delta": 0.65,
            "lower": 3,
            "upper": 4,
            "honest": 1.0,
            "wrap": 0.9,
            "word_bits": 2,
        },
    ),
)


def rmse(protocol):
    return math.sqrt(protocol.analyzer.variance(np.array([protocol.users])))


@pytest.mark.parametrize(("n", "steps"), [(10**4, 1000), (10**6, 10_000)])
def test_real_sums_are_as_good_as_central(n, steps):
    p = make(n=n, epsilon=1.0, delta=1e-6, lower=0.0, upper=1.0, steps=steps, honest=1.0)
    assert rmse(p) <= math.sqrt(2) * 1.0001
    assert p.cost.messages_max <= 8
    # Rounding at random costs a variance of at most 1/4 of a squared step each.
    assert math.hypot(rmse(p), math.sqrt(n / 4) / steps) <= math.sqrt(2) * 1.01


def test_counting():
    p = make(n=10**6, epsilon=1.0, delta=1e-6, lower=0, upper=1, honest=1.0)
    assert rmse(p) <= 1.37
    assert p.cost.messages_max == 6
    assert not p.cost.count_depends_on_value


@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "messages"),
    [
        (10**3, 0.1, 1e-6, 8),
        (10**3, 0.1, 1e-10, 10),
        (10**3, 1.0, 1e-6, 8),
        (10**3, 2.0, 1e-10, 11),
        (10**6, 0.1, 1e-6, 6),
        (10**6, 0.1, 1e-10, 7),
        (10**6, 1.0, 1e-6, 6),
        (10**6, 1.0, 1e-10, 8),
        (10**6, 2.0, 1e-10, 8),
        (10**9, 0.1, 1e-6, 5),
        (10**9, 1.0, 1e-6, 6),
    ],
)
def test_messages_are_few(n, epsilon, delta, messages):
    steps = math.ceil(10 * epsilon * math.sqrt(n))
    common = {"n": n, "epsilon": epsilon, "delta": delta, "lower": 0.0, "upper": 1.0}
    p = make(**common, steps=steps, honest=1.0)
    assert p.cost.messages_max <= messages
    assert p.guarantee.delta <= delta
    paper = make(**common, steps=steps, honest=1.0, calibration="paper")
    assert paper.cost.messages_max >= p.cost.messages_max
    assert paper.guarantee.delta <= delta


def test_one_share_less_is_not_enough():
    p = make(n=10_000, epsilon=1.0, delta=1e-6, lower=0, upper=100)
    fewer = replace(p.randomizer, shares=p.randomizer.shares - 1)
    assert fewer.delta(9000, 1.0) > 1e-6


def test_exact_divergence_with_more_shares():
    p = make(n=2, epsilon=1.0, delta=0.45, lower=0, upper=1, honest=1.0, wrap=0.9, word_bits=3)
    laws = [p.randomizer.pmf(x) for x in range(2)]
    exact = float(shuffled_delta(laws, 2, exp_lower(1.0)))
    assert p.randomizer.shares == 7
    assert 0.1 < exact <= p.guarantee.delta <= 0.45


def test_without_noise_the_exact_divergence_is_large():
    """The twin of the test above: shares alone hide no sum."""
    p = make(n=2, epsilon=1.0, delta=0.25, lower=0, upper=1, honest=1.0, wrap=0.9, word_bits=2)
    silent = NoiseShare(rate=Fraction(1), parts=2, word_bits=2)
    object.__setattr__(silent, "threshold", 0)
    device = replace(p.randomizer, noise=silent)
    exact = shuffled_delta([device.pmf(x) for x in range(2)], 2, exp_lower(1.0))
    assert exact > Fraction(9, 10)


@pytest.mark.parametrize("lower", [-5, 0, 1000])
def test_small_sums_may_fall_below_the_smallest(lower):
    """The noise wraps around modulo q, and back: no estimate is off by q."""
    p = make(n=100, epsilon=0.5, delta=1e-6, lower=lower, upper=lower + 1)
    values = [
        sdp.run(p, np.full(100, lower), sdp.SeededWords(seed)).value - 100 * lower
        for seed in range(30)
    ]
    assert min(values) < 0 < max(values)
    assert max(map(abs, values)) < 60


def test_the_largest_sums_fit():
    p = make(n=1000, epsilon=1.0, delta=1e-6, lower=0.0, upper=1.0, steps=100)
    for seed in range(5):
        assert abs(sdp.run(p, np.ones(1000), sdp.SeededWords(seed)).value - 1000) < 30


def test_mean_is_the_sum_over_n():
    common = {"n": 1000, "epsilon": 1.0, "delta": 1e-6, "lower": -1.0, "upper": 3.0, "steps": 400}
    values = np.random.default_rng(1).uniform(-1, 3, 1000)
    total, mean = (
        sdp.run(make(**common, task=question), values, sdp.SeededWords(4))
        for question in ("sum", "mean")
    )
    assert mean.value == pytest.approx(total.value / 1000)
    assert mean.stderr == pytest.approx(total.stderr / 1000)
    assert mean.limits == (-1.0, 3.0)
    np.testing.assert_allclose(mean.interval(0.9), np.array(total.interval(0.9)) / 1000)


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.2, False)])
def test_squared_error_is_the_declared_variance(factor, right):
    """By direct simulation of the tally; noise of another rate must be noticed."""
    p = make(n=1000, epsilon=1.0, delta=1e-6, lower=0, upper=10)
    noise = NoiseShare(rate=p.randomizer.noise.rate * Fraction(factor), parts=900)
    device = replace(p.randomizer, noise=noise)
    mutant = replace(p, randomizer=device, offers=replace(p.offers, deal=device.deal))
    inputs, rng = np.full(11, 1000 // 11), sdp.SeededWords(5)
    truth = float((np.arange(11) * inputs).sum())
    errors = np.array([run_counts(mutant, inputs, rng).value - truth for _ in range(3000)])
    # A square has 5 times the variance of a normal one: the fourth moment of Laplace noise is 6.
    ratio = (errors**2).mean() / p.analyzer.variance(inputs)
    spread = 2.5
    low, high = (chi2.ppf(q, 3000 / spread) / (3000 / spread) for q in (ALPHA / 2, 1 - ALPHA / 2))
    assert (low < ratio < high) == right


@pytest.mark.slow
@pytest.mark.parametrize(("level", "right"), [(0.95, True), (0.9, False)])
def test_coverage(level, right):
    """An interval of 90 % passed off as 95 % must be noticed."""
    p = make(n=10_000, epsilon=1.0, delta=1e-6, lower=0, upper=100)
    inputs, rng = np.full(101, 99), sdp.SeededWords(6)
    truth = float(np.arange(101) @ inputs)
    hits = 0
    for _ in range(2000):
        low, high = run_counts(p, inputs, rng).interval(level)
        hits += low <= truth <= high
    assert (binomtest(hits, 2000, 0.95).pvalue > ALPHA) == right


def test_exact_coverage():
    p = make(n=10_000, epsilon=1.0, delta=1e-6, lower=0, upper=100, honest=1.0)
    low, high = run_counts(p, np.eye(101, dtype=int)[0] * 10_000, sdp.SeededWords(1)).interval(0.95)
    radius = math.floor((high - low) / 2 + 1e-6)
    outside = DiscreteLaplace(rate=Fraction(1, 100)).tail(radius)[1]
    assert 0.945 <= 1 - outside <= 0.9505


def test_dropouts_cost_delta_and_more_users_do_not_hurt():
    p = make(n=10_000, epsilon=1.0, delta=1e-6, lower=0, upper=100)
    deltas = [p.guarantee_if(honest=h).delta for h in (1.0, 0.95, 0.9, 0.89, 0.5, 0.0001)]
    assert max(deltas[:3]) <= 1e-6
    assert 1e-3 < deltas[3] < 0.01 < deltas[4] < deltas[5] == 1


class TestRefusals:
    def test_a_missing_share(self):
        p = make(n=100, epsilon=1.0, delta=1e-6, lower=0, upper=1)
        sent = forget(sdp.randomize(p.randomizer, [0] * 100, sdp.SeededWords(1)))
        with pytest.raises(sdp.DataError, match="without all of them"):
            p.analyzer.tally(Shuffled(payload=sent.payload[1:], users=100))

    def test_a_message_outside_the_group(self):
        p = make(n=100, epsilon=1.0, delta=1e-6, lower=0, upper=1)
        payload = np.full(p.randomizer.shares, p.randomizer.modulus, dtype=np.uint64)
        with pytest.raises(sdp.DataError, match="outside"):
            p.analyzer.tally(Shuffled(payload=payload, users=1))

    def test_far_more_users_than_expected(self):
        p = make(n=100, epsilon=1.0, delta=1e-6, lower=0, upper=100)
        with pytest.raises(sdp.DataError, match="modulus"):
            sdp.run(p, [1] * 1000, sdp.SeededWords(1))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"calibration": "paper", "n": 15, "honest": 1.0}, "n=15"),
            ({"calibration": "rough"}, "calibration"),
            ({"task": "count"}, "task"),
            ({"n": 2}, "honest"),
            ({"delta": 1e-16}, "delta"),
            ({"upper": 10**7}, "steps"),
            ({"upper": 0.5}, "upper"),
            ({"word_bits": 6}, "word_bits"),
            ({"wrap": 0.0}, "wrap"),
        ],
    )
    def test_parameters(self, change, message):
        common = {"n": 1000, "epsilon": 1.0, "delta": 1e-6, "lower": 0, "upper": 1}
        with pytest.raises((sdp.ParameterError, sdp.UnsupportedError), match=message):
            make(**{**common, **change})
