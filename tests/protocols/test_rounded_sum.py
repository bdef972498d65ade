"""Rounded sums: figures of the literature, the search for k, coverage."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest, chi2, chisquare

import shuffledp as sdp
from shuffledp import run_counts
from shuffledp.accounting.blanket import BlanketProfile
from shuffledp.accounting.moved_message import dummies
from shuffledp.core.protocol import Promise
from shuffledp.protocols.rounded_sum import (
    SPEC,
    RoundedResponse,
    RoundingSearch,
    largest_error,
    make,
)
from shuffledp.protocols.shared.joint import account
from shuffledp.protocols.shared.sums import bound_bias
from shuffledp.testing import Examples
from support import ALPHA

EXAMPLES = Examples(
    SPEC,
    shuffled=(
        {"n": 10000, "epsilon": 1.0, "delta": 1e-06, "lower": 0, "upper": 120},
        {
            "n": 100000,
            "epsilon": 0.5,
            "delta": 1e-08,
            "lower": -1.0,
            "upper": 1.0,
            "steps": 1000,
            "task": "mean",
        },
        {
            "n": 10000,
            "epsilon": 1.0,
            "delta": 1e-06,
            "lower": 0.0,
            "upper": 1.0,
            "steps": 100,
            "calibration": "paper",
        },
    ),
    shuffled_tiny=(
        {
            "n": 4,
            "epsilon": 1.0,
            "delta": 0.1,
            "lower": 0.0,
            "upper": 1.0,
            "steps": 4,
            "levels": 2,
            "honest": 1.0,
            "word_bits": 6,
        },
        {
            "n": 3,
            "epsilon": 0.5,
            "delta": 0.1,
            "lower": -1,
            "upper": 4,
            "levels": 2,
            "task": "mean",
            "honest": 1.0,
            "word_bits": 6,
        },
    ),
)


FINE = 2**20


def fine(**parameters):
    return make(lower=0.0, upper=1.0, steps=FINE, honest=1.0, **parameters)


def worst(protocol):
    device = protocol.randomizer
    return math.sqrt(protocol.users * largest_error(device.levels, float(1 - device.b)))


@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "figure"),
    [
        (10**3, 1.0, 1e-6, 9.3),
        (10**3, 2.0, 1e-6, 6.8),
        (10**6, 0.1, 1e-6, 110),
        (10**6, 1.0, 1e-6, 26.8),
        (10**6, 1.0, 1e-10, 33.5),
        (10**6, 2.0, 1e-6, 20.1),
        (10**9, 1.0, 1e-6, 83.7),
    ],
)
def test_error_is_at_most_the_known_figure(n, epsilon, delta, figure):
    """Those figures bound the rounding and the lies separately: a little more than the worst case."""
    p = fine(n=n, epsilon=epsilon, delta=delta)
    assert 0.9 * figure < worst(p) <= figure
    assert p.cost.messages_max == 1
    assert p.guarantee.delta <= delta


@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "figure"),
    [(10**6, 0.1, 1e-6, 230), (10**6, 1.0, 1e-6, 44.9), (10**9, 1.0, 1e-10, 166)],
)
def test_published_constants(n, epsilon, delta, figure):
    p = fine(n=n, epsilon=epsilon, delta=delta, calibration="paper")
    symbols = p.randomizer.levels + 1
    gamma = 14 * symbols * math.log(2 / delta) / ((n - 1) * epsilon**2)
    assert float(1 - p.randomizer.b) == pytest.approx(gamma, rel=1e-6)
    assert 0.93 * figure < worst(p) <= figure
    exact = fine(n=n, epsilon=epsilon, delta=delta, levels=p.randomizer.levels)
    ratio = float((1 - p.randomizer.b) / (1 - exact.randomizer.b))
    assert 4 <= ratio <= 8.1


def test_largest_error_is_the_largest():
    for k, share in ((1, 0.05), (3, 0.03), (7, 0.004), (30, 0.02)):
        domain = sdp.Reals(lower=0.0, upper=1.0, steps=128 * k)
        device = RoundedResponse(domain=domain, levels=k, gamma=Fraction((k + 1) * share))
        p = make(n=10, epsilon=1.0, delta=0.1, lower=0.0, upper=1.0, steps=128 * k, levels=k)
        analyzer = replace(p.analyzer, device=device)
        users = np.eye(128 * k + 1, dtype=np.int64)[: 64 * k : max(1, k // 3)]
        errors = [analyzer.variance(row) for row in users]
        bound = largest_error(k, float(1 - device.b))
        assert max(errors) <= bound * (1 + 1e-12)
        assert max(errors) >= bound * 0.999


@pytest.mark.parametrize(("n", "epsilon"), [(1000, 1.0), (30_000, 0.5)])
def test_no_other_number_of_levels_is_better(n, epsilon):
    best = fine(n=n, epsilon=epsilon, delta=1e-6)
    k = best.randomizer.levels
    others = [
        worst(fine(n=n, epsilon=epsilon, delta=1e-6, levels=other))
        for other in (k - 2, k - 1, k + 1, k + 2)
        if other >= 1
    ]
    assert worst(best) <= min(others) * (1 + 1e-3)


def test_delta_agrees_with_lies_in_two_bins():
    """All who lie are dummies over the levels; a target who never lies is a little worse off."""
    p = fine(n=10**6, epsilon=1.0, delta=1e-6)
    pair = Fraction(2, p.randomizer.levels + 1)
    other = dummies(n=10**6 - 1, rho=1 - p.randomizer.b, pair=pair).delta(1.0)
    assert p.guarantee.delta <= other <= 1.05 * p.guarantee.delta


def test_nothing_smaller_would_do():
    p = fine(n=10_000, epsilon=1.0, delta=1e-6)
    weaker = replace(p.randomizer, gamma=(1 - p.randomizer.b) * Fraction(99, 100))
    assert weaker.delta(10_000, 1.0) > 1e-6


def test_few_values_are_not_rounded():
    p = make(n=10**6, epsilon=1.0, delta=1e-6, lower=0, upper=5)
    assert p.randomizer.levels == 5
    assert p.randomizer.worst_rounding == 0


def test_few_users_fall_back_on_their_own_guarantee():
    p = make(n=2, epsilon=1.0, delta=1e-6, lower=0, upper=5)
    assert p.local_floor.epsilon <= 1.0 + 1e-9
    assert p.guarantee.delta < 1e-14  # nothing but what rounding may have hidden


def crowd(kind, p, n):
    """Codes of n users: all halfway between two levels, or spread out."""
    steps, k = p.randomizer.domain.steps, p.randomizer.levels
    inputs = np.zeros(steps + 1, dtype=np.int64)
    if kind == "halfway":
        inputs[steps // (2 * k) + steps // k] = n
        return inputs
    return np.bincount(np.linspace(0, steps, n).astype(int), minlength=steps + 1)


def answers(p, inputs, runs, seed):
    rng = sdp.SeededWords(seed)
    return [run_counts(p, inputs, rng) for _ in range(runs)]


@pytest.mark.slow
@pytest.mark.parametrize(("level", "right"), [(0.95, True), (0.1, False)])
def test_coverage_in_the_worst_case(level, right):
    """The interval holds for all data with the same sum, so it covers more often than it must."""
    p = make(n=10_000, epsilon=1.0, delta=1e-6, lower=0.0, upper=1.0, steps=840)
    inputs = crowd("halfway", p, 10_000)
    truth = float(np.arange(841) @ inputs) / 840
    hits = 0
    for answer in answers(p, inputs, 1500, 1):
        low, high = answer.interval(level)
        hits += low <= truth <= high
    assert (binomtest(hits, 1500, 0.95, alternative="less").pvalue > ALPHA) == right


@pytest.mark.slow
def test_coverage_of_spread_values_is_at_least_the_level():
    p = make(n=1000, epsilon=1.0, delta=1e-6, lower=0.0, upper=1.0, steps=60)
    inputs = crowd("spread", p, 1000)
    truth = float(np.arange(61) @ inputs) / 60
    found = answers(p, inputs, 1000, 2)
    ends = [answer.interval(0.95) for answer in found]
    hits = sum(low <= truth <= high for low, high in ends)
    assert binomtest(hits, 1000, 0.95, alternative="less").pvalue > 0.01
    widths = [(high - low) / answer.stderr for answer, (low, high) in zip(found, ends, strict=True)]
    assert np.mean(widths) < 1.8 * 2 * 1.96


@pytest.mark.parametrize(("factor", "right"), [(1, True), (2, False)])
def test_squared_error_is_the_declared_variance(factor, right):
    """A device that lies twice as often must be noticed."""
    p = make(n=2000, epsilon=1.0, delta=1e-6, lower=-1.0, upper=1.0, steps=60)
    mutant = replace(p.randomizer, gamma=(1 - p.randomizer.b) * factor)
    inputs = crowd("spread", p, 2000)
    truth = float(p.randomizer.domain.values(np.arange(61)) @ inputs)
    lying = replace(p, randomizer=mutant, offers=replace(p.offers, deal=mutant.deal))
    runs = answers(lying, inputs, 1000, 3)
    terms = [(answer.value - truth) ** 2 / p.analyzer.variance(inputs) for answer in runs]
    low, high = (chi2.ppf(q, 1000) for q in (ALPHA / 2, 1 - ALPHA / 2))
    assert (low < sum(terms) < high) == right


@pytest.mark.parametrize(("factor", "right"), [(1, True), (2, False)])
def test_dealt_levels_have_the_law_of_the_messages(factor, right):
    """At production width; a device that lies twice as often must be noticed."""
    p = make(n=2000, epsilon=1.0, delta=1e-6, lower=-1.0, upper=1.0, steps=60)
    device = p.randomizer
    mutant = replace(device, gamma=(1 - device.b) * factor)
    for x in (0, 7, 60):
        dealt = mutant.deal(np.eye(61, dtype=int)[x] * 10**6, sdp.SeededWords(x)).counts
        ideal = [float(device.pmf(x)[(y,)]) for y in range(device.levels + 1)]
        assert (chisquare(dealt, 10**6 * np.array(ideal)).pvalue > ALPHA) == right


class TestRefusals:
    def test_levels_that_do_not_fit_the_grid(self):
        # A third of three symbols' words would have to be a third of a power of two.
        with pytest.raises(sdp.ParameterError, match="levels"):
            make(n=1000, epsilon=1.0, delta=1e-6, lower=0, upper=3, levels=2)

    def test_the_search_passes_them_by(self):
        search = RoundingSearch(
            n=10**6, epsilon=1.0, delta=1e-6, possible=lambda k: k % 2 == 0, most=1000
        )
        assert search.calibrate(None)[0] in (32, 34)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"epsilon": 1.5, "calibration": "paper"}, "epsilon=1.5"),
            ({"n": 100, "calibration": "paper"}, "n="),
            ({"levels": 0}, "levels"),
            ({"levels": 11}, "levels"),
            ({"lower": 0.5}, "lower"),
            ({"task": "count"}, "task"),
        ],
    )
    def test_parameters(self, change, message):
        common = {"n": 10_000, "epsilon": 1.0, "delta": 1e-6, "lower": 0, "upper": 10}
        with pytest.raises((sdp.ParameterError, sdp.UnsupportedError), match=message):
            make(**{**common, **change})


@pytest.mark.parametrize("n", [10, 1000])
def test_the_bias_of_places_adds_up(n):
    domain = sdp.Reals(lower=0.0, upper=8.0, steps=16)
    assert bound_bias(domain, "sum", n) == pytest.approx(n * bound_bias(domain, "sum", 1))
    assert bound_bias(domain, "mean", n) == pytest.approx(bound_bias(domain, "mean", 1))
    assert 8.0 * 2.0**-42 < bound_bias(domain, "mean", n) < 8.0 * 2.0**-40


def test_a_survey_asks_the_whole_curve_at_once():
    """One by one, the points of the curve took most of the time of a mean that is the ratio of two sums."""
    protocol = make(n=1000, epsilon=9.0, delta=1e-6, lower=0, upper=6)
    joint = account([protocol, protocol], Promise(epsilon=9.0, delta=1e-6))
    asked, deltas = [], BlanketProfile.deltas

    def count(curve, epsilons):
        asked.append(len(epsilons))
        return deltas(curve, epsilons)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BlanketProfile, "deltas", count)
        joint.delta(900, 9.0)
    assert max(asked) > 60
    assert len(asked) < 40
